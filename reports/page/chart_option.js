// A chart of lines as ECharts wants it said.
import { cardSeries } from './card.js';
import { textStyle, tooltip } from './frame.js';
import { areaSeries, momentSeries } from './marks.js';

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
    symbol: 'circle',
    symbolSize: line.dots ? (line.points.length > 40 ? 3 : 6) : 0,
    lineStyle: {
      width: line.bare ? 0 : line.dashed ? 1.4 : 1.8,
      color: tone,
      type: line.dashed ? [5, 4] : 'solid',
    },
    itemStyle: { color: tone },
    emphasis: { disabled: true },
    z: line.dashed ? 3 : 2,
  };
}

const INNER = { left: 58, right: 12, outerBoundsMode: 'none' };

/** The ends of so many equal parts. */
const parts = (left, right, n) => Array.from({ length: n + 1 }, (_, i) => left + ((right - left) * i) / n);

function horizontal({ panels, x, range: [left, right], dotted }, colour, width) {
  return panels.map((_, i) => ({
    type: x.log ? 'log' : 'value',
    logBase: 2,
    gridIndex: i,
    min: left,
    max: right === left ? left + 1 : right,
    minInterval: x.whole ? 1 : undefined,
    splitNumber: Math.max(2, Math.round(width / 140)),
    splitLine: { show: false },
    axisTick: { show: false },
    ...axisText(colour),
    axisLabel: {
      ...axisText(colour).axisLabel,
      show: i === panels.length - 1,
      formatter: (value) => x.format(value),
      alignMinLabel: 'left',
      alignMaxLabel: 'right',
      customValues: x.even ? parts(left, right, Math.max(1, Math.floor(width / 130))) : undefined,
    },
    axisPointer: { snap: dotted, label: { show: false } },
  }));
}

function vertical({ panels }, colour) {
  return panels.map((panel, i) => ({
    type: 'value',
    gridIndex: i,
    name: panel.title,
    nameLocation: 'end',
    nameGap: 14,
    nameTextStyle: { ...textStyle(colour), align: 'left', padding: [0, 0, 0, -50] },
    scale: true,
    min: panel.axis?.min,
    max: panel.axis?.max,
    interval: panel.axis?.interval,
    splitNumber: 4,
    splitLine: { lineStyle: { color: colour('line') } },
    axisLine: { show: false },
    axisTick: { show: false },
    axisLabel: { ...textStyle(colour), formatter: panel.axis?.format ?? panel.format },
  }));
}

/** Wheel and fingers, and a bar below the panels; one window onto all of them. */
function zoomOf({ panels, zoom: { start, end } }, colour) {
  const window = { xAxisIndex: panels.map((_, i) => i), filterMode: 'none', start, end };
  return [
    { ...window, type: 'inside', zoomOnMouseWheel: 'ctrl' },
    {
      ...window,
      type: 'slider',
      height: 20,
      bottom: 8,
      left: INNER.left,
      right: INNER.right,
      showDetail: false,
      brushSelect: false,
      showDataShadow: false,
      borderColor: colour('line'),
      fillerColor: colour('fill'),
      handleStyle: { color: colour('paper'), borderColor: colour('quiet') },
    },
  ];
}

/** `picture`: {panels, drawn, x, range, dotted, place, panelHeight, zoom, reading}. */
export function optionOf(picture, colour, width) {
  const { panels, drawn, place, panelHeight, zoom, reading } = picture;
  return {
    grid: panels.map((_, i) => ({ ...INNER, top: place(i), height: panelHeight })),
    xAxis: horizontal(picture, colour, width),
    yAxis: vertical(picture, colour),
    axisPointer: { link: [{ xAxisIndex: 'all' }], lineStyle: { color: colour('quiet') } },
    tooltip: {
      ...tooltip(colour),
      trigger: 'axis',
      formatter: ([item]) => reading(item.axisValue),
    },
    dataZoom: zoom && zoomOf(picture, colour),
    series: [
      ...drawn.map((line) => lineOf(line, colour)),
      ...panels.flatMap((panel, i) => [
        ...cardSeries(panel, i, colour),
        ...areaSeries(panel, i, colour),
        ...momentSeries(picture.x.mark, i, colour, picture.range),
      ]),
    ],
  };
}
