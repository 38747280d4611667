// Peaks over how far the host runs ahead of the device.
import { h } from './dom.js';
import { chart, legend } from './chart.js';
import { choice, section } from './controls.js';
import { cardLine, cardNote } from './card.js';
import { axisOf, exactBytes, unitFor } from './format.js';
import { STATISTICS, toneOf } from './model.js';

export function runAhead(group) {
  const curves = group.trials.flatMap((trial) =>
    trial.variants.filter((variant) => variant.sweep.length > 1),
  );
  if (curves.length === 0) return null;
  const own = { statistic: 'active' };
  const body = h('div', {});

  function draw() {
    const highest = Math.max(
      ...curves.flatMap(({ sweep }) => sweep.map((point) => point[own.statistic])),
    );
    const unit = unitFor(highest);
    const mark = cardLine(highest);
    const lines = curves.map(({ name, role, sweep }) => ({
      panel: 0,
      name,
      tone: toneOf(group, name),
      dots: true,
      dashed: role === 'control',
      points: sweep.map((point) => [point.ratio, point[own.statistic]]),
    }));
    const range = ({ points }) => {
      const levels = points.map(([, y]) => y);
      const [low, high] = [Math.min(...levels), Math.max(...levels)];
      return low === high
        ? `always ${unit.format(low)} ${unit.name}`
        : `${unit.format(low)} to ${unit.format(high)} ${unit.name}`;
    };
    body.replaceChildren(
      legend(lines.map((line) => ({ ...line, note: range(line) }))),
      chart({
        label: `Peak of ${own.statistic} memory over kernel time per launch: ${lines.map((line) => `${line.name} ${range(line)}`).join(', ')}`,
        series: lines,
        panels: [
          {
            title: `peak of ${own.statistic}, ${unit.name}`,
            axis: axisOf(0, Math.max(highest, mark?.value ?? 0), unit),
            exact: exactBytes,
            mark,
          },
        ],
        x: {
          name: 'kernel / launch',
          log: lines.every(({ points }) => points[0][0] > 0),
          format: (value) => `${Number(value.toPrecision(3))}×`,
        },
        panelHeight: 220,
      }),
      h('p', { class: 'quiet' }, cardNote(highest)),
    );
  }

  draw();
  return section(
    'run-ahead',
    'How far the host runs ahead',
    'Peak of the worst rank over the time of a kernel, in units of what its launch costs the host. To the right the device falls behind.',
    h(
      'div',
      { class: 'controls' },
      choice(
        'Statistic',
        STATISTICS.map((name) => [name, name]),
        own.statistic,
        (statistic) => {
          own.statistic = statistic;
          draw();
        },
      ),
    ),
    body,
  );
}
