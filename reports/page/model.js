// The report as the page needs it: trials that differ in the schedule alone stand together as a group.

async function unpacked(element) {
  const packed = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  element.remove(); // megabytes that nobody reads again
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return JSON.parse(await new Response(stream).text());
}

/** Running sums: page_data.cpp writes differences. */
function summed(differences) {
  let sum = 0;
  return differences.map((difference) => (sum += difference));
}

/** Adds the property `name`, worked out when it is first asked for. */
function later(object, name, make) {
  Object.defineProperty(object, name, {
    configurable: true,
    get() {
      const value = make();
      Object.defineProperty(object, name, { value });
      return value;
    },
  });
}

const STATUS = ['pass', 'fail', 'skip'];
const ORDER = { fail: 0, skip: 1, pass: 2 };

/** Verdicts that differ in the rank alone. The first of `verdicts` speaks for them: failed, or else the highest. */
function assertionOf(trial, [variant, name, unit, ranks, rows], strings) {
  const worst = rows.reduce((least, [status]) => Math.min(least, ORDER[STATUS[status]]), 2);
  const assertion = {
    trial,
    variant: strings[variant],
    name: strings[name],
    status: STATUS.find((status) => ORDER[status] === worst),
    count: ranks.length,
    why: strings[rows.find(([status]) => ORDER[STATUS[status]] === worst)[6]],
  };
  later(assertion, 'verdicts', () =>
    ranks
      .map((rank, i) => {
        const [status, low, high, measured, slack, formula, why, flat] = rows[i] ?? rows[0];
        const values = [];
        for (let k = 0; k < flat.length; k += 2) values.push([strings[flat[k]], flat[k + 1]]);
        return {
          name: assertion.name,
          variant: assertion.variant,
          rank,
          status: STATUS[status],
          expected: { low, high, formula: strings[formula], values },
          measured,
          unit: strings[unit],
          slack,
          why: strings[why],
        };
      })
      .sort(
        (a, b) =>
          ORDER[a.status] - ORDER[b.status] ||
          (b.measured ?? 0) - (a.measured ?? 0) ||
          a.rank - b.rank,
      ),
  );
  return assertion;
}

/** The report of page_data.cpp with names instead of places and levels instead of differences. */
export async function load() {
  const report = await unpacked(document.getElementById('data'));
  const { strings } = report;
  for (const trial of report.trials) {
    trial.assertions = trial.assertions.map((raw) => assertionOf(trial, raw, strings));
    trial.tallies = new Map(
      trial.tallies.map(([variant, pass, fail, skip]) => [strings[variant], { pass, fail, skip }]),
    );
    for (const record of trial.variants.flatMap((variant) => variant.ranks)) {
      const packed = record.timeline;
      later(record, 'timeline', () => ({
        in_all: packed.in_all,
        time: summed(packed.time),
        allocated: summed(packed.allocated),
        active: summed(packed.active),
        reserved: summed(packed.reserved),
      }));
    }
  }
  return report;
}

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

export function phasesOf(group) {
  const names = new Set();
  for (const trial of group.trials) {
    for (const variant of trial.variants) {
      for (const record of variant.ranks) record.phases.forEach((phase) => names.add(phase.name));
    }
  }
  return [...names];
}

/** Median, without the first step (warm-up) where there are others: as typical_step_time in overview.cpp. */
export function stepTime(variant) {
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

/** Of every trial, what failed first. */
export function assertionsOf(report) {
  const all = report.trials.flatMap((trial) => trial.assertions);
  return all.sort((a, b) => (a.status === 'fail' ? 0 : 1) - (b.status === 'fail' ? 0 : 1));
}
