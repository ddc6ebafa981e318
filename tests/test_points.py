"""What a slip costs, as an instructor would have it: a lesser one never costs more than a greater one."""

import functools
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from torch import nn

from autograder import points
from autograder.exercise import Criterion
from autograder.exercises import EXERCISES, find
from autograder.verdict import Result
from headroom import reference
from tests.answers import found
from tests.judged import first_of_each_mistake, judged, pairs, with_mistakes

LABS = Path(__file__).resolve().parents[1] / "labs"
COSTS = (
    "As a rule, a mistake costs you one row, marked ✗; other rows that fail for the same reason are marked ○ and cost "
    "nothing. If your code raises an error or returns another shape, the rows on shapes and on gradients may be lost "
    "as well."
)
# By exercise: "slip < greater slip" (costs less), "slip <= slip" (costs no more); of tests/answers, or of INLINE.
RELATIONS = {
    "project_qkv": """
        maps_turned_over_in_place < values_with_w_k    with_numpy < values_with_w_k
        divided_here < all_three_are_x                 values_with_w_k < all_three_are_x
        values_with_w_k < values_with_w_k_and_divided  divided_here < values_with_w_k_and_divided
        with_a_nonlinearity < all_three_are_x          keys_first <= all_three_are_x""",
    "attention_scores": """
        queries_divided_in_place < not_divided         numbers_only < not_divided
        root_of_the_keys <= not_divided                not_divided <= root_of_the_keys
        root_of_everything <= zeros                    natural_logarithm < zeros
        not_divided < keys_times_queries_undivided     keys_times_queries < keys_times_queries_undivided
        in_a_tuple < not_divided                       with_weights < not_divided
        not_divided < undivided_weights                not_divided < zeros""",
    "scaled_dot_product_attention": """
        divides_the_callers_queries < mask_not_used    naive_softmax <= mask_not_used
        naive_softmax < scaling_forgotten              mask_not_used < undivided_and_inverted
        true_means_hide < undivided_and_inverted       scaling_forgotten < undivided_and_inverted
        scaling_forgotten < undivided_columns          softmax_minus_2 < undivided_columns
        weights_first < values_forgotten               values_forgotten < values_unchanged
        behind_no_grad < scores_as_weights             mask_not_used < scores_as_weights
        softmax_twice < values_unchanged               residual_added < values_unchanged
        hidden_only_a_little <= mask_not_used          mask_of_the_first_sample <= mask_not_used
        nan_under_any_mask < values_unchanged          mask_not_used <= nan_under_any_mask
        nan_under_any_mask < undivided_and_inverted    leaking_and_exchanged < zeros""",
    "softmax_backward": """
        in_place < own_weight_only                     own_weight_only < zeros
        own_weight_only < weight_and_axis_forgotten    plus_the_row < plus_the_column
        sign_turned <= handed_on                       weight_forgotten < weight_and_axis_forgotten""",
    "layer_norm_backward": """
        centred_in_place < mean_forgotten              eps_forgotten < mean_forgotten
        beta_first < everything_handed_on              averaged_over_tokens < mean_forgotten
        ddof_1 < constants_with_ddof_1                 moments_as_constants < constants_with_ddof_1
        mean_forgotten < mean_forgotten_and_x""",
    "attention_backward": """
        d_out_reused < root_forgotten                  root_forgotten < root_and_row_term_forgotten
        row_term_forgotten < root_and_row_term_forgotten
        root_only_in_d_k < arguments_returned          signs_turned < arguments_returned
        root_forgotten < root_and_transpose_forgotten  sigmoid_in_the_middle < sigmoid_and_exchanged""",
    "LayerNorm": """
        PlainTensors < NotCentred                      PlainTensors < OverBatch
        PlainTensors <= NoAffine                       SubtractsInPlace < NotCentred
        EpsHardCoded < TorchVarAsItComes               NoBeta <= NoAffine
        NoGamma <= NoAffine                            NoAffine < Identity
        NotCentred <= RmsNorm                           TorchVarAsItComes < UnbiasedBetaInside
        ThreeAxesOnly < OverBatch                      MedianCentred < Identity
        DividedByOneMore < Identity                    InATuple < OverBatch
        DividedByVariance < NoRootNoAffine             StartsAtZero < NotCentred""",
    "RMSNorm": """
        PlainTensor < OverBatch                        NoEps < OverBatch
        GainForgotten < Identity                       EpsHardCoded < CentredFirst
        OneMore < Identity                             NoRootNoGain <= Identity
        MeanSquareItself < NoRootNoGain                ThreeAxesOnly < OverBatch""",
    "FeedForward": """
        MapsInAList < TwoMaps                          BareTensors < TwoMaps
        WithoutBiases < OneMapOnly                     OneBias <= WithoutBiases
        BentAtTheEnd < Identity                        OriginalPaper < PaperSizes
        OriginalPaper < ReluAndResidual                AddsX < ReluAndResidual
        DetachedHidden < TwoMaps                       TiedMaps < Identity
        Halved < Identity                              ThreeAxesOnly < OneMapOnly""",
    "MultiHeadSelfAttention": """
        HeadsInAList < NoScale                         HeadsInAList < MaskForgotten
        HeadsInADict < MaskForgotten                   HeadsInNestedLists < MaskForgotten
        WritesIntoInput <= MaskForgotten                MaskForgotten < NoScale
        BiasForgotten <= ForgotOutput                  NoScale < Identity
        RootOfModelWidth <= NoScale                    NoScale <= RootOfModelWidth
        RootOfTokens <= NoScale                        OnlyFirstHead < Identity
        OutputTwice < Identity                         DropsInEval < Identity
        ViewStraightToHeads < ScrambledAndUnscaled     NoScale < ScrambledAndUnscaled
        MaskForgotten < UnmaskedAndUnmixed             ForgotOutput < UnmaskedAndUnmixed
        DetachedScores < NoScale                       MaskOnlyForFirstSample <= MaskForgotten
        WithWeights < NoScale                          NaNUnderAnyMask < Identity
        MaskForgotten <= NaNUnderAnyMask               RootOfModelWidth < RootOfModelWidthMaskAfter
        Residual < Identity                            ScrambledBothWays < Identity
        NaNUnderAnyMask < UnmaskedAndUnmixed           NoBiases <= ForgotOutput""",
    "CrossAttention": """
        MapsInAList < Unscaled                         WithWeights < Unscaled
        MemoryDetached < Unscaled                      MaskNotPassedOn < Unscaled
        Unscaled < ReturnsX                            Unscaled < PlainScores
        MaskNotPassedOn < PlainScores                  KeysAsValues < SharedAndAdded
        SigmoidWeights < ReturnsX                      AsInSelfAttention <= ReturnsX
        AsInSelfAttention <= OwnMemoryNotMixed          NotMixed < OwnMemoryNotMixed""",
    "EncoderBlock": """
        PartsInADict < NoNorms                         PlusEquals <= MaskForgotten
        MaskForgotten < NeverListens                   FirstSumForgotten < ChainOfParts
        FirstNormUnused < NoNorms                      WithoutBiasesInside <= NeverThinks
        NeverThinks < Nothing                          NeverListens < Nothing
        ReturnsThePair < NeverListens                  PaperOf2017 < PostNormUnmasked
        MaskForgotten < PostNormUnmasked               HalfTheSum < Nothing
        ThirdNorm < Nothing                            CopiedLine < OneNormUnmasked""",
    "Encoder": """
        BlocksInAList < OneBlockInALoop                BlocksInAList < NobodyIsMasked
        MaskForTheFirst <= NobodyIsMasked              NobodyIsMasked < OneBlockInALoop
        OneBlockInALoop < PassesThrough                BlocksOnly < OneBlockNoNorm
        OneBlockInALoop < OneBlockNoNorm               ReturnsStates < OneBlockInALoop
        CutOff < PassesThrough                         StackOfPostNorm < Original
        NormAtTheStart < PassesThrough                 MaskForTheFirst < BackwardsAndOneMask""",
    "DecoderBlock": """
        BlockInAList < CrossNotCalled                  ReturnsWeightsToo < FirstSumMissing
        MaskForgotten < CrossNotCalled                 NetworkNotCalled < BlockIsIdentity
        AddsInPlace < MaskForgotten                    StreamDetached < BlockIsIdentity
        AsIn2017 < PostNormCrossFirst                  MaskForgotten < NoMasks
        MemoryMaskForgotten < NoMasks                  ReluInside < BlockIsIdentity
        NoMasks < BlockIsIdentity                      CrossNotCalled < BlockIsIdentity""",
    "CachedSelfAttention": """
        TokensKept < NeverRead                         CachedInPlace < NeverRead
        CachedPlainTensors < CachedNotMixed            TokensKept < TokensKeptNotMixed
        CachedNotMixed < TokensKeptNotMixed            NewFirst < NewFirstNotMixed""",
    "padding_mask": """
        ones_and_zeros < true_where_padding            lengths_counted_down < true_where_padding
        true_where_padding < inverted_one_off
        batch_and_tokens < key_padding_mask            true_where_padding < key_padding_mask""",
    "causal_mask": """
        floats < below_the_diagonal                    below_the_diagonal <= nothing_to_see
        diagonal_one < ahead_with_axes                 floats < hidden_is_one
        true_where_hidden < hidden_is_one              three_axes < true_where_hidden""",
    "sinusoidal_encoding": """
        odd_crashes < two_times_two_i                  two_times_two_i < doubled_halves
        halves < doubled_halves                        odd_crashes < halved_and_odd
        thousand < all_zero                            hundred_thousand < all_zero""",
    "PositionalEncoding": """
        Trained < ByBatch                              InPlace < ByBatch
        OddFails < ByBatch                             ByBatch < ByBatchDoubled
        AddedTwice < Forgets                           FromOne < Forgets""",
    "patchify": """
        from_data < permute_with_5_before_3            grey_only < reshaped
        height_twice < grey_only                       columns_outside < width_before_height
        reshaped < zeros                               grey_only < zeros""",
    "PatchEmbedding": """
        MapInAList < ConvolutionTurned                 WeightAlone < MeanOverPatches
        BiasIsABuffer <= WeightAlone                   Strips < StripsTimesWeight
        WeightAlone < StripsTimesWeight                CutUnderNoGrad < WeightAlone""",
    "ViT": """
        BlocksInAList <= ListTimesLayers                ReturnsInTheLoop < ResultsThrownAway
        HeadReadsTheStream <= ResultsThrownAway        HeadWithoutBias <= PositionsForgotten
        Appended < AppendedAndRepeated                 ListTimesLayers < AppendedAndRepeated
        Probabilities < RandomAnswers                  ResultsThrownAway < RandomAnswers
        AddedBeforePrepended < BeforeAndSoftmax""",
    "greedy_decode": """
        one_more < as_for_one_text                     always_to_the_end < argmax_over_the_places
        the_ended_write_on < ends_mean_nothing         always_to_the_end < ends_mean_nothing
        with_the_start < start_kept_and_counted""",
    "sequence_loss": """
        loss_of_real_tokens < loss_as_given            loss_shifted < loss_as_given
        a_number < loss_of_real_tokens                 writes_minus_100 < loss_of_real_tokens""",
    "masked_attention": """
        thrown_away < attention_as_given               rows_hidden < attention_as_given
        padding_thrown_away < no_mask_at_all           thrown_away < no_mask_at_all""",
    "embed_tokens": """
        positions_of_the_batch < embedding_as_given    turned_and_added < embedding_as_given
        through_data < root_gone                       root_gone < batch_and_no_root""",
}


