// What a fix costs: time, collectives, recomputation; and what it saves for that.
import { h } from './dom.js';
import { frameOf, textStyle, tooltip } from './frame.js';
import { choice, scroller, section } from './controls.js';
import { axisOf, bytes, duration, exact, exactBytes, unitFor } from './format.js';
import { STATISTICS, baselineOf, peak, stepTime, toneOf, variantIn } from './model.js';

const signed = (value) => {
  const rounded = Math.round(value * 100) / 100;
  return rounded === 0 ? '0' : `${rounded > 0 ? '+' : '−'}${exact(Math.abs(rounded))}`;
};

/** The highest count of any rank, a step. */
function perStep(variant, of) {
  const steps = Math.max(1, variant.step_time_ns.length);
  return Math.max(0, ...variant.ranks.map((record) => of(record.counters) / steps));
}

function rowOf(group, schedule, { name, role }, base) {
  const variant = variantIn(group, schedule, name);
  if (!variant || variant.ranks.length === 0) return null;
  const trial = group.trials.find((one) => one.schedule === schedule);
  const operations = new Set(
    [variant, base].flatMap((one) =>
      one.ranks.flatMap((record) => Object.keys(record.counters.collectives)),
    ),
  );
  const extra = [...operations]
    .map((op) => [
      op,
      perStep(variant, (c) => c.collectives[op] ?? 0) -
        perStep(base, (c) => c.collectives[op] ?? 0),
    ])
    .filter(([, difference]) => difference !== 0);
  const own = trial.assertions.filter(
    (one) => one.variant === name && one.name.startsWith('cost/'),
  );
  const time = stepTime(variant);
  return {
    name,
    role,
    time,
    ratio: time !== null && stepTime(base) > 0 ? time / stepTime(base) : null,
    launches: perStep(variant, (c) => c.launches) - perStep(base, (c) => c.launches),
    syncs: perStep(variant, (c) => c.synchronisations) - perStep(base, (c) => c.synchronisations),
    extra,
    counted: own.map((one) => [one.name.slice('cost/'.length), one.verdicts[0]]),
    saved: Object.fromEntries(
      STATISTICS.map((statistic) => [
        statistic,
        (peak(base, statistic) ?? 0) - (peak(variant, statistic) ?? 0),
      ]),
    ),
  };
}

const HEIGHT = 300;
const GRID = { left: 62, right: 24, top: 34, bottom: 44, outerBoundsMode: 'none' };

/** Rows with their place in the picture; those that would lie on each other together, what saves most first. */
function clusters(rows, place) {
  const found = [];
  for (const row of rows.slice().sort((a, b) => place(b).y - place(a).y)) {
    const { x, y } = place(row);
    const near = found.find((one) => Math.hypot(one.x - x, one.y - y) < 16);
    if (near) near.rows.push(row);
    else found.push({ x, y, rows: [row] });
  }
  return found;
}

const title = ({ rows }) =>
  rows.length > 2
    ? `${rows[0].name} and ${rows.length - 1} more`
    : rows.map(({ name }) => name).join(', ');

/** Names above their points, below where another's would be in the way, beside where the picture ends. */
function positions(points, inner) {
  const out = [];
  points.forEach((one, i) => {
    const half = 3.6 * title(one).length;
    const crowded = points.some(
      (other, k) =>
        k < i &&
        Math.abs(one.x - other.x) < half + 3.6 * title(other).length &&
        Math.abs(one.y - other.y) < 32,
    );
    if (one.x < half - 50) out.push('right');
    else if (one.x > inner - half + 12) out.push('left');
    else out.push(crowded ? 'bottom' : 'top');
  });
  return out;
}

