// The story of a trial on one screen: baseline and fix beside each other on one scale, what the baseline holds too much, and the formula of the saving.
import { h, refill } from './dom.js';
import { blockCard, reveal } from './block.js';
import { cardNote } from './card.js';
import { figure, table } from './controls.js';
import { courseOf } from './course.js';
import { bytes, exactBytes, plural, signed, unitFor } from './format.js';
import { legend } from './frame.js';
import { below, icicle } from './icicle.js';
import { inOrder, toneOfKind } from './kinds.js';
import { savingOf, variantIn } from './model.js';
import { stackOf } from './stack.js';

const ROWS = 4; // of the differences that are seen at once
const LARGE = 0.05; // of the saving: what is less is no part of the waste

/** Freed memory that another stream holds counts in `active` alone. */
const WAITING_IN = { active: 'within', allocated: 'out', requested: 'out', reserved: 'within' };

const courses = new WeakMap();
/** The course of a variant's memory, in the statistic that its scenario tells; null without a picture. */
export function courseIn(variant, statistic) {
  if (!variant?.picture) return null;
  if (!courses.has(variant.picture)) courses.set(variant.picture, courseOf(variant.picture, WAITING_IN[statistic]));
  return courses.get(variant.picture);
}

const sumOf = (blocks) => blocks.reduce((sum, block) => sum + block.bytes, 0);

/** "layers 0 to 3" of the modules layers.0 to layers.3, which have one pattern; "layers 0, 2", "12 of units 0 to 30", "layer 3". */
function unitsText(pattern, modules) {
  const [, name, within] = /^(.*?)[. ]?\*\.?(.*)$/.exec(pattern) ?? [];
  if (name === undefined) return pattern;
  const all = [...new Set(modules.map((module) => Number(/\d+/.exec(module.slice(name.length))[0])))].sort((a, b) => a - b);
  const whole = all.at(-1) - all[0] === all.length - 1;
  const numbers = all.length > 4 || (whole && all.length > 1) ? `${all[0]} to ${all.at(-1)}` : all.join(', ');
  const several = name.endsWith('s') ? name : `${name}s`;
  const named = all.length > 1 ? several : several.replace(/(?<=ch)es$|s$/, '');
  return [!whole && all.length > 4 && `${all.length} of`, named, numbers, within && `(${within})`].filter(Boolean).join(' ');
}

/** What stands at one peak and what at the other, by kind and module, the largest difference first: [{kind, pattern, units, before, after, by}]. */
export function differences(before, after) {
  const rows = new Map();
  const add = (blocks, side, sign) => {
    for (const { kind, pattern, module, bytes } of blocks) {
      const key = `${kind}\n${pattern}`;
      if (!rows.has(key)) rows.set(key, { kind, pattern, before: 0, after: 0, modules: new Map() });
      const row = rows.get(key);
      row[side] += bytes;
      row.modules.set(module, (row.modules.get(module) ?? 0) + sign * bytes);
    }
  };
  add(before, 'before', 1);
  add(after, 'after', -1);
  return [...rows.values()]
    .map(({ modules, ...row }) => {
      const by = row.before - row.after;
      const part = [...modules].filter(([, bytes]) => by === 0 || Math.sign(bytes) === Math.sign(by)).map(([module]) => module);
      return { ...row, by, units: unitsText(row.pattern, part) };
    })
    .sort((a, b) => Math.abs(b.by) - Math.abs(a.by));
}

/** Bytes of rows by kind, the largest first. */
function byKind(rows, bytesOf) {
  const sums = new Map();
  for (const row of rows) sums.set(row.kind, (sums.get(row.kind) ?? 0) + bytesOf(row));
  return [...sums].map(([kind, bytes]) => ({ kind, bytes })).sort((a, b) => b.bytes - a.bytes);
}

/**
 * What a trial says of a baseline and a fix: {saving, unit, before, after: courses, rows: differences at the peaks, waste: what makes up the saving,
 * [{kind, bytes, units}]}. Without pictures the waste is that of the formula's terms.
 */
