// The memory of two runs over time on one scale: hatched where the new one has more, hatched the other way where it has less.
import { lastAtMost } from './course.js';
import { freshId, h } from './dom.js';
import { axisOf, bytes, exact, exactBytes, unitFor } from './format.js';
import { legend, widthOf } from './frame.js';

const BOX = { left: 58, right: 12, top: 26, bottom: 12, height: 270 };

/** An element of a picture: its texts are text, as those of h. */
function svg(tag, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children.flat(Infinity).filter((child) => child !== null));
  return element;
}

/** Both runs at every place at which one of them changes: [{x, old, fresh, events}]. */
function joinedRuns([old, fresh]) {
  const sides = [old, fresh].map(({ points }) => ({ xs: points.map(([x]) => x), points }));
  const places = [...new Set(sides.flatMap(({ xs }) => xs))].sort((a, b) => a - b);
  return places.map((x) => {
    const [a, b] = sides.map(({ xs, points }) => {
      const i = lastAtMost(xs, x);
      return x > xs.at(-1) ? [x, 0, points.at(-1)[2]] : points[i]; // a run that has ended has nothing
    });
    return { x, old: a[1], fresh: b[1], events: [a[2], b[2]] };
  });
}

function hatch(id, kind) {
  return svg('pattern', { id, class: kind, width: 7, height: 7, patternUnits: 'userSpaceOnUse', patternTransform: `rotate(${kind === 'more' ? 45 : -45})` }, svg('path', { d: 'M0 0V7' }));
}

