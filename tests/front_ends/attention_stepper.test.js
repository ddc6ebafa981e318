import assert from "node:assert/strict";
import test from "node:test";
import { Data, UNTOUCHED, agree } from "../../headroom/widgets/attention_stepper/data.js";
import { Words, say, weight } from "../../headroom/widgets/attention_stepper/words.js";
import { bytes, close, modelOf } from "./model.js";

const numbers = [1, 0, 0, 1, /* K */ 2, 0, 0, 2, /* V */ 10, 20];
const data = new Data(modelOf({
  _facts: { n_queries: 2, n_keys: 2, d_k: 2, d_v: 1, queries: null, keys: null, crossed: false, given: [], check: [] },
  _numbers: bytes(Float64Array, numbers), _mask: bytes(Uint8Array, [1, 0, 1, 1]), _yours: bytes(Float64Array, []),
}));
const now = { ...UNTOUCHED, query: 1, step: "softmax", spot: null, key: null, entry: null, locked: false, editing: false };

test("equation 1, step by step", () => {
  const { dots, scores, weights, output } = data.stages(now);
  close(dots, [2, 0, 0, 2]);
  close(scores, dots.map((one) => one / Math.SQRT2));
  const share = 1 / (1 + Math.exp(Math.SQRT2));
  close(weights, [1, 0, share, 1 - share]);
  close(output, [10, 10 * share + 20 * (1 - share)]);
});

test("the reader's changes: a score, the mask, the scale, the temperature", () => {
  assert.equal(data.stages({ ...now, edited: [[1, 0, 5]] }).scores[2], 5);
  assert.ok(Number.isNaN(data.stages({ ...now, flipped: [[0, 0]] }).weights[0])); // nothing is left to attend to
  close(data.stages({ ...now, scaled: false }).scores, [2, 0, 0, 2]);
  close(data.stages({ ...now, temperature: 1e6 }).weights.subarray(2), [0.5, 0.5], 1e-5);
});

test("very large scores do not overflow", () => {
  const { weights, shifts } = data.stages({ ...now, edited: [[1, 0, 1000], [1, 1, 999]] });
  assert.equal(shifts[1], 1000);
  close(weights.subarray(2), [1 / (1 + Math.exp(-1)), 1 / (1 + Math.E)]);
});

test("what is shown, in words", () => {
  const words = new Words(data);
  assert.match(words.sayStep(data.look(now)), /^Step 4 of 5, softmax: e to the power of each score, divided by the sum of all\. The weights sum to 1; most goes to key 2 \(0\.804\)\.$/);
  assert.match(words.sayStep(data.look({ ...now, edited: [[1, 0, 1], [1, 1, 1]] })), /most goes to key 1 and key 2 \(0\.500 each\)\.$/);
  assert.match(words.sayStep(data.look({ ...now, query: 0, step: "mask" })), /1 of 2 keys are hidden from query 1/);
  assert.match(words.sayChanges(data.look({ ...now, edited: [[1, 0, 5]] })), /score with key 1 5\.00 in place of 0\.00/);
  assert.deepEqual([say(-0.001), say(Infinity), say(123456), weight(0.12345)], ["0.00", "∞", "1.23 · 10^5", "0.123"]);
});

test("two numbers agree up to rounding; a hidden score may be any that is very low", () => {
  assert.ok(agree("weights", 0.5, 0.50001, true));
  assert.ok(!agree("weights", 0.5, 0.51, true));
  assert.ok(agree("scores", -1e9, 3, false));
  assert.ok(!agree("scores", -1e9, 3, true));
});
