// The types of the widgets' JavaScript, for `npm run check`; nothing of this is sent to a browser.
//
// Each namespace belongs to one widget: `Now` is what its reader chooses, `Traits` all that Python and the browser share.
// They give the traits of the widget's Python class their types; which of them are choices, Python says (`_choices`).

/** A widget's model as anywidget hands it over, with the traits that this widget has. */
export interface Model<Traits> {
  get<Name extends keyof Traits>(name: Name): Traits[Name];
  set<Name extends keyof Traits>(name: Name, value: Traits[Name]): void;
  on(event: `change:${keyof Traits & string}` | "comm_live_update", handle: () => void): void;
  off(event: `change:${keyof Traits & string}` | "comm_live_update", handle: () => void): void;
  save_changes(): void;
}
/** The same model as JupyterLab has it, as far as it is used here: ipywidgets' `WidgetModel`. */
export interface JupyterModel {
  model_id: string;
  comm_live: boolean;
  widget_manager: WidgetManager;
  get(name: "layout"): JupyterModel;
  get(name: string): unknown;
  set_state(state: object): void;
  save_changes(): void;
  _pending_msgs: number;
  _msg_buffer: object | null;
  _buffered_state_diff: Record<string, unknown>;
  _expectedEchoMsgIds: Map<string, string>;
}
/** Lumino's way to tell of something. */
interface Signal<Sender, Told> {
  connect(slot: (sender: Sender, told: Told) => void): void;
  disconnect(slot: (sender: Sender, told: Told) => void): void;
}
/** ipywidgets' manager of an open notebook's models, and what it knows of the notebook. */
export interface WidgetManager {
  [ours: symbol]: Set<JupyterModel> | undefined;
  get_state_sync(options: { drop_defaults: boolean }): object;
  context: {
    saveState: Signal<unknown, "started" | "completed" | "failed">;
    sessionContext: {
      session: { kernel: { id: string } | null } | null;
      statusChanged: Signal<unknown, string>;
      connectionStatusChanged: Signal<unknown, string>;
      kernelChanged: Signal<unknown, unknown>;
    };
    model: {
      cells: Iterable<{ outputs?: { toJSON(): { data?: Record<string, { model_id?: string }> }[] } }>;
      setMetadata(name: string, value: object): void;
    };
  };
}
/** What a front end's `render` is called with. */
export interface View<Traits> {
  model: Model<Traits>;
  el: HTMLElement;
}

/** What `choices` answers. */
export interface Choice<Now> {
  now(): Now;
  point(changes: Partial<Now> | null): void;
  choose(changes: Partial<Now>): void;
}

/** What a reader may choose from a menu. */
export interface Entry<Value> {
  value: Value;
  text: string;
  group?: string;
}
/** A control of what is chosen: the event that tells of a change, what is chosen then, and how it says what is chosen. */
export interface Control<Now, Input extends HTMLElement = HTMLElement> {
  input: Input;
  event: "change" | "input";
  read(): Partial<Now>;
  show(now: Now): void;
}
/** What `attentionKeys` steps through. */
export interface Steps {
  layer: number;
  head: number | null;
}

export type Bytes = DataView<ArrayBuffer>;
/** The constructor of a typed array. */
export interface NumberType<Numbers> {
  new (buffer: ArrayBuffer, byteOffset?: number, length?: number): Numbers;
  readonly BYTES_PER_ELEMENT: number;
}
export type Numbers = Float32Array<ArrayBuffer> | Float64Array<ArrayBuffer>;
export type Child = Node | string;
export type Attributes = Record<string, string | number | boolean | null | undefined>;
export type Canvas = HTMLCanvasElement;
export type Pen = CanvasRenderingContext2D;
export type Point = [x: number, y: number];
export type Rgb = number[];
export interface Rect {
  x: number;
  y: number;
  w: number;
  h: number;
}
/** Where the cells of a matrix lie on its canvas, in CSS pixels. */
export interface Grid {
  left: number;
  top: number;
  cellWidth: number;
  cellHeight: number;
}
export interface Colours {
  q: string;
  k: string;
  v: string;
  text: string;
}
export type Side = "queries" | "keys";
export type Names = {
  rows: string[];
  columns: string[];
  query: number | null;
  key: number | null;
  left: number;
  top: number;
  cell: number;
  longest: number;
  colours: Colours;
};
/** A row of a bitmap, with the numbers of its lowest and its highest colour. */
export interface PictureRow {
  values: ArrayLike<number>;
  low: number;
  high: number;
}
/** How a widget listens to its own elements, until its view ends. */
export type On = <Type extends keyof HTMLElementEventMap>(
  target: HTMLElement,
  type: Type,
  handle: (event: HTMLElementEventMap[Type]) => unknown,
) => void;
export interface Legend {
  element: HTMLElement;
  set(low: number, high: number, text: string, say?: (value: number) => string): void;
}

