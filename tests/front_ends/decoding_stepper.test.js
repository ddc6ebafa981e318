import assert from "node:assert/strict";
import test from "node:test";
import { Answers, logShares } from "../../headroom/widgets/decoding_stepper/answers.js";
import { Words, count, logarithm, share } from "../../headroom/widgets/decoding_stepper/words.js";
import { bytes, close, modelOf } from "./model.js";

// Two letters and an end. "a" leads at first, but two steps of "b" are likelier.
const [A, B, END] = [0, 1, 2];
const table = { "": [0.6, 0.4, 0], 0: [0.5, 0.5, 0], 1: [0, 1, 0], "0,0": [0, 0, 1], "0,1": [0, 0, 1], "1,1": [0, 0, 1], "1,0": [0, 0, 1] };
const prefixes = Object.keys(table).map((prefix) => [0, ...(prefix ? prefix.split(",").map(Number) : [])]);
const traits = {
  _facts: { n_layers: 1, n_heads: 2, tokens: ["a", "b", "<eos>"], eos: END, bos: END, max_tokens: 4, max_beams: 2, max_source: 9, sources: [{ text: "xy", words: ["x", "y"], costs: [[1, 2]] }] },
  _prefixes: prefixes,
  _logits: bytes(Float32Array, Object.values(table).flat().map((one) => Math.log(one + 1e-9))),
  _attention: bytes(Uint16Array, prefixes.flatMap(() => [65535, 0, 0, 65535])),
  _seeds: [7], _noise: bytes(Float32Array, [9, 1, 9, 9, 1, 9, 9, 9, 1, 9, 9, 1]),
};
const answers = new Answers(modelOf(traits));
const now = { source: "xy", method: "greedy", temperature: 1, seed: 7, beams: 2, step: 0, hypothesis: null, taken: [], layer: 0, head: null };

test("greedy decoding takes the likeliest each time, a choice of the reader's in its place", () => {
  assert.deepEqual(answers.written(0, now).tokens, [A, A, END]);
  const { tokens, own } = answers.written(0, { ...now, taken: [[0, "b"]] });
  assert.deepEqual(tokens, [B, B, END]);
  assert.equal(own[0], A);
});

test("beam search finds the likelier text", () => {
  const { levels, missing } = answers.search(0, 2);
  assert.equal(missing, false);
  assert.deepEqual(levels.at(-1).kept[0].prefix, [B, B, END]);
  close([Math.exp(levels.at(-1).kept[0].score)], [0.4], 1e-5);
});

test("a draw takes the largest share by its random number; without them Python is needed", () => {
  assert.deepEqual(answers.written(0, { ...now, method: "sampling" }).tokens, [B, B, END]);
  assert.equal(answers.written(0, { ...now, method: "sampling", seed: 8 }).missing, "noise");
});

test("weights are a head's, or the mean of all; nothing is known of other prefixes", () => {
  close(answers.weights(0, [], 0, null), [0.5, 0.5]);
  close(answers.weights(0, [], 0, 1), [0, 1]);
  assert.equal(answers.weights(0, [B, A, A], 0, null), null);
  close(logShares(Float32Array.of(1000, 1000)), [Math.log(0.5), Math.log(0.5)]);
});

test("what is shown, in words", () => {
  const say = new Words(answers);
  assert.match(say.sayAll(answers.look(now)), /^Step 1 of 3, greedy\. At the beginning, the likeliest is “a” \(0\.600\), then “b” \(0\.400\); “a” is written\./);
  assert.deepEqual([share(0.5), share(0), share(1e-5), logarithm(-0.001)], ["0.500", "0.000", "1·10⁻⁵", "0.00"]);
  assert.equal(count(1, "step"), "1 step");
});
