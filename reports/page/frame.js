// Frame of a chart: it draws itself when it gets a width, again when the colours change, and reads itself aloud.
import { init } from './echarts.js';
import { h } from './dom.js';

const PAPER = 700; // pixels that fit the width of a page of paper
const frames = new Set();

function redraw() {
  for (const frame of [...frames]) {
    if (frame.element.isConnected) frame.draw();
    else frame.close();
  }
}

function printing(on) {
  document.documentElement.classList.toggle('printing', on);
  redraw();
}

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
addEventListener('beforeprint', () => printing(true));
addEventListener('afterprint', () => printing(false));

/** The width of an element, in pixels; on paper its part of a page's width. */
export function widthOf(element) {
  if (!document.documentElement.classList.contains('printing')) return element.clientWidth;
  const main = document.querySelector('main');
  const { paddingLeft, paddingRight } = getComputedStyle(main);
  const whole = main.clientWidth - Number.parseFloat(paddingLeft) - Number.parseFloat(paddingRight);
  return Math.floor(PAPER * Math.min(1, element.clientWidth / Math.max(1, whole)));
}

/** Colours of the page, for a picture that cannot use CSS variables. */
function palette(element) {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}

/** Text of a chart: as the page's own. */
export function textStyle(colour) {
  return { color: colour('quiet'), fontSize: 12, fontFamily: 'inherit' };
}

/** A box of values: its formatter returns elements, never markup, so that names stay text. */
export function tooltip(colour) {
  return {
    confine: true,
    transitionDuration: 0,
    backgroundColor: colour('paper'),
    borderColor: colour('line'),
    padding: [6, 9],
    textStyle: { ...textStyle(colour), color: colour('ink') },
  };
}

/**
 * label: what a screen reader says of it. option(colour, width) is ECharts' option; `drawn` gets the instance after every
 * drawing and keys(key, event) every key; true from it: handled. Returns the element and `say`, which fills its live region.
 */
export function frameOf({ label, height, option, drawn, keys }) {
  const canvas = h('div', { class: 'canvas', 'aria-hidden': 'true' });
  const live = h('div', { class: 'unseen', 'aria-live': 'polite' });
  const element = h(
    'div',
    {
      class: 'chart',
      tabindex: 0,
      role: 'group',
      'aria-label': label,
      style: `height:${height}px`,
    },
    canvas,
    live,
  );
  let chart = null;
  let width = 0;
  const self = {
    element,
    chart: () => chart,
    say: (text) => {
      live.textContent = text;
    },
    draw: () => {
      width = widthOf(element);
      if (width === 0) return;
      chart ??= init(canvas, null, { renderer: 'svg', width, height });
      chart.resize({ width, height });
      chart.setOption(
        {
          animation: false,
          textStyle: textStyle(palette(element)),
          ...option(palette(element), width),
        },
        { notMerge: true },
      );
      drawn?.(chart);
      element.dataset.series = String(chart.getOption().series.length);
    },
    close: () => {
      observer.disconnect();
      frames.delete(self);
      chart?.dispose();
      chart = null;
    },
  };
  const observer = new ResizeObserver(() =>
    requestAnimationFrame(() => {
      if (element.isConnected && element.clientWidth !== width) self.draw();
    }),
  );
  observer.observe(element);
  element.addEventListener('keydown', (event) => {
    if (chart && !event.ctrlKey && !event.metaKey && !event.altKey && keys?.(event.key, event))
      event.preventDefault();
  });
  frames.add(self);
  return self;
}

export function legend(entries) {
  return h(
    'ul',
    { class: 'legend' },
    entries.map(({ tone, name, note, dashed }) =>
      h(
        'li',
        { class: tone },
        h('i', { class: dashed ? 'swatch dashed' : 'swatch' }),
        ` ${name}`,
        note && h('span', { class: 'quiet' }, ' ', note),
      ),
    ),
  );
}
