"""What people do when they get something slightly wrong: each rule makes edits of what stands at a place."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from autograder.diagnosis.dataflow import RESULT, App, Program, Var, at, names_in, places, put
from autograder.diagnosis.edits import Edit, Place, everywhere
from autograder.diagnosis.vocabulary import FAMILIES, FINITE, INF, KINDS, NOUNS, VERBS
from autograder.diagnosis.wording import AXES, Speaker, formula, number

VALUES: dict[str, tuple[Any, ...]] = {  # what may stand at a constant's place, by kind
    "Axis": (-1, -2, -3, 0, 1, 2),
    "Axes": (-1, -2, 0, 1, (-2, -1), (0, 1), (1, 2), None, "leading", "tokens", "sentence"),
    "Fill": (-INF, 0.0, 1e-9, INF, -1e-9, 1.0, -1.0, -5.0, -10.0, -20.0, -50.0, -100.0, -1000.0),
    "Exponent": (0.5, 1, -0.5, -1, 2, 0.25, 3, 1.5, 1 / 3),
    "Start": (0, 1, -1),
    "Step": (1, 2),
    "Number": (10000.0, 1000.0, 100000.0, 100.0, 10.0, 2.0, math.e, 1e-5, 1e-6, 1e-8, 1e-12, 0.0),
}
# What may be done besides. A `mean` or `total` over an axis keeps it, so that the rest still fits.
ADDED: tuple[tuple[Any, ...], ...] = (
    *((name,) for name in ("relu", "absolute", "square", "rounded", "whole_part", "squeeze", "tanh", "sigmoid")),
    *((name,) for name in ("first_of_batch", "reversed_rows", "exp", "gelu", "misread")),
    *(("softmax", -1), ("softmax", -2), ("normalise", -1), ("transpose", -2, -1), ("transpose", 0, 1)),
    *((name, axis) for name in ("mean", "total") for axis in (0, 1, -2)),
    *(("without_mean", -1), ("without_mean", -2), ("without_largest", -1), ("unit_length", -1)),
    *(("add", 1.0), ("subtract", 1.0)),
)
WEAK_FILLS = (-1e9, -100.0, -50.0, -20.0, -10.0, -5.0, -1.0)  # enough for small scores, or not even for those
FACTORS = (2.0, 0.5, 3.0, -1.0, 2 * math.pi, math.pi / 180)
FIXED = (1, 2, 3, 4, 8, 16, 28, 32, 64, 128, 256, 512)  # sizes that people write down as numbers
OPERATIONS = {
    "add": "an addition of",
    "subtract": "a subtraction of",
    "multiply": "a multiplication by",
    "divide": "a division by",
}
MASKINGS = tuple(name for name, kinds in KINDS.items() if kinds == ("Mask",))


def another_operand(here: Place) -> Iterator[Edit]:
    """One value for another of its sort; a size one off, or fixed; a constant for an argument."""
    if not isinstance(here.term, Var):
        return
    own, sort = here.term.name, here.program.sorts.get(here.term.name)
    for name in here.like(own):
        if name == own or (sort == "Tensor" and here.kind == "Bias"):
            continue
        spoken = here.say.name(name)
        if sort == "Size":
            words = f"{name} stands in a place of {here.subject} that is not its own"
        elif name in names_in(here.whole):
            words = f"for {here.subject}, {spoken} {here.say.verb(name)} used twice"
        else:
            words = f"{here.made} with {spoken}"
        yield here.scaled(Var(name), words, 1.0, "uses", own, name)
    if sort == "Size":
        for by in (1, -1):
            new = App("add", (here.term, by)) if by > 0 else App("subtract", (here.term, -by))
            yield here.scaled(new, f"{formula(new)} is used in place of {own}", 1.2, "one off", own, by)
        for fixed in FIXED:
            cost = 1.2 if fixed == 1 else 1.3  # what is never split or repeated
            yield here.scaled(fixed, f"a fixed {fixed} is used, whatever {own} is", cost, "fixed", own, fixed)
    if sort == "Number":
        for fixed in VALUES["Number"]:
            assert isinstance(fixed, float)
            words = f"for {here.subject}, a fixed {number(fixed)} is used, whatever `{own}` is"
            yield here.edit(fixed, words, 1.2, "fixed", own, fixed)
        yield here.edit(App("multiply", (here.term, here.term)), f"`{own}` is squared", 1.15, "squared", own)
        yield here.edit(App("power", (here.term, 0.5)), f"the root of `{own}` is used", 1.2, "root", own)
        for name, function in itertools.product(here.of_sort("Size"), ("divide", "multiply")):
            words = f"`{own}` is {'divided' if function == 'divide' else 'multiplied'} by {name}"
            yield here.edit(App(function, (here.term, Var(name))), words, 1.2, "scaled", own, function, name)


def another_constant(here: Place) -> Iterator[Edit]:
    """Another axis, exponent, fill, or number."""
    if isinstance(here.term, Var | App):
        return
    outer = here.outer
    for new in VALUES.get(here.kind, ()):
        if new == here.term or (new in (1, 0) and here.kind == "Exponent" and not here.say.is_size(outer)):
            continue
        words = f"for {here.subject}, the number is {new}"
        if here.kind in ("Axis", "Axes"):
            words = f"for {here.subject}, {NOUNS[outer.function]} runs over {AXES[new]}"
            if outer.function in ("transpose", "size"):
                words = f"for {here.subject}, {AXES[new]} takes part in {NOUNS[outer.function]}"
        elif here.kind == "Fill":
            words = f"what the mask hides gets the value {number(new)}{', and so some weight' * (-1 < new < INF)}"
            if -INF < new <= -1:
                words = "what the mask hides gets a value that still leaves it some weight"
        elif here.kind == "Exponent":
            words = f"for {here.subject}, the exponent is {number(new)}"
        elif here.kind == "Start":
            words = f"{here.subject} {here.say.verb(here.line)} counted from {number(new)}"
        elif here.kind == "Step":
            words = f"{here.subject} {here.say.verb(here.line)} counted in steps of {new}"
        elif here.kind == "Number":
            words = f"for {here.subject}, the constant is {number(new)}"
        yield here.scaled(new, words, 0.9, here.kind, here.term, new)


def no_effect(here: Place) -> Iterator[Edit]:
    """A mask or a bias that is not used, or a mask that is changed first."""
    if not isinstance(here.term, Var) or here.kind not in ("Mask", "Bias"):
        return
    spoken = here.say.name(here.term.name)
    words = f"{spoken} has no effect" if here.kind == "Mask" else f"{spoken} is not used"
    yield here.edit(None, words, 0.85, "none", here.term.name)
    if here.kind == "Mask":
        for name in MASKINGS:
            yield here.edit(App(name, (here.term,)), NOUNS[name], 1.1, name)


def another_map(here: Place) -> Iterator[Edit]:
    """The weight and the bias of another linear map."""
    if not isinstance(here.term, App) or here.term.function != "linear":
        return
    maps = {
        term.arguments[1:]: None
        for whole in here.program.lines.values()
        for _, term, _ in places(whole)
        if isinstance(term, App) and term.function == "linear"
    }
    for weight, bias in maps:
        if weight != here.term.arguments[1] and isinstance(weight, Var):
            words = f"{here.made} with {here.say.name(weight.name)}"
            new = App("linear", (here.term.arguments[0], weight, bias))
            yield here.edit(new, words, 0.95, "map", weight.name)


def another_scale(here: Place) -> Iterator[Edit]:
    """A scale that is rounded, or the logarithm of a size."""
    if here.kind != "Tensor" or not here.say.is_size(here.term) or not names_in(here.term):
        return
    for name in ("whole_part", "nearest_whole", "logarithm"):
        new = App(name, (here.term,))
        yield here.scaled(new, f"for {here.subject}, {formula(new)} is used", 1.2, name)


def bypass(here: Place) -> Iterator[Edit]:
    """A whole line, or a result, that is an earlier value as it is."""
    part_of_results = here.line == RESULT and len(here.path) == 1 and getattr(here.whole, "function", "") == "results"
    if here.kind != "Tensor" or (here.path and not part_of_results) or getattr(here.term, "function", "") == "results":
        return
    for name in here.like(here.line):
        if here.term != Var(name):
            spoken = here.say.name(here.term.name) if isinstance(here.term, Var) else here.subject
            words = f"{spoken} {here.say.verb(here.line)} {here.say.name(name)} as it came"
            if isinstance(here.term, Var):
                words = f"{here.say.name(name)} {here.say.verb(name)} returned in the place of {spoken}"
            yield here.edit(Var(name), words, 1.0, "bypass", name)


def weak_masking(here: Place) -> Iterator[Edit]:
    """What is hidden is only lowered, by too little."""
    if isinstance(here.term, App) and here.term.function == "hide":
        for fill in WEAK_FILLS:
            words = "what the mask hides is lowered by an amount that still leaves it some weight"
            new = App("hide_by_adding", (*here.term.arguments[:2], fill))
            yield here.edit(new, words, 1.2, "lowered", fill)


def left_out_or_doubled(here: Place) -> Iterator[Edit]:
    """A step left out, so that one of its arguments stays; several steps; a step done twice."""
    term = here.term
    if not isinstance(term, App) or term.function == "results":
        return
    tensors = [i for i, kind in enumerate(term.kinds) if kind == "Tensor"]
    for i in tensors:
        kept = term.arguments[i]
        gone = set().union(*(names_in(a) for j, a in enumerate(term.arguments) if j != i))
        yield here.scaled(kept, here.say.missing(here.line, kept, gone), 0.8, "without", term.function, i)
    if len(tensors) == 1:
        words = f"for {here.subject}, {NOUNS[term.function]} is taken twice"
        yield here.edit(put(term, (tensors[0],), term), words, 1.3, "twice", term.function)
    for path, goal, kind in places(term):
        if 2 <= len(path) <= 3 and kind == "Tensor" and isinstance(goal, Var | App):
            words = here.say.missing(here.line, goal, names_in(term) - names_in(goal), "more than one step")
            yield here.edit(goal, words, 1.3, "only", str(goal))


def other_function(here: Place) -> Iterator[Edit]:
    """Two sides exchanged; a function in place of its relative; results in another order."""
    term = here.term
    if not isinstance(term, App):
        return
    if term.function == "results":
        for i, j in itertools.combinations(range(len(term.arguments)), 2):
            order = list(term.arguments)
            order[i], order[j] = order[j], order[i]
            yield here.edit(App("results", tuple(order)), "the results come in another order", 1.0, "order", i, j)
        return
    sides = [i for i, kind in enumerate(term.kinds) if kind == "Tensor"]
    if len(sides) == 2 and term.function not in ("add", "multiply"):
        turned = App(term.function, (term.arguments[1], term.arguments[0], *term.arguments[2:]))
        words = f"for {here.subject}, the two sides of {NOUNS[term.function]} have changed places"
        cost = 1.2 if term.function == "subtract" else 1.0  # there, the wrong sign is the simpler word
        yield here.edit(turned, words, cost, "turned", term.function)
    for family in FAMILIES:
        for name in family if term.function in family else ():
            if name != term.function:
                words, vague = f"{here.made} with {NOUNS[name]}".rstrip(","), False
                words += ", whose axis stays" if term.function == f"{name}_without_axis" else ""
                if name in OPERATIONS:
                    by = term.arguments[1]
                    words = f"{here.made} with {OPERATIONS[name]} {here.say.term(by, here.line)}"
                    vague = here.say.is_nameless(by, here.line)
                cost = 0.85 if {name, term.function} == {"multiply", "divide"} else 1.05
                yield here.scaled(App(name, term.arguments), words, cost, term.function, name, vague=vague)


def moved(here: Place) -> Iterator[Edit]:
    """A step done at another place, or a mask multiplied onto something in place of hiding."""
    term = here.term
    if not isinstance(term, App) or term.function == "results" or here.say.is_size(term):
        return
    tensors = [i for i, kind in enumerate(term.kinds) if kind == "Tensor"]
    if tensors[:1] != [0] or (len(tensors) > 1 and term.function not in ("multiply", "divide", "add")):
        return
    kept = term.arguments[0]
    vague = any(here.say.is_nameless(by, RESULT) for by in term.arguments[1:])
    for other, whole in here.program.lines.items():
        for path, goal, kind in places(whole):
            overlap = other == here.line and (path[: len(here.path)] == here.path or here.path[: len(path)] == path)
            if kind != "Tensor" or overlap or here.say.is_size(goal) or here.program.sorts.get(other) == "Size":
                continue
            if isinstance(goal, App) and (goal.function == "results" or path):
                continue
            on = here.say.term(goal, other)
            words = f"{here.say.step(term, 0)} is done at another place: on {on}"
            there = put(term, (0,), goal)
            yield Edit(((here.line, here.path, kept), (other, path, there)), words, 1.4, ("moved", other, path), vague)
            if term.function == "hide":
                for name in ("multiply_by_mask", "shares_of_visible"):
                    there = App(name, (goal, term.arguments[1]))
                    words = f"{on} {here.say.done(VERBS[name], goal.name if isinstance(goal, Var) else other)}"
                    words += ", in place of the masking"
                    yield Edit(((here.line, here.path, kept), (other, path, there)), words, 1.35, (name, other, path))


def something_besides(here: Place) -> Iterator[Edit]:
    """Something done besides: a function, a scale by a size, another value added."""
    if not here.is_tensor:
        return
    spoken = here.say.term(here.term, here.line)
    of = f" for {here.subject}" if here.path and here.line != RESULT else ""
    named = here.term.name if isinstance(here.term, Var) else here.line
    is_ = here.say.verb(named)
    normalised = bool(here.path) and getattr(here.outer, "function", "").startswith("normalise")
    for name, *more in ADDED:
        added = App(str(name), (here.term, *more))
        over = f" over {AXES[more[0]]}" if KINDS[added.function][1:] in (("Axis",), ("Axes",)) else ""
        done = here.say.done(VERBS[added.function], named)
        words = f"{spoken} {done}{over}{of}"
        if added.function in ("add", "subtract"):
            words = f"1 is also {'added to' if added.function == 'add' else 'taken off'} {spoken}{of}"
        cost = 1.9 if here.line == RESULT else 2.0  # the last step acts on the result
        yield here.edit(added, words, cost, "besides", name, *more)
    for name in here.of_sort("Size"):
        for exponent, function in itertools.product((1, 0.5), ("divide", "multiply")):
            by = App("power", (Var(name), exponent))
            words = f"{spoken} {is_} also {'divided' if function == 'divide' else 'multiplied'} by {formula(by)}{of}"
            if normalised:  # whose scale matters as much as ε does
                words = f"for {here.subject}, ε is {'larger' if function == 'divide' else 'smaller'} than it should be"
            yield here.edit(App(function, (here.term, by)), words, 1.6, "scaled", function, name, exponent)
    for factor in FACTORS:
        words, cost = f"{spoken} {is_} also multiplied by {number(factor)}{of}", 1.7
        if normalised and factor > 0:
            words = f"for {here.subject}, ε is {'larger' if factor < 1 else 'smaller'} than it should be"
        if factor == -1.0:
            words, cost = f"{spoken} {'have' if is_ == 'are' else 'has'} the opposite sign{of}", 1.0
        yield here.edit(App("multiply", (here.term, factor)), words, cost, "scaled", factor)
    for name in here.of_sort("Tensor", "Bias", "Number"):
        if not here.path or here.line == RESULT:
            words = f"{here.say.name(name)} {here.say.verb(name)} also added to {spoken}{of}"
            yield here.edit(App("add", (here.term, Var(name))), words, 2.0, "added", name)
    for name in here.of_sort("Mask"):
        for function in ("multiply_by_mask", "shares_of_visible"):
            words = f"{spoken} {here.say.done(VERBS[function], named)}{of}"
            yield here.edit(App(function, (here.term, Var(name))), words, 1.5, function)


RULES: tuple[Callable[[Place], Iterator[Edit]], ...] = (
    another_operand,
    another_constant,
    no_effect,
    another_map,
    another_scale,
    bypass,
    weak_masking,
    left_out_or_doubled,
    other_function,
    moved,
    something_besides,
)


RELATED = {(a, b) for family in FAMILIES for a, b in itertools.permutations(family, 2)}
ONCE = -0.05  # what is done alike at several places is written once, and likelier wrong at all than at one


def edits(program: Program, line: str | None = None) -> list[Edit]:
    """All single edits, of all lines or of one, the likeliest first; also one thing done at several places at once."""
    single = [e for here in everywhere(program) if line in (None, here.line) for rule in RULES for e in rule(here)]
    if line is not None:
        return sorted(single, key=lambda edit: edit.cost)
    alike: dict[tuple[object, ...], list[Edit]] = {}
    for edit in single:
        if edit.key[0] not in ("moved", "only", "besides", "multiply_by_mask", "shares_of_visible"):
            alike.setdefault(edit.key, []).append(edit)
        alone = ("moved", "uses", "scaled", "one off", "fixed", *(() if edit.line == RESULT else ("besides",)))
        if edit.key[0] not in alone:
            alike.setdefault((*edit.key, edit.line), []).append(edit)
        part = edit.line.partition("_")[0]
        if edit.key[0] in ("uses", "fixed") and part != edit.line:
            alike.setdefault((*edit.key, "in", part), []).append(edit)
        if edit.key[0] == "uses" and len(edit.changes) == 1:
            (_, path, new), whole = edit.changes[0], program.lines[edit.line]
            around = tuple(at(whole, path[:i]).function for i in range(len(path)))
            alike.setdefault(("for each", new, around), []).append(edit)
    together = [
        Edit(
            tuple(c for e in some for c in e.changes),
            _shared_within(some) if "in" in key else _shared(some),
            some[0].cost + (ONCE if key in RELATED else 0.05 if len({e.words for e in some}) < 3 else 0.6),
            ("all", *key),
            any(edit.vague for edit in some),
        )
        for key, some in alike.items()
        if 1 < len(some) < 12 and all(a.apart_from(b) for a, b in itertools.combinations(some, 2))
    ]
    say = Speaker(program)
    tensors = [n for n in program.inputs if program.sorts[n] == "Tensor"]
    exchanged = list(_exchanged_maps(program, say))
    alike_pairs = ((a, b) for a, b in itertools.combinations(tensors, 2) if {a, b} & program.weights in (set(), {a, b}))
    for a, b in alike_pairs:
        changes = tuple(
            (name, path, Var(b if term.name == a else a))
            for name, whole in program.lines.items()
            for path, term, _ in places(whole)
            if isinstance(term, Var) and term.name in (a, b) and program.sorts.get(name) != "Size"
        )
        exchanged.append(
            Edit(changes, f"{say.name(a)} and {say.name(b)} have changed places", 1.0, ("exchanged", a, b))
        )
    found = single + together + exchanged + list(_once_more(program, say)) + list(_late_bias(program, say))
    return sorted([*found, *_with_finite_fills(program, found)], key=lambda edit: edit.cost)


def _with_finite_fills(program: Program, some: list[Edit]) -> Iterator[Edit]:
    """Edits of what is hidden, in code that fills with a finite number: what has nothing left to see sees all."""
    fills = tuple(
        (name, path, -FINITE)
        for name, whole in program.lines.items()
        for path, term, kind in places(whole)
        if kind == "Fill" and term == -INF
    )
    masks = {
        part.name
        for whole in program.lines.values()
        for _, term, kind in places(whole)
        if kind == "Mask" and not isinstance(term, str)
        for _, part, _ in places(term)
        if isinstance(part, Var)
    }
    for edit in some if fills else ():
        if len(edit.changes) == 1 and edit.inside is None and (edit.line in masks or _turns_a_softmax(program, edit)):
            yield replace(edit, changes=(*edit.changes, *fills), cost=edit.cost + 0.05)


def _turns_a_softmax(program: Program, edit: Edit) -> bool:
    """Whether a softmax runs over another axis, along which all may be hidden."""
    line, path, _ = edit.changes[0]
    outer = at(program.lines[line], path[:-1]) if path else None
    return edit.key[0] == "Axis" and isinstance(outer, App) and outer.function.startswith("softmax")


def _exchanged_maps(program: Program, say: Speaker) -> Iterator[Edit]:
    """Two linear maps in each other's places, biases included."""
    maps = [
        (name, path, term)
        for name, whole in program.lines.items()
        for path, term, _ in places(whole)
        if isinstance(term, App) and term.function == "linear"
    ]
    for (a, at_a, first), (b, at_b, second) in itertools.combinations(maps, 2):
        (x, *of_one), (y, *of_two) = first.arguments, second.arguments
        if isinstance(of_one[0], Var) and isinstance(of_two[0], Var):
            words = f"{say.name(of_one[0].name)} and {say.name(of_two[0].name)} have changed places"
            changes = ((a, at_a, App("linear", (x, *of_two))), (b, at_b, App("linear", (y, *of_one))))
            yield Edit(changes, words, 1.0, ("exchanged", a, b))


