"""Watch a Transformer write, token by token. The front end is decoding_stepper.js."""

from __future__ import annotations

import copy
import operator
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import anywidget
import numpy as np
import torch
import traitlets as t

from headroom.data import BOS, EOS, SOURCE, TARGET, Vocabulary
from headroom.reference import Transformer
from headroom.widgets.shared import CHOSEN, Change, Proposal, as_index, front_end, looking_at, quantise, trait_errors

MAX_BEAMS = 4
MAX_SEED = 2**53 - 1  # the largest whole number that JavaScript counts to
MAX_SOURCE = 100  # characters of a text
READY_SEEDS = 10  # seeds 0 … 9 draw without Python at temperature 1
RUNNERS_UP = 2  # candidates of each step, next to the likeliest, whose continuation is computed beforehand
# Everything computed is sent, and saved in the notebook. What goes beyond this is forgotten, the oldest first.
MAX_TYPED = 8  # texts that the reader has typed
MAX_MORE = 1000  # prefixes of a text, beyond those computed beforehand

Found = TypeVar("Found")  # what a search finds
Prefix = tuple[int, ...]  # the token ids written so far, without BOS
Draw = Callable[[int, np.ndarray], int]  # (step, logits) → the token to write


@dataclass(frozen=True)
class Selection:
    """What a `DecodingStepper` shows right now. Every index counts from 0 (the screen counts from 1)."""

    source: str  # what the model reads
    method: str  # "greedy", "sampling" or "beam"
    temperature: float | None  # of sampling; None: another method
    seed: int | None  # of sampling
    beams: int | None  # of beam search: how many hypotheses go on
    step: int  # which token is being written
    hypothesis: int | None  # of beam search: which of this step's hypotheses is shown, 0 the likeliest
    prefix: str  # what is written before this step
    candidate: str  # the token that this step writes, such as "7" or "<eos>"
    probability: float  # that the model gives it, before any temperature
    taken: tuple[tuple[int, str], ...]  # (step, token) where the reader decided in place of the model
    layer: int  # of the cross-attention shown
    head: int | None  # None: the mean of all heads


