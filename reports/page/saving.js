// What each fix saves: the closed form's figure beside the measured one.
import { h } from './dom.js';
import { scroller, section } from './controls.js';
import { exactBytes, rankList, unitFor } from './format.js';

/** The verdicts saving/..., under the schedule chosen: the worst rank speaks. */
export function savings(group, { schedule }) {
  const trial = group.trials.find((candidate) => candidate.schedule === schedule);
  const rows = (trial?.assertions ?? [])
    .filter(({ name }) => name.startsWith('saving/'))
    .map(({ verdicts }) => ({ ...verdicts[0], ranks: verdicts.map(({ rank }) => rank) }))
    .filter(({ measured }) => measured !== null);
  if (rows.length === 0) return null;
  const predicted = ({ expected: { low, high } }) => (low === high ? low : null); // a wider bound predicts no figure
  const largest = Math.max(
    1,
    ...rows.flatMap((row) => [Math.abs(row.measured), Math.abs(predicted(row) ?? 0)]),
  );
  const unit = unitFor(largest);
  const bar = (kind, value) =>
    h('i', {
      class: `${kind}${value < 0 ? ' negative' : ''}`,
      style: `width:${((100 * Math.abs(value ?? 0)) / largest).toFixed(2)}%`,
    });
  const figure = (value) => h('data', { value, title: exactBytes(value) }, unit.format(value));
  return section(
    'saving',
    'Saving',
    `Baseline minus variant under ${schedule}, in ${unit.name}: what the closed form predicts above what was measured.`,
    scroller(
      'Savings',
      h(
        'table',
        { class: 'saving' },
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            h('th', { scope: 'col' }, 'variant'),
            h('th', { scope: 'col' }, 'of'),
            h('th', { scope: 'col', class: 'figure' }, 'predicted'),
            h('th', { scope: 'col', class: 'figure' }, 'measured'),
            h('th', { scope: 'col' }, ''),
            h('th', { scope: 'col' }, 'formula'),
          ),
        ),
        h(
          'tbody',
          {},
          rows.map((row) =>
            h(
              'tr',
              { class: row.status },
              h('th', { scope: 'row' }, row.variant),
              h(
                'td',
                {},
                row.name.slice('saving/'.length),
                h('span', { class: 'role' }, rankList(row.ranks.sort((a, b) => a - b))),
              ),
              h('td', { class: 'figure' }, predicted(row) === null ? '–' : figure(predicted(row))),
              h('td', { class: 'figure' }, figure(row.measured)),
              h(
                'td',
                { class: 'pair' },
                predicted(row) !== null && bar('predicted', predicted(row)),
                bar('measured', row.measured),
              ),
              h('td', {}, h('code', {}, row.expected.formula)),
            ),
          ),
        ),
      ),
    ),
  );
}
