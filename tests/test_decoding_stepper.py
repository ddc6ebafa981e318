"""DecodingStepper: it decodes as headroom.reference does, in Python and in the browser; what it sends and refuses.

test_widgets_in_lab.py tests what all widgets promise.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch
import traitlets
from playwright.sync_api import expect
from torch.utils.flop_counter import FlopCounterMode

from headroom.data import BOS, EOS, SOURCE, TARGET, BytePairEncoding, Vocabulary, written_dates
from headroom.mistakes import broken
from headroom.pretrained import dates_transformer, pretrained_transformer
from headroom.reference import (
    DecoderCache,
    KeyValueCache,
    LanguageModel,
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
from tests.widgets import EXPORTED, Widget, WidgetNotebook, dequantise, exported, widget_notebook

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


# ---------------------------------------------------------------- a language model

LETTERS = BytePairEncoding([])  # the characters alone
BEGINNING = "    def f"


@pytest.fixture(scope="module")
def language_model() -> LanguageModel:
    """Untrained, with room for exactly the beginning and what is written after it."""
    torch.manual_seed(0)
    model = LanguageModel(len(LETTERS), 24, 3, 4, 32, len(BEGINNING) + STEPS - 1).eval()
    with torch.no_grad():
        model.embed.weight *= 20  # so that it has something to say
    return model


def continued(model: LanguageModel, **options) -> DecodingStepper:
    return DecodingStepper(model, BEGINNING, writes=LETTERS, max_tokens=STEPS, **options)


def test_a_language_model_writes_what_its_generate_writes(language_model):
    start = LETTERS.encode(BEGINNING)[None]
    likeliest = LETTERS.decode(language_model.generate(start, STEPS, top_k=1)[0])
    assert whole(continued(language_model)) == likeliest
    assert whole(continued(language_model, method="beam", beams=1)) == likeliest
    stepper = continued(language_model, method="sampling", temperature=0.7)
    for seed in (0, 3, 12):
        stepper.seed, generator = seed, torch.Generator().manual_seed(seed)
        assert whole(stepper) == LETTERS.decode(language_model.generate(start, STEPS, 0.7, generator=generator)[0])


@torch.no_grad()
def test_it_looks_at_the_text_and_at_what_it_has_written(language_model):
    stepper = continued(language_model, step=3, layer=1, head=2)
    ids = LETTERS.encode(BEGINNING + stepper.selection.prefix)[None]
    assert ids.size(1) == len(BEGINNING) + 3
    with attention_maps(language_model) as maps:
        logits = language_model(ids)
    np.testing.assert_allclose(stepper.selected_weights, maps["blocks.attention"][0, 1, 2, -1], atol=1e-6)
    shares = logits[0, -1].softmax(-1).sort(descending=True).values
    assert list(stepper.probabilities.values()) == pytest.approx(shares.tolist(), abs=1e-6)


@torch.no_grad()
def test_its_beams_are_as_likely_as_the_model_says(language_model):
    stepper = continued(language_model, method="beam", beams=3)
    for hypothesis in stepper._levels()[-1]:
        ids = torch.cat([LETTERS.encode(BEGINNING), torch.tensor(hypothesis.prefix)])[None]
        shares = language_model(ids[:, :-1]).log_softmax(-1).gather(-1, ids[:, 1:, None])
        assert hypothesis.score == pytest.approx(shares[0, -STEPS:].sum().item(), abs=1e-4)
        assert not hypothesis.ended


@torch.no_grad()
def test_its_costs_are_the_multiply_adds_that_torch_counts(language_model):
    costs = continued(language_model)._facts["sources"][0]["costs"]
    cache = [KeyValueCache() for _ in language_model.blocks]
    given, start = LETTERS.encode(BEGINNING + "abc")[None], len(BEGINNING)
    for step in range(4):
        with FlopCounterMode(display=False) as kept:
            language_model(given[:, : start + step][:, len(cache[0]) :], cache)
        with FlopCounterMode(display=False) as anew:
            language_model(given[:, : start + step])
        assert costs[step] == [kept.get_total_flops() // 2, anew.get_total_flops() // 2]


def test_a_text_that_leaves_no_room_is_refused(language_model):
    with pytest.raises(ValueError, match=r"the text has 10 tokens, and max_tokens=12 are to follow; .* at most 20"):
        DecodingStepper(language_model, BEGINNING + "o", writes=LETTERS, max_tokens=STEPS)
    with pytest.raises(ValueError, match=r"writes has \d+ tokens, but the model was built for 96"):
        DecodingStepper(language_model, BEGINNING)


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


# ---------------------------------------------------------------- in JupyterLab; each test goes on from the one before

CELLS = {
    "stepper": """
        import torch
        from headroom.data import BOS, EOS, SOURCE, TARGET
        from headroom.pretrained import pretrained_transformer
        from headroom.reference import beam_decode, greedy_decode, sample_decode
        from headroom.widgets import DecodingStepper
        model = pretrained_transformer()
        stepper = DecodingStepper(model, ["1 M 2021", "4 March 2021", "28 de junio de 1987"])
        stepper""",
    "read": """
        import json
        from dataclasses import asdict
        numbers = {"probabilities": stepper.probabilities, "weights": stepper.selected_weights.tolist()}
        print(json.dumps(asdict(stepper.selection) | numbers | {"decoded": stepper.decoded}))""",
    "expected": """
        ids = SOURCE.encode([stepper.source])[0]
        def sample(seed, temperature):
            generator = torch.Generator().manual_seed(seed)
            return sample_decode(model, ids, BOS, EOS, 12, None, temperature, generator)
        write = lambda tokens: TARGET.decode(tokens)[0]
        found, score = beam_decode(model, ids, BOS, EOS, 12, beams=stepper.beams)
        levels = [
            [["".join(TARGET.tokens[i] for i in one.prefix), one.score] for one in level] for level in stepper._levels()
        ]
        print(json.dumps({
            "greedy": write(greedy_decode(model, ids, BOS, EOS, 12)),
            "samples": [write(sample(seed, 1.0)) for seed in range(10)],
            "hot": [write(sample(seed, 2.5)) for seed in range(4)],
            "beam": write(found), "score": score.item(), "levels": levels,
        }))""",
}


@pytest.fixture(scope="module")
def notebook(browser, server) -> Iterator[WidgetNotebook]:
    """A notebook with a stepper, a cell that prints what Python knows of it, and one with the reference's answers."""
    with widget_notebook(browser, server, "decoding_stepper", CELLS) as opened:
        yield opened


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


