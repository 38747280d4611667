// Losses, the run-ahead curve and step times.
import { h } from './dom.js';
import { chart, legend } from './chart.js';
import { scroller, section } from './controls.js';
import { duration, exactBytes, unitFor } from './format.js';
import { baselineOf, stepTime, variantIn } from './model.js';

const toned = (group, name) =>
  `tone-${group.variants.findIndex((variant) => variant.name === name) % 8}`;

/** Where two losses part: the first step whose bits differ, or null. */
function parting(one, other) {
  const i = one.findIndex((point, at) => point.hex !== other[at]?.hex);
  return i >= 0 ? one[i].step : one.length === other.length ? null : other[one.length].step;
}

export function losses(group, { schedule }) {
  const runs = group.variants
    .map(({ name }) => ({ name, loss: variantIn(group, schedule, name)?.loss ?? [] }))
    .filter(({ loss }) => loss.length > 0);
  const title = 'Loss';
  if (
    group.first.mode === 'shapes' ||
    !runs.some(({ loss }) => loss.some(({ value }) => value !== null))
  ) {
    return section(
      'loss',
      title,
      null,
      h(
        'p',
        { class: 'empty' },
        group.first.mode === 'shapes'
          ? 'This trial ran in shapes: memory is exact, but no number exists, so there is no loss. Run it with --mode math for one.'
          : 'No loss was recorded.',
      ),
    );
  }
  const base = runs.find(({ name }) => name === baselineOf(group).name) ?? runs[0];
  const notes = runs.map(({ name, loss }) => {
    const step = parting(base.loss, loss);
    return name === base.name
      ? 'baseline'
      : step === null
        ? 'bit for bit equal'
        : `differs from step ${step}`;
  });
  return section(
    'loss',
    title,
    `Under ${schedule}, against ${base.name}. Equal lines lie on top of each other.`,
    legend(runs.map(({ name }, i) => ({ tone: toned(group, name), name, note: notes[i] }))),
    chart({
      label: 'Loss of every variant over the steps',
      height: 240,
      series: runs.map(({ name, loss }) => ({
        name,
        tone: toned(group, name),
        dots: true,
        points: loss.filter(({ value }) => value !== null).map(({ step, value }) => [step, value]),
      })),
      x: { name: 'step', unit: 1, least: 1, format: String },
      y: { label: '', format: (value) => String(Number(value.toPrecision(4))), exact: String },
    }),
  );
}

export function runAhead(group) {
  const curves = group.trials.flatMap((trial) =>
    trial.variants
      .filter((variant) => variant.sweep.length > 1)
      .map((variant) => ({ trial, variant })),
  );
  if (curves.length === 0) return null;
  const unit = unitFor(
    Math.max(...curves.flatMap(({ variant }) => variant.sweep.map((point) => point.active))),
  );
  return section(
    'run-ahead',
    'How far the host runs ahead',
    'Peak of active memory of the worst rank over the time of a kernel, in units of what its launch costs the host. To the right the device falls behind.',
    legend(curves.map(({ variant }) => ({ tone: toned(group, variant.name), name: variant.name }))),
    chart({
      label: 'Peak of active memory over kernel time per launch',
      height: 260,
      series: curves.map(({ variant }) => ({
        name: variant.name,
        tone: toned(group, variant.name),
        dots: true,
        points: variant.sweep.map((point) => [point.ratio, point.active]),
      })),
      x: {
        name: 'kernel / launch',
        log: curves.every(({ variant }) => variant.sweep[0].ratio > 0),
        unit: 1,
        format: (value) => `${Number(value.toPrecision(3))}×`,
      },
      y: {
        zero: true,
        unit: unit.bytes,
        label: unit.name,
        format: (value) => unit.format(value).replace(/\.0+$/, ''),
        exact: exactBytes,
      },
    }),
  );
}

export function stepTimes(group, virtual) {
  const base = baselineOf(group)?.name;
  const rows = group.variants
    .map(({ name, role }) => ({
      name,
      role,
      times: group.schedules.map((schedule) => stepTime(variantIn(group, schedule, name))),
    }))
    .filter(({ times }) => times.some((time) => time !== null));
  if (rows.length === 0) return null;
  const reference = rows.find(({ name }) => name === base)?.times ?? [];
  const ratio = (time, i) =>
    time !== null && reference[i] > 0 ? `${(time / reference[i]).toFixed(3)}×` : '–';
  return section(
    'step-time',
    'Step time',
    `Median after the first step, and its ratio to ${base}.${virtual ? ' Of the virtual clock: good for comparing variants, not a forecast of hardware.' : ''}`,
    scroller(
      'Step times',
      h(
        'table',
        {},
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            h('th', { scope: 'col' }, 'variant'),
            group.schedules.map((schedule) =>
              h('th', { scope: 'col', class: 'figure', colspan: 2 }, schedule),
            ),
          ),
        ),
        h(
          'tbody',
          {},
          rows.map(({ name, role, times }) =>
            h(
              'tr',
              {},
              h('th', { scope: 'row' }, name, h('span', { class: 'role' }, role)),
              times.map((time, i) => [
                h(
                  'td',
                  { class: 'figure' },
                  time === null
                    ? '–'
                    : h('data', { value: time, title: `${time} ns` }, duration(time)),
                ),
                h('td', { class: 'figure quiet' }, ratio(time, i)),
              ]),
            ),
          ),
        ),
      ),
    ),
  );
}

export function races(group, { schedule }) {
  const found = group.variants.flatMap(({ name, role }) =>
    (variantIn(group, schedule, name)?.ranks ?? []).flatMap((record) =>
      record.races.map((race) => ({ name, role, rank: record.rank, race })),
    ),
  );
  if (found.length === 0) return null;
  const side = ({ op, stream }) => [h('code', {}, op), ` on ${stream}`];
  return section(
    'races',
    'Races',
    `Conflicting accesses that nothing orders, under ${schedule}.`,
    found
      .slice(0, 50)
      .map(({ name, role, rank, race }) =>
        h(
          'article',
          { class: 'race' },
          h('p', {}, h('b', {}, name), h('span', { class: 'role' }, `${role}, rank ${rank}`)),
          h(
            'p',
            {},
            side(race.first),
            ' against ',
            side(race.second),
            `, ${exactBytes(race.bytes)}`,
          ),
          h('p', { class: 'quiet' }, race.explanation),
        ),
      ),
    found.length > 50 &&
      h('p', { class: 'quiet' }, `and ${found.length - 50} more, in report.json`),
  );
}
