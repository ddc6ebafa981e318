import assert from "node:assert/strict";
import test from "node:test";
import { Data } from "../../headroom/widgets/position_explorer/data.js";
import { allSimilarities, byDistance, dot, encodingOf, frequencies, sinCosRow, turnedRow } from "../../headroom/widgets/position_explorer/encodings.js";
import { ticks } from "../../headroom/widgets/position_explorer/marks.js";
import { Words, sayTurn, short } from "../../headroom/widgets/position_explorer/words.js";
import { bytes, close, modelOf } from "./model.js";

const size = { n: 10, width: 8, base: 100, query: new Float32Array(8).fill(1), key: new Float32Array(8).fill(1) };
const now = { kind: "sin-cos", position: 2, dimension: 1, shift: 3, base: 100, d_model: 8, n_positions: 10, measure: "dot", locked: false };

test("a shift turns every pair by its frequency", () => {
  const omegas = frequencies(4, 100);
  close(omegas, [1, 0.1]);
  const row = sinCosRow(3, omegas, new Float64Array(4));
  close(row, [Math.sin(3), Math.cos(3), Math.sin(0.3), Math.cos(0.3)]);
  close(turnedRow([1, 0, 0, 1], 2, omegas, new Float64Array(4)), [Math.cos(2), Math.sin(2), -Math.sin(0.2), Math.cos(0.2)]);
});

for (const kind of ["sin-cos", "rotary"]) {
  test(`${kind}: the similarity of two positions depends on their distance alone`, () => {
    const one = encodingOf(kind, undefined, size);
    const { least, most, count } = byDistance(allSimilarities(one, "dot"), one);
    close(least, most, 1e-5);
    assert.deepEqual([...count.slice(0, 3)], [1, 2, 3]);
  });
}

test("a table has the rows that it has", () => {
  const table = { values: Float32Array.from([1, 0, 0, 2]), shape: [2, 2], rows: 2 };
  const one = encodingOf("learned", table, { ...size, n: 3, width: 2 });
  assert.deepEqual([one.rows.length, one.row(2), one.limit], [2, null, 2]);
  const values = allSimilarities(one, "cosine");
  close([values[0], values[1], values[4]], [1, 0, 1]);
  assert.ok(Number.isNaN(values[8]));
  assert.equal(dot([1, 2], [3, 4]), 11);
});

test("what is shown, in words", () => {
  const data = new Data(modelOf({ _facts: { learned: {}, max_positions: 200, max_d_model: 64, bases: [10, 1e6] }, _yours_facts: {}, _q: bytes(Float32Array, []), _k: bytes(Float32Array, []) }));
  assert.deepEqual(data.kinds, ["sin-cos", "rotary"]);
  const say = new Words(data);
  const one = data.encoding("sin-cos", now);
  assert.match(say.all(now, one), /^Sin-cos, position 2, dimension 1, the cosine of pair 0: −0\.416\. It repeats every 6\.3 positions\. The shift by 3, to position 5/);
  assert.match(say.distance(now, one), /^All 7 pairs of positions \(p, p \+ 3\) have the same dot product/);
  assert.equal(say.rotation(now, one).length, 3);
  assert.equal(say.titles(now, one).length, 5);
  assert.equal(sayTurn(Math.PI), "180.0°");
  assert.equal(short(NaN), "undefined");
});

test("ticks keep their distance", () => {
  assert.deepEqual(ticks(0, 20, 4, 14), [0, 5, 10, 15, 20]);
  assert.deepEqual(ticks(-9, 9, 10, 34), [-5, 0, 5]);
});
