import assert from "node:assert/strict";
import test from "node:test";
import { Data } from "../../headroom/widgets/norm_explorer/data.js";
import { Words, amount, sayEps } from "../../headroom/widgets/norm_explorer/words.js";
import { bytes, close, modelOf } from "./model.js";

const start = [1, 2, 3, 4, 6, 8];
const dataOf = (facts = {}) => new Data(modelOf({
  _facts: { shape: [1, 2, 3], words: null, gamma: null, beta: null, module: {}, ...facts },
  _start: bytes(Float64Array, start), _theirs: bytes(Float64Array, start),
}));
const now = { norm: "LayerNorm", sample: 0, token: 1, feature: 2, locked: false, eps: 1e-5, affine: true };

test("LayerNorm and RMSNorm normalise tokens, BatchNorm features", () => {
  const data = dataOf();
  const layer = data.normalise("LayerNorm", data.start, 0, true).out;
  for (const token of [layer.subarray(0, 3), layer.subarray(3)]) {
    close([token.reduce((a, b) => a + b), token.reduce((a, b) => a + b * b, 0) / 3], [0, 1]);
  }
  const rms = data.normalise("RMSNorm", data.start, 0, true).out;
  close([rms.subarray(0, 3).reduce((a, b) => a + b * b, 0) / 3], [1]);
  close(data.normalise("BatchNorm", data.start, 0, true).out, [-1, -1, -1, 1, 1, 1]);
  assert.deepEqual(data.members("BatchNorm", 4), [1, 4]);
  assert.deepEqual(data.members("LayerNorm", 4), [3, 4, 5]);
});

test("γ and β are applied where they are wanted, and RMSNorm has no β", () => {
  const data = dataOf({ gamma: [2, 2, 2], beta: [1, 1, 1] });
  const [plain, affine] = [false, true].map((yes) => data.normalise("LayerNorm", data.start, 0, yes).out);
  close(affine, plain.map((one) => 2 * one + 1));
  close(data.normalise("RMSNorm", data.start, 0, true).out, data.normalise("RMSNorm", data.start, 0, false).out.map((one) => 2 * one));
});

test("places and numbers belong together, and a step suits the spread", () => {
  const data = dataOf();
  for (let one = 0; one < 6; one++) assert.equal(data.at(data.place(one)), one);
  assert.equal(data.stepOf(data.start, 0), 0.1);
  assert.equal(data.stepOf(data.start.map((one) => one * 100), 0), 10);
});

test("a changed number of a token changes that token's outputs only", () => {
  const data = dataOf();
  const x = Float64Array.from(start, (one, i) => (i === 5 ? 9 : one));
  const view = data.look(now, x);
  assert.deepEqual(view.edited, [5]);
  assert.deepEqual(view.changed.LayerNorm, [3, 4, 5]);
  assert.deepEqual(view.changed.BatchNorm, []); // two tokens: whatever the larger one is, it becomes 1
  assert.match(new Words(data).all(view), /^LayerNorm\. Sample 1, token 2, feature 3: 9\.00 becomes 1\.30\..*3 of 6 outputs change, all in sample 1, token 2\.$/);
});

test("numbers of any size take few characters", () => {
  assert.deepEqual([0, 1e-20, 3.14159, 1234.5, 0.0001, 123456].map((one) => amount(one)), ["0.00", "0.00", "3.14", "1234.5", "1.0e−4", "1.2e5"]);
  assert.deepEqual([1e-5, 0.1, 1].map(sayEps), ["1e−5", "0.1", "1"]);
});
