/** What a front end gets from Python: a model with these traits. */
export const modelOf = (traits) => ({ get: (name) => traits[name], set() {}, on() {}, off() {}, save_changes() {} });

/** Numbers as Python sends them. */
export const bytes = (Type, numbers) => new DataView(Type.from(numbers).buffer);

/** Refuse unless all numbers are as expected, up to rounding. */
export function close(numbers, expected, most = 1e-6) {
  const [some, others] = [[...numbers], [...expected]];
  if (some.length !== others.length || some.some((one, i) => !(Math.abs(one - others[i]) <= most))) {
    throw new Error(`${some.slice(0, 8)} differ from ${others.slice(0, 8)}`);
  }
}
