// The allocator's segments at a moment, with the blocks and the free memory in each, and the blocks that keep it from being given back.
import { amount, figure, shortened, table } from './controls.js';
import { h } from './dom.js';
import { bytes, exact, plural } from './format.js';
import { legend } from './frame.js';
import { grouped } from './icicle.js';
import { WAITING, inOrder, toneOfKind } from './kinds.js';

const ROWS = 12; // of the map, if all segments lay end to end
const FINEST = 1200; // parts of a row that can be told apart
const FEW_ROWS = 8;
const FEW_STRIPS = 400;
const SMALLEST_REST = 1 << 20; // the allocator splits off no less in a segment for large blocks (kSmallSize), so a smaller gap there belongs to the block before it

const samePool = ([a, b], [c, d]) => a < 0 || c < 0 || (a === c && b === d);

/** Ranges that are mapped end to end for one stream and pool are one segment, whose pool is known if that of one is. */
function joined(ranges) {
  const out = [];
  for (const range of ranges) {
    const before = out.at(-1);
    const touches = before?.mapped && range.mapped && before.stream === range.stream && samePool(before.pool, range.pool) && before.address + before.bytes === range.address;
    if (touches) Object.assign(before, { bytes: before.bytes + range.bytes, pool: before.pool[0] < 0 ? range.pool : before.pool });
    else out.push({ ...range, blocks: [] });
  }
  return out;
}

/** Segments with the blocks that lie in them, by address: {address, bytes, stream, pool, mapped, blocks, used, rest, free, gaps: [bytes], largest}. */
function segmentsAt(course, moment) {
  const segments = joined(course.segments(moment));
  const blocks = course.alive(moment).map((block) => ({ ...block, ...course.block(block.index) }));
  blocks.sort((a, b) => a.address - b.address);
  let at = 0;
  for (const segment of segments) {
    const end = segment.address + segment.bytes;
    while (at < blocks.length && blocks[at].address < segment.address) at += 1;
    for (; at < blocks.length && blocks[at].address < end; at += 1) segment.blocks.push(blocks[at]);
    const gaps = [];
    let last = segment.address;
    const large = segment.blocks.every((block) => block.bytes > SMALLEST_REST);
    const gap = (to, before) => {
      const size = to - last;
      if (size <= 0) return;
      if (before && large && !segment.mapped && size <= SMALLEST_REST) before.rest += size;
      else gaps.push(size);
    };
    segment.blocks.forEach((block, i) => {
      gap(block.address, segment.blocks[i - 1]);
      last = block.address + block.bytes + block.rest;
    });
    gap(end, segment.blocks.at(-1));
    segment.used = segment.blocks.reduce((sum, block) => sum + block.bytes, 0);
    segment.rest = segment.blocks.reduce((sum, block) => sum + block.rest, 0);
    segment.free = gaps.reduce((sum, size) => sum + size, 0);
    segment.gaps = gaps;
    segment.largest = Math.max(0, ...gaps);
  }
  return segments;
}

const nameOfStream = (stream) => (stream === 0 ? 'default stream' : `stream ${stream < 1e6 ? exact(stream) : `0x${stream.toString(16)}`}`);

/** "private pool (0, 1), default stream"; the pool of segments is said where some have a private one. */
function homeOf({ pool: [a, b], stream }, pools) {
  const pool = a < 0 ? 'pool not known' : a === 0 && b === 0 ? 'PyTorch’s own pool' : `private pool (${a}, ${b})`;
  return pools ? `${pool}, ${nameOfStream(stream)}` : nameOfStream(stream);
}
const kindOf = (block) => (block.waiting ? WAITING : block.kind);
const lineOf = (block) => [block.text || block.kind, block.module].filter(Boolean).join(', ');

/** The bars of a strip: neighbours of one kind are one, and what is too small to be seen is left out. */
function barsOf(segment, parts) {
  const bars = [];
  const share = (size) => (100 * size) / segment.bytes;
  for (const block of segment.blocks) {
    const [from, to] = [block.address - segment.address, block.address - segment.address + block.bytes + block.rest];
    const before = bars.at(-1);
    const kind = kindOf(block);
    if (before && before.kind === kind && share(from - before.to) < 100 / parts) before.to = to;
    else if (!before || share(to - before.drawn) >= 100 / parts) bars.push({ kind, from, to, drawn: to });
  }
  return bars.map(({ kind, from, to }) => h('i', { class: toneOfKind(kind), style: `left:${share(from).toFixed(3)}%;width:max(1px,${share(to - from).toFixed(3)}%)` }));
}

