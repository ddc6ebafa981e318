"""The layers of a student's module, by names, shapes and order: of a block, a stack, a whole model.

A student may name and nest the layers in any way. What tells them apart is their shape (an attention is four square
maps, a norm two vectors as wide as a token, a feed-forward network two linear maps of which one undoes the shape of
the other), then their names, then the order in which they were declared. Three steps, for labs 5, 6 and 7 alike:

    found = units(parameters, d_model, n_heads)              # what is there, in declared order
    for norms in orders(of_kind(found, "norm"), ("norm_1", "norm_2"), n_layers, "norm", found):
        for attentions in orders(of_kind(found, "attention"), ("attention",), n_layers, among=found):
            weights = named(norms) | named(attentions) | …   # by the names that headroom.reference uses
    call(empty(reference.Encoder, build), weights, inputs)   # the right answer with the student's numbers

(a block is no stack: `orders(norms, ("norm_1", "norm_2"))`.)
`orders` begins with the likeliest way and goes on through what names cannot settle: two norms declared the other way
round, self- and cross-attention exchanged, lists for each kind of layer in place of a list of blocks. What a student
has left out gets numbers of its own, so that the answer differs and the mistake can still be looked for. A reading
is a guess about names only: whether it is the right one shows in the outputs.
"""

import contextlib
import itertools
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from autograder.exercise import Build, Parameter, Weights

Parameters = Mapping[str, tuple[Parameter, Tensor]]  # the student's, by name, in declared order

# Words in the student's names that speak of a role in an attention.
WORDS = {
    "qkv": {"qkv", "wqkv", "bqkv", "toqkv"},
    "kv": {"kv", "wkv", "bkv", "tokv"},
    "q": {"q", "wq", "bq", "qs", "toq", "qproj", "query", "queries", "fcq", "linearq"},
    "k": {"k", "wk", "bk", "ks", "tok", "kproj", "key", "keys", "fck", "lineark"},
    "v": {"v", "wv", "bv", "vs", "tov", "vproj", "value", "values", "fcv", "linearv"},
    "o": {
        "o",
        "wo",
        "bo",
        "out",
        "output",
        "toout",
        "oproj",
        "outproj",
        "fco",
        "linearo",
        "merge",
        "mix",
        "unify",
        "unifyheads",
    },
}


def role_of(name: str) -> str | None:
    """The role that a parameter's name speaks of: "q", "k", "v", "qkv", "o", or None."""
    words = words_in(name)
    return next((role for role, known in WORDS.items() if known & words), None)


def words_in(name: str) -> set[str]:
    """The words of a name, in lower case: those of `wQuery`, of `w_query` and of `w.query` are the same."""
    return set(re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()))


