// Saving of each fix: the closed form's figure beside the measured one.
import { h } from './dom.js';
import { figure, named, section, table } from './controls.js';
import { exact, exactBytes, rankList, unitFor } from './format.js';
import { predicted, together } from './model.js';

const STEP = 'step'; // of the whole step, in the scenario's own statistic: a row for each fix

/** The verdicts saving/... under the schedule chosen, equal ones of several variants or statistics together, what saves most first. */
function rowsOf(trial) {
  const all = trial.assertions
    .filter(({ name }) => name.startsWith('saving/'))
    .map(({ name, variant, verdicts }) => ({
      verdict: verdicts[0], // the worst rank speaks
      of: name.slice('saving/'.length),
      ranks: verdicts.map(({ rank }) => rank).sort((a, b) => a - b),
      variant,
    }))
    .filter(({ verdict }) => verdict.measured !== null && verdict.unit === 'bytes');
  const key = ({ of, verdict: { expected, measured, status }, ranks }) =>
    JSON.stringify([of, expected.formula, expected.low, expected.high, measured, status, ranks]);
  const of_variants = together(all, key).map((same) => ({ ...same[0], variants: same.map(({ variant }) => variant) }));
  const alike = ({ variants, of, verdict: { expected, measured, status }, ranks }) =>
    JSON.stringify([variants, of === STEP, expected.formula, expected.low, expected.high, measured, status, ranks]);
  const rows = together(of_variants, alike).map((same) => ({ ...same[0], of: same.map(({ of }) => of).join(', ') }));
  const failed = ({ verdict }) => (verdict.status === 'fail' ? 0 : 1);
  return rows.sort((a, b) => failed(a) - failed(b) || Math.abs(b.verdict.measured) - Math.abs(a.verdict.measured));
}

/** What the symbols of a formula are worth, so that a reader can check it. */
function valuesOf({ values }) {
  return values.length > 0 && h('small', { class: 'worth' }, `with ${values.map(([name, value]) => `${name} = ${exact(value)}`).join(', ')}`);
}

function savingsTable(label, rows, unit, largest) {
  const bar = (kind, value) =>
    h('i', {
      class: `${kind}${value < 0 ? ' negative' : ''}`,
      style: `width:${((100 * Math.abs(value ?? 0)) / largest).toFixed(2)}%`,
    });
  const level = (value) =>
    figure(value === null ? '–' : h('data', { value, title: exactBytes(value) }, unit.format(value)));
  return table(
    label,
    'saving',
    ['variant', 'of', ['predicted'], ['measured'], 'both', 'formula'],
    rows.map(({ verdict, of, ranks, variants }) => [
      variants.join(', '),
      named(of, rankList(ranks)),
      level(predicted(verdict)),
      level(verdict.measured),
      h(
        'td',
        { class: `pair ${verdict.status}` },
        predicted(verdict) !== null && bar('predicted', predicted(verdict)),
        bar('measured', verdict.measured),
      ),
      h('td', {}, h('code', {}, verdict.expected.formula), valuesOf(verdict.expected)),
    ]),
  );
}

export function savings({ trial }) {
  const rows = rowsOf(trial);
  if (rows.length === 0) return null;
  const largest = Math.max(1, ...rows.flatMap(({ verdict }) => [Math.abs(verdict.measured), Math.abs(predicted(verdict) ?? 0)]));
  const unit = unitFor(largest);
  const whole = rows.filter(({ of }) => of === STEP);
  const [first, rest] = whole.length > 0 ? [whole, rows.filter(({ of }) => of !== STEP)] : [rows, []];
  return section(
    'saving',
    'Saving',
    `Baseline minus variant under ${trial.schedule}, in ${unit.name}, the largest first: what the closed form predicts above what was measured.${whole.length > 0 ? ' Of the whole step, in the statistic of the scenario.' : ''}`,
    savingsTable('Savings', first, unit, largest),
    rest.length > 0 && h('details', {}, h('summary', {}, `${rest.length} more, of other statistics and phases`), savingsTable('Other savings', rest, unit, largest)),
  );
}