function heldBy(segment) {
  const lines = grouped(segment.blocks, lineOf);
  const said = lines.slice(0, 2).map(({ name, bytes: size, blocks }) => `${name} (${bytes(size)}${blocks.length > 1 ? ` in ${blocks.length} blocks` : ''})`);
  return [...said, ...(lines.length > 2 ? [`${plural(lines.length - 2, 'more line')}`] : [])].join('; ');
}

function titleOf(segment, pools) {
  const held = segment.blocks.length > 0 ? `${bytes(segment.used)} in ${plural(segment.blocks.length, 'block')}, ${bytes(segment.free)} free in ${plural(segment.gaps.length, 'gap')}` : 'nothing in it';
  return `Segment of ${bytes(segment.bytes)} at 0x${segment.address.toString(16)}, ${homeOf(segment, pools)}: ${held}`;
}

function pinsTable(segments, pools, pick) {
  const pinned = segments.filter(({ free, blocks }) => free > 0 && blocks.length > 0).sort((a, b) => b.free - a.free);
  if (pinned.length === 0) return null;
  const row = (segment) => [
    figure(amount(segment.free)),
    figure(amount(segment.largest)),
    figure(h('button', { class: 'link', title: titleOf(segment, pools), onclick: () => pick(segment) }, bytes(segment.bytes))),
    figure(amount(segment.used)),
    heldBy(segment),
  ];
  const heads = [['free'], ['largest gap'], ['of a segment of'], ['in use'], 'held by'];
  const made = (rows) => table('Segments with free memory, and what holds them', 'pins', heads, rows);
  return [h('h3', {}, 'What keeps free memory in segments'), shortened(pinned, FEW_ROWS, 'segment', row, made, 'wide')];
}

/** `where`: "At the peak, event 12"; pick(title, blocks) shows stacks in `card`. */
export function segmentMap(course, moment, where, pick, card) {
  const segments = segmentsAt(course, moment);
  if (segments.length === 0) return [h('p', { class: 'empty' }, 'The allocator has no segment at this moment.')];
  const pools = course.hasPools;
  const sum = (key, some = segments) => some.reduce((all, segment) => all + segment[key], 0);
  const used = segments.filter(({ blocks }) => blocks.length > 0);
  const row = Math.max(Math.max(...segments.map((segment) => segment.bytes)), sum('bytes') / ROWS);
  const show = (segment) => pick(titleOf(segment, pools), segment.blocks);
  const strip = (segment) => {
    const share = segment.bytes / row;
    return h(
      'button',
      { class: 'strip', title: titleOf(segment, pools), style: `width:${(100 * share).toFixed(3)}%`, disabled: segment.blocks.length === 0, onclick: () => show(segment) },
      h('span', { class: 'unseen' }, titleOf(segment, pools)),
      barsOf(segment, Math.max(12, Math.ceil(FINEST * share))),
    );
  };
  const groups = grouped(segments, (segment) => homeOf(segment, pools));
  const part = ({ name, blocks: of, bytes: size }) => {
    const largestFirst = of.sort((a, b) => b.bytes - a.bytes || a.address - b.address);
    return [h('p', { class: 'pool' }, h('b', {}, `${name[0].toUpperCase()}${name.slice(1)}`), `: ${bytes(size)} in ${plural(of.length, 'segment')}, ${bytes(sum('free', of))} free`), shortened(largestFirst, FEW_STRIPS, 'segment', strip, (strips) => h('div', { class: 'strips' }, strips), 'wide')];
  };
  const kinds = inOrder(new Set(segments.flatMap(({ blocks }) => blocks.map(kindOf))));
  const gaps = used.flatMap((segment) => segment.gaps);
  return [
    h(
      'p',
      { class: 'lede' },
      `${where}: `,
      amount(sum('bytes')),
      ` reserved in ${plural(segments.length, 'segment')}: `,
      amount(sum('used')),
      ' in blocks, ',
      amount(sum('rest')),
      ' of rounding, ',
      amount(sum('free', used)),
      ` free in ${plural(gaps.length, 'gap')} of segments in use, `,
      amount(sum('bytes') - sum('bytes', used)),
      ' in free segments.',
    ),
    legend([...kinds.map((name) => ({ tone: toneOfKind(name), name })), { tone: 'of-free', name: 'free' }]),
    groups.map(part),
    h('p', { class: 'quiet' }, 'A strip is a segment, on one scale, by address from left to right; the smallest are drawn wider. ', h('span', { class: 'hint' }, 'A click shows its blocks with their stacks.')),
    card,
    pinsTable(segments, pools, show),
  ];
}
