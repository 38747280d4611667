// Composition of the highest moment of allocated memory.
import { h } from './dom.js';
import { legend } from './frame.js';
import { figure, section, table } from './controls.js';
import { exactBytes, unitFor } from './format.js';
import { rankRecord } from './model.js';

export function composition({ trial, rank }) {
  const rows = trial.variants
    .map((variant) => ({
      name: variant.name,
      role: variant.role,
      record: rankRecord(variant, 'allocated', rank),
    }))
    .filter(({ record }) => record && Object.keys(record.categories).length > 0);
  if (rows.length === 0) return null;
  const names = [...new Set(rows.flatMap(({ record }) => Object.keys(record.categories)))];
  const share = (record, name) => record.categories[name]?.peak_share ?? 0;
  const total = (record) => names.reduce((sum, name) => sum + share(record, name), 0);
  const largest = Math.max(1, ...rows.map(({ record }) => total(record)));
  const unit = unitFor(largest);
  const kept = names.filter((name) => rows.some(({ record }) => share(record, name) !== 0));
  const tone = (name) => `part-${names.indexOf(name) % 10}`;
  return section(
    'composition',
    'What the peak is made of',
    `Allocated memory at its highest moment under ${trial.schedule}, in ${unit.name}. The parts sum to the peak exactly.`,
    legend(kept.map((name) => ({ tone: tone(name), name }))),
    h(
      'div',
      { class: 'stacks' },
      rows.map(({ name, role, record }) => [
        h('div', { class: 'stack-name' }, name, h('span', { class: 'role' }, role)),
        h(
          'div',
          { class: 'stack' },
          kept.map(
            (category) =>
              share(record, category) > 0 &&
              h('i', {
                class: tone(category),
                title: `${category}: ${exactBytes(share(record, category))}`,
                style: `width:${((100 * share(record, category)) / largest).toFixed(3)}%`,
              }),
          ),
          h(
            'data',
            { value: total(record), title: exactBytes(total(record)) },
            unit.format(total(record)),
          ),
        ),
      ]),
    ),
    h(
      'details',
      {},
      h('summary', {}, "Figures, and what is left at the step's end"),
      table(
        'Categories',
        '',
        ['variant', ...names.map((name) => [name])],
        rows.map(({ name, record }) => [
          name,
          ...names.map((category) =>
            figure(
              h('data', { value: share(record, category), title: exactBytes(share(record, category)) }, unit.format(share(record, category))),
              h('span', { class: 'role' }, unit.format(record.categories[category]?.end ?? 0)),
            ),
          ),
        ]),
      ),
    ),
  );
}
