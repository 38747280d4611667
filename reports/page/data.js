// Unpacks what page_data.cpp packed into the page.

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

/** How many passed, failed and were skipped; one row speaks for all ranks. */
function countsOf(rows, ranks) {
  const counts = { pass: 0, fail: 0, skip: 0 };
  for (const [status] of rows) counts[STATUS[status]] += rows.length === 1 ? ranks : 1;
  return counts;
}

/** Verdicts that differ in the rank alone. The first of `verdicts` speaks for them: failed, or else the highest. */
function assertionOf(trial, [variant, name, unit, ranks, rows], strings) {
  const worst = rows.reduce((least, [status]) => Math.min(least, ORDER[STATUS[status]]), 2);
  const assertion = {
    trial,
    variant: strings[variant],
    name: strings[name],
    status: STATUS.find((status) => ORDER[status] === worst),
    count: ranks.length,
    counts: countsOf(rows, ranks.length),
    why: strings[rows.find(([status]) => ORDER[STATUS[status]] === worst)[6]],
  };
  // Thousands of assertions, and a search at every key.
  later(assertion, 'searched', () =>
    `${trial.scenario}/${trial.size} ${trial.mode} ${trial.schedule} ${assertion.variant} ${assertion.name} ${assertion.why}`.toLowerCase(),
  );
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

/** Figures of a distance that are not there are infinite. */
function spell(distance) {
  for (const figure of ['ulps', 'absolute', 'relative']) if (distance) distance[figure] ??= Infinity;
}

/** The report of page_data.cpp with names instead of places and levels instead of differences. */
export async function load(element) {
  const report = await unpacked(element);
  const { strings } = report;
  for (const trial of report.trials) {
    trial.assertions = trial.assertions.map((raw) => assertionOf(trial, raw, strings));
    trial.tallies = new Map(
      trial.tallies.map(([variant, pass, fail, skip]) => [strings[variant], { pass, fail, skip }]),
    );
    for (const { baseline, reference } of trial.variants.flatMap((variant) => variant.gradients)) {
      spell(baseline);
      spell(reference);
    }
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