def test_it_goes_forward_and_back_by_buttons_keys_and_slider(notebook) -> None:
    stepper = notebook.widget("stepper")
    expect(stepper.part("live")).to_contain_text("Step 1 of 11, greedy. At the beginning, the likeliest is “2”")
    stepper.part("next").click()
    notebook.press(stepper, "written", "ArrowRight")
    expect(stepper.root).to_have_attribute("data-prefix", "20")
    notebook.press(stepper, "back", "ArrowRight")  # the arrows work on the buttons too
    expect(stepper.root).to_have_attribute("data-prefix", "201")
    stepper.part("back").click()
    stepper.part("step-range").fill("8")
    expect(stepper.part("live")).to_contain_text("Step 8 of 11, greedy. After “2012-05”")
    stepper.part("last").click()
    expect(stepper.part("live")).to_contain_text("Finished: “2012-05-01”.")
    notebook.press(stepper, "next", "Enter")  # there is no further step
    assert notebook.read("read", step=10)["decoded"] == "2012-05-01"
    assert notebook.read("expected")["greedy"] == "2012-05-01"
    notebook.widget("stepper").part("written").locator("[data-step='2']").click()
    notebook.read("read", step=2, prefix="20")


def test_its_numbers_are_the_models(notebook) -> None:
    expected = notebook.read("read", step=2)
    stepper = notebook.widget("stepper")
    rows = stepper.part("candidate").all()
    tokens = list(expected["probabilities"])[: len(rows)]
    assert [row.get_attribute("data-token") for row in rows] == tokens
    for row, token in zip(rows, tokens, strict=True):
        share = expected["probabilities"][token]
        assert float(row.get_attribute("data-share")) == pytest.approx(share, abs=1e-6)
        if share >= 0.0005:
            assert f"{share:.3f}" in row.inner_text()
    values = stepper.part("characters").locator(".headroom-value").all_inner_texts()
    assert [float(value) for value in values] == pytest.approx(expected["weights"], abs=0.0051)
    notebook.press(stepper, "written", "[", "2")
    stepper = notebook.widget("stepper")
    expect(stepper.part("live")).to_contain_text("layer 1, head 2")
    expected = notebook.read("read", layer=0, head=1)
    stepper = notebook.widget("stepper")
    values = stepper.part("characters").locator(".headroom-value").all_inner_texts()
    assert [float(value) for value in values] == pytest.approx(expected["weights"], abs=0.0051)
    cells = stepper.open_table().locator("table").nth(1).locator("tbody tr").nth(3).locator("td").all_inner_texts()
    assert float(cells[2]) == pytest.approx(expected["weights"][3], abs=0.00051)  # after the mean, heads 1 and 2
    stepper.close_table()
    notebook.press(stepper, "written", "]", "0")


