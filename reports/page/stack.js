// Memory over time, stacked by kind: a column is the highest moment of its stretch. A click chooses a moment, a drag zooms.
import { bandNames, bandsOption, carrier } from './bands.js';
import { cardLine, cardSeries } from './card.js';
import { lastAtMost } from './course.js';
import { h } from './dom.js';
import { axisOf, bytes, exact, oneLine, plural, unitFor } from './format.js';
import { frameOf, legend, textStyle, tooltip } from './frame.js';
import { toneOfKind } from './kinds.js';

const HEIGHT = 340;
const GRID = { left: 58, right: 12, top: 50, bottom: 30, outerBoundsMode: 'none' };
const MAIN = ['forward', 'backward', 'optimizer'];

/** A colour of style.css, as far as it goes on paper. */
function faded(tone, paper) {
  const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const on = parts(paper);
  return `rgb(${parts(tone).map((part, i) => Math.round(on[i] + 0.38 * (part - on[i]))).join()})`;
}

/** What stands at one column, as elements. */
function readingOf(course, moment, levels) {
  const rows = course.kinds.map((name, k) => [name, levels[k]]).filter(([, level]) => level > 0);
  const row = (tone, name, level) =>
    h('tr', {}, h('th', { class: tone }, tone && h('i', { class: 'swatch' }), ` ${name}`), h('td', { class: 'figure' }, bytes(level)));
  const phase = course.phaseAt(moment);
  return h(
    'div',
    { class: 'reading' },
    h('div', { class: 'quiet' }, `event ${exact(course.eventOf(moment))}${phase && ` · ${phase}`}`),
    h(
      'table',
      {},
      rows.reverse().map(([name, level]) => row(toneOfKind(name), name, level)),
      row(null, 'active', course.active[moment]),
      row(null, 'reserved', course.reserved(moment)),
    ),
  );
}

/** A line at the begin of each step; its name stands above those of the phases, where there is room. */
function stepLines(course, [first, last], pixels, colour) {
  const begins = new Map();
  for (const { step, from } of course.phases) begins.set(step, Math.min(from, begins.get(step) ?? Infinity));
  begins.delete(0); // steps that are not told apart
  const seen = [...begins].map(([step, from]) => [step, course.eventOf(from)]).filter(([, at]) => at >= first && at <= last);
  const left = ([, at]) => ((at - first) / Math.max(1, last - first)) * pixels;
  const room = 7 * Math.max(0, ...seen.map(([step]) => `step ${step}`.length)) + 8;
  let free = 0; // up to there names stand
  const shown = seen.filter((one) => {
    const begin = left(one);
    if (begin < free || begin + room > pixels + GRID.right) return false;
    free = begin + room;
    return true;
  });
  return carrier('steps', 0, {
    markLine: {
      silent: true,
      symbol: 'none',
      lineStyle: { color: colour('quiet'), type: 'dotted', width: 1 },
      data: shown.map(([step, at]) => ({
        xAxis: at,
        label: { formatter: `step ${step}`, color: colour('quiet'), fontSize: 11.5, position: 'end', align: 'left', distance: 22 },
      })),
    },
  });
}

/** A line at the moment of the refusal, and a shade over the run with room from there on. */
function refusedSeries(course, [, last], colour) {
  const at = course.eventOf(course.refused);
  if (!course.refused || at > last) return [];
  return [
    carrier('refused', 0, {
      markLine: { silent: true, symbol: 'none', label: { show: false }, z: 29, lineStyle: { color: colour('fail'), type: 'solid', width: 1.4 }, data: [{ xAxis: at }] },
      markArea: { silent: true, itemStyle: { color: colour('fail-back'), opacity: 0.7 }, data: [[{ xAxis: at }, { xAxis: last }]] },
    }),
  ];
}

