// A list of assertions, what failed first, and the controls that choose among them.
import { h, refill } from './dom.js';
import { choice, select, table } from './controls.js';
import { exact, plural } from './format.js';
import { assertionRow } from './assertion.js';

const PAGE = 12;

/** Parts of an assertion among which one can be chosen. */
const PARTS = {
  scenario: ({ trial }) => trial.scenario,
  size: ({ trial }) => trial.size,
  schedule: ({ trial }) => trial.schedule,
  variant: ({ variant }) => variant,
};

/** Returns the list's element and `show`, which sets the filter and goes there. */
export function verdicts(assertions, filters = {}) {
  const all = assertions
    .slice()
    .sort((a, b) => (a.status === 'fail' ? 0 : 1) - (b.status === 'fail' ? 0 : 1));
  const several = new Set(all.map(({ trial }) => trial.scenario)).size > 1;
  // Counts are of verdicts, as everywhere: an assertion has one on every rank.
  const count = (status) => all.reduce((sum, assertion) => sum + assertion.counts[status], 0);
  const filter = {
    text: '',
    status: '',
    scenario: '',
    size: '',
    schedule: '',
    variant: '',
    ...filters,
  };
  let shown = PAGE;
  const heads = ['verdict', 'variant', 'trial', ['measured'], ['off by']];
  const rows = table('Assertions', 'assertions', heads, []);
  const summary = h('p', { class: 'quiet', role: 'status' });
  const more = h('button', {
    class: 'wide',
    onclick: () => {
      shown = Math.max(100, 2 * shown);
      draw();
    },
  });
  const bar = h('div', { class: 'controls' });

  function matching() {
    const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
    return all.filter(
      (assertion) =>
        (!filter.status || assertion.counts[filter.status] > 0) &&
        Object.entries(PARTS).every(([key, of]) => !filter[key] || of(assertion) === filter[key]) &&
        words.every((word) => assertion.searched.includes(word)),
    );
  }

  function draw() {
    const found = matching();
    refill(
      rows.querySelector('tbody'),
      found.slice(0, shown).map((assertion, place) => assertionRow(assertion, place, several)),
    );
    const verdicts = found.reduce(
      (sum, { count: each, counts }) => sum + (filter.status ? counts[filter.status] : each),
      0,
    );
    summary.textContent =
      found.length === 0
        ? 'No verdict matches.'
        : `${plural(verdicts, 'verdict')}, ${plural(found.length, 'row')}: those that differ in the rank alone share one.`;
    more.hidden = found.length <= shown;
    more.textContent = `Show more of the remaining ${exact(found.length - shown)}`;
  }

  function set(change) {
    Object.assign(filter, change);
    shown = PAGE;
    draw();
  }

  function pickOf([key, of]) {
    const found = [...new Set(all.map(of))].filter(Boolean).map((value) => [value, value]);
    if (found.length < 2) return null;
    const label = key[0].toUpperCase() + key.slice(1);
    return select(label, [['', 'all'], ...found], filter[key], (value) => set({ [key]: value }));
  }

  function statuses() {
    return choice(
      'Status',
      [
        ['', `all ${exact(count('fail') + count('skip') + count('pass'))}`],
        ['fail', `failed ${exact(count('fail'))}`],
        ['skip', `skipped ${exact(count('skip'))}`],
        ['pass', `passed ${exact(count('pass'))}`],
      ],
      filter.status,
      (status) => set({ status }),
    );
  }

  function controls() {
    refill(
      bar,
      new Set(all.map(({ status }) => status)).size > 1 && statuses(),
      Object.entries(PARTS).map(pickOf),
      h(
        'label',
        { class: 'control search' },
        h('span', {}, 'Search'),
        h('input', {
          type: 'search',
          value: filter.text,
          placeholder: 'form/active backward …',
          oninput: (event) => set({ text: event.target.value }),
        }),
      ),
    );
  }

  const list = h('div', { class: 'list' }, bar, summary, rows, more);
  controls();
  draw();
  return {
    element: list,
    show: (change) => {
      set({ text: '', ...change });
      controls();
      list.scrollIntoView({
        behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth',
      });
      list.querySelector('.toggle')?.focus({ preventScroll: true });
    },
  };
}
