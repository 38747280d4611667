// Figures as people read them.

const UNITS = [
  ['GiB', 2 ** 30],
  ['MiB', 2 ** 20],
  ['KiB', 2 ** 10],
  ['bytes', 1],
];

/** One unit for figures that stand together: `smallest` still shows in it. */
export function unitFor(largest, smallest = 0) {
  const size = Math.abs(largest);
  let at = UNITS.findIndex(([, bytes]) => size >= bytes);
  if (at < 0) at = 3;
  while (at < 3 && smallest > 0 && smallest < UNITS[at][1] / 10) at += 1;
  const [name, bytes] = UNITS[at];
  const decimals = at === 3 ? 0 : at === 0 || size < 100 * bytes ? 2 : 1;
  return { name, bytes, format: (value) => orLess(value, (value / bytes).toFixed(decimals)) };
}

/** "<0.01" of what is too small for the digits: 0.00 would be nothing. */
function orLess(value, digits) {
  const small = value !== 0 && Number(digits) === 0;
  return small ? `<${digits.replace('-', '').slice(0, -1)}1` : grouped(digits);
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

/** The order of names with numbers in them: layers.2 before layers.10. */
export const natural = new Intl.Collator('en', { numeric: true }).compare;

/** A difference with its sign. */
export function signed(value, text = exact) {
  return `${value > 0 ? '+' : '−'}${text(Math.abs(value))}`;
}

/** Every digit of a whole number, three of another. */
export function exactOrShort(value) {
  if (value === null || value === undefined || Number.isInteger(value)) return exact(value);
  return String(Number(value.toPrecision(3)));
}

/** A name from a program on one line. */
export const oneLine = (name) => name.replace(/\s+/g, ' ').trim();

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

/** An axis in `unit` from `low` to `high` in three to six round steps: {min, max, interval, format}. */
export function axisOf(low, high, unit) {
  if (high - low < 1e-3 * Math.abs(high))
    return axisOf(low - 0.02 * Math.abs(high), high + 0.02 * Math.abs(high), unit);
  const rough = Math.max(high - low, 1) / unit.bytes / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((one) => one * power >= rough * 0.999999);
  const [first, last] = [Math.floor(low / unit.bytes / step), Math.ceil(high / unit.bytes / step)];
  const decimals = Math.max(0, -Math.floor(Math.log10(step)) + (step / power === 2.5 ? 1 : 0));
  return {
    min: first * step * unit.bytes,
    max: Math.max(first + 1, last) * step * unit.bytes,
    interval: step * unit.bytes,
    format: (value) => grouped((value / unit.bytes).toFixed(decimals)),
  };
}