class DecodingStepper(anywidget.AnyWidget):
    """A text decoded step by step by a Transformer: candidates, cross-attention, cache, and the tree of beam search.

    Each step shows the probability of every candidate, where cross-attention looks in the source, and what a cache of
    keys and values saves. Methods are those of `headroom.reference`: greedy, sampling with a temperature, beam search.
    The reader may take another candidate than the model's; the model then goes on from there. They may also type a text
    of their own.

    What the model answers depends on the prefix alone. So every answer is kept by its prefix, and sent: the browser
    chooses, draws and searches by itself, and a saved notebook plays on. The greedy path, what follows the runners-up
    of each of its steps, the beams of every width and the first ten seeds' draws at temperature 1 are computed
    beforehand; Python computes the rest when it is asked for. The model is copied as it is now: training it later
    changes nothing here, and stepping changes nothing in it.

    The traits `source`, `method`, `temperature`, `seed`, `beams`, `step`, `hypothesis`, `taken`, `layer` and `head` can
    be read, observed and set; `selection` has them all, with what they lead to.

    Args:
        model: a Transformer on any device, in any mode.
        texts: what it may read; one text, or several to choose from.
        reads, writes: its vocabularies.
        max_tokens: stop after so many, ended or not.
        method, temperature, seed, beams: how to decode. Sampling writes what `sample_decode` draws for this one text
            with a generator of this seed on the CPU; beam search what `beam_decode` finds.
        step: what to show first; negative counts from the end.
        layer, head: whose cross-attention; `head` None: the mean of all heads.

    Raises:
        TypeError: `model` is no Transformer.
        ValueError: an argument has a wrong value, the vocabularies are not the model's, or it answers with NaN.
    """

    _esm, _css = front_end("decoding_stepper")

    # What the model has answered, in the order of `_prefixes`.
    _facts = t.Dict().tag(sync=True)  # sizes, vocabulary, the texts and the cost of their steps
    _prefixes = t.List().tag(sync=True)  # each [text, token id, …]
    _logits = t.Bytes().tag(sync=True)  # float32, little-endian: (n_target,) each
    _attention = t.Bytes().tag(sync=True)  # u16, little-endian: (n_layers, n_heads, source_tokens) each
    _seeds = t.List().tag(sync=True)  # whose draws follow
    _noise = t.Bytes().tag(sync=True)  # float32, little-endian: (max_tokens, n_target) each

    # What the reader chooses; either side may change it.
    source = t.Unicode().tag(**CHOSEN)
    method = t.Enum(["greedy", "sampling", "beam"], default_value="greedy").tag(**CHOSEN)
    temperature = t.Float(1.0).tag(**CHOSEN)
    seed = t.Int(0).tag(**CHOSEN)
    beams = t.Int(3).tag(**CHOSEN)
    step = t.Int(0).tag(**CHOSEN)
    hypothesis = t.Int(None, allow_none=True).tag(**CHOSEN)
    taken = t.List().tag(**CHOSEN)  # [[step, token], …]
    layer = t.Int(0).tag(**CHOSEN)
    head = t.Int(None, allow_none=True).tag(**CHOSEN)

    # A text that the reader has typed; Python takes it and answers with `source`, or with a sentence.
    _asked = t.Unicode().tag(sync=True)
    _problem = t.Unicode().tag(sync=True)

    def __init__(
        self,
        model: Transformer,
        texts: str | Sequence[str] = ("4 March 2021", "1 M 2021", "28 de junio de 1987"),
        *,
        reads: Vocabulary = SOURCE,
        writes: Vocabulary = TARGET,
        max_tokens: int = 12,
        method: str = "greedy",
        temperature: float = 1.0,
        seed: int = 0,
        beams: int = 3,
        step: int = 0,
        layer: int = -1,
        head: int | None = None,
    ) -> None:
        if not isinstance(model, Transformer):
            raise TypeError(f"model is {_a(type(model).__name__)}; it must be a headroom.reference.Transformer")
        for name, vocabulary, known in (
            ("reads", reads, model.embed_source.num_embeddings),
            ("writes", writes, model.embed_target.num_embeddings),
        ):
            if len(vocabulary) != known:
                raise ValueError(f"{name} has {len(vocabulary)} tokens, but the model was built for {known}")
        if max_tokens < 1:
            raise ValueError(f"max_tokens={max_tokens} must be at least 1")
        texts = [texts] if isinstance(texts, str) else list(texts)
        if not texts:
            raise ValueError("texts is empty; there must be at least one text to read")

        self._lock = threading.RLock()  # JupyterLab answers the browser in another thread while a cell runs
        self._model = copy.deepcopy(model)
        self._reads, self._writes, self._max_tokens = reads, writes, max_tokens
        self._readings: dict[str, _Reading] = {}
        self._typed: list[str] = []
        self._draws: dict[int, np.ndarray] = {}
        self._sent: tuple[Any, ...] = ()  # what `_computed` was when it was sent
        for text in texts:
            if not isinstance(text, str):
                raise ValueError(f"texts holds {text!r}; each text must be a string")
            self._readings[text] = self._read(text)
        first = self._readings[texts[0]]
        self._n_layers, self._n_heads = first.n_layers, first.n_heads
        super().__init__()
        with self.hold_sync():
            self.source = texts[0]
            self.method = method
            self.temperature = temperature
            self.seed = seed
            self.beams = beams
            self.step = as_index("step", step, self._n_steps)
            self.layer = as_index("layer", layer, self._n_layers)
            self.head = None if head is None else as_index("head", head, self._n_heads)
            self._publish()

    # ---------------------------------------------------------------- what Python reads

    @property
    def selection(self) -> Selection:
        """What is shown now, and what this step writes (read-only)."""
        sampling, beam = self.method == "sampling", self.method == "beam"
        prefix, token = self._decision()
        return Selection(
            self.source,
            self.method,
            self.temperature if sampling else None,
            self.seed if sampling else None,
            self.beams if beam else None,
            self.step,
            self._shown_hypothesis() if beam else None,
            self._text(prefix),
            self._writes.tokens[token],
            float(_softmax(self._reading.logits(prefix))[token]),
            tuple((step, token) for step, token in self.taken),
            self.layer,
            self.head,
        )

    @property
    def decoded(self) -> str:
        """The text so far: what is written before this step, and what this step writes."""
        prefix, token = self._decision()
        return self._text((*prefix, token))

    @property
    def probabilities(self) -> dict[str, float]:
        """The probability of every candidate of this step, the likeliest first; when sampling, at the temperature."""
        prefix, _ = self._decision()
        logits = self._reading.logits(prefix)
        shares = _softmax(logits / self.temperature if self.method == "sampling" else logits)
        return {self._writes.tokens[token]: float(shares[token]) for token in np.argsort(-shares, kind="stable")}

    @property
    def selected_weights(self) -> np.ndarray:
        """The cross-attention of this step, of the selected layer and head: float32 `(source_tokens,)`."""
        prefix, _ = self._decision()
        heads = self._reading.attention(prefix)[self.layer]
        return heads.mean(axis=0) if self.head is None else heads[self.head].copy()

    def __repr__(self) -> str:
        return (
            f"DecodingStepper({len(self._readings)} texts, {self._n_layers} layers, {self._n_heads} heads, "
            f"{self.method}, step {self.step}: {self.decoded!r})"
        )

    # ---------------------------------------------------------------- how it decodes

    @property
    def _reading(self) -> _Reading:
        return self._readings[self.source]

    @property
    def _n_steps(self) -> int:
        return len(self._levels()) - 1 if self.method == "beam" else len(self._path())

    def _path(self) -> Prefix:
        """What greedy decoding or sampling writes, with the reader's decisions."""
        taken = {step: self._writes.tokens.index(token) for step, token in self.taken}
        draw = _likeliest if self.method == "greedy" else _drawn(self._noise_of(self.seed), self.temperature)
        return self._settled(lambda: _written(self._reading, draw, taken))

    def _levels(self) -> list[list[_Hypothesis]]:
        return self._settled(lambda: _beams(self._reading, self.beams))

    def _settled(self, search: Callable[[], Found]) -> Found:
        with self._lock:
            _settle(self._reading, [search])
            return search()

    def _decision(self) -> tuple[Prefix, int]:
        """What is written before this step, and the token that it writes."""
        if self.method != "beam":
            path = self._path()
            return path[: self.step], path[self.step]
        levels = self._levels()
        rank = self._shown_hypothesis()
        shown, winner = levels[self.step][rank], levels[-1][0].prefix
        prefix = shown.prefix
        if shown.ended:  # the step that ended it
            return prefix[:-1], EOS
        if winner[: self.step] == prefix:
            return prefix, winner[self.step]
        for child in levels[self.step + 1]:
            if child.parent == rank:
                return prefix, child.prefix[-1]
        return prefix, _likeliest(self.step, self._reading.logits(prefix))  # it ends here: all its ways are dropped

    def _shown_hypothesis(self) -> int:
        """Which of this step's hypotheses is shown: the one chosen, or the one that leads to the best."""
        levels = self._levels()
        level, winner = levels[self.step], levels[-1][0].prefix
        if self.hypothesis is not None:
            return self.hypothesis
        return next(rank for rank, one in enumerate(level) if one.prefix == winner[: self.step])

    def _text(self, prefix: Prefix) -> str:
        return self._writes.decode(torch.tensor([prefix], dtype=torch.long).reshape(1, -1))[0]

    def _noise_of(self, seed: int) -> np.ndarray:
        """What decides a draw, `(max_tokens, n_target)`: torch draws the token with the largest probability / noise."""
        if seed not in self._draws:
            generator = torch.Generator().manual_seed(seed)
            dtype = next(self._model.parameters()).dtype
            rows = [
                torch.empty(1, len(self._writes), dtype=dtype).exponential_(1, generator=generator)
                for _ in range(self._max_tokens)
            ]
            self._draws[seed] = torch.cat(rows).float().numpy()
        return self._draws[seed]

    def _read(self, text: str) -> _Reading:
        """A text as the model reads it, with everything that can be shown without asking again."""
        if not text.strip():
            raise ValueError("there is nothing to read: a text needs at least one character")
        if len(text) > MAX_SOURCE:
            raise ValueError(f"the text has {len(text)} characters; at most {MAX_SOURCE} are read")
        ids, _ = self._reads.encode([text])
        reading = _Reading(self._model, ids, self._max_tokens)
        searches = [lambda: _what_ifs(reading)]
        searches += [lambda width=width: _beams(reading, width) for width in range(1, MAX_BEAMS + 1)]
        draws = [_drawn(self._noise_of(seed), 1.0) for seed in range(READY_SEEDS)]
        searches += [lambda draw=draw: _written(reading, draw) for draw in draws]
        _settle(reading, searches)
        reading.lasting = len(reading.answers)
        return reading

    # ---------------------------------------------------------------- what is sent

    def _publish(self) -> None:
        """Everything that the model has answered."""
        readings, self._sent = self._readings, self._computed()
        with self.hold_sync():
            self._prefixes = [[i, *prefix] for i, one in enumerate(readings.values()) for prefix in one.answers]
            answers = [answer for one in readings.values() for answer in one.answers.values()]
            self._logits = b"".join(logits.astype("<f4").tobytes() for logits, _ in answers)
            self._attention = b"".join(quantise(attention) for _, attention in answers)
            self._seeds = list(self._draws)
            self._noise = b"".join(noise.astype("<f4").tobytes() for noise in self._draws.values())
            self._facts = {
                "n_layers": self._n_layers,
                "n_heads": self._n_heads,
                "tokens": list(self._writes.tokens),
                "eos": EOS,
                "bos": BOS,
                "max_tokens": self._max_tokens,
                "max_beams": MAX_BEAMS,
                "max_source": MAX_SOURCE,
                "sources": [
                    {"text": text, "words": [self._reads.tokens[i] for i in one.ids[0].tolist()], "costs": one.costs()}
                    for text, one in readings.items()
                ],
            }

    # A selection is checked whoever makes it. traitlets rolls a change back on TraitError only.
    @t.validate("source")
    def _valid_source(self, proposal: Proposal) -> str:
        text = proposal["value"]
        with self._lock:
            if text not in self._readings:
                with trait_errors():
                    self._readings[text] = self._read(text)
                self._typed.append(text)
                self._publish()  # before the browser is told to show it
        return text

    @t.validate("temperature")
    def _valid_temperature(self, proposal: Proposal) -> float:
        if not 0 < proposal["value"] < float("inf"):
            raise t.TraitError(f"temperature={proposal['value']} must be greater than 0; greedy is its limit at 0")
        return proposal["value"]

    @t.validate("seed", "beams")
    def _valid_number(self, proposal: Proposal) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        low, high = (0, MAX_SEED) if name == "seed" else (1, MAX_BEAMS)
        if not low <= value <= high:
            raise t.TraitError(f"{name}={value} must be {low} … {high}")
        return value

    @t.validate("step", "hypothesis", "layer", "head")
    def _valid_index(self, proposal: Proposal) -> int | None:
        name, value = proposal["trait"].name, proposal["value"]
        if value is None:
            return None
        if name == "hypothesis" and self.method != "beam":
            raise t.TraitError(f'hypothesis={value} goes with method="beam"')
        if name == "step":
            size = self._n_steps
        elif name == "hypothesis":
            size = len(self._levels()[self.step])
        else:
            size = self._n_layers if name == "layer" else self._n_heads
        with trait_errors():
            return as_index(name, value, size)

    @t.validate("taken")
    def _valid_taken(self, proposal: Proposal) -> list[list[Any]]:
        taken = {}
        for one in proposal["value"]:
            try:
                step, token = one
                step = operator.index(step)
            except (TypeError, ValueError):
                raise t.TraitError(f'taken holds {one!r}; each must be a step and a token, such as (5, "7")') from None
            if not 0 <= step < self._max_tokens:
                raise t.TraitError(f"taken has step {step}; there are at most {self._max_tokens}, from 0")
            if token not in self._writes.tokens:
                raise t.TraitError(f"taken has {token!r} at step {step}, which is no token that the model writes")
            taken[step] = token
        if taken and self.method == "beam":
            raise t.TraitError('taken goes with method="greedy" or "sampling": beam search follows several ways itself')
        return [[step, taken[step]] for step in sorted(taken)]

    @t.observe("source", "method", "temperature", "seed", "beams", "taken", "step")
    def _follow(self, change: Change) -> None:
        """What follows from a choice: the browser does the same. What was never computed is computed and sent."""
        with self._lock, self.hold_sync():
            if len(self._typed) > MAX_TYPED:
                del self._readings[self._typed.pop(0)]
            if self.taken and (change["name"] == "source" or self.method == "beam"):
                self.taken = []
            self.step = min(self.step, self._n_steps - 1)
            if self.hypothesis is not None and (
                self.method != "beam"
                or change["name"] in ("source", "beams")
                or self.hypothesis >= len(self._levels()[self.step])
            ):
                self.hypothesis = None
            if self._computed() != self._sent:
                self._reading.forget(keep=self._needed())
                self._publish()

    def _computed(self) -> tuple[Any, ...]:
        return tuple((text, one.times) for text, one in self._readings.items()), len(self._draws)

    def _needed(self) -> set[Prefix]:
        if self.method == "beam":
            return {one.prefix for level in self._levels() for one in level}
        path = self._path()
        return {path[:step] for step in range(len(path))}

    @t.observe("_asked")
    def _answer(self, change: Change) -> None:
        """A text typed in the browser: it becomes the source, or a sentence says why not."""
        if not change["new"]:
            return
        with self.hold_sync():
            try:
                self.source, self.step = change["new"], 0
                self._problem = ""
            except t.TraitError as error:
                self._problem = str(error)
            self._asked = ""


