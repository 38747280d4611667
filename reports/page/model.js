// The report as the page needs it: trials that differ in the schedule alone stand together as a group.

export const STATISTICS = ['allocated', 'active', 'reserved'];

export function groupsOf({ trials }) {
  return together(trials, ({ group }) => group).map(describe);
}

function describe(trials) {
  const first = trials[0];
  const all = trials.flatMap((trial) => trial.variants);
  const variants = together(all, ({ name }) => name).map(([{ name, role }]) => ({ name, role }));
  const ranks = `${first.ranks} rank${first.ranks === 1 ? '' : 's'}`;
  return {
    trials,
    variants,
    first,
    title: `${first.scenario} / ${first.size}`,
    detail: `${ranks}, ${first.mode}`,
    schedules: trials.map((trial) => trial.schedule),
    ran: all.some(({ not_run }) => !not_run),
  };
}

export function variantIn(trial, name) {
  return trial.variants.find((variant) => variant.name === name);
}

/** Items that have the same key, together, in the order of their first. */
export function together(items, keyOf) {
  const found = new Map();
  for (const item of items) {
    const key = keyOf(item);
    if (found.has(key)) found.get(key).push(item);
    else found.set(key, [item]);
  }
  return [...found.values()];
}

/** The highest level of the last step in `phase` (all of them when empty) on `rank` ('worst': over all). Null without any. */
export function peak(variant, statistic, { rank = 'worst', phase = '' } = {}) {
  let highest = null;
  for (const record of variant?.ranks ?? []) {
    if (rank !== 'worst' && record.rank !== rank) continue;
    for (const level of record.phases) {
      if (phase !== '' && level.name !== phase) continue;
      if (highest === null || level[statistic].peak > highest) highest = level[statistic].peak;
    }
  }
  return highest;
}

const TONES = 12; // of style.css

/** A variant has the same colour in every picture of its group. */
export function toneOf(group, name) {
  return `tone-${group.variants.findIndex((variant) => variant.name === name) % TONES}`;
}

export function phasesOf({ trials }) {
  const records = trials.flatMap(({ variants }) => variants.flatMap(({ ranks }) => ranks));
  return [...new Set(records.flatMap(({ phases }) => phases.map(({ name }) => name)))];
}

export function baselineOf(group) {
  return group.variants.find((variant) => variant.role === 'baseline') ?? group.variants[0];
}

const gain = ({ before, after }) => (before === null ? 0 : before - after);

/** Of the trials of a group the one where a fix saves most, with the saving: {trial, saving}; null where no fix ran. Of equal ones a trial with pictures. */
export function bestIn(group) {
  let best = null;
  for (const trial of group.trials)
    for (const saving of trial.savings) {
      const more = best ? gain(saving) - gain(best.saving) : 1;
      if (more > 0 || (more === 0 && hasPictures(trial) && !hasPictures(best.trial))) best = { trial, saving };
    }
  return best;
}

const hasPictures = ({ variants }) => variants.some(({ picture }) => picture);

/** The saving of a variant against the first baseline of its trial; without a name, of the fix that saves most. Null without a baseline. */
export function savingOf(trial, fix) {
  const found = fix ? trial.savings.find((one) => one.fix === fix) : null;
  if (found) return found;
  const [best] = trial.savings.slice().sort((a, b) => gain(b) - gain(a));
  if (!best || !fix) return best ?? null;
  const after = peak(variantIn(trial, fix), best.statistic);
  return after === null ? null : { ...best, fix, after, judged: null, price: '', terms: null, formula: '' };
}

/** The schedule that a reader should see first. */
export function tellingSchedule(group) {
  return bestIn(group)?.trial.schedule ?? group.schedules[0];
}

/** Where a reader should begin: at size seed, or else in the largest trial in which something ran. */
export function tellingGroup(groups) {
  const height = ({ trials }) =>
    Math.max(0, ...trials.flatMap(({ variants }) => variants.map((one) => peak(one, 'active') ?? 0)));
  const ran = groups.filter((group) => height(group) > 0);
  const seed = ran.filter(({ first }) => first.size === 'seed');
  const some = seed.length > 0 ? seed : ran.length > 0 ? ran : groups;
  return some.reduce((best, one) => (height(one) > height(best) ? one : best));
}

/** Groups by scenario, in the order of the run. */
export function scenariosOf(groups, outcomes) {
  const found = new Map(Object.entries(outcomes));
  return together(groups, ({ first }) => first.scenario).map((all) => {
    const name = all[0].first.scenario;
    return { name, groups: all, outcome: found.get(name) };
  });
}

/** How far a verdict's figure lies above (or, less than 0, below) its bounds. */
export function offBy({ expected: { low, high }, measured }) {
  return measured - Math.min(Math.max(measured, low ?? -Infinity), high ?? Infinity);
}

/** What the closed form predicts: a figure, or null where it bounds no single one. */
export function predicted({ expected: { low, high } }) {
  return low === high ? low : null;
}
