"""DecodingStepper in a real JupyterLab; each test goes on from the one before."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from headroom.pretrained import pretrained_transformer
from headroom.widgets import DecodingStepper
from tests.test_decoding_stepper import shown, written
from tests.widgets import WidgetNotebook, widget_notebook

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
