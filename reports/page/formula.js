// Every peak of a scenario against its closed form: what holds lies on the line, whatever the size.
import { h } from './dom.js';
import { frameOf, legend, textStyle, tooltip } from './frame.js';
import { section } from './controls.js';
import { bytes, exact, exactBytes, plural } from './format.js';
import { predicted } from './model.js';

/** A fortieth of an octave: a pixel or two. */
const near = (value) => Math.round(40 * Math.log2(value));
const MOST = 2000; // points

/** Verdicts memory/... with a figure predicted; those that an eye could not tell apart together. */
function pointsOf(groups) {
  const found = new Map();
  for (const trial of groups.flatMap(({ trials }) => trials)) {
    for (const assertion of trial.assertions) {
      if (!assertion.name.startsWith('memory/')) continue;
      for (const verdict of assertion.verdicts) {
        const x = predicted(verdict);
        if (!(x > 0) || !(verdict.measured > 0) || verdict.unit !== 'bytes') continue;
        const key = `${near(x)} ${near(verdict.measured)} ${verdict.status}`;
        if (!found.has(key)) {
          const failed = verdict.status === 'fail';
          found.set(key, { x, y: verdict.measured, failed, trial, verdict, count: 0 });
        }
        found.get(key).count += 1;
      }
    }
  }
  return [...found.values()];
}

const seriesOf = (points, tone, colour) => ({
  type: 'scatter',
  data: points.map(({ x, y }) => [x, y]),
  symbolSize: tone === 'fail' ? 10 : 6,
  itemStyle: { color: colour(tone), opacity: tone === 'fail' ? 1 : 0.55 },
  emphasis: { disabled: true },
});

export function formulas(groups) {
  const points = pointsOf(groups);
  if (points.length < 2) return null;
  const held = points.filter(({ failed }) => !failed).slice(0, MOST);
  const failed = points.filter((point) => point.failed).slice(0, MOST);
  const verdictsOf = (some) => some.reduce((sum, one) => sum + one.count, 0);
  const [good, bad] = [false, true].map((kind) =>
    verdictsOf(points.filter((one) => one.failed === kind)),
  );
  const all = points.flatMap(({ x, y }) => [x, y]);
  const low = 2 ** Math.floor(Math.log2(all.reduce((best, one) => Math.min(best, one), Infinity)));
  const high = 2 ** Math.ceil(Math.log2(all.reduce((best, one) => Math.max(best, one), 0) + 1));
  const shown = ({ x, y, trial, verdict, count: times }) =>
    h(
      'div',
      { class: 'reading' },
      h('b', {}, `${verdict.variant}, ${verdict.name}`),
      h(
        'div',
        { class: 'quiet' },
        `${trial.size}, ${trial.schedule}, rank ${verdict.rank}${times > 1 ? ` and ${exact(times - 1)} more` : ''}`,
      ),
      h('div', {}, `predicted ${exactBytes(x)}`),
      h('div', {}, `measured ${exactBytes(y)}`),
      h('code', {}, verdict.expected.formula),
    );
  const axis = (name, colour) => ({
    type: 'log',
    logBase: 2,
    min: low,
    max: high,
    name,
    nameTextStyle: textStyle(colour),
    splitLine: { lineStyle: { color: colour('line') } },
    axisTick: { show: false },
    axisLine: { lineStyle: { color: colour('line') } },
    axisLabel: {
      ...textStyle(colour),
      hideOverlap: true,
      formatter: (value) => bytes(value).replace(/\.0+ /, ' '),
    },
  });
  const { element } = frameOf({
    label: `Measured peaks over predicted ones: ${plural(good, 'verdict')} as predicted, ${exact(bad)} not`,
    height: 340,
    option: (colour) => ({
      grid: { left: 82, right: 24, top: 34, bottom: 44, outerBoundsMode: 'none' },
      xAxis: { ...axis('predicted', colour), nameLocation: 'middle', nameGap: 28 },
      yAxis: {
        ...axis('measured', colour),
        nameTextStyle: { ...textStyle(colour), align: 'left', padding: [0, 0, 0, -74] },
      },
      tooltip: {
        ...tooltip(colour),
        trigger: 'item',
        formatter: ({ seriesIndex, dataIndex }) => shown([held, failed][seriesIndex][dataIndex]),
      },
      series: [
        {
          ...seriesOf(held, 'second', colour),
          markLine: {
            silent: true,
            symbol: 'none',
            label: { show: false },
            lineStyle: { color: colour('quiet'), type: 'solid', width: 1 },
            data: [[{ coord: [low, low] }, { coord: [high, high] }]],
          },
        },
        seriesOf(failed, 'fail', colour),
      ],
    }),
  });
  return section(
    'formula',
    'Every peak on its formula',
    `Measured over predicted, of all sizes, schedules, variants, phases and ranks of this scenario: ${plural(good + bad, 'verdict')}. The line is equality.`,
    legend([
      { tone: 'second', name: 'as predicted', note: exact(good) },
      ...(bad > 0 ? [{ tone: 'off-line', name: 'not as predicted', note: exact(bad) }] : []),
    ]),
    element,
  );
}