def parsed() -> list:
    """(exercise, lesser, sign, greater) of each relation.

    The quick suite judges an answer for every known mistake, so that relations between them cost it nothing; of the
    others it asks for the first of each exercise.
    """
    judged_anyway = {(exercise, wrong.__name__) for exercise, wrong in first_of_each_mistake()}
    relations = []
    for exercise, text in RELATIONS.items():
        words = text.split()
        for n in range(0, len(words), 3):
            lesser, sign, greater = words[n : n + 3]
            quick = n == 0 or {(exercise, lesser), (exercise, greater)} <= judged_anyway
            marks = () if quick else pytest.mark.full
            relations.append(pytest.param(exercise, lesser, sign, greater, marks=marks))
    return relations


# --- Slips that stand in no file of answers ----------------------------------------------------------------------


def in_a_tuple(q, k):
    return (q @ k.mT / q.shape[-1] ** 0.5,)


def with_weights(q, k):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores, scores.softmax(-1)


def zeros(q, k, *rest):
    nothing = torch.zeros(*q.shape[:-1], k.shape[-2])
    return (nothing @ rest[0], nothing) if rest else nothing


def nan_under_any_mask(q, k, v, mask=None):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores + torch.where(mask, 0.0, float("nan"))
    weights = scores.softmax(-1)
    return weights @ v, weights


