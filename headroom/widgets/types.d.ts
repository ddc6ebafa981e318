// The types of the widgets' JavaScript, for `npm run check`; nothing of this is sent to a browser.
//
// Each namespace belongs to one widget: `Now` is what its reader chooses, `Traits` all that Python and the browser share.
// They repeat the traits of the widget's Python class: a trait that is added there is added here.

/** A widget's model as anywidget hands it over, with the traits that this widget has. */
export interface Model<Traits> {
  get<Name extends keyof Traits>(name: Name): Traits[Name];
  set<Name extends keyof Traits>(name: Name, value: Traits[Name]): void;
  on(event: `change:${keyof Traits & string}`, handle: () => void): void;
  off(event: `change:${keyof Traits & string}`, handle: () => void): void;
  save_changes(): void;
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
/** An element that is not the document's own, such as `<b>`, and one that says what it holds. */
export interface Legend {
  element: HTMLElement;
  set(low: number, high: number, text: string): void;
}
