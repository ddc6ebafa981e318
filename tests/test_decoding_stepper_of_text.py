"""DecodingStepper on a language model: what it writes, looks at and costs, in Python and in the browser."""

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from torch.utils.flop_counter import FlopCounterMode

from headroom.data import BytePairEncoding
from headroom.reference import (
    KeyValueCache,
    LanguageModel,
    attention_maps,
)
from headroom.widgets import DecodingStepper
from headroom.widgets.shared import front_end
from tests.test_decoding_stepper import STEPS, shown, whole, written
from tests.widgets import EXPORTED, Widget, exported

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
