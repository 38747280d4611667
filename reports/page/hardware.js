// Figures that only a real GPU has: step times over repetitions, memory that PyTorch's allocator does not see, and whether
// the device was held back.
import { h } from './dom.js';
import { figure, section, table } from './controls.js';
import { bytes, duration, exact, exactBytes, plural } from './format.js';

const time = (ns) => h('data', { value: ns, title: `${exact(ns)} ns` }, duration(ns));
const size = (count) => h('data', { value: count, title: exactBytes(count) }, bytes(count));

function times(variants) {
  const { repetitions } = variants[0].timing;
  return [
    h('p', {}, `Step time by CUDA events, ${plural(repetitions, 'repetition')} in turns, the first step of each left out.`),
    table(
      'Step times',
      '',
      ['variant', ['median'], ['quartiles'], ['to the baseline'], ['lowest to highest']],
      variants.map(({ name, timing: { median_ns, low_ns, high_ns, ratio } }) => [
        name,
        figure(time(median_ns)),
        figure(time(low_ns), ' to ', time(high_ns)),
        figure(ratio ? `${ratio.median.toFixed(3)}×` : '–'),
        figure(ratio ? `${ratio.lowest.toFixed(3)}× to ${ratio.highest.toFixed(3)}×` : '–'),
      ]),
    ),
  ];
}

function whose(owners) {
  if (!owners) return null;
  if (owners.unknown) return [': NVML does not say who uses it (', owners.unknown, ')'];
  return [
    ': this process ',
    size(owners.own),
    ', other processes ',
    size(owners.others),
    ', kept by the driver besides ',
    size(owners.driver),
  ];
}

// Most of any variant, for each rank: it holds its context and libraries all along.
function outside(variants) {
  const most = new Map();
  for (const record of variants.flatMap((variant) => variant.ranks)) {
    const known = most.get(record.rank);
    if (record.outside_allocator > 0 && !(known?.outside_allocator >= record.outside_allocator))
      most.set(record.rank, record);
  }
  if (most.size === 0) return null;
  return [
    h('p', {}, 'Outside the allocator (context, NCCL, cuBLAS, other processes):'),
    h(
      'ul',
      {},
      [...most.values()].map((record) => h('li', {}, `rank ${record.rank}, `, size(record.outside_allocator), whose(record.outside_owners))),
    ),
  ];
}

function unheld(variants) {
  const lines = variants.flatMap(({ name, ranks }) =>
    ranks
      .filter((record) => record.unheld)
      .map((record) => h('li', {}, `${name}, rank ${record.rank}: ${record.unheld}`)),
  );
  return lines.length > 0 && [h('p', {}, 'The device was not held back here, so these figures are no bound:'), h('ul', {}, lines)];
}

export function hardware({ trial }) {
  const variants = trial.variants.filter(({ ranks }) => ranks.length > 0);
  const timed = variants.filter((variant) => variant.timing);
  const parts = [timed.length > 0 && times(timed), outside(variants), unheld(variants)].filter(Boolean);
  if (parts.length === 0) return null;
  return section('hardware', 'On this GPU', `Schedule ${trial.schedule}.`, ...parts.flat());
}
