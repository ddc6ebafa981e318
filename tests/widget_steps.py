"""What is done to a widget in a page without Jupyter, step by step, and what of its state each step changes."""

from collections.abc import Iterator

from playwright.sync_api import Page

# A step is an action on what carries a `data-part`, and after the arrow what then is another in the attributes of the
# root, where all that is shown stands as `data-…`; beside them:
#   pressed, off, hidden     the parts that say so of themselves
#   value, pen               the number that can be changed; where the keys' pen is
# The actions: `key` (such as h, Space, Shift+ArrowUp), `set` (what a field, a menu or a slider is set to), `tick` and
# `untick`, `click`; `point` at and `press` a cell of a picture, by row and column; `leave` it. A part such as `head:2`
# is the third of that name.
DO = """async (steps) => {
    const [root] = document.querySelectorAll(".headroom-widget");
    const rest = (ms = 0) => new Promise((done) => setTimeout(done, ms));
    const parts = () => [...root.querySelectorAll("[data-part]:not([data-part=lost])")];
    const named = (test) => [...new Set(parts().filter(test).map((one) => one.dataset.part))].join(" ");
    const text = (name) => partOf(name)?.value ?? partOf(name)?.textContent ?? "";
    const seen = () => ({
        ...root.dataset,
        pressed: named((one) => one.getAttribute("aria-pressed") === "true"),
        off: named((one) => one.disabled || one.getAttribute("aria-disabled") === "true"),
        taken: root.dataset.taken === "[]" ? "none" : "some",
        hidden: named((one) => one.hidden),
        value: text("value-input"),
        pen: /^(?:Pen|Eraser) \\w+ at row \\d+, column \\d+/.exec(text("live"))?.[0] ?? "",
    });
    const partOf = (name) => {
        const [part, nth = "0"] = name.split(":");
        return root.querySelectorAll(`[data-part=${part}]`)[Number(nth)];
    };
    const at = (canvas, ...cell) => {
        const [row, column] = cell.map(Number);
        const { left, top, cellWidth, cellHeight } = canvas.dataset;
        const box = canvas.getBoundingClientRect();
        return {
            bubbles: true, isPrimary: true, button: 0, pointerId: 1,
            clientX: box.left + Number(left ?? 0) + (column + 0.5) * Number(cellWidth ?? box.width),
            clientY: box.top + Number(top ?? 0) + (row + 0.5) * Number(cellHeight ?? box.height),
        };
    };
    const actions = {
        key(part, name) {
            const [last, ...held] = name === "+" ? ["+"] : name.split("+").reverse();
            const key = last === "Space" ? " " : last;
            part.focus();
            const [shiftKey, ctrlKey] = ["Shift", "Ctrl"].map((one) => held.includes(one));
            const given = { key, shiftKey, ctrlKey, bubbles: true, cancelable: true };
            part.dispatchEvent(new KeyboardEvent("keydown", given));
        },
        set(part, value) {
            part.value = value === "none" ? "" : value;
            for (const kind of ["input", "change"]) part.dispatchEvent(new Event(kind, { bubbles: true }));
        },
        tick(part, on = true) {
            part.checked = on;
            part.dispatchEvent(new Event("change", { bubbles: true }));
        },
        untick: (part) => actions.tick(part, false),
        click: (part) => part.click(),
        point: (part, ...cell) => part.dispatchEvent(new PointerEvent("pointermove", at(part, ...cell))),
        press(part, ...cell) {
            const here = at(part, ...cell);
            for (const kind of ["pointerdown", "pointerup"]) part.dispatchEvent(new PointerEvent(kind, here));
            part.dispatchEvent(new MouseEvent("click", here));
        },
        leave: (part) => part.dispatchEvent(new PointerEvent("pointerleave")),
    };
    const found = [];
    let before = seen();
    for (const [action, name, ...more] of steps) {
        actions[action](partOf(name), ...more);
        await rest(2);
        await rest(2);
        const after = seen();
        const changed = Object.keys({ ...before, ...after }).filter((one) => before[one] !== after[one]);
        found.push(Object.fromEntries(changed.map((one) => [one, after[one] ?? null])));
        before = after;
    }
    return found;
}"""
# Painting waits for the next frame, which comes at once here.
AT_ONCE = """() => {
    window.requestAnimationFrame = (call) => setTimeout(call, 0);
    window.cancelAnimationFrame = (frame) => clearTimeout(frame);
    Element.prototype.setPointerCapture = () => {};
}"""
# How each widget of `tests.test_widgets_in_lab.WIDGETS` answers.
STEPS = {
    "AttentionExplorer": """
        key matrix [ → layer=0
        key matrix ] → layer=1
        key matrix PageUp → layer=0
        key matrix PageDown → layer=1
        key matrix h → head=0
        key matrix H → head=none
        key matrix H → head=2
        key matrix 1 → head=0
        key matrix 2 → head=1
        key matrix 0 → head=none
        key matrix i → sample=1
        key matrix I → sample=0
        key matrix I → sample=1
        key matrix i → sample=0
        key matrix s → scale=all
        key matrix s → scale=row
        key matrix m → show=unmasked
        key matrix m → show=scores
        key matrix m → show=weights
        key matrix ArrowUp → nothing
        key matrix ArrowRight → key=0
        key matrix ArrowDown → query=1
        key matrix ArrowLeft → nothing
        key matrix ArrowRight → key=1
        key queries ArrowLeft → query=0
        key queries ArrowRight → query=1
        key queries ArrowUp → query=0
        key keys-row ArrowRight → key=2
        key keys-row ArrowLeft → key=1
        key matrix Enter → locked=true
        key matrix Space → locked=false
        key matrix Enter → locked=true
        key matrix Escape → key=none; locked=false
        key keys-row p → phase=marking; pressed=predict; off=show-select reveal; hidden=legend heads renormalised table
        key keys-row ArrowRight → key=0
        key keys-row ArrowRight → key=1
        key keys-row Enter → marks=1; off=show-select
        key keys-row Enter → marks=; off=show-select reveal
        key keys-row Space → marks=1; off=show-select
        key keys-row m → nothing
        key keys-row r → key=none; phase=revealed; hidden=reveal covered
        key keys-row p → phase=off; marks=; pressed=; off=reveal
        key keys-row p → phase=marking; pressed=predict; off=show-select reveal; hidden=legend heads renormalised table
        key keys-row Escape → phase=off; pressed=; off=reveal; hidden=reveal covered
        set sample-select 1 → sample=1
        set layer-range 1 → layer=0
        set scale-select all → scale=all
        set show-select scores → show=scores
        tick head:2 → head=1
        set sample-select 0 → sample=0
        point matrix 3 1 → query=3; key=1
        leave matrix → nothing
        press matrix 2 1 → query=2; locked=true
        point matrix 0 0 → nothing
        leave matrix → nothing
        press matrix 2 1 → locked=false
        set show-select weights → show=weights
        key matrix Escape → key=none
        click predict → phase=marking; pressed=predict; off=show-select reveal; hidden=legend heads renormalised table
        press matrix 2 0 → key=0; marks=0; off=show-select
        click reveal → key=none; phase=revealed; hidden=reveal covered
        click predict → phase=off; marks=; pressed=; off=reveal
        """,
    "AttentionExplorer of an image": """
        key image ArrowUp → nothing
        key image ArrowDown → query=0
        key image ArrowDown → query=4
        key image ArrowRight → query=5
        key image ArrowLeft → query=4
        key image ArrowLeft → nothing
        key image ArrowUp → query=0
        key image c → query=[class]
        key image i → sample=1
        key image I → sample=0
        key image I → sample=2
        key image x → control=0
        key image x → control=none
        key image 1 → head=0
        key image 4 → head=3
        key image 0 → head=none
        key image h → head=0
        key image H → head=none
        key image [ → layer=0
        key image ] → layer=1
        key image PageUp → layer=0
        key image PageDown → layer=1
        key image [ → layer=0
        key image s → scale=all
        key image Enter → locked=true
        key image Space → locked=false
        key image Enter → locked=true
        key image Escape → locked=false
        untick matrices-box → matrices=false; hidden=reveal small-matrix covered
        tick matrices-box → matrices=true; hidden=reveal covered
        key matrix ArrowDown → query=0
        key matrix ArrowRight → key=[class]
        tick control-box → control=0
        set control-select 2 → nothing
        untick control-box → control=none
        press image 0 0 → query=6; key=none; locked=true
        press class 0 0 → query=[class]
        key image p → locked=false; phase=marking; pressed=predict; hidden=legend heads row table
        key image ArrowDown → key=0
        key image ArrowRight → key=1
        key image Enter → marks=1; off=
        key image c → key=[class]
        key image Space → marks=1,[class]
        key image r → key=none; phase=revealed; hidden=reveal covered
        key image p → phase=off; marks=; pressed=; off=reveal
        """,
    "PositionExplorer": """
        key matrix ArrowDown → position=4
        key matrix ArrowUp → position=3
        key matrix PageDown → position=13
        key matrix PageUp → position=3
        key matrix ArrowLeft → shift=0
        key matrix ArrowRight → shift=1
        key matrix s → shift=2
        key matrix S → shift=1
        key table-picture ArrowLeft → dimension=3
        key table-picture ArrowRight → dimension=4
        key table-picture [ → dModel=62
        key table-picture ] → dModel=64
        key table-picture ] → dModel=66
        key table-picture - → base=8910; hidden=
        key table-picture + → base=10000; hidden=show-difference
        key table-picture + → base=11200; hidden=
        key table-picture k → kind=sin-cos
        key table-picture k → kind=learned
        key table-picture k → kind=rotary
        key table-picture k → kind=yours
        key table-picture K → kind=rotary
        key table-picture m → measure=cosine
        key table-picture m → measure=dot
        key table-picture Enter → locked=true
        key table-picture Space → locked=false
        key table-picture Enter → locked=true
        key table-picture Escape → locked=false
        set base-range 3 → base=1000
        set width-range 8 → dModel=8
        set count-range 12 → nPositions=12
        set position-range 5 → position=5
        set dimension-range 2 → dimension=2
        set shift-range -4 → shift=-4
        set measure-select cosine → measure=cosine
        tick kind:0 → kind=sin-cos
        tick kind:3 → kind=yours
        click show-difference → position=1; locked=true
        set shift-range -11 → shift=-11
        set position-range 0 → position=0
        key matrix ArrowUp → nothing
        point matrix 2 4 → nothing
        leave matrix → nothing
        press matrix 2 4 → position=2; shift=2
        press matrix 2 4 → locked=false
        press table-picture 1 3 → position=1; dimension=3; locked=true
        """,
    "BugSwitches": """
        key healthy ArrowDown → query=1
        key healthy ArrowUp → query=0
        key healthy 1 → head=0
        key healthy 0 → head=mean
        key healthy ArrowRight → key=1
        key healthy ArrowLeft → key=0
        key healthy [ → layer=0
        key healthy ] → layer=1
        key healthy PageUp → layer=0
        key healthy PageDown → layer=1
        key healthy h → head=0
        key healthy H → head=mean
        key healthy i → sample=1
        key healthy I → sample=0
        key healthy I → sample=2
        key broken ArrowDown → query=1
        key broken i → sample=0
        tick switch:1 → on=unscaled+no_residual; hidden=broken gradient-note
        tick switch:2 → on=unscaled+no_residual+no_class_token
        untick switch:0 → on=no_residual+no_class_token
        click off → on=; off=off
        tick switch:0 → on=unscaled; off=; hidden=gradient-note
        key healthy Escape → on=; off=off; hidden=broken gradient-note
        set sample-select 2 → sample=2
        set layer-range 1 → layer=0
        set head-select 1 → head=1
        set head-select mean → head=mean
        point healthy 3 5 → query=3; key=5
        leave healthy → nothing
        """,
    "NormExplorer": """
        key tensor ArrowDown → token=1; value=0.8487104
        key tensor ArrowUp → token=0; value=-1.12584
        key tensor ArrowRight → feature=1; value=-1.15236
        key tensor ArrowLeft → feature=0; value=-1.12584
        key tensor n → norm=RMSNorm
        key tensor n → norm=BatchNorm
        key tensor n → norm=none
        key tensor n → norm=LayerNorm
        key tensor N → norm=none
        key tensor e → eps=0.000001
        key tensor E → eps=0.00001
        key tensor E → eps=0.0001
        key tensor g → affine=false
        key tensor g → affine=true
        key tensor + → off=; value=-1
        key tensor = → value=-0.9
        key tensor - → value=-1
        key tensor _ → value=-1.1
        key tensor Enter → locked=true
        key tensor ArrowUp → value=-1
        key tensor ArrowRight → value=-0.9
        key tensor ArrowDown → value=-1
        key tensor ArrowLeft → value=-1.1
        key tensor Shift+ArrowUp → value=-0.1
        key tensor Shift+ArrowDown → value=-1.1
        key tensor Shift+ArrowRight → value=-0.1
        key tensor Space → locked=false
        key tensor ArrowDown → token=1; value=0.8487104
        key tensor ArrowDown → token=2; value=0.4680964
        key tensor ArrowDown → sample=1; token=0; value=0.1664553
        key tensor Enter → locked=true
        key tensor Escape → locked=false
        key tensor r → off=reset
        set value-input 2.5 → off=; value=2.5
        set eps-range -2 → eps=0.01
        untick affine-box → affine=false
        tick norm:1 → norm=LayerNorm
        tick norm:3 → norm=BatchNorm
        click times-ten → value=25
        click tenth → value=2.5
        click plus-one → value=3.5
        click minus-one → value=2.5
        click reset → off=reset; value=0.1664553
        point tensor 1 2 → sample=0; token=1; feature=2; value=-0.3160128
        leave tensor → nothing
        press tensor 0 1 → token=0; feature=1; locked=true; value=-1.15236
        press tensor 0 1 → locked=false
        press tensor 0 1 → locked=true
        """,
    "DigitPad": """
        key pad h → head=0
        key pad H → head=none
        key pad H → head=3
        key pad 1 → head=0
        key pad 2 → head=1
        key pad 0 → head=none
        key pad [ → layer=0
        key pad ] → layer=1
        key pad PageUp → pen=Pen up at row 14, column 16
        key pad m → centred=false; pen=
        key pad m → centred=true
        key pad w → overlay=false
        key pad w → overlay=true
        key pad i → example=1; off=
        key pad i → example=2
        key pad i → example=0
        key pad i → example=1
        key pad I → example=0
        key pad u → example=1
        key pad ArrowRight → pen=Pen up at row 14, column 17
        key pad ArrowDown → pen=Pen up at row 15, column 17
        key pad ArrowLeft → pen=Pen up at row 15, column 16
        key pad ArrowUp → pen=Pen up at row 14, column 16
        key pad ArrowDown → pen=Pen up at row 15, column 16
        key pad Space → strokes=1; points=1; pen=Pen down at row 15, column 16
        key pad Shift+ArrowRight → points=2; pen=Pen down at row 15, column 20
        key pad PageDown → points=3; pen=Pen down at row 16, column 21
        key pad End → points=4; pen=Pen down at row 17, column 20
        key pad Home → points=5; pen=Pen down at row 16, column 19
        key pad Space → pen=Pen up at row 16, column 19
        key pad e → pressed=eraser; pen=
        key pad Space → strokes=2; points=6; pen=Eraser down at row 16, column 19
        key pad Escape → pen=
        key pad e → pressed=pen
        key pad u → strokes=1; points=5
        key pad u → strokes=0; points=0
        key pad Delete → example=none; off=clear
        key pad u → example=1; off=
        key pad Backspace → example=none; off=clear
        set example-select 1 → example=1; off=
        untick centred-box → centred=false
        set layer-range 1 → layer=0
        set head-select 3 → head=3
        set head-select mean → head=none
        set mistake-select unscaled → mistake=unscaled
        set mistake-select none → mistake=none
        press pad 0 0 → strokes=1; points=1
        click undo → strokes=0; points=0
        click eraser → pressed=eraser
        click pen → pressed=pen
        click clear → example=none; off=clear
        click undo → example=1; off=
        """,
    "AttentionStepper": """
        key s [ → step=softmax; off=reset; hidden=edited output
        key s ] → step=mix; off=next reset; hidden=edited
        key s PageUp → step=softmax; off=reset; hidden=edited output
        key s PageDown → step=mix; off=next reset; hidden=edited
        key s q → query=1
        key s Q → query=0
        key s Q → query=5
        key s ArrowDown → spot=weights; key=0
        key s ArrowRight → key=1
        key s ArrowRight → key=2
        key s ArrowLeft → key=1
        key s ArrowUp → query=4
        key s Enter → locked=true
        key s Space → locked=false
        key s Escape → spot=none; key=none
        key q ArrowRight → spot=q; entry=1
        key q ArrowDown → query=5
        key k ArrowDown → spot=k; key=1
        key k ArrowRight → entry=2
        key v ArrowUp → spot=v; key=0
        key v ArrowLeft → entry=1
        key o ArrowRight → spot=output; key=none; entry=2
        click back → step=softmax; spot=none; entry=none; off=reset; hidden=edited output
        click next → step=mix; off=next reset; hidden=edited
        set step-range 2 → step=scale; off=reset; hidden=edited output
        click edit → editing=false; pressed=; hidden=changes score-input mask-box edited output
        click edit → editing=true; pressed=edit; hidden=edited output
        untick scaled-box → scaled=false; changed=true; off=; hidden=check output
        set temperature-range 2 → temperature=4
        click reset → temperature=1; scaled=true; changed=false; off=reset; hidden=edited output
        set query-select 1 → query=1
        set score-input:0 3 → spot=scores; key=0; edited=[[1,0,3]]; changed=true; off=; hidden=check output
        untick mask-box:0 → spot=masked; flipped=[[1,0]]
        tick mask-box:0 → flipped=[]
        click reset → edited=[]; changed=false; off=reset; hidden=edited output
        set score-input:1 1 → spot=scores; key=1; edited=[[1,1,1]]; changed=true; off=; hidden=check output
        key score-input:1 ArrowUp → edited=[[1,1,1.25]]
        key score-input:1 ArrowDown → edited=[[1,1,1]]
        point s 1 0 → key=0
        leave s → nothing
        press s 2 1 → query=2; key=1; locked=true
        press s 2 1 → locked=false
        press k 3 2 → spot=k; key=3; entry=2; locked=true
        """,
    "DecodingStepper": """
        key written ArrowLeft → step=2
        key written ArrowRight → step=3
        key written Home → step=0; off=first back
        key written ArrowLeft → nothing
        key written End → step=10; off=next last
        key written h → head=0
        key written H → head=none
        key written 1 → head=0
        key written 0 → head=none
        key written [ → layer=0
        key written ] → layer=1
        key written m → method=sampling
        key written r → seed=1
        key written m → method=beam; pressed=; off=next last candidate
        key written ArrowLeft → step=9; off=candidate
        key written ArrowLeft → step=8
        key tree ArrowDown → hypothesis=1
        key tree ArrowUp → hypothesis=0
        key tree ArrowLeft → step=7
        key tree ArrowRight → step=8
        key written u → hypothesis=none
        key written m → method=greedy; pressed=candidate; off=
        set method-select sampling → method=sampling
        set temperature-range 2 → temperature=2
        set seed-input 3 → seed=3
        click again → seed=4
        set method-select beam → method=beam; pressed=; off=candidate
        set beams-range 2 → beams=2
        set method-select greedy → method=greedy; pressed=candidate; off=
        set step-range 2 → step=1
        click first → step=0; off=first back
        click next → step=1; off=
        click last → step=10; off=next last
        click back → step=9; off=
        set layer-range 1 → layer=0
        set head-select 1 → head=1
        click candidate:1 → taken=some; hidden=problem
        click undo → taken=none; hidden=problem undo
        click candidate:1 → taken=some; hidden=problem
        key written Escape → taken=none; hidden=problem undo
        """,
}
# What the models say, which another training would change, and when they say it.
SAID = {"DigitPad": {"fresh", "guess", "hidden"}, "DecodingStepper": {"prefix", "candidate"}}


