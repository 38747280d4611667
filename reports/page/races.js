// Conflicting accesses that nothing orders.
import { h } from './dom.js';
import { section } from './controls.js';
import { exactBytes, plural, rankList } from './format.js';
import { variantIn } from './model.js';

const side = ({ op, stream }) => [h('code', {}, op), ` on ${stream}`];

const item = ({ race, ranks }) =>
  h(
    'li',
    { class: 'race' },
    h('p', {}, side(race.first), ' against ', side(race.second), `, ${exactBytes(race.bytes)}, ${rankList(ranks)}`),
    h('p', { class: 'quiet' }, race.explanation),
  );

/** Races between the same operators on the same streams, together: of freed memory first, then the largest. */
function distinct(variant) {
  const found = new Map();
  for (const record of variant.ranks) {
    for (const race of record.races) {
      const key = JSON.stringify([race.first, race.second, race.bytes]);
      if (!found.has(key)) found.set(key, { race, ranks: [] });
      const { ranks } = found.get(key);
      if (ranks.at(-1) !== record.rank) ranks.push(record.rank);
    }
  }
  const freed = ({ race }) => (race.explanation.includes('freed before') ? 0 : 1);
  return [...found.values()].sort((a, b) => freed(a) - freed(b) || b.race.bytes - a.race.bytes);
}

export function races(group, { schedule }) {
  const rows = group.variants
    .map(({ name, role }) => ({ name, role, variant: variantIn(group, schedule, name) }))
    .map((row) => ({
      ...row,
      count: row.variant?.ranks.reduce((sum, record) => sum + record.races_in_all, 0) ?? 0,
    }))
    .filter(({ count }) => count > 0);
  if (rows.length === 0) return null;
  return section(
    'races',
    'Races',
    `Conflicting accesses that nothing orders, under ${schedule}.`,
    rows.map(({ name, role, variant, count }) => {
      const [first, ...more] = distinct(variant);
      return h(
        'article',
        { class: 'group' },
        h('h3', {}, name, h('span', { class: 'role' }, `${role}, ${plural(count, 'race')} over all ranks`)),
        h('ul', { class: 'plain' }, item(first)),
        more.length > 0 &&
          h('details', {}, h('summary', {}, `${more.length} more`), h('ul', { class: 'plain' }, more.slice(0, 30).map(item))),
      );
    }),
  );
}
