import assert from "node:assert/strict";
import test from "node:test";
import { BOX, FINE, SIDE, WIDE, inkOf, pixelsOf, place } from "../../headroom/widgets/digit_pad/ink.js";
import { Questions } from "../../headroom/widgets/digit_pad/questions.js";
import { isFresh, mapOf, ranked, sayExample, sayMap, sayModel, sure } from "../../headroom/widgets/digit_pad/words.js";

const facts = { n_layers: 1, n_heads: 2, side: 2, labels: [8, 3], mistakes: [["slip", "group", "a slip", "It slips."]] };
const view = (numbers, Type = Float32Array) => new DataView(Type.from(numbers).buffer);
const reading = { probabilities: [0.05, 0.8, 0.15, 0, 0, 0, 0, 0, 0, 0], reader: "[class]" };

test("a stroke leaves ink along its way, and the eraser takes it off", () => {
  const drawn = inkOf(null, [[0, 4, 14, 24, 14]]);
  const middle = Math.round(14 * FINE) * WIDE + Math.round(14 * FINE);
  assert.equal(drawn[middle], 1);
  assert.equal(drawn[0], 0);
  assert.equal(inkOf(null, [[0, 4, 14, 24, 14], [1, 14, 14]])[middle], 0);
});

test("an example that is not centred comes back pixel by pixel", () => {
  const example = Uint8Array.from({ length: SIDE * SIDE }, (_, i) => (i * 7) % 256);
  const ink = inkOf(example, []);
  assert.deepEqual(pixelsOf(ink, place(ink, false)), example);
});

test("a centred drawing fits the box, its centre of mass in the middle", () => {
  const ink = inkOf(null, [[0, 3, 3, 9, 3]]);
  const pixels = pixelsOf(ink, place(ink, true));
  const inked = [...pixels.keys()].filter((i) => pixels[i] > 0);
  const columns = inked.map((i) => i % SIDE);
  assert.equal(Math.max(...columns) - Math.min(...columns) + 1, BOX);
  const mass = pixels.reduce((sum, ink_) => sum + ink_, 0);
  const centre = [...pixels].reduce((sum, ink_, i) => sum + ink_ * ((i % SIDE) + 0.5), 0) / mass;
  assert.ok(Math.abs(centre - SIDE / 2) <= 1);
});

test("of a lopsided drawing nothing is cut off, though its centre of mass is then not in the middle", () => {
  const [dot, line] = [[0, 3, 14], [0, 25, 4, 25, 24]];
  const other = (stroke) => stroke.map((at, i) => (i && i % 2 ? SIDE - at : at)); // left and right exchanged
  for (const strokes of [[dot, line], [other(dot), other(line)]]) {
    const ink = inkOf(null, strokes);
    const placing = place(ink, true);
    const drawn = ink.reduce((sum, one) => sum + one, 0) / placing.step ** 2;
    const shown = pixelsOf(ink, placing).reduce((sum, one) => sum + one, 0) / 255;
    assert.ok(Math.abs(shown - drawn) < 0.01 * drawn, `${shown} of ${drawn}`);
  }
});

test("without ink there is no place", () => assert.equal(place(inkOf(null, []), true), null));

test("a map is a head's row, or the mean of all, without [class]", () => {
  const all = { ...reading, attention: view([0.2, 0.1, 0.3, 0.4, 0, 0, 0.5, 0.5, 0, 0]) };
  const second = mapOf(facts, all, 0, 1);
  assert.equal(second.own, 0);
  assert.deepEqual([...second.patches], [0.5, 0.5, 0, 0]);
  assert.ok(Math.abs(mapOf(facts, all, 0, null).patches[0] - 0.3) < 1e-6);
  assert.match(sayMap(facts, all, { layer: 0, head: 1 }), /^\[class\], layer 1, head 2: most weight on patch row 1, column 1 \(0\.50\); 0\.00 goes to \[class\]\.$/);
});

test("an answer is fresh when it is of these pixels and this mistake", () => {
  const answer = { pixels: view([1, 2], Uint8Array), mistake: null };
  assert.ok(isFresh(answer, Uint8Array.of(1, 2), null));
  assert.ok(!isFresh(answer, Uint8Array.of(1, 3), null));
  assert.ok(!isFresh(answer, Uint8Array.of(1, 2), "slip"));
  assert.ok(isFresh(answer, null, "slip"));
  assert.ok(!isFresh({}, Uint8Array.of(1), null));
});

test("what a model reads, in words", () => {
  assert.deepEqual(ranked([0.1, 0.7, 0.2]), [1, 2, 0]);
  assert.equal(sayModel(facts, reading, 0, null), "The model reads a 1 (fairly sure, 0.80), then a 2 (0.15).");
  assert.equal(sayModel(facts, { error: "It fails." }, 1, "slip"), "With the mistake “a slip” it gives no answer: It fails.");
  assert.equal(sayExample(facts, 0), "an 8 (example 1)");
  assert.equal(sayExample({ labels: null }, 1), "example 2");
  assert.deepEqual([0.95, 0.75, 0.5, 0.49].map(sure), ["sure", "fairly sure", "unsure", "guessing"]);
});

test("what is drawn while an answer is under way is asked for when it comes, and nothing twice", () => {
  globalThis.requestAnimationFrame ??= (/** @type {() => void} */ paint) => (paint(), 0);
  const state = {};
  const model = { get: (name) => state[name], set: (name, value) => (state[name] = value), save_changes: () => {} };
  const asked = () => state._request.id;
  const questions = new Questions(model, "view", () => {}, () => new Uint8Array(1), null);
  const answer = (id) => ((state._answer = { id }), questions.heard());
  questions.ask();
  assert.equal(asked(), "view 1");
  questions.ask(); // the drawing has changed
  assert.equal(asked(), "view 1");
  answer("another view 1");
  assert.equal(asked(), "view 1");
  answer("view 1");
  assert.equal(asked(), "view 2");
  answer("view 2");
  assert.equal(asked(), "view 2");
  assert.equal(questions.waiting, null);
});
