// The page: verdicts of everything, then the memory of one group of trials at a time.
import { h } from './dom.js';
import { pick, section, select } from './controls.js';
import { bytes, duration, exact, plural } from './format.js';
import { groupsOf, load, tellingSchedule } from './model.js';
import { verdicts } from './verdicts.js';
import { peaks } from './peaks.js';
import { savings } from './saving.js';
import { composition, timeline } from './timeline.js';
import { losses, races, runAhead, stepTimes } from './curves.js';

function headline({ passed, failed, skipped }, errors) {
  if (errors > 0) return ['fail', `${plural(errors, 'variant')} ended in error`];
  if (failed > 0)
    return ['fail', `${exact(failed)} of ${plural(passed + failed, 'verdict')} failed`];
  if (passed > 0)
    return [
      'pass',
      passed === 1 ? 'The one verdict passed' : `All ${exact(passed)} verdicts passed`,
    ];
  return ['skip', skipped > 0 ? 'Nothing was judged' : 'Nothing ran'];
}

function top(report) {
  const { run, summary, trials } = report;
  const errors = trials
    .flatMap((trial) => trial.variants)
    .filter((variant) => variant.error).length;
  const [kind, text] = headline(summary, errors);
  const facts = [
    summary.skipped > 0 && `${exact(summary.skipped)} skipped`,
    plural(trials.length, 'trial'),
    run.device.profile,
    run.torch && `torch ${run.torch}`,
    run.started.replace('T', ' ').replace('Z', ' UTC'),
  ].filter(Boolean);
  return h(
    'header',
    { class: 'top' },
    h('p', { class: 'mark-of-tool' }, 'tidemark'),
    h('h1', { class: kind }, text),
    h('p', { class: 'facts' }, facts.join(' · ')),
    run.device.kind === 'virtual' &&
      h(
        'p',
        { class: 'virtual' },
        h('b', {}, 'Virtual device.'),
        " Memory is PyTorch's own CUDA allocator, to the byte. Times are those of a virtual clock, not of hardware.",
      ),
  );
}

function provenance({ run }) {
  const row = (term, value) => value && [h('dt', {}, term), h('dd', {}, value)];
  const device = [
    run.device.kind,
    run.device.profile,
    run.device.capacity_bytes > 0 && bytes(run.device.capacity_bytes),
  ]
    .filter(Boolean)
    .join(', ');
  return section(
    'provenance',
    'Provenance',
    null,
    h(
      'dl',
      { class: 'provenance' },
      row('Command', run.argv.length > 0 && h('code', {}, run.argv.join(' '))),
      row('Run', run.id),
      row('Started', run.started),
      row('Took', run.duration_ns > 0 && `${duration(run.duration_ns)} of wall time`),
      row('Device', device),
      row('Host', run.host),
      row('tidemark', run.tidemark),
      row('Commit', run.git && h('code', {}, run.git)),
      row('torch', run.torch),
      row('NCCL', run.nccl),
      row('MPI', run.mpi),
      Object.entries(run.env).map(([name, value]) => row(name, h('code', {}, value))),
    ),
  );
}

/** Sections on one group; the bar chooses group, schedule and rank for all of them. */
function memory(groups, virtual) {
  const shared = {};
  const bar = h('div', {
    class: 'controls bar',
    role: 'group',
    'aria-label': 'What the sections below show',
  });
  const body = h('div', {});

  function draw() {
    const { group } = shared;
    body.replaceChildren(
      ...[
        peaks(group, shared),
        savings(group, shared),
        timeline(group, shared),
        composition(group, shared),
        runAhead(group),
        losses(group, shared),
        stepTimes(group, virtual),
        races(group, shared),
      ].filter(Boolean),
    );
  }

  function choose(group) {
    const ranks = [
      ...new Set(
        group.trials.flatMap((trial) =>
          trial.variants.flatMap((variant) => variant.ranks.map((record) => record.rank)),
        ),
      ),
    ].sort((a, b) => a - b);
    Object.assign(shared, { group, schedule: tellingSchedule(group), rank: 'worst' });
    const set = (change) => {
      Object.assign(shared, change);
      draw();
    };
    bar.replaceChildren(
      ...[
        groups.length > 1 &&
          select(
            'Trial',
            groups.map((one) => [one, `${one.title}, ${one.detail}`]),
            group,
            choose,
          ),
        pick(
          'Schedule',
          group.schedules.map((name) => [name, name]),
          shared.schedule,
          (schedule) => set({ schedule }),
        ),
        ranks.length > 1 &&
          pick(
            'Rank',
            [['worst', 'worst'], ...ranks.map((rank) => [rank, String(rank)])],
            'worst',
            (rank) => set({ rank }),
          ),
      ].filter(Boolean),
    );
    draw();
  }

  choose(groups[0]);
  return h('div', { class: 'memory' }, bar, body);
}

async function start() {
  const report = await load();
  const all = groupsOf(report);
  const ran = all.filter((group) => group.ran);
  const groups = [...ran, ...all.filter((group) => !group.ran)];
  document.title = `tidemark: ${report.summary.failed > 0 ? `${report.summary.failed} failed` : `${report.summary.passed} passed`}`;
  document
    .getElementById('page')
    .append(
      ...[
        top(report),
        groups.length > 0 && verdicts(report, groups),
        ran.length > 0 && memory(ran, report.run.device.kind === 'virtual'),
        provenance(report),
      ].filter(Boolean),
    );
}

start().catch((error) => {
  const text = `This report cannot be shown: ${error.message}. Its figures are in report.json and summary.md beside it.`;
  document.getElementById('page').append(h('p', { class: 'empty' }, text));
  throw error;
});
