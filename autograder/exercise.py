"""What an exercise is: the task's name, its cases, its reference, and the mistakes that people make in it.

A course defines them (see `autograder.course`). The judge reads them; the probe never does.
"""

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder import rewriting
from autograder.covering import Choice, Declared, Sizes, covering, longest
from autograder.rewriting import clash

Weights = dict[str, Tensor]  # by role ("q", "gamma", …) for references, by the student's own names for mappings
Answer = Tensor | tuple[Tensor, ...]  # of a target that returns one tensor, or several
Turn = tuple[Tensor, Any]  # of one call of several made in turns: its output, and the state for the next
Shape = tuple[Any, ...]  # of one tensor, its sizes; of several, the shape of each
Inputs = tuple[Any, ...]  # the positional arguments of a call
Build = tuple[Any, ...]  # the positional arguments of a constructor
Call = Callable[[Sequence[Inputs]], list[Any]]  # has the student's code called; a result is None if it is no array

FINITELY = "finitely"  # switched on with a mistake: where infinity stands in the steps, a finite number does


@dataclass(frozen=True)
class Parameter:
    """One parameter of the student's module, as the probe describes it."""

    name: str
    shape: tuple[int, ...]
    trained: bool = True
    constant: float | None = None  # the value that all its entries have at the start, if they are all equal
    start: np.ndarray | None = field(default=None, repr=False, compare=False)  # what it starts from, where it was sent


@dataclass(frozen=True)
class Role:
    """One tensor of the right answer, and how its entries may lie in a student's.

    Attributes:
        kind: its name in headroom.reference without the number of its layer, such as "blocks.attention.w_q.weight".
        shape: of the tensor as the reference takes it.
        sides: the sizes of its axes, outputs before inputs; a side that is cut into heads has two, the heads first.
        layer: of a stack; -1 where there is none.
        family: roles of the same layer and family may lie in one tensor.
        optional: whether it may be missing, and counts as 0 then.
    """

    kind: str
    shape: tuple[int, ...]
    sides: tuple[tuple[int, ...], ...]
    layer: int = -1
    family: str = ""
    optional: bool = False

    @property
    def is_gain(self) -> bool:
        return self.kind.endswith("gamma")


Roles = dict[str, Role]  # by the name that an exercise gives them


@dataclass(frozen=True)
class Case:
    """One input to try.

    Attributes:
        tag: the criterion it counts for.
        label: the case in words, for the student; only visible cases are ever shown.
        inputs: positional arguments of the call: arrays, plain numbers, None, and things that the probe makes of
            plain data (`probe.MADE`): `{"$make": name, …arrays and numbers}`, such as a function to decode with.
        build: positional arguments of the constructor; None where the target is a function.
        visible: whether its numbers may be shown.
        differentiate: whether gradients are compared too.
        beside: whether those can only show a fault, and decide nothing: the exercise did not ask for them.
        dtype: "float64" or "float32".
        single: whether a case in float64 is tried in float32 too; False where its numbers are too extreme for that.
        steps: the call is made in turns: the first input is cut along its tokens (axis 1) into pieces of these
            sizes; each call gets its piece, the other inputs, and the state that the call before returned (None at
            first), and returns (output, state). The outputs are put together again. Reference and variation are
            called in the same turns, with weights that have drifted as far.
        scale: all weights are multiplied by it: of a norm, nothing else makes large what comes after it.
        drift: between two turns, all weights are multiplied by it. What was computed in an earlier turn and kept
            shows in the result; what is computed again does too.
        once: whether it is called once only, as what is large is: not again under other conditions.
        answer: what the judge compares with where there is no reference, such as labels; never sent to the probe.
        sizes: from which the case was drawn; None where it was not.
        refuses: whether an input of it, such as a model, raises an error if it is asked what need not be asked. Such an
            error counts for the case's own criterion, and not for whether the code runs.
    """

    tag: str
    label: str
    inputs: Inputs
    build: Build | None = None
    visible: bool = False
    differentiate: bool = False
    beside: bool = False
    dtype: str = "float64"
    single: bool = True
    steps: tuple[int, ...] | None = None
    scale: float = 1.0
    drift: float = 1.0
    once: bool = False
    answer: Any = None
    sizes: Sizes | None = None
    refuses: bool = False

    @property
    def built_with(self) -> Build:
        """`build`, of a case that has it: its target is a class."""
        assert self.build is not None
        return self.build


