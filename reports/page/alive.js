// The table of what is alive at a moment: a row a kind, module and line, with a bar; its heads sort.
import { h } from './dom.js';
import { exact, exactBytes, natural, plural, unitFor } from './format.js';
import { grouped } from './icicle.js';
import { toneOfKind } from './kinds.js';

const FEW = 30;
const COLUMNS = [
  ['memory', (row) => row.bytes],
  ['blocks', (row) => row.blocks.length],
  ['kind', (row) => row.kind],
  ['module', (row) => row.pattern],
  ['line', (row) => row.text],
];

/** Whether a block has the words of a search in its kind, module, line or source. */
export function matches(block, words) {
  const text = `${block.kind} ${block.module} ${block.pattern} ${block.text} ${block.source ?? ''}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

const titleOf = ({ kind, pattern, text }) => [kind, pattern, text].filter(Boolean).join(', ');

function rowsOf(blocks, { column, up }) {
  const rows = grouped(blocks, ({ kind, pattern, text, file, line }) => [kind, pattern, text, file, line].join('\n')).map(
    ({ blocks: of, bytes }) => ({ ...of[0], blocks: of, bytes }),
  );
  const value = COLUMNS[column][1];
  const order = (a, b) => (column < 2 ? value(a) - value(b) : natural(value(a) ?? '', value(b) ?? ''));
  return rows.sort((a, b) => (up ? order(a, b) : order(b, a)));
}

/** `state`: {sort: {column, up}, all}; show() draws the table again after a change; link(file, line): an address or ''; pick(title, blocks) shows the stacks of a row. */
export function aliveTable(blocks, state, show, link, pick) {
  const rows = rowsOf(blocks, state.sort);
  const most = Math.max(1, ...rows.map((row) => row.bytes));
  const unit = unitFor(most);
  const shown = state.all ? rows : rows.slice(0, FEW);
  const sortBy = (column) => () => {
    const same = state.sort.column === column;
    state.sort = { column, up: same ? !state.sort.up : column > 1 };
    show();
  };
  const head = ([name], column) => {
    const here = state.sort.column === column;
    return h(
      'th',
      { scope: 'col', class: column < 2 && 'figure', 'aria-sort': here ? (state.sort.up ? 'ascending' : 'descending') : 'none' },
      h('button', { onclick: sortBy(column) }, `${name}${column === 0 ? `, ${unit.name}` : ''}${here ? (state.sort.up ? ' ▲' : ' ▼') : ''}`),
    );
  };
  const place = (row) => {
    const to = link(row.file, row.line);
    return [to ? h('a', { href: to }, row.text) : row.text, row.source && h('code', { class: 'source' }, row.source)];
  };
  return [
    h(
      'div',
      { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': 'Alive, by kind, module and line' },
      h(
        'table',
        { class: 'alive' },
        h('thead', {}, h('tr', {}, COLUMNS.map(head))),
        h(
          'tbody',
          {},
          shown.map((row) =>
            h(
              'tr',
              { onclick: ({ target }) => target.closest('a, button') ?? pick(titleOf(row), row.blocks) },
              h(
                'td',
                { class: 'figure' },
                h('data', { value: row.bytes, title: exactBytes(row.bytes) }, unit.format(row.bytes)),
                h('span', { class: `level ${toneOfKind(row.kind)}` }, h('i', { style: `width:${((100 * row.bytes) / most).toFixed(2)}%` })),
              ),
              h('td', { class: 'figure', 'data-noun': row.blocks.length === 1 ? 'block' : 'blocks' }, h('button', { class: 'link', title: 'Stacks, and where they were allocated and freed', onclick: () => pick(titleOf(row), row.blocks) }, exact(row.blocks.length))),
              h('td', {}, row.kind),
              h('td', {}, row.pattern),
              h('td', {}, place(row)),
            ),
          ),
        ),
      ),
    ),
    rows.length > shown.length &&
      h('button', { class: 'wide', onclick: () => { state.all = true; show(); } }, `Show all ${plural(rows.length, 'row')}`),
  ];
}
