// What passed, at one glance: a row a variant, a column a schedule.
import { h } from './dom.js';
import { scroller } from './controls.js';
import { exact, plural } from './format.js';

function cell(trial, variant, show) {
  const error = trial.variants.find(({ name }) => name === variant)?.error;
  const { pass, fail, skip } = trial.tallies.get(variant) ?? { pass: 0, fail: 0, skip: 0 };
  if (error) return h('td', {}, h('span', { class: 'status fail', title: error }, 'error'));
  if (pass + fail + skip === 0) return h('td', { class: 'quiet' }, '–');
  const [kind, text] =
    fail > 0
      ? ['fail', [exact(fail), h('span', { class: 'long' }, ` of ${exact(pass + fail)} failed`)]]
      : pass > 0
        ? ['pass', exact(pass)]
        : ['skip', `${exact(skip)} skipped`];
  const spoken = `${variant} under ${trial.schedule}: ${pass} passed, ${fail} failed, ${skip} skipped. Show them`;
  return h(
    'td',
    {},
    h(
      'button',
      {
        class: `status ${kind}`,
        'aria-label': spoken,
        title: spoken,
        onclick: () =>
          show({
            scenario: trial.scenario,
            size: trial.size,
            schedule: trial.schedule,
            variant,
            status: fail > 0 ? 'fail' : '',
          }),
      },
      text,
    ),
  );
}

export function overview(groups, show) {
  return groups.map((group) => {
    const { first } = group;
    const about = [
      plural(first.ranks, 'rank'),
      first.mode,
      plural(first.steps, 'step'),
      `seed ${first.seed}`,
      ...Object.entries(first.params).map(([name, value]) => `${name} ${value}`),
    ].join(' · ');
    const head = h('header', {}, h('h3', {}, group.title), h('p', { class: 'quiet' }, about));
    const reasons = group.trials
      .filter((trial) => trial.skipped)
      .map((trial) =>
        h(
          'p',
          { class: 'note' },
          h('span', { class: 'status skip' }, 'skipped'),
          ` under ${trial.schedule}: ${trial.skipped}`,
        ),
      );
    const errors = group.trials.flatMap((trial) =>
      trial.variants
        .filter((variant) => variant.error)
        .map((variant) =>
          h(
            'p',
            { class: 'note' },
            h('span', { class: 'status fail' }, 'error'),
            ` ${variant.name} under ${trial.schedule}: ${variant.error}`,
          ),
        ),
    );
    const names = group.variants.slice();
    for (const variant of group.trials.flatMap((trial) => [...trial.tallies.keys()])) {
      if (!names.some(({ name }) => name === variant)) names.push({ name: variant, role: '' });
    }
    const table =
      names.length > 0 &&
      scroller(
        `Verdicts of ${group.title}`,
        h(
          'table',
          { class: 'matrix' },
          h(
            'thead',
            {},
            h(
              'tr',
              {},
              h('th', { scope: 'col' }, 'variant'),
              h('th', { scope: 'col' }, 'role'),
              group.schedules.map((schedule) => h('th', { scope: 'col' }, schedule)),
            ),
          ),
          h(
            'tbody',
            {},
            names.map(({ name, role }) =>
              h(
                'tr',
                {},
                h('th', { scope: 'row' }, name),
                h('td', { class: 'quiet' }, role),
                group.trials.map((trial) => cell(trial, name, show)),
              ),
            ),
          ),
        ),
      );
    return h('article', { class: 'group' }, head, reasons, errors, table);
  });
}
