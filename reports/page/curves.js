// Two loss curves with the band of noise around the first, and below them the difference window by window.
import { chart, legend } from './chart.js';
import { h } from './dom.js';

/** A loss or a difference with four digits. */
export const short = (value) => String(Number(value.toPrecision(4)));
const exactly = (value) => (value === null ? 'no number' : String(value));

/** The axis of steps of a chart, with a line at the step `first` unless it is null. */
export function stepAxis(first) {
  return {
    name: 'step',
    whole: true,
    format: (value) => String(Math.round(value)),
    mark: first === null ? undefined : { value: first, text: `first at step ${first}` },
  };
}

/** The panel of a difference and its lines: `windows` as [[from, to, mean, error, bound], ...]. */
function differencePanel(windows, title) {
  const middle = ([from, to]) => (from + to) / 2;
  const edges = windows.flatMap(([from, to, , , bound]) => [[from, bound], [to, bound]]);
  return {
    panel: {
      title,
      short: 'B − A',
      format: short,
      exact: exactly,
      band: edges.map(([x, bound]) => [x, -bound, bound]),
    },
    series: {
      panel: 1,
      name: 'mean of B − A',
      tone: 'tone-4',
      dots: true,
      points: windows.map((window) => [middle(window), window[2]]),
      texts: windows.map(([from, to, mean, error]) => `${short(mean)} ± ${error.toPrecision(2)} (steps ${from} to ${to})`),
    },
  };
}

/** {title, steps, a, b, band: [[step, low, high], ...], windows: [[from, to, mean, error, bound], ...], first} */
export function curves({ title, steps, a, b, band, windows, first }) {
  const points = (values) => steps.map((step, i) => [step, values[i]]);
  const dots = steps.length <= 40;
  const series = [
    { panel: 0, name: 'A', tone: 'tone-0', points: points(a), dots },
    { panel: 0, name: 'B', tone: 'tone-1', points: points(b), dots, dashed: true },
  ];
  const panels = [{ title: 'loss', short: 'loss', format: short, exact: exactly, band }];
  if (windows.length > 0) {
    const below = differencePanel(windows, 'mean of B − A over each window');
    panels.push(below.panel);
    series.push(below.series);
  }
  const x = stepAxis(first);
  return [
    legend(series),
    chart({
      label: `${title}: two curves over the steps${windows.length > 0 ? ', and their difference' : ''}${x.mark ? `, which is ${x.mark.text}` : ''}`,
      panels,
      series,
      x,
      panelHeight: 200,
      zoom: steps.length > 24 ? { start: 0, end: 100 } : undefined,
    }),
    h(
      'p',
      { class: 'quiet' },
      'Horizontal: step.',
      band.length > 0 && ' Grey above: where a single step of B is noise. Grey below: where a single window is noise; a longer stretch of windows has a narrower band.',
    ),
  ];
}