export namespace BugSwitches {
  type Part = "encoder" | "decoder" | "cross";
  interface Now {
    on: string[];
    sample: number;
    part: Part;
    layer: number;
    head: number | null;
    query: number;
    key: number;
  }
  /** Which weights: of what `Now` holds, all that is needed to find them. */
  type Place = Pick<Now, "part" | "sample" | "layer" | "head">;
  interface Mistake {
    name: string;
    title: string;
    sentence: string;
    group: string;
    slot: string;
  }
  /** An example: of images only the class, of texts what is read and written as well. */
  interface Example {
    target: number | string;
    text: string;
    read: string[];
    given: string[];
    next: string[];
  }
  interface Facts {
    kind: "image" | "text";
    n: number;
    n_layers: number;
    n_heads: number;
    n_classes: number;
    rows: number;
    columns: number;
    height: number;
    width: number;
    channels: number;
    parts: Part[];
    gradients: string[];
    mistakes: Mistake[];
    shown: Example[];
  }
  interface Looks {
    largest: number;
    lowest_sum: number;
    highest_sum: number;
    moved: number | null;
    sizes: [queries: number, keys: number][];
  }
  interface Result {
    accuracy: number;
    right: number;
    loss: number | string;
    gradient: number | string;
    gradients: Record<string, number | string | null>;
    parameters: number;
    predictions: (number | string | null)[];
    looks: Partial<Record<Part, Looks>>;
    no_class: boolean;
    class_last: boolean;
    own_keys: boolean;
  }
  /** What shows the gradients. */
  interface GradientParts {
    ends: HTMLElement[];
    gradientRows: { part: string; right: HTMLElement; wrong: HTMLElement; before: HTMLElement; after: HTMLElement }[];
    gradientNote: HTMLElement;
  }
  /** A line of the table of numbers: its name, its title, its three cells, and shares to be drawn as bars. */
  type Line = [string, string, string, string | null, string | null, [number, number | undefined]?];
  interface Traits extends Now {
    _choices: (keyof Now)[];
    _facts: Facts;
    _pixels: Bytes;
    _results: Record<string, Result>;
    _attention: Record<string, Bytes>;
  }
}

export namespace NormExplorer {
  type Norm = "none" | "LayerNorm" | "RMSNorm" | "BatchNorm";
  interface Place {
    sample: number;
    token: number;
    feature: number;
  }
  interface Now extends Place {
    norm: Norm;
    locked: boolean;
    eps: number;
    affine: boolean;
  }
  interface Facts {
    shape: [samples: number, tokens: number, features: number];
    words: string[][] | null;
    gamma: number[] | null;
    beta: number[] | null;
    /** What is known of the reader's own module; empty without one. */
    module: { name?: string; overwrites?: boolean; running?: boolean };
  }
  interface Traits extends Now {
    _choices: (keyof Now)[];
    x: Bytes;
    _start: Bytes;
    _theirs: Bytes;
    _facts: Facts;
  }
  interface Statistics {
    mean: number;
    variance: number;
  }
  /** What is shown, worked out: x, the chosen number, what each norm makes of x, and what has changed since the start. */
  interface Look {
    now: Now;
    x: Float64Array;
    one: number;
    outs: Record<Norm, Float64Array>;
    changed: Record<Norm, number[]>;
    group: number[];
    place: Place;
    value: number;
    result: number;
    edited: number[];
    stats: Statistics;
  }
  /** Where the reader's module differs from a norm: at which numbers, from what, and by how much at most. */
  interface Difference {
    where: number[];
    out: Float64Array;
    largest: number;
  }
  /** Where a picture's cells lie, in pixels: samples one above the other. */
  interface Grid {
    left: number;
    top: number;
    cellWidth: number;
    cellHeight: number;
    sampleHeight: number;
    height: number;
  }
  type Sign = "up" | "down" | "cross";
  interface Painting {
    view: Look;
    colours: Colours;
    norm: Norm;
    large?: boolean;
    /** Float64Array with which these are compared … */
    then?: Float64Array;
    /** … or the places that are crossed out. */
    crossed?: number[];
  }
}