/** Whole numbers for labels below an axis of so many pixels: both ends, and round ones where there is room. */
function ticksOf(low, high, pixels) {
  const room = 7.5 * exact(Math.round(high)).length; // of a label
  const rough = Math.max(1, ((high - low) * (room + 60)) / pixels);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, power * [1, 2, 5, 10].find((one) => one * power >= rough));
  const place = (value) => ((value - low) / Math.max(1, high - low)) * pixels;
  const ticks = [low];
  for (let at = Math.ceil(low / step) * step; at < high; at += step)
    if (place(at) > 1.5 * room + 8 && place(at) < pixels - 1.5 * room - 8) ticks.push(at);
  return [...ticks, high];
}

/** The first of some texts, the longest first, that has room in so many pixels; '' where none has. */
const roomFor = (texts, pixels, letter = 7.5) => texts.map(oneLine).find((text) => text.length * letter <= pixels) ?? '';

/**
 * The series of a level across the chart and of what stands above it at the peak; nothing without `over`: {level, low, texts}, of which
 * `low` and `texts` are texts of one sense, the longest first. The plot has so many
 * pixels; its vertical axis is as long as `top`.
 */
function overSeries(course, over, range, { across, down, top }, colour) {
  if (!over) return [];
  const x = course.eventOf(course.peak);
  const part = (x - range[0]) / Math.max(1, range[1] - range[0]);
  const arrow = ((course.active[course.peak] - over.level) * down) / top; // pixels
  const pointed = over.texts && arrow > 16; // there is room for an arrow
  const text = pointed && roomFor(over.texts, Math.max(part, 1 - part) * across - 14, 8.5);
  const low = over.low && roomFor(over.low, across - 12);
  const short = arrow < 44; // no room for both texts beside it
  const right = x - range[0] < (range[1] - range[0]) / 2; // the side of the arrow with more room
  const line = { color: colour('ink'), width: 1.4 };
  const name = { color: colour('ink'), fontSize: 13, fontWeight: 600, textBorderColor: colour('paper'), textBorderWidth: 4 };
  return [
    carrier('over', 0, {
      markLine: {
        z: 32,
        silent: true,
        symbol: 'none',
        data: [
          { yAxis: over.level, lineStyle: { ...line, type: [4, 4] }, label: { show: Boolean(low), formatter: low || '', ...name, fontWeight: 400, fontSize: 12, position: `inside${right ? 'End' : 'Start'}${short ? 'Bottom' : 'Top'}` } },
          ...(pointed
            ? [[
                { coord: [x, over.level], symbol: 'arrow', symbolSize: 7, lineStyle: { ...line, type: 'solid' }, label: { show: Boolean(text), formatter: text || '', ...name, position: 'middle', rotate: 0, align: right ? 'left' : 'right', offset: [right ? 8 : -8, 0] } },
                { coord: [x, course.active[course.peak]], symbol: 'arrow', symbolSize: 7 },
              ]]
            : []),
        ],
      },
    }),
  ];
}

/** A sentence on the picture of a program that ran out of memory; '' for others. */
function refusedText(course) {
  if (!course.refused) return '';
  return `At the red line ${bytes(course.refusedBytes)} were refused. The picture is of the second run, with room: it made the same allocations up to there, and goes to the end of that step. `;
}

/**
 * `state`: {moment, window: [first, last] moments or null}; choose(moment) and zoom(window) change it, in a picture that has them. `look`, for pictures
 * beside each other: {height, highest: level and span: events that all have room for, above: kinds that lie on top in their full
 * colour, the others faded, over: of overSeries, unit, low: where the axis begins in that window, bare: neither phases nor steps}.
 */
