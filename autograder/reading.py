"""How the judge reads the parameters of a module that is made of several layers: a block, a stack, a whole model.

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

Where no such reading fits, `by_effect` finds out what each parameter is by what it does, in any layout and by any
name: see there. It serves every exercise that says what its `roles` are (`roles_of` a module of headroom.reference).
"""

import contextlib
import functools
import itertools
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from autograder.exercise import Build, Inputs, Parameter, Role, Roles, Weights

Parameters = Mapping[str, tuple[Parameter, Tensor]]  # the student's, by name, in declared order


# Words in the student's names that speak of a role in an attention.
WORDS = {
    "qkv": {"qkv", "wqkv", "toqkv"},
    "kv": {"kv", "wkv", "tokv"},
    "q": {"q", "wq", "qs", "toq", "qproj", "query", "queries", "fcq", "linearq"},
    "k": {"k", "wk", "ks", "tok", "kproj", "key", "keys", "fck", "lineark"},
    "v": {"v", "wv", "vs", "tov", "vproj", "value", "values", "fcv", "linearv"},
    "o": {
        "o",
        "wo",
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
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())
    return next((role for role, known in WORDS.items() if known.intersection(words)), None)


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
    from autograder.exercises import layer_norm  # which imports this module, as other exercises do

    left, found = dict(parameters), {}

    def take(kind: str, path: str, names: Sequence[str], tensors: Weights) -> None:
        found[min(map(list(parameters).index, names))] = Unit(kind, path, tensors)
        for name in names:
            del left[name]

    for path in _paths(parameters):  # innermost first
        names = [name for name in left if _inside(name, path)]
        own = {name[len(path) + 1 if path else 0 :]: left[name] for name in names}
        if tensors := _attention(own, d_model, n_heads):
            take("attention", path, names, tensors)
    for path in _paths(parameters):  # maps that stand in a block as they are: their names say which is which
        maps = {n.rpartition(".")[0] for n in left if _is_map(n, path) and role_of(n[len(path) :])}
        names = [name for name in left if name.rpartition(".")[0] in maps]
        own = {name[len(path) + 1 if path else 0 :]: left[name] for name in names}
        if tensors := _attention(own, d_model, n_heads):
            take("attention", path, names, tensors)
    for path in _paths(parameters):
        names = [name for name in left if name.rpartition(".")[0] == path]
        own = {name.rpartition(".")[2]: left[name] for name in names}
        if path and names and all(tensor.shape == (d_model,) for _, tensor in own.values()):
            (read,) = layer_norm.mappings(own, (d_model,))
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


def _paths(parameters: Parameters) -> list[str]:
    """The modules that hold parameters, the innermost first, "" last."""
    paths = {path for name in parameters for path in itertools.accumulate(name.split(".")[:-1], "{}.{}".format)}
    return [*sorted(paths, key=lambda path: -path.count(".")), ""]


def _inside(name: str, path: str) -> bool:
    return not path or name == path or name.startswith(path + ".")


def _is_map(name: str, path: str) -> bool:
    """Whether it is the weight of a layer that stands directly in the module called `path`."""
    owner, _, leaf = name.rpartition(".")
    return leaf == "weight" and bool(owner) and owner.rpartition(".")[0] == path


def _attention(own: Parameters, d_model: int, n_heads: int) -> Weights:
    """Parameters as four square maps, if they are that and nothing else."""
    size = sum(tensor.numel() for _, tensor in own.values()) - 4 * d_model**2
    if not 0 <= size <= 4 * d_model or size % d_model:
        return {}
    from autograder.exercises import multi_head  # see `units`

    with contextlib.suppress(RuntimeError):  # heads of many shapes
        weights = next(multi_head.mappings(dict(own), (d_model, n_heads)))
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
                used += [vector for vector in vectors if len(vector.tensors[""]) == size][:1]
            vectors = [vector for vector in vectors if vector not in used]
        biases = {len(unit.tensors[""]): unit.tensors[""] for unit in used[2:]}
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


def _as_feed_forward(pair: list[Unit], biases: dict[int, Tensor], d_model: int) -> Weights:
    """Two maps as `expand` and `shrink`; bare matrices multiply from the right, as in x @ W."""
    weights = {}
    for unit in pair:
        matrix = _matrix(unit).T if unit.kind == "tensor" else _matrix(unit)
        role = "expand" if matrix.shape[1] == d_model else "shrink"
        weights[f"{role}.weight"] = matrix
        bias = unit.tensors.get("bias", biases.get(len(matrix)) if unit.kind == "tensor" else None)
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
        one = _only_block(among or found)
        yield from (in_blocks([one], way) if one else in_sequence(not way % 2, False, 0) for way in ways)
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
        return -sum(bool(HINTS.get(role, set()) & _words(unit)) for role, unit in zip(order, found, strict=False))

    for order in sorted(itertools.permutations(roles), key=surprise):  # stable: as declared, where names say nothing
        yield dict(zip(order, found, strict=False))


def _words(unit: Unit) -> set[str]:
    return set(re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", unit.name.rpartition(".")[2]).lower()))


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


@functools.cache
def empty(kind: type[nn.Module], build: Build) -> nn.Module:
    """A module of headroom.reference without numbers of its own: they come from the student."""
    with torch.device("meta"):
        return kind(*build).eval()


def call(module: nn.Module, weights: Weights, inputs: Inputs, **options: Any) -> Any:
    """What a module of headroom.reference returns with these weights: what the student's should.

    A bias that the student's layer doesn't have is 0.

    Raises:
        KeyError: a weight is missing. RuntimeError: one has another shape. The judge takes both as: no answer.
    """
    full = {}
    for name, own in module.named_parameters():
        if name in weights:
            full[name] = weights[name]
        elif name.endswith(".bias"):
            full[name] = torch.zeros(own.shape, dtype=next(iter(weights.values())).dtype)
        else:
            raise KeyError(name)
        if full[name].shape != own.shape:
            raise RuntimeError(f"{name} has shape {tuple(full[name].shape)}; it should be {tuple(own.shape)}")
    return functional_call(module, full, inputs, options)


# --- What a parameter is, by what it does ------------------------------------------------------------------------


IN_FAMILIES = ("w_q", "w_k", "w_v", "w_o")


def roles_of(module: nn.Module, n_heads: int = 1, demanded: Sequence[str] = ()) -> Roles:
    """The roles in a module of headroom.reference; demanded: the maps that must have a bias."""
    found = {}
    for name, parameter in module.named_parameters():
        numbered = re.fullmatch(r"(.*)\.(\d+)\.(.*)", name)
        kind = f"{numbered[1]}.{numbered[3]}" if numbered else name
        owner, _, leaf = name.rpartition(".")
        map_ = owner.rpartition(".")[2]
        sides: list[tuple[int, ...]] = [(n,) for n in parameter.shape]
        if map_ in IN_FAMILIES[:3] or (map_ == "w_o" and leaf == "weight"):
            cut = int(map_ == "w_o")
            sides[cut] = (n_heads, sides[cut][0] // n_heads)
        sides = [side for side in sides if math.prod(side) > 1]
        family = f"{owner.rpartition('.')[0]} {leaf}" if map_ in IN_FAMILIES else owner if leaf != "weight" else name
        optional = leaf == "bias" and map_ not in demanded
        layer = int(numbered[2]) if numbered else -1
        found[name] = Role(kind, tuple(parameter.shape), tuple(sides), layer, family, optional)
    return found


Key = tuple[tuple[str, ...], bool, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Place:
    """A way for a student's tensor to be part of the right answer: for each of its entries, which entry it is there.

    Attributes:
        key: what is the same in models of all sizes: the kinds of role, whether it is one head's, the order of axes.
        layer, head: whose.
        entries: numbers of entries, counted through all roles; empty for a tensor that is not used at all.
    """

    key: Key
    layer: int
    head: int
    entries: np.ndarray


@functools.cache
def _axis_orders(sides: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The orders of axes in which those of one side keep theirs; sides: how many axes each has."""
    ends = list(itertools.accumulate(sides))
    of = [range(end - n, end) for n, end in zip(sides, ends, strict=True)]
    every = itertools.permutations(range(ends[-1]))
    return [order for order in every if all(sorted(side, key=order.index) == [*side] for side in of)]


def _numbered(roles: Roles) -> dict[str, np.ndarray]:
    """The numbers of all entries of every role."""
    sizes = [math.prod(role.shape) for role in roles.values()]
    starts = itertools.accumulate(sizes, initial=0)
    return {n: np.arange(at, at + size) for (n, at, size) in zip(roles, starts, sizes, strict=False)}


def _groups(roles: Roles) -> Iterator[tuple[tuple[str, ...], int, list[str]]]:
    """Roles that may lie in one tensor: each alone, and two or three neighbours of one family in any order."""
    families: dict[tuple[str, int], list[str]] = {}
    for name, role in roles.items():
        yield (role.kind,), role.layer, [name]
        families.setdefault((role.family, role.layer), []).append(name)
    for (_, layer), family in families.items():
        for start, stop in ((0, 2), (1, 3), (0, 3)):
            for order in itertools.permutations(family[start:stop]) if stop <= len(family) else ():
                if stop - start == len(order) and len({roles[name].shape for name in order}) == 1:
                    yield tuple(roles[name].kind for name in order), layer, list(order)


def places(roles: Roles, sizes: set[int]) -> dict[int, list[Place]]:
    """All places for tensors of so many entries, by that number, the simplest first."""
    numbers_, found = _numbered(roles), {size: list[Place]() for size in sizes}
    for kinds, layer, names in _groups(roles):
        first, several = roles[names[0]], len(names) > 1
        same = all(roles[name].sides == first.sides for name in names)
        sides = first.sides if same else tuple((n,) for n in first.shape)
        total = len(names) * math.prod(first.shape)
        cut = next((at for at, side in enumerate(sides) if len(side) > 1), None)
        if total in found:
            whole = np.stack([numbers_[name] for name in names]).reshape(len(names), *itertools.chain(*sides))
            lengths = ((1,) if several else ()) + tuple(map(len, sides))
            for order in _axis_orders(lengths):
                axes = whole if several else whole[0]
                found[total].append(Place((kinds, False, order), layer, 0, axes.transpose(order).ravel()))
        if cut is None or total // sides[cut][0] not in found:
            continue
        for head in range(sides[cut][0]):
            whole = np.stack([numbers_[name] for name in names]).reshape(len(names), *itertools.chain(*sides))
            axes = whole.take(head, 1 + cut)
            lengths = ((1,) if several else ()) + (1,) * len(sides)
            for order in _axis_orders(lengths):
                part = (axes if several else axes[0]).transpose(order).ravel()
                found[total // sides[cut][0]].append(Place((kinds, True, order), layer, head, part))
    return found


def unsaid(parameters: Parameters, roles: Roles) -> set[str]:
    """The maps of attentions that no name speaks of, where these are several: which is which is a guess then."""
    said = {letter for name in parameters for letter in _said(name) or ""}
    found = {name for name, role in roles.items() if (letter := _letter(role.kind)) and letter not in said}
    return found if len({_letter(roles[name].kind) for name in found}) > 1 else set()


def _said(name: str) -> str | None:
    """The role in an attention that a name speaks of, the innermost word first."""
    return next(filter(None, map(role_of, reversed(name.split(".")))), None)


def _letter(kind: str) -> str | None:
    """Which of the four maps of an attention this is."""
    found = re.search(r"\bw_([qkvo])\.weight", kind)
    return found[1] if found else None


VECTORS = ("bias", "gamma", "beta", "class_token")
GAIN, SHIFT = {"gamma", "weight", "scale", "gain"}, {"beta", "bias", "shift", "offset"}


def _leaf(parameter: Parameter) -> str:
    return re.sub(r"(\.\d+)+$", "", parameter.name).rpartition(".")[2].lower()


def _stacks(parameters: Parameters, roles: Roles) -> frozenset[str]:
    """The names, without their numbers, of tensors that are no role, but each of whose rows may be one."""
    vectors, matrices = (
        {math.prod(role.shape) for role in roles.values() if role.kind.endswith(VECTORS) is kind}
        for kind in (True, False)
    )
    return frozenset(
        _stem(name)
        for name, (parameter, tensor) in parameters.items()
        if tensor.dim() > 1
        and tensor.numel()
        and tensor.numel() not in vectors | matrices
        and tensor[0].numel() in (vectors if parameter.constant in (0, 1) else matrices if tensor.dim() > 2 else ())
    )


def _unstacked(parameters: Parameters, stacks: frozenset[str]) -> dict[str, tuple[Parameter, Tensor]]:
    """The parameters, with the rows of stacks in place of these."""
    found = {}
    for name, (parameter, tensor) in parameters.items():
        if _stem(name) in stacks:
            rows = (
                (replace(parameter, name=f"{name}.{i}", shape=tuple(row.shape)), row) for i, row in enumerate(tensor)
            )
            found |= {row[0].name: row for row in rows}
        else:
            found[name] = parameter, tensor
    return found


def _may_be(parameter: Parameter, place: Place, gains: set[str] | None) -> bool:
    """Whether a parameter's name, and the values that it starts from, allow a place. Words for roles are believed.

    gains: the parameters that are known to be gains of norms; None: there are none.
    """
    (*others, kind), leaf = place.key[0], _leaf(parameter)
    if gains is not None and (parameter.name in gains) != kind.endswith("gamma"):
        return False
    if parameter.name.endswith(".weight") and len(parameter.shape) > 1 and place.key[2][-1] != max(place.key[2]):
        return False  # the weight of a layer has its inputs last
    if others:
        return True
    if kind.endswith("gamma"):
        return leaf not in SHIFT and parameter.constant != 0
    if kind.endswith("beta"):
        return leaf not in GAIN and parameter.constant != 1
    letter = _letter(kind.replace("bias", "weight"))
    return letter is None or _said(parameter.name) in (None, "qkv", "kv", letter)


Gradients = Mapping[str, np.ndarray | None]
Run = Callable[[Mapping[str, np.ndarray]], tuple[np.ndarray, Gradients] | None]
Answers = Callable[[Weights], Tensor]
MAX_RUNS = 30


@dataclass(frozen=True)
class Recipe:
    """A reading found in one model, for models of other sizes.

    Attributes:
        keys: for every name, its numbers left out: the places that tensors of this name take, each once.
        sequence: for every such name, which of layer, place and head the declared order counts through first.
        stacks: the names of those whose rows are tensors of their own.
    """

    keys: dict[str, list[Key]]
    sequence: dict[str, tuple[tuple[int, ...], bool]]
    stacks: frozenset[str]

    def read(self, parameters: Parameters, roles: Roles) -> Weights:
        """The roles, made of the parameters. KeyError: they cannot be."""
        parameters = _unstacked(parameters, self.stacks)
        sizes = {tensor.numel() for _, tensor in parameters.values()}
        every, chosen = places(roles, sizes), dict[str, Place]()
        for stem, names in _stems(parameters).items():
            keys = self.keys[stem]
            if not keys:
                continue
            fits = {
                name: {
                    (p.layer, keys.index(p.key), p.head): p for p in every[parameters[name][1].numel()] if p.key in keys
                }
                for name in names
            }
            order, last = self.sequence[stem]
            slots = sorted({slot for own in fits.values() for slot in own}, key=lambda s: _counted(s, order, last))
            for name, slot in zip(names, slots, strict=True):
                chosen[name] = fits[name][slot]
        return assembled(parameters, roles, chosen)


def _stems(parameters: Parameters) -> dict[str, list[str]]:
    """Names by what they are without their numbers, in declared order."""
    stems: dict[str, list[str]] = {}
    for name in parameters:
        stems.setdefault(_stem(name), []).append(name)
    return stems


def _stem(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _counted(slot: tuple[int, int, int], order: tuple[int, ...], last: bool) -> tuple[int, ...]:
    layer, key, head = slot
    parts = (1_000_000 if layer < 0 and last else layer, key, head)
    return tuple(parts[at] for at in order)


def _recipe(parameters: Parameters, chosen: Mapping[str, Place], stacks: frozenset[str]) -> Recipe | None:
    """What the places have in common; None where layers or heads do not stand in the order of their declaration."""
    keys, sequence = {}, {}
    for stem, names in _stems(parameters).items():
        taken = [chosen[name] for name in names if len(chosen[name].entries)]
        keys[stem] = list(dict.fromkeys(place.key for place in taken))
        if taken and len(taken) < len(names):
            return None
        slots = [(place.layer, keys[stem].index(place.key), place.head) for place in taken]
        ways = itertools.product(itertools.permutations(range(3)), (True, False))
        fits = (way for way in ways if slots == sorted(slots, key=lambda slot: _counted(slot, *way)))
        if (way := next(fits, None)) is None:
            return None
        sequence[stem] = way
    return Recipe(keys, sequence, stacks)


def assembled(parameters: Parameters, roles: Roles, chosen: Mapping[str, Place]) -> Weights:
    """The roles' tensors made of the student's, so that gradients flow back. KeyError: one is not whole."""
    entries = np.concatenate([np.zeros(0, dtype=int), *(place.entries for place in chosen.values())])
    values = [parameters[name][1].flatten() for name, place in chosen.items() if len(place.entries)]
    numbered = _numbered(roles)
    count = sum(map(len, numbered.values()))
    filled = np.bincount(entries, minlength=count)
    flat = torch.zeros(count, dtype=torch.float64).index_put((torch.from_numpy(entries),), torch.cat(values))
    weights = {}
    for name, role in roles.items():
        there = filled[numbered[name]]
        if (there == 1).all():
            weights[name] = flat[numbered[name][0] : numbered[name][-1] + 1].view(role.shape)
        elif there.any():
            raise KeyError(name)
        elif role.kind.endswith("bias") and not role.optional:
            weights[name] = numbers(name, role.shape)  # no zeros: then the answer differs, and a mistake can be found
    return weights


def by_effect(parameters: Parameters, roles: Roles, run: Run, answers: Sequence[Answers]) -> Recipe | None:
    """Find out which parameter is what by what each does.

    All matrices get one and the same number everywhere, so that it makes no difference how they are laid out. Then
    the gradient by every entry of a parameter is that by the entry that it is in the right answer: a place for a
    tensor is one where all gradients agree. What has one place only gets its own numbers, and others differ now that
    did not before; where several are left, each is tried.

    Args:
        parameters: the student's, with the numbers that they have in the end.
        roles: of the task, for the same sizes.
        run: the student's output and gradients with given numbers in the parameters; None if there are none.
        answers: the right answer, made of its roles; then others to try, where that is not what the student's does.
    """
    for sooner in (True, False):
        search = _Search(parameters, roles, run, sooner)
        if (sooner or search.unsure) and (recipe := search.found(answers)):
            return recipe
    return None


class _Search:
    """One way to begin; sooner: where sizes leave open whether a tensor is a vector, believe what it looks like."""

    def __init__(self, parameters: Parameters, roles: Roles, run: Run, sooner: bool):
        self.stacks = _stacks(parameters, roles)
        self.whole, self.roles, self.run, self.runs = parameters, roles, run, 0
        self.parameters = parameters = _unstacked(parameters, self.stacks)
        self.numbered = _numbered(roles)
        every = places(roles, {tensor.numel() for _, tensor in parameters.values()})
        starts = sum(tensor.numel() for _, tensor in self._gains())
        self.by_start = starts == sum(math.prod(role.shape) for role in roles.values() if role.is_gain)
        gains = {parameter.name for parameter, _ in self._gains()} if self.by_start else None
        self.open: dict[str, list[Place]] = {}
        self.unsure = False
        for name, (parameter, tensor) in parameters.items():
            fits = [place for place in every[tensor.numel()] if _may_be(parameter, place, gains)]
            vectors = [place for place in fits if place.key[0][-1].endswith(VECTORS)]
            matrices = [place for place in fits if place not in vectors]
            looks = parameter.constant == 0 or sum(n > 1 for n in parameter.shape) < 2
            self.open[name] = (vectors or matrices) if looks is sooner else (matrices or vectors)
            self.unsure |= bool(vectors and matrices)

    def _gains(self) -> list[tuple[Parameter, Tensor]]:
        """The parameters that start from 1, as the gain of a norm does."""
        return [(p, t) for p, t in self.parameters.values() if p.constant == 1 and _leaf(p) not in SHIFT]

    def found(self, answers: Sequence[Answers]) -> Recipe | None:
        base = np.concatenate([self._start(role) for role in self.roles.values()])
        chosen = {name: own[0] for name, own in self.open.items() if len(own) == 1}
        student = {}
        for name, own in self.open.items():
            values = base[own[0].entries] if own else np.zeros(self.parameters[name][1].numel())
            student[name] = values
        begun = self._with_own(student, base, chosen)
        told = self._told(begun[0])
        for answer in answers:
            places = self._from(answer, *begun, chosen, told)
            recipe = None if places is None else _recipe(self.parameters, places, self.stacks)
            if recipe is not None:
                return recipe
        return None

    def _start(self, role: Role) -> np.ndarray:
        """Numbers for a role to begin with: gains all the same vector, matrices a number, everything else 0."""
        size = math.prod(role.shape)
        if role.is_gain and self.by_start:
            return np.cos(np.arange(1.0, size + 1))
        return np.full(size, 0.0 if role.kind.endswith(VECTORS) else 0.1)

    def _with_own(
        self, student: dict[str, np.ndarray], flat: np.ndarray, chosen: dict[str, Place]
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The numbers of the student's parameters, and of all roles, where those that have a place get their own."""
        student, flat = dict(student), flat.copy()
        for name, place in chosen.items():
            student[name] = self.parameters[name][1].detach().numpy().ravel()
            flat[place.entries] = student[name][: len(place.entries)]
        return student, flat

    def _from(
        self,
        answer: Answers,
        student: dict[str, np.ndarray],
        flat: np.ndarray,
        chosen: dict[str, Place],
        told: tuple[np.ndarray, dict[str, np.ndarray]] | None,
    ) -> dict[str, Place] | None:
        """Places for all parameters, of which some are chosen; None: there are none."""
        wanted = self._wanted(answer, flat)
        if told is None or wanted is None or told[0].shape != wanted[0].shape:
            return None
        if not np.abs(told[0] - wanted[0]).max(initial=0.0) <= 1e-6 * max(1e-3, np.abs(wanted[0]).max(initial=0.0)):
            return None
        used = np.concatenate([np.zeros(0, dtype=int), *(place.entries for place in chosen.values())])
        taken = np.zeros(len(flat), dtype=bool)
        taken[used] = True
        fits: dict[str, list[Place]] = {}
        for name in self.open:
            if name in chosen:
                continue
            fits[name] = self._fitting(name, told[1][name], wanted[1], taken)
            if not fits[name]:
                return None
        if not fits:
            return chosen
        idle = all(not np.abs(told[1][name]).max(initial=0.0) > 1e-12 for name in fits)
        sure = dict[str, Place]()
        for name, own in fits.items():  # what does nothing, as a bias of the keys, may have any place
            free = [place for place in own if not taken[place.entries].any()]
            if len(own) == len(free) == 1 or (idle and free):
                sure[name] = free[0]
                taken[free[0].entries] = True
        if sure:
            return self._further(answer, student, flat, chosen | sure)
        # Nothing is sure: try what does something before what does nothing, as it was declared.
        name = min(fits, key=lambda n: not np.abs(told[1][n]).max(initial=0.0) > 1e-12)
        for place in fits[name][:6]:
            if (places := self._further(answer, student, flat, chosen | {name: place})) is not None:
                return places
        return None

    def _further(
        self, answer: Answers, student: dict[str, np.ndarray], flat: np.ndarray, chosen: dict[str, Place]
    ) -> dict[str, Place] | None:
        student, flat = self._with_own(student, flat, chosen)
        return self._from(answer, student, flat, chosen, self._told(student))

    def _fitting(self, name: str, gradient: np.ndarray, wanted: np.ndarray, taken: np.ndarray) -> list[Place]:
        """The places where every entry has the gradient that it should have; different ones only."""
        near = 1e-6 * np.abs(gradient).max(initial=0.0) + 1e-9 * max(1e-3, np.abs(wanted).max(initial=0.0))
        found, seen = [], set[bytes]()
        for place in self.open[name]:
            if taken[place.entries].any() or (key := place.entries.tobytes()) in seen:
                continue
            if (np.abs(wanted[place.entries] - gradient) <= near).all():
                seen.add(key)
                found.append(place)
        if not found and _said(name) is None and not np.abs(gradient).max(initial=0.0) > near:
            found.append(Place(((), False, ()), -1, 0, np.zeros(0, dtype=int)))  # it is not used at all
        return found

    def _told(self, student: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]] | None:
        """The student's output with these numbers, and the gradients by them."""
        self.runs += 1
        if self.runs > MAX_RUNS:
            return None
        rows, shapes = iter(student.values()), {name: tuple(t.shape) for name, (_, t) in self.whole.items()}
        counts = {name: shape[0] if _stem(name) in self.stacks else 1 for name, shape in shapes.items()}
        told = self.run({n: np.concatenate([next(rows) for _ in range(counts[n])]).reshape(shapes[n]) for n in shapes})
        if told is None:
            return None
        pieces: list[np.ndarray] = []
        for name, count in counts.items():
            if (gradient := told[1].get(name)) is None or gradient.shape != shapes[name]:
                return None
            pieces += np.split(gradient.astype(float).ravel(), count)
        return told[0], dict(zip(student, pieces, strict=True))

    def _wanted(self, answer: Answers, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The same of the right answer."""
        leaf = torch.from_numpy(flat).requires_grad_()
        weights = {n: leaf[ids[0] : ids[-1] + 1].view(self.roles[n].shape) for n, ids in self.numbered.items()}
        try:
            output = answer(weights)
            if not output.requires_grad:
                return None
            (gradient,) = torch.autograd.grad(output, leaf, cotangent(tuple(output.shape)))
        except Exception:  # the student's tensors may have any shape
            return None
        return output.detach().numpy(), gradient.numpy()


def cotangent(shape: tuple[int, ...]) -> Tensor:
    """What outputs are weighed with where their gradients are to tell one parameter from another."""
    return numbers("cotangent", shape)