/** {runs: [{name, where, points: [[x, bytes, event]]}] the old one first, phases: [[name, step, from, to]]} */
export function overlay({ runs, phases }) {
  const rows = joinedRuns(runs);
  const xs = rows.map(({ x }) => x);
  const peaks = runs.map(({ points }) => points.reduce((most, [, level]) => Math.max(most, level), 0));
  const highest = Math.max(1, ...peaks);
  const unit = unitFor(highest);
  const axis = axisOf(0, highest, unit);
  const end = Math.max(1, xs.at(-1));
  const label = `Memory over time of both runs. The old one is ${bytes(peaks[0])} at its highest, the new one ${bytes(peaks[1])}. Arrow keys read it.`;
  const said = h('p', { class: 'said quiet', 'aria-live': 'polite' });
  const element = h('div', { class: 'overlay chart', tabindex: 0, role: 'group', 'aria-label': label, 'data-series': 2 });
  let width = 0;
  let at = null; // in `rows`
  const scale = () => (width - BOX.left - BOX.right) / end;
  const across = (x) => BOX.left + x * scale();
  const up = (level) => BOX.height - BOX.bottom - ((BOX.height - BOX.top - BOX.bottom) * level) / axis.max;

  /** The outline of what lies between two levels of each row, where there is something. */
  function between(low, high) {
    let path = '';
    rows.forEach((row, i) => {
      const [a, b] = [low(row), high(row)];
      if (b > a && i + 1 < rows.length) path += `M${across(row.x).toFixed(1)} ${up(a).toFixed(1)}V${up(b).toFixed(1)}H${across(rows[i + 1].x).toFixed(1)}V${up(a).toFixed(1)}Z`;
    });
    return path;
  }
  const line = (level) => rows.map((row, i) => `${i === 0 ? 'M' : 'H'}${across(row.x).toFixed(1)}${i === 0 ? ' ' : 'V'}${up(level(row)).toFixed(1)}`).join('');

  function read(i) {
    at = Math.min(rows.length - 1, Math.max(0, i));
    const { x, old, fresh, events } = rows[at];
    const phase = phases.find(([, , from, to]) => from < x && x <= to);
    const by = fresh - old;
    said.textContent = `Event ${exact(events[0])} of the old run and ${exact(events[1])} of the new one${phase ? `, in ${phase[0]}${phase[1] > 0 ? ` of step ${phase[1]}` : ''}` : ''}: ${bytes(old)} and ${bytes(fresh)}${by === 0 ? ', equal' : `, ${bytes(Math.abs(by))} ${by > 0 ? 'more' : 'less'}`}.`;
    said.title = `${exactBytes(old)}, ${exactBytes(fresh)}`;
    cursor.setAttribute('d', `M${across(x)} ${BOX.top}V${BOX.height - BOX.bottom}`);
  }

  let cursor = svg('path', { class: 'at' });
  function draw() {
    width = widthOf(element);
    if (width === 0) return;
    const [more, less] = ['more', 'less'].map(freshId);
    const ticks = [];
    for (let level = 0; level <= axis.max * 1.001; level += axis.interval) ticks.push(level);
    let last = -Infinity;
    const steps = phases.filter(([, step], i) => step > 0 && (i === 0 || phases[i - 1][1] !== step));
    const named = steps.filter(([, , from]) => across(from) - last > 60 && (last = across(from)));
    cursor = svg('path', { class: 'at' });
    element.replaceChildren(
      svg(
        'svg',
        { width, height: BOX.height, 'aria-hidden': 'true' },
        svg('defs', {}, hatch(more, 'more'), hatch(less, 'less')),
        phases.filter((_, i) => i % 2 === 0).map(([, , from, to]) => svg('rect', { class: 'shade', x: across(from), y: BOX.top, width: Math.max(0, across(to) - across(from)), height: BOX.height - BOX.top - BOX.bottom })),
        ticks.map((level) => [svg('path', { class: 'grid', d: `M${BOX.left} ${up(level)}H${width - BOX.right}` }), svg('text', { x: BOX.left - 8, y: up(level) + 4, 'text-anchor': 'end' }, axis.format(level))]),
        svg('text', { x: 0, y: 11 }, unit.name),
        phases.filter(([name, , from, to]) => across(to) - across(from) > 7 * name.length + 6).map(([name, , from, to]) => svg('text', { x: (across(from) + across(to)) / 2, y: BOX.top + 12, 'text-anchor': 'middle' }, name)),
        svg('path', { class: 'old', d: between(() => 0, ({ old }) => old) }),
        svg('path', { class: 'area-more', fill: `url(#${more})`, d: between(({ old }) => old, ({ fresh }) => fresh) }),
        svg('path', { class: 'area-less', fill: `url(#${less})`, d: between(({ fresh }) => fresh, ({ old }) => old) }),
        svg('path', { class: 'old-line', d: line(({ old }) => old) }),
        svg('path', { class: 'new-line', d: line(({ fresh }) => fresh) }),
        named.map(([, step, from]) => [svg('path', { class: 'step', d: `M${across(from)} ${BOX.top - 8}V${BOX.height - BOX.bottom}` }), svg('text', { x: across(from) + 3, y: 14 }, `step ${step}`)]),
        cursor,
      ),
    );
    if (at !== null) read(at);
  }

  element.rows = rows; // as they are drawn, for tests
  new ResizeObserver(() => element.clientWidth !== width && requestAnimationFrame(draw)).observe(element);
  addEventListener('beforeprint', draw);
  addEventListener('afterprint', draw);
  const pointed = ({ clientX }) => read(lastAtMost(xs, (clientX - element.getBoundingClientRect().left - BOX.left) / scale()));
  element.addEventListener('pointermove', pointed);
  element.addEventListener('click', pointed);
  element.addEventListener('keydown', (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    read((at ?? 0) + by * (event.shiftKey ? 20 : 1));
  });
  return [
    legend([
      { tone: 'old-run', name: `old run, ${runs[0].where}`, dashed: true },
      { tone: 'new-run', name: `new run, ${runs[1].where}` },
      { tone: 'more', name: 'more than before' },
      { tone: 'less', name: 'less than before' },
    ]),
    element,
    said,
    h('p', { class: 'quiet' }, phases.length > 0 ? 'Active memory, as requested. Phases of one name and step lie over each other; within one, events are evenly spaced.' : 'Active memory, as requested, event by event.'),
  ];
}
