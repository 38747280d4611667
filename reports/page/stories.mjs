// What the stories of a report's page show, held against its record.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { open } from './browser.mjs';
import { isKnown } from './kinds.js';

/** The record of a page, each value in its place. */
function recordOf(page) {
  const record = JSON.parse(readFileSync(join(dirname(page), 'report.json'), 'utf8'));
  const whole = (value) => {
    if (typeof value === 'string') return /^\$\d+$/.test(value) ? whole(record.shared[Number(value.slice(1))]) : value;
    if (Array.isArray(value)) return value.map(whole);
    return value && typeof value === 'object' ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, whole(one)])) : value;
  };
  return whole({ trials: record.trials });
}
function detailsOf(page, { scenario, size, ranks, mode, schedule }, variant) {
  return JSON.parse(gunzipSync(readFileSync(join(dirname(page), 'details', scenario, size, `r${ranks}`, mode, schedule, `${variant}.json.gz`))));
}
const bytesIn = (title) => Number(/: ([\d,]+) bytes/.exec(title)[1].replaceAll(',', ''));
/** The entries of an object in the order of keys, so that a difference reads well. */
const sorted = (object, keys) => Object.fromEntries([...new Set([...keys, ...Object.keys(object)])].map((key) => [key, object[key]]));

/** The column of the timeline that a picture shows: blocks, which `requested` does not count. */
const SHOWN = { active: 'active', allocated: 'allocated', requested: 'allocated', reserved: 'active' };
const ROW = '28px'; // where the first row below the root of an icicle begins

const peakOf = (rank, statistic) => Math.max(...rank.phases.map((phase) => phase[statistic].peak));
/** The rank of a variant with the highest peak, whose picture is drawn. */
const worstOf = ({ ranks }, statistic) => ranks.reduce((best, rank) => (peakOf(rank, statistic) > peakOf(best, statistic) ? rank : best));

/** A chart of kinds and the icicle below it, against what the record says of the variant's worst rank. */
function holdSide({ areas, cells }, { trial, variant, timeline }, what) {
  const rank = worstOf(variant, trial.statistic);
  const shown = timeline[SHOWN[trial.statistic]];
  for (const { name } of areas) assert.ok(isKnown(name) && name !== 'other', `${what}: ${name}`);
  assert.equal(new Set(areas.map(({ colour }) => colour)).size, areas.length, `${what}: a colour each`);
  const kindsAt = (column) => Object.fromEntries(areas.map(({ name, data }, k) => [name, data[column][1] - (k > 0 ? areas[k - 1].data[column][1] : 0)]).filter(([, bytes]) => bytes > 0));
  const top = areas.at(-1).data;
  const levels = new Set(shown);
  // Of more events the record has the highest of each stretch, and the chart that of its own stretches.
  const all = shown.length > top.at(-1)[0] - top[0][0];
  if (all) for (const [event, level] of top) assert.ok(levels.has(level), `${what}: the column of event ${event} has ${level} bytes`);
  const highest = Math.max(...top.map(([, level]) => level));
  assert.equal(highest, Math.max(...shown), `${what}: the peak`);
  if (SHOWN[trial.statistic] === trial.statistic) assert.equal(highest, peakOf(rank, trial.statistic), `${what}: the peak of all phases`);
  if (all && SHOWN[trial.statistic] === trial.statistic)
    for (const phase of rank.phases) assert.ok(top.some(([, level]) => level === phase[trial.statistic].peak), `${what}: the peak of ${phase.name}`);
  const categories = Object.fromEntries(Object.entries(rank.categories).map(([kind, { peak_share: share }]) => [kind, share]).filter(([, share]) => share > 0));
  for (const kind of Object.keys(categories)) assert.ok(areas.some(({ name }) => name === kind), `${what}: ${kind} is missing`);
  const bars = cells.map(({ title, className }) => [className.includes('rest') ? '' : title.slice(0, title.indexOf(':')), bytesIn(title)]);
  const named = Object.fromEntries(bars.filter(([kind]) => kind));
  // The record has kinds of what is allocated at the highest moment, and none of what is freed and waits for another stream.
  const counted = SHOWN[trial.statistic] === 'allocated' || timeline.active.every((level, k) => level === timeline.allocated[k]);
  if (counted) assert.deepEqual(named, sorted(Object.fromEntries(Object.keys(named).map((kind) => [kind, categories[kind]])), Object.keys(named)), `${what}: kinds at the peak`);
  const columns = top.flatMap(([, level], i) => (level === highest ? [i] : []));
  assert.ok(
    columns.some((column) => Object.entries(named).every(([kind, bytes]) => kindsAt(column)[kind] === bytes)),
    `${what}: bars ${JSON.stringify(named)} and columns ${JSON.stringify(columns.map(kindsAt))}`,
  );
  assert.equal(bars.reduce((sum, [, bytes]) => sum + bytes, 0), highest, `${what}: the bars' sum`);
  for (const { title, className } of cells) assert.ok(!className.includes('kind-other'), `${what}: ${title} is grey`);
  return { columns: top.length, highest, counted };
}

