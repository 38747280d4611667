// Peaks over a size parameter: the line of the closed forms and the points measured on it.
import { h } from './dom.js';
import { chart, legend } from './chart.js';
import { choice, section } from './controls.js';
import { cardLine, cardNote } from './card.js';
import { axisOf, exact, exactBytes, unitFor } from './format.js';
import { toneOf } from './model.js';

const FIGURES = ['allocated', 'active', 'reserved', 'resident'];

/** Of a variant one curve, as {line, dots, legend}; null where the figure has no closed form. */
function curveOf(group, variant, { parameter, figure }, unit) {
  const found = variant.growth.find((one) => one.parameter === parameter);
  const points = found?.points.filter((point) => point.predicted[figure] !== null) ?? [];
  if (points.length < 2) return null;
  const common = { panel: 0, tone: toneOf(group, variant.name) };
  const [low, high] = [points[0], points.at(-1)].map((one) => unit.format(one.predicted[figure]));
  return {
    line: {
      ...common,
      name: `${variant.name}, by formula`,
      points: points.map((point) => [point.value, point.predicted[figure]]),
    },
    dots: {
      ...common,
      name: `${variant.name}, measured`,
      bare: true,
      dots: true,
      points: points.map((point) => [point.value, point.measured[figure]]),
      texts: points.map(({ measured }) =>
        measured[figure] === null ? '–' : exactBytes(measured[figure]),
      ),
    },
    legend: { name: variant.name, ...common, note: `${low} to ${high} ${unit.name}` },
  };
}

export function growth(group) {
  const variants = group.trials.flatMap((trial) =>
    trial.variants.filter((variant) => variant.growth.length > 0),
  );
  if (variants.length === 0) return null;
  const curves = variants.flatMap((variant) => variant.growth);
  const parameters = [...new Set(curves.map(({ parameter }) => parameter))];
  const figures = FIGURES.filter((figure) =>
    curves.some(({ points }) => points.some(({ predicted }) => predicted[figure] !== null)),
  );
  // Where the two part the most.
  const spread = (figure) => {
    const ends = variants.map((one) => one.growth[0]?.points.at(-1)?.predicted[figure] ?? 0);
    return (Math.max(...ends) - Math.min(...ends)) / Math.max(1, ...ends);
  };
  const own = {
    parameter: parameters[0],
    figure: figures.reduce((best, one) => (spread(one) > spread(best) ? one : best), figures[0]),
  };
  const body = h('div', {});

  function draw() {
    const levels = curves
      .filter(({ parameter }) => parameter === own.parameter)
      .flatMap(({ points }) =>
        points.flatMap(({ predicted, measured }) => [predicted[own.figure], measured[own.figure]]),
      )
      .filter((level) => level !== null);
    const [lowest, highest] = [Math.min(...levels), Math.max(...levels)];
    const unit = unitFor(highest);
    const mark = cardLine(highest);
    const drawn = variants.map((variant) => curveOf(group, variant, own, unit)).filter(Boolean);
    const entries = drawn.map((one) => one.legend);
    body.replaceChildren(
      legend(entries),
      chart({
        label: `${own.figure} memory over ${own.parameter}: ${entries.map(({ name, note }) => `${name} ${note}`).join(', ')}`,
        series: drawn.flatMap(({ line, dots }) => [line, dots]),
        panels: [
          {
            title: `${own.figure === 'resident' ? 'resident' : `peak of ${own.figure}`}, ${unit.name}, over ${own.parameter}`,
            axis: axisOf(
              lowest > 0.6 * highest ? lowest : 0,
              Math.max(highest, mark?.value ?? 0),
              unit,
            ),
            exact: exactBytes,
            mark,
          },
        ],
        x: { name: own.parameter, whole: true, format: (value) => exact(Math.round(value)) },
        panelHeight: 220,
      }),
      h('p', { class: 'quiet' }, cardNote(highest)),
    );
  }

  const pick = (label, key, names) =>
    choice(
      label,
      names.map((name) => [name, name]),
      own[key],
      (chosen) => {
        own[key] = chosen;
        draw();
      },
    );
  draw();
  return section(
    'growth',
    'How peaks grow with the size',
    `Rank ${curves[0].rank} with one parameter from half to twice its value and everything else as it is, under lagging. Lines: the closed forms. Points: measured.${figures.includes('resident') ? ' Resident: what the program has requested, at the highest of the moments that it names.' : ''}`,
    h(
      'div',
      { class: 'controls' },
      pick('Parameter', 'parameter', parameters),
      pick('Peak of', 'figure', figures),
    ),
    body,
  );
}