export namespace PositionExplorer {
  type Kind = "sin-cos" | "learned" | "rotary" | "yours";
  type Measure = "dot" | "cosine";
  interface Now {
    kind: Kind;
    position: number;
    dimension: number;
    shift: number;
    base: number;
    d_model: number;
    n_positions: number;
    measure: Measure;
    locked: boolean;
  }
  /** Those that are numbers. */
  type Size = "position" | "dimension" | "shift" | "base" | "d_model" | "n_positions";
  /** What is told of a table. */
  interface Shape {
    shape: [rows: number, width: number];
    rows: number;
    function?: boolean;
    trouble?: string;
  }
  interface Table extends Shape {
    values: Float32Array;
  }
  interface Traits extends Now {
    _choices: (keyof Now)[];
    _learned: Bytes;
    _yours: Bytes;
    _q: Bytes;
    _k: Bytes;
    /** An empty object where there is no such table. */
    _facts: { learned: Shape | {}; max_positions: number; max_d_model: number; bases: [least: number, most: number] };
    _yours_facts: Shape | {};
  }
  type Row = Float32Array | Float64Array;
  interface Similarities {
    values: Float64Array;
    count: Float64Array;
    least: Float64Array;
    most: Float64Array;
    mean: Float64Array;
    low: number;
    high: number;
  }
  /** One encoding for a state; see `encoding`. */
  interface Encoding {
    kind: Kind;
    width: number;
    n: number;
    /** The frequencies of a formula; null: the rows are a table's. */
    omegas: Float64Array | null;
    rows: Row[];
    keys: Row[];
    total: number;
    row(position: number): Row | null;
    key(position: number): Row | null;
    limit: number;
    scale: number;
    between(position: number, dimension: number): number;
    similarities: Partial<Record<Measure, Similarities>>;
    pictures: Partial<Record<Measure | "table", Canvas>>;
    fits: Record<number, number>;
  }
  interface Colours {
    text: string;
    mark: string;
    line: string;
  }
  interface Plane {
    left: number;
    right: number;
    floor: number;
    ceiling: number;
    low: number;
    high: number;
  }
}

export namespace DigitPad {
  interface Now {
    example: number | null;
    layer: number;
    head: number | null;
    overlay: boolean;
    centred: boolean;
    mistake: string | null;
  }
  /** Whether it erases (1) or not (0), then x, y, x, y, …, in pixels. */
  type Stroke = number[];
  /** Where keys have moved the pen. */
  interface Cursor {
    x: number;
    y: number;
    shown: boolean;
  }
  /** What strokes lie on, and the strokes. */
  interface Drawing {
    example: number | null;
    strokes: Stroke[];
  }
  /** Which part of the fine grid becomes the image; see `place`. */
  interface Placing {
    left: number;
    top: number;
    step: number;
  }
  /** What one model reads, or a sentence that says why it reads nothing. */
  interface Reading {
    probabilities: number[];
    attention: Bytes;
    reader: string;
    error?: undefined;
  }
  interface Failure {
    error: string;
    probabilities?: undefined;
    attention?: undefined;
  }
  /** Python's answer; empty before the first, and without pixels where nothing is drawn. */
  interface Answer {
    id?: string;
    mistake?: string | null;
    pixels?: Bytes;
    models?: (Reading | Failure)[];
  }
  interface Facts {
    n_layers: number;
    n_heads: number;
    side: number;
    has_class: boolean;
    labels: number[] | null;
    /** `tokens`: where a mistake changes what is read, "no_class" or "class_last". */
    mistakes: [name: string, group: string, title: string, sentence: string, tokens: string][];
    /** Of the model's weights, in their order in `_weights`; none where the page cannot compute this model. */
    tensors: [name: string, size: number][];
    eps: number;
  }
  interface Traits extends Now {
    _choices: (keyof Now)[];
    _examples: Bytes;
    _weights: Bytes;
    _facts: Facts;
    _drawing: Drawing;
    _request: { id: string; pixels: Bytes };
    _answer: Answer;
  }
  /** What is shown. */
  interface Shown {
    now: Now;
    shown: (Reading | Failure | undefined)[];
    fresh: boolean;
    drawable: Reading[];
    colours: Colours;
    largest: number;
  }
}