def test_the_cache_and_what_it_saves(notebook) -> None:
    stepper = notebook.widget("stepper")
    stepper.part("step-range").fill("5")
    cells = stepper.part("cache").locator(".headroom-kv")
    expect(cells).to_have_count(2 * 5)  # two layers, five positions
    expect(stepper.part("cache").locator(".headroom-is-new")).to_have_count(2)
    expect(stepper.part("cache")).to_contain_text("Layer 1, written tokens: 5 positions, 4 reused, 1 computed")
    expect(stepper.part("cache")).to_contain_text("Layer 2, source: 8 positions, all reused (=) since step 1")
    model = pretrained_transformer()
    kept, anew = DecodingStepper(model, "1 M 2021")._facts["sources"][0]["costs"][4]
    expect(stepper.part("cost")).to_contain_text(f"{kept:,}")
    expect(stepper.part("cost")).to_contain_text(f"{anew:,}")
    expect(stepper.part("cost")).to_contain_text(f"{anew / kept:.1f} times as much")


def test_another_candidate_can_be_taken_and_given_back(notebook) -> None:
    stepper = notebook.widget("stepper")
    stepper.part("step-range").fill("3")
    stepper.root.locator("[data-part=candidate][data-token='2']").click()
    expect(stepper.part("live")).to_contain_text("you take “2”")
    expect(stepper.part("live")).to_contain_text("in place of “1”")
    expect(stepper.part("written").locator("[data-step='2']")).to_contain_text("you")
    assert notebook.read("read", taken=[[2, "2"]])["prefix"] == "20"
    stepper = notebook.widget("stepper")
    assert written(stepper) == "2021-05-01"
    answer = notebook.read("read", step=10)
    assert answer["decoded"] == "2021-05-01"
    stepper = notebook.widget("stepper")
    stepper.part("undo").click()
    expect(stepper.part("undo")).to_be_hidden()
    assert written(stepper) == "2012-05-01"
    notebook.read("read", taken=[])


def test_a_continuation_that_nobody_has_computed_is_asked_of_python(notebook) -> None:
    stepper = notebook.widget("stepper")
    stepper.part("step-range").fill("6")
    stepper.part("candidate").nth(5).click()  # unlikely: nothing of it is there
    expect(stepper.root).to_have_attribute("data-complete", "true", timeout=10_000)
    expect(stepper.part("problem")).to_be_hidden()
    page = written(stepper)
    answer = notebook.read("read", step=int(shown(notebook.widget("stepper"), "step")))
    assert answer["decoded"] == page
    notebook.press(notebook.widget("stepper"), "written", "Escape")


def test_the_browser_draws_what_torch_draws(notebook) -> None:
    expected = notebook.read("expected")
    stepper = notebook.widget("stepper")
    stepper.part("method-select").select_option("sampling")
    stepper.part("seed-input").fill("0")
    for seed, text in enumerate(expected["samples"]):
        expect(stepper.root).to_have_attribute("data-seed", str(seed))
        assert written(stepper) == text, f"seed {seed}"
        notebook.tab.press("r")
    assert len(set(expected["samples"])) > 1, "nothing is shown by draws that are all alike"
    stepper.part("temperature-range").fill("2.5")
    for seed, text in enumerate(expected["hot"]):
        stepper.part("seed-input").fill(str(seed))
        assert written(stepper) == text, f"seed {seed} at temperature 2.5"
    assert notebook.read("read", temperature=2.5, seed=3, method="sampling")["decoded"] == expected["hot"][3]