/** Saving over price, a point a variant. */
function picture(group, all, statistic, base) {
  const rows = all.filter((row) => row.ratio !== null && row.role !== 'control');
  const saved = rows.map((row) => row.saved[statistic]);
  const prices = rows.map((row) => row.ratio);
  const most = Math.max(1, ...saved);
  const least = Math.min(0, ...saved);
  const unit = unitFor(Math.max(most, -least));
  const axis = axisOf(least, most + 0.1 * (most - least), unit); // room for the names above
  const room = Math.max(0.01, 0.15 * (Math.max(1, ...prices) - Math.min(1, ...prices)));
  const [left, right] = [Math.min(1, ...prices) - room, Math.max(1, ...prices) + room];
  const shown = (cluster) =>
    h(
      'div',
      { class: 'reading' },
      cluster.rows.map((row) => [
        h('b', {}, row.name),
        h(
          'div',
          {},
          `saves ${exactBytes(row.saved[statistic])} of ${statistic} at ${row.ratio.toFixed(4)}× the step time`,
        ),
      ]),
    );

  function option(colour, width) {
    const inner = width - GRID.left - GRID.right;
    const points = clusters(rows, (row) => ({
      x: ((row.ratio - left) / (right - left)) * inner,
      y:
        ((row.saved[statistic] - axis.min) / (axis.max - axis.min)) *
        (HEIGHT - GRID.top - GRID.bottom),
    }));
    const places = positions(points, inner);
    return {
      grid: GRID,
      xAxis: {
        type: 'value',
        name: `step time against ${base}`,
        nameLocation: 'middle',
        nameGap: 28,
        nameTextStyle: textStyle(colour),
        min: left,
        max: right,
        splitNumber: Math.max(2, Math.round(width / 160)),
        splitLine: { show: false },
        axisTick: { show: false },
        axisLine: { lineStyle: { color: colour('line') }, onZero: false },
        axisLabel: {
          ...textStyle(colour),
          showMinLabel: false,
          showMaxLabel: false,
          formatter: (value) => `${Number(value.toPrecision(4))}×`,
        },
      },
      yAxis: {
        type: 'value',
        name: `saved of ${statistic}, ${unit.name}`,
        nameTextStyle: { ...textStyle(colour), align: 'left', padding: [0, 0, 0, -54] },
        min: axis.min,
        max: axis.max,
        interval: axis.interval,
        splitLine: { lineStyle: { color: colour('line') } },
        axisLine: { show: false },
        axisTick: { show: false },
        axisLabel: { ...textStyle(colour), formatter: axis.format },
      },
      tooltip: {
        ...tooltip(colour),
        trigger: 'item',
        formatter: ({ dataIndex }) => shown(points[dataIndex]),
      },
      series: [
        {
          type: 'scatter',
          symbolSize: 11,
          data: points.map((point, i) => ({
            value: [point.rows[0].ratio, point.rows[0].saved[statistic]],
            itemStyle: { color: colour(toneOf(group, point.rows[0].name)), opacity: 1 },
            label: { position: places[i] },
          })),
          label: {
            show: true,
            color: colour('ink'),
            fontSize: 12,
            formatter: ({ dataIndex }) => title(points[dataIndex]),
          },
          markLine: {
            silent: true,
            symbol: 'none',
            label: { show: false },
            lineStyle: { color: colour('quiet'), type: [3, 3] },
            data: [{ xAxis: 1 }, { yAxis: 0 }],
          },
        },
      ],
    };
  }

  const spoken = rows.map(
    (row) =>
      `${row.name} saves ${bytes(row.saved[statistic])} at ${row.ratio.toFixed(3)} times the step time`,
  );
  return frameOf({ label: `Saving against price: ${spoken.join('; ')}`, height: HEIGHT, option })
    .element;
}

function table(rows) {
  const figure = (...content) => h('td', { class: 'figure' }, content);
  const names = [...new Set(rows.flatMap(({ counted }) => counted.map(([name]) => name)))];
  return scroller(
    'Cost of every variant',
    h(
      'table',
      { class: 'cost' },
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('th', { scope: 'col' }, 'variant'),
          ['step time', 'ratio', 'launches', 'host syncs'].map((name) =>
            h('th', { scope: 'col', class: 'figure' }, name),
          ),
          h('th', { scope: 'col' }, 'extra collectives'),
          names.map((name) =>
            h('th', { scope: 'col', class: 'figure' }, name.replaceAll('_', ' ')),
          ),
        ),
      ),
      h(
        'tbody',
        {},
        rows.map((row) =>
          h(
            'tr',
            {},
            h('th', { scope: 'row' }, row.name, h('span', { class: 'role' }, row.role)),
            figure(
              row.time === null
                ? '–'
                : h('data', { value: row.time, title: `${row.time} ns` }, duration(row.time)),
            ),
            figure(row.ratio === null ? '–' : `${row.ratio.toFixed(3)}×`),
            figure(signed(row.launches)),
            figure(signed(row.syncs)),
            h(
              'td',
              {},
              row.extra.length === 0
                ? '0'
                : row.extra.map(([op, more]) => `${signed(more)} ${op}`).join(', '),
            ),
            names.map((name) => {
              const verdict = row.counted.find(([known]) => known === name)?.[1];
              return figure(verdict ? exact(verdict.measured) : '–');
            }),
          ),
        ),
      ),
    ),
  );
}

export function cost(group, { schedule }, virtual) {
  const name = baselineOf(group)?.name;
  const base = variantIn(group, schedule, name);
  const rows = base
    ? group.variants.map((one) => rowOf(group, schedule, one, base)).filter(Boolean)
    : [];
  if (rows.length === 0) return null;
  const most = (statistic) =>
    Math.max(...rows.map((row) => (row.role === 'fixed' ? row.saved[statistic] : 0)));
  const own = {
    statistic: STATISTICS.reduce((best, one) => (most(one) > most(best) ? one : best), 'active'),
  };
  const body = h('div', {});
  const draw = () => body.replaceChildren(picture(group, rows, own.statistic, name));
  draw();
  return section(
    'cost',
    'Saving and its price',
    `Under ${schedule}, against ${name}: the peak saved over the step time (median after the first step).${virtual ? ' Times are of the virtual clock: good for comparing variants, not a forecast of hardware.' : ''}`,
    h(
      'div',
      { class: 'controls' },
      choice(
        'Statistic',
        STATISTICS.map((one) => [one, one]),
        own.statistic,
        (statistic) => {
          own.statistic = statistic;
          draw();
        },
      ),
    ),
    body,
    h(
      'p',
      { class: 'quiet' },
      'A step, against the baseline; counts of the rank that has most. Columns to the right are counted over the whole run.',
    ),
    table(rows),
  );
}
