// Per variant: the three statistics beside each other, a column a schedule.
import { h } from './dom.js';
import { named, pick, section, steered, table } from './controls.js';
import { legend } from './frame.js';
import { exactBytes, unitFor } from './format.js';
import { STATISTICS, peak, phasesOf, variantIn } from './model.js';

const WHAT = {
  allocated: 'held by tensors',
  active: 'allocated, or freed and awaiting a stream',
  reserved: 'taken from the device',
};

function cell(levels, schedule, largest, format) {
  if (levels.some((level) => level === null))
    return h('td', { class: 'quiet', 'data-schedule': schedule }, '–');
  const share = (level) => `${((100 * level) / largest).toFixed(2)}%`;
  return h(
    'td',
    { class: 'levels', 'data-schedule': schedule },
    h(
      'div',
      { class: 'bar' },
      [2, 1, 0].map((i) => h('i', { class: STATISTICS[i], style: `width:${share(levels[i])}` })),
    ),
    h(
      'div',
      { class: 'figures' },
      levels.flatMap((level, i) => [
        i > 0 && ' / ',
        h('data', { value: level, title: `${STATISTICS[i]}: ${exactBytes(level)}` }, format(level)),
      ]),
    ),
  );
}

function peaksTable(group, { rank }, { phase }) {
  const rows = group.variants.map(({ name, role }) => ({
    name,
    role,
    cells: group.trials.map((trial) => {
      const variant = variantIn(trial, name);
      return STATISTICS.map((statistic) => peak(variant, statistic, { rank, phase }));
    }),
  }));
  const levels = rows.flatMap((row) => row.cells.flat()).filter((level) => level > 0);
  const largest = Math.max(1, ...levels);
  const unit = unitFor(largest, Math.min(largest, ...levels));
  return [
    h(
      'p',
      { class: 'quiet' },
      `Peaks in ${unit.name}: allocated, active, reserved. The bars share one scale.`,
    ),
    table(
      'Peaks of every variant',
      'peaks',
      ['variant', ...group.schedules],
      rows.map(({ name, role, cells }) => [
        named(name, role),
        ...cells.map((levels, i) => cell(levels, group.schedules[i], largest, unit.format)),
      ]),
    ),
  ];
}

export function peaks(group, shared) {
  const own = { phase: '' };
  return section(
    'peaks',
    'Peaks',
    null,
    legend(STATISTICS.map((name) => ({ tone: name, name, note: WHAT[name] }))),
    steered(
      own,
      (set) => [pick('Phase', [['', 'whole step'], ...phasesOf(group).map((name) => [name, name])], '', set('phase'))],
      () => peaksTable(group, shared, own),
    ),
  );
}
