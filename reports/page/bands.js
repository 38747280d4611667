// Phases behind the lines of a chart: every second one shaded, its name where there is room.
import { oneLine } from './format.js';

/** markArea with names where `pixels` of the visible stretch leave room for them. */
export function bandNames(bands, [from, to], pixels) {
  const scale = pixels / Math.max(1e-9, to - from);
  return {
    data: bands.map((band, i) => {
      const name = oneLine(band.name);
      const seen = (Math.min(band.to, to) - Math.max(band.from, from)) * scale;
      return [
        {
          name: seen > 7 * name.length + 6 ? name : '',
          xAxis: band.from,
          itemStyle: i % 2 ? { opacity: 0 } : undefined,
        },
        { xAxis: band.to },
      ];
    }),
  };
}

/** A series of no points, which carries marks of panel `i`. */
export function carrier(name, i, marks) {
  return {
    id: `${name}-${i}`,
    type: 'line',
    data: [],
    xAxisIndex: i,
    yAxisIndex: i,
    silent: true,
    tooltip: { show: false },
    ...marks,
  };
}

/** The bands of panel `i`, with their names above it; `marks` is what bandNames gives. */
export function bandsOption(i, marks, colour) {
  return carrier('bands', i, {
    markArea: {
      silent: true,
      itemStyle: { color: colour('raised') },
      label: { color: colour('quiet'), fontSize: 11.5, position: 'top', distance: 6 },
      ...marks,
    },
  });
}
