// Symbols of a scenario's formulas: what each stands for, and its value in this trial.
import { h } from './dom.js';
import { figure, section, table } from './controls.js';
import { exactOrShort } from './format.js';

export function symbols({ trial }) {
  if (trial.symbols.length === 0) return null;
  return section(
    'symbols',
    'Symbols of the formulas',
    'Amounts of memory are in bytes; counts are plain numbers.',
    table(
      'Symbols',
      '',
      ['symbol', ['value'], 'stands for'],
      trial.symbols.map(({ name, what, value }) => [
        h('code', {}, name),
        figure(value === null ? 'by formula' : exactOrShort(value)),
        what,
      ]),
    ),
  );
}