def hidden_apart(cases: list[Case]) -> bool:
    """Whether each hidden case can be told from all visible ones without looking at the numbers of its arrays."""
    told: dict[bool, set[str]] = {True: set(), False: set()}
    for case in cases:
        told[case.visible].add(repr(without_numbers((case.build, case.inputs))))
    return told[True].isdisjoint(told[False])


def without_numbers(value: Any) -> Any:
    """The same with shapes in place of arrays."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind, value.shape
    if isinstance(value, (tuple, list)):
        return [without_numbers(item) for item in value]
    return {key: without_numbers(item) for key, item in value.items()} if isinstance(value, dict) else value


def _with_rows(case: Case) -> Iterator[int]:
    """The places of those inputs of a case that are numbers in several rows."""
    for i, value in enumerate(case.inputs):
        is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size
        if is_float and value.ndim > 1 and value.shape[-2] > 1:
            yield i


def with_outlier(case: Case, factor: float = 1000.0) -> Case:
    """The same case with one token (row) of its first numbers far larger than all others.

    What is computed over all tokens together, such as one maximum that is taken off all scores, then spoils the rest.
    Where there is one token only, the case as it is.
    """
    i = next(_with_rows(case), None)
    if i is None:
        return case
    inputs = list(case.inputs)
    inputs[i] = inputs[i].copy()
    inputs[i][(0,) * (inputs[i].ndim - 1)] *= factor
    label = f"{case.label}, one row {factor:,.0f} times as large"
    return replace(case, inputs=tuple(inputs), label=label, single=False)


def with_zeros(case: Case) -> Case:
    """The same case with the first token (row) of its first numbers 0; of images, the whole last one.

    Zeros are numbers like any other: what takes them for padding, or divides by them, gives something else. Where there
    is one token or one sample only, the case as it is.
    """
    i = next((i for i in _with_rows(case) if len(case.inputs[i]) > 1), None)
    if i is None:
        return case
    inputs = list(case.inputs)
    inputs[i] = inputs[i].copy()
    inputs[i][-1 if inputs[i].ndim > 3 else (0,) * (inputs[i].ndim - 1)] = 0.0
    return replace(case, inputs=tuple(inputs), label=f"{case.label}, some of it zeros")


def with_large_weights(case: Case, factor: float = 30.0) -> Case:
    """The same case with weights by which the results, and what is computed on the way, are far larger than usual.

    What is clipped to a range that usual numbers keep then shows. Where there are no weights, the case as it is.
    """
    label = f"{case.label}, weights {factor:.0f} times as large"
    return case if case.build is None else replace(case, scale=factor * case.scale, label=label, single=False)


def differentiated(case: Case) -> Case:
    """The same case with its gradients compared beside the result, unless its numbers are extreme, or a row is 0."""
    numbers = [np.atleast_1d(v) for v in case.inputs if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
    extreme = case.scale != 1.0 or any(
        abs(value).max(initial=0) > 100 or not np.any(value, axis=-1).all() for value in numbers
    )
    same = case.steps is None or case.drift == 1  # the weights in all of its calls
    ordinary = case.single and case.dtype == "float64" and same and not case.refuses and not extreme
    return replace(case, differentiate=case.differentiate or ordinary, beside=True)


@dataclass(frozen=True)
class Criterion:
    """A property that earns a share of the points. The shares of an exercise add up to 1.

    Besides the tags of the cases, three keys have a fixed meaning: "gradients" (backward agrees wherever forward
    does), "contract" (input untouched, dtype kept, same answer twice, parameters registered), "shape" (of the result).

    Attributes:
        key: a tag of cases, or one of the three.
        title: the property in words.
        share: of the points.
        measure: decides in place of the comparison with the reference, from all cases and the student's outputs (None
            where there is none): whether it holds, and a sentence.
    """

    key: str
    title: str
    share: float
    measure: Callable[[tuple[Case, ...], tuple[Any, ...]], tuple[bool, str]] | None = None


@dataclass(frozen=True)
class Property:
    """Something that holds of every right answer, said beside the criteria and worth no points of its own.

    Attributes:
        title: the property in words, such as "each row of the weights sums to 1".
        holds: of a case and the student's output (a tuple of arrays where several are returned): True, False, or
            None where the case does not say.
    """

    title: str
    holds: Callable[[Case, Any], bool | None]


@dataclass(frozen=True)
class Evidence:
    """What the probe reported, in the form in which a `Mistake.sign` reads it.

    Attributes:
        parameters: the student's parameters, for a module.
        loose: attributes holding tensors or layers that `parameters()` cannot see: name, kind, count.
        cases: all cases.
        right: those whose output agreed, by index.
        errors: the messages of what was raised.
        changed: the names of inputs that a call has changed, or of what it has changed of a model among them.
        starts: from what the task's roles start, where each of their numbers is one of a parameter.
        mappable: whether the parameters can be matched to the task's roles.
    """

    cases: tuple[Case, ...]
    parameters: tuple[Parameter, ...] = ()
    loose: tuple[dict[str, str], ...] = ()
    right: frozenset[int] = frozenset()
    errors: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    starts: Mapping[str, np.ndarray] = field(default_factory=dict)
    mappable: bool = True

    @property
    def input_changed(self) -> bool:
        return bool(self.changed)


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people give.

    Attributes:
        key: by which the exercise, its tests and a report know it.
        title: what it is called.
        sentence: what the wrong code does, to the student, and then, after a full stop, a colon or a semicolon, what
            follows from that.
        look: where to look; never the answer.
        slot: two mistakes of one slot exclude each other, so that no pair is made of them. Those that replace the
            same step do so anyway.
        change: the steps of the right answer (`Exercise.steps`) that are written otherwise, as `autograder.rewriting`
            reads them; several, where the same mistake is made in several ways. Where there is a `variation`, of the
            steps that it runs.
        also: for an exercise that has a `variation`, its further switches: the same mistake in other ways.
        sign: recognises it from evidence other than outputs, where outputs cannot tell.
        costs: the criteria that it breaks by itself. What the student's code does is then judged as if the mistake
            were no mistake, and only these are lost. Empty: the weightiest that disagrees (see `autograder.points`).
    """

    key: str
    title: str
    sentence: str
    look: str = ""
    slot: str = ""
    change: str | tuple[str, ...] = ""
    also: tuple[str, ...] = ()
    sign: Callable[[Evidence], bool] | None = None
    costs: tuple[str, ...] = ()

    @property
    def computed(self) -> bool:
        """Whether it can be switched on, to see whether it gives what the student's code gives."""
        return self.sign is None or bool(self.change)

    @property
    def changes(self) -> dict[str, str]:
        """The ways in which it is made: what the steps become, by switch."""
        changes = (self.change,) if isinstance(self.change, str) else self.change
        return {f"{self.key}{f' ({i})' if i > 1 else ''}": change for i, change in enumerate(changes, 1) if change}

    @property
    def ways(self) -> tuple[str, ...]:
        """The switches of the ways in which it is made."""
        return tuple(self.changes) or (self.key, *self.also)

    def in_evaluation(self) -> "Mistake":
        """The same where the code does so in evaluation mode only: what follows from it in training does not."""
        fact = re.split(r"(?<=[.:;]) ", self.sentence)[0].rstrip(".:;")
        return replace(self, sentence=f"In evaluation mode: {fact[0].lower()}{fact[1:]}.")

    def excludes(self, other: "Mistake") -> bool:
        """Whether both cannot be made at once."""
        if self.change and other.change:
            same = any(clash(a, b) for a in self.changes.values() for b in other.changes.values())
            return same or self.slot == other.slot != ""
        return self.slot == other.slot