def _once_more(program: Program, say: Speaker) -> Iterator[Edit]:
    """What makes a line of one value, done with the result as well: a norm at the end of a block, for example."""
    result, values = program.lines[RESULT], {*program.lines, *program.inputs} - program.weights
    for name, whole in program.lines.items():
        read = [
            (path, term.name)
            for path, term, kind in places(whole)
            if isinstance(term, Var) and term.name in values and kind == "Tensor" and not say.is_size(term)
        ]
        if program.sorts.get(name) == "Size" or name == RESULT or len({value for _, value in read}) != 1:
            continue
        for path, _ in read:
            whole = put(whole, path, result)
        words = f"the result goes through what makes {say.name(name)} once more"
        yield Edit(((RESULT, (), whole),), words, 1.2, ("once more", name))


def _late_bias(program: Program, say: Speaker) -> Iterator[Edit]:
    """A map's bias, added not by the map but to one of the two lines after it: behind a non-linearity, for example."""
    lines = list(program.lines.items())
    for n, (name, whole) in enumerate(lines):
        for path, term, _ in places(whole):
            if not isinstance(term, App) or term.function != "linear" or not isinstance(term.arguments[2], Var):
                continue
            bias = term.arguments[2]
            for later, made in lines[n + 1 : n + 3]:
                changes = (name, (*path, 2), None), (later, (), App("add", (made, bias)))
                words = f"{say.name(bias.name)} is added to {say.name(later)}, and not by the map"
                yield Edit(changes, words, 1.15, ("late", bias.name, later))


def _shared_within(some: list[Edit]) -> str:
    """The words of one thing done in a part of the code, which is what the names of its lines begin with."""
    common = [words[0] for words in zip(*(edit.line.split("_") for edit in some), strict=False) if len({*words}) == 1]
    part, words = f"the {' '.join(common)}", _shared(some)
    return words if words.startswith(part) else f"in {part}, {words}"


def _shared(some: list[Edit]) -> str:
    """The words of one thing done in several places."""
    words = list(dict.fromkeys(edit.words for edit in some))
    if len(words) == 1:
        return words[0]
    for begin, verb, joined in (("for ", ", ", ", "), ("", " is made with ", " are made with ")):
        cut = [text.partition(verb) for text in words]  # for the mean and the variance, …
        if all(place.startswith(begin) and end == cut[0][2] != "" for place, _, end in cut):
            places = [place.removeprefix(begin) for place, _, _ in cut]
            return f"{begin}{', '.join(places[:-1])} and {places[-1]}{joined}{cut[0][2]}"
    return " and ".join(words[:2]) + (", and likewise elsewhere" if len(words) > 2 else "")
