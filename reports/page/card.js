// Capacity of the GPU's profile, as a line in charts of memory.
import { carrier } from './bands.js';
import { bytes } from './format.js';

let card = null;

/** To be called once with the object `run` of the report, of which a real GPU has no profile_bytes. */
export function setCard({ device: { profile, profile_bytes: whole, capacity_bytes: value = whole } }) {
  card = whole > 0 && value > 0 ? { value, text: `PyTorch can have ${bytes(value)} on ${profile}` } : null;
}

/** The line of a chart whose highest level is given: {value, text}; null where it would lie far above the chart. */
export function cardLine(highest) {
  return card && highest >= card.value / 2
    ? card
    : null;
}

/** A sentence for below the chart. */
export function cardNote(highest) {
  if (!card) return '';
  const holds = card.text;
  if (highest > card.value) return ` ${holds}: what lies above the dashed line does not fit it.`;
  return cardLine(highest) ? ` ${holds}: the dashed line.` : ` ${holds}: far above this chart.`;
}

/** The series of a panel that carries the line, or nothing; a legend may have its text (`named`: false). */
export function cardSeries(panel, i, colour, named = true) {
  if (!panel.mark) return [];
  const above = panel.mark.value < 0.88 * (panel.axis?.max ?? Infinity); // the panel has room for the text above the line
  return [
    carrier('card', i, {
      markLine: {
        z: 31, // above the areas of a stack
        silent: true,
        symbol: 'none',
        data: [{ yAxis: panel.mark.value }],
        lineStyle: { color: colour('fail'), type: [6, 4], width: 1.2 },
        label: {
          show: named,
          formatter: panel.mark.text,
          position: above ? 'insideEndTop' : 'insideEndBottom',
          color: colour('fail'),
          fontSize: 11.5,
          textBorderColor: colour('paper'),
          textBorderWidth: 3,
        },
      },
    }),
  ];
}
