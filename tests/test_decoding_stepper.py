"""DecodingStepper: it decodes as headroom.reference does, and without Python; what it sends and refuses.

test_widgets_in_lab.py tests what all widgets promise.
"""

import json
import time
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch
import traitlets
from playwright.sync_api import expect
from torch.utils.flop_counter import FlopCounterMode

from headroom.data import BOS, EOS, SOURCE, TARGET, Vocabulary, written_dates
from headroom.mistakes import broken
from headroom.pretrained import dates_transformer, pretrained_transformer
from headroom.reference import (
    DecoderCache,
    Transformer,
    ViT,
    attention_maps,
    beam_decode,
    greedy_decode,
    sample_decode,
)
from headroom.widgets import DecodingStepper, decoding_stepper
from headroom.widgets.decoding_stepper import searches
from headroom.widgets.shared import front_end
from tests.widgets import EXPORTED, Widget, dequantise, exported

STEPS = 12
UNSURE = ["1 M 2021", "5 J 2021", "tomorrow", "11 12 13"]  # on which the trained model hesitates
DATES = written_dates("test", 6, seed=1).written


@pytest.fixture(scope="module")
def trained() -> Transformer:
    return pretrained_transformer()


@pytest.fixture(scope="module")
def untrained() -> Transformer:
    """Whose answers never end, with heads and widths that are all different."""
    torch.manual_seed(0)
    return Transformer(len(SOURCE), len(TARGET), d_model=20, n_layers=3, n_heads=5, d_ff=24).eval()


def ids(text: str) -> torch.Tensor:
    return SOURCE.encode([text])[0]


def whole(stepper: DecodingStepper) -> str:
    """What it has decoded in the end."""
    stepper.step = -1
    return stepper.decoded


# ---------------------------------------------------------------- as headroom.reference


@pytest.mark.parametrize("text", [*DATES, *UNSURE])
def test_greedy_writes_what_greedy_decode_writes(trained, text):
    expected = TARGET.decode(greedy_decode(trained, ids(text), BOS, EOS, STEPS))
    assert whole(DecodingStepper(trained, text)) == expected[0]


@pytest.mark.parametrize("temperature", [*(pytest.param(t, marks=pytest.mark.full) for t in (0.3, 2.5)), 1.0])
def test_sampling_draws_what_sample_decode_draws(trained, untrained, temperature):
    for model in (trained, untrained):
        stepper = DecodingStepper(model, UNSURE[0], method="sampling", temperature=temperature)
        for seed in range(15):
            stepper.seed = seed
            generator = torch.Generator().manual_seed(seed)
            drawn = sample_decode(model, ids(UNSURE[0]), BOS, EOS, STEPS, temperature=temperature, generator=generator)
            assert whole(stepper) == TARGET.decode(drawn)[0], f"seed {seed}"


@pytest.mark.full
@pytest.mark.parametrize("text", UNSURE)
@pytest.mark.parametrize("beams", [1, 2, 3, 4])
def test_beam_search_finds_what_beam_decode_finds(trained, untrained, text, beams):
    for model in (trained, untrained):
        stepper = DecodingStepper(model, text, method="beam", beams=beams)
        tokens, score = beam_decode(model, ids(text), BOS, EOS, STEPS, beams=beams)
        assert whole(stepper) == TARGET.decode(tokens)[0]
        assert stepper._levels()[-1][0].score == pytest.approx(score.item(), abs=1e-4)


def test_a_beam_that_differs_from_greedy_is_among_the_examples(trained):
    stepper = DecodingStepper(trained)
    stepper.source = "1 M 2021"
    greedy = whole(stepper)
    stepper.method = "beam"
    assert whole(stepper) != greedy


@torch.no_grad()
def test_where_the_reader_decides_the_model_goes_on_from_there(trained):
    stepper = DecodingStepper(trained, "1 M 2021", step=2)
    assert stepper.selection.candidate == "1"
    stepper.taken = [(2, "2")]
    assert (stepper.selection.prefix, stepper.selection.candidate) == ("20", "2")
    assert stepper.selection.taken == ((2, "2"),)
    memory = trained.encode(ids("1 M 2021"))
    tokens = [BOS, *TARGET.encode(["202"])[0][0].tolist()]
    while tokens[-1] != EOS and len(tokens) <= STEPS:
        tokens.append(trained.decode(torch.tensor([tokens]), memory)[0, -1].argmax().item())
    assert whole(stepper) == TARGET.decode(torch.tensor([tokens]))[0]


