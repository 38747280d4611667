// One kind of chart: lines over a number, with bands behind them and a cursor that reads all lines at once.
import { h, svg } from './dom.js';

const TOP = 24,
  BOTTOM = 26; // above the plot: the unit and the names of the bands

/** Round steps of 1, 2 or 5 times a power of ten, in multiples of `unit`. */
export function ticks(low, high, count, unit = 1, least = 0) {
  const rough = Math.max(least, (high - low) / unit / count) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power * unit;
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12); i += 1)
    out.push(i * step);
  return out;
}

/** The index of the last point at or before `x`. */
function before(points, x) {
  let low = 0,
    high = points.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (points[middle][0] <= x) low = middle;
    else high = middle - 1;
  }
  return low;
}

function extent(series) {
  let [left, right, top] = [Infinity, -Infinity, -Infinity],
    bottom = Infinity;
  for (const { points } of series) {
    for (const [x, y] of points) {
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.max(top, y);
      bottom = Math.min(bottom, y);
    }
  }
  return { left, right, top, bottom };
}

function path(line, x, y) {
  return line.points
    .map(([px, py], i) => {
      if (i === 0) return `M${x(px).toFixed(1)},${y(py).toFixed(1)}`;
      return line.steps
        ? `H${x(px).toFixed(1)}V${y(py).toFixed(1)}`
        : `L${x(px).toFixed(1)},${y(py).toFixed(1)}`;
    })
    .join('');
}

/**
 * series: [{name, tone, points: [[x, y]...] ascending in x, steps, dots, peak}], bands: [{name, from, to}],
 * x, y: {format, unit, label, log, zero, least: the smallest step between ticks}. `tone` is a CSS class that sets --tone.
 */
