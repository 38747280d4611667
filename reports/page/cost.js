// The price of each variant: time, collectives, recomputation.
import { h } from './dom.js';
import { figure, named, section, table } from './controls.js';
import { duration, exact, signed } from './format.js';
import { baselineOf, variantIn } from './model.js';

const more = (value) => {
  const rounded = Math.round(value * 100) / 100;
  return rounded === 0 ? '0' : signed(rounded);
};

/** Of the last step, on the rank that calls it most: the first step makes what later ones use again. */
function calls(variant, op) {
  return Math.max(0, ...variant.ranks.map((record) => record.steps?.at(-1)?.collectives?.[op] ?? 0));
}

/** The highest count of any rank, a step. */
function perStep(variant, steps, of) {
  return Math.max(0, ...variant.ranks.map((record) => of(record.counters) / steps));
}

function rowOf(trial, variant, base) {
  const each = (one, of) => perStep(one, Math.max(1, trial.steps), of);
  const operations = new Set(
    [variant, base].flatMap((one) =>
      one.ranks.flatMap((record) => Object.keys(record.counters.collectives)),
    ),
  );
  const extra = [...operations]
    .map((op) => [
      op,
      calls(variant, op) - calls(base, op),
    ])
    .filter(([, difference]) => difference !== 0);
  const own = trial.assertions.filter(
    (one) => one.variant === variant.name && one.name.startsWith('cost/'),
  );
  const time = variant.step_ns ?? null;
  return {
    name: variant.name,
    role: variant.role,
    time,
    ratio: time !== null && base.step_ns > 0 ? time / base.step_ns : null,
    launches: each(variant, (c) => c.launches) - each(base, (c) => c.launches),
    syncs: each(variant, (c) => c.synchronisations) - each(base, (c) => c.synchronisations),
    extra,
    counted: own.map((one) => [one.name.slice('cost/'.length), one.verdicts[0]]),
  };
}

function costs(rows) {
  const names = [...new Set(rows.flatMap(({ counted }) => counted.map(([name]) => name)))];
  return table(
    'Cost of every variant',
    'cost',
    ['variant', ['step time'], ['ratio'], ['launches'], ['host syncs'], 'extra collectives', ...names.map((name) => [name.replaceAll('_', ' ')])],
    rows.map((row) => [
      named(row.name, row.role),
      figure(row.time === null ? '–' : h('data', { value: row.time, title: `${row.time} ns` }, duration(row.time))),
      figure(row.ratio === null ? '–' : `${row.ratio.toFixed(3)}×`),
      figure(more(row.launches)),
      figure(more(row.syncs)),
      row.extra.length === 0 ? '0' : row.extra.map(([op, calls]) => `${more(calls)} ${op}`).join(', '),
      ...names.map((name) => {
        const verdict = row.counted.find(([known]) => known === name)?.[1];
        return figure(verdict ? exact(verdict.measured) : '–');
      }),
    ]),
  );
}

export function cost(group, { trial }, virtual) {
  const base = variantIn(trial, baselineOf(group).name);
  const ran = trial.variants.filter(({ ranks }) => ranks.length > 0);
  if (!base || ran.length === 0) return null;
  return section(
    'cost',
    'Price',
    `Step time (median after the first step, ${virtual ? 'on the virtual clock' : 'by CUDA events'}) and calls for each step under ${trial.schedule}, compared with ${base.name}, on the rank with the most. Columns to the right count the whole run.`,
    costs(ran.map((variant) => rowOf(trial, variant, base))),
  );
}
