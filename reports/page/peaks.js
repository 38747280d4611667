// Per variant: the three statistics beside each other, a column a schedule.
import { h } from './dom.js';
import { choice, pick, scroller, section } from './controls.js';
import { exact, exactBytes, unitFor } from './format.js';
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
      levels.map((level, i) =>
        h('data', { value: level, title: `${STATISTICS[i]}: ${exactBytes(level)}` }, format(level)),
      ),
    ),
  );
}

function table(group, { rank }, { phase, units }) {
  const rows = group.variants.map(({ name, role }) => ({
    name,
    role,
    cells: group.schedules.map((schedule) => {
      const variant = variantIn(group, schedule, name);
      return STATISTICS.map((statistic) => peak(variant, statistic, { rank, phase }));
    }),
  }));
  const levels = rows.flatMap((row) => row.cells.flat()).filter((level) => level > 0);
  const largest = Math.max(1, ...levels);
  const unit = unitFor(largest, Math.min(largest, ...levels));
  const format = units === 'bytes' ? exact : unit.format;
  return [
    h(
      'p',
      { class: 'quiet' },
      `Peaks in ${units === 'bytes' ? 'bytes' : unit.name}: allocated, active, reserved. The bars share one scale.`,
    ),
    scroller(
      'Peaks of every variant',
      h(
        'table',
        { class: 'peaks' },
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            h('th', { scope: 'col' }, 'variant'),
            group.schedules.map((schedule) => h('th', { scope: 'col' }, schedule)),
          ),
        ),
        h(
          'tbody',
          {},
          rows.map(({ name, role, cells }) =>
            h(
              'tr',
              {},
              h('th', { scope: 'row' }, name, h('span', { class: 'role' }, role)),
              cells.map((levels, i) => cell(levels, group.schedules[i], largest, format)),
            ),
          ),
        ),
      ),
    ),
  ];
}

function counters(group, { schedule, rank }) {
  const names = [
    ['num_alloc_retries', 'retries'],
    ['num_ooms', 'out of memory'],
    ['num_device_alloc', 'device allocs'],
    ['num_device_free', 'device frees'],
    ['num_sync_all_streams', 'syncs of all streams'],
    ['launches', 'launches'],
    ['synchronisations', 'host syncs'],
  ];
  const rows = group.variants.map(({ name }) => {
    const records = (variantIn(group, schedule, name)?.ranks ?? []).filter(
      (record) => rank === 'worst' || record.rank === rank,
    );
    return [
      name,
      names.map(([key]) =>
        records.length > 0
          ? exact(Math.max(...records.map((record) => record.counters[key])))
          : '–',
      ),
    ];
  });
  return h(
    'details',
    {},
    h('summary', {}, `Allocator and device counters under ${schedule}`),
    scroller(
      'Counters',
      h(
        'table',
        {},
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            h('th', { scope: 'col' }, 'variant'),
            names.map(([, text]) => h('th', { scope: 'col', class: 'figure' }, text)),
          ),
        ),
        h(
          'tbody',
          {},
          rows.map(([name, figures]) =>
            h(
              'tr',
              {},
              h('th', { scope: 'row' }, name),
              figures.map((figure) => h('td', { class: 'figure' }, figure)),
            ),
          ),
        ),
      ),
    ),
  );
}

export function peaks(group, shared) {
  const own = { phase: '', units: 'scaled' };
  const body = h('div', {});
  const draw = () => body.replaceChildren(...table(group, shared, own), counters(group, shared));
  draw();
  return section(
    'peaks',
    'Peaks',
    null,
    h(
      'ul',
      { class: 'legend' },
      STATISTICS.map((name) =>
        h(
          'li',
          { class: name },
          h('i', { class: 'swatch' }),
          ` ${name} `,
          h('span', { class: 'quiet' }, WHAT[name]),
        ),
      ),
    ),
    h(
      'div',
      { class: 'controls' },
      pick(
        'Phase',
        [['', 'whole step'], ...phasesOf(group).map((name) => [name, name])],
        '',
        (phase) => {
          own.phase = phase;
          draw();
        },
      ),
      choice(
        'Figures',
        [
          ['scaled', 'rounded'],
          ['bytes', 'every byte'],
        ],
        'scaled',
        (units) => {
          own.units = units;
          draw();
        },
      ),
    ),
    body,
  );
}
