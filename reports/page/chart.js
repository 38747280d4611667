// Lines over a number in one or more panels above each other: one cursor reads all of them, zoom and pan keep in step.
import { h } from './dom.js';
import { frameOf, textStyle, tooltip } from './frame.js';
import { bandNames, bandsOption } from './bands.js';

export { legend } from './frame.js';

const TOP = 26;
const GAP = 34; // between panels: the title of the next
const SLIDER = 46;

/** The index of the last point at or before `x`. */
export function before(points, x) {
  let low = 0,
    high = points.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (points[middle][0] <= x) low = middle;
    else high = middle - 1;
  }
  return low;
}

function axisText(colour) {
  return {
    axisLabel: { ...textStyle(colour), hideOverlap: true },
    axisLine: { lineStyle: { color: colour('line') } },
  };
}

function lineOf(line, colour) {
  const tone = colour(line.tone);
  return {
    type: 'line',
    name: line.name,
    data: line.points,
    xAxisIndex: line.panel,
    yAxisIndex: line.panel,
    step: line.steps ? 'end' : false,
    showSymbol: Boolean(line.dots),
    symbol: line.hollow ? 'emptyCircle' : 'circle',
    symbolSize: line.dots ? 6 : 0,
    lineStyle: {
      width: line.dashed ? 1.4 : 1.8,
      color: tone,
      type: line.dashed ? [5, 4] : 'solid',
    },
    itemStyle: { color: tone },
    areaStyle: line.fill ? { color: tone, opacity: 0.1 } : undefined,
    emphasis: { disabled: true },
    z: line.dashed ? 3 : 2,
    markPoint: line.peak && {
      data: [{ coord: line.peak }],
      symbol: 'circle',
      symbolSize: 9,
      label: { show: false },
      itemStyle: { color: tone, borderColor: colour('paper'), borderWidth: 1.5 },
      silent: true,
    },
  };
}

/**
 * panels: [{title, short, exact, axis of axisOf or else min, interval, format}], series: [{panel, name, tone, points: [[x, y], ...] ascending in x,
 * steps, dots, fill, dashed, peak: [x, y], texts: what is read of each point}], bands: [{name, from, to}], x: {name, log, whole, format(value, near)}.
 * `tone` names a colour of style.css. extra(x) may return elements that stand below the values read at x; zoom is kept in
 * the object given. Returns the element, with read(x).
 */
