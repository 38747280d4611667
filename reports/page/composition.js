// What a variant's highest moment is made of, by kind, in the scenario's own statistic.
import { h } from './dom.js';
import { legend } from './frame.js';
import { figure, section, table } from './controls.js';
import { exactBytes, unitFor } from './format.js';
import { WAITING, inOrder, toneOfKind } from './kinds.js';
import { peak, rankRecord } from './model.js';

/** Parts by kind, which sum to the peak: the categories at the highest allocated moment, and what active has beyond it. */
function partsOf(record, total) {
  const parts = {};
  for (const [name, { peak_share: bytes }] of Object.entries(record.categories)) parts[name] = bytes;
  const held = Object.values(parts).reduce((sum, bytes) => sum + bytes, 0);
  if (total > held) parts[WAITING] = total - held;
  return parts;
}

export function composition({ trial, rank }) {
  const active = trial.savings.some(({ statistic }) => statistic === 'active');
  const rows = trial.variants
    .map((variant) => ({ name: variant.name, role: variant.role, record: rankRecord(variant, active ? 'active' : 'allocated', rank) }))
    .filter(({ record }) => record && Object.keys(record.categories).length > 0)
    .map((row) => ({ ...row, parts: partsOf(row.record, active ? peak({ ranks: [row.record] }, 'active') : 0) }));
  if (rows.length === 0) return null;
  const total = ({ parts }) => Object.values(parts).reduce((sum, bytes) => sum + bytes, 0);
  const largest = Math.max(1, ...rows.map(total));
  const unit = unitFor(largest);
  const names = [...new Set(rows.flatMap(({ record }) => Object.keys(record.categories)))];
  const kinds = inOrder(new Set(rows.flatMap(({ parts }) => Object.keys(parts).filter((kind) => parts[kind] > 0))));
  const share = (record, name) => record.categories[name]?.peak_share ?? 0;
  return section(
    'composition',
    'What the peak is made of',
    `${active ? 'Active' : 'Allocated'} memory at its highest under ${trial.schedule}, in ${unit.name}. The parts sum to the peak exactly.${
      active ? ' Beyond the highest allocated moment, active has memory that is freed and waits for its streams: at least so much.' : ''
    }`,
    legend(kinds.map((name) => ({ tone: toneOfKind(name), name }))),
    h(
      'div',
      { class: 'stacks' },
      rows.map((row) => [
        h('div', { class: 'stack-name' }, row.name, h('span', { class: 'role' }, row.role)),
        h(
          'div',
          { class: 'stack' },
          kinds.map(
            (kind) =>
              row.parts[kind] > 0 &&
              h('i', {
                class: toneOfKind(kind),
                title: `${kind}: ${exactBytes(row.parts[kind])}`,
                style: `width:${((100 * row.parts[kind]) / largest).toFixed(3)}%`,
              }),
          ),
          h('data', { value: total(row), title: exactBytes(total(row)) }, unit.format(total(row))),
        ),
      ]),
    ),
    h(
      'details',
      {},
      h('summary', {}, "Figures of the highest allocated moment, and what is left at the step's end"),
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
