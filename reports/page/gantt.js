// What occupies each stream over the last step, what the host waits for, and how far it runs ahead.
import { h, svg } from './dom.js';
import { pick, section } from './controls.js';
import { duration, exact, plural, rankList } from './format.js';
import { baselineOf, rankRecord, variantIn } from './model.js';

const KINDS = ['operator', 'collective', 'copy', 'wait'];
const classOf = (kind) => (kind === 'copy' ? 'copies' : kind); // .copy is a button
const LANE = 26;
const AXIS = 22;
const WIDTH = 1000; // of the picture: what shares a pixel, a lane and a kind is drawn as one

/** Neighbours that a pixel cannot tell apart, together: {kind, lane, from, to, spans}. */
function drawnOf(spans, [left, right]) {
  const scale = WIDTH / Math.max(1, right - left);
  const last = new Map();
  const out = [];
  for (const span of spans) {
    if (span.end < left || span.begin > right) continue;
    const [from, to] = [Math.max(0, (span.begin - left) * scale), Math.min(WIDTH, (span.end - left) * scale)];
    const key = span.lane * 8 + KINDS.indexOf(span.kind);
    const before = last.get(key);
    if (before && to - before.from < 1.2 && from >= before.from) {
      before.to = Math.max(before.to, to);
      before.spans.push(span);
    } else {
      const run = { kind: span.kind, lane: span.lane, from, to, spans: [span] };
      last.set(key, run);
      out.push(run);
    }
  }
  return out;
}

const about = (span) =>
  `${span.name}, ${span.kind}, ${duration(span.end - span.begin)} from ${duration(span.begin)}` +
  (span.lane === 0 ? '' : `, enqueued ${duration(span.begin - span.enqueued)} ahead`);

function titleOf({ spans, kind }) {
  if (spans.length === 1) return about(spans[0]);
  const names = [...new Set(spans.map(({ name }) => name))];
  return `${plural(spans.length, kind)}: ${names.slice(0, 4).join(', ')}${names.length > 4 ? ' …' : ''}`;
}

function ticks([left, right]) {
  const rough = Math.max(1, right - left) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].find((one) => one * power >= rough) * power);
  const out = [];
  for (let at = Math.ceil(left / step) * step; at <= right; at += step) out.push(at);
  return out;
}

/** Lanes in the order in which people look for them: the host, then streams by name. */
function laneOrder(lanes) {
  const rest = lanes.map((_, i) => i).slice(1);
  rest.sort((a, b) => lanes[a].localeCompare(lanes[b], 'en', { numeric: true }));
  return [0, ...rest];
}