@torch.no_grad()
def test_probabilities_and_weights_are_the_models(trained):
    text = "28 de junio de 1987"
    stepper = DecodingStepper(trained, text, step=6, layer=0, head=2)
    assert stepper.selection.prefix == "1987-0"
    given = TARGET.encode(["1987-0"], ends=True)[0][:, :-1]
    with attention_maps(trained) as maps:
        logits = trained(ids(text), given)
    cross = maps["decoder.blocks.cross_attention"]
    shares = logits[0, -1].softmax(-1)
    assert list(stepper.probabilities.values()) == pytest.approx(shares.sort(descending=True).values.tolist(), abs=1e-6)
    assert stepper.probabilities["6"] == pytest.approx(shares[TARGET.numbers["6"]].item(), abs=1e-6)
    np.testing.assert_allclose(stepper.selected_weights, cross[0, 0, 2, -1], atol=1e-6)
    stepper.head = None
    np.testing.assert_allclose(stepper.selected_weights, cross[0, 0, :, -1].mean(0), atol=1e-6)
    stepper.method, stepper.temperature = "sampling", 2.0
    hot = (logits[0, -1] / 2).softmax(-1)
    assert stepper.probabilities["6"] == pytest.approx(hot[TARGET.numbers["6"]].item(), abs=1e-6)


def test_the_draw_is_that_of_multinomial():
    """What the browser repeats: the largest probability / exponential noise."""
    ours, theirs = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    for _ in range(500):
        shares = torch.rand(1, len(TARGET), generator=torch.Generator().manual_seed(_)).softmax(-1)
        noise = torch.empty_like(shares).exponential_(1, generator=ours)
        assert (shares / noise).argmax() == torch.multinomial(shares, 1, generator=theirs)


