// The figures of a document that html.cpp wrote, each with its data: line charts, and those of other modules by their kind.
import { h } from './dom.js';
import { chart, legend } from './chart.js';
import { bars, heat } from './fit.js';
import { waterfall } from './waterfall.js';
import { axisOf, exact, exactBytes, unitFor } from './format.js';

const KINDS = { bars, heat, waterfall };

function drawn({ title, x, y, bytes, lines }) {
  const series = lines.map(({ name, points }, i) => ({
    panel: 0,
    name,
    points,
    tone: `tone-${i % 12}`,
    steps: bytes && points.length > 40,
    dots: points.length <= 40, // single measurements, with straight lines between them
    dashed: i % 2 === 1,
  }));
  const levels = lines.flatMap(({ points }) => points.map(([, level]) => level)).filter((level) => level !== null);
  const [low, high] = levels.reduce(([a, b], one) => [Math.min(a, one), Math.max(b, one)], [Infinity, -Infinity]);
  const unit = unitFor(high);
  const read = (level) => (level === null ? 'no number' : bytes ? exactBytes(level) : exact(level));
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
        whole: lines.every(({ points }) => points.every(([at]) => Number.isInteger(at))),
        format: (value) => String(Number(value.toPrecision(6))),
      },
      panelHeight: 220,
      zoom: levels.length > 24 ? { start: 0, end: 100 } : undefined,
    }),
    h('p', { class: 'quiet' }, `Horizontal: ${x}.`),
  ];
}

export function drawFigures() {
  for (const figure of document.querySelectorAll('figure')) {
    const data = JSON.parse(figure.querySelector('script').textContent);
    figure.append(...(KINDS[data.kind] ?? drawn)(data).filter(Boolean));
  }
}
