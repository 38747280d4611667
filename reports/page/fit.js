// The pictures of `tidemark fit`: what is alive at the peak of each combination, and how much of a GPU two variables take.
import { h } from './dom.js';
import { legend } from './frame.js';
import { bytes, exactBytes, unitFor } from './format.js';

/** {kinds: [name, ...], rows: [{name, what, parts: [bytes, ...] in the order of kinds}]} */
export function bars({ kinds, rows }) {
  const total = ({ parts }) => parts.reduce((sum, part) => sum + part, 0);
  const largest = Math.max(1, ...rows.map(total));
  const unit = unitFor(largest);
  const tone = (at) => `tone-${at % 12}`;
  return [
    legend(kinds.map((name, at) => ({ tone: tone(at), name }))),
    h(
      'div',
      { class: 'stacks' },
      rows.map((row) => [
        h('div', { class: 'stack-name' }, row.name, h('span', { class: 'role' }, row.what)),
        h(
          'div',
          { class: 'stack' },
          row.parts.map(
            (part, at) =>
              part > 0 &&
              h('i', {
                class: tone(at),
                title: `${kinds[at]}: ${exactBytes(part)}`,
                style: `background:var(--tone);width:${((100 * part) / largest).toFixed(3)}%`,
              }),
          ),
          h('data', { value: total(row), title: exactBytes(total(row)) }, unit.format(total(row))),
        ),
      ]),
    ),
    h('p', { class: 'quiet' }, `In ${unit.name}, as requested.`),
  ];
}

/** {x, y, capacity, columns: [text], rows: [{name, cells: [{text, share} or null]}]}: `share` of the capacity. */
export function heat({ x, y, capacity, columns, rows }) {
  const cell = (value) =>
    value === null
      ? h('td', {}, 'not run')
      : h(
          'td',
          {
            class: 'figure',
            style:
              value.share === null
                ? undefined
                : `background:color-mix(in srgb, var(--tone-${value.share > 1 ? 8 : 2}) ${Math.round(20 + 60 * Math.min(1, value.share))}%, transparent)`,
          },
          value.text,
        );
  return [
    h(
      'div',
      { class: 'scroller', tabindex: 0 },
      h(
        'table',
        {},
        h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, `${y} \\ ${x}`), columns.map((name) => h('th', { scope: 'col' }, name)))),
        h('tbody', {}, rows.map(({ name, cells }) => h('tr', {}, h('th', { scope: 'row' }, name), cells.map(cell)))),
      ),
    ),
    h('p', { class: 'quiet' }, `Capacity for PyTorch's allocator: ${bytes(capacity)}. Red: does not fit.`),
  ];
}