export function storyOf(trial, fix) {
  const saving = savingOf(trial, fix);
  if (!saving || saving.before === null) return null;
  const [before, after] = [saving.baseline, saving.fix].map((name) => courseIn(variantIn(trial, name), saving.statistic));
  const saved = saving.before - saving.after;
  const rows = before && after ? differences(before.alive(before.peak), after.alive(after.peak)) : null;
  const kinds = rows
    ? byKind(rows, ({ by }) => by)
    : byKind((saving.terms ?? []).filter((term) => term.kinds.length > 0).map((term) => ({ kind: term.kinds[0], by: term.bytes })), ({ by }) => by);
  const waste = kinds
    .filter(({ bytes }) => bytes > LARGE * Math.max(saved, 1))
    .map(({ kind, bytes }) => {
      const units = (rows ?? []).filter((row) => row.kind === kind && row.by > LARGE * bytes && row.units).map((row) => row.units);
      return { kind, bytes, units: units.length > 0 && units.length < 3 ? units.join(' and ') : '' };
    });
  return { trial, saving, saved, unit: unitFor(saving.before), before, after, rows, waste: saved > 0 ? waste : [] };
}

const sized = (unit, value) => (unit.format(value).startsWith('<') ? bytes(value) : `${unit.format(value)} ${unit.name}`);
const amount = (unit, value) => h('data', { value, title: exactBytes(value) }, sized(unit, value));
const hued = (kind, ...content) => h('span', { class: `hued ${toneOfKind(kind)}` }, h('i', { class: 'swatch' }), ' ', content);

const nounOf = (kind) => (kind === 'backward' ? 'temporaries of the backward' : kind);

/** "gathered parameters of layers 0 to 3". */
function wasteText({ waste }) {
  const [first, second] = waste.filter(({ bytes }, i) => i === 0 || bytes > waste[0].bytes / 4);
  const named = ({ kind, units }) => (units ? `${nounOf(kind)} of ${units}` : nounOf(kind));
  if (!second) return first ? named(first) : '';
  return first.units === second.units ? `${nounOf(first.kind)} and ${named(second)}` : `${named(first)}, and ${named(second)}`;
}

/** What is wasted, by whom: a sentence. */
export function findingText(name, story) {
  if (!story) return name;
  const { saved, unit, trial } = story;
  if (saved <= 0) return `${name}: ${story.saving.fix} saves no memory here`;
  const what = wasteText(story);
  return `${name} holds ${sized(unit, saved)} too much${what ? `: ${what}` : ''}${trial.kept ? `, kept ${trial.kept}` : ''}`;
}

/** How much the fix saves, at which price. */
export function savingText({ saving, saved, unit }) {
  const { fix, baseline, statistic, before, after, judged, price } = saving;
  const percent = before > 0 ? (100 * saved) / before : 0;
  const said = { pass: ', as predicted', fail: ', not as predicted' }[judged] ?? '';
  return `${fix} peaks at ${sized(unit, after)} of ${statistic} memory where ${baseline} takes ${sized(unit, before)}: ${percent.toFixed(Math.abs(percent) < 1 ? 2 : 0)} % ${saved < 0 ? 'more' : 'less'}${said}${price && `; price: ${price}`}.`;
}

/** The saving as a sum of terms in the colours of their kinds. */
function formulaOf({ saving, saved, unit }) {
  const { terms, formula } = saving;
  if (!formula) return null;
  if (!terms)
    return h('p', { class: 'terms' }, `Saved by formula, which is no sum of amounts: `, h('code', {}, formula));
  const large = terms.filter(({ bytes }) => Math.abs(bytes) >= 0.005 * Math.abs(saved)).sort((a, b) => b.bytes - a.bytes);
  const small = terms.filter((term) => !large.includes(term));
  const sign = (bytes, i) => (bytes < 0 ? ' − ' : i > 0 ? ' + ' : '');
  const term = ({ name: symbol, what, times, bytes, kinds }, i) => [
    sign(bytes, i),
    h(
      'span',
      { class: `term ${toneOfKind(kinds[0])}`, title: `${symbol}: ${what} (${kinds.join(', ')})\n${exactBytes(Math.abs(bytes))}` },
      Math.abs(times) !== 1 && `${Number(Math.abs(times).toPrecision(6))} `,
      h('code', {}, symbol),
      ' ',
      h('small', {}, kinds[0]),
      ' ',
      amount(unit, Math.abs(bytes)),
    ),
  ];
  const rest = small.reduce((sum, { bytes }) => sum + bytes, 0);
  const whole = terms.reduce((sum, { bytes }) => sum + bytes, 0);
  return h(
    'p',
    { class: 'terms', 'aria-label': 'The saving by formula' },
    'Saved by formula: ',
    large.map(term),
    small.length > 0 && [
      rest < 0 ? ' − ' : ' + ',
      h('span', { class: 'term kind-rest', title: small.map(({ name, bytes }) => `${name}: ${signed(bytes, exactBytes)}`).join('\n') }, h('small', {}, plural(small.length, 'smaller term')), ' ', amount(unit, Math.abs(rest))),
    ],
    ' = ',
    h('b', {}, amount(unit, whole)),
  );
}

