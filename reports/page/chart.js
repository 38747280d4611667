// Lines over a number in one or more panels above each other: one cursor reads all of them, zoom and pan keep in step.
import { optionOf } from './chart_option.js';
import { frameOf } from './frame.js';
import { readingOf, spokenOf } from './reading.js';

export { legend } from './frame.js';

const TOP = 32;
const GAP = 40; // between panels: the title of the next
const SLIDER = 46;

/**
 * panels: [{title, short, exact, mark: a line across, band: an area [[x, low, high], ...], axis of axisOf or else format}], series: [{panel, name, tone, points: [[x, y],
 * ...] ascending in x, steps, dots, bare (dots alone), dashed, texts: what is read of each point}], x: {name, log, whole, format(value), mark: a line at a moment}. `tone` names a
 * colour of style.css. zoom is kept in the object given. Returns the element.
 */
export function chart({ label, panels, series, x, panelHeight, zoom }) {
  const drawn = series.filter((line) => line.points.length > 0);
  const xs = [...new Set(drawn.flatMap((line) => line.points.map(([px]) => px)))].sort(
    (a, b) => a - b,
  );
  const [left, right] = [xs[0] ?? 0, xs.at(-1) ?? 1];
  const dotted = drawn.some((line) => line.dots);
  const bottom = zoom ? SLIDER + 26 : 26;
  const height = TOP + panels.length * panelHeight + (panels.length - 1) * GAP + bottom;
  const place = (i) => TOP + i * (panelHeight + GAP);
  let at = null; // where the keyboard reads; null: where the pointer is

  const visible = () => {
    const { start, end } = zoom ?? { start: 0, end: 100 };
    return [left + ((right - left) * start) / 100, left + ((right - left) * end) / 100];
  };

  const picture = {
    panels,
    drawn,
    x,
    range: [left, right],
    dotted,
    place,
    panelHeight,
    zoom,
  };
  // A pixel is wider than a moment: the keyboard's place is known better than the pointer's.
  picture.reading = (pointed) => readingOf(picture, at ?? pointed);

  function zoomTo(start, end) {
    const span = Math.min(100, Math.max(0.5, end - start));
    const from = Math.min(100 - span, Math.max(0, start));
    frame
      .chart()
      .dispatchAction({ type: 'dataZoom', dataZoomIndex: 0, start: from, end: from + span });
  }

  function read(x) {
    at = Math.min(right, Math.max(left, x));
    const [from, to] = visible();
    if (zoom && (at < from || at > to)) {
      const span = zoom.end - zoom.start;
      const middle = (100 * (at - left)) / (right - left);
      zoomTo(middle - span / 2, middle + span / 2);
    }
    const pixel = frame.chart().convertToPixel({ xAxisIndex: 0 }, at);
    frame.chart().dispatchAction({ type: 'showTip', x: pixel, y: place(0) + panelHeight / 2 });
    frame.say(spokenOf(picture, at));
  }

  function step(direction, far) {
    const [from, to] = visible();
    if (at === null || at < from || at > to) return read(direction > 0 ? from : to);
    if (!dotted) return read(at + ((to - from) * direction) / (far ? 20 : 200));
    const i = xs.findIndex((value) => value >= at);
    return read(xs[Math.min(xs.length - 1, Math.max(0, i + direction))]);
  }

  function keys(key, { shiftKey }) {
    const span = zoom && zoom.end - zoom.start;
    const middle =
      zoom && (at === null ? (zoom.start + zoom.end) / 2 : (100 * (at - left)) / (right - left));
    const act = {
      ArrowLeft: () => step(-1, shiftKey),
      ArrowRight: () => step(1, shiftKey),
      Escape: () => {
        at = null;
        frame.chart().dispatchAction({ type: 'hideTip' });
      },
      ...(zoom && {
        '+': () => zoomTo(middle - span / 4, middle + span / 4),
        '-': () => zoomTo(middle - span, middle + span),
        0: () => zoomTo(0, 100),
        PageUp: () => zoomTo(zoom.start - span / 2, zoom.end - span / 2),
        PageDown: () => zoomTo(zoom.start + span / 2, zoom.end + span / 2),
      }),
    }[key];
    act?.();
    return Boolean(act);
  }

  const how = zoom
    ? 'Arrow keys read values, plus and minus zoom, zero shows all.'
    : 'Arrow keys read values.';
  const frame = frameOf({
    label: `${label}. ${how}`,
    height,
    option: (colour, width) => optionOf(picture, colour, width),
    keys,
    drawn: (instance) => {
      instance.off('datazoom');
      instance.on('datazoom', () => {
        if (!zoom) return;
        [{ start: zoom.start, end: zoom.end }] = instance.getOption().dataZoom;
      });
    },
  });
  frame.element.addEventListener('pointermove', () => (at = null), true);
  frame.element.addEventListener('blur', () => keys('Escape', {}));
  return frame.element;
}
