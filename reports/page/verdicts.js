// Every assertion, what failed first; each opens to its formula with values and the command that runs it again.
import { h, freshId } from './dom.js';
import { choice, section, select } from './controls.js';
import { duration, exact, plural, rankList } from './format.js';
import { assertionsOf } from './model.js';
import { overview } from './overview.js';

const PAGE = 12;
const OPEN = 1; // failures that explain themselves at once

function withUnit(value, unit) {
  if (value === null || value === undefined) return 'no value';
  return unit === 'ns' ? duration(value) : `${exact(value)} ${unit}`;
}

function bounds({ expected: { low, high }, unit }) {
  if (low !== null && low === high) return withUnit(low, unit);
  if (low !== null && high !== null) return `${exact(low)} to ${withUnit(high, unit)}`;
  if (low !== null) return `at least ${withUnit(low, unit)}`;
  return high !== null ? `at most ${withUnit(high, unit)}` : '–';
}

function difference({ measured, expected: { low, high } }) {
  if (measured === null) return '';
  const by = high !== null && measured > high ? measured - high : low !== null && measured < low ? measured - low : 0;
  return by === 0 ? '' : `${by > 0 ? '+' : '−'}${exact(Math.abs(by))}`;
}

function copyable(command) {
  const button = h('button', { class: 'copy', onclick: async () => {
    try {
      await navigator.clipboard.writeText(command);
      button.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(code); // a page opened from a file may not reach the clipboard
      button.textContent = 'Selected';
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  } }, 'Copy');
  const code = h('code', {}, command);
  return h('div', { class: 'command' }, code, button);
}

function details({ trial, verdicts }) {
  const [spokesman] = verdicts;
  const { formula, values } = spokesman.expected;
  const row = (term, ...content) => content.some((part) => part && part.length !== 0) && [h('dt', {}, term), h('dd', {}, content)];
  const perRank = h('table', {}, h('thead', {}, h('tr', {}, ['rank', 'status', 'expected', 'measured', 'off by'].map((name) => h('th', { scope: 'col' }, name)))),
    h('tbody', {}, verdicts.slice().sort((a, b) => a.rank - b.rank).map((verdict) => h('tr', {}, h('td', {}, verdict.rank), h('td', {}, verdict.status),
      h('td', {}, bounds(verdict)), h('td', {}, withUnit(verdict.measured, verdict.unit)), h('td', {}, difference(verdict) || '0')))));
  return h('dl', { class: 'details' },
    row('Why', spokesman.why),
    row('Formula', formula && h('code', {}, formula),
      Object.keys(values).length > 0 && h('ul', { class: 'values' }, Object.entries(values).map(([name, value]) =>
        h('li', {}, h('code', {}, name), ` = ${exact(value)}`)))),
    spokesman.slack ? row('Slack', withUnit(spokesman.slack, spokesman.unit)) : null,
    row(verdicts.length > 1 ? 'Every rank' : 'Figures', h('div', { class: 'scroller' }, perRank)),
    row('Run it again', copyable(trial.command)));
}

function assertionRow(assertion, place) {
  const { trial, name, variant, status, verdicts } = assertion;
  const id = freshId('details');
  const slot = h('td', { colspan: 5 });
  const more = h('tr', { class: 'more', id, hidden: true }, slot);
  const show = (open) => {
    if (open && !slot.firstChild) slot.append(details(assertion));
    more.hidden = !open;
    toggle.setAttribute('aria-expanded', String(open));
  };
  const toggle = h('button', { class: 'toggle', 'aria-expanded': 'false', 'aria-controls': id, onclick: () => show(more.hidden) }, h('span', { class: `mark ${status}` }, status), h('span', { class: 'name' }, name));
  if (status === 'fail' && place < OPEN) show(true);
  const concerned = verdicts.filter((verdict) => verdict.status === status).map((verdict) => verdict.rank).sort((a, b) => a - b);
  return [h('tr', { class: `assertion ${status}` }, h('th', { scope: 'row' }, toggle), h('td', {}, variant),
    h('td', { class: 'quiet' }, `${trial.size} · ${trial.schedule} · ${rankList(concerned)}`),
    h('td', { class: 'figure' }, withUnit(verdicts[0].measured, verdicts[0].unit)),
    h('td', { class: 'figure off' }, difference(verdicts[0]))), more];
}

export function verdicts(report, groups) {
  const all = assertionsOf(report);
  const count = (status) => all.filter((assertion) => assertion.status === status).length;
  const filter = { text: '', status: '', scenario: '', size: '', schedule: '', variant: '' };
  let shown = PAGE;
  const body = h('tbody', {});
  const summary = h('p', { class: 'quiet', role: 'status' });
  const more = h('button', { class: 'wide', onclick: () => { shown = Math.max(100, 2 * shown); draw(); } });
  const bar = h('div', { class: 'controls' });

  function matches({ trial, name, variant, status, verdicts: [first] }) {
    return (!filter.status || status === filter.status) && (!filter.variant || variant === filter.variant)
      && ['scenario', 'size', 'schedule'].every((key) => !filter[key] || trial[key] === filter[key])
      && filter.text.toLowerCase().split(/\s+/).every((word) =>
        `${trial.scenario}/${trial.size} ${trial.mode} ${trial.schedule} ${variant} ${name} ${first.why}`.toLowerCase().includes(word));
  }

  function draw() {
    const found = all.filter(matches);
    body.replaceChildren(...found.slice(0, shown).flatMap((assertion, place) => assertionRow(assertion, place)));
    const ranks = found.reduce((sum, { verdicts: each }) => sum + each.length, 0);
    summary.textContent = found.length === 0 ? 'No verdict matches.'
      : `${plural(found.length, 'assertion')}, ${plural(ranks, 'verdict')} with every rank counted.`;
    more.hidden = found.length <= shown;
    more.textContent = `Show more of the remaining ${exact(found.length - shown)}`;
  }

  function set(change) {
    Object.assign(filter, change);
    shown = PAGE;
    draw();
  }

  function options(key, of) {
    return [['', 'all'], ...[...new Set(all.map(of))].filter(Boolean).map((value) => [value, value])];
  }

  function controls() {
    const picks = [['scenario', ({ trial }) => trial.scenario], ['size', ({ trial }) => trial.size],
      ['schedule', ({ trial }) => trial.schedule], ['variant', ({ variant }) => variant]];
    bar.replaceChildren(
      choice('Status', [['', `all ${exact(all.length)}`], ['fail', `failed ${exact(count('fail'))}`], ['skip', `skipped ${exact(count('skip'))}`],
        ['pass', `passed ${exact(count('pass'))}`]], filter.status, (status) => set({ status })),
      ...picks.map(([key, of]) => [key, options(key, of)]).filter(([, found]) => found.length > 2)
        .map(([key, found]) => select(key[0].toUpperCase() + key.slice(1), found, filter[key], (value) => set({ [key]: value }))),
      h('label', { class: 'control search' }, h('span', {}, 'Search'), h('input', { type: 'search', value: filter.text,
        placeholder: 'memory/active backward …', oninput: (event) => set({ text: event.target.value }) })));
  }

  const list = h('div', { class: 'list' }, bar, summary,
    h('div', { class: 'scroller' }, h('table', { class: 'assertions' }, h('thead', {}, h('tr', {},
      ['verdict', 'variant', 'trial', 'measured', 'off by'].map((name, i) => h('th', { scope: 'col', class: i > 2 && 'figure' }, name)))), body)), more);
  controls();
  draw();
  return section('verdicts', 'Verdicts', 'Each figure is what a closed form says, per rank and phase. A control passes when the harness has caught it.',
    overview(groups, (change) => {
      set({ text: '', ...change });
      controls();
      list.scrollIntoView({ behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth' });
    }), list);
}
