// The figures of a document that html.cpp wrote, each with its data: line charts, and those of other modules by their kind.
import { h } from './dom.js';
import { chart, legend } from './chart.js';
import { curves } from './curves.js';
import { overlay } from './overlay.js';
import { axisOf, exact, exactBytes, unitFor } from './format.js';

const KINDS = { curves, overlay };

const two = (number) => String(number).padStart(2, '0');
/** "11-29", "11-29 14:05" or "14:05:33" of seconds since 1970, in UTC, as far as it tells moments of a range of so many days apart. */
function dated(seconds, days) {
  const at = new Date(1000 * seconds);
  const date = `${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())}`;
  const time = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
  return days >= 4 ? date : days * 1440 >= 10 ? `${date} ${time}` : `${time}:${two(at.getUTCSeconds())}`;
}

function drawn({ title, x, y, bytes, dates, lines }) {
  const bounds = lines.some(({ bound }) => bound);
  const read = (level) => (level === null ? 'no number' : bytes ? exactBytes(level) : exact(level));
  const places = lines.flatMap(({ points }) => points.map(([at]) => at));
  const days = (Math.max(...places) - Math.min(...places)) / 86400;
  const series = lines.map(({ name, points, notes, bound }, i) => ({
    panel: 0,
    name,
    points,
    tone: `tone-${i % 12}`,
    steps: bytes && points.length > 40,
    texts: notes && points.map(([, level], k) => `${read(level)} ${notes[k]}`),
    dots: points.length <= 40 && !bound, // single measurements, with straight lines between them
    dashed: bounds ? bound : i % 2 === 1,
  }));
  const levels = lines.flatMap(({ points }) => points.map(([, level]) => level)).filter((level) => level !== null);
  const [low, high] = levels.reduce(([a, b], one) => [Math.min(a, one), Math.max(b, one)], [Infinity, -Infinity]);
  const unit = unitFor(high);
  return [
    series.length > 1 && legend(series),
    chart({
      label: title,
      series,
      panels: [
        {
          title: bytes ? `${y}, ${unit.name}` : y,
          axis: bytes ? axisOf(low < high / 2 ? Math.min(0, low) : low, high, unit) : undefined,
          format: (value) => String(Number(value.toPrecision(6))),
          exact: read,
        },
      ],
      x: {
        name: x,
        whole: places.every(Number.isInteger),
        even: dates, // no part of a day is rounder than another
        format: (value) => (dates ? dated(value, days) : String(Number(value.toPrecision(6)))),
      },
      panelHeight: 220,
      zoom: levels.length > 24 ? { start: 0, end: 100 } : undefined,
    }),
    h('p', { class: 'quiet' }, `Horizontal: ${x}.`),
  ];
}

export function drawFigures() {
  for (const figure of document.querySelectorAll('figure:has(> script)')) {
    const data = JSON.parse(figure.querySelector('script').textContent);
    figure.querySelector('.still')?.remove();
    figure.append(...(KINDS[data.kind] ?? drawn)(data).filter(Boolean));
  }
}
