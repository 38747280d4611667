// Symbols of a scenario's formulas: what each stands for, and its value in this trial.
import { h } from './dom.js';
import { scroller, section } from './controls.js';
import { exactOrShort } from './format.js';

export function symbols(group, { schedule }) {
  const trial = group.trials.find((one) => one.schedule === schedule) ?? group.first;
  if (trial.symbols.length === 0) return null;
  const col = (text, kind) => h('th', { scope: 'col', class: kind }, text);
  return section(
    'symbols',
    'Symbols of the formulas',
    'Amounts of memory in bytes, counts as plain numbers.',
    scroller(
      'Symbols',
      h(
        'table',
        {},
        h('thead', {}, h('tr', {}, col('symbol'), col('value', 'figure'), col('stands for'))),
        h(
          'tbody',
          {},
          trial.symbols.map(([name, what, value]) =>
            h(
              'tr',
              {},
              h('th', { scope: 'row' }, h('code', {}, name)),
              h('td', { class: 'figure' }, value === null ? 'several' : exactOrShort(value)),
              h('td', {}, what),
            ),
          ),
        ),
      ),
    ),
  );
}