class InATuple(reference.LayerNorm):
    def forward(self, x):
        return (super().forward(x),)


class Heads(nn.Module):
    def __init__(self, d_model, n_heads, bias=True):
        super().__init__()
        self.n_heads = n_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))

    def divisor(self, x):
        return (x.shape[-1] // self.n_heads) ** 0.5

    def forward(self, x, mask=None):
        q, k, v = (w(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = q @ k.mT / self.divisor(x)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class WithWeights(Heads):
    def forward(self, x, mask=None):
        return super().forward(x, mask), x


class NaNUnderAnyMask(Heads):
    def forward(self, x, mask=None):
        return super().forward(x, mask) * (1.0 if mask is None else float("nan"))


class RootOfTokens(Heads):
    def divisor(self, x):
        return x.shape[1] ** 0.5


class NoBiases(Heads):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads, bias=False)


INLINE = {
    "attention_scores": (in_a_tuple, with_weights, zeros),
    "scaled_dot_product_attention": (zeros, nan_under_any_mask),
    "LayerNorm": (InATuple,),
    "MultiHeadSelfAttention": (WithWeights, NaNUnderAnyMask, RootOfTokens, NoBiases),
}


@functools.cache
def answer(exercise: str, name: str):
    own = [(exercise, one) for one in INLINE.get(exercise, ())]
    named = [one for of, one in [*own, *found("wrong")] if of == exercise and one.__name__ == name]
    assert named, f"no wrong answer to {exercise} is called {name}"
    return named[0]


@pytest.mark.parametrize(("exercise", "lesser", "sign", "greater"), parsed())
def test_a_lesser_slip_costs_less(exercise: str, lesser: str, sign: str, greater: str) -> None:
    more, less = (judged(find(exercise), answer(exercise, name), 0).score for name in (lesser, greater))
    assert more > less if sign == "<" else more >= less, f"{lesser} earns {more:g}, {greater} {less:g}"


# --- The rule itself ---------------------------------------------------------------------------------------------

KEYS = {"shape": 0.1, "values": 0.4, "mask": 0.3, "leading": 0.2}  # with their shares


def lost(
    failing: str, apart: str | None = None, slips: tuple[tuple[str, ...], ...] = (), uses_all: bool = True
) -> set[str]:
    """Which of the lines that fail are lost; `apart`: those that would, were what is explained right."""
    criteria = [Criterion(key, key, share) for key, share in KEYS.items()]

    def results(failing: str) -> list[Result]:
        return [Result(key, share, key not in failing.split()) for key, share in KEYS.items()]

    charged = points.charged(criteria, results(failing), None if apart is None else results(apart), slips, uses_all)
    return {result.title for result in charged if not result.holds and not result.spared}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        # Nothing is explained: two lines, the weightiest first; all where an input is not used.
        ({"failing": "values mask leading"}, "values mask"),
        ({"failing": "values mask leading", "uses_all": False}, "values mask leading"),
        ({"failing": "mask leading"}, "mask leading"),
        # A slip that is explained costs the line it breaks, or the weightiest; each further one another line.
        ({"failing": "values mask leading", "apart": "", "slips": (("mask",),)}, "mask"),
        ({"failing": "values mask leading", "apart": "", "slips": ((),)}, "values"),
        ({"failing": "values mask leading", "apart": "", "slips": (("mask",), ("mask",))}, "values mask"),
        # What fails beside what is explained is lost as well.
        ({"failing": "values mask leading", "apart": "leading", "slips": (("mask",),)}, "mask leading"),
    ],
)
def test_lines_are_lost_for_what_breaks_them(how: dict[str, Any], expected: str) -> None:
    assert lost(**how) == {*expected.split()}


