// Unpacks what page_data.cpp packed into the page.
import { together } from './model.js';

/** The JSON that a block holds in base64 of gzip; the block is removed. */
export async function unpacked(element) {
  const packed = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  element.remove(); // megabytes that are not read again
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  const data = JSON.parse(await new Response(stream).text());
  for (const picture of data.pictures) picture.calls = data.calls; // the stacks of all pictures are packed once
  return data;
}

/** Running sums: page_data.cpp writes differences. */
export function summed(differences) {
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

const ORDER = { fail: 0, skip: 1, pass: 2 };
const worseFirst = (a, b) => ORDER[a.status] - ORDER[b.status];

/**
 * Verdicts that differ in the rank alone, of the record's rows, each of the ranks that agree. The first of `verdicts` speaks
 * for them: failed, or else the highest.
 */
function assertionOf(trial, rows) {
  const counts = { pass: 0, fail: 0, skip: 0 };
  for (const { status, ranks } of rows) counts[status] += ranks.length;
  const count = counts.pass + counts.fail + counts.skip;
  const [{ variant, name, status, why = '' }] = rows.slice().sort(worseFirst);
  const assertion = { trial, variant, name, status, count, counts };
  // Thousands of assertions, and a search at every key.
  later(assertion, 'searched', () =>
    `${trial.scenario}/${trial.size} ${trial.mode} ${trial.schedule} ${variant} ${name} ${why}`.toLowerCase(),
  );
  later(assertion, 'verdicts', () =>
    rows
      .flatMap(({ ranks, expected, ...row }) => {
        const values = Object.entries(expected.values);
        const same = { unit: 'bytes', ...row, expected: { ...expected, values } };
        return ranks.map((rank) => ({ ...same, rank }));
      })
      .sort(
        (a, b) =>
          worseFirst(a, b) || (b.measured ?? 0) - (a.measured ?? 0) || a.rank - b.rank,
      ),
  );
  return assertion;
}

/** Figures of a distance that are not there are infinite. */
function spell(distance) {
  for (const figure of ['ulps', 'absolute', 'relative']) if (distance) distance[figure] ??= Infinity;
}

/** The report of page_data.cpp with assertions instead of verdicts. */
export async function load(element) {
  const report = await unpacked(element);
  for (const trial of report.trials) {
    trial.assertions = together(trial.verdicts, ({ variant, name }) => `${variant}\n${name}`).map(
      (rows) => assertionOf(trial, rows),
    );
    trial.tallies = new Map(Object.entries(trial.tallies));
    for (const variant of trial.variants) variant.picture = report.pictures[variant.picture];
    for (const { baseline, reference } of trial.variants.flatMap((variant) => variant.gradients)) {
      spell(baseline);
      spell(reference);
    }
  }
  return report;
}
