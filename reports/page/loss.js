// Loss curves over each other, and the step at which each leaves the baseline's.
import { h } from './dom.js';
import { chart, legend } from './chart.js';
import { labelled, section, several, steered } from './controls.js';
import { baselineOf, toneOf } from './model.js';
import { curves, short, stepAxis } from './curves.js';
import { gradients } from './gradients.js';
import { parity } from './parity.js';

/** Where two losses part: the first step whose bits differ, or null. */
function parting(one, other) {
  const i = one.findIndex((point, at) => point.hex !== other[at]?.hex);
  return i >= 0 ? one[i].step : one.length === other.length ? null : other[one.length].step;
}

const finite = ({ value }) => value !== null;

export function losses(group, { trial }) {
  const own = { controls: new Set() };
  const all = trial.variants.filter(({ loss }) => loss.length > 0);
  if (!all.some(({ loss }) => loss.some(finite))) {
    const why =
      group.first.mode === 'shapes'
        ? 'This trial ran in mode shapes: memory is exact, but no numbers are computed, so there is no loss. Run it with --mode math to compute one.'
        : 'No loss was recorded.';
    return section('loss', 'Loss', null, h('p', { class: 'empty' }, why));
  }
  const base = all.find(({ name }) => name === baselineOf(group).name) ?? all[0];
  const controls = all.filter(({ role }) => role === 'control');
  /** A control is wrong on purpose and would bend the scale: it is drawn where it is asked for. */
  function draw() {
    const runs = all.filter(({ name, role }) => role !== 'control' || own.controls.has(name));
    const notes = runs.map(({ name, loss }) => {
      const step = parting(base.loss, loss);
      if (name === base.name) return 'baseline';
      return step === null ? 'bit for bit equal' : `differs from step ${step}`;
    });
    const lines = runs.map(({ name, role, loss }) => ({
      panel: 0,
      name,
      tone: toneOf(group, name),
      dots: true,
      dashed: role === 'control',
      points: loss.filter(finite).map(({ step, value }) => [step, value]),
    }));
    const first = Math.min(...runs.map(({ loss }) => parting(base.loss, loss) ?? Infinity));
    const judged = runs.filter(({ noise }) => noise);
    return [
      legend(lines.map((line, i) => ({ ...line, note: notes[i] }))),
      chart({
        label: `Loss of every variant over the steps: ${runs.map(({ name }, i) => `${name} ${notes[i]}`).join(', ')}`,
        panels: [
          {
            title: 'loss',
            format: short,
            exact: String,
          },
        ],
        series: lines,
        x: stepAxis(first === Infinity ? null : first),
        panelHeight: 220,
        zoom: lines[0].points.length > 12 ? { start: 0, end: 100 } : undefined,
      }),
      judged.map(({ name, noise }) => [
        h('h3', {}, `${name} (B) beside ${base.name} (A)`),
        h('p', {}, `${noise.verdict}. This judges them as the curves of two trainings; the assertions ask for the same bits.`),
        curves(noise),
      ]),
    ];
  }
  return section(
    'loss',
    'Loss',
    `Under ${trial.schedule}, against ${base.name}. Equal lines lie on top of each other.`,
    steered(
      own,
      (_, show) =>
        controls.length > 0 ? [several('Controls', controls.map(labelled), own.controls, show)] : [],
      draw,
    ),
    parity(trial),
    gradients(trial),
  );
}
