// The page of one scenario: the bar chooses trial, schedule and rank for every section below it.
import { h, refill } from './dom.js';
import { pick, section, select, table } from './controls.js';
import { unitFor } from './format.js';
import { bestFix, peak, tellingSchedule } from './model.js';
import { matrix } from './matrix.js';
import { peaks } from './peaks.js';
import { savings } from './saving.js';
import { symbols } from './symbols.js';
import { timeline } from './timeline.js';
import { composition } from './composition.js';
import { growth } from './growth.js';
import { formulas } from './formula.js';
import { losses } from './loss.js';
import { cost } from './cost.js';
import { hardware } from './hardware.js';
import { races } from './races.js';
import { verdicts } from './verdicts.js';

function ranksOf(group) {
  const ranks = group.trials.flatMap((trial) =>
    trial.variants.flatMap((variant) => variant.ranks.map((record) => record.rank)),
  );
  return [...new Set(ranks)].sort((a, b) => a - b);
}

/** Where a reader should begin: the trial of the largest size in which something ran. */
function telling(groups) {
  const height = ({ trials }) =>
    Math.max(0, ...trials.flatMap(({ variants }) => variants.map((one) => peak(one, 'active') ?? 0)));
  return groups.reduce((best, one) => (height(one) > height(best) ? one : best));
}

/** The result in a sentence. */
function inAWord(groups) {
  const best = bestFix(groups);
  if (!best || best.saving.before <= best.saving.after) return null;
  const { group, trial, saving } = best;
  const unit = unitFor(saving.before);
  const percent = (100 * (saving.before - saving.after)) / saving.before;
  return `${saving.fix} peaks at ${unit.format(saving.after)} ${unit.name} of ${saving.statistic} memory where ${saving.baseline} takes ${unit.format(saving.before)} ${unit.name}: ${percent.toFixed(percent < 1 ? 2 : 0)} % less (${group.first.size}, ${group.detail}, ${trial.schedule})${saving.price && `; price: ${saving.price}`}.`;
}

/** Why there is this scenario, and what each variant does. */
function storyOf(groups) {
  const trials = groups.flatMap((group) => group.trials);
  const story = trials.find((trial) => trial.story)?.story;
  const said = new Map();
  for (const { name, what } of trials.flatMap((trial) => trial.variants))
    if (what && !said.has(name)) said.set(name, what);
  if (!story && said.size === 0) return null;
  return [
    story && h('p', { class: 'story' }, story),
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

/** `wanted`: {trial, schedule, rank} of the address; `keep` is told what is shown, for the address. */
export function scenarioPage({ name, groups, outcome }, wanted, keep, { device }) {
  const bar = h('div', {
    class: 'controls bar',
    role: 'group',
    'aria-label': 'What the sections below show',
  });
  const body = h('div', { class: 'memory' });
  const list = h('ul', {});
  const contents = h('nav', { class: 'contents', 'aria-label': 'Contents of this page' }, list);
  const shared = {};
  const all = formulas(groups); // of every trial: made once

  function draw() {
    const { group } = shared;
    shared.trial = group.trials.find((trial) => trial.schedule === shared.schedule);
    const only = group.trials.flatMap((trial) => trial.assertions);
    const found = verdicts(only, { schedule: group.schedules.length > 1 ? shared.schedule : '' });
    refill(
      body,
      section('overview', 'Verdicts', null, matrix(group, found.show)),
      group.ran && [
        peaks(group, shared),
        timeline(group, shared),
        savings(shared),
        composition(shared),
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
    keep({ trial: groups.indexOf(group), schedule: shared.schedule, rank: shared.rank });
  }

  function choose(group, { schedule, rank } = {}) {
    const ranks = ranksOf(group);
    Object.assign(shared, {
      group,
      schedule: group.schedules.includes(schedule) ? schedule : tellingSchedule(group),
      rank: ranks.includes(rank) ? rank : 'worst',
    });
    const set = (change) => {
      Object.assign(shared, change);
      draw();
    };
    refill(
      bar,
      groups.length > 1 &&
        select(
          'Trial',
          groups.map((one) => [one, `${one.first.size}, ${one.detail}`]),
          group,
          choose,
        ),
      pick(
        'Schedule',
        group.schedules.map((one) => [one, one]),
        shared.schedule,
        (one) => set({ schedule: one }),
      ),
      ranks.length > 1 &&
        pick(
          'Rank',
          [['worst', 'worst'], ...ranks.map((one) => [one, String(one)])],
          shared.rank,
          (one) => set({ rank: one }),
        ),
    );
    draw();
  }

  choose(groups[wanted.trial] ?? telling(groups), wanted);
  return [
    h(
      'header',
      { class: 'top' },
      h('h1', { tabindex: -1 }, name),
      h('p', { class: 'lede' }, inAWord(groups)),
      h(
        'p',
        { class: 'facts' },
        h('span', { class: `status ${outcome.status}` }, outcome.text),
      ),
      storyOf(groups),
    ),
    contents,
    bar,
    body,
  ];
}