# --- Two slips cost more than either -----------------------------------------------------------------------------


WITH_PAIRS = {name: exercise for name, exercise in EXERCISES.items() if exercise.alters and pairs(exercise)}


@pytest.mark.full
@pytest.mark.parametrize("name", WITH_PAIRS)
def test_two_slips_cost_more_than_either(name: str) -> None:
    """Of pairs that are both named, where there is another line to lose."""
    for pair in pairs(find(name)):
        both = with_mistakes(find(name), *pair)
        if not both.results or {way for mistake in both.mistakes for way in mistake.ways[:1]} != {*pair}:
            continue
        more_to_lose = any(result.spared for result in both.results)
        for key in pair:
            alone = with_mistakes(find(name), key).score
            lower = both.score < alone if more_to_lose else both.score <= alone
            assert lower, f"{pair} together earn {both.score:g}, {key} alone {alone:g}"


# --- What the labs say of it -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exercise", "name", "lost"),
    [
        ("attention_scores", "not_divided", ["values"]),
        ("project_qkv", "maps_as_in_nn_linear", ["shape", "values", "gradients"]),  # which raises an error
    ],
)
def test_a_mistake_costs_what_the_labs_say(exercise: str, name: str, lost: list[str]) -> None:
    verdict = judged(find(exercise), answer(exercise, name), 0)
    assert len(verdict.mistakes) == 1 and any(result.spared for result in verdict.results)
    rows = zip(find(exercise).criteria, verdict.results, strict=True)
    assert [criterion.key for criterion, result in rows if not result.holds and not result.spared] == lost


def test_every_lab_says_the_same_of_what_a_mistake_costs() -> None:
    texts = ["".join(cell.source for cell in nbformat.read(path, 4).cells) for path in LABS.glob("*/*.ipynb")]
    said = [text for text in texts if "a mistake costs you" in text]
    assert said and all(COSTS in text for text in said)
