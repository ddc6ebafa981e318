"""How long from a key press to the painted frame, in JupyterLab, beside `interact` with matplotlib; how soon one opens.

    python benchmarks/widgets.py

Chromium without a window drives the course's own JupyterLab. Both show the same heads of the same attention; what is
pressed is a key that goes to the next layer, head or query. Writes `benchmarks/results/widgets.md`; takes a minute.
"""

import os
import platform
import re
import statistics
import sys
import tempfile
from pathlib import Path

import nbformat

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

# The tests' JupyterLab and their list of all widgets, found by the line above.
from tests.browser import Lab, chromium, copy_course, lab_server  # noqa: E402
from tests.test_widgets_in_lab import WIDGETS, code  # noqa: E402

RESULTS = Path(__file__).parent / "results"
PRESSES = 40
SIZES = {"digits": (2, 4, 17, 28), "large": (12, 12, 197, 224)}  # layers, heads, tokens, side of the image

SOURCES = {
    "setup": """
        import matplotlib.pyplot as plt
        import torch
        import torch.nn.functional as F
        from ipywidgets import interact
        from headroom.widgets import AttentionExplorer
        torch.manual_seed(0)
        attention, images = {}, {}
        for name, (layers, heads, tokens, side) in SIZES.items():
            attention[name] = (2 * torch.randn(1, layers, heads, tokens, tokens)).softmax(dim=-1)
            blurred = F.interpolate(torch.rand(1, 3, 7, 7), size=side, mode="bicubic")  # outlined like a photograph
            images[name] = blurred.clamp(0, 1)
        def draw(weights, image, head):  # what the explorer shows of a layer
            n_heads, tokens, _ = weights.shape
            side = round((tokens - 1) ** 0.5)
            figure = plt.figure(figsize=(9, 4.5), layout="constrained")
            above, below = figure.subfigures(2, 1, height_ratios=[3, 1])
            under, large, row = above.subplots(1, 3)
            under.imshow(image.permute(1, 2, 0))
            over = weights[head, 0, 1:].reshape(1, 1, side, side)
            under.imshow(F.interpolate(over, size=image.size(-1))[0, 0], cmap="cividis", alpha=0.7)
            large.imshow(weights[head], cmap="cividis")
            row.bar(range(tokens), weights[head, 0])
            for one, ax in zip(weights, below.subplots(1, n_heads)):
                ax.imshow(one, cmap="cividis")
                ax.axis("off")
            plt.show()
        AttentionExplorer(attention["digits"], images=images["digits"])._facts["largest"]""",
    **{
        f"explorer-{name}": f"""
        explorer = AttentionExplorer(attention["{name}"], images=images["{name}"], layer=0, head=0)
        explorer"""
        for name in SIZES
    },
    **{
        f"interact-{name}": f"""
        @interact(layer=(0, {layers - 1}), head=(0, {heads - 1}))
        def show(layer=0, head=0):
            draw(attention["{name}"][0, layer], images["{name}"][0], head)"""
        for name, (layers, heads, _, _) in SIZES.items()
    },
}