def four_maps(parameters: dict[str, tuple[Parameter, Tensor]], build: Build) -> Iterator[Weights]:
    """The likeliest way to read the parameters as four maps, `(rows, d_in)` like the weight of nn.Linear.

    By names that say a role, heads side by side, one map for q, k and v cut in three; what has no such name takes
    the roles that are left as it was declared. A raw tensor multiplies from the right.
    """
    grouped: dict[str, list[Tensor]] = {}
    unknown: list[tuple[str, Tensor]] = []
    for name, (_, tensor) in parameters.items():
        if tensor.shape == (build[1], build[0] // build[1]) and name.rpartition(".")[2].lower().startswith("b"):
            tensor = tensor.flatten()  # a bias with a row for each head
        kind, role = "bias" if tensor.dim() == 1 else "weight", role_of(name)
        if kind == "weight" and not name.endswith("weight"):
            tensor = tensor.flatten(0, -2).T if tensor.dim() == 3 and role == "o" else tensor.mT.flatten(0, -2)
        several = "qkv" if role in (None, "qkv", "o") else "kv" if role == "kv" else ""
        if several and len(tensor) == len(several) * build[0]:
            for part, piece in zip(several, tensor.chunk(len(several)), strict=True):
                grouped.setdefault(f"{part}_{kind}", []).append(piece)
        elif role in ("q", "k", "v", "o"):
            grouped.setdefault(f"{role}_{kind}", []).append(tensor)
        elif tensor.shape == (build[0],) * (1 + (kind == "weight")):
            unknown.append((kind, tensor))
    nameless = [role for role in "qkvo" if f"{role}_weight" not in grouped]
    for kind in ("weight", "bias"):
        left = [tensor for other, tensor in unknown if other == kind]
        if kind == "weight" or len(left) >= len(nameless):
            grouped |= {f"{role}_{kind}": [tensor] for role, tensor in zip(nameless, left, strict=False)}
    yield {role: torch.cat(pieces) for role, pieces in grouped.items()}


# What γ and β are called: words that are believed even where effects are seen, and others that may mean anything.
GAIN, SHIFT = {"gamma", "weight", "scale", "gain"}, {"beta", "bias", "shift", "offset"}
GAMMA, BETA = GAIN | {"g", "alpha", "a", "a_2"}, SHIFT | {"b", "b_2"}


def gain_and_shift(parameters: dict[str, tuple[Parameter, Tensor]], build: Build) -> Iterator[Weights]:
    """γ and β by name; where names say nothing, by the values they start from (1 and 0)."""
    d_model = build[0]
    right = {name: pair for name, pair in parameters.items() if pair[1].numel() == d_model}
    roles: Weights = {}
    for name, (parameter, tensor) in right.items():
        last = name.lower().split(".")[-1]
        by_name = "gamma" if last in GAMMA else "beta" if last in BETA else None
        role = by_name or ("gamma" if parameter.constant == 1 else "beta" if parameter.constant == 0 else None)
        if role:
            roles[role] = tensor.reshape(d_model)
    yield roles


@dataclass(frozen=True, eq=False)
class Unit:
    """One layer of the student's module.

    Attributes:
        kind: "attention", "norm", "feed_forward", "linear" (any other map, convolution or table) or "tensor" (a bare
            parameter).
        name: the path in the student's module, such as "blocks.0.norm_1".
        tensors: by the names that headroom.reference gives them ("w_q.weight", "gamma", "expand.bias", "weight"; ""
            for a bare tensor), as far as names and shapes tell.
    """

    kind: str
    name: str
    tensors: Weights


def units(parameters: Parameters, d_model: int, n_heads: int) -> list[Unit]:
    """The layers that parameters belong to, in declared order (bare tensors of the outermost module come first)."""
    left, found = dict(parameters), {}
    place = {name: n for n, name in enumerate(parameters)}
    inside: dict[str, list[str]] = {"": list(parameters)}  # by the path of each module that holds parameters
    owned: dict[str, list[str]] = {}  # by the module that a parameter stands in
    maps: dict[str, list[str]] = {}  # weights of the layers that stand in a module, by its path
    for name in parameters:
        owner, _, leaf = name.rpartition(".")
        owned.setdefault(owner, []).append(name)
        for path in itertools.accumulate(owner.split(".") if owner else (), "{}.{}".format):
            inside.setdefault(path, []).append(name)
        if owner and leaf == "weight":
            maps.setdefault(owner.rpartition(".")[0], []).append(name)
    innermost_first = sorted(inside, key=lambda path: (not path, -path.count(".")))

    def take(kind: str, path: str, names: Sequence[str], tensors: Weights) -> None:
        found[min(place[name] for name in names)] = Unit(kind, path, tensors)
        for name in names:
            del left[name]

    def take_attention(path: str, names: Sequence[str]) -> None:
        own = {name[len(path) + 1 if path else 0 :]: left[name] for name in names}
        if tensors := _attention(own, d_model, n_heads):
            take("attention", path, names, tensors)

    for path in innermost_first:
        take_attention(path, [name for name in inside[path] if name in left])
    for path in innermost_first:  # maps that stand in a block as they are: their names say which is which
        standing = [name for name in maps.get(path, ()) if name in left]
        named = [name for name in standing if role_of(name[len(path) :])]
        if len(others := [n for n in standing if n not in named and left[n][1].shape == (d_model, d_model)]) == 1:
            named += others if named and not any(role_of(name[len(path) :]) == "o" for name in named) else []
        owners = {name.rpartition(".")[0] for name in named}
        own = [name for name in owned.get(path, ()) if name in left]
        bare = {name for name in own if role_of(name[len(path) :]) or name.removesuffix("_bias") in owners}
        take_attention(path, [n for n in inside[path] if n in left and (n in bare or n.rpartition(".")[0] in owners)])
    for path in innermost_first:  # norms whose γ are the rows of one table, and whose β are those of another
        tables = {n.rpartition(".")[2].lower(): n for n in owned.get(path, ()) if n in left and left[n][1].dim() == 2}
        gammas = [name for word, name in tables.items() if word in GAMMA - {"weight"}]
        betas = [name for word, name in tables.items() if word in BETA - {"bias"}]
        shapes = {tuple(left[name][1].shape) for name in gammas + betas}
        if len(gammas) == len(betas) == len(shapes) == 1 and shapes.pop()[1] == d_model:
            rows = zip(left.pop(gammas[0])[1], left.pop(betas[0])[1], strict=True)
            for n, (gamma, beta) in enumerate(rows):
                unit = Unit("norm", f"{gammas[0]}.{n}", {"gamma": gamma, "beta": beta})
                found[place[gammas[0]] + n / 1_000] = unit
    for path in innermost_first:
        names = [name for name in owned.get(path, ()) if name in left]
        own = {name.rpartition(".")[2]: left[name] for name in names}
        if path and names and all(tensor.shape == (d_model,) for _, tensor in own.values()):
            (read,) = gain_and_shift(own, (d_model,))
            read |= {part: numbers(path + part, (d_model,)) for part in ("gamma", "beta") if part not in read}
            take("norm", path, names, read)
        elif "weight" in own:
            tensors = {"weight": own.pop("weight")[1].squeeze()}
            if "bias" in own:
                tensors["bias"] = own.pop("bias")[1]
            take("linear", path, [f"{path}.{part}".lstrip(".") for part in tensors], tensors)
    for name in list(left):
        take("tensor", name, [name], {"": parameters[name][1]})
    return _feed_forwards([found[at] for at in sorted(found)], d_model)


def of_kind(found: Sequence[Unit], kind: str) -> list[Unit]:
    return [unit for unit in found if unit.kind == kind]


def _inside(name: str, path: str) -> bool:
    return not path or name == path or name.startswith(path + ".")


def _attention(own: Parameters, d_model: int, n_heads: int) -> Weights:
    """Parameters as four square maps, if they are that and nothing else."""
    size = sum(tensor.numel() for _, tensor in own.values()) - 4 * d_model**2
    if not 0 <= size <= 4 * d_model or size % d_model:
        return {}
    with contextlib.suppress(RuntimeError):  # heads of many shapes
        weights = next(four_maps(dict(own), (d_model, n_heads)))
        squares = [weights.get(f"{role}_weight") for role in "qkvo"]
        if all(square is not None and square.shape == (d_model, d_model) for square in squares):
            return {f"w_{role.replace('_', '.')}": tensor for role, tensor in weights.items()}
    return {}


def _feed_forwards(found: list[Unit], d_model: int) -> list[Unit]:
    """Joins every two maps, of which one widens tokens and one narrows them again, into one unit."""
    maps = [unit for unit in found if _is_wide(unit, d_model)]
    vectors = [unit for unit in found if unit.kind == "tensor" and unit.tensors[""].dim() == 1]
    joined = []
    while len(maps) > 1:
        first = maps.pop(0)
        shape = _matrix(first).shape
        second = next((unit for unit in maps if _matrix(unit).shape == shape[::-1]), None)
        if second is None:
            continue
        maps.remove(second)
        pair = [first, second]
        raw = any(unit.kind == "tensor" for unit in pair)
        used = [*pair]
        if raw:  # biases are bare tensors too, one as wide as a token, one as what is inside
            for size in shape:
                used += [vector for vector in vectors if len(vector.tensors[""]) == size and vector not in used][:1]
            vectors = [vector for vector in vectors if vector not in used]
        biases = [unit.tensors[""] for unit in sorted(used[2:], key=found.index)]
        name = _shared(first.name, second.name)
        place = max(found.index(unit) for unit in pair)
        joined.append((place, Unit("feed_forward", name, _as_feed_forward(pair, biases, d_model)), used))
    for place, unit, _ in joined:
        found[place] = unit
    gone = [id(unit) for _, _, used in joined for unit in used]
    return [unit for unit in found if id(unit) not in gone]


def _matrix(unit: Unit) -> Tensor:
    return unit.tensors["weight" if unit.kind == "linear" else ""]


def _is_wide(unit: Unit, d_model: int) -> bool:
    return unit.kind in ("linear", "tensor") and _matrix(unit).dim() == 2 and d_model in _matrix(unit).shape


def _as_feed_forward(pair: list[Unit], biases: list[Tensor], d_model: int) -> Weights:
    """Two maps as `expand` and `shrink`, in this order if both are square; bare matrices are read as in x @ W."""
    weights = {}
    for unit in pair:
        matrix = _matrix(unit).T if unit.kind == "tensor" else _matrix(unit)
        role = "expand" if matrix.shape[1] == d_model and "expand.weight" not in weights else "shrink"
        weights[f"{role}.weight"] = matrix
        at = next((n for n, bias in enumerate(biases) if len(bias) == len(matrix)), None)
        bias = biases.pop(at) if at is not None and unit.kind == "tensor" else unit.tensors.get("bias")
        if bias is not None:
            weights[f"{role}.bias"] = bias
    return weights


def _shared(a: str, b: str) -> str:
    """The innermost module that holds both."""
    steps = zip(a.split("."), b.split("."), strict=False)
    return ".".join(x for x, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], steps))


