// A row a variant: its verdicts under every schedule, and what it does to the peak of a step, at which price.
import { h } from './dom.js';
import { table } from './controls.js';
import { bytes, exact, exactBytes, plural, signed, unitFor } from './format.js';
import { bestIn, peak, together, variantIn } from './model.js';

function cell(trial, variant, show) {
  const { error, brief, not_run: lost } = variantIn(trial, variant) ?? {};
  const { pass, fail, skip } = trial.tallies.get(variant) ?? { pass: 0, fail: 0, skip: 0 };
  if (error) return h('td', {}, h('span', { class: 'status fail', title: brief }, 'error'));
  if (lost) return h('td', {}, h('span', { class: 'status fail', title: lost }, 'not run'));
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

const bytesIn = (unit, value) =>
  h('td', { class: 'figure' }, h('data', { value, title: exactBytes(value) }, `${unit.format(value)} ${unit.name}`));

/** All rows under the one schedule where a fix saves most, so that they compare. */
function savingCells(best, variant) {
  const saving = best.trial.savings.find(({ fix }) => fix === variant);
  if (!saving) return ['', ''];
  const { before, after, judged } = saving;
  return [
    h(
      'td',
      { class: before === null || before <= after ? 'words quiet' : 'words' },
      saving.saved,
      judged && ' ',
      judged && h('span', { class: `status ${judged}` }, h('span', { class: 'unseen' }, judged)),
    ),
    h('td', { class: 'words quiet' }, saving.price),
  ];
}

/** Peaks in the scenario's statistic: of this run, and of the run beside it with the difference. */
function peakCells(trial, statistic, variant, beside, unit) {
  const record = variantIn(trial, variant);
  const now = peak(record, statistic);
  if (now === null) return beside ? ['', '', ''] : '';
  const before = record.base?.[statistic];
  if (!beside) return bytesIn(unit, now);
  if (before === undefined) return [bytesIn(unit, now), h('td', { class: 'quiet', colspan: 2 }, 'not there')];
  const by = now - before;
  return [
    bytesIn(unit, now),
    bytesIn(unit, before),
    h('td', { class: by === 0 ? 'quiet' : 'figure changed' }, by === 0 ? 'none' : signed(by, bytes)),
  ];
}

/** Notes above the table: why trials were skipped or did not finish, which variants broke. */
function notes(group) {
  const skipped = group.trials
    .filter((trial) => trial.skipped)
    .map((trial) => ['skip', 'skipped', `under ${trial.schedule}: ${trial.skipped}`]);
  const broken = group.trials.flatMap(({ schedule, variants }) =>
    variants.filter(({ error }) => error).map(({ name, brief }) => ({ name, brief, schedule })),
  );
  const errors = together(broken, ({ name, brief }) => `${name}\n${brief}`).map((same) => [
    'fail',
    'error',
    `${same[0].name} under ${same.map(({ schedule }) => schedule).join(', ')}: ${same[0].brief}`,
  ]);
  const shaped = group.trials.flatMap((trial) =>
    trial.variants
      .filter((variant) => variant.shaped)
      .map((variant) => ['skip', 'note', `${variant.name} under ${trial.schedule}: ${variant.shaped}`]),
  );
  const lost = group.trials
    .filter((trial) => trial.not_run)
    .map((trial) => ['fail', 'not run', `under ${trial.schedule} ${trial.not_run}`]);
  return [...skipped, ...lost, ...errors, ...shaped].map(([kind, word, text]) =>
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
  const best = bestIn(group);
  const trial = best?.trial ?? group.first;
  const statistic = best?.saving.statistic ?? 'active';
  const highest = Math.max(0, ...trial.variants.map((variant) => peak(variant, statistic) ?? 0));
  const beside = group.trials.some(({ variants }) => variants.some(({ base }) => base));
  for (const name of group.trials.flatMap((trial) => [...trial.tallies.keys()])) {
    if (!rows.some((row) => row.name === name)) rows.push({ name, role: '' });
  }
  const heads = [
    'variant',
    'role',
    ...group.schedules,
    [`${statistic} peak, ${trial.schedule}`],
    ...(beside ? [['before'], ['change']] : []),
    ...(best ? ['saved', 'price'] : []),
  ];
  const cells = ({ name, role }) => [
    name,
    h('td', { class: 'quiet' }, role),
    ...group.trials.map((one) => cell(one, name, show)),
    ...[peakCells(trial, statistic, name, beside, unitFor(highest))].flat(),
    ...(best ? savingCells(best, name) : []),
  ];
  return [
    h('p', { class: 'quiet' }, about(group)),
    notes(group),
    rows.length > 0 && table(`Verdicts of ${group.title}, ${group.detail}`, 'matrix', heads, rows.map(cells)),
  ];
}
