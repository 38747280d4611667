// Public sources of a scenario's waste, and their measured savings beside those of the same two variants here.
import { h } from './dom.js';
import { section, table } from './controls.js';
import { exactBytes, unitFor } from './format.js';

/** A link: the reader of report.json takes none that does not begin with https://. */
const linked = ({ name, link }) => (link ? h('a', { href: link, rel: 'noreferrer' }, name) : name);

/** The public reports that a scenario repeats; `seen`: empty in files before version 3.2. */
export function sources(seen) {
  if (!seen || seen.length === 0) return null;
  return h(
    'div',
    { class: 'seen' },
    h('p', {}, 'Where it was seen:'),
    h('ul', {}, seen.map((source) => h('li', {}, linked(source), `: ${source.what}`))),
  );
}

function here({ before_bytes: before, after_bytes: after }) {
  if (before === undefined || after === undefined) return 'not measured here: the two variants did not both run';
  const unit = unitFor(Math.max(before, after));
  const amount = (value) => h('data', { value, title: exactBytes(value) }, unit.format(value));
  const percent = before > 0 ? Math.round((100 * (before - after)) / before) : 0;
  return [amount(before), ' → ', amount(after), ` ${unit.name}: ${percent} %`];
}

export function published({ trial }) {
  if (!trial.published || trial.published.length === 0) return null;
  const source = (name) => trial.seen.find((one) => one.name === name) ?? { name };
  return section(
    'published',
    'Figures of others',
    `Savings that the sources give, and those of the same two variants in this trial: ${trial.statistic ?? 'allocated'} memory at its highest in the last step, worst rank, under ${trial.schedule}. Where a source does not give its model and layout, the two need not be equal.`,
    table(
      'Published savings',
      'published',
      ['whose', 'of what', 'published', 'variants', 'here'],
      trial.published.map((one) => [linked(source(one.source)), one.what, one.value, `${one.from} → ${one.to}`, h('td', {}, here(one))]),
    ),
  );
}
