// Memory over time: the variants chosen over each other, a panel a statistic, phases shaded.
import { h } from './dom.js';
import { chart } from './chart.js';
import { choice, labelled, section, several, steered } from './controls.js';
import { cardLine, cardNote } from './card.js';
import { axisOf, duration, exact, exactBytes, unitFor } from './format.js';
import { STATISTICS, baselineOf, peak, rankRecord, toneOf } from './model.js';

/** Of the fixed variants the one that saves most; else another one than the baseline. */
function counterpart(trial, base) {
  const others = trial.variants.filter(({ name }) => name !== base);
  const fixed = others.filter(({ role }) => role === 'fixed');
  const height = (variant) => peak(variant, 'active') ?? Infinity;
  return (fixed.length > 0 ? fixed : others).sort((a, b) => height(a) - height(b))[0]?.name;
}

function lineOf(record, statistic) {
  const { time } = record.timeline;
  const points = time.map((t, i) => [t - time[0], record.timeline[statistic][i]]);
  return {
    points,
    peak: points.reduce((best, point) => (point[1] > best[1] ? point : best)),
    least: points.reduce((low, [, level]) => Math.min(low, level), Infinity),
  };
}

const lengthOf = ({ timeline: { time } }) => time.at(-1) - time[0];

/** Phases of a record as bands on its own clock. */
function bandsOf(record) {
  const [start, end] = [record.timeline.time[0], record.timeline.time.at(-1)];
  return record.phase_starts.map(({ name, time }, i) => ({
    name,
    from: Math.max(0, time - start),
    to: Math.max(0, (record.phase_starts[i + 1]?.time ?? end) - start),
  }));
}

function thinned(found) {
  const kept = found.reduce((sum, { record }) => sum + record.timeline.time.length, 0);
  const all = found.reduce((sum, { record }) => sum + record.timeline.in_all, 0);
  return kept < all ? ` Drawn from ${exact(kept)} of ${exact(all)} moments, every highest and lowest among them.` : '';
}

/** A variant's peaks as buttons that lead to their moments in `picture`. */
function peaksOf(lines, picture, unit) {
  const go = ({ peak: [at] }) => {
    picture.focus({ preventScroll: true });
    picture.read(at);
  };
  const button = (line) =>
    h(
      'button',
      { class: 'peak', title: `Show the highest moment of ${line.statistic}: ${exactBytes(line.peak[1])}`, onclick: () => go(line) },
      `${line.statistic} ${unit.format(line.peak[1])} ${unit.name}`,
    );
  const [{ tone, dashed, name }] = lines;
  return h('li', { class: tone }, h('i', { class: dashed ? 'swatch dashed' : 'swatch' }), ` ${name} `, lines.map(button));
}

export function timeline(group, { trial, rank }) {
  const base = baselineOf(group).name;
  const own = {
    statistic: 'all',
    variants: new Set([base, counterpart(trial, base)].filter(Boolean)),
    zoom: { start: 0, end: 100 },
  };

  function draw() {
    const shown = own.statistic === 'all' ? STATISTICS : [own.statistic];
    const by = shown.at(-1) === 'allocated' ? 'allocated' : 'active';
    const found = trial.variants
      .filter(({ name }) => own.variants.has(name))
      .map((variant) => ({ name: variant.name, role: variant.role, record: rankRecord(variant, by, rank) }))
      .filter(({ record }) => record?.timeline.time.length > 0);
    if (found.length === 0)
      return h('p', { class: 'empty' }, 'No memory over time was recorded here.');
    const lines = shown.flatMap((statistic, panel) =>
      found.map(({ name, role, record }) => ({
        ...lineOf(record, statistic),
        panel,
        statistic,
        name,
        tone: toneOf(group, name),
        steps: true,
        fill: true,
        dashed: role === 'control',
      })),
    );
    const least = (some) => Math.min(...some.map((line) => line.least));
    const most = (some) => Math.max(...some.map((line) => line.peak[1]));
    const [lowest, highest] = [least(lines), most(lines)];
    const flat = lowest > 0.8 * highest; // from zero, nothing would be seen
    const unit = unitFor(highest);
    // Fitted, reserved has a scale of its own: it lies apart from what tensors hold.
    const beside = (statistic) => lines.filter((line) => !flat || (line.statistic === 'reserved') === (statistic === 'reserved'));
    const panelOf = (statistic) => {
      const mark = cardLine(most(beside(statistic)));
      const low = flat ? least(beside(statistic)) : Math.min(0, lowest);
      return {
        title: `${statistic}, ${unit.name}`,
        short: statistic,
        axis: axisOf(low, Math.max(most(beside(statistic)), mark?.value ?? 0), unit),
        exact: exactBytes,
        mark,
      };
    };
    const shaded = found.length > 1 ? found.reduce((a, b) => (lengthOf(b.record) > lengthOf(a.record) ? b : a)) : found[0];
    const picture = chart({
      label: `Memory over time under ${trial.schedule}: ${found.map(({ name }) => name).join(', ')}`,
      panels: shown.map(panelOf),
      series: lines,
      bands: bandsOf(shaded.record),
      x: { name: 'at', format: (value) => duration(Math.round(value)) },
      panelHeight: shown.length > 1 ? 130 : 280,
      zoom: own.zoom,
    });
    const who = found.map(({ name, record }) => `${name} on rank ${record.rank}`).join(', ');
    return [
      h('ul', { class: 'legend', 'aria-label': 'Peaks' }, found.map(({ name }) => peaksOf(lines.filter((line) => line.name === name), picture, unit))),
      picture,
      h(
        'p',
        { class: 'quiet' },
        `${who}; the phases of ${shaded.name} are shaded${found.length > 1 ? ', which takes longest' : ''}.${flat ? ' The scale does not begin at zero.' : ''}${cardNote(highest)}${thinned(found)} Drag to move, Ctrl and wheel or the bar to zoom.`,
      ),
    ];
  }

  return section(
    'time',
    'Memory over time',
    'The last step, on the clock of the allocating host. The clock begins at 0 for every variant.',
    steered(
      own,
      (set, show) => [
        choice('Statistic', [['all', 'all three'], ...STATISTICS.map((name) => [name, name])], own.statistic, set('statistic')),
        several('Variants', group.variants.map(labelled), own.variants, show),
      ],
      draw,
    ),
  );
}
