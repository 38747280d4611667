// What the allocator has reserved, segment by segment: where the fragmentation is, and what waits.
import { h, svg } from './dom.js';
import { choice, pick, section } from './controls.js';
import { bytes, exact, exactBytes, plural, unitFor } from './format.js';
import { baselineOf, rankRecord, variantIn } from './model.js';

const ROWS = 40;
const WIDTH = 1000; // of a picture: neighbours that share a pixel and a state are one

/** [state, from, to, bytes, blocks], in pixels, neighbours of one state together. */
function runsOf(segment, scale) {
  const runs = [];
  for (const { state, offset, bytes: size } of segment.blocks) {
    const [from, to] = [offset * scale, (offset + size) * scale];
    const last = runs.at(-1);
    if (last && last.state === state && (to - last.from < 1 || from - last.from < 1)) {
      Object.assign(last, { to, bytes: last.bytes + size, blocks: last.blocks + 1 });
    } else runs.push({ state, from, to, bytes: size, blocks: 1 });
  }
  return runs;
}

const sum = (segments, state) =>
  segments.reduce(
    (all, { blocks }) =>
      all + blocks.reduce((mine, block) => mine + (block.state === state ? block.bytes : 0), 0),
    0,
  );

/** Figures of a map: what is free between blocks in use is the fragmentation. */
export function figuresOf({ segments, left_out_bytes }) {
  const idle = segments.filter(({ blocks }) => blocks.every(({ state }) => state === 'free'));
  const reserved = segments.reduce((all, { bytes: size }) => all + size, left_out_bytes);
  const cached = idle.reduce((all, { bytes: size }) => all + size, 0);
  const holes = segments
    .filter((segment) => !idle.includes(segment))
    .flatMap(({ blocks }) => blocks.filter(({ state }) => state === 'free'));
  return {
    reserved,
    active: sum(segments, 'active'),
    pending: sum(segments, 'pending'),
    cached,
    fragments: holes.reduce((all, { bytes: size }) => all + size, 0),
    holes: holes.length,
  };
}

const WORDS = {
  active: 'held by tensors',
  pending: 'freed, awaiting a stream',
  free: 'free',
};

function rowOf(segment, largest) {
  const scale = (WIDTH - 1) / largest;
  const total = (state) => sum([segment], state);
  const words = ['active', 'pending', 'free']
    .filter((state) => total(state) > 0)
    .map((state) => `${bytes(total(state))} ${WORDS[state]}`)
    .join(', ');
  const name = `${bytes(segment.bytes)}, ${segment.pool} pool, ${segment.stream}`;
  return h(
    'li',
    {},
    h('span', { class: 'segment-name' }, name),
    svg(
      'svg',
      {
        viewBox: `0 0 ${WIDTH} 16`,
        preserveAspectRatio: 'none',
        role: 'img',
        'aria-label': `Segment of ${name}: ${words}`,
      },
      runsOf(segment, scale).map(({ state, from, to, bytes: size, blocks }) =>
        svg(
          'rect',
          { class: state, x: from.toFixed(2), y: 0, width: Math.max(0.8, to - from).toFixed(2), height: 16 },
          svg('title', {}, `${plural(blocks, 'block')}, ${WORDS[state]}: ${exactBytes(size)}`),
        ),
      ),
    ),
  );
}

function drawing(map) {
  const { reserved, active, pending, cached, fragments, holes } = figuresOf(map);
  const unit = unitFor(reserved);
  const figure = (text, value, tone) =>
    h('li', { class: tone }, tone && h('i', { class: `swatch ${tone}` }), ` ${text} `, h('data', { value, title: exactBytes(value) }, `${unit.format(value)} ${unit.name}`));
  const bySize = map.segments.slice().sort((a, b) => b.bytes - a.bytes || a.address - b.address);
  const shown = new Set(bySize.slice(0, ROWS));
  const hidden = map.segments.length - shown.size + map.left_out;
  const largest = bySize[0]?.bytes ?? 1;
  return [
    h(
      'ul',
      { class: 'legend states' },
      figure('reserved', reserved),
      figure('held by tensors', active, 'active'),
      figure('freed, awaiting a stream', pending, 'pending'),
      figure(`free between blocks in use (${plural(holes, 'hole')})`, fragments, 'free'),
      figure('free in empty segments', cached),
    ),
    h('ol', { class: 'segments' }, map.segments.filter((one) => shown.has(one)).map((one) => rowOf(one, largest))),
    hidden > 0 && h('p', { class: 'quiet' }, `${exact(hidden)} smaller segments are not drawn; all are in report.json.`),
  ];
}

/** Null where no map was recorded. */
export function segments(group, { schedule, rank }) {
  const found = group.variants
    .map(({ name }) => ({ name, record: rankRecord(variantIn(group, schedule, name), 'active', rank) }))
    .filter(({ record }) => record?.maps.length > 0);
  if (found.length === 0) return null;
  const base = baselineOf(group).name;
  const own = { name: (found.find(({ name }) => name === base) ?? found[0]).name, at: 1 };
  const body = h('div', {});
  const moments = found[0].record.maps.map(({ moment }, i) => [i, moment]);

  function draw() {
    const { record } = found.find(({ name }) => name === own.name);
    const map = record.maps[Math.min(own.at, record.maps.length - 1)];
    body.replaceChildren(
      ...drawing(map).filter(Boolean),
      h('p', { class: 'quiet' }, `${own.name} on rank ${record.rank}, last step. Every segment on one scale, in the order of addresses.`),
    );
  }

  draw();
  return section(
    'segments',
    'What the allocator has reserved',
    'Each bar is a segment taken from the device, cut into blocks. A block freed while a stream may still use it can be given to nobody.',
    h(
      'div',
      { class: 'controls' },
      choice('Moment', moments, Math.min(own.at, moments.length - 1), (at) => {
        own.at = at;
        draw();
      }),
      pick('Variant shown', found.map(({ name }) => [name, name]), own.name, (name) => {
        own.name = name;
        draw();
      }),
    ),
    body,
  );
}
