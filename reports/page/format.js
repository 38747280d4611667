// Figures as people read them. The same rules as in units.cpp.

const UNITS = [
  ['GiB', 2 ** 30],
  ['MiB', 2 ** 20],
  ['KiB', 2 ** 10],
  ['bytes', 1],
];

/** One unit for figures that stand together: `smallest` still shows in it as long as `largest` stays readable. */
export function unitFor(largest, smallest = 0) {
  const size = Math.abs(largest);
  let at = [10 * 2 ** 30, 2 ** 20, 10 * 2 ** 10, 0].findIndex((least) => size >= least);
  while (at < 3 && smallest > 0 && smallest < UNITS[at][1] && size < 1e5 * UNITS[at + 1][1])
    at += 1;
  const [name, bytes] = UNITS[at];
  const decimals = at === 3 ? 0 : at === 0 || (at === 1 && size < 100 * bytes) ? 2 : 1;
  return { name, bytes, format: (value) => grouped((value / bytes).toFixed(decimals)) };
}

function grouped(digits) {
  const [whole, fraction] = digits.split('.');
  const spaced = whole.replace(/\B(?=(\d{3})+$)/g, ',');
  return fraction === undefined ? spaced : `${spaced}.${fraction}`;
}

export function bytes(value) {
  const unit = unitFor(value);
  return `${unit.format(value)} ${unit.name}`;
}

/** "838,860,800": every digit. */
export function exact(value) {
  if (value === null || value === undefined) return 'no value';
  return Number.isInteger(value) ? grouped(String(value)) : String(value);
}

export function exactBytes(value) {
  return `${exact(value)} bytes`;
}

export function duration(ns) {
  for (const [unit, scale] of [
    ['s', 1e9],
    ['ms', 1e6],
    ['µs', 1e3],
  ]) {
    if (Math.abs(ns) >= scale) return `${Number((ns / scale).toPrecision(3))} ${unit}`;
  }
  return `${ns} ns`;
}

export function plural(n, noun, many = `${noun}s`) {
  return `${exact(n)} ${n === 1 ? noun : many}`;
}

/** "rank 0", "ranks 0–3", "ranks 0, 2". */
export function rankList(ranks) {
  if (ranks.length === 1) return `rank ${ranks[0]}`;
  const run = ranks.every((rank, i) => i === 0 || rank === ranks[i - 1] + 1);
  return run ? `ranks ${ranks[0]}–${ranks.at(-1)}` : `ranks ${ranks.join(', ')}`;
}

/** The next figure that four round steps reach. */
export function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return power * [1, 1.2, 1.6, 2, 2.4, 2.8, 3.2, 4, 4.8, 6, 8, 10].find((step) => step * power >= value * 0.999999);
}
