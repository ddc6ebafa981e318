// @ts-check
/* Asking Python, or the page itself where there is no Python. One request at a time: while one is under way the drawing goes on, and the newest is asked for when it
 * comes back. */
/** @import { Model, DigitPad as T } from "../types" */

const LATE_MS = 1000; // an answer is missed after this long

export class Questions {
  /** @param {Model<T.Traits>} model @param {string} prefix of this view's requests @param {() => void} schedule
   * @param {() => Uint8Array<ArrayBuffer> | null} pixels what there is to read
   * @param {((request: T.Traits["_request"]) => T.Answer) | null} reader what answers in the page */
  constructor(model, prefix, schedule, pixels, reader) {
    this.model = model;
    this.prefix = prefix;
    this.schedule = schedule;
    this.pixels = pixels;
    this.reader = reader;
    this.asked = 0;
    /** @type {string | null} */
    this.waiting = null; // the request that is under way
    this.again = false; // whether the drawing has changed since
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.missed = undefined; // the timer after which an answer is missed
    this.late = false;
    this.unsent = false;
  }
  /** Send what has been set, once it is painted: what JupyterLab does when the kernel gets busy would hold up the painting. */
  send() {
    if (!this.unsent) requestAnimationFrame(() => setTimeout(() => {
      this.unsent = false;
      this.model.save_changes();
      if (this.reader && this.waiting !== null) this.model.set("_answer", this.reader(this.model.get("_request")));
    }, 0));
    this.unsent = true;
  }
  ask() {
    this.again = this.waiting !== null;
    if (!this.again) {
      this.waiting = `${this.prefix} ${++this.asked}`;
      this.model.set("_request", { id: this.waiting, pixels: new DataView((this.pixels() ?? new Uint8Array()).slice().buffer) });
    }
    this.send();
  }
  heard() {
    this.stopWaiting();
    if (this.model.get("_answer").id !== this.waiting) return;
    this.waiting = null;
    if (this.again) this.ask();
  }
  /** Say so when an answer does not come; what is shown until then is the last one. @param {boolean} fresh */
  watch(fresh) {
    if (fresh) return this.stopWaiting();
    this.missed ??= setTimeout(() => {
      this.late = true;
      this.schedule();
    }, LATE_MS);
  }
  stopWaiting() {
    clearTimeout(this.missed);
    [this.missed, this.late] = [undefined, false];
  }
}