# --- Which unit is which -----------------------------------------------------------------------------------------

# Words in the student's names that speak of a role. They only decide which reading comes first.
HINTS = {
    "self_attention": {"self", "own", "masked", "causal", "mha", "attention", "attn"},
    "cross_attention": {"cross", "memory", "encoder", "enc", "source", "src", "context"},
    "norm_1": {"attention", "attn", "att", "mha", "self", "first", "pre"},
    "norm_2": {"cross", "ff", "ffn", "feed", "mlp", "second", "post", "memory"},
    "norm_3": {"ff", "ffn", "feed", "mlp", "third", "post"},
    "norm": {"final", "last", "end", "out", "top", "f"},
}


def orders(
    found: Sequence[Unit],
    roles: Sequence[str],
    layers: int | None = None,
    last: str | None = None,
    among: Sequence[Unit] = (),
    stack: str = "blocks",
) -> Iterator[dict[str, Unit]]:
    """Ways to give units of one kind the roles of a block, or of a stack of blocks, the likeliest first.

    Args:
        found: the units, in declared order.
        roles: of one block, as headroom.reference names them: ("norm_1", "norm_2").
        layers: the number of blocks; None: it is one block, and not a stack.
        last: the role of one more unit after all blocks.
        among: all units of the module, which show where a block begins and ends.
        stack: what headroom.reference calls the list of blocks.

    Yields:
        for each way, the unit of every role: "norm_1", or "blocks.0.norm_1" and so on in a stack. For what is left
        out, and if there is at least one unit of the kind, there is one that is not the student's. The number of
        ways does not depend on `layers`.
    """
    if layers is None:
        for order in _permuted(found, roles):
            yield _complete(order, roles, found)
        return
    slots = [f"{stack}.{layer}.{role}" for layer in range(layers) for role in roles]
    every = slots + ([last] if last else [])

    def in_blocks(blocks: list[str], way: int) -> dict[str, Unit]:
        order, outside = {}, [unit for unit in found if not any(_inside(unit.name, block) for block in blocks)]
        for layer, block in enumerate(blocks):
            inside = [unit for unit in found if _inside(unit.name, block)]
            sure = list(_permuted(inside, roles))[way]
            order |= {f"{stack}.{layer}.{role}": unit for role, unit in sure.items()}
        return _complete(order | ({last: outside[0]} if last and outside else {}), every, found)

    def in_sequence(by_role: bool, last_first: bool, way: int) -> dict[str, Unit]:
        renamed = dict(zip(roles, _ways(roles)[way], strict=True))
        sequence = [f"{layer}.{renamed[role]}" for layer, _, role in (slot.rpartition(".") for slot in slots)]
        if by_role:  # a list for each kind of layer
            sequence.sort(key=lambda slot: list(renamed.values()).index(slot.rpartition(".")[2]))
        sequence = [last, *sequence] if last and last_first else [*sequence, last] if last else sequence
        return _complete(dict(zip(sequence, found, strict=False)), every, found)

    ways = range(len(_ways(roles)))
    if blocks := _blocks(among or found, layers):
        yield from (in_blocks(blocks, way) for way in ways)
    elif len(roles) == 1 and not last:
        yield in_sequence(False, False, 0)
    else:
        single = _only_block(among or found)
        yield from (in_blocks([single], way) if single else in_sequence(not way % 2, False, 0) for way in ways)
        for last_first, by_role, way in itertools.product((False, True) if last else (False,), (True, False), ways):
            yield in_sequence(by_role, last_first, way)