# ---------------------------------------------------------------- what the model answers


class _Unknown(Exception):
    """A search needs what the model answers to these prefixes."""

    def __init__(self, prefixes: Iterable[Prefix]) -> None:
        self.prefixes = set(prefixes)


class _Reading:
    """One text, read once, and what the model has answered to each prefix."""

    def __init__(self, model: Transformer, ids: torch.Tensor, max_tokens: int) -> None:
        self.ids, self.max_tokens = ids, max_tokens  # ids: (1, source_tokens)
        self._model = model
        self.answers: dict[Prefix, tuple[np.ndarray, np.ndarray]] = {}
        self.lasting = 0  # the first answers, which are kept
        self.times = 0  # that the model was asked
        with looking_at(model) as device:
            self._memory, _ = model.encode(ids.to(device))  # (1, source_tokens, d_model)
        self.compute([()])
        self.n_layers, self.n_heads, self.n_source = self.attention(()).shape

    def logits(self, prefix: Prefix) -> np.ndarray:
        """`(n_target,)` float32."""
        return self._answer(prefix)[0]

    def attention(self, prefix: Prefix) -> np.ndarray:
        """Where the step after a prefix looks: `(n_layers, n_heads, source_tokens)` float32."""
        return self._answer(prefix)[1]

    def _answer(self, prefix: Prefix) -> tuple[np.ndarray, np.ndarray]:
        if prefix not in self.answers:
            raise _Unknown([prefix])
        return self.answers[prefix]

    def compute(self, prefixes: Sequence[Prefix]) -> None:
        """Ask the model for several prefixes of one length at once."""
        rows = torch.tensor([(BOS, *prefix) for prefix in prefixes])
        with looking_at(self._model) as device:
            memory = self._memory.expand(len(rows), -1, -1)
            logits, _, cross = self._model.decode(rows.to(device), memory)  # cross: (n, layers, heads, tokens, source)
        logits, cross = logits.float().cpu().numpy(), cross.float().cpu().numpy()
        if not np.isfinite(logits.sum()):
            raise ValueError("the model answers with logits that are NaN or infinite; its training may have diverged")
        if cross.shape[-1] != self.ids.size(1):
            raise ValueError(
                f"the model's cross-attention looks at {cross.shape[-1]} tokens, but the source has "
                f"{self.ids.size(1)}: its keys and values must come from the encoder's memory"
            )
        for i, prefix in enumerate(prefixes):
            self.answers[prefix] = logits[i, -1].copy(), cross[i, :, :, -1].copy()
        self.times += 1

    def forget(self, keep: set[Prefix]) -> None:
        """Drop the oldest answers of too many, but none that came beforehand or is shown."""
        more = [prefix for prefix in list(self.answers)[self.lasting :] if prefix not in keep]
        for prefix in more[: max(0, len(self.answers) - self.lasting - MAX_MORE)]:
            del self.answers[prefix]

    def costs(self) -> list[list[int]]:
        """Multiply-adds of the decoder in each step, for one hypothesis: [with the cache, without] of every step.

        A linear map takes as many for a token as its matrix has numbers; scores and weighted means take d_model each
        for a query and a key. Without a cache, every step computes all tokens so far, and the memory's keys and values.
        """
        d_model, n_source, n_layers = self._memory.size(-1), self.n_source, self.n_layers
        matrices = sum(weight.numel() for weight in self._model.decoder.parameters() if weight.dim() == 2)
        of_memory = 2 * n_layers * d_model**2  # cross-attention's maps to keys and values
        per_token = matrices - of_memory + self._model.head.weight.numel()
        costs = []
        for step in range(self.max_tokens):
            tokens = step + 1
            meetings = [2 * n_layers * d_model * n * (tokens + n_source) for n in (1, tokens)]
            first = n_source * of_memory if step == 0 else 0
            costs.append([per_token + meetings[0] + first, tokens * per_token + meetings[1] + n_source * of_memory])
        return costs


