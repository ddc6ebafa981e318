// @ts-check
/* Answers without Python: what DigitPad._reply sends, computed in the page from the weights that came with the pad. */
import { hasPython } from "../kernel/elements.js";
import { decode } from "../kernel/numbers.js";
import { withMistake } from "./mistakes.js";
import { ViT, softmax, weightsOf } from "./vit.js";
/** @import { Model, DigitPad as T } from "../types" */

/** What answers in the page; null where Python does, or where the model is none that the page can compute.
 * @param {Model<T.Traits>} model @returns {((request: T.Traits["_request"]) => T.Answer) | null} */
export function readerOf(model) {
  const facts = model.get("_facts");
  if (hasPython() || !facts.tensors?.length) return null;
  const vit = new ViT(facts, weightsOf(facts, model.get("_weights")));
  return ({ id, pixels }) => {
    const mistake = model.get("mistake") ?? null;
    if (!pixels.byteLength) return { id, mistake };
    const names = mistake === null ? [null] : [null, mistake];
    return { id, mistake, pixels, models: names.map((name) => readingOf(vit, facts, name, decode(Uint8Array, pixels))) };
  };
}

/** @param {ViT} vit @param {Pick<T.Facts, "mistakes">} facts @param {string | null} mistake @param {Uint8Array} pixels
 * @returns {T.Reading | T.Failure} */
export function readingOf(vit, { mistakes }, mistake, pixels) {
  const { logits, maps } = withMistake(vit, mistake).read(pixels);
  if (!logits.every(Number.isFinite)) return { error: "the logits are not all finite numbers." };
  const rows = maps.flat().map(([row]) => [...row]);
  const [, , , , tokens = ""] = mistakes.find(([name]) => name === mistake) ?? [];
  // [class] is shown where it stands in the healthy model: in front.
  if (tokens === "class_last") for (const row of rows) row.unshift(row.pop() ?? 0);
  return {
    probabilities: [...softmax(logits)],
    attention: new DataView(Float32Array.from(rows.flat()).buffer),
    reader: tokens ? "the patch in the upper left corner" : "[class]",
  };
}