def no_mapping(parameters: dict[str, tuple[Parameter, Tensor]], build: Build | None) -> Iterator[Weights]:
    """For targets without weights: nothing to match."""
    yield {}


def in_numpy(function: Callable[..., Any]) -> Callable[..., Answer]:
    """A function of arrays, and of switched-on mistakes if it has any, as a `reference` or `variation`.

    So what students write in NumPy is compared with NumPy, whose errors read like theirs.
    """

    @functools.wraps(function)
    def from_tensors(build: None, inputs: Inputs, weights: Weights, *slips: frozenset[str]) -> Answer:
        arrays = (value.detach().numpy().copy() if isinstance(value, Tensor) else value for value in inputs)
        with np.errstate(all="ignore"):
            answer = function(*arrays, *slips)
        if isinstance(answer, tuple):
            return tuple(torch.from_numpy(np.array(part)) for part in answer)
        return torch.from_numpy(np.array(answer))

    return from_tensors


@dataclass(frozen=True)
class Exercise:
    """One thing to write.

    Attributes:
        name: of the function or class that the student writes.
        returns: the result in words, with its shape; where it says int64, other whole numbers will not do.
        shape: of the right answer to a case; where several tensors are returned, the shape of each.
        parts: their names, where several tensors are returned.
        cases: makes those that show something special; visible ones always the same, hidden ones from the generator.
        axes: the sizes that a case may have; `covering` says which of them are tried besides.
        drawn: a hidden case of such sizes. Its label needs no sizes: they are added.
        reference: the right answer: (build, inputs, weights by role) → output; None where every criterion measures.
        remarks: where there is none, what is said of results that a criterion refuses: (cases, outputs, call) → text.
        varied: the right answer over named steps that mistakes change, where these are not `steps`: such as one call of
            several, or what is too long to be searched.
        variation: the right answer with mistakes switched on, where they are not written as changes of steps:
            (build, inputs, weights, switches) → output. A test holds what is given without any equal to `reference`.
        mappings: ways to read the student's parameters as the task's roles, the likeliest first; each maps roles
            to tensors made of the student's by slicing, stacking and transposing, so that gradients flow back.
        roles: what those tensors are and how they may be laid out (see `autograder.reading`): where no reading by
            name fits, what each parameter does shows which it is.
        needs: the roles without which there is no right answer.
        forbidden: torch functions that would do the exercise for the student.
        forbidden_reason: the sentence for that.
        properties: what holds of every right answer, shown beside the criteria.
        stages: the values on the way to the answer of a case, by name, in order: (build, inputs, weights) → stages.
            On a miss the judge looks for them among all that the student's code computes, in whatever layout, and
            says how far it comes.
        steps: the right answer once more, written plainly over named steps in the words of
            `autograder.diagnosis.vocabulary`: inputs before the `/`, then the constructor's arguments, weights by role
            after the `*`. Where no known mistake explains what went wrong, a small change of these steps is searched
            that does. A test holds it equal to `reference`.
        library: what the student writes in: "torch", or "numpy" (arrays in, arrays out, no gradients).
        seconds: of processor time that all cases together may take.
        tolerance: largest error that is still right, as a multiple of the largest expected value. Wide enough for
            code that computes in float32 inside; the cases are chosen so that mistakes differ by far more.
    """

    name: str
    returns: str
    shape: Callable[[Case], Shape]
    criteria: tuple[Criterion, ...]
    mistakes: tuple[Mistake, ...]
    cases: Callable[[np.random.Generator], list[Case]]
    # The first argument is the case's `build`: None where the target is a function.
    reference: Callable[[Any, Inputs, Weights], Answer | Turn] | None
    remarks: Callable[[tuple[Case, ...], tuple[Any, ...], Call], str] | None = None
    varied: Callable[..., Any] | None = None
    variation: Callable[[Any, Inputs, Weights, frozenset[str]], Answer | Turn] | None = None
    axes: tuple[Declared, ...] = ()
    drawn: Callable[[Sizes, np.random.Generator], Case] | None = None
    mappings: Callable[[dict[str, tuple[Parameter, Tensor]], Any], Iterator[Weights]] = no_mapping
    roles: Callable[[Any], Roles] | None = None
    needs: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    forbidden_reason: str = ""
    parts: tuple[str, ...] = ()
    properties: tuple[Property, ...] = ()
    stages: Callable[[Any, Inputs, Weights], dict[str, Tensor]] | None = None
    steps: Callable[..., Any] | None = None
    library: str = "torch"
    seconds: float = 20.0
    tolerance: Callable[[Case, Any], Any] = field(default=lambda case, expected: 1e-5)

    def __post_init__(self) -> None:
        """Refuse what would never be recognised: a mistake's change that cannot be run, or costs that no criterion has.

        Raises:
            ValueError: there is one; the text names the mistake, what is wrong, and what there is.
        """
        changed, keys = self._changed, [criterion.key for criterion in self.criteria]
        for mistake in self.mistakes:
            if unknown := [key for key in mistake.costs if key not in keys]:
                raise ValueError(f"{self.name}: {mistake.key!r} costs {unknown[0]!r}; there are {', '.join(keys)}")
        for mistake in self.mistakes if changed and self.variation is None else ():
            for change in mistake.changes.values():
                try:
                    rewriting.check(changed, change)
                except (NameError, SyntaxError) as problem:
                    raise ValueError(f"{self.name}: the change of {mistake.key!r} cannot be: {problem}") from problem

    def tried(self, rng: np.random.Generator) -> list[Case]:
        """All cases of one check: those of `cases`, one for each set of sizes, and one of the longest.

        In the last of these that has several rows and hides nothing, one row is an outlier, unless all are too extreme
        for float32 anyway; in the one before, where gradients are compared or are the result, and so nothing jumps,
        some of it is 0; in one more, weights are large. Those of `cases` are drawn again where a hidden one has the
        sizes of a visible one: what feedback showed would be right by luck.
        """
        cases = next(filter(hidden_apart, (self.cases(rng) for _ in range(5))), None) or self.cases(rng)
        drawn = [self.of(sizes, rng) for sizes in covering(self.axes)] if self.drawn else []
        smooth = any(criterion.key == "gradients" for criterion in self.criteria)
        changes = [with_outlier] * any(case.single for case in drawn)
        changes += [with_zeros] * (smooth or self.library == "numpy") + [with_large_weights] * bool(self.needs)
        for i, case in reversed([*enumerate(drawn)]):
            if changes and not self._hides(case) and (changed := changes[0](case)) is not case:
                drawn[i] = changed
                del changes[0]
        if smooth:
            cases = [case if case.differentiate or case.visible else differentiated(case) for case in cases]
            drawn = [differentiated(case) for case in drawn]
        if self.drawn and (sizes := longest(self.axes)):
            drawn.append(replace(self.of(sizes, rng), once=True, differentiate=False))
        return cases + drawn

    def _hides(self, case: Case) -> bool:
        """Whether a case has a mask or anything else that it may lack: what is hidden may be no outlier then."""
        sizes = case.sizes or {}
        optional = {axis.name for axis in self.axes if isinstance(axis, Choice) and None in axis.values}
        values = [*case.inputs, *sizes.values()]
        return any(sizes[name] is not None for name in optional) or any(
            v is True or (isinstance(v, np.ndarray) and v.dtype == bool) for v in values
        )

    def of(self, sizes: Mapping[str, Any], rng: np.random.Generator) -> Case:
        """A hidden case of these sizes, which its label tells."""
        assert self.drawn is not None
        case = self.drawn(dict(sizes), rng)
        named = ", ".join(f"{name} {value}" for name, value in sizes.items() if value is not None)
        return replace(case, label=f"{case.label}, {named}".removeprefix(", "), sizes=dict(sizes))

    @property
    def _changed(self) -> Callable[..., Any] | None:
        """The program in which a mistake's changes are made; None where there is none."""
        return self.varied or self.steps

    @property
    def hides(self) -> bool:
        """Whether `FINITELY` can be switched on: what is hidden gets minus infinity."""
        return self.variation is None and self._changed is not None and rewriting.is_infinite(self._changed)

    @property
    def alters(self) -> bool:
        """Whether it is known what mistakes give."""
        return any(each is not None for each in (self.variation, self.varied, self.steps))

    def altered(self, build: Any, inputs: Inputs, weights: Weights, switches: frozenset[str]) -> Answer | Turn:
        """What the right answer gives with mistakes switched on."""
        if self.variation is not None:
            return self.variation(build, inputs, weights, switches)
        assert self._changed is not None
        known = (item for mistake in self.mistakes for item in mistake.changes.items())
        changes = tuple(change for switch, change in known if switch in switches)
        return rewriting.run(self._changed, changes, build, inputs, weights, FINITELY in switches)

    def mistake(self, key: str) -> Mistake:
        return next(mistake for mistake in self.mistakes if mistake.key == key)

    def known(self, key: str, *costs: str, change: str | tuple[str, ...] | None = None) -> Mistake:
        """A mistake of this exercise for the list of another: what it costs there, and how it is made if otherwise."""
        found = self.mistake(key)
        return replace(found, also=(), change=found.change if change is None else change, costs=costs)
