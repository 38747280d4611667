// Marks of a chart of lines: the area of a band, and a line at a moment.
import { carrier } from './bands.js';

/** The area between low and high of a panel's band [[x, low, high], ...]: two lines, one upon the other. */
export function areaSeries({ band }, i, colour) {
  if (!band?.length) return [];
  const line = (name, data) => ({
    ...carrier(name, i, {}),
    data,
    stack: `band-${i}`,
    stackStrategy: 'all',
    symbol: 'none',
    lineStyle: { width: 0 },
    z: 1,
  });
  return [
    line('low', band.map(([x, low]) => [x, low])),
    {
      ...line('high', band.map(([x, low, high]) => [x, high - low])),
      areaStyle: { color: colour('quiet'), opacity: 0.18 },
    },
  ];
}

/** A line from top to bottom of panel `i` at `mark`: {value, text}; the text stands in the first panel, on the side with more of the `range`. */
export function momentSeries(mark, i, colour, [left, right]) {
  if (!mark) return [];
  const align = mark.value < (left + right) / 2 ? 'left' : 'right';
  return [
    carrier('moment', i, {
      markLine: {
        z: 30,
        silent: true,
        symbol: 'none',
        data: [{ xAxis: mark.value }],
        lineStyle: { color: colour('fail'), type: [6, 4], width: 1.2 },
        label: { show: i === 0, formatter: mark.text, position: 'insideEndTop', rotate: 0, align, color: colour('fail'), fontSize: 11.5 },
      },
    }),
  ];
}