export namespace AttentionExplorer {
  /** How Python names a token: a patch by its number among the patches, a word by its own. */
  type Token = number | "[class]";
  type Show = "weights" | "unmasked" | "scores";
  type Scale = "row" | "all";
  type Limits = [low: number, high: number];
  interface Now {
    sample: number;
    layer: number;
    head: number | null;
    query: Token;
    key: Token | null;
    locked: boolean;
    control: number | null;
    scale: Scale;
    show: Show;
    matrices: boolean;
    phase: "off" | "marking" | "revealed";
    marks: Token[];
  }
  /** Which weights: of what `Now` holds, all that is needed to find them. */
  type Place = Pick<Now, "sample" | "layer" | "head">;
  /** With images: rows, columns, height, width, channels, labels and predictions; with text: queries, keys and crossed. */
  interface Facts {
    n_layers: number;
    n_heads: number;
    sizes: [queries: number, keys: number][];
    has_class: boolean;
    largest: number;
    rows: number;
    columns: number;
    height: number;
    width: number;
    channels: number;
    labels?: number[] | null;
    predictions?: number[][] | null;
    queries: string[][];
    keys: string[][];
    crossed: boolean;
  }
  interface Traits extends Now {
    _choices: (keyof Now)[];
    _attention: Bytes;
    _scores: Bytes;
    _mask: Bytes;
    _pixels: Bytes;
    _facts: Facts;
  }
  /** What is pointed at, as tokens that count from 0, [class] included. */
  interface At {
    query?: number;
    key?: number | null;
  }
  /** What is shown, worked out. */
  interface Shown {
    now: Now;
    /** The same with the sample whose numbers are drawn. */
    from: Now;
    query: number;
    key: number | null;
    row: Float32Array;
    best: number;
    limits: Limits;
    marking: boolean;
    /** The key that wears the frame. */
    aim: number | null;
    marks: number[];
    fraction(value: number): number;
    colours: Colours;
  }
  /** A text's words in a row, as last filled. */
  interface Strip {
    element: HTMLElement;
    box: HTMLElement;
    chips: { value: HTMLElement; sign: HTMLElement; element: HTMLElement }[];
    sample: number;
  }
  interface Tile {
    head: number | null;
    map: Canvas;
    small: Canvas;
  }
  /** Where a matrix's cells start, and how large they are when so many lie in a rectangle. */
  interface Laid {
    left(): number;
    top(): number;
    w(keys: number, all: DOMRect): number;
    ht(queries: number, all: DOMRect): number;
  }
}

export namespace AttentionStepper {
  type Step = "compare" | "scale" | "mask" | "softmax" | "mix";
  /** The kinds of numbers of which a query has one for each key. */
  type Stage = "dots" | "scores" | "masked" | "powers" | "weights";
  type Spot = "q" | "k" | "v" | Stage | "output";
  type Given = "scores" | "weights" | "output";
  /** What the reader changes. */
  interface Changes {
    temperature: number;
    scaled: boolean;
    flipped: [query: number, key: number][];
    edited: [query: number, key: number, value: number][];
  }
  interface Now extends Changes {
    query: number;
    step: Step;
    spot: Spot | null;
    key: number | null;
    entry: number | null;
    locked: boolean;
    editing: boolean;
  }
  interface Facts {
    n_queries: number;
    n_keys: number;
    d_k: number;
    d_v: number;
    queries: string[] | null;
    keys: string[] | null;
    crossed: boolean;
    given: Given[];
    check: ({ stage: Given; says: string } & ({ ok: true } | { ok: false; query: number; column: number }))[];
  }
  interface Traits extends Now {
    _choices: (keyof Now)[];
    _numbers: Bytes;
    _mask: Bytes;
    _yours: Bytes;
    _facts: Facts;
  }
  interface Matrix {
    rows: number;
    columns: number;
    values: Float64Array;
  }
  /** Every step for every query. */
  interface Stages extends Record<Stage, Float64Array> {
    may: Uint8Array;
    sums: Float64Array;
    shifts: Float64Array;
    output: Float64Array;
  }
  /** What is shown; see `see`. */
  interface Shown {
    now: Now;
    stages: Stages;
    query: number;
    step: Step;
    row<Values extends Float64Array | Uint8Array>(values: Values): Values;
    best: number;
    at: number;
    spot: Spot;
    key: number;
    entry: number;
    changed: boolean;
  }
  interface Painted extends Shown {
    colours: Colours;
  }
  /** What is pointed at. */
  interface At {
    spot: Spot;
    query?: number;
    key?: number;
    entry?: number;
  }
  type Letter = "q" | "k" | "v" | "s" | "o";
  /** A matrix as it is drawn. */
  interface Picture {
    name: Letter;
    rows: number;
    columns: number;
    side: Side;
    canvas: Canvas;
    title: HTMLElement;
    box: HTMLElement;
  }
  /** A matrix and its row and column, or null for all of them. */
  type Light = [name: Letter, row: number | null, column: number | null];
  interface Laid {
    left: number;
    w: number;
    waits: boolean;
    crossed: boolean;
  }
  /** A sum, written out in chips. */
  interface Chips {
    lead: HTMLElement;
    end: HTMLElement;
    row: HTMLElement;
    element: HTMLElement;
    all: { label: HTMLElement; text: HTMLElement; beside: HTMLElement; element: HTMLElement }[];
  }
  interface Chip {
    name: string;
    value: string;
    more?: string;
    spoken?: string;
  }
  interface Column {
    spot: Stage;
    from: number;
    title: Child[];
    whose?: "yours" | "model";
  }
  /** A key's line of the row in numbers. */
  interface Line {
    key: number;
    cells: { text: HTMLElement; element: HTMLElement }[];
    scoreInput: HTMLInputElement;
    maskBox: HTMLInputElement;
    head: HTMLElement;
    sign: HTMLElement;
    element: HTMLElement;
  }
  interface Ledger {
    columns: Column[];
    heads: HTMLElement[];
    lines: Line[];
    totals: HTMLElement[];
    foot: HTMLElement;
    raised: HTMLElement;
  }
  /** Where the cells of a matrix lie. */
  type Cells = { left: number; top: number; w: number; ht: number };
}