@torch.no_grad()
def test_costs_are_the_multiply_adds_that_torch_counts(untrained):
    text = "28 de junio"
    costs = DecodingStepper(untrained, text)._facts["sources"][0]["costs"]
    memory = untrained.encode(ids(text))
    cache = DecoderCache(len(untrained.decoder.blocks))
    given = torch.tensor([[BOS, 5, 3, 7]])
    for step in range(given.size(1)):
        with FlopCounterMode(display=False) as kept:
            untrained.decode(given[:, step : step + 1], memory, None, cache)
        with FlopCounterMode(display=False) as anew:
            untrained.decode(given[:, : step + 1], memory)
        assert costs[step] == [kept.get_total_flops() // 2, anew.get_total_flops() // 2]


# ---------------------------------------------------------------- what is there without asking again


def test_what_was_promised_beforehand_asks_the_model_nothing_more(trained, monkeypatch):
    stepper = DecodingStepper(trained, UNSURE)
    monkeypatch.setattr(stepper._model, "decode", lambda *_: pytest.fail("the model was asked again"))
    for text in UNSURE:
        stepper.source, stepper.method = text, "greedy"
        for step in range(stepper._n_steps):
            stepper.taken, stepper.step = [], step
            for token in list(stepper.probabilities)[1:3]:
                stepper.taken = [(step, token)]
        stepper.method = "beam"
        for beams in (1, 2, 3, 4):
            stepper.beams = beams
        stepper.method = "sampling"
        for seed in range(decoding_stepper.READY_SEEDS):
            stepper.seed = seed


def test_the_buffers_lie_as_the_browser_reads_them(trained):
    stepper = DecodingStepper(trained, ["1.2.2003", "4 March 2021"])
    n_target, reading = len(TARGET), stepper._readings["4 March 2021"]
    which = [1, *TARGET.encode(["2021"])[0][0].tolist()]
    place = stepper._prefixes.index(which)
    logits = np.frombuffer(stepper._logits, dtype="<f4").reshape(-1, n_target)
    assert len(logits) == len(stepper._prefixes)
    np.testing.assert_array_equal(logits[place], reading.logits(tuple(which[1:])))
    start = sum(2 * 4 * len(stepper._facts["sources"][prefix[0]]["words"]) for prefix in stepper._prefixes[:place])
    sent = dequantise(stepper._attention[2 * start : 2 * (start + 2 * 4 * 12)], (2, 4, 12))
    np.testing.assert_allclose(sent, reading.attention(tuple(which[1:])), atol=1e-5)


def test_three_texts_are_less_than_150_kilobytes(trained):
    state = DecodingStepper(trained).get_state()
    assert sum(len(value) for value in state.values() if isinstance(value, bytes)) < 150_000
    assert len(json.dumps([state["_facts"], state["_prefixes"]])) < 20_000


def test_what_was_not_known_is_computed_and_sent(trained):
    stepper = DecodingStepper(trained, "1 M 2021", method="sampling")
    before = len(stepper._prefixes)
    stepper.set_state({"temperature": 3.0, "seed": 125})  # a message from the browser
    path = stepper._path()
    assert len(stepper._prefixes) > before
    assert all([0, *path[:step]] in stepper._prefixes for step in range(len(path)))
    assert 125 in stepper._seeds
    noise = np.frombuffer(stepper._noise, dtype="<f4").reshape(-1, STEPS, len(TARGET))
    np.testing.assert_array_equal(noise[stepper._seeds.index(125)], stepper._noise_of(125))


def test_what_is_too_much_to_keep_is_forgotten_but_not_what_is_shown(trained, monkeypatch):
    monkeypatch.setattr(searches, "MAX_MORE", 20)
    monkeypatch.setattr(decoding_stepper, "MAX_TYPED", 2)
    stepper = DecodingStepper(trained, "1 M 2021", method="sampling", temperature=3.0)
    for seed in range(30):
        stepper.seed = seed
        path = stepper._path()
        assert all([0, *path[:step]] in stepper._prefixes for step in range(len(path)))
    assert len(stepper._prefixes) <= stepper._reading.lasting + 20 + STEPS
    for text in ("1.1.2001", "2.2.2002", "3.3.2003", "1.1.2001"):
        stepper.source = text
        assert stepper._facts["sources"][0]["text"] == "1 M 2021"
        assert len(stepper._facts["sources"]) <= 3
        assert whole(stepper)


# ---------------------------------------------------------------- the model stays as it was


def test_the_model_is_left_alone_and_later_training_changes_nothing(trained):
    model = pretrained_transformer().train()
    model.encoder.eval()  # a frozen part stays frozen
    stepper = DecodingStepper(model, "4 March 2021")
    assert model.training
    assert not model.encoder.training
    assert all(parameter.grad is None for parameter in model.parameters())
    with torch.no_grad():
        model.head.weight.zero_()
    stepper.source = "5 March 2021"
    assert whole(stepper) == "2021-03-05"


def test_dropout_is_off_while_it_decodes():
    torch.manual_seed(0)
    model = Transformer(len(SOURCE), len(TARGET), d_model=16, dropout=0.5).train()
    first, second = (DecodingStepper(model, "4 March 2021") for _ in range(2))
    assert first._logits == second._logits


def test_a_model_with_rotary_positions_and_one_in_float64():
    torch.manual_seed(1)
    rotary = Transformer(len(SOURCE), len(TARGET), d_model=16, rotary=True)
    expected = TARGET.decode(greedy_decode(rotary, ids("4 March 2021"), BOS, EOS, STEPS))
    assert whole(DecodingStepper(rotary, "4 March 2021")) == expected[0]
    double = pretrained_transformer().double()
    stepper = DecodingStepper(double, "1 M 2021", method="sampling", seed=3)
    generator = torch.Generator().manual_seed(3)
    drawn = sample_decode(double, ids("1 M 2021"), BOS, EOS, STEPS, generator=generator)
    assert whole(stepper) == TARGET.decode(drawn)[0]


# ---------------------------------------------------------------- what is selected


def test_the_selection_can_be_read_and_not_changed(trained):
    stepper = DecodingStepper(trained, "4 March 2021", step=5)
    chosen = stepper.selection
    assert (chosen.source, chosen.method, chosen.step) == ("4 March 2021", "greedy", 5)
    assert (chosen.prefix, chosen.candidate, stepper.decoded) == ("2021-", "0", "2021-0")
    assert (chosen.temperature, chosen.seed, chosen.beams, chosen.hypothesis) == (None, None, None, None)
    assert (chosen.layer, chosen.head) == (1, None)
    assert chosen.probability > 0.9
    with pytest.raises(FrozenInstanceError):
        chosen.step = 0


def test_a_hypothesis_can_be_chosen_and_leads_on(trained):
    stepper = DecodingStepper(trained, "1 M 2021", method="beam", beams=3, step=4)
    levels = stepper._levels()
    for rank in range(3):
        stepper.hypothesis = rank
        chosen = stepper.selection
        assert chosen.hypothesis == rank
        assert chosen.prefix == TARGET.decode(torch.tensor([levels[4][rank].prefix]))[0]
        children = [TARGET.tokens[one.prefix[-1]] for one in levels[5] if one.parent == rank]
        assert chosen.candidate in children or not children
    stepper.step = 0  # there is one beginning, not three
    assert stepper.hypothesis is None
    assert stepper.selection.hypothesis == 0


def test_a_hypothesis_that_has_ended_shows_its_last_step(untrained):
    """This model is soon done with one of its hypotheses, and never with the others."""
    stepper = DecodingStepper(untrained, "4 March", method="beam", beams=4)
    levels = stepper._levels()
    level = next(level for level, kept in enumerate(levels) if any(one.ended for one in kept))
    for later in (level, level + 3):
        stepper.step = later
        stepper.hypothesis = next(rank for rank, one in enumerate(levels[later]) if one.ended)
        assert stepper.selection.candidate == "<eos>"
        assert stepper.decoded == stepper.selection.prefix


def test_what_follows_from_a_choice(trained):
    stepper = DecodingStepper(trained, ["1 M 2021", "4 March 2021"], step=-1)
    last = stepper.step
    stepper.taken = [(3, "<eos>")]
    assert stepper.step == 3 < last, "the text has become shorter"
    stepper.source = "4 March 2021"
    assert stepper.taken == [], "a decision belongs to its text"
    stepper.taken = [(3, "<eos>")]
    stepper.method, stepper.hypothesis = "beam", 0
    assert stepper.taken == [], "beam search follows several ways itself"
    stepper.method = "greedy"
    assert stepper.hypothesis is None


def test_a_text_typed_in_the_browser(trained):
    stepper = DecodingStepper(trained, "4 March 2021", step=3)
    stepper.set_state({"_asked": "7 July 1999"})
    assert (stepper.source, stepper._asked, stepper._problem, stepper.step) == ("7 July 1999", "", "", 0)
    assert whole(stepper) == "1999-07-07"
    stepper.set_state({"_asked": "7 漢 1999"})
    assert stepper.source == "7 July 1999"
    assert "'漢' (U+6F22)" in stepper._problem
    stepper.set_state({"_asked": "1" * 101})
    assert stepper._problem == "the text has 101 characters; at most 100 are read"
    stepper.set_state({"_asked": "8 July 1999"})
    assert (stepper.source, stepper._problem) == ("8 July 1999", "")


def test_its_name_in_a_terminal(trained):
    stepper = DecodingStepper(trained, "4 March 2021", step=5)
    assert repr(stepper) == "DecodingStepper(1 texts, 2 layers, 4 heads, greedy, step 5: '2021-0')"


# ---------------------------------------------------------------- what is refused

REFUSED_ARGUMENTS = {
    "another model": (lambda: {"model": ViT()}, TypeError, r"model is a ViT; it must be a headroom\.reference\.Tr"),
    "vocabulary": (lambda: {"reads": Vocabulary("abc")}, ValueError, "reads has 6 tokens, but the model was built"),
    "no text": (lambda: {"texts": []}, ValueError, "texts is empty"),
    "empty text": (lambda: {"texts": " "}, ValueError, "nothing to read"),
    "a number": (lambda: {"texts": [2021]}, ValueError, "texts holds 2021; each text must be a string"),
    "unknown letters": (lambda: {"texts": "7 漢"}, ValueError, r"'漢' \(U\+6F22\)"),
    "no step": (lambda: {"max_tokens": 0}, ValueError, "max_tokens=0 must be at least 1"),
    "step": (lambda: {"step": 99}, ValueError, "step=99 does not exist; there are 11"),
    "layer": (lambda: {"layer": 2}, ValueError, "layer=2 does not exist; there are 2"),
    "head": (lambda: {"head": 4}, ValueError, "head=4 does not exist; there are 4"),
}


@pytest.mark.parametrize("case", REFUSED_ARGUMENTS)
def test_wrong_arguments_are_named_with_what_they_are_and_what_is_right(trained, case):
    change, error, message = REFUSED_ARGUMENTS[case]
    with pytest.raises(error, match=message):
        DecodingStepper(**{"model": trained, "texts": "4 March 2021"} | change())


def test_a_model_that_answers_with_nan_is_refused():
    model = dates_transformer()
    with torch.no_grad():
        model.head.weight[3, 3] = float("nan")
    with pytest.raises(ValueError, match="logits that are NaN or infinite"):
        DecodingStepper(model, "4 March 2021")


def test_a_decoder_that_does_not_look_at_the_source_is_refused(trained):
    with pytest.raises(ValueError, match=r"cross-attention looks at 1 tokens, but the source has 12.*encoder's memory"):
        DecodingStepper(broken(trained, "own_memory"), "4 March 2021")


def test_without_a_causal_mask_it_writes_what_that_model_writes(trained):
    """Every step is computed anew: keys that were kept would not be those that its training had."""
    wrong = broken(trained, "no_causal_mask")
    expected = TARGET.decode(greedy_decode(wrong, ids("1 M 2021"), BOS, EOS, STEPS))[0]
    assert whole(DecodingStepper(wrong, "1 M 2021")) == expected


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("method", "best", "method"),
        ("temperature", 0.0, "temperature=0.0 must be greater than 0; greedy is its limit"),
        ("seed", -1, "seed=-1 must be 0"),
        ("beams", 5, "beams=5 must be 1 … 4"),
        ("step", 11, "step=11 does not exist; there are 11: 0 to 10"),
        ("hypothesis", 0, 'hypothesis=0 goes with method="beam"'),
        ("layer", 5, "layer=5 does not exist"),
        ("head", "mean", "head"),
        ("taken", [7], "taken holds 7; each must be a step and a token"),
        ("taken", [(0, "a")], "taken has 'a' at step 0, which is no token"),
        ("taken", [(99, "1")], "taken has step 99; there are at most 12"),
        ("source", "漢", "U"),
    ],
)
def test_a_choice_that_does_not_exist_is_refused_and_undone(trained, name, value, message):
    stepper = DecodingStepper(trained, "4 March 2021")
    before = getattr(stepper, name)
    with pytest.raises(traitlets.TraitError, match=message):
        setattr(stepper, name, value)
    assert getattr(stepper, name) == before
    assert whole(stepper) == "2021-03-04"


