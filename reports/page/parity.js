// How far each variant's numbers are from the baseline's and from the reference's, a column a kind, sortable.
import { h } from './dom.js';
import { scroller } from './controls.js';
import { exact, exactOrShort } from './format.js';

const KINDS = ['loss', 'gradients', 'parameters'];
const AGAINST = [
  ['baseline', 'to the baseline, ULP'],
  ['reference', 'to the reference, relative'],
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
  );
}

/** Null where nothing was compared. */
export function parity(trial) {
  const columns = columnsOf(trial);
  if (columns.length === 0) return null;
  const find = (variant, { name }) =>
    trial.assertions.find((one) => one.variant === variant && one.name === name);
  const rows = trial.variants.filter(({ name }) => columns.some((column) => find(name, column)));
  const body = h('tbody', {});
  const heads = [];
  let [by, down] = [null, true];

  function draw() {
    const value = ({ name }) => (by && find(name, by)?.verdicts[0].measured) ?? -1;
    const sorted = by ? rows.slice().sort((a, b) => (value(b) - value(a)) * (down ? 1 : -1)) : rows;
    body.replaceChildren(
      ...sorted.map(({ name, role }) =>
        h(
          'tr',
          {},
          h('th', { scope: 'row' }, name, h('span', { class: 'role' }, role)),
          columns.map((column) => cell(find(name, column))),
        ),
      ),
    );
    columns.forEach((column, i) => {
      heads[i].setAttribute(
        'aria-sort',
        column !== by ? 'none' : down ? 'descending' : 'ascending',
      );
    });
  }

  columns.forEach((column) =>
    heads.push(
      h(
        'th',
        { scope: 'col', class: 'figure' },
        h(
          'button',
          {
            class: 'sort',
            'aria-label': `${column.kind} ${column.words}: sort`,
            title: 'Sort by this column',
            onclick: () => {
              [by, down] = [column, by === column ? !down : true];
              draw();
            },
          },
          column.kind,
        ),
      ),
    ),
  );
  draw();
  return scroller(
    'Largest difference of any rank, to the baseline and to the reference',
    h(
      'table',
      { class: 'parity' },
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('td', {}),
          AGAINST.map(([, words]) => {
            const colspan = columns.filter((column) => column.words === words).length;
            return colspan > 0 && h('th', { scope: 'colgroup', colspan, class: 'figure' }, words);
          }),
        ),
        h('tr', {}, h('th', { scope: 'col' }, 'largest of any rank'), heads),
      ),
      body,
    ),
  );
}
