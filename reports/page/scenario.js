// The page of one scenario: the bar chooses trial, schedule and rank for every section below it.
import { h, refill } from './dom.js';
import { labelled, pick, section, select, table } from './controls.js';
import { baselineOf, savingOf, tellingGroup, tellingSchedule } from './model.js';
import { matrix } from './matrix.js';
import { peaks } from './peaks.js';
import { savings } from './saving.js';
import { published, sources } from './seen.js';
import { symbols } from './symbols.js';
import { growth } from './growth.js';
import { formulas } from './formula.js';
import { losses } from './loss.js';
import { cost } from './cost.js';
import { hardware } from './hardware.js';
import { races } from './races.js';
import { findingText, savingText, storyOf, storySection } from './story.js';
import { verdicts } from './verdicts.js';

function ranksOf(group) {
  const ranks = group.trials.flatMap((trial) =>
    trial.variants.flatMap((variant) => variant.ranks.map((record) => record.rank)),
  );
  return [...new Set(ranks)].sort((a, b) => a - b);
}

/** Why there is this scenario, and what each variant does. */
function aboutOf(groups) {
  const trials = groups.flatMap((group) => group.trials);
  const story = trials.find((trial) => trial.story)?.story;
  const seen = trials.find((trial) => trial.seen)?.seen;
  const said = new Map();
  for (const { name, what } of trials.flatMap((trial) => trial.variants))
    if (what && !said.has(name)) said.set(name, what);
  if (!story && !seen && said.size === 0) return null;
  return [
    story && h('p', { class: 'story' }, story),
    sources(seen),
    said.size > 0 &&
      h(
        'details',
        {},
        h('summary', {}, 'What each variant does'),
        h(
          'dl',
          { class: 'provenance' },
          [...said].map(([variant, what]) => [h('dt', {}, variant), h('dd', {}, what)]),
        ),
      ),
  ];
}

/** An entry of the contents: the address belongs to the pages, so it scrolls. */
const entry = (title) =>
  h('li', {}, h('button', { class: 'link', onclick: () => title.parentElement.scrollIntoView() }, title.textContent));

const READ_BY = [
  ['trace', 'Perfetto (ui.perfetto.dev): streams, collectives, waits, run-ahead of the host'],
  ['snapshot', 'pytorch.org/memory_viz or tidemark snapshot show: segments, blocks, and what allocated them'],
  ['losses', 'any text editor: one line for each step'],
];

/** Links to the files beside report.html. */
function files({ trial }) {
  const rows = trial.variants
    .map((variant) => [variant.name, variant.files])
    .filter(([, all]) => all.length > 0);
  if (rows.length === 0) return null;
  return section(
    'files',
    'Files for other tools',
    `Of the variants under ${trial.schedule}, in the folder of this page.`,
    table(
      'Files of every variant',
      '',
      ['variant', 'files'],
      rows.map(([name, all]) => [name, h('td', {}, all.map(([what, path]) => [h('a', { href: path }, what), ' ']))]),
    ),
    READ_BY.filter(([kind]) => rows.some(([, all]) => all.some(([what]) => what.startsWith(kind)))).map(([kind, what]) =>
      h('p', { class: 'quiet' }, `A ${kind === 'losses' ? 'file of losses' : kind} opens in ${what}.`),
    ),
  );
}

/** `wanted`: {trial, schedule, rank, fix} of the address; `keep` is told what is shown, for the address. */
export function scenarioPage({ name, groups, outcome }, wanted, keep, { device }) {
  const bar = h('div', {
    class: 'controls bar',
    role: 'group',
    'aria-label': 'What this page shows',
  });
  const top = h('header', { class: 'top' });
  const tale = h('div', {});
  const body = h('div', { class: 'memory' });
  const list = h('ul', {});
  const contents = h('nav', { class: 'contents', 'aria-label': 'Contents of this page' }, list);
  const shared = {};
  const all = formulas(groups); // of every trial: made once
  const about = aboutOf(groups);

  function drawStory() {
    const { group, trial, fix } = shared;
    const story = storyOf(trial, fix);
    refill(
      top,
      h('h1', { tabindex: -1 }, findingText(name, story)),
      story && h('p', { class: 'lede' }, savingText(story)),
      h(
        'p',
        { class: 'facts' },
        `${group.title}, ${group.detail}, ${trial.schedule} · `,
        h('span', { class: `status ${outcome.status}` }, outcome.text),
      ),
    );
    refill(tale, story && storySection(story));
  }

  function draw() {
    const { group } = shared;
    shared.trial = group.trials.find((trial) => trial.schedule === shared.schedule);
    drawStory();
    const only = group.trials.flatMap((trial) => trial.assertions);
    const found = verdicts(only, { schedule: group.schedules.length > 1 ? shared.schedule : '' });
    refill(
      body,
      about,
      section('overview', 'Verdicts', null, matrix(group, found.show)),
      group.ran && [
        peaks(group, shared),
        savings(shared),
        published(shared),
        growth(group),
        symbols(shared),
        all,
        losses(group, shared),
        cost(group, shared, device.kind === 'virtual'),
        hardware(shared),
        races(shared),
        files(shared),
      ],
      only.length > 0 &&
        section(
          'assertions',
          'Every verdict',
          'The formula of each verdict, its values, what was measured, and the command that runs it again.',
          found.element,
        ),
    );
    refill(list, [...body.querySelectorAll('h2')].map(entry));
    keep({ trial: groups.indexOf(group), schedule: shared.schedule, rank: shared.rank, ...(shared.fix && { fix: shared.fix }) });
  }

  function choose(group, { schedule, rank, fix } = {}) {
    const ranks = ranksOf(group);
    const others = group.variants.filter((variant) => variant.name !== baselineOf(group).name);
    Object.assign(shared, {
      group,
      schedule: group.schedules.includes(schedule) ? schedule : tellingSchedule(group),
      rank: ranks.includes(rank) ? rank : 'worst',
      fix: others.some((variant) => variant.name === fix) ? fix : undefined,
    });
    const set = (change) => {
      Object.assign(shared, change);
      draw();
    };
    const best = group.trials.map((trial) => savingOf(trial)?.fix).find(Boolean);
    refill(
      bar,
      groups.length > 1 &&
        select(
          'Trial',
          groups.map((one) => [one, `${one.first.size}, ${one.detail}`]),
          group,
          (one) => choose(one, { rank: shared.rank, fix: shared.fix }),
        ),
      others.length > 1 && select('Beside the baseline', others.map(labelled), shared.fix ?? best, (one) => set({ fix: one })),
      pick(
        'Schedule',
        group.schedules.map((one) => [one, one]),
        shared.schedule,
        (one) => set({ schedule: one }),
      ),
      ranks.length > 1 &&
        pick(
          'Rank of the tables',
          [['worst', 'worst'], ...ranks.map((one) => [one, String(one)])],
          shared.rank,
          (one) => set({ rank: one }),
        ),
    );
    draw();
  }

  choose(groups[wanted.trial] ?? tellingGroup(groups), wanted);
  return [top, tale, bar, contents, body];
}
