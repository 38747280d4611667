// The page: an overview, a page a scenario and a list of all assertions, chosen by what follows # in the address.
import { h } from './dom.js';
import { load } from './data.js';
import { bytes, duration, exact, plural } from './format.js';
import { groupsOf, scenariosOf, tallyOf } from './model.js';
import { overview, statusOf } from './overview.js';
import { setCard } from './card.js';
import { copyable, section } from './controls.js';
import { scenarioPage } from './scenario.js';
import { verdicts } from './verdicts.js';

/** With a capital, unless it begins with the name of a scenario. */
const sentence = (line) => (/^[a-z, ]+:/.test(line) ? line[0].toUpperCase() + line.slice(1) : line);

function top(report) {
  const { run, gaps, fits } = report;
  const [kind, text, counts] = report.headline;
  const facts = [
    counts,
    run.device.profile,
    run.torch && `torch ${run.torch}`,
    run.started.replace('T', ' ').replace('Z', ' UTC'),
  ].filter(Boolean);
  return h(
    'header',
    { class: 'top' },
    h('h1', { class: kind, tabindex: -1 }, text),
    h('p', { class: 'facts' }, facts.join(' · ')),
    [...(run.faults_not_happened ?? []), ...gaps, ...fits].map((line) =>
      h('p', { class: 'gap' }, `${sentence(line)}.`),
    ),
    run.device.sharing &&
      h('p', { class: 'virtual sharing' }, `${run.device.sharing[0].toUpperCase()}${run.device.sharing.slice(1)}.`),
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
      row('Command', run.argv.length > 0 && copyable(run.argv.join(' '))),
      row('Run', run.id),
      row('Started', run.started),
      row('Took', run.duration_ns > 0 && `${duration(run.duration_ns)} of wall time`),
      row('Device', device),
      row(
        'Held against',
        run.device.kind === 'virtual' &&
          "other people's recordings of PyTorch's allocator on real GPUs, event by event: reports/measured/README.md",
      ),
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

/** #/ or #/scenario?trial=0&schedule=lagging&rank=worst or #/-/assertions?variant=stash */
function addressOf(hash) {
  const [path, query = ''] = hash.replace(/^#?\/?/, '').split('?');
  const fields = new URLSearchParams(query);
  const [first = '', second = ''] = path.split('/').map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return '';
    }
  });
  return {
    scenario: first === '-' ? '' : first,
    all: first === '-' && second === 'assertions',
    fields,
  };
}

const to = (name, fields) => {
  const query = new URLSearchParams(fields).toString();
  return `#/${encodeURIComponent(name)}${query && `?${query}`}`;
};
const toAll = (fields) => `#/-/assertions?${new URLSearchParams(fields)}`;

function navigation(scenarios, here) {
  const item = (text, href, current, status) =>
    h(
      'li',
      {},
      h(
        'a',
        { href, 'aria-current': current && 'page' },
        status &&
          h('span', { class: `status ${status}` }, h('span', { class: 'unseen' }, `${status}: `)),
        text,
      ),
    );
  return h(
    'nav',
    { 'aria-label': 'Pages of this report' },
    h('p', { class: 'mark-of-tool' }, h('a', { href: '#/' }, 'tidemark')),
    h(
      'ul',
      {},
      item('Overview', '#/', !here.scenario && !here.all),
      scenarios.map(({ name, groups }) =>
        item(
          name,
          to(name),
          here.scenario === name,
          statusOf(tallyOf(groups.flatMap(({ trials }) => trials))),
        ),
      ),
      item('All verdicts', '#/-/assertions', here.all),
    ),
  );
}

function worst(report) {
  const failed = report.trials.flatMap((trial) =>
    trial.assertions.filter(({ status }) => status === 'fail'),
  );
  const errors = report.broken.map(({ scenario, size, variants, schedules, brief, full }) =>
    h(
      'li',
      { class: 'note' },
      h('span', { class: 'status fail' }, 'error'),
      ` ${scenario} / ${size}, ${variants.join(', ')} under ${schedules.join(', ')}: ${brief}`,
      full !== brief && h('details', {}, h('summary', {}, 'The full text'), h('p', { class: 'quiet' }, full)),
    ),
  );
  const causes = report.causes.map(({ scenario, size, variant, count, why }) =>
    h(
      'li',
      { class: 'note' },
      h('span', { class: 'status fail' }, `${plural(count, 'verdict')} failed`),
      ` ${scenario} / ${size}, ${variant}: ${why}`,
    ),
  );
  if (failed.length === 0 && errors.length === 0) return null;
  return section(
    'failed',
    'What failed',
    null,
    errors.length > 0 && h('ul', { class: 'plain' }, errors.slice(0, 20)),
    errors.length > 20 && h('p', { class: 'quiet' }, `and ${exact(errors.length - 20)} more`),
    causes.length > 0 && h('ul', { class: 'plain' }, causes.slice(0, 20)),
    failed.length > 0 && verdicts(failed, {}).element,
  );
}

function contents(report, scenarios, here) {
  const found = scenarios.find(({ name }) => name === here.scenario);
  const fields = Object.fromEntries(here.fields);
  if (found) {
    const number = (text) => (/^\d+$/.test(text ?? '') ? Number(text) : undefined);
    const wanted = {
      trial: number(fields.trial),
      schedule: fields.schedule,
      rank: number(fields.rank),
    };
    const keep = (shown) => history.replaceState(null, '', to(found.name, shown));
    return scenarioPage(found, wanted, keep, report.run.device.kind === 'virtual');
  }
  if (here.all) {
    const left =
      report.left_out > 0 &&
      `${plural(report.left_out, 'row')} of verdicts that passed are only in report.json.`;
    const { element } = verdicts(
      report.trials.flatMap((trial) => trial.assertions),
      fields,
    );
    return [
      h(
        'header',
        { class: 'top' },
        h('h1', { tabindex: -1 }, 'All verdicts'),
        left && h('p', { class: 'facts' }, left),
      ),
      element,
    ];
  }
  const unknown =
    here.scenario &&
    h('p', { class: 'note missing' }, `This report has no scenario “${here.scenario}”. It has: ${scenarios.map(({ name }) => name).join(', ')}.`);
  return [
    unknown,
    top(report),
    worst(report),
    scenarios.length > 0 &&
      overview(
        scenarios,
        (name, group) =>
          to(
            name,
            group && { trial: scenarios.find((one) => one.name === name).groups.indexOf(group) },
          ),
        (filters) => {
          location.hash = toAll(filters);
        },
        report.controls,
      ),
    provenance(report),
  ]
    .flat()
    .filter(Boolean);
}

async function start() {
  const report = await load();
  setCard(report.run);
  const groups = groupsOf(report);
  const scenarios = scenariosOf([
    ...groups.filter(({ ran }) => ran),
    ...groups.filter(({ ran }) => !ran),
  ]);
  document.title = `tidemark: ${report.headline[1]}`;
  const page = document.getElementById('page');
  const header = document.getElementById('pages');
  const show = (moved) => {
    const here = addressOf(location.hash);
    header.replaceChildren(navigation(scenarios, here));
    page.replaceChildren(...contents(report, scenarios, here));
    if (!moved) return;
    scrollTo(0, 0);
    page.querySelector('h1')?.focus({ preventScroll: true });
  };
  addEventListener('hashchange', () => show(true));
  show(false);
}

start().catch((error) => {
  const text = `This report cannot be shown: ${error.message}. Its figures are in report.json and summary.md beside it.`;
  document.getElementById('page').append(h('p', { class: 'empty' }, text));
  throw error;
});