def shown(widget: Widget, name: str) -> str:
    return widget.root.get_attribute(f"data-{name}")


def written(widget: Widget) -> str:
    """What the page has written up to and with the last step, without the end token."""
    widget.part("written").focus()
    widget.root.page.keyboard.press("End")
    widget.painted()  # what was written before is complete too
    expect(widget.root).to_have_attribute("data-complete", "true", timeout=10_000)
    widget.root.page.keyboard.press("End")
    widget.painted()
    expect(widget.part("live")).to_contain_text("Finished")
    return shown(widget, "prefix")


@pytest.mark.full
def test_without_python_it_plays_what_is_there_and_says_what_is_missing(browser, trained) -> None:
    page = browser.new_page()
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.evaluate(EXPORTED, [*front_end("decoding_stepper"), exported(DecodingStepper(trained, "1 M 2021"))])
    stepper = Widget(page.locator(".headroom-widget"))
    assert written(stepper) == "2012-05-01"
    stepper.part("method-select").select_option("beam")
    assert written(stepper) == "2021-05-01"
    stepper.part("method-select").select_option("sampling")
    for temperature in (2.5, 1.0):
        stepper.part("temperature-range").fill(str(temperature))
        for seed in range(4):
            stepper.part("seed-input").fill(str(seed))
            drawn = DecodingStepper(trained, "1 M 2021", method="sampling", temperature=temperature, seed=seed)
            assert written(stepper) == whole(drawn), f"seed {seed} at temperature {temperature}"
    stepper.part("seed-input").fill("77")
    expect(stepper.part("problem")).to_contain_text("Python is asked for the random numbers of seed 77")
    expect(stepper.part("problem")).to_contain_text("This needs Python", timeout=10_000)
    expect(stepper.part("live")).to_contain_text("what is drawn needs Python")
    stepper.part("seed-input").fill("0")
    expect(stepper.part("problem")).to_be_hidden()
    stepper.part("own-text").fill("7 July 1999")
    stepper.part("read").click()
    time.sleep(3)
    expect(stepper.part("problem")).to_contain_text("This needs Python, which has not answered: the text “7 July 1999”")
    assert written(stepper), "what was there goes on playing"
    page.close()
    assert wrong == []
