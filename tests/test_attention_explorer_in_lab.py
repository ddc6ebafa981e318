"""AttentionExplorer in a real JupyterLab; each test goes on from the one before."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.widgets import WidgetNotebook, place_in, widget_notebook

CELLS = {
    "text": """
        import torch
        from headroom.reference import causal_mask
        from headroom.widgets import AttentionExplorer
        torch.manual_seed(0)
        scores, mask = torch.randn(2, 2, 3, 4, 4), causal_mask(4)
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        words = [["the", "cat", "sat", "down"], ["a", "dog"]]
        text = AttentionExplorer(weights, tokens=words, scores=scores, mask=mask, layer=0, head=0, query=2)
        text""",
    "image": """
        from headroom.data import embedded_digits
        from headroom.pretrained import pretrained_vit
        digits = embedded_digits()
        image = AttentionExplorer.from_model(pretrained_vit(), digits.val_images[:3], labels=digits.val_labels[:3])
        image""",
    "read-text": """
        import json
        from dataclasses import asdict
        numbers = {"weights": weights[0, 0, 0].tolist(), "unmasked": scores[0, 0, 0].softmax(-1).tolist()}
        print(json.dumps(asdict(text.selection) | numbers))""",
    "read-image": """
        print(json.dumps(asdict(image.selection) | {"patches": image.selected_weights.tolist()}))""",
}


@pytest.fixture(scope="module")
def notebook(browser, server) -> Iterator[WidgetNotebook]:
    """A notebook with an explorer of words, one of patches, and cells that print what Python knows of them."""
    with widget_notebook(browser, server, "attention_explorer", CELLS) as opened:
        yield opened


def test_it_says_what_it_shows(notebook) -> None:
    text, image = notebook.widget("text"), notebook.widget("image")
    expect(text.part("live")).to_contain_text("Sequence 1, layer 1, head 1: query 3 “sat” gives most weight to key")
    expect(text.part("queries").locator("[data-token]")).to_have_text(["the", "cat", "Qsat", "down"])
    assert text.part("head").count() == 4, "the mean and three heads"
    expect(image.part("live")).to_contain_text(
        "Image 1, layer 2, mean of heads: [class] gives most weight to patch row"
    )
    notebook.tab.screenshot("explorer-image")


def test_what_is_pointed_at_shows_everywhere_and_reaches_python(notebook) -> None:
    text = notebook.widget("text")
    text.part("matrix").hover(position=place_in(text.part("matrix"), 1, 0))
    expect(text.root).to_have_attribute("data-query", "1")
    expect(text.part("queries").locator(".headroom-is-q")).to_contain_text("cat")
    expect(text.part("keys-row").locator(".headroom-is-k")).to_contain_text("the")
    expect(text.part("live")).to_contain_text("Pointing at key 1 “the”")
    notebook.read("read-text", query=1, key=0)  # the pointer has rested

    text = notebook.widget("text")
    text.part("queries").locator("[data-token='3']").hover()
    expect(text.root).to_have_attribute("data-query", "3")
    small = text.part("small-matrix").nth(2)
    box = small.bounding_box()
    small.hover(position={"x": box["width"] * 0.4, "y": box["height"] * 0.6})
    expect(text.part("live")).to_contain_text("query 3 “sat” gives")
    expect(text.part("live")).to_contain_text("Pointing at key 2 “cat”")


def test_a_click_locks_and_escape_unlocks(notebook) -> None:
    text = notebook.widget("text")
    text.part("queries").locator("[data-token='2']").click()
    expect(text.part("live")).to_contain_text("Locked.")
    text.part("queries").locator("[data-token='0']").hover()
    expect(text.root).to_have_attribute("data-query", "2")
    notebook.read("read-text", query=2, locked=True)
    text = notebook.widget("text")
    text.part("queries").focus()
    notebook.page.keyboard.press("Escape")
    expect(text.root).to_have_attribute("data-locked", "false")


def test_keys_move_through_patches_layers_and_heads(notebook) -> None:
    image = notebook.widget("image")
    image.part("image").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "[", "3", "Enter"):
        notebook.page.keyboard.press(key)
    expect(image.part("live")).to_contain_text("Image 1, layer 1, head 3: patch row 2, column 2 gives most weight")
    expect(image.part("layer-range")).to_have_attribute("aria-valuetext", "layer 1 of 2")
    answer = notebook.read("read-image", layer=0, head=2, query=5, locked=True)
    assert len(answer["patches"]) == 16
    image = notebook.widget("image")
    image.part("matrix").focus()
    for key in ("Escape", "ArrowUp", "ArrowRight", "ArrowRight"):
        notebook.page.keyboard.press(key)
    expect(image.part("live")).to_contain_text("patch row 2, column 1 gives most weight")
    expect(image.part("live")).to_contain_text("Pointing at patch row 1, column 1: weight 0.")


def test_the_mask_in_numbers(notebook) -> None:
    """Scores before, weights after, and what the weights left are divided by."""
    text = notebook.widget("text")
    text.part("queries").locator("[data-token='1']").click()
    text.part("show-select").select_option("unmasked")
    numbers = notebook.read("read-text", query=1)
    text = notebook.widget("text")
    share = sum(numbers["unmasked"][1][:2])
    said = text.part("renormalised").inner_text()
    assert f"gives {share:.3f} to the 2 keys" in said
    best = max(range(2), key=lambda key: numbers["weights"][1][key])
    assert f"{numbers['unmasked'][1][best]:.3f} / {share:.3f} = {numbers['weights'][1][best]:.3f}" in said
    values = text.part("keys-row").locator(".headroom-value")
    assert values.all_inner_texts() == [
        f"{'× ' if key > 1 else ''}{numbers['unmasked'][1][key]:.2f}" for key in range(4)
    ]
    text.part("show-select").select_option("scores")
    expect(text.part("live")).to_contain_text("has its highest score with")
    notebook.tab.screenshot("explorer-scores")
    text.part("show-select").select_option("weights")


def test_predict_first_then_reveal(notebook) -> None:
    text = notebook.widget("text")
    weights = notebook.read("read-text")["weights"][3]
    text = notebook.widget("text")
    text.part("queries").locator("[data-token='3']").click()
    text.part("predict").click()
    for part in ("matrix", "heads", "table", "renormalised"):
        expect(text.part(part)).to_be_hidden()
    assert text.part("keys-row").inner_text().split() == ["the", "cat", "sat", "down"], "no number is told"
    assert not re.search(r"0\.\d", text.part("live").inner_text())
    expect(text.part("reveal")).to_be_disabled()
    worst = min(range(4), key=lambda key: weights[key])
    text.part("keys-row").locator(f"[data-token='{worst}']").click()
    expect(text.part("live")).to_contain_text("Marked: key")
    text.part("reveal").click()
    live = text.part("live")
    expect(live).to_contain_text(f"the key you marked gets {weights[worst]:.2f} of the weight")
    expect(live).to_contain_text(f"the best key possible {max(weights):.2f}, an even share would be 0.25")
    expect(live).to_contain_text("It looks elsewhere")
    expect(live).to_contain_text("yours comes 4th")
    notebook.read("read-text", marks=[worst])
    text = notebook.widget("text")
    notebook.tab.screenshot("explorer-revealed")
    text.part("predict").click()
    expect(text.part("matrix")).to_be_visible()

    image = notebook.widget("image")
    image.part("image").focus()
    for key in ("Escape", "p", "ArrowDown", "Space", "r"):
        notebook.page.keyboard.press(key)
    expect(image.part("live")).to_contain_text("the key you marked gets")
    notebook.page.keyboard.press("p")


def test_the_table_has_the_numbers(notebook) -> None:
    text = notebook.widget("text")
    rows = text.open_table().locator("tbody tr")
    expect(rows).to_have_count(4)
    weights = notebook.read("read-text")["weights"][3]
    text = notebook.widget("text")
    for key, row in enumerate(rows.all()):
        assert f"{weights[key]:.3f}" in row.inner_text()