export function stackOf(course, state, { choose, zoom } = {}, look = {}) {
  const [first, last] = state.window ?? [0, course.last];
  const height = look.height ?? HEIGHT;
  const grid = look.bare ? { ...GRID, left: 44, top: 10, bottom: 8 } : GRID;
  const above = (name) => !look.above || look.above.has(name);
  const order = course.kinds.map((_, k) => k);
  if (look.above) order.sort((a, b) => above(course.kinds[a]) - above(course.kinds[b]) || a - b);
  let shown = { at: [], levels: [] };

  function option(colour, width) {
    const at = course.columns(first, last, Math.max(50, Math.floor(width / 2)));
    const levels = course.levels(at);
    shown = { at, levels };
    const xs = at.map(course.eventOf);
    const highest = look.highest ?? Math.max(1, ...at.map((moment) => Math.max(course.active[moment], course.reserved(moment))));
    const mark = look.bare ? null : cardLine(highest);
    const unit = look.unit ?? unitFor(highest);
    const axis = axisOf(state.window === look.window ? (look.low ?? 0) : 0, Math.max(highest, mark?.value ?? 0), unit);
    const sums = at.map(() => 0);
    const areas = order.map((k, layer) => {
      const name = course.kinds[k];
      const data = xs.map((x, i) => [x, (sums[i] += levels[k][i])]);
      const tone = colour(toneOfKind(name));
      return {
        type: 'line', name, data, step: 'end', symbol: 'none', silent: true, z: 20 - layer,
        lineStyle: { width: 0 }, areaStyle: { color: above(name) ? tone : faded(tone, colour('paper')), opacity: 1 }, emphasis: { disabled: true },
      };
    });
    frame.element.dataset.active = String(course.active[state.moment]); // of all blocks, by their ends
    frame.element.areas = areas.map(({ name, data, areaStyle }) => ({ name, data, colour: areaStyle.color })); // as they are drawn, for tests
    const bands = course.phases
      .filter(({ name }) => look.above || MAIN.includes(name))
      .map(({ name, from, to }) => ({ name, from: course.eventOf(from), to: course.eventOf(to) }));
    const range = [xs[0], Math.max(xs.at(-1), xs[0] + (state.window === look.window ? (look.span ?? 1) : 1))];
    const names = bandNames(bands, range, width - 70);
    names.data.forEach((band, i) => { band[0].itemStyle = { opacity: i % 2 ? 0 : 0.6 }; });
    const [across, down] = [width - grid.left - grid.right, height - grid.top - grid.bottom]; // pixels of the plot
    return {
      grid: [{ ...grid, height: down }],
      xAxis: {
        type: 'value', show: !look.bare, min: range[0], max: range[1], minInterval: 1,
        splitLine: { show: false }, axisTick: { show: false }, axisLine: { lineStyle: { color: colour('line') } },
        axisLabel: { ...textStyle(colour), customValues: ticksOf(...range, across), formatter: (value) => exact(Math.round(value)), alignMinLabel: 'left', alignMaxLabel: 'right' },
      },
      yAxis: {
        type: 'value', name: look.bare ? '' : unit.name, nameGap: 14, nameTextStyle: { ...textStyle(colour), align: 'left', padding: [0, 0, 0, -50] },
        min: axis.min, max: axis.max, interval: axis.interval, axisLine: { show: false }, axisTick: { show: false },
        splitLine: { lineStyle: { color: colour('line') } }, axisLabel: { ...textStyle(colour), formatter: axis.format },
      },
      tooltip: {
        ...tooltip(colour),
        trigger: 'axis',
        axisPointer: { lineStyle: { color: colour('quiet') } },
        formatter: ([item]) => readingOf(course, at[item.dataIndex], levels.map((level) => level[item.dataIndex])),
      },
      series: [
        ...areas,
        !look.above && {
          type: 'line', name: 'reserved', step: 'end', symbol: 'none', silent: true, z: 21, emphasis: { disabled: true },
          data: xs.map((x, i) => [x, course.reserved(at[i])]), lineStyle: { width: 1.4, color: colour('ink'), type: [5, 3] },
        },
        !look.bare && bandsOption(0, names, colour),
        !look.bare && stepLines(course, range, across, colour),
        ...refusedSeries(course, range, colour),
        ...overSeries(course, look.over, range, { across, down, top: axis.max - axis.min }, colour),
        ...cardSeries({ mark, axis }, 0, colour, false),
        !look.bare && carrier('chosen', 0, {
          markLine: {
            silent: true, symbol: 'none', label: { show: false }, lineStyle: { color: colour('focus'), type: 'solid', width: 2 }, z: 30,
            data: state.moment >= first && state.moment <= last ? [{ xAxis: course.eventOf(state.moment) }] : [],
          },
        }),
      ].filter(Boolean),
    };
  }

  const pixelTo = (x) => {
    const box = frame.element.getBoundingClientRect();
    const event = frame.chart().convertFromPixel({ xAxisIndex: 0 }, x - box.left);
    return Math.min(last, Math.max(first, course.momentOf(Math.round(event))));
  };
  /** The moment of the column at another one. */
  const columnAt = (moment) => shown.at[Math.max(0, lastAtMost(shown.at, moment))];
  const around = (moment, span) => {
    const begin = Math.round(Math.min(course.last - span, Math.max(0, moment - span / 2)));
    zoom(span >= course.last ? null : [Math.max(0, begin), Math.min(course.last, begin + Math.max(2, Math.round(span)))]);
  };

  function keys(key, { shiftKey }) {
    const i = lastAtMost(shown.at, state.moment);
    const go = (steps) => choose(shown.at[Math.min(shown.at.length - 1, Math.max(0, i + steps * (shiftKey ? 20 : 1)))], true);
    const act = {
      ArrowLeft: () => go(-1),
      ArrowRight: () => go(1),
      Home: () => choose(course.peak, true),
      '+': () => around(state.moment, (last - first) / 2),
      '-': () => around(state.moment, (last - first) * 2),
      0: () => zoom(null),
    }[key];
    act?.();
    return Boolean(act);
  }

  function pointed() {
    element.classList.add('stacked');
    const band = h('div', { class: 'band', hidden: true });
    element.append(band);
    let from = null;
    element.addEventListener('pointerdown', (event) => {
      if (event.button !== 0 || !frame.chart()) return;
      from = event.clientX;
      element.setPointerCapture(event.pointerId);
    });
    element.addEventListener('pointermove', (event) => {
      if (from === null) return;
      const box = element.getBoundingClientRect();
      band.hidden = Math.abs(event.clientX - from) < 5;
      band.style.left = `${Math.min(from, event.clientX) - box.left}px`;
      band.style.width = `${Math.abs(event.clientX - from)}px`;
    });
    element.addEventListener('pointerup', (event) => {
      if (from === null) return;
      const ends = [from, event.clientX].map(pixelTo).sort((a, b) => a - b);
      const dragged = Math.abs(event.clientX - from) >= 5;
      from = null;
      band.hidden = true;
      if (!dragged) choose(columnAt(ends[0]));
      else if (ends[1] > ends[0] + 1) zoom(ends);
    });
    element.addEventListener('pointercancel', () => { from = null; band.hidden = true; });
  }

  const frame = frameOf({
    label: `${look.name ? `${look.name}: m` : 'M'}emory over time by kind, from event ${exact(course.eventOf(first))} to ${exact(course.eventOf(last))}; the highest is ${bytes(course.active[course.peak])} at event ${exact(course.eventOf(course.peak))}.${choose ? ' Arrow keys choose a moment, Home the peak, plus and minus zoom, zero shows all.' : ''}`,
    height,
    option,
    keys: choose && keys,
  });
  const element = frame.element;
  if (choose) pointed();
  const seen = course.levels(course.columns(0, course.last, 400));
  const card = look.bare ? null : cardLine(Math.max(course.active[course.peak], course.reserved(course.fullest)));
  return {
    element,
    redraw: () => frame.draw(),
    say: (text) => frame.say(text),
    legend: legend([
      ...course.kinds
        .map((name, k) => ({ tone: toneOfKind(name), name, here: seen[k].some((level) => level > 0) }))
        .filter(({ here }) => here),
      { tone: 'of-reserved', name: 'reserved', dashed: true, note: 'with what the allocator caches' },
      ...(card ? [{ tone: 'of-refused', name: card.text, dashed: true }] : []),
      ...(course.refused ? [{ tone: 'of-refused', name: 'refused', note: 'from here on with room' }] : []),
    ]),
    note: `${refusedText(course)}${
      last - first + 1 > 50
        ? `${plural(course.inAll, 'event')} of PyTorch's allocator${course.moments < course.inAll + 1 ? `, of which ${exact(course.moments)} moments are here` : ''}. Every column is the highest moment of its stretch, and shows its bytes as requested.`
        : `${plural(course.inAll, 'event')} of PyTorch's allocator; bytes as requested.`
    }`,
  };
}
