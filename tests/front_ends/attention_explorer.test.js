import assert from "node:assert/strict";
import test from "node:test";
import { Data } from "../../headroom/widgets/attention_explorer/data.js";
import { Words, byWeight, ordinal } from "../../headroom/widgets/attention_explorer/words.js";
import { bytes, close, modelOf } from "./model.js";

const traits = {
  _facts: { n_layers: 1, n_heads: 2, sizes: [[2, 3]], has_class: false, largest: 1, queries: [["a", "b"]], keys: [["x", "y", "z"]], crossed: true },
  _attention: bytes(Uint16Array, [65535, 0, 0, 0, 65535, 0, 0, 0, 65535, 0, 65535, 0]),
  _scores: bytes(Float32Array, []), _mask: bytes(Uint8Array, []), _pixels: bytes(Uint8Array, []),
};
const data = new Data(modelOf(traits));
const now = { sample: 0, layer: 0, head: 0, query: 1, key: null, locked: false, control: null, scale: "row", show: "weights", matrices: true, phase: "off", marks: [] };

test("a head's row of weights, and the mean of all", () => {
  close(data.row("weights", now, 1), [0, 1, 0]);
  close(data.row("weights", { ...now, head: null }, 0), [0.5, 0, 0.5]);
});

test("what is shown, in words", () => {
  const say = new Words(data);
  assert.equal(say.all(now, data.row("weights", now, 1)), "Sequence 1, layer 1, head 1: query 2 “b” gives most weight to key 2 “y” (1.00), then key 1 “x” (0.00).");
  assert.match(say.verdict({ ...now, marks: [1] }), /^Very close: the key you marked gets 1\.00 of the weight/);
  assert.match(say.verdict({ ...now, marks: [0] }), /^It looks elsewhere: .*Most goes to key 2 “y” \(1\.00\); yours comes 2nd\.$/);
  assert.deepEqual([1, 2, 3, 4, 11, 22].map(ordinal), ["1st", "2nd", "3rd", "4th", "11th", "22nd"]);
  assert.deepEqual(byWeight(Float32Array.of(0.1, 0.7, 0.2)), [1, 2, 0]);
});
