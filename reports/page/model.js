// The report as the page needs it: trials that differ in the schedule alone stand together as a group.

export const STATISTICS = ['allocated', 'active', 'reserved'];

function groupKey(trial) {
  return JSON.stringify([
    trial.scenario,
    trial.size,
    trial.ranks,
    trial.mode,
    trial.params,
    trial.steps,
    trial.seed,
    trial.skipped !== null,
  ]);
}

export function groupsOf(report) {
  const groups = new Map();
  for (const trial of report.trials) {
    const key = groupKey(trial);
    let group = groups.get(key);
    if (!group || group.trials.some((other) => other.schedule === trial.schedule)) {
      group = { trials: [] };
      groups.set(key, group);
    }
    group.trials.push(trial);
  }
  return [...new Set([...groups.values()])].map(describe);
}

function describe({ trials }) {
  const first = trials[0];
  const variants = [];
  for (const trial of trials) {
    for (const { name, role } of trial.variants) {
      if (!variants.some((known) => known.name === name)) variants.push({ name, role });
    }
  }
  const ranks = `${first.ranks} rank${first.ranks === 1 ? '' : 's'}`;
  return {
    trials,
    variants,
    first,
    title: `${first.scenario} / ${first.size}`,
    detail: `${ranks}, ${first.mode}`,
    schedules: trials.map((trial) => trial.schedule),
    ran: trials.some((trial) => trial.variants.length > 0),
  };
}

export function variantIn(group, schedule, name) {
  return group.trials
    .find((trial) => trial.schedule === schedule)
    ?.variants.find((variant) => variant.name === name);
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

/** The record of `rank`, or of the rank that stands highest. */
export function rankRecord(variant, statistic, rank) {
  const ranks = variant?.ranks ?? [];
  if (rank !== 'worst') return ranks.find((record) => record.rank === rank);
  const highest = (record) => Math.max(0, ...record.phases.map((phase) => phase[statistic].peak));
  return ranks.reduce(
    (best, record) => (!best || highest(record) > highest(best) ? record : best),
    undefined,
  );
}

const TONES = 12; // of style.css

/** A variant has the same colour in every picture of its group. */
export function toneOf(group, name) {
  return `tone-${group.variants.findIndex((variant) => variant.name === name) % TONES}`;
}

export function phasesOf(group) {
  const names = new Set();
  for (const trial of group.trials) {
    for (const variant of trial.variants) {
      for (const record of variant.ranks) record.phases.forEach((phase) => names.add(phase.name));
    }
  }
  return [...names];
}

/** Median, over repetitions where there are any, without the first step (warm-up) where there are others: as
 * typical_step_time in overview.cpp. */
export function stepTime(variant) {
  if (variant?.timing) return variant.timing.median_ns;
  const times = variant?.step_time_ns ?? [];
  if (times.length === 0) return null;
  const sorted = (times.length > 1 ? times.slice(1) : times.slice()).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

export function baselineOf(group) {
  return group.variants.find((variant) => variant.role === 'baseline') ?? group.variants[0];
}

/** Where baseline and fixed differ most: what a reader should see first. */
export function tellingSchedule(group) {
  const base = baselineOf(group)?.name;
  const fixed = group.variants.filter((variant) => variant.role === 'fixed');
  let best = group.schedules[0],
    most = -1;
  for (const schedule of group.schedules) {
    const high = peak(variantIn(group, schedule, base), 'active') ?? 0;
    for (const { name } of fixed) {
      const low = peak(variantIn(group, schedule, name), 'active');
      if (low !== null && high - low > most) [best, most] = [schedule, high - low];
    }
  }
  return best;
}

/** Trials by scenario, in the order of the run. */
export function scenariosOf(groups) {
  const all = new Map();
  for (const group of groups) {
    const name = group.first.scenario;
    if (!all.has(name)) all.set(name, { name, groups: [] });
    all.get(name).groups.push(group);
  }
  return [...all.values()];
}

/** Verdicts of many trials: [passed, failed, skipped], with the variants that ended in error. */
export function tallyOf(trials) {
  const sum = { pass: 0, fail: 0, skip: 0, error: 0 };
  for (const trial of trials) {
    if (trial.skipped) sum.skip += 1;
    for (const tally of trial.tallies.values()) {
      for (const status of ['pass', 'fail', 'skip']) sum[status] += tally[status];
    }
    sum.error += trial.variants.filter((variant) => variant.error).length;
  }
  return sum;
}

/** What the closed form predicts: a figure, or null where it bounds no single one. */
export function predicted({ expected: { low, high } }) {
  return low === high ? low : null;
}

/**
 * Of the verdicts saving/... on `variant` the one that saves most, of those first that predict a figure: {verdict, of,
 * schedule}; null without any.
 */
export function largestSaving(group, variant) {
  let best = null;
  const beats = (verdict) =>
    !best ||
    (predicted(verdict) !== null) - (predicted(best.verdict) !== null) > 0 ||
    ((predicted(verdict) !== null) === (predicted(best.verdict) !== null) &&
      verdict.measured > best.verdict.measured);
  for (const trial of group.trials) {
    for (const assertion of trial.assertions) {
      if (assertion.variant !== variant || !assertion.name.startsWith('saving/')) continue;
      const [verdict] = assertion.verdicts;
      if (verdict.measured === null || verdict.unit !== 'bytes' || !beats(verdict)) continue;
      best = { verdict, of: assertion.name.slice('saving/'.length), schedule: trial.schedule };
    }
  }
  return best;
}

/** Where a fix shows best in a scenario: {group, schedule, statistic, base, fix, high, low}; null where nothing was measured. */
export function bestFix(groups) {
  let best = null;
  for (const group of groups) {
    const base = baselineOf(group);
    for (const schedule of group.schedules) {
      for (const statistic of STATISTICS) {
        const high = peak(variantIn(group, schedule, base?.name), statistic);
        for (const { name, role } of group.variants) {
          const low = role === 'fixed' ? peak(variantIn(group, schedule, name), statistic) : null;
          if (low === null || high === null || (best && high - low <= best.high - best.low))
            continue;
          best = { group, schedule, statistic, base: base.name, fix: name, high, low };
        }
      }
    }
  }
  return best;
}