/** The differences by kind and unit, which sum to that of the peaks. */
function differencesTable({ rows, unit }, some) {
  return table(
    'Difference of the two peaks by kind and unit',
    'differences',
    ['kind', 'unit', ['baseline'], ['fix'], ['difference']],
    some.map(({ kind, units, before, after, by }) => [
      hued(kind, kind),
      units,
      figure(amount(unit, before)),
      figure(amount(unit, after)),
      figure(h('b', {}, h('data', { value: by, title: exactBytes(by) }, `${by < 0 ? '−' : '+'}${sized(unit, Math.abs(by))}`))),
    ]),
  );
}

/** Where the axis of two pictures begins: 0, or below all that their last steps have, where that is most of the highest; a small difference is not seen from 0. */
function beginOf(both, highest) {
  const lowest = Math.min(...both.map(({ active, lastStep: [first, last] }) => active.slice(first, last + 1).reduce((least, level) => Math.min(least, level), Infinity)));
  return lowest > 0.6 * highest ? lowest - (highest - lowest) / 4 : 0;
}

/** The looks of two pictures on one scale, in the order of the courses. */
function looksOf({ before, after, waste, unit, saved, saving }, more) {
  const both = [before, after];
  const span = Math.max(...both.map((course) => course.eventOf(course.lastStep[1]) - course.eventOf(course.lastStep[0])));
  const level = after.active[after.peak];
  const highest = Math.max(...both.map((course) => course.active[course.peak]));
  const common = {
    unit,
    span,
    highest,
    low: beginOf(both, highest),
    above: new Set(waste.map(({ kind }) => kind)),
    ...more,
  };
  const over = saved > 0 && { level, texts: [`${sized(unit, saved)} too much`, `+${sized(unit, saved)}`], low: [`${saving.fix} peaks at ${sized(unit, level)}`, sized(unit, level)] };
  return [
    { ...common, window: before.lastStep, name: saving.baseline, over },
    { ...common, window: after.lastStep, name: saving.fix, over: over && { level } },
  ];
}

/** Two small pictures, for a list of scenarios. */
export function smallPair(story) {
  if (!story.rows) return null;
  const looks = looksOf(story, { height: 118, bare: true });
  return h(
    'div',
    { class: 'duo' },
    [story.before, story.after].map((course, i) => {
      const look = looks[i];
      const over = look.over && i === 0 ? { level: look.over.level, texts: look.over.texts } : null;
      const { element } = stackOf(course, { moment: course.peak, window: course.lastStep }, {}, { ...look, over });
      return h('figure', {}, h('figcaption', {}, look.name, ' ', amount(story.unit, i === 0 ? story.saving.before : story.saving.after), i === 0 && look.low > 0 && h('span', { class: 'role' }, 'not drawn from 0')), element);
    }),
  );
}

/** The kinds of both pictures, what is too much first. */
function kindsOf({ before, after, waste }) {
  const seen = (course) => {
    const levels = course.levels(course.columns(...course.lastStep, 400));
    return course.kinds.filter((_, k) => levels[k].some((level) => level > 0));
  };
  const above = waste.map(({ kind }) => kind);
  const others = inOrder(new Set([...seen(before), ...seen(after)])).filter((kind) => !above.includes(kind));
  return legend([
    ...above.map((name) => ({ tone: toneOfKind(name), name, note: 'too much' })),
    ...others.map((name) => ({ tone: `${toneOfKind(name)} faint`, name })),
  ]);
}