/** The story of a fix beside the baseline; `at`: the place of the trial's group in its scenario. */
async function holdStory(browser, file, trial, at, fix) {
  const page = await open(browser, file, { hash: `#/${trial.scenario}?trial=${at}&schedule=${trial.schedule}&fix=${fix.name}` });
  assert.equal(await page.locator('#story').count(), 1, `${trial.scenario} ${trial.size}: no story of ${fix.name}`);
  const sides = await page.locator('#story').evaluate(
    (story, row) => {
      const icicles = [...story.querySelectorAll('.icicle')];
      return [...story.querySelectorAll('.chart')].map((chart, i) => ({
        areas: chart.areas,
        cells: [...icicles[i].querySelectorAll('.cell')].filter((cell) => cell.style.top === row).map(({ title, className }) => ({ title, className })),
      }));
    },
    ROW,
  );
  const base = trial.variants[0];
  const what = `${trial.scenario} ${trial.size} under ${trial.schedule}`;
  assert.equal(sides.length, 2, `${what}: ${base.name} beside ${fix.name}`);
  const held = [base, fix].map((variant, i) => {
    const rank = worstOf(variant, trial.statistic);
    const { timeline } = detailsOf(file, trial, variant.name).ranks.find((one) => one.rank === rank.rank);
    return holdSide(sides[i], { trial, variant, timeline }, `${what}, ${variant.name} beside ${[base, fix][1 - i].name}`);
  });
  const rows = await page.locator('.differences').last().evaluate((table) => [...table.querySelectorAll('tbody tr')].map((row) => [...row.querySelectorAll('data')].map(({ value }) => Number(value))));
  const [before, after] = held.map(({ highest }) => highest);
  assert.deepEqual(rows.reduce((sum, row) => sum.map((bytes, k) => bytes + row[k]), [0, 0, 0]), [before, after, before - after], `${what}, ${fix.name}: differences`);
  assert.deepEqual(page.wrong, [], what);
  return { columns: held[0].columns + held[1].columns, counted: held.filter(({ counted }) => counted).length };
}

/**
 * Opens the story of each chosen variant beside its baseline, in each chosen trial of a page. Each bar and each column has the kinds of the record, in a
 * colour each, and its sum; nothing is grey; the differences sum to that of the peaks. Gives by scenario the number of columns, and of pictures
 * whose kinds at the peak are those of the record's categories.
 */
export async function holdStories(browser, file, chosen) {
  const places = new Map(); // of groups, by scenario
  const held = {};
  for (const trial of recordOf(file).trials) {
    const { scenario, size, ranks, mode, params, variants } = trial;
    if (variants.length === 0) continue; // is no trial of the page
    if (!places.has(scenario)) places.set(scenario, []);
    const groups = places.get(scenario);
    const group = JSON.stringify([size, ranks, mode, params]);
    if (!groups.includes(group)) groups.push(group);
    for (const fix of variants.slice(1).filter((variant) => variant.ranks.length > 0 && chosen(trial, variant))) {
      const story = await holdStory(browser, file, trial, groups.indexOf(group), fix);
      const sum = (held[scenario] ??= { columns: 0, counted: 0 });
      sum.columns += story.columns;
      sum.counted += story.counted;
    }
  }
  return held;
}
