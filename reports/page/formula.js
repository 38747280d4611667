// Counts of a scenario's predictions by kind: how many there are, and how many bytes the worst one is off.
import { h } from './dom.js';
import { figure, section, table } from './controls.js';
import { exact, exactBytes } from './format.js';
import { offBy } from './model.js';

const KINDS = [
  ['memory/form/', 'form', 'a sum of named amounts, derived on paper'],
  ['memory/account/', 'account', "what the replay has alive at that moment, as a sum of named amounts, read off it"],
  ['memory/replay/', 'replay', "the plan's allocations, run through a model of PyTorch's allocator"],
  ['trajectory/', 'moment', 'residency at a named moment of the step'],
  ['saving/', 'saving', 'the difference of two forms, or of two accounts'],
];

function rowsOf(groups) {
  const rows = KINDS.map(([prefix, name, what]) => ({ prefix, name, what, held: 0, failed: 0, worst: 0 }));
  for (const trial of groups.flatMap(({ trials }) => trials)) {
    for (const assertion of trial.assertions) {
      const row = rows.find(({ prefix }) => assertion.name.startsWith(prefix));
      if (!row) continue;
      for (const verdict of assertion.verdicts) {
        if (verdict.status === 'skip' || verdict.unit !== 'bytes') continue;
        row[verdict.status === 'fail' ? 'failed' : 'held'] += 1;
        row.worst = Math.max(row.worst, verdict.measured === null ? Infinity : Math.abs(offBy(verdict)));
      }
    }
  }
  return rows.filter(({ held, failed }) => held + failed > 0);
}

export function formulas(groups) {
  const rows = rowsOf(groups);
  if (rows.length === 0) return null;
  return section(
    'formula',
    'Predictions',
    'All sizes, schedules, variants, phases and ranks of this scenario count. A prediction must hold to the byte, or within the bound that its verdict states.',
    table(
      'Predictions by kind',
      '',
      ['kind', ['held'], ['off'], ['worst']],
      rows.map(({ name, what, held, failed, worst }) => [
        [name, ' ', h('span', { class: 'quiet' }, what)],
        figure(exact(held)),
        figure(failed > 0 ? h('span', { class: 'off' }, exact(failed)) : '0'),
        figure(worst === 0 ? '–' : worst === Infinity ? 'not measured' : exactBytes(worst)),
      ]),
    ),
  );
}