function pictures(story) {
  const { before, after, saving, unit, rows } = story;
  const looks = looksOf(story, { height: 216 });
  const sides = [before, after].map((course, i) => ({
    course,
    look: looks[i],
    peak: i === 0 ? saving.before : saving.after,
    state: { moment: course.peak, window: course.lastStep },
    time: h('div', {}),
  }));
  const alive = h('div', { class: 'alive-at' });
  let path = [];
  let card = null;

  /** Shows the stacks of some blocks of a side. */
  const pickOn = (side) => (title, some) => {
    const close = () => { card = null; drawAlive(); };
    card = blockCard(side.course, `${side.look.name}: ${title}`, some, { link: () => '', go: side.choose, close });
    drawAlive();
    reveal(card);
  };

  function drawAlive() {
    const blocks = sides.map(({ course, state }) => course.alive(state.moment));
    const whole = Math.max(1, ...blocks.map((some) => sumOf(below(some, path))));
    const moved = sides.some(({ course, state }) => state.moment !== course.peak);
    const go = (to) => { path = to; drawAlive(); };
    refill(
      alive,
      h(
        'h2',
        {},
        moved ? 'Alive at the chosen moments' : 'Alive at the two peaks',
        moved && h('button', { class: 'link', onclick: () => { for (const side of sides) side.choose(side.course.peak); } }, 'Back to the peaks'),
      ),
      sides.map((side, i) =>
        icicle(blocks[i], path, go, pickOn(side), { whole, unit, above: side.look.above, name: side.look.name, rows: path.length + 2 }),
      ),
      card,
    );
  }

  for (const side of sides) {
    const { course, state, look } = side;
    side.choose = (moment) => {
      state.moment = moment;
      side.stack.redraw();
      drawAlive();
    };
    side.zoom = (window) => {
      state.window = window;
      draw();
      side.stack.element.focus({ preventScroll: true });
    };
    const draw = () => {
      side.stack = stackOf(course, state, side, look);
      refill(
        side.time,
        h(
          'figcaption',
          {},
          h('b', {}, look.name),
          h('span', { class: 'role' }, side === sides[0] ? 'baseline' : variantIn(story.trial, saving.fix)?.role),
          ' peaks at ',
          h('b', {}, amount(unit, side.peak)),
          state.window !== course.lastStep && h('button', { class: 'link', onclick: () => side.zoom(course.lastStep) }, 'Show the last step'),
          state.window === course.lastStep && course.lastStep[0] > 0 && h('button', { class: 'link', onclick: () => side.zoom(null) }, 'Show all steps'),
        ),
        side.stack.element,
      );
    };
    draw();
  }
  drawAlive();
  const few = rows.filter(({ by }) => by !== 0).slice(0, ROWS);
  return [
    kindsOf(story),
    h('div', { class: 'duo' }, sides.map(({ time }) => h('figure', {}, time))),
    alive,
    h('h2', {}, 'What the baseline has more at its peak than the fix at its own'),
    differencesTable(story, few),
    rows.length > few.length &&
      h('details', {}, h('summary', {}, `All ${plural(rows.length, 'part')} of both peaks`), differencesTable(story, rows)),
    h(
      'p',
      { class: 'quiet' },
      looks[0].low > 0 && 'The axes do not begin at 0. ',
      `The last step of the worst rank, event by event of PyTorch's allocator, in bytes of its blocks${saving.statistic === 'active' ? '; memory that is freed and held for another stream counts with its kind' : ''}.${cardNote(Math.max(...sides.map(({ course }) => course.active[course.peak])))} `,
      h('span', { class: 'hint' }, 'Click a moment to see what is alive then; drag to zoom.'),
    ),
  ];
}

export function storySection(story) {
  return h(
    'section',
    { id: 'story', 'aria-label': 'What is wasted' },
    formulaOf(story),
    story.rows
      ? pictures(story)
      : h('p', { class: 'empty' }, `No picture of its memory was kept under ${story.trial.schedule}.`),
  );
}
