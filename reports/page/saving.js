// Saving of each fix: the closed form's figure beside the measured one.
import { h } from './dom.js';
import { figure, named, section, table } from './controls.js';
import { exactBytes, rankList, unitFor } from './format.js';
import { predicted } from './model.js';

const FIRST = 10; // rows that stand open

/** The verdicts saving/... under the schedule chosen, equal ones of several variants together, what saves most first. */
function rowsOf(trial) {
  const rows = new Map();
  for (const { name, variant, verdicts } of trial?.assertions ?? []) {
    const [verdict] = verdicts; // the worst rank speaks
    if (!name.startsWith('saving/') || verdict.measured === null || verdict.unit !== 'bytes') continue;
    const ranks = verdicts.map(({ rank }) => rank).sort((a, b) => a - b);
    const { formula, low, high } = verdict.expected;
    const key = JSON.stringify([name, formula, low, high, verdict.measured, verdict.status, ranks]);
    if (!rows.has(key)) rows.set(key, { verdict, of: name.slice('saving/'.length), ranks, variants: [] });
    rows.get(key).variants.push(variant);
  }
  const failed = ({ verdict }) => (verdict.status === 'fail' ? 0 : 1);
  return [...rows.values()].sort((a, b) => failed(a) - failed(b) || Math.abs(b.verdict.measured) - Math.abs(a.verdict.measured));
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
      h('code', {}, verdict.expected.formula),
    ]),
  );
}

export function savings(group, { schedule }) {
  const rows = rowsOf(group.trials.find((trial) => trial.schedule === schedule));
  if (rows.length === 0) return null;
  const largest = Math.max(1, ...rows.flatMap(({ verdict }) => [Math.abs(verdict.measured), Math.abs(predicted(verdict) ?? 0)]));
  const unit = unitFor(largest);
  const rest = rows.slice(FIRST);
  return section(
    'saving',
    'Saving',
    `Baseline minus variant under ${schedule}, in ${unit.name}, the largest first: what the closed form predicts above what was measured.`,
    savingsTable('Largest savings', rows.slice(0, FIRST), unit, largest),
    rest.length > 0 && h('details', {}, h('summary', {}, `${rest.length} more`), savingsTable('Other savings', rest, unit, largest)),
  );
}