function picture(record, races, label) {
  const { lanes, all } = record.spans;
  const [first, end] = [
    Math.min(...all.map((span) => Math.min(span.begin, span.enqueued))),
    Math.max(...all.map((span) => span.end)),
  ];
  const order = laneOrder(lanes);
  const row = new Map(order.map((lane, i) => [lane, i]));
  const height = order.length * LANE + AXIS;
  const view = { left: first, right: Math.max(end, first + 1) };
  const live = h('div', { class: 'unseen', 'aria-live': 'polite' });
  const hint = h('p', { class: 'quiet reading-line' }, 'Point at a span to read it.');
  const canvas = h('div', { class: 'gantt-canvas' });
  const names = h('div', { class: 'gantt-lanes', style: `height:${height}px` }, order.map((lane) => h('div', { style: `height:${LANE}px` }, lanes[lane])));
  let at = -1; // the span that the keyboard reads

  const x = (time) => ((time - view.left) / Math.max(1, view.right - view.left)) * WIDTH;
  const y = (lane) => row.get(lane) * LANE;

  function raceLine({ first: a, second: b, race }) {
    const [x1, x2] = [x((a.begin + a.end) / 2), x((b.begin + b.end) / 2)];
    const [y1, y2] = [y(a.lane) + LANE / 2, y(b.lane) + LANE / 2];
    return svg(
      'g',
      { class: 'race-line' },
      svg('line', { x1, y1, x2, y2, 'vector-effect': 'non-scaling-stroke' }),
      svg('title', {}, `Race: ${race.first.op} against ${race.second.op}. ${race.explanation}`),
    );
  }

  function draw() {
    const range = [view.left, view.right];
    const runs = drawnOf(all, range);
    const root = svg(
      'svg',
      { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true', style: `height:${height}px` },
      order.map((lane, i) => i % 2 === 0 && svg('rect', { class: 'lane-back', x: 0, y: y(lane), width: WIDTH, height: LANE })),
      ticks(range).map((tick) => svg('line', { class: 'tick', x1: x(tick), x2: x(tick), y1: 0, y2: height - AXIS, 'vector-effect': 'non-scaling-stroke' })),
      runs.map((run) =>
        svg(
          'rect',
          { class: classOf(run.kind), x: run.from.toFixed(2), width: Math.max(0.6, run.to - run.from).toFixed(2), y: y(run.lane) + (run.kind === 'wait' ? 10 : 4), height: run.kind === 'wait' ? 6 : LANE - 8 },
          svg('title', {}, titleOf(run)),
        ),
      ),
      issued(range),
      at >= 0 && svg('rect', { class: 'read', x: x(all[at].begin), width: Math.max(2, x(all[at].end) - x(all[at].begin)), y: y(all[at].lane) + 1, height: LANE - 2, 'vector-effect': 'non-scaling-stroke' }),
      races.map(raceLine),
    );
    const axis = h('div', { class: 'gantt-axis' }, ticks(range).map((tick) => x(tick) < WIDTH * 0.97 && h('span', { style: `left:${((100 * x(tick)) / WIDTH).toFixed(2)}%` }, duration(tick))));
    canvas.replaceChildren(root, axis);
    element.dataset.spans = String(runs.length);
  }

  /** When the host enqueued: marks on its lane, one a pixel. */
  function issued([left, right]) {
    const seen = new Set();
    for (const span of all) {
      if (span.lane === 0 || span.enqueued < left || span.enqueued > right) continue;
      seen.add(Math.round(x(span.enqueued)));
    }
    const d = [...seen].map((px) => `M${px} ${y(0) + 4}v${LANE - 8}`).join('');
    return d && svg('path', { class: 'issued', d, 'vector-effect': 'non-scaling-stroke' });
  }

  function zoomTo(left, right) {
    const span = Math.min(Math.max(right - left, 20), Math.max(1, end - first));
    view.left = Math.min(Math.max(first, left), Math.max(first, end - span));
    view.right = view.left + span;
    draw();
  }

  function read(i) {
    at = Math.min(Math.max(0, i), all.length - 1);
    const span = all[at];
    if (span.begin < view.left || span.end > view.right) {
      const width = view.right - view.left;
      zoomTo(span.begin - width / 4, span.begin + (3 * width) / 4);
    } else draw();
    const text = `${lanes[span.lane]}: ${about(span)}`;
    live.textContent = text;
    hint.textContent = text;
  }

  const keys = {
    ArrowRight: () => read(at + 1),
    ArrowLeft: () => read(at - 1),
    Home: () => read(0),
    End: () => read(all.length - 1),
    '+': () => zoomTo(middle() - width() / 4, middle() + width() / 4),
    '-': () => zoomTo(middle() - width(), middle() + width()),
    0: () => zoomTo(first, end),
  };
  const middle = () => (at >= 0 ? (all[at].begin + all[at].end) / 2 : (view.left + view.right) / 2);
  const width = () => view.right - view.left;
  const element = h(
    'div',
    {
      class: 'gantt',
      tabindex: 0,
      role: 'group',
      'aria-label': label,
      onkeydown: (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
        event.preventDefault();
        keys[event.key]();
      },
    },
    names,
    canvas,
    live,
  );
  canvas.addEventListener(
    'wheel',
    (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const box = canvas.getBoundingClientRect();
      const point = view.left + ((event.clientX - box.left) / box.width) * width();
      const factor = event.deltaY > 0 ? 1.25 : 0.8;
      zoomTo(point - (point - view.left) * factor, point + (view.right - point) * factor);
    },
    { passive: false },
  );
  let dragged = null;
  canvas.addEventListener('pointerdown', (event) => {
    dragged = { x: event.clientX, left: view.left, right: view.right };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!dragged) {
      const title = event.target.querySelector?.(':scope > title')?.textContent;
      if (title) hint.textContent = title;
      return;
    }
    const shift = ((dragged.x - event.clientX) / canvas.clientWidth) * (dragged.right - dragged.left);
    zoomTo(dragged.left + shift, dragged.right + shift);
  });
  for (const name of ['pointerup', 'pointercancel']) canvas.addEventListener(name, () => (dragged = null));
  draw();
  return [element, hint];
}