def test_the_tree_is_the_search_of_the_reference(notebook) -> None:
    stepper = notebook.widget("stepper")
    stepper.part("method-select").select_option("beam")
    for beams in (2, 3):
        stepper.part("beams-range").fill(str(beams))
        assert written(stepper)
        notebook.read("read", beams=beams, step=10)
        expected = notebook.read("expected")
        stepper = notebook.widget("stepper")
        expect(stepper.part("live")).to_contain_text(
            f"Finished: “{expected['beam']}”, log-probability −{-expected['score']:.2f}."
        )
        for level, hypotheses in enumerate(expected["levels"]):
            for rank, (_, score) in enumerate(hypotheses):
                node = stepper.part("tree").locator(f"[data-level='{level}'][data-rank='{rank}']")
                assert float(node.get_attribute("data-score")) == pytest.approx(score, abs=1e-5)
        dropped = stepper.part("tree").locator("[data-level='3'][data-dropped]")
        assert dropped.count() == beams
        assert all(text.startswith("×") for text in dropped.all_inner_texts()), "not by colour alone"
        assert "★" in stepper.part("tree").locator("[data-level='11'][data-rank='0']").inner_text()


def test_a_hypothesis_is_chosen_with_the_keys_or_a_click(notebook) -> None:
    stepper = notebook.widget("stepper")
    stepper.part("step-range").fill("5")
    levels = notebook.read("expected")["levels"]
    stepper = notebook.widget("stepper")
    notebook.press(stepper, "tree", "ArrowDown")
    expect(stepper.root).not_to_have_attribute("data-hypothesis", "none")
    first = int(shown(stepper, "hypothesis"))
    assert shown(stepper, "prefix") == levels[4][first][0]
    assert notebook.read("read", hypothesis=first, step=4)["prefix"] == levels[4][first][0]
    stepper = notebook.widget("stepper")
    stepper.part("tree").locator("[data-level='4'][data-rank='0']").click()
    expect(stepper.root).to_have_attribute("data-hypothesis", "0")
    expect(stepper.part("live")).to_contain_text(f"Hypothesis 1, “{levels[4][0][0]}”, has log-probability")
    kept = stepper.root.locator("[data-part=candidate][data-kept]").first
    token = kept.get_attribute("data-token")
    kept.click()
    expect(stepper.root).to_have_attribute("data-prefix", levels[4][0][0] + token)
    notebook.press(stepper, "tree", "ArrowLeft")
    expect(stepper.root).to_have_attribute("data-prefix", levels[4][0][0])
    notebook.press(stepper, "tree", "Escape")


def test_a_date_of_ones_own(notebook) -> None:
    stepper = notebook.widget("stepper")
    stepper.part("method-select").select_option("greedy")
    stepper.part("own-text").fill("24 décembre 1999")
    stepper.part("own-text").press("Enter")
    expect(stepper.root).to_have_attribute("data-source", "24 décembre 1999", timeout=10_000)
    assert written(stepper) == "1999-12-24"
    stepper.part("own-text").fill("24 漢 1999")
    stepper.part("read").click()
    expect(stepper.part("problem")).to_contain_text("The character '漢' (U+6F22) in '24 漢 1999' is not one of")
    expect(stepper.root).to_have_attribute("data-source", "24 décembre 1999")
    stepper.part("own-text").fill("")
    stepper.part("read").click()
    expect(stepper.part("problem")).to_contain_text("There is nothing to read yet")
    stepper.part("source-select").select_option("4 March 2021")
    expect(stepper.part("problem")).to_be_hidden()
    notebook.read("read", source="4 March 2021", step=0)


def test_nothing_went_wrong(notebook) -> None:
    assert notebook.tab.errors == []


@pytest.mark.quick
def test_a_language_model_in_the_browser(browser, language_model) -> None:
    page = browser.new_page()
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    python = continued(language_model, step=2, layer=0, head=1)
    page.evaluate(EXPORTED, [*front_end("decoding_stepper"), exported(python)])
    stepper = Widget(page.locator(".headroom-widget"))
    values = stepper.part("characters").locator(".headroom-value").all_inner_texts()
    assert [float(value) for value in values] == pytest.approx(python.selected_weights.tolist(), abs=0.0051)
    expect(stepper.part("cache")).to_contain_text("Layer 1, all tokens: 11 positions, 10 reused, 1 computed")
    expect(stepper.part("written").locator(".headroom-chip").first).to_have_text(BEGINNING)
    expect(stepper.part("live")).to_contain_text("looks most at token")
    for method in ("sampling", "beam", "greedy"):
        stepper.part("method-select").select_option(method)
        assert written(stepper) + shown(stepper, "candidate") == whole(continued(language_model, method=method))
    stepper.part("own-text").fill("  ")
    stepper.part("read").click()
    expect(stepper.part("problem")).to_contain_text("write how a text begins")
    page.close()
    assert wrong == []


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
