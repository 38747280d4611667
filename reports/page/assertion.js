// One assertion as a row that opens to its formula with values, every rank, and the command that runs it again.
import { h, freshId } from './dom.js';
import { copyable, table } from './controls.js';
import { bytes, duration, exact, exactBytes, rankList, signed } from './format.js';
import { offBy } from './model.js';

const OPEN = 1; // failures that explain themselves at once

function withUnit(value, unit) {
  if (value === null || value === undefined) return 'no value';
  if (unit === 'ns') return duration(value);
  return unit === 'bytes' && Math.abs(value) >= 1024 ? `${bytes(value)} = ${exactBytes(value)}` : `${exact(value)} ${unit}`;
}

function bounds({ expected: { low, high }, unit }) {
  if (low !== null && low === high) return withUnit(low, unit);
  if (low !== null && high !== null) return `${exact(low)} to ${withUnit(high, unit)}`;
  if (low !== null) return `at least ${withUnit(low, unit)}`;
  return high !== null ? `at most ${withUnit(high, unit)}` : '–';
}

function difference(verdict) {
  const by = verdict.measured === null ? 0 : offBy(verdict);
  return by === 0 ? '' : signed(by);
}

function details({ trial, verdicts }) {
  const [spokesman] = verdicts;
  const { formula, values } = spokesman.expected;
  const row = (term, ...content) =>
    content.some((part) => part && part.length !== 0) && [h('dt', {}, term), h('dd', {}, content)];
  const perRank = verdicts
    .slice()
    .sort((a, b) => a.rank - b.rank)
    .map((verdict) => [
      String(verdict.rank),
      verdict.status,
      bounds(verdict),
      withUnit(verdict.measured, verdict.unit),
      difference(verdict) || '0',
    ]);
  return h(
    'dl',
    { class: 'details' },
    row('Explanation', spokesman.why),
    row(
      'Formula',
      formula && h('code', {}, formula),
      values.length > 0 &&
        h(
          'ul',
          { class: 'values' },
          values.map(([name, value]) => h('li', {}, h('code', {}, name), ` = ${exact(value)}`)),
        ),
    ),
    spokesman.slack ? row('Slack', withUnit(spokesman.slack, spokesman.unit)) : null,
    row(
      verdicts.length > 1 ? 'Every rank' : 'Figures',
      table(`${spokesman.name} on every rank`, '', ['rank', 'status', 'expected', 'measured', 'off by'], perRank),
    ),
    row('Run it again', copyable(trial.command)),
  );
}

/** `named`: the row says which scenario it is of. */
export function assertionRow(assertion, place, named) {
  const { trial, name, variant, status, verdicts } = assertion;
  const id = freshId('details');
  const slot = h('td', { colspan: 5 });
  const more = h('tr', { class: 'more', id, hidden: true }, slot);
  const show = (open) => {
    if (open && !slot.firstChild) slot.append(details(assertion));
    more.hidden = !open;
    toggle.setAttribute('aria-expanded', String(open));
  };
  const toggle = h(
    'button',
    {
      class: 'toggle',
      'aria-expanded': 'false',
      'aria-controls': id,
      onclick: () => show(more.hidden),
    },
    h('span', { class: `mark ${status}` }, status),
    h('span', { class: 'name' }, name),
  );
  if (status === 'fail' && place < OPEN) show(true);
  const concerned = verdicts
    .filter((verdict) => verdict.status === status)
    .map((verdict) => verdict.rank)
    .sort((a, b) => a - b);
  return [
    h(
      'tr',
      { class: `assertion ${status}` },
      h('th', { scope: 'row' }, toggle),
      h('td', {}, variant),
      h(
        'td',
        { class: 'quiet' },
        `${named ? `${trial.scenario} / ` : ''}${trial.size} · ${trial.schedule} · ${rankList(concerned)}`,
      ),
      h('td', { class: 'figure' }, withUnit(verdicts[0].measured, verdicts[0].unit)),
      h('td', { class: 'figure off' }, difference(verdicts[0])),
    ),
    more,
  ];
}
