import assert from "node:assert/strict";
import test from "node:test";
import { Data } from "../../headroom/widgets/bug_switches/data.js";
import { Words, count, percent, quote, short } from "../../headroom/widgets/bug_switches/words.js";
import { bytes, close, modelOf } from "./model.js";

const looks = { encoder: { largest: 1, lowest_sum: 1, highest_sum: 1, moved: 0.25, sizes: [[2, 2]] } };
const result = { accuracy: 0.5, right: 5, loss: 1, gradient: 2, gradients: { W: 1 }, parameters: 10, predictions: [3], looks };
const slips = ["one", "two"].map((name) => ({ name, title: `slip ${name}`, sentence: "It slips.", group: "g", slot: name }));
const data = new Data(modelOf({
  _facts: { kind: "image", n: 10, n_layers: 1, n_heads: 2, n_classes: 10, rows: 1, columns: 1, parts: ["encoder"], gradients: ["W"], mistakes: slips, shown: [{ target: 3 }] },
  _pixels: bytes(Uint8Array, [0]),
  _results: { "": { ...result, right: 9, accuracy: 0.9 }, one: { ...result, class_last: true, gradients: { W: null } } },
  _attention: { "": bytes(Uint16Array, [65535, 0, 0, 65535, 0, 65535, 65535, 0]), one: bytes(Uint16Array, [65535, 0, 0, 65535, 0, 65535, 65535, 0]) },
}));
const now = { on: [], sample: 0, part: "encoder", layer: 0, head: 0, query: 0, key: 0 };

test("a combination is named in the order of the switches; what is not computed is not there", () => {
  assert.equal(data.combination(["two", "one"]), "one+two");
  assert.equal(data.result("two"), undefined);
  assert.throws(() => data.sizes("two", "encoder"), /no weights/);
});

test("weights of a head, and their mean", () => {
  close(data.row("", now, 0), [1, 0]);
  close(data.row("", { ...now, head: null }, 0), [0.5, 0.5]);
});

test("tokens are followed to where a mistake has put them", () => {
  assert.deepEqual(data.words("", now, "keys"), ["[class]", "1"]);
  assert.deepEqual(data.words("one", now, "keys"), ["1", "[class]"]);
  assert.equal(data.place("one", now, "keys", 0), 1);
});

test("what is shown, in words", () => {
  const say = new Words(data);
  assert.match(say.all(now), /^No mistake is switched on\. The model gets 9 of 10 images right \(90\.0 %\), with a loss of 1\.00\./);
  assert.match(say.all({ ...now, on: ["one"] }), /^Slip one: 5 of 10 images right \(50\.0 %\), 4 fewer than without\./);
  assert.match(say.all({ ...now, on: ["two"] }), /has not been computed/);
  assert.equal(say.gradients(data.result("one")), "No gradient reaches W. ");
  assert.deepEqual([short(1234567), short(0.00123), short("NaN"), percent(0.5), count(1234567), quote("")], ["1.2e6", "0.0012", "not a number", "50.0 %", "1,234,567", "nothing"]);
});