# ---------------------------------------------------------------- searches, in what the model has answered


def _settle(reading: _Reading, searches: Sequence[Callable[[], object]]) -> None:
    """Compute what the searches need, all of them side by side: of what they ask for, the shortest in one call.

    Prefixes of one call are equally long, so that none is padded: a model without a causal mask would see the padding.
    """
    while True:
        asked = set()
        for search in searches:
            try:
                search()
            except _Unknown as unknown:
                asked |= unknown.prefixes
        if not asked:
            return
        shortest = min(map(len, asked))
        reading.compute(sorted(prefix for prefix in asked if len(prefix) == shortest))


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    below = logits.astype(np.float64) - logits.max()
    return below - np.log(np.exp(below).sum())


def _softmax(logits: np.ndarray) -> np.ndarray:
    return np.exp(_log_softmax(logits))


def _likeliest(_step: int, logits: np.ndarray) -> int:
    return int(logits.argmax())


def _drawn(noise: np.ndarray, temperature: float) -> Draw:
    """Draw as torch.multinomial does: the largest probability / noise, with exponential noise, `(steps, n_target)`.

    The token with rate p is the first of several exponential clocks with probability p. Source: Maddison et al. 2014,
    "A* Sampling", section 2 (there with logarithms: the Gumbel-max trick).
    """

    def draw(step: int, logits: np.ndarray) -> int:
        shares = (torch.from_numpy(logits) / temperature).softmax(dim=-1).numpy()
        return int((shares / noise[step]).argmax())

    return draw


