// Memory of one device over the moments of its trace: picture_data.cpp packs it, and every sum on the page is made of its blocks.
import { stackOfCall } from './calls.js';
import { summed } from './data.js';
import { WAITING, inOrder } from './kinds.js';

/** "layers.*.mlp.0" of "layers.11.mlp.0": as parts.cpp names what repeats; "unit *" of a scenario's "unit 3". */
export function patternOf(module) {
  const words = module.split('.');
  let before = false;
  return words
    .map((word, i) => {
      const number = /^\d+$/.test(word);
      const kept = number && before && i === words.length - 1;
      before ||= number;
      return number && !kept ? '*' : word;
    })
    .join('.');
}

/** The index of the last of ascending numbers that is at most `value`; -1: none. */
export function lastAtMost(numbers, value) {
  let low = -1;
  let high = numbers.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (numbers[middle] <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}

function placesOf({ kinds, modules, files, sites, kind, module, site, call }) {
  const lines = sites.map(([text, file, line, source]) => ({ text, file: files[file], line, source }));
  const patterns = modules.map(patternOf);
  return kind.map((k, i) => ({
    kind: kinds[k],
    module: modules[module[i]],
    pattern: patterns[module[i]],
    ...lines[site[i]],
    call: call[i],
  }));
}

/** `waiting`: memory that is freed and held for another stream is 'apart', a kind of its own, 'within' its kind or 'out', no more there. */
export function courseOf(packed, waiting = 'apart') {
  const { moments, names, schedule } = packed;
  const places = placesOf(packed.places);
  const from = summed(packed.blocks.from);
  const { place, bytes } = packed.blocks;
  const ends = from.map((first, i) => first + packed.blocks.lives[i]);
  const freed = ends.map((end, i) => end - packed.blocks.waits[i]);
  const until = waiting === 'out' ? freed : ends;
  const waits = waiting === 'apart' ? freed : until;
  const events = packed.events ? summed(packed.events) : null;
  const [reservedAt, reservedTo] = packed.reserved.map(summed);
  const kinds = inOrder(new Set(places.map(({ kind }) => kind)));
  if (waiting === 'apart') kinds.push(WAITING);
  const kindOf = places.map(({ kind }) => kinds.indexOf(kind));

  const active = new Float64Array(moments + 1);
  from.forEach((first, i) => {
    active[first] += bytes[i];
    active[until[i]] -= bytes[i];
  });
  for (let i = 1; i < active.length; i += 1) active[i] += active[i - 1];

  /** The number of events until a moment, and the moment of so many events. */
  const eventOf = (moment) => (events ? events[moment] : moment);
  const momentOf = (event) => Math.max(0, events ? lastAtMost(events, event) : Math.min(moments - 1, event));
  const reserved = (moment) => reservedTo[lastAtMost(reservedAt, moment)] ?? 0;

  /** At most `most` moments from `first` to `last`, of every stretch the one at which active is highest. */
  function columns(first, last, most) {
    const count = last - first + 1;
    if (count <= most) return Array.from({ length: count }, (_, i) => first + i);
    const out = [first];
    for (let i = 0; i < most - 2; i += 1) {
      const begin = first + 1 + Math.floor(((count - 2) * i) / (most - 2));
      const end = first + 1 + Math.floor(((count - 2) * (i + 1)) / (most - 2));
      let best = begin;
      for (let at = begin; at < end; at += 1) if (active[at] > active[best]) best = at;
      if (end > begin) out.push(best);
    }
    out.push(last);
    return out;
  }

  /** The bytes of each kind at each of ascending moments: a list a kind. */
  function levels(at) {
    const out = kinds.map(() => new Float64Array(at.length + 1));
    const add = (kind, begin, end, size) => {
      const [a, b] = [lastAtMost(at, begin - 1) + 1, lastAtMost(at, end - 1) + 1];
      if (a === b) return;
      out[kind][a] += size;
      out[kind][b] -= size;
    };
    for (let i = 0; i < from.length; i += 1) {
      add(kindOf[place[i]], from[i], waits[i], bytes[i]);
      if (waits[i] < until[i]) add(kinds.length - 1, waits[i], until[i], bytes[i]);
    }
    return out.map((changes) => {
      for (let i = 1; i < changes.length; i += 1) changes[i] += changes[i - 1];
      return changes.subarray(0, at.length);
    });
  }

  /** Blocks that are alive at a moment: {index, place, bytes, waiting}. */
  function alive(moment) {
    const out = [];
    for (let i = 0; i < from.length; i += 1)
      if (from[i] <= moment && moment < until[i])
        out.push({ index: i, ...places[place[i]], bytes: bytes[i], waiting: moment >= freed[i] });
    return out;
  }

  const addresses = summed(packed.blocks.address);
  /** Where a block lies and how long it lives: born and given back at moments, `freed` by the program; `rest` is what the allocator rounds up. */
  const block = (i) => ({ from: from[i], freed: freed[i], until: ends[i], address: addresses[i], rest: packed.blocks.rest[i] });

  const ranges = packed.segments;
  const [segmentFrom, segmentAt] = [ranges.from, ranges.address].map(summed);
  /** What the allocator has taken from the device at a moment, by address: {address, bytes, stream, pool, mapped}; nothing where the record does not say. */
  function segments(moment) {
    const out = [];
    for (let i = 0; i < segmentFrom.length; i += 1)
      if (segmentFrom[i] <= moment && moment < segmentFrom[i] + ranges.lives[i])
        out.push({ address: segmentAt[i], bytes: ranges.bytes[i], stream: ranges.stream[i], pool: ranges.pool[i], mapped: ranges.mapped[i] === 1 });
    return out.sort((a, b) => a.address - b.address);
  }
  /** The moment at which most is reserved. */
  const fullest = reservedAt[reservedTo.reduce((best, level, i) => (level > reservedTo[best] ? i : best), 0)] ?? 0;

  const phases = packed.phases.map(([name, step, first, last]) => ({ name, step, from: first, to: last }));
  /** "backward of step 2": the shortest phase at a moment, or ''. Step 0: steps are not told apart. */
  function phaseAt(moment) {
    const found = phases
      .filter((phase) => phase.from < moment && moment <= phase.to)
      .sort((a, b) => a.to - a.from - (b.to - b.from))[0];
    return found ? `${found.name}${found.step > 0 ? ` of step ${found.step}` : ''}` : '';
  }

  const last = moments - 1;
  const step = Math.max(...phases.map((phase) => phase.step));
  const [begin, end] = phases
    .filter((phase) => phase.step === step)
    .reduce(([a, b], phase) => [Math.min(a, phase.from), Math.max(b, phase.to)], [Infinity, 0]);
  /** The moments of the last step; all of them, where no phases are known. */
  const lastStep = begin < end ? [begin, Math.min(last, end)] : [0, last];
  let { peak } = packed;
  if (waiting !== 'apart') {
    [peak] = lastStep;
    for (let at = peak; at <= lastStep[1]; at += 1) if (active[at] > active[peak]) peak = at;
  }

  return {
    names, schedule, moments, peak, refused: packed.refused?.[0] ?? 0, refusedBytes: packed.refused?.[1] ?? 0, kinds, active, phases, last, lastStep, inAll: packed.in_all,
    eventOf, momentOf, reserved, columns, levels, alive, block, segments, fullest, hasSegments: segmentFrom.length > 0, hasPools: ranges.pool.some(([a, b]) => a !== 0 || b !== 0), phaseAt,
    stackOf: (call) => stackOfCall(packed.calls, call),
  };
}
