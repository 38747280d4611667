// Peaks of many ranks in the phases of their steps, as a heat map: a click chooses a rank.
import { h } from './dom.js';
import { bytes, exactBytes, natural, plural, unitFor } from './format.js';

/** Each rank by itself, by its number: [{name, picture}]. */
export function ranksOf(pictures) {
  return pictures
    .flatMap((picture) => picture.names.map((name) => ({ name, picture })))
    .sort((a, b) => natural(a.name, b.name));
}

/** The least and the most of some figures. */
const spanOf = (levels) => levels.reduce(([low, high], level) => [Math.min(low, level), Math.max(high, level)], [Infinity, -Infinity]);

/** `phases`: [name, step] of each peak of a picture after the first, which is that of the whole run; choose(rank) shows another rank. */
export function rankMap(ranks, phases, chosen, choose) {
  const rows = ['whole run', ...phases.map(([name, step]) => (step > 0 ? `${name} of step ${step}` : name))];
  const wide = Math.max(2, Math.min(24, Math.floor(760 / ranks.length)));
  const row = (name, at) => {
    const levels = ranks.map(({ picture }) => picture.peaks[at]);
    const [low, high] = spanOf(levels.filter((level) => level !== null));
    const share = (level) => (high > low ? 12 + Math.round((88 * (level - low)) / (high - low)) : 50);
    const unit = unitFor(high);
    return h(
      'tr',
      {},
      h('th', { scope: 'row' }, name),
      h(
        'td',
        {},
        h(
          'div',
          { class: 'rank-cells' },
          ranks.map((rank, i) =>
            h('i', {
              'data-rank': i,
              'data-bytes': levels[i],
              'data-chosen': rank === chosen,
              class: levels[i] === null && 'none',
              style: levels[i] !== null && `--level:${share(levels[i])}%`,
              title: `${rank.name}, ${name}: ${levels[i] === null ? 'no such phase' : exactBytes(levels[i])}`,
            }),
          ),
        ),
      ),
      h('th', {}, high === low ? bytes(low) : `${unit.format(low)} to ${unit.format(high)} ${unit.name}`),
    );
  };
  const highest = ranks.reduce((best, rank) => (rank.picture.peaks[0] > best.picture.peaks[0] ? rank : best));
  return [
    h('p', { class: 'quiet' }, `Peaks of ${plural(ranks.length, 'rank')}, from left to right; in each row the strongest colour is the most. The highest is ${bytes(highest.picture.peaks[0])} on ${highest.name}. `, h('span', { class: 'hint' }, 'A click chooses a rank.')),
    h(
      'div',
      { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': 'Peaks by phase' },
      h(
        'table',
        { class: 'ranks', style: `--wide:${wide}px`, onclick: ({ target }) => target.dataset.rank && choose(ranks[target.dataset.rank]) },
        h('tbody', {}, rows.map(row)),
      ),
    ),
  ];
}
