// The values of a chart's lines at one place, as elements and as a sentence.
import { h } from './dom.js';

/** The index of the last point at or before `x`. */
function before(points, x) {
  let low = 0,
    high = points.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (points[middle][0] <= x) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** As `before`, but of several points at this very x the highest: a peak may last no time. */
function highestAt(points, x) {
  let best = before(points, x);
  for (let i = best; i >= 0 && points[i][0] === x; i -= 1) {
    if (points[i][1] > points[best][1]) best = i;
  }
  return best;
}

/** Every line with the text of its value at `x`. */
function values({ drawn, panels }, x) {
  return drawn.map((line) => {
    const inside = x >= line.points[0][0] && x <= line.points.at(-1)[0];
    const i = highestAt(line.points, x);
    return {
      ...line,
      text: inside ? (line.texts?.[i] ?? panels[line.panel].exact(line.points[i][1])) : '–',
    };
  });
}

/** A table: a row a line, a column a panel. */
export function readingOf(picture, x) {
  const { panels, x: xAxis } = picture;
  const shown = values(picture, x);
  const names = [...new Map(shown.map((line) => [line.name, line])).values()];
  return h(
    'div',
    { class: 'reading' },
    h(
      'div',
      { class: 'quiet' },
      `${xAxis.name} ${xAxis.format(x)}`,
    ),
    h(
      'table',
      {},
      panels.length > 1 &&
        h(
          'tr',
          {},
          h('th', {}),
          panels.map((panel) => h('th', { class: 'figure' }, panel.short)),
        ),
      names.map(({ name, tone }) =>
        h(
          'tr',
          {},
          h('th', { class: tone }, h('i', { class: 'swatch' }), ` ${name}`),
          panels.map((_, i) =>
            h(
              'td',
              { class: 'figure' },
              shown.find((line) => line.name === name && line.panel === i)?.text ?? '',
            ),
          ),
        ),
      ),
    ),
  );
}

export function spokenOf(picture, x) {
  const { panels, x: xAxis } = picture;
  const each = values(picture, x).map(({ name, panel, text }) =>
    [name, panels.length > 1 && panels[panel].short, text].filter(Boolean).join(' '),
  );
  return `${xAxis.name} ${xAxis.format(x)}: ${each.join(', ')}`;
}