# Resolves when the frame that shows the change has been painted: a task queued in an animation frame runs after it.
# And a key is pressed at any moment of a frame: `anyMoment` waits for one.
AFTER_PAINT = """const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    const anyMoment = async () => {
        await painted();
        await new Promise((done) => setTimeout(done, 17 * Math.random()));
    };
"""
PRESS_WIDGET = (
    """async ([cell, part, key]) => {"""
    + AFTER_PAINT
    + """
    const root = cell.querySelector('.headroom-widget');
    const live = root.querySelector('[data-part=live]');
    root.querySelector(`[data-part=${part}]`).focus({ preventScroll: true });
    await anyMoment();
    const changed = new Promise((done) => new MutationObserver((_, me) => { me.disconnect(); done(); })
        .observe(live, { childList: true, characterData: true, subtree: true }));
    const start = performance.now();
    document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
    await changed;
    await new Promise((done) => setTimeout(done, 0));  // the change came within an animation frame: this runs after it
    return performance.now() - start;
}"""
)
ONE_WORD = (
    """async ([cell]) => {"""
    + AFTER_PAINT
    + """
    const live = cell.querySelector('[data-part=live]');
    await anyMoment();
    const start = performance.now();
    await new Promise((done) => requestAnimationFrame(() => { live.textContent += ' x'; setTimeout(done, 0); }));
    return performance.now() - start;
}"""
)
PRESS_INTERACT = (
    """async ([cell, part, key]) => {"""
    + AFTER_PAINT
    + """
    const box = cell.querySelector('.widget-interact');
    const handle = box.querySelectorAll('.noUi-handle')[part === 'layer' ? 0 : 1];
    handle.focus({ preventScroll: true });
    const before = box.querySelector('img').src;
    await anyMoment();
    const start = performance.now();
    handle.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
    for (;;) {
        const image = box.querySelector('img');
        if (image && image.src !== before && image.complete) break;
        if (performance.now() - start > 20000) throw new Error('the picture does not change');
        await new Promise((done) => setTimeout(done, 1));
    }
    await painted();
    return performance.now() - start;
}"""
)
OPEN = (
    """async (id) => {"""
    + AFTER_PAINT
    + """
    const notebook = jupyterapp.shell.currentWidget.content;
    notebook.activeCellIndex = notebook.widgets.findIndex((cell) => cell.model.id === id);
    const before = document.querySelectorAll('.headroom-attention-explorer[data-layer]').length;
    const start = performance.now();
    void jupyterapp.commands.execute('notebook:run-cell');
    for (;;) {
        if (document.querySelectorAll('.headroom-attention-explorer[data-layer]').length > before) break;
        if (performance.now() - start > 60000) throw new Error('nothing opens');
        await new Promise((done) => setTimeout(done, 2));
    }
    await painted();
    return performance.now() - start;
}"""
)


# What is pressed: the part that has the focus, the key for forth and the key for back
EXPLORER = {
    "one word changes, with no widget's help": ("live", "", ""),
    "explorer, next layer": ("image", "]", "["),
    "explorer, next head": ("image", "h", "H"),
    "explorer, next query": ("matrix", "ArrowDown", "ArrowUp"),
}
INTERACT = {
    "interact, next layer": ("layer", "ArrowRight", "ArrowLeft"),
    "interact, next head": ("head", "ArrowRight", "ArrowLeft"),
}


def main() -> None:
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        course = copy_course(Path(folder) / "course")
        notebook = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
        for name, source in SOURCES.items():
            text = re.sub(r"^ {8}", "", source.strip("\n"), flags=re.MULTILINE).replace("SIZES", repr(SIZES))
            notebook.cells.append(nbformat.v4.new_code_cell(text))
            notebook.cells[-1]["id"] = name
        for name, shown in WIDGETS.items():
            notebook.cells.append(nbformat.v4.new_code_cell(f"{code(shown)}\nwidget", id=identity(name)))
        nbformat.write(notebook, course / "benchmark.ipynb")
        with chromium() as browser, lab_server(course, Path(folder) / "home") as server:
            lab = Lab(browser, server)
            lab.open_notebook("benchmark.ipynb")
            lab.run_cell("setup")
            opened, rows = [], []
            for name in SIZES:
                lab.cell(f"explorer-{name}")
                opened.append(lab.page.evaluate(OPEN, f"explorer-{name}"))
                rows += measure(lab, name, f"explorer-{name}", EXPLORER)
                lab.run_cell(f"interact-{name}")
                rows += measure(lab, name, f"interact-{name}", INTERACT)
            every = {name: press_each(lab, name) for name in WIDGETS}
            assert lab.errors == [], lab.errors
    text = report(opened, rows, every, load, os.getloadavg()[0])
    (RESULTS / "widgets.md").write_text(text, encoding="utf-8")
    print(text)