export namespace DecodingStepper {
  type Method = "greedy" | "sampling" | "beam";
  interface Now {
    source: string;
    method: Method;
    temperature: number;
    seed: number;
    beams: number;
    step: number;
    hypothesis: number | null;
    /** What the reader took in place of the model's choice. */
    taken: [step: number, token: string][];
    layer: number;
    head: number | null;
  }
  interface Facts {
    n_layers: number;
    n_heads: number;
    /** Whether the model goes on after the text; else it writes another one. */
    continues: boolean;
    tokens: string[];
    /** How many tokens, the first ones, stand for no text. */
    special: number;
    eos: number | null;
    bos: number | null;
    max_tokens: number;
    max_beams: number;
    max_source: number;
    sources: { text: string; words: string[]; costs: [cached: number, plain: number][] }[];
  }
  interface Traits extends Now {
    _choices: (keyof Now)[];
    _facts: Facts;
    _prefixes: [text: number, ...prefix: number[]][];
    _logits: Bytes;
    _attention: Bytes;
    _seeds: number[];
    _noise: Bytes;
    _asked: string;
    _problem: string;
  }
  /** The tokens of a text so far. */
  type Prefix = number[];
  interface Hypothesis {
    prefix: Prefix;
    score: number;
    /** Its place among the hypotheses of the level before. */
    parent: number;
    ended: boolean;
  }
  interface Level {
    kept: Hypothesis[];
    dropped: Hypothesis[];
  }
  interface Search {
    levels: Level[];
    missing: boolean;
  }
  /** What is known of the candidates of a step; nothing where the model's answer is missing. */
  interface Candidates {
    logits: Float32Array;
    logShares: number[];
    /** The probabilities at temperature 1, and as they are drawn from. */
    plain: number[];
    shares: number[];
    order: number[];
    weights: Float32Array;
  }
  /** What beam search shows of a step. */
  interface Beam {
    levels: Level[];
    rank: number;
    hypothesis: Hypothesis;
    over: boolean;
    children: (Hypothesis & { rank: number })[];
    child: (Hypothesis & { rank: number }) | null;
  }
  /** What follows from the choices, as far as it depends on the method. */
  interface Seen {
    steps: number;
    step: number;
    complete: boolean;
    path: Prefix;
    prefix: Prefix;
    token: number | null;
    own: number | null;
    missing: "logits" | "noise" | null;
    beam: Beam | null;
  }
  /** What is shown; see `look`. */
  interface Shown extends Seen {
    now: Now;
    which: number;
    words: string[];
    candidates: Candidates | null;
  }
  interface Node {
    level: number;
    row: number;
    lost: boolean;
    one: Hypothesis;
    element: HTMLElement;
    sign: HTMLElement;
    curve: SVGElement | null;
  }
}