def _ways(roles: Sequence[str]) -> list[tuple[str, ...]]:
    return list(itertools.permutations(roles))


def _permuted(found: Sequence[Unit], roles: Sequence[str]) -> Iterator[dict[str, Unit]]:
    """All ways to give units the roles of one block: by their numbers, by their names' words, as they were declared."""
    numbers = [tuple(map(int, re.findall(r"\d+", unit.name))) for unit in found]
    if len(set(numbers)) == len(found) and len(set(map(len, numbers))) == 1:
        found = [unit for _, unit in sorted(zip(numbers, found, strict=True), key=lambda pair: pair[0])]

    def surprise(order: tuple[str, ...]) -> int:
        words = (words_in(unit.name.rpartition(".")[2]) for unit in found)
        return -sum(bool(HINTS.get(role, set()) & own) for role, own in zip(order, words, strict=False))

    for order in sorted(itertools.permutations(roles), key=surprise):  # stable: as declared, where names say nothing
        yield dict(zip(order, found, strict=False))


def _blocks(found: Sequence[Unit], layers: int) -> list[str]:
    """The modules that are one block each, such as "blocks.0"; none if there are no such modules.

    A block's name ends in a number, it holds its share of the attentions, and something of everything that there is
    enough of. A block that is used in several layers is there once.
    """
    attentions = of_kind(found, "attention")
    plenty = {unit.kind for unit in found if len(of_kind(found, unit.kind)) >= len(attentions)}
    blocks = []
    for attention in attentions:
        for path in itertools.accumulate(attention.name.split("."), "{}.{}".format):  # outermost first
            inside = [unit for unit in found if _inside(unit.name, path)]
            share = len(of_kind(inside, "attention")) <= max(1, len(attentions) // layers)
            if path[-1:].isdigit() and share and plenty <= {unit.kind for unit in inside}:
                blocks.append(path)
                break
    blocks = list(dict.fromkeys(blocks))
    return blocks if len(blocks) <= layers and len(attentions) % max(1, len(blocks)) == 0 else []


def _only_block(found: Sequence[Unit]) -> str | None:
    """The module that holds all but the last norm, where there is a single block, used again and again."""
    attentions = of_kind(found, "attention")
    for path in itertools.accumulate(attentions[0].name.split("."), "{}.{}".format) if len(attentions) == 1 else ():
        inside = [unit for unit in found if _inside(unit.name, path)]
        if 1 < len(inside) < len(found):
            return path
    return None


def _complete(order: dict[str, Unit], roles: Sequence[str], found: Sequence[Unit]) -> dict[str, Unit]:
    """`order` with a unit of nobody's for every role that is left out, shaped like the first of the student's."""
    if found:
        order |= {role: _nobodys(role, found[0]) for role in roles if role not in order}
    return order


def _nobodys(role: str, like: Unit) -> Unit:
    return absent(like.kind, {part: tuple(tensor.shape) for part, tensor in like.tensors.items()}, role)


def absent(kind: str, shapes: Mapping[str, tuple[int, ...]], role: str = "") -> Unit:
    """A unit that the student does not have, with numbers of its own; shapes: of its tensors, by name."""
    return Unit(kind, "", {part: numbers(role + part, shape) for part, shape in shapes.items()})


def numbers(name: str, shape: tuple[int, ...]) -> Tensor:
    """Random numbers, always the same for a name: those of a parameter that the student does not have."""
    source = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return torch.randn(shape, generator=source, dtype=torch.float64)


def named(order: Mapping[str, Unit]) -> Weights:
    """The tensors of units by their full names in headroom.reference, such as "blocks.0.attention.w_q.weight"."""
    return {
        f"{role}.{part}".rstrip("."): tensor for role, unit in order.items() for part, tensor in unit.tensors.items()
    }
