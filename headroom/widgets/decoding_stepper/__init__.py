"""Watch a Transformer or a language model write, token by token. The front end is view.js."""

from __future__ import annotations

import copy
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import traitlets as t

from headroom.data import BOS, SOURCE, TARGET, BytePairEncoding, Vocabulary
from headroom.data.vocabulary import SPECIAL
from headroom.reference import LanguageModel, Transformer
from headroom.widgets.base import Widget, choice, index, index_or_none
from headroom.widgets.checks import check_temperature
from headroom.widgets.decoding_stepper.searches import (
    READY_SEEDS,
    Answering,
    Continuing,
    Found,
    Hypothesis,
    Prefix,
    Reading,
    draw_with,
    search_beams,
    settle,
    take_likeliest,
    what_ifs,
    write_with,
)
from headroom.widgets.picture import Panel
from headroom.widgets.shared import Change, as_index, front_end, quantise, softmax

MAX_BEAMS = 4
MAX_SEED = 2**53 - 1  # the largest whole number that JavaScript counts to
MAX_SOURCE = 100  # characters of a text
# Everything computed is sent, and saved in the notebook. What goes beyond this is forgotten, the oldest first.
MAX_TYPED = 8  # texts that the reader has typed


class DecodingStepper(Widget):
    """A text decoded step by step by a model: candidates, attention, cache, and the tree of beam search.

    A Transformer reads a text and writes another; a language model goes on after the text. Each step shows the
    probability of every candidate, where it looks (a Transformer's cross-attention in the source, a language model's
    attention in all that stands before), and what a cache of keys and values saves. Methods are those of
    `headroom.reference`: greedy, sampling with a temperature, beam search.
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
        model: a Transformer or a LanguageModel, on any device, in any mode.
        texts: what it may read; one text, or several to choose from.
        reads, writes: its vocabularies; a language model reads what it writes.
        max_tokens: stop after so many, ended or not.
        method, temperature, seed, beams: how to decode. Sampling writes what `sample_decode`, or the language
            model's `generate`, draws for this one text with a generator of this seed on the CPU; beam search what
            `beam_decode` finds.
        step: what to show first; negative counts from the end.
        layer, head: whose attention; `head` None: the mean of all heads.

    Raises:
        TypeError: `model` is neither.
        ValueError: an argument has a wrong value, the vocabularies are not the model's, or it answers with NaN.
    """

    _esm, _css = front_end("decoding_stepper")

    # What the model has answered, in the order of `_prefixes`.
    _facts = t.Dict().tag(sync=True)  # sizes, vocabulary, the texts and the cost of their steps
    _prefixes = t.List().tag(sync=True)  # each [text, token id, …]
    _logits = t.Bytes().tag(sync=True)  # float32, little-endian: (n_target,) each
    _attention = t.Bytes().tag(sync=True)  # u16, little-endian: (n_layers, n_heads, keys) each
    _seeds = t.List().tag(sync=True)  # whose draws follow
    _noise = t.Bytes().tag(sync=True)  # float32, little-endian: (max_tokens, n_target) each

    # What the reader chooses; either side may change it.
    source = choice(t.Unicode(), lambda self, name, value: self._check_source(value))  # what the model reads
    method = choice(t.Enum(["greedy", "sampling", "beam"], default_value="greedy"))
    temperature = choice(  # of sampling
        t.Float(1.0), lambda self, name, value: check_temperature(value, "greedy is its limit at 0")
    )
    seed = choice(t.Int(0), lambda self, name, value: _check_number(name, value, 0, MAX_SEED))  # of sampling
    beams = choice(t.Int(3), lambda self, name, value: _check_number(name, value, 1, MAX_BEAMS))  # how many go on
    step = index(lambda self: self._n_steps)  # which token is being written
    # Of beam search: which of this step's hypotheses is shown, 0 the likeliest.
    hypothesis = choice(t.Int(None, allow_none=True), lambda self, name, value: self._check_hypothesis(value))
    taken = choice(t.List(), lambda self, name, value: self._check_taken(value))  # [[step, token], …], the reader's
    layer = index(lambda self: self._n_layers)  # of the attention shown
    head = index_or_none(lambda self: self._n_heads)  # None: the mean of all heads

    # A text that the reader has typed; Python takes it and answers with `source`, or with a sentence.
    _asked = t.Unicode().tag(sync=True)
    _problem = t.Unicode().tag(sync=True)

    def __init__(
        self,
        model: Transformer | LanguageModel,
        texts: str | Sequence[str] = ("4 March 2021", "1 M 2021", "28 de junio de 1987"),
        *,
        reads: Vocabulary = SOURCE,
        writes: Vocabulary | BytePairEncoding = TARGET,
        max_tokens: int = 12,
        method: str = "greedy",
        temperature: float = 1.0,
        seed: int = 0,
        beams: int = 3,
        step: int = 0,
        layer: int = -1,
        head: int | None = None,
    ) -> None:
        if isinstance(model, Transformer):
            known = {"reads": (reads, model.embed_source), "writes": (writes, model.embed_target)}
        elif isinstance(model, LanguageModel):
            known = {"writes": (writes, model.embed)}
        else:
            raise TypeError(
                f"model is {_a(type(model).__name__)}; it must be a headroom.reference.Transformer or a LanguageModel"
            )
        for name, (vocabulary, embed) in known.items():
            if len(vocabulary) != embed.num_embeddings:
                raise ValueError(
                    f"{name} has {len(vocabulary)} tokens, but the model was built for {embed.num_embeddings}"
                )
        if max_tokens < 1:
            raise ValueError(f"max_tokens={max_tokens} must be at least 1")
        texts = [texts] if isinstance(texts, str) else list(texts)
        if not texts:
            raise ValueError("texts is empty; there must be at least one text to read")

        self._lock = threading.RLock()  # JupyterLab answers the browser in another thread while a cell runs
        self._model = copy.deepcopy(model)
        self._continues = isinstance(model, LanguageModel)  # after the text, in place of another one
        self._writes, self._max_tokens = writes, max_tokens
        self._reads = writes if self._continues else reads
        self._readings: dict[str, Reading] = {}
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
            self._choose(step=step, layer=layer, head=head)
            self._publish()

    # ---------------------------------------------------------------- what Python reads

    def _derived(self) -> dict[str, Any]:
        sampling, beam = self.method == "sampling", self.method == "beam"
        prefix, token = self._decision()
        logits = self._reading.logits(prefix).astype(np.float64)
        return {  # None: of another method
            "temperature": self.temperature if sampling else None,
            "seed": self.seed if sampling else None,
            "beams": self.beams if beam else None,
            "hypothesis": self._shown_hypothesis() if beam else None,
            "prefix": self._text(prefix),  # what is written before this step
            "candidate": self._writes.tokens[token],  # the token that this step writes, such as "7" or "<eos>"
            "probability": float(softmax(logits)[token]),  # before any temperature
        }

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
        shares = softmax((logits / self.temperature if self.method == "sampling" else logits).astype(np.float64))
        return {self._writes.tokens[token]: float(shares[token]) for token in np.argsort(-shares, kind="stable")}

    @property
    def selected_weights(self) -> np.ndarray:
        """The attention of this step, of the selected layer and head: float32 `(keys,)`.

        The keys are the source's tokens; a language model's are those of the text and of what it has written since.
        """
        prefix, _ = self._decision()
        heads = self._reading.attention(prefix)[self.layer]
        return heads.mean(axis=0) if self.head is None else heads[self.head].copy()

    def _panels(self) -> list[Panel]:
        likeliest = list(self.probabilities.items())[:8]
        weights = self.selected_weights[None]
        words = self._words(self._reading)
        if self._continues:
            words += [self._writes.tokens[i] for i in self._decision()[0]]
        words, tokens = ([_visible(one) for one in some] for some in (words, (token for token, _ in likeliest)))
        return [
            Panel(
                f"Step {self.step + 1}: probabilities", np.array([[p] for _, p in likeliest]), tokens, [""], values=True
            ),
            Panel(f"{'Attention' if self._continues else 'Cross-attention'} of this step", weights, [""], words),
        ]

    def _says(self) -> str:
        token, probability = next(iter(self.probabilities.items()))
        does = "language model goes on after" if self._continues else "Transformer reads"
        return (
            f"A {does} “{self.source}” and writes, by {self.method} decoding. At step {self.step + 1} its "
            f"likeliest token is “{token}”, with probability {probability:.2f}."
        )

    def __repr__(self) -> str:
        return (
            f"DecodingStepper({len(self._readings)} texts, {self._n_layers} layers, {self._n_heads} heads, "
            f"{self.method}, step {self.step}: {self.decoded!r})"
        )

    # ---------------------------------------------------------------- how it decodes

    @property
    def _reading(self) -> Reading:
        return self._readings[self.source]

    @property
    def _n_steps(self) -> int:
        return len(self._levels()) - 1 if self.method == "beam" else len(self._path())

    def _path(self) -> Prefix:
        """What greedy decoding or sampling writes, with the reader's decisions."""
        taken = {step: self._writes.tokens.index(token) for step, token in self.taken}
        draw = take_likeliest if self.method == "greedy" else draw_with(self._noise_of(self.seed), self.temperature)
        return self._settled(lambda: write_with(self._reading, draw, taken))

    def _levels(self) -> list[list[Hypothesis]]:
        return self._settled(lambda: search_beams(self._reading, self.beams))

    def _settled(self, search: Callable[[], Found]) -> Found:
        with self._lock:
            settle(self._reading, [search])
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
            return prefix[:-1], prefix[-1]
        if winner[: self.step] == prefix:
            return prefix, winner[self.step]
        for child in levels[self.step + 1]:
            if child.parent == rank:
                return prefix, child.prefix[-1]
        return prefix, take_likeliest(self.step, self._reading.logits(prefix))  # it ends here: all its ways are dropped

    def _shown_hypothesis(self) -> int:
        """Which of this step's hypotheses is shown: the one chosen, or the one that leads to the best."""
        levels = self._levels()
        level, winner = levels[self.step], levels[-1][0].prefix
        if self.hypothesis is not None:
            return self.hypothesis
        return next(rank for rank, hypothesis in enumerate(level) if hypothesis.prefix == winner[: self.step])

    def _text(self, prefix: Prefix) -> str:
        return "".join(self._writes.tokens[i] for i in prefix if i >= self._special)

    def _words(self, reading: Reading) -> list[str]:
        return [self._reads.tokens[i] for i in reading.ids[0].tolist()]

    @property
    def _special(self) -> int:
        """How many tokens, the first ones, stand for no text."""
        return len(SPECIAL) if isinstance(self._writes, Vocabulary) else 0

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

    def _read(self, text: str) -> Reading:
        """A text as the model reads it, with everything that can be shown without asking again."""
        if not text.strip():
            raise ValueError("there is nothing to read: a text needs at least one character")
        if len(text) > MAX_SOURCE:
            raise ValueError(f"the text has {len(text)} characters; at most {MAX_SOURCE} are read")
        reads, model = self._reads, self._model
        ids = reads.encode([text])[0] if isinstance(reads, Vocabulary) else reads.encode(text)[None]
        reading: Reading
        if isinstance(model, LanguageModel):
            reading = Continuing(model, ids, self._max_tokens)
        else:
            reading = Answering(model, ids, self._max_tokens)
        searches = [lambda: what_ifs(reading)]
        searches += [lambda width=width: search_beams(reading, width) for width in range(1, MAX_BEAMS + 1)]
        draws = [draw_with(self._noise_of(seed), 1.0) for seed in range(READY_SEEDS)]
        searches += [lambda draw=draw: write_with(reading, draw) for draw in draws]
        settle(reading, searches)
        reading.lasting = len(reading.answers)
        return reading

    # ---------------------------------------------------------------- what is sent

    def _publish(self) -> None:
        """Everything that the model has answered."""
        readings, self._sent = self._readings, self._computed()
        with self.hold_sync():
            self._prefixes = [[i, *prefix] for i, reading in enumerate(readings.values()) for prefix in reading.answers]
            answers = [answer for reading in readings.values() for answer in reading.answers.values()]
            self._logits = b"".join(logits.astype("<f4").tobytes() for logits, _ in answers)
            self._attention = b"".join(quantise(attention) for _, attention in answers)
            self._seeds = list(self._draws)
            self._noise = b"".join(noise.astype("<f4").tobytes() for noise in self._draws.values())
            self._facts = {
                "n_layers": self._n_layers,
                "n_heads": self._n_heads,
                "continues": self._continues,
                "tokens": list(self._writes.tokens),
                "special": self._special,
                "eos": self._reading.eos,
                "bos": None if self._continues else BOS,
                "max_tokens": self._max_tokens,
                "max_beams": MAX_BEAMS,
                "max_source": MAX_SOURCE,
                "sources": [
                    {"text": text, "words": self._words(reading), "costs": reading.costs()}
                    for text, reading in readings.items()
                ],
            }

    def _check_source(self, text: str) -> str:
        with self._lock:
            if text not in self._readings:
                self._readings[text] = self._read(text)
                self._typed.append(text)
                self._publish()  # before the browser is told to show it
        return text

    def _check_hypothesis(self, rank: int | None) -> int | None:
        if rank is None:
            return None
        if self.method != "beam":
            raise ValueError(f'hypothesis={rank} goes with method="beam"')
        return as_index("hypothesis", rank, len(self._levels()[self.step]))

    def _check_taken(self, decisions: Sequence[Any]) -> list[list[Any]]:
        taken = {}
        for decision in decisions:
            try:
                step, token = decision
                step = operator.index(step)
            except (TypeError, ValueError):
                raise ValueError(
                    f'taken holds {decision!r}; each must be a step and a token, such as (5, "7")'
                ) from None
            if not 0 <= step < self._max_tokens:
                raise ValueError(f"taken has step {step}; there are at most {self._max_tokens}, from 0")
            if token not in self._writes.tokens:
                raise ValueError(f"taken has {token!r} at step {step}, which is no token that the model writes")
            taken[step] = token
        if taken and self.method == "beam":
            raise ValueError('taken goes with method="greedy" or "sampling": beam search follows several ways itself')
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
        return tuple((text, reading.times) for text, reading in self._readings.items()), len(self._draws)

    def _needed(self) -> set[Prefix]:
        if self.method == "beam":
            return {hypothesis.prefix for level in self._levels() for hypothesis in level}
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


def _check_number(name: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise ValueError(f"{name}={value} must be {low} … {high}")
    return value


def _visible(token: str) -> str:
    """A token for a picture's axis, where a line break would tear it apart."""
    return token.replace("\n", "⏎").replace("  ", "␣␣")


def _a(name: str) -> str:
    return f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"
