// Capacity of the GPU's profile, as a line in charts of memory.
import { carrier } from './bands.js';
import { bytes } from './format.js';

let card = null;

/** To be called once with the object `run` of the report. */
export function setCard({ device }) {
  card =
    device.profile_bytes > 0 ? { name: device.profile, value: device.profile_bytes } : null;
}

/** The line of a chart whose highest level is given: {value, text}; null where it would lie far above the chart. */
export function cardLine(highest) {
  return card && highest >= card.value / 2
    ? { value: card.value, text: `${card.name} holds ${bytes(card.value)}` }
    : null;
}

/** A sentence for below the chart. */
export function cardNote(highest) {
  if (!card) return '';
  const holds = `${card.name} holds ${bytes(card.value)}`;
  if (highest > card.value) return ` ${holds}: what lies above the dashed line does not fit it.`;
  return cardLine(highest) ? ` ${holds}: the dashed line.` : ` ${holds}: far above this chart.`;
}

/** The series of a panel that carries the line, or nothing. */
export function cardSeries(panel, i, colour) {
  if (!panel.mark) return [];
  return [
    carrier('card', i, {
      markLine: {
        z: 31, // above the areas of a stack
        silent: true,
        symbol: 'none',
        data: [{ yAxis: panel.mark.value }],
        lineStyle: { color: colour('fail'), type: [6, 4], width: 1.2 },
        label: {
          formatter: panel.mark.text,
          position: 'insideEndTop',
          color: colour('fail'),
          fontSize: 11.5,
        },
      },
    }),
  ];
}
