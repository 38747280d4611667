// The page: an overview that html.cpp wrote, a page a scenario and a list of all verdicts, chosen by what follows # in the address.
import { h, refill } from './dom.js';
import { load } from './data.js';
import { plural } from './format.js';
import { bestIn, groupsOf, scenariosOf, tellingGroup } from './model.js';
import { setCard } from './card.js';
import { addCopy } from './controls.js';
import { drawFigures } from './figures.js';
import { drawMemory } from './memory.js';
import { addPost } from './post.js';
import { scenarioPage } from './scenario.js';
import { findingText, savingText, smallPair, storyOf } from './story.js';
import { verdicts } from './verdicts.js';

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
      scenarios.map(({ name, outcome }) =>
        item(name, to(name), here.scenario === name, outcome.status),
      ),
      item('All verdicts', '#/-/assertions', here.all),
    ),
  );
}

function allVerdicts(report, fields) {
  const left =
    report.left_out > 0 &&
    `${plural(report.left_out, 'row')} of verdicts that passed are only in report.json.`;
  const all = report.trials.flatMap((trial) => trial.assertions);
  return [
    h(
      'header',
      { class: 'top' },
      h('h1', { tabindex: -1 }, 'All verdicts'),
      left && h('p', { class: 'facts' }, left),
    ),
    verdicts(all, fields).element,
  ];
}

/** What every scenario wastes and what its fix saves, as its page has it: one below the other. */
function pairs(scenarios) {
  const told = scenarios.map(({ name, groups }) => {
    const group = tellingGroup(groups);
    const story = storyOf(bestIn(group)?.trial ?? group.first);
    return { name, group, story, pair: story && smallPair(story) };
  });
  const seen = told.filter(({ pair }) => pair);
  if (seen.length === 0) return null;
  return h(
    'section',
    { id: 'pairs', 'aria-labelledby': 'pairs-title' },
    h('h2', { id: 'pairs-title' }, 'What is wasted, and what the fix saves'),
    seen.map(({ name, group, story, pair }) =>
      h(
        'article',
        {},
        h(
          'div',
          {},
          h('h3', {}, h('a', { href: to(name) }, findingText(name, story))),
          h('p', { class: 'quiet' }, savingText(story), ` ${group.title}, ${group.detail}.`),
        ),
        pair,
      ),
    ),
  );
}

function contents(report, scenarios, here, overview) {
  const found = scenarios.find(({ name }) => name === here.scenario);
  const fields = Object.fromEntries(here.fields);
  if (found) {
    const number = (text) => (/^\d+$/.test(text ?? '') ? Number(text) : undefined);
    const wanted = {
      trial: number(fields.trial),
      schedule: fields.schedule,
      rank: number(fields.rank),
      fix: fields.fix,
    };
    const keep = (shown) => history.replaceState(null, '', to(found.name, shown));
    return scenarioPage(found, wanted, keep, report.run);
  }
  if (here.all) return allVerdicts(report, fields);
  const known = scenarios.map(({ name }) => name).join(', ');
  const unknown = `This report has no scenario “${here.scenario}”. It has: ${known}.`;
  const at = overview.findIndex((node) => node.id === 'notes');
  const [before, after] = at < 0 ? [overview, []] : [overview.slice(0, at), overview.slice(at)];
  return [here.scenario && h('p', { class: 'note missing' }, unknown), before, pairs(scenarios), after];
}

async function start() {
  const data = document.getElementById('data');
  const page = document.getElementById('page');
  if (!data.textContent) {
    drawFigures();
    addPost(await drawMemory());
    page.dataset.shown = 'true';
    return;
  }
  page.querySelectorAll('.command').forEach(addCopy);
  const report = await load(data);
  page.querySelectorAll('.still, noscript').forEach((still) => still.remove());
  const overview = [...page.childNodes];
  setCard(report.run);
  const groups = groupsOf(report);
  const ordered = [...groups.filter(({ ran }) => ran), ...groups.filter(({ ran }) => !ran)];
  const scenarios = scenariosOf(ordered, report.scenarios);
  const header = document.getElementById('pages');
  const show = (moved) => {
    const here = addressOf(location.hash);
    refill(header, navigation(scenarios, here));
    refill(page, contents(report, scenarios, here, overview));
    document.body.className = page.querySelector('#story') ? 'told' : '';
    page.dataset.shown = 'true';
    if (!moved) return;
    scrollTo(0, 0);
    page.querySelector('h1')?.focus({ preventScroll: true });
  };
  addEventListener('hashchange', () => show(true));
  show(false);
}

start().catch((error) => {
  const text = `The pages of this report cannot be shown: ${error.message}. Their figures are in report.json and summary.md beside it.`;
  document.getElementById('page').prepend(h('p', { class: 'empty' }, text));
  throw error;
});