export function chart({
  label,
  panels,
  series,
  bands = [],
  x: xAxis,
  panelHeight = 200,
  zoom,
  extra,
}) {
  const drawn = series.filter((line) => line.points.length > 0);
  const xs = [...new Set(drawn.flatMap((line) => line.points.map(([px]) => px)))].sort(
    (a, b) => a - b,
  );
  const [left, right] = [xs[0] ?? 0, xs.at(-1) ?? 1];
  const dotted = drawn.some((line) => line.dots);
  const bottom = zoom ? SLIDER + 26 : 26;
  const height = TOP + panels.length * panelHeight + (panels.length - 1) * GAP + bottom;
  const place = (i) => TOP + i * (panelHeight + GAP);
  let at = null;

  /** Every line with the text of its value at `x`. */
  function values(x) {
    return drawn.map((line) => {
      const inside = x >= line.points[0][0] && x <= line.points.at(-1)[0];
      const i = before(line.points, x);
      return {
        ...line,
        text: inside ? (line.texts?.[i] ?? panels[line.panel].exact(line.points[i][1])) : '–',
      };
    });
  }

  function reading(x) {
    const band = bands.find(({ from, to }) => x >= from && x < to);
    const shown = values(x);
    const names = [...new Map(shown.map((line) => [line.name, line])).values()];
    return h(
      'div',
      { class: 'reading' },
      h(
        'div',
        { class: 'quiet' },
        `${xAxis.name} ${xAxis.format(x, true)}${band ? ` · ${band.name}` : ''}`,
      ),
      h(
        'table',
        {},
        panels.length > 1 &&
          h(
            'tr',
            {},
            h('th', {}),
            panels.map((panel) => h('th', { class: 'figure' }, panel.short ?? panel.title)),
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
      extra?.(x),
    );
  }

  function option(colour, width) {
    const inner = { left: 58, right: 12, outerBoundsMode: 'none' };
    return {
      grid: panels.map((_, i) => ({ ...inner, top: place(i), height: panelHeight })),
      xAxis: panels.map((_, i) => ({
        type: xAxis.log ? 'log' : 'value',
        logBase: 2,
        gridIndex: i,
        min: left,
        max: right === left ? left + 1 : right,
        minInterval: xAxis.whole ? 1 : undefined,
        splitNumber: Math.max(2, Math.round(width / 140)),
        splitLine: { show: false },
        axisTick: { show: false },
        ...axisText(colour),
        axisLabel: {
          ...axisText(colour).axisLabel,
          show: i === panels.length - 1,
          formatter: (value) => xAxis.format(value),
          alignMinLabel: 'left',
          alignMaxLabel: 'right',
        },
        axisPointer: { snap: dotted, label: { show: false } },
      })),
      yAxis: panels.map((panel, i) => ({
        type: 'value',
        gridIndex: i,
        name: panel.title,
        nameLocation: 'end',
        nameGap: 8,
        nameTextStyle: { ...textStyle(colour), align: 'left', padding: [0, 0, 0, -50] },
        scale: true,
        min: panel.axis?.min ?? panel.min,
        max: panel.axis?.max,
        interval: panel.axis?.interval ?? panel.interval,
        splitNumber: 4,
        splitLine: { lineStyle: { color: colour('line') } },
        axisLine: { show: false },
        axisTick: { show: false },
        axisLabel: { ...textStyle(colour), formatter: panel.axis?.format ?? panel.format },
      })),
      axisPointer: { link: [{ xAxisIndex: 'all' }], lineStyle: { color: colour('quiet') } },
      tooltip: {
        ...tooltip(colour),
        trigger: 'axis',
        formatter: (items) => reading(items[0].axisValue ?? at ?? left),
      },
      dataZoom: zoom && [
        {
          type: 'inside',
          xAxisIndex: panels.map((_, i) => i),
          filterMode: 'none',
          zoomOnMouseWheel: 'ctrl',
          start: zoom.start,
          end: zoom.end,
        },
        {
          type: 'slider',
          xAxisIndex: panels.map((_, i) => i),
          filterMode: 'none',
          height: 20,
          bottom: 8,
          left: inner.left,
          right: inner.right,
          start: zoom.start,
          end: zoom.end,
          showDetail: false,
          brushSelect: false,
          borderColor: colour('line'),
          fillerColor: colour('fill'),
          handleStyle: { color: colour('paper'), borderColor: colour('quiet') },
          moveHandleStyle: { color: colour('line') },
          dataBackground: {
            lineStyle: { opacity: 0 },
            areaStyle: { color: colour('line'), opacity: 0.6 },
          },
          selectedDataBackground: {
            lineStyle: { opacity: 0 },
            areaStyle: { color: colour('line'), opacity: 0.9 },
          },
        },
      ],
      series: [
        ...drawn.map((line) => lineOf(line, colour)),
        ...panels.map((_, i) =>
          bandsOption(i, bands, colour, i === 0 && bandNames(bands, visible(), width - 70)),
        ),
      ],
    };
  }

  const visible = () => {
    const { start, end } = zoom ?? { start: 0, end: 100 };
    return [left + ((right - left) * start) / 100, left + ((right - left) * end) / 100];
  };

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
    frame.say(
      `${xAxis.name} ${xAxis.format(at, true)}: ${values(at)
        .map(
          (line) =>
            `${line.name} ${panels.length > 1 ? `${panels[line.panel].short ?? ''} ` : ''}${line.text}`,
        )
        .join(', ')}`,
    );
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
    option,
    keys,
    drawn: (instance) => {
      instance.off('datazoom');
      instance.on('datazoom', () => {
        if (!zoom) return;
        [{ start: zoom.start, end: zoom.end }] = instance.getOption().dataZoom;
        instance.setOption({
          series: [
            {
              id: 'bands-0',
              markArea: bandNames(bands, visible(), frame.element.clientWidth - 70),
            },
          ],
        });
      });
    },
  });
  frame.element.addEventListener('blur', () => keys('Escape', {}));
  frame.element.read = read; // for buttons beside the chart
  return frame.element;
}
