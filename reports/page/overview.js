// The first page: how every scenario did, what its best fix saves, and every variant under every schedule.
import { h } from './dom.js';
import { section } from './controls.js';
import { exact, exactBytes, plural } from './format.js';
import { bestFix, cardUnit, savedText, tallyOf } from './model.js';
import { matrix } from './matrix.js';

export function statusOf({ pass, fail, error, lost }) {
  return fail > 0 || error > 0 || lost > 0 ? 'fail' : pass > 0 ? 'pass' : 'skip';
}

export function tallyText({ pass, fail, skip, error, lost, trials, left, ran }) {
  return [
    lost > 0 && `${exact(lost)} of ${plural(trials, 'trial')} did not finish`,
    error > 0 && `${plural(error, 'variant')} ended in error`,
    fail > 0 && `${exact(fail)} of ${plural(pass + fail, 'verdict')} failed`,
    fail === 0 && pass > 0 && `${plural(pass, 'verdict')} passed`,
    left > 0 && `${exact(left)} of ${plural(trials, 'trial')} skipped`,
    fail === 0 && pass === 0 && (skip + left + ran > 0 ? 'nothing judged' : 'nothing ran'),
  ]
    .filter(Boolean)
    .join(', ');
}

function bar(kind, name, role, value, largest) {
  const unit = cardUnit(largest);
  return h(
    'div',
    { class: `lane ${kind}` },
    h('span', { class: 'lane-name' }, name, h('span', { class: 'role' }, role)),
    h('i', { style: `width:${((100 * value) / largest).toFixed(2)}%` }),
    h('data', { value, title: exactBytes(value) }, `${unit.format(value)} ${unit.name}`),
  );
}

function card({ name, groups }, link, controls) {
  const tally = tallyOf(groups.flatMap(({ trials }) => trials));
  const named = (role) =>
    new Set(
      groups
        .flatMap(({ variants }) => variants.filter((one) => one.role === role))
        .map((one) => one.name),
    );
  const best = bestFix(groups);
  const { saving, trial } = best ?? {};
  return h(
    'li',
    { class: 'card' },
    h('h3', {}, h('a', { href: link(name) }, name)),
    h('p', {}, h('span', { class: `status ${statusOf(tally)}` }, tallyText(tally))),
    best &&
      h(
        'div',
        { class: 'lanes' },
        bar('high', saving.baseline, 'baseline', saving.before, Math.max(saving.before, saving.after)),
        bar('low', saving.fix, 'fixed', saving.after, Math.max(saving.before, saving.after)),
      ),
    best &&
      h(
        'p',
        { class: 'quiet' },
        saving.before > saving.after
          ? `${savedText(saving, ` of the step’s ${saving.statistic} peak saved`)}: ${trial.size}, ${trial.schedule}${saving.price && `; price: ${saving.price}`}`
          : 'No fix lowers the peak of a step here.',
      ),
    h(
      'p',
      { class: 'quiet' },
      `${plural(named('fixed').size, 'fix', 'fixes')}${controls ? `; ${controls[3]}` : ''}`,
    ),
  );
}

export function overview(scenarios, link, show, controls) {
  return [
    section(
      'scenarios',
      'Scenarios',
      'Highest peak of a step on the worst rank, in the scenario’s own statistic, where a fix saves most. A scenario’s name opens its page.',
      h(
        'ul',
        { class: 'cards' },
        scenarios.map((scenario) =>
          card(
            scenario,
            link,
            controls.find(([name]) => name === scenario.name),
          ),
        ),
      ),
    ),
    section(
      'verdicts',
      'Verdicts',
      'How many passed under each schedule, and what each fix does to the peak of a step, at which price. A control passes when the harness has caught it.',
      scenarios.flatMap(({ name, groups }) =>
        groups.map((group) =>
          h(
            'article',
            { class: 'group' },
            h(
              'h3',
              {},
              h('a', { href: link(name, group) }, group.first.scenario),
              ` / ${group.first.size}`,
            ),
            matrix(group, show),
          ),
        ),
      ),
    ),
  ];
}