export function chart({ label, series, bands = [], x: xAxis, y: yAxis, height = 300 }) {
  const drawn = series.filter((line) => line.points.length > 0);
  const frame = h('div', {
    class: 'chart',
    tabindex: 0,
    role: 'group',
    'aria-label': `${label}. Arrow keys read its values.`,
  });
  const reading = h('div', { class: 'reading', 'aria-live': 'polite', hidden: true });
  const box = extent(drawn);
  if (yAxis.zero) box.bottom = Math.min(0, box.bottom);
  if (box.top === box.bottom) box.top = box.bottom + (yAxis.unit ?? 1);
  if (box.left === box.right) box.right = box.left + 1;
  const scale = xAxis.log ? Math.log2 : (value) => value;
  let width = 0,
    place,
    hairline,
    at = null;

  function draw() {
    const LEFT = 62,
      RIGHT = 10;
    const inner = Math.max(80, width - LEFT - RIGHT),
      tall = height - TOP - BOTTOM;
    const head = box.top + (box.top - box.bottom) * 0.04;
    const x = (value) =>
      LEFT + ((scale(value) - scale(box.left)) / (scale(box.right) - scale(box.left))) * inner;
    const y = (value) => TOP + ((head - value) / (head - box.bottom)) * tall;
    place = {
      x,
      y,
      LEFT,
      inner,
      invert: (px) => {
        const part = scale(box.left) + ((px - LEFT) / inner) * (scale(box.right) - scale(box.left));
        return xAxis.log ? 2 ** part : part;
      },
    };
    const xs = xAxis.log
      ? [...new Set(drawn.flatMap((line) => line.points.map(([px]) => px)))]
      : ticks(box.left, box.right, Math.max(2, inner / 110), xAxis.unit, xAxis.least);
    const crowded = Math.ceil((44 * xs.length) / inner); // every so many labels
    const ys = ticks(box.bottom, box.top, 5, yAxis.unit);
    hairline = svg('line', { class: 'hairline', y1: TOP, y2: TOP + tall, visibility: 'hidden' });
    const picture = svg(
      'svg',
      { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label },
      bands.map(({ name, from, to }, i) => [
        svg(
          'rect',
          {
            class: i % 2 ? 'band odd' : 'band',
            x: x(from),
            width: Math.max(0, x(to) - x(from)),
            y: TOP,
            height: tall,
          },
          svg('title', {}, name),
        ),
        x(to) - x(from) > 7 * name.length + 8 &&
          svg('text', { class: 'band-name', x: x(from) + 2, y: TOP - 8 }, name),
      ]),
      ys.map((value) => [
        svg('line', { class: 'grid', x1: LEFT, x2: LEFT + inner, y1: y(value), y2: y(value) }),
        svg(
          'text',
          { class: 'tick', x: LEFT - 8, y: y(value) + 4, 'text-anchor': 'end' },
          yAxis.format(value),
        ),
      ]),
      xs.map(
        (value, i) =>
          i % crowded === 0 &&
          svg(
            'text',
            {
              class: 'tick',
              x: x(value),
              y: height - 8,
              'text-anchor':
                i === 0 && x(value) < LEFT + 12
                  ? 'start'
                  : x(value) > LEFT + inner - 12
                    ? 'end'
                    : 'middle',
            },
            xAxis.format(value),
          ),
      ),
      yAxis.label &&
        svg('text', { class: 'tick', x: LEFT - 8, y: TOP - 8, 'text-anchor': 'end' }, yAxis.label),
      drawn.map((line) =>
        svg(
          'g',
          { class: `line ${line.tone}${line.dashed ? ' dashed' : ''}` },
          line.fill &&
            svg('path', {
              class: 'area',
              d: `${path(line, x, y)}V${y(box.bottom)}H${x(line.points[0][0]).toFixed(1)}Z`,
            }),
          svg('path', { class: 'stroke', d: path(line, x, y) }),
          line.dots &&
            line.points.map(([px, py]) => svg('circle', { cx: x(px), cy: y(py), r: 2.5 })),
          line.peak &&
            svg(
              'circle',
              { class: 'peak', cx: x(line.peak[0]), cy: y(line.peak[1]), r: 4 },
              svg('title', {}, `peak ${yAxis.exact(line.peak[1])}`),
            ),
        ),
      ),
      hairline,
    );
    frame.replaceChildren(picture, reading);
    if (at !== null) read(at);
  }

  function read(value) {
    at = Math.min(box.right, Math.max(box.left, value));
    const px = place.x(at);
    hairline.setAttribute('x1', px);
    hairline.setAttribute('x2', px);
    hairline.setAttribute('visibility', 'visible');
    const band = bands.find(({ from, to }) => at >= from && at < to);
    reading.replaceChildren(
      h(
        'div',
        { class: 'quiet' },
        `${xAxis.name ?? ''} ${xAxis.format(at, true)}${band ? ` · ${band.name}` : ''}`.trim(),
      ),
      ...drawn.map((line) => {
        const i = before(line.points, at);
        const inside = at >= line.points[0][0] && at <= line.points.at(-1)[0];
        return h(
          'div',
          { class: line.tone },
          h('i', { class: 'swatch' }),
          ` ${line.name} `,
          h('b', {}, inside ? yAxis.exact(line.points[i][1]) : '–'),
        );
      }),
    );
    reading.hidden = false;
    const wide = reading.offsetWidth;
    reading.style.left = `${Math.max(0, px + 12 + wide > width ? px - wide - 12 : px + 12)}px`;
  }

  function leave() {
    at = null;
    reading.hidden = true;
    hairline?.setAttribute('visibility', 'hidden');
  }

  function nearest(value) {
    const all = drawn.map((line) => line.points[before(line.points, value)][0]);
    return drawn.some((line) => line.dots) ? all[0] : value;
  }

  frame.addEventListener('pointermove', (event) =>
    read(nearest(place.invert(event.clientX - frame.getBoundingClientRect().left))),
  );
  frame.addEventListener('pointerleave', leave);
  frame.addEventListener('blur', leave);
  frame.addEventListener('keydown', (event) => {
    const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === 'Escape') leave();
    if (!direction) return;
    event.preventDefault();
    const first = drawn[0].points;
    if (drawn.some((line) => line.dots)) {
      const i = at === null ? (direction > 0 ? -1 : first.length) : before(first, at);
      read(first[Math.min(first.length - 1, Math.max(0, i + direction))][0]);
    } else {
      const stride = (box.right - box.left) / (event.shiftKey ? 20 : 200);
      read(at === null ? box.left : at + direction * stride);
    }
  });
  new ResizeObserver(() =>
    requestAnimationFrame(() => {
      if (frame.clientWidth === width || frame.clientWidth === 0) return;
      width = frame.clientWidth;
      draw();
    }),
  ).observe(frame);
  return frame;
}

export function legend(entries) {
  return h(
    'ul',
    { class: 'legend' },
    entries.map(({ tone, name, note, dashed }) =>
      h(
        'li',
        { class: tone },
        h('i', { class: dashed ? 'swatch dashed' : 'swatch' }),
        ` ${name}`,
        note && h('span', { class: 'quiet' }, ` ${note}`),
      ),
    ),
  );
}
