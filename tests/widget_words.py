"""What each widget paints in words and says at the start: of what is computed from fixed numbers, all of it."""

# Keeps what is painted as text, by the `data-part` of its canvas.
KEEP_TEXTS = """() => {
    window.painted = {};
    const fill = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
        (painted[this.canvas.dataset.part] ??= []).push(text);
        return fill.call(this, text, ...place);
    };
}"""
READ = """() => {
    const root = document.querySelector(".headroom-widget");
    const all = (which) => [...root.querySelectorAll(which)].filter((one) => one.checkVisibility());
    return {
        painted,
        live: root.querySelector("[data-part=live]").textContent,
        labels: Object.fromEntries(all("canvas[aria-label]").map((one) => [one.dataset.part, one.ariaLabel])),
        notes: all(".headroom-note, .headroom-title, legend").map((one) => one.textContent),
    };
}"""
CAT, STORY = ["the", "cat", "sat", "down"], ["the", "tired", "cat", "drank", "its", "milk"]
FEATURES = ["sample 1", "sample 2", "the", "cat", "sat", "1", "2", "3", "4", "features"]
ARROWS = "Arrow keys: up and down the query, left and right"
# Of each widget: the words on its pictures, its live sentence (a beginning), labels of its pictures, and some notes.
WORDS: dict[str, tuple[dict[str, list[str]], str, dict[str, str], list[str]]] = {
    "AttentionExplorer": (
        {"matrix": [*CAT, "Q"]},
        "Sequence 1, layer 2, mean of heads: query 1 “the” gives most weight to key 1 “the” (1.00), then key 2",
        {
            "matrix": "Weights of layer 2, mean of heads: 4 queries down, 4 keys across. "
            "Arrow keys move query and key, Enter locks them."
        },
        [
            *("Queries (Q): who looks", "Keys (K): who is looked at, and the number that each gets"),
            "Row scale: each query's row goes from 0 to its own largest number.",
            "Layer 2: the same query in every head",
        ],
    ),
    "AttentionExplorer of an image": (
        {"image": ["K"], "class": ["Q"], "row": ["[class]", "row 1", "row 4", "K", "Q", "0.00"]},
        "Image 1, layer 2, mean of heads: [class] gives most weight to patch row ",
        {"digit": "Image 1 (a 3)"},
        ["the [class] token, which is no part of the image", "Rows are queries (Q), columns keys (K)."],
    ),
    "PositionExplorer": (
        {"circle": ["3", "4"], "wave": ["−1", "1", "0", "16"], "profile": ["−15", "0", "15"], "matrix": ["0", "16"]},
        "Yours, position 3, dimension 4, the first of pair 2: 0.993. The shift by 1, to position 4: the two positions "
        "have the dot product 30.92.",
        {
            "profile": "Dot product by distance p′ − p: the mean as a line, from least to most as a band. All 16 pairs "
            "of positions (p, p + 1) have the same dot product, 30.92: it tells how far apart they are, not where they "
            "stand.",
            "circle": "Pair 2 at positions 3 and 4. From position 3 to 4 pair 2 turns by 32.2°, and its length goes "
            "from 1.000 to 1.000. One rotation, by 32.2°, does that from every position.",
        },
        [
            *("The same position in 4 encodings: 3, compared with 4", "Dimension 4 over the positions (dashed: 5)"),
            "Colours of the dot products; the line marks all pairs that are as far apart.",
        ],
    ),
    "BugSwitches": (
        {one: ["[class]", "1", "16", "Q", "K"] for one in ("healthy", "broken")},
        "No scaling: ",
        {"healthy": "As it is: weights of layer 2, mean of heads. Arrow keys move query and key."},
        [
            "Both pictures have one scale, up to the largest weight in them.",
            "Rows are queries (Q), columns keys (K). Patches are numbered row by row.",
        ],
    ),
    "NormExplorer": (
        {
            **{one: FEATURES for one in ("tensor", "output", "theirs")},
            "before": ["−2.49", "2.18", "Before: the 4 framed: mean −0.74, variance 0.16 (filled); outlined: all 24"],
            "after": ["−1.73", "1.79", "After: the 4 framed: mean 0.00, variance 1.00 (filled); outlined: all 24"],
        },
        "LayerNorm. Sample 1, token 1 “the”, feature 1: −1.13 becomes −0.95. It shares mean −0.74 and variance 0.16 "
        "with the 4 features of its own token.",
        {
            "before": "Histogram before LayerNorm: 24 numbers from −2.32 to 2.00; the 4 that share a mean lie around "
            "−0.74 with variance 0.16.",
            "tensor": "x: 2 samples × 3 tokens × 4 features. Arrow keys move, Enter locks a number to change it.",
        },
        ["Purple is above 0, brown below, white 0.", "After LayerNorm"],
    ),
    "DigitPad": (
        {"map": ["K"]},
        "The model reads a 3 (",
        {"seen": "What the model sees: 28 × 28 pixels, as drawn."},
        ["What the model reads", "Weight of a patch, up to the largest that is shown."],
    ),
    "AttentionStepper": (
        {one: [*STORY, "×"] if one == "s" else [*STORY, "1", "4"] for one in "qksvo"},
        "Step 5 of 5, mix: the output of “the” is the sum of all values, each times its weight. Most comes from key 1",
        {
            "q": f"Q, the queries, 6 × 4 (rows × columns). Row 1 is lit. {ARROWS} its entries.",
            "s": f"Weights, after the softmax, 6 × 6 (rows × columns). Row 1 is lit. {ARROWS} the key.",
            "o": f"Output, 6 × 4 (rows × columns). Row 1 is lit. {ARROWS} the entry.",
        },
        ["Q the queries", "K the keys", "V the values"],
    ),
    "DecodingStepper": (
        {"alignment": [*"1M20", "␣", "Q"]},
        "Step 4 of 11, greedy. After “201”, the likeliest is “2” (",
        {},
        ["Candidates for the next token", "+ computed in this step, = reused."],
    ),
}