def measure(
    lab: Lab, name: str, cell: str, ways: dict[str, tuple[str, str, str]]
) -> list[tuple[str, str, list[float]]]:
    """What a key press does in one cell's output, and the milliseconds of many."""
    press = {"explorer": PRESS_WIDGET, "interact": PRESS_INTERACT, "one": ONE_WORD}
    output = lab.cell(cell).element_handle()
    rows = []
    for what, (part, forth, back) in ways.items():
        steps = SIZES[name][0] - 1 if "layer" in what else 3  # back and forth, never past the last
        times = []
        for number in range(PRESSES):
            key = forth if number // steps % 2 == 0 else back
            times.append(lab.page.evaluate(press[re.split("[ ,]", what)[0]], [output, part, key]))
            lab.page.wait_for_timeout(30)
        rows.append((name, what, times))
        print(name, what, f"{statistics.median(times):.1f} ms")
    return rows


def identity(name: str) -> str:
    """The id of the cell that shows a widget of the tests' list."""
    return re.sub(r"\W", "-", name)


def press_each(lab: Lab, name: str) -> list[float]:
    """The milliseconds of many presses of a widget's first key in the tests' list."""
    shown = WIDGETS[name]
    lab.run_cell(identity(name))
    output = lab.cell(identity(name)).element_handle()
    lab.cell(identity(name)).locator(".headroom-widget").wait_for()
    times = []
    for number in range(PRESSES):
        key = shown.keys[number % len(shown.keys)]
        times.append(lab.page.evaluate(PRESS_WIDGET, [output, shown.part, key]))
        lab.page.wait_for_timeout(30)
    print(name, f"{statistics.median(times):.1f} ms")
    return times


def report(
    opened: list[float],
    rows: list[tuple[str, str, list[float]]],
    every: dict[str, list[float]],
    before: float,
    after: float,
) -> str:
    median = {(name, what): statistics.median(times) for name, what, times in rows}
    lines = [
        "# Widgets: from a key press to the painted frame",
        "",
        f"Milliseconds of {PRESSES} key presses each, in JupyterLab in Chromium without a window or a graphics card, "
        f"on a {platform.machine()} CPU; the load average was {before:.1f} before and {after:.1f} after. "
        "Made by `python benchmarks/widgets.py`. "
        "Both show all heads of the layer, the chosen one large, the image under its weights, and bars: the explorer "
        "in the browser, `interact` with matplotlib.",
        "",
        "| attention | what | median | 95th percentile | `interact`, same key, takes |",
        "|---|---|---|---|---|",
    ]
    for name, what, times in rows:
        layers, heads, tokens, _ = SIZES[name]
        other = median.get((name, what.replace("explorer", "interact")))
        ratio = f"{other / median[name, what]:.1f} times as long" if other and what.startswith("explorer") else ""
        p95 = statistics.quantiles(times, n=20)[-1]
        size = f"{layers} layers × {heads} heads × {tokens} tokens"
        lines.append(f"| {size} | {what} | {median[name, what]:.1f} | {p95:.1f} | {ratio} |")
    lines += [
        "",
        "| attention | bytes sent | seconds from running the cell to the painted widget |",
        "|---|---|---|",
    ]
    for (layers, heads, tokens, side), milliseconds in zip(SIZES.values(), opened, strict=True):
        sent = 2 * layers * heads * tokens**2 + 3 * side**2
        size = f"{layers} layers × {heads} heads × {tokens} tokens, an image of {side} × {side}"
        lines.append(f"| {size} | {sent:,} | {milliseconds / 1000:.2f} |")
    lines += [
        "",
        "Every widget of the course, as `tests/test_widgets_in_lab.py` shows it; the whole widget is painted anew:",
        "",
        "| widget | key | median | 95th percentile |",
        "|---|---|---|---|",
    ]
    for name, times in every.items():
        keys = " ".join(f"`{key}`" for key in WIDGETS[name].keys)
        p95 = statistics.quantiles(times, n=20)[-1]
        lines.append(f"| {name} | {keys} | {statistics.median(times):.1f} | {p95:.1f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
