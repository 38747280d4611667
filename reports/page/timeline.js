// Memory over time of two variants, over each other; and what the peak consists of.
import { h } from './dom.js';
import { chart, legend } from './chart.js';
import { choice, pick, scroller, section } from './controls.js';
import { bytes, duration, exactBytes, unitFor } from './format.js';
import { STATISTICS, baselineOf, peak, rankRecord, variantIn } from './model.js';

function lineOf(record, name, statistic, tone) {
  const { time } = record.timeline;
  const points = time.map((t, i) => [t - time[0], record.timeline[statistic][i]]);
  const top = points.reduce((best, point) => (point[1] > best[1] ? point : best), points[0]);
  return { name, tone, points, steps: true, fill: true, peak: top };
}

/** Phases of a record as bands on its own clock. */
function bandsOf(record) {
  const start = record.timeline.time[0],
    end = record.timeline.time.at(-1);
  return record.phase_starts.map(({ name, time }, i) => ({
    name,
    from: Math.max(0, time - start),
    to: Math.max(0, (record.phase_starts[i + 1]?.time ?? end) - start),
  }));
}

/** Of the fixed variants the one that saves most; else another one than the baseline. */
function counterpart(group, schedule, base) {
  const others = group.variants.filter(({ name }) => name !== base);
  const fixed = others.filter(({ role }) => role === 'fixed');
  const candidates = fixed.length > 0 ? fixed : others;
  const height = ({ name }) => peak(variantIn(group, schedule, name), 'active') ?? Infinity;
  return candidates.reduce(
    (best, one) => (!best || height(one) < height(best) ? one : best),
    undefined,
  )?.name;
}

export function timeline(group, { schedule, rank }) {
  const base = baselineOf(group).name;
  const own = { statistic: 'active', first: base, second: counterpart(group, schedule, base) };
  const body = h('div', {});
  const names = group.variants.map(({ name }) => [name, name]);

  function draw() {
    const records = [own.first, own.second]
      .map((name) => rankRecord(variantIn(group, schedule, name), own.statistic, rank))
      .map((record) => (record?.timeline.time.length > 0 ? record : null));
    if (!records.some(Boolean)) {
      body.replaceChildren(h('p', { class: 'empty' }, 'No memory over time was recorded here.'));
      return;
    }
    const lines = records
      .map(
        (record, i) =>
          record &&
          lineOf(record, [own.first, own.second][i], own.statistic, ['first', 'second'][i]),
      )
      .filter(Boolean);
    const unit = unitFor(Math.max(...lines.map((line) => line.peak[1])));
    const end = Math.max(...lines.map((line) => line.points.at(-1)[0]));
    const scale =
      end >= 1e9 ? [1e9, 's'] : end >= 1e6 ? [1e6, 'ms'] : end >= 1e3 ? [1e3, 'µs'] : [1, 'ns'];
    body.replaceChildren(
      legend(
        lines.map((line) => ({
          tone: line.tone,
          name: line.name,
          note: `peak ${bytes(line.peak[1])}`,
        })),
      ),
      chart({
        label: `${own.statistic} memory over time under ${schedule}: ${lines.map(({ name }) => name).join(' and ')}`,
        series: lines,
        bands: bandsOf(records.find(Boolean)),
        x: {
          name: 'at',
          unit: scale[0],
          format: (value, near) =>
            near
              ? duration(Math.round(value))
              : `${Number((value / scale[0]).toPrecision(6))} ${scale[1]}`,
        },
        y: {
          zero: true,
          unit: unit.bytes,
          label: unit.name,
          format: (value) => unit.format(value).replace(/\.0+$/, ''),
          exact: exactBytes,
        },
      }),
      h(
        'p',
        { class: 'quiet' },
        `Last step, ${records
          .filter(Boolean)
          .map((record, i) => `${lines[i].name} on rank ${record.rank}`)
          .join(', ')}; phases of ${lines[0].name} shaded.`,
      ),
    );
  }

  draw();
  return section(
    'time',
    'Memory over time',
    null,
    h(
      'div',
      { class: 'controls' },
      choice(
        'Statistic',
        STATISTICS.map((name) => [name, name]),
        own.statistic,
        (statistic) => {
          own.statistic = statistic;
          draw();
        },
      ),
      names.length > 1 &&
        [
          ['first', 'Variant'],
          ['second', 'Compared with'],
        ].map(([key, label]) =>
          pick(label, names, own[key], (name) => {
            own[key] = name;
            draw();
          }),
        ),
    ),
    body,
  );
}

export function composition(group, { schedule, rank }) {
  const rows = group.variants
    .map(({ name, role }) => ({
      name,
      role,
      record: rankRecord(variantIn(group, schedule, name), 'allocated', rank),
    }))
    .filter(({ record }) => record && Object.keys(record.categories).length > 0);
  if (rows.length === 0) return null;
  const names = [...new Set(rows.flatMap(({ record }) => Object.keys(record.categories)))];
  const share = (record, name) => record.categories[name]?.peak_share ?? 0;
  const total = (record) => names.reduce((sum, name) => sum + share(record, name), 0);
  const largest = Math.max(1, ...rows.map(({ record }) => total(record)));
  const unit = unitFor(largest);
  const kept = names.filter((name) => rows.some(({ record }) => share(record, name) !== 0));
  const tone = (name) => `tone-${names.indexOf(name) % 8}`;
  return section(
    'composition',
    'What the peak is made of',
    `Allocated memory at its highest moment under ${schedule}, in ${unit.name}. The parts sum to the peak exactly.`,
    legend(kept.map((name) => ({ tone: tone(name), name }))),
    h(
      'div',
      { class: 'stacks' },
      rows.map(({ name, role, record }) => [
        h('div', { class: 'stack-name' }, name, h('span', { class: 'role' }, role)),
        h(
          'div',
          { class: 'stack' },
          kept.map(
            (category) =>
              share(record, category) > 0 &&
              h('i', {
                class: tone(category),
                title: `${category}: ${exactBytes(share(record, category))}`,
                style: `width:${((100 * share(record, category)) / largest).toFixed(3)}%`,
              }),
          ),
          h(
            'data',
            { value: total(record), title: exactBytes(total(record)) },
            unit.format(total(record)),
          ),
        ),
      ]),
    ),
    h(
      'details',
      {},
      h('summary', {}, "Figures, and what is left at the step's end"),
      scroller(
        'Categories',
        h(
          'table',
          {},
          h(
            'thead',
            {},
            h(
              'tr',
              {},
              h('th', { scope: 'col' }, 'variant'),
              names.map((name) => h('th', { scope: 'col', class: 'figure' }, name)),
            ),
          ),
          h(
            'tbody',
            {},
            rows.map(({ name, record }) =>
              h(
                'tr',
                {},
                h('th', { scope: 'row' }, name),
                names.map((category) =>
                  h(
                    'td',
                    { class: 'figure' },
                    h(
                      'data',
                      {
                        value: share(record, category),
                        title: exactBytes(share(record, category)),
                      },
                      unit.format(share(record, category)),
                    ),
                    h(
                      'span',
                      { class: 'role' },
                      unit.format(record.categories[category]?.end ?? 0),
                    ),
                  ),
                ),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}
