// A row a variant: its verdicts under every schedule, and what it saves, predicted beside measured.
import { h } from './dom.js';
import { scroller } from './controls.js';
import { bytes, exact, exactBytes, plural } from './format.js';
import { largestSaving, predicted } from './model.js';

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
  const seen =
    fail > 0 ? `${exact(fail)} of ${exact(pass + fail)} failed` : pass > 0 ? exact(pass) : text;
  const spoken = `${seen}: ${variant} under ${trial.schedule}, ${pass} passed, ${fail} failed, ${skip} skipped. Show them`;
  const onclick = () =>
    show({
      scenario: trial.scenario,
      size: trial.size,
      schedule: trial.schedule,
      variant,
      status: fail > 0 ? 'fail' : '',
    });
  return h(
    'td',
    {},
    h('button', { class: `status ${kind}`, 'aria-label': spoken, title: spoken, onclick }, text),
  );
}

function savingCells(group, variant) {
  const saving = largestSaving(group, variant);
  if (!saving) return [h('td', {}), h('td', {}), h('td', {})];
  const { verdict, of, schedule } = saving;
  const figure = (value, text) =>
    h(
      'td',
      { class: 'figure' },
      h('data', { value, title: exactBytes(value) }, text ?? bytes(value)),
    );
  const one = predicted(verdict);
  return [
    one === null
      ? h(
          'td',
          { class: 'figure quiet' },
          verdict.expected.low === null ? '–' : `≥ ${bytes(verdict.expected.low)}`,
        )
      : figure(one),
    figure(verdict.measured, [
      bytes(verdict.measured),
      h(
        'span',
        { class: `status ${verdict.status}` },
        h('span', { class: 'unseen' }, verdict.status),
      ),
    ]),
    h('td', { class: 'quiet' }, `${of}, ${schedule}`),
  ];
}

/** What stands above the table: parameters, why trials were skipped, which variants broke. */
function notes(group) {
  const skipped = group.trials
    .filter((trial) => trial.skipped)
    .map((trial) => ['skip', 'skipped', `under ${trial.schedule}: ${trial.skipped}`]);
  const errors = group.trials.flatMap((trial) =>
    trial.variants
      .filter((variant) => variant.error)
      .map((variant) => [
        'fail',
        'error',
        `${variant.name} under ${trial.schedule}: ${variant.error}`,
      ]),
  );
  return [...skipped, ...errors].map(([kind, word, text]) =>
    h('p', { class: 'note' }, h('span', { class: `status ${kind}` }, word), ` ${text}`),
  );
}

function about({ first }) {
  return [
    plural(first.ranks, 'rank'),
    first.mode,
    plural(first.steps, 'step'),
    `seed ${first.seed}`,
    ...Object.entries(first.params).map(([name, value]) => `${name} ${value}`),
  ].join(' · ');
}

export function matrix(group, show) {
  const rows = group.variants.slice();
  for (const name of group.trials.flatMap((trial) => [...trial.tallies.keys()])) {
    if (!rows.some((row) => row.name === name)) rows.push({ name, role: '' });
  }
  const col = (text, kind) => h('th', { scope: 'col', class: kind }, text);
  return [
    h('p', { class: 'quiet' }, about(group)),
    notes(group),
    rows.length > 0 &&
      scroller(
        `Verdicts of ${group.title}, ${group.detail}`,
        h(
          'table',
          { class: 'matrix' },
          h(
            'thead',
            {},
            h(
              'tr',
              {},
              col('variant'),
              col('role'),
              group.schedules.map((schedule) => col(schedule)),
              col('saving predicted', 'figure'),
              col('measured', 'figure'),
              col('of, under'),
            ),
          ),
          h(
            'tbody',
            {},
            rows.map(({ name, role }) =>
              h(
                'tr',
                {},
                h('th', { scope: 'row' }, name),
                h('td', { class: 'quiet' }, role),
                group.trials.map((trial) => cell(trial, name, show)),
                savingCells(group, name),
              ),
            ),
          ),
        ),
      ),
  ];
}