def _written(reading: _Reading, draw: Draw, taken: dict[int, int] | None = None, start: Prefix = ()) -> Prefix:
    """What follows a beginning, up to EOS or the last step; where `taken` has a token for a step, it decides."""
    prefix = start
    while len(prefix) < reading.max_tokens and EOS not in prefix[-1:]:
        step = len(prefix)
        logits = reading.logits(prefix)
        prefix = (*prefix, taken[step] if taken and step in taken else draw(step, logits))
    return prefix


def _what_ifs(reading: _Reading) -> None:
    """The greedy path, and what follows the runners-up of each of its steps."""
    path = _written(reading, _likeliest)
    asked = set()
    for step in range(len(path)):
        order = np.argsort(-reading.logits(path[:step]), kind="stable")
        for token in order[1 : RUNNERS_UP + 1].tolist():
            try:
                _written(reading, _likeliest, start=(*path[:step], token))
            except _Unknown as unknown:
                asked |= unknown.prefixes
    if asked:
        raise _Unknown(asked)


@dataclass(frozen=True)
class _Hypothesis:
    """A beginning that beam search keeps: its log-probability, and which of the level before it continues."""

    prefix: Prefix
    score: float
    parent: int = 0

    @property
    def ended(self) -> bool:
        return EOS in self.prefix[-1:]


def _beams(reading: _Reading, width: int) -> list[list[_Hypothesis]]:
    """Beam search level by level, the likeliest first; the first level is the empty beginning. As `beam_decode`."""
    levels = [[_Hypothesis((), 0.0)]]
    while len(levels) <= reading.max_tokens and not all(one.ended for one in levels[-1]):
        if unknown := [one.prefix for one in levels[-1] if not one.ended and one.prefix not in reading.answers]:
            raise _Unknown(unknown)
        ways = []
        for rank, one in enumerate(levels[-1]):
            if one.ended:  # goes on as it is, at no cost
                ways.append(_Hypothesis(one.prefix, one.score, rank))
                continue
            for token, score in enumerate((one.score + _log_softmax(reading.logits(one.prefix))).tolist()):
                ways.append(_Hypothesis((*one.prefix, token), score, rank))
        levels.append(sorted(ways, key=lambda one: -one.score)[:width])
    return levels


def _a(name: str) -> str:
    return f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"