/** Races of the record whose two operations are in the picture. */
function drawable(record) {
  const { all } = record.spans;
  return record.races
    .filter(({ first, second }) => first.span >= 0 && second.span >= 0)
    .map((race) => ({ race, first: all[race.first.span], second: all[race.second.span] }));
}

function ahead(record) {
  const mine = record.spans.all.filter(({ lane }) => lane !== 0);
  const most = mine.reduce((best, one) => (!best || one.begin - one.enqueued > best.begin - best.enqueued ? one : best), null);
  const waits = record.spans.all.filter(({ lane, kind }) => lane === 0 && kind === 'wait');
  const waited = waits.reduce((sum, { begin, end }) => sum + end - begin, 0);
  return [
    most && `The host runs at most ${duration(Math.max(0, most.begin - most.enqueued))} ahead of the device`,
    waits.length > 0 ? `and waits for it ${plural(waits.length, 'time')}, ${duration(waited)} in all.` : 'and never waits for it.',
  ]
    .filter(Boolean)
    .join(' ');
}

/** Null where nothing was followed. */
export function gantt(group, { schedule, rank }) {
  const found = group.variants
    .map(({ name, role }) => ({ name, role, record: rankRecord(variantIn(group, schedule, name), 'active', rank) }))
    .filter(({ record }) => record?.spans.all.length > 0);
  if (found.length === 0) return null;
  const racing = found.find(({ record }) => drawable(record).length > 0);
  const base = found.find(({ name }) => name === baselineOf(group).name);
  const own = { name: (base ?? racing ?? found[0]).name };
  const body = h('div', {});

  function draw() {
    const { name, record } = found.find((one) => one.name === own.name);
    const races = drawable(record);
    const { all, in_all } = record.spans;
    const thinned = all.length < in_all ? ` Drawn from ${exact(all.length)} of ${exact(in_all)} spans: the longest, and every one in a race.` : '';
    body.replaceChildren(
      ...picture(record, races, `Streams of ${name} under ${schedule}, ${rankList([record.rank])}: ${plural(all.length, 'span')} on ${plural(record.spans.lanes.length, 'lane')}. Arrow keys read them, plus and minus zoom, 0 shows all.`),
      races.length > 0 ? h('p', { class: 'race-note' }, h('i', { class: 'swatch race-swatch' }), ` ${plural(races.length, 'race')}, each drawn between its two accesses.`) : '',
      h('p', { class: 'quiet' }, `${name} on ${rankList([record.rank])}, last step, on the device's clock. ${ahead(record)}${thinned} Drag to move, Ctrl and wheel to zoom.`),
    );
  }

  draw();
  return section(
    'streams',
    'Streams',
    'What occupies each stream; on the lane of the host, when it enqueues (marks) and when it waits.',
    h('ul', { class: 'legend' }, KINDS.map((kind) => h('li', { class: classOf(kind) }, h('i', { class: 'swatch' }), ` ${kind}`))),
    h(
      'div',
      { class: 'controls' },
      pick(
        'Streams of',
        found.map(({ name, record }) => [name, drawable(record).length > 0 ? `${name} (races)` : name]),
        own.name,
        (name) => {
          own.name = name;
          draw();
        },
      ),
    ),
    body,
  );
}
