"""Searches for a text, in what the model has answered so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

from headroom.data import BOS, EOS
from headroom.modes import looking_at
from headroom.reference import LanguageModel, Transformer, attention_maps

READY_SEEDS = 10  # seeds 0 … 9 draw without Python at temperature 1
RUNNERS_UP = 2  # candidates of each step, next to the likeliest, whose continuation is computed beforehand
MAX_MORE = 1000  # prefixes of a text, beyond those computed beforehand

Found = TypeVar("Found")  # what a search finds
Prefix = tuple[int, ...]  # the token ids written so far, without BOS
Draw = Callable[[int, np.ndarray], int]  # (step, logits) → the token to write


class _Unknown(Exception):
    """A search needs what the model answers to these prefixes."""

    def __init__(self, prefixes: Iterable[Prefix]) -> None:
        self.prefixes = set(prefixes)


class Reading(ABC):
    """One text, and what a model has answered to each prefix."""

    eos: int | None  # what ends a text, if anything does

    def __init__(self, ids: torch.Tensor, max_tokens: int) -> None:
        self.ids, self.max_tokens = ids, max_tokens  # ids: (1, source_tokens)
        self.answers: dict[Prefix, tuple[np.ndarray, np.ndarray]] = {}
        self.lasting = 0  # the first answers, which are kept
        self.times = 0  # that the model was asked
        self.compute([()])
        self.n_layers, self.n_heads, self.n_source = self.attention(()).shape

    @abstractmethod
    def ask(self, prefixes: Sequence[Prefix]) -> tuple[torch.Tensor, torch.Tensor]:
        """What follows each: logits `(n, n_target)`, attention weights `(n, layers, heads, keys)`."""

    @abstractmethod
    def costs(self) -> list[list[int]]:
        """Multiply-adds of each step, for one hypothesis: [with the cache, without].

        A linear map takes as many for a token as its matrix has numbers; scores and weighted means take d_model each
        for a query and a key. Without a cache, every step computes all tokens so far.
        """

    def logits(self, prefix: Prefix) -> np.ndarray:
        """`(n_target,)` float32."""
        return self._answer(prefix)[0]

    def attention(self, prefix: Prefix) -> np.ndarray:
        """Where the step after a prefix looks: `(n_layers, n_heads, keys)` float32."""
        return self._answer(prefix)[1]

    def ended(self, prefix: Prefix) -> bool:
        return self.eos is not None and self.eos in prefix[-1:]

    def _answer(self, prefix: Prefix) -> tuple[np.ndarray, np.ndarray]:
        if prefix not in self.answers:
            raise _Unknown([prefix])
        return self.answers[prefix]

    def compute(self, prefixes: Sequence[Prefix]) -> None:
        """Ask the model for several prefixes of one length at once."""
        logits, weights = (answer.float().cpu().numpy() for answer in self.ask(prefixes))
        if not np.isfinite(logits.sum()):
            raise ValueError("the model answers with logits that are NaN or infinite; its training may have diverged")
        for i, prefix in enumerate(prefixes):
            self.answers[prefix] = logits[i].copy(), weights[i].copy()
        self.times += 1

    def forget(self, keep: set[Prefix]) -> None:
        """Drop the oldest answers of too many, but none that came beforehand or is shown."""
        more = [prefix for prefix in list(self.answers)[self.lasting :] if prefix not in keep]
        for prefix in more[: max(0, len(self.answers) - self.lasting - MAX_MORE)]:
            del self.answers[prefix]


class Answering(Reading):
    """A Transformer reads the text, once, and writes another: its attention is that of the decoder to the text."""

    eos = EOS

    def __init__(self, model: Transformer, ids: torch.Tensor, max_tokens: int) -> None:
        self._model = model
        with looking_at(model) as device:
            self._memory = model.encode(ids.to(device))  # (1, source_tokens, d_model)
        super().__init__(ids, max_tokens)

    def ask(self, prefixes: Sequence[Prefix]) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.tensor([(BOS, *prefix) for prefix in prefixes])
        with looking_at(self._model) as device:
            memory = self._memory.expand(len(rows), -1, -1)
            with attention_maps(self._model.decoder) as maps:
                logits = self._model.decode(rows.to(device), memory)
        cross = maps["blocks.cross_attention"]  # (n, layers, heads, tokens, source_tokens)
        if cross.size(-1) != self.ids.size(1):
            raise ValueError(
                f"the model's cross-attention looks at {cross.size(-1)} tokens, but the source has "
                f"{self.ids.size(1)}: its keys and values must come from the encoder's memory"
            )
        return logits[:, -1], cross[:, :, :, -1]

    def costs(self) -> list[list[int]]:
        """As of `Reading`; the decoder's, and without a cache the memory's keys and values too."""
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


class Continuing(Reading):
    """A language model goes on after the text: its attention is to the text and to what it has written itself."""

    eos = None

    def __init__(self, model: LanguageModel, ids: torch.Tensor, max_tokens: int) -> None:
        self._model = model
        if ids.size(1) + max_tokens > model.max_tokens + 1:  # nobody asks what comes after the last token
            raise ValueError(
                f"the text has {ids.size(1)} tokens, and max_tokens={max_tokens} are to follow; "
                f"the model reads at most {model.max_tokens} at once"
            )
        super().__init__(ids, max_tokens)

    def ask(self, prefixes: Sequence[Prefix]) -> tuple[torch.Tensor, torch.Tensor]:
        written = torch.tensor(prefixes, dtype=torch.long).reshape(len(prefixes), -1)
        rows = torch.cat([self.ids.expand(len(prefixes), -1), written], dim=1)
        with looking_at(self._model) as device, attention_maps(self._model) as maps:
            logits = self._model(rows.to(device))
        return logits[:, -1], maps["blocks.attention"][:, :, :, -1]

    def costs(self) -> list[list[int]]:
        model = self._model
        d_model = model.embed.embedding_dim
        matrices = sum(weight.numel() for weight in model.blocks.parameters() if weight.dim() == 2)
        per_token = matrices + model.head.weight.numel()
        costs = []
        for step in range(self.max_tokens):
            tokens = self.n_source + step
            new = tokens if step == 0 else 1
            costs.append([n * (per_token + 2 * self.n_layers * d_model * tokens) for n in (new, tokens)])
        return costs


def settle(reading: Reading, searches: Sequence[Callable[[], object]]) -> None:
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


def take_likeliest(_step: int, logits: np.ndarray) -> int:
    return int(logits.argmax())


def draw_with(noise: np.ndarray, temperature: float) -> Draw:
    """Draw as torch.multinomial does: the largest probability / noise, with exponential noise, `(steps, n_target)`.

    The token with rate p is the first of several exponential clocks with probability p. Source: Maddison et al. 2014,
    "A* Sampling", section 2 (there with logarithms: the Gumbel-max trick).
    """

    def draw(step: int, logits: np.ndarray) -> int:
        shares = (torch.from_numpy(logits) / temperature).softmax(dim=-1).numpy()
        return int((shares / noise[step]).argmax())

    return draw


def write_with(reading: Reading, draw: Draw, taken: dict[int, int] | None = None, start: Prefix = ()) -> Prefix:
    """What follows a beginning, up to its end or the last step; where `taken` has a token for a step, it decides."""
    prefix = start
    while len(prefix) < reading.max_tokens and not reading.ended(prefix):
        step = len(prefix)
        logits = reading.logits(prefix)
        prefix = (*prefix, taken[step] if taken and step in taken else draw(step, logits))
    return prefix


def what_ifs(reading: Reading) -> None:
    """The greedy path, and what follows the runners-up of each of its steps."""
    path = write_with(reading, take_likeliest)
    asked = set()
    for step in range(len(path)):
        order = np.argsort(-reading.logits(path[:step]), kind="stable")
        for token in order[1 : RUNNERS_UP + 1].tolist():
            try:
                write_with(reading, take_likeliest, start=(*path[:step], token))
            except _Unknown as unknown:
                asked |= unknown.prefixes
    if asked:
        raise _Unknown(asked)


@dataclass(frozen=True)
class Hypothesis:
    """A beginning that beam search keeps: its log-probability, which one of the level before it continues."""

    prefix: Prefix
    score: float
    parent: int = 0
    ended: bool = False


def search_beams(reading: Reading, width: int) -> list[list[Hypothesis]]:
    """Beam search level by level, the likeliest first; the first level is the empty beginning. As `beam_decode`."""
    levels = [[Hypothesis((), 0.0)]]
    while len(levels) <= reading.max_tokens and not all(hypothesis.ended for hypothesis in levels[-1]):
        if unknown := [
            hypothesis.prefix
            for hypothesis in levels[-1]
            if not hypothesis.ended and hypothesis.prefix not in reading.answers
        ]:
            raise _Unknown(unknown)
        ways = []
        for rank, hypothesis in enumerate(levels[-1]):
            if hypothesis.ended:  # goes on as it is, at no cost
                ways.append(Hypothesis(hypothesis.prefix, hypothesis.score, rank, ended=True))
                continue
            scores = hypothesis.score + _log_softmax(reading.logits(hypothesis.prefix))
            for token in np.argsort(-scores, kind="stable")[:width].tolist():  # no others can be kept
                prefix = (*hypothesis.prefix, token)
                ways.append(Hypothesis(prefix, scores[token].item(), rank, reading.ended(prefix)))
        levels.append(sorted(ways, key=lambda hypothesis: -hypothesis.score)[:width])
    return levels
