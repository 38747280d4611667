// The largest blocks alive at the highest moment of allocated memory.
import { h } from './dom.js';
import { scroller } from './controls.js';
import { bytes, exactBytes } from './format.js';

/** "Float [1024, 384]", or what stands in for it. */
export function contentOf({ dtype, shape }) {
  return dtype ? `${dtype} [${shape.join(', ')}]` : 'no tensor seen';
}

const cells = (block) => [
  h('td', { class: 'figure' }, h('data', { value: block.bytes, title: exactBytes(block.bytes) }, bytes(block.bytes))),
  h('td', {}, block.category),
  h('td', {}, h('code', {}, block.op || 'an earlier step')),
  h('td', {}, contentOf(block)),
];

/** A few of them, below the values read at the peak. */
export function fewBlocks(record) {
  return h(
    'table',
    { class: 'few' },
    record.largest.map((block) =>
      h('tr', { class: block.pending && 'pending' }, cells(block), h('td', {}, block.pending ? 'freed, pending' : '')),
    ),
  );
}

/** rows: [{name, role, record}]. All of them, a table a variant. */
export function blockTables(rows) {
  const some = rows.filter(({ record }) => record.largest.length > 0);
  if (some.length === 0) return null;
  const head = ['bytes', 'category', 'allocated by', 'first tensor on it', 'stream', ''];
  return h(
    'details',
    { class: 'blocks' },
    h('summary', {}, 'The ten largest blocks of that moment, with the operator that allocated them'),
    some.map(({ name, role, record }) => [
      h('h3', {}, name, h('span', { class: 'role' }, `${role}, rank ${record.rank}`)),
      scroller(
        `Largest blocks of ${name}`,
        h(
          'table',
          {},
          h('thead', {}, h('tr', {}, head.map((text, i) => (text ? h('th', { scope: 'col', class: i === 0 && 'figure' }, text) : h('td', {}))))),
          h(
            'tbody',
            {},
            record.largest.map((block) =>
              h(
                'tr',
                { class: block.pending && 'pending' },
                cells(block),
                h('td', {}, block.stream),
                h('td', {}, block.pending ? h('span', { class: 'status skip' }, 'freed, pending') : ''),
              ),
            ),
          ),
        ),
      ),
    ]),
  );
}
