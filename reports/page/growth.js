// Peaks over a size parameter, or over how far the host runs ahead: the line of the closed forms, and points measured.
import { h } from './dom.js';
import { chart, legend } from './chart.js';
import { choice, section, steered } from './controls.js';
import { cardLine, cardNote } from './card.js';
import { axisOf, bytes, exact, exactBytes, unitFor } from './format.js';
import { toneOf } from './model.js';

const FIGURES = ['allocated', 'active', 'reserved', 'resident'];

const RUN_AHEAD = 'kernel time / launch time';

/** All curves of a variant; those over the run-ahead have no form. */
function curvesOf({ growth, sweep }) {
  if (sweep.length < 2) return growth;
  const points = sweep.map((point) => ({ value: point.ratio, predicted: {}, measured: point }));
  return [...growth, { parameter: RUN_AHEAD, rank: null, points }];
}

/** Of a variant one curve, as {lines, note}; null where the figure was neither predicted nor measured. */
function curveOf(group, variant, { parameter, figure }) {
  const found = curvesOf(variant).find((one) => one.parameter === parameter);
  const formed = parameter !== RUN_AHEAD;
  const level = ({ predicted, measured }) => (formed ? predicted : measured)[figure] ?? null;
  const points = found?.points.filter((point) => level(point) !== null) ?? [];
  if (points.length < 2) return null;
  const common = { panel: 0, tone: toneOf(group, variant.name) };
  const line = { ...common, name: formed ? `${variant.name}, by formula` : variant.name, dots: !formed, points: points.map((point) => [point.value, level(point)]) };
  const dots = {
    ...common,
    name: `${variant.name}, measured`,
    bare: true,
    dots: true,
    points: points.map((point) => [point.value, point.measured[figure]]),
    texts: points.map(({ measured }) => (measured[figure] === null ? '–' : exactBytes(measured[figure]))),
  };
  const [low, high] = [points[0], points.at(-1)].map((point) => bytes(level(point)));
  return { lines: formed ? [line, dots] : [line], legend: { name: variant.name, ...common, note: low === high ? `always ${low}` : `${low} to ${high}` } };
}

export function growth(group) {
  const variants = group.trials.flatMap((trial) => trial.variants.filter((variant) => curvesOf(variant).length > 0));
  if (variants.length === 0) return null;
  const curves = variants.flatMap(curvesOf);
  const parameters = [...new Set(curves.map(({ parameter }) => parameter))].sort((a, b) => (a === RUN_AHEAD) - (b === RUN_AHEAD));
  const levelsOf = (figure, parameter) =>
    curves
      .filter((one) => one.parameter === parameter)
      .flatMap(({ points }) => points.flatMap(({ predicted, measured }) => [predicted[figure], measured[figure]]))
      .filter((level) => level !== null && level !== undefined);
  const figures = FIGURES.filter((figure) => parameters.some((parameter) => levelsOf(figure, parameter).length > 0));
  // Where the curves reach the farthest.
  const spread = (figure) => {
    const levels = levelsOf(figure, parameters[0]);
    return levels.length === 0 ? 0 : 1 - Math.min(...levels) / Math.max(1, ...levels);
  };
  const own = { parameter: parameters[0], figure: figures.reduce((best, one) => (spread(one) > spread(best) ? one : best), figures[0]) };

  function draw() {
    const drawn = variants.map((variant) => curveOf(group, variant, own)).filter(Boolean);
    if (drawn.length === 0)
      return h('p', { class: 'empty' }, `No figure of ${own.figure} is known over ${own.parameter}.`);
    const levels = levelsOf(own.figure, own.parameter);
    const [lowest, highest] = [Math.min(...levels), Math.max(...levels)];
    const unit = unitFor(highest);
    const mark = cardLine(highest);
    const entries = drawn.map((one) => one.legend);
    return [
      legend(entries),
      chart({
        label: `${own.figure} memory over ${own.parameter}: ${entries.map(({ name, note }) => `${name} ${note}`).join(', ')}`,
        series: drawn.flatMap(({ lines }) => lines),
        panels: [
          {
            title: `${own.figure === 'resident' ? 'resident' : `peak of ${own.figure}`}, ${unit.name}, over ${own.parameter}`,
            axis: axisOf(lowest > 0.6 * highest ? lowest : 0, Math.max(highest, mark?.value ?? 0), unit),
            exact: exactBytes,
            mark,
          },
        ],
        x:
          own.parameter === RUN_AHEAD
            ? { name: own.parameter, log: true, format: (value) => `${Number(value.toPrecision(3))}×` }
            : { name: own.parameter, whole: true, format: (value) => exact(Math.round(value)) },
        panelHeight: 220,
      }),
      h('p', { class: 'quiet' }, cardNote(highest)),
    ];
  }

  const sized = curves.find(({ parameter }) => parameter !== RUN_AHEAD);
  return section(
    'growth',
    'How peaks grow',
    [
      sized &&
        `Peaks of rank ${sized.rank} under lagging while one parameter goes from half to twice its value and all others stay. Lines are the closed forms, points are measured.`,
      parameters.includes(RUN_AHEAD) &&
        `Over ${RUN_AHEAD}: peaks of the worst rank while the time of a kernel grows against the time of its launch on the host. To the right the device falls behind the host.`,
      figures.includes('resident') && 'Resident is the memory that the program has requested, at the highest of the moments that the scenario names.',
    ]
      .filter(Boolean)
      .join(' '),
    steered(
      own,
      (set) => [
        choice('Over', parameters.map((name) => [name, name]), own.parameter, set('parameter')),
        choice('Peak of', figures.map((name) => [name, name]), own.figure, set('figure')),
      ],
      draw,
    ),
  );
}
