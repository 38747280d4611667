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

/** {x, y, capacity, columns: [name], rows: [{name, cells: [{bytes, share, fits} or {text} or null]}]}: `share` of the capacity. */
export function heat({ x, y, capacity, columns, rows }) {
  const cell = (value) => {
    if (value === null) return h('td', { class: 'quiet' }, 'not run');
    if (value.text) return h('td', { class: 'quiet' }, value.text);
    const over = !value.fits;
    return h(
      'td',
      {
        class: over ? 'figure over' : 'figure',
        title: `${exactBytes(value.bytes)}, ${(100 * value.share).toFixed(1)} % of the capacity`,
        style: `background:color-mix(in srgb, var(--tone-${over ? 8 : 2}) ${Math.round(12 + 38 * Math.min(1, value.share))}%, transparent)`,
      },
      bytes(value.bytes),
    );
  };
  return [
    h(
      'div',
      { class: 'scroller', tabindex: 0 },
      h(
        'table',
        {},
        h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, `${y} \\ ${x}`), columns.map((name) => h('th', { scope: 'col', class: 'figure' }, name)))),
        h('tbody', {}, rows.map(({ name, cells }) => h('tr', {}, h('th', { scope: 'row' }, name), cells.map(cell)))),
      ),
    ),
    h('p', { class: 'quiet' }, `The allocator can have ${bytes(capacity)}. The figures are those with room to spare; red ones do not fit, others fit, if need be with a retry.`),
  ];
}
