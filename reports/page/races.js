// Conflicting accesses that nothing orders.
import { h } from './dom.js';
import { named, section } from './controls.js';
import { exactBytes, plural, rankList } from './format.js';
import { together } from './model.js';

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
  const all = variant.ranks.flatMap(({ rank, races }) => races.map((race) => ({ race, rank })));
  const key = ({ race }) => JSON.stringify([race.first, race.second, race.bytes]);
  const found = together(all, key).map((same) => ({
    race: same[0].race,
    ranks: [...new Set(same.map(({ rank }) => rank))],
  }));
  const freed = ({ race }) => (race.kind === 'freed' ? 0 : 1);
  return found.sort((a, b) => freed(a) - freed(b) || b.race.bytes - a.race.bytes);
}

export function races({ trial }) {
  const count = ({ ranks }) => ranks.reduce((sum, record) => sum + record.races_in_all, 0);
  const rows = trial.variants.filter((variant) => count(variant) > 0);
  if (rows.length === 0) return null;
  return section(
    'races',
    'Races',
    `Conflicting accesses that nothing orders, under ${trial.schedule}.`,
    rows.map((variant) => {
      const [first, ...more] = distinct(variant);
      return h(
        'article',
        { class: 'group' },
        h('h3', {}, named(variant.name, `${variant.role}, ${plural(count(variant), 'race')} over all ranks`)),
        h('ul', { class: 'plain' }, item(first)),
        more.length > 0 &&
          h('details', {}, h('summary', {}, `${more.length} more`), h('ul', { class: 'plain' }, more.slice(0, 30).map(item))),
      );
    }),
  );
}
