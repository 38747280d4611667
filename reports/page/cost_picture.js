// Saving over price in one picture, a point a variant.
import { h } from './dom.js';
import { frameOf, textStyle, tooltip } from './frame.js';
import { axisOf, bytes, exactBytes, unitFor } from './format.js';
import { toneOf } from './model.js';

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

/** `all`: rows of cost.js. */
export function picture(group, all, statistic, base) {
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