def parsed(name: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The steps of a widget, each with what it changes."""
    for line in STEPS[name].strip().splitlines():
        step, _, told = line.strip().partition(" → ")
        pairs = [] if told == "nothing" else [one.split("=", 1) for one in told.split("; ")]
        yield step.split(" "), {which: value for which, value in pairs}


def answers(page: Page, name: str) -> list[tuple[list[str], dict[str, str]]]:
    """The steps of a widget, each with what it changes on the page that shows the widget."""
    steps = [step for step, _ in parsed(name)]
    said = SAID.get(name.split()[0], set())
    found = page.evaluate(DO, steps)
    kept = [{which: value for which, value in one.items() if which not in said} for one in found]
    return list(zip(steps, kept, strict=True))


def named_keys(page: Page) -> set[str]:
    """The keys that its help names, as a keyboard's events call them."""
    events = {"↑": "ArrowUp", "↓": "ArrowDown", "←": "ArrowLeft", "→": "ArrowRight", "Esc": "Escape", "−": "-"}
    shown = page.locator("[data-part=keys] kbd").all_text_contents()
    found = {events.get(key, key.replace("Page ", "Page")) for key in shown}
    arrows = {"ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"} if "arrows" in found else set()
    return (found - {"Tab", "Shift", "arrows"}) | arrows
