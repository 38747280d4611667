// Distance of each variant's numbers from the baseline's and from the reference's, a column a kind.
import { h } from './dom.js';
import { named, table } from './controls.js';
import { exact, exactOrShort } from './format.js';

const KINDS = ['loss', 'gradients', 'parameters'];
const AGAINST = [
  ['baseline', 'to the baseline, ULP'],
  ['reference', 'to the reference, relative, of what is allowed'],
];

const columnsOf = (trial) =>
  AGAINST.flatMap(([against, words]) =>
    KINDS.map((kind) => ({ name: `parity/${against}/${kind}`, kind, words })),
  ).filter(({ name }) => trial.assertions.some((assertion) => assertion.name === name));

function cell(assertion) {
  if (!assertion) return h('td', { class: 'figure quiet' }, '–');
  const [{ measured, unit, expected, why }] = assertion.verdicts;
  if (measured === null) return h('td', { class: 'figure quiet', title: why }, assertion.status);
  const bound = expected.high === null ? '' : ` of ${exactOrShort(expected.high)} allowed`;
  return h(
    'td',
    { class: 'figure' },
    h(
      'data',
      {
        value: measured,
        class: assertion.status === 'fail' && 'off',
        title: `${exact(measured)} ${unit}${bound}. ${expected.formula}`,
      },
      exactOrShort(measured),
    ),
    unit === 'relative' && expected.high !== null && ` of ${exactOrShort(expected.high)}`,
  );
}

/** Null where nothing was compared. */
export function parity(trial) {
  const columns = columnsOf(trial);
  if (columns.length === 0) return null;
  const find = (variant, { name }) =>
    trial.assertions.find((one) => one.variant === variant && one.name === name);
  const rows = trial.variants.filter(({ name }) => columns.some((column) => find(name, column)));
  return table(
    'Largest difference of any rank',
    'parity',
    ['largest of any rank', ...columns.map(({ kind, words }) => [`${kind} ${words}`])],
    rows.map(({ name, role }) => [named(name, role), ...columns.map((column) => cell(find(name, column)))]),
  );
}
