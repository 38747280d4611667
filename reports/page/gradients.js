// Gradients of step 0, a parameter a row, the one farthest from the baseline's first.
import { h } from './dom.js';
import { figure, labelled, pick, steered, table } from './controls.js';
import { exact, exactOrShort, plural } from './format.js';

const SHOWN = 15;
const AGAINST = [
  ['baseline', 'to the baseline'],
  ['reference', 'to the reference'],
];
const FIGURES = [
  ['ulps', 'ULP'],
  ['absolute', 'absolute'],
  ['relative', 'relative'],
];

const show = (value) => (value === Infinity ? '∞' : exactOrShort(value));
/** The first parameter, in the program's order, that is not the baseline's. */
const firstOff = (rows) => rows.find(({ first }) => first >= 0);

function element(index, shape) {
  const at = [];
  for (let i = shape.length - 1; i >= 0; i -= 1) {
    at.unshift(index % shape[i]);
    index = Math.floor(index / shape[i]);
  }
  return `[${at.join(', ')}]`;
}

function sentence(rows, role) {
  const first = firstOff(rows);
  if (first)
    return `${role === 'control' ? 'A wrong fix, which differs as it should. ' : ''}First divergence from the baseline: ${first.name} ${element(first.first, first.shape)}, at worst ${show(first.baseline.ulps)} ULP.`;
  const compared = rows.some(({ baseline }) => baseline);
  return `${plural(rows.length, 'gradient')}${compared ? ", each equal to the baseline's, bit for bit." : ' of the baseline itself.'}`;
}

function rowsTable(rows, role, all, showAll) {
  const against = AGAINST.filter(([key]) => rows.some((row) => row[key]));
  const ulps = (row) => row[against[0]?.[0]]?.ulps ?? -1;
  const sorted = rows.slice().sort((a, b) => ulps(b) - ulps(a) || 0);
  const cell = (distance, side, [key]) => {
    if (!distance) return figure('–');
    const off = role !== 'control' && side === 'baseline' && distance[key] > 0;
    return figure(h('data', { value: distance[key], class: off && 'off', title: `${exact(distance[key])} ${key}` }, show(distance[key])));
  };
  return [
    table(
      'Gradients by parameter',
      'gradients',
      ['parameter', 'shape', ...against.flatMap(([, words]) => FIGURES.map(([, name]) => [`${name} ${words}`]))],
      sorted
        .slice(0, all ? sorted.length : SHOWN)
        .map((row) => [row.name, `[${row.shape.join(', ')}]`, ...against.flatMap(([side]) => FIGURES.map((one) => cell(row[side], side, one)))]),
    ),
    !all && sorted.length > SHOWN && h('button', { class: 'wide', onclick: showAll }, `Show all ${exact(sorted.length)} parameters`),
  ];
}

/** Null where no variant has gradients. */
export function gradients(trial) {
  const found = trial.variants.filter((variant) => variant.gradients.length > 0);
  if (found.length === 0) return null;
  // A control differs because it is wrong on purpose: fixes come first, and of them one that is off.
  const judged = found.filter(({ role }) => role !== 'control');
  const ordered = [...judged, ...found.filter(({ role }) => role === 'control')];
  const first = judged.find((variant) => firstOff(variant.gradients)) ?? judged.find(({ role }) => role === 'fixed') ?? ordered[0];
  const own = { name: first.name, whole: null };
  function draw(set) {
    const { name, gradients: rows, role } = found.find((variant) => variant.name === own.name);
    return [
      h('p', { class: role !== 'control' && firstOff(rows) ? 'first' : 'quiet' }, sentence(rows, role)),
      rowsTable(rows, role, own.whole === name, () => set('whole')(name)),
    ];
  }
  return h(
    'div',
    { id: 'gradients' },
    h('h3', {}, 'Gradients of step 0'),
    h('p', { class: 'quiet' }, 'A parameter a row, the worst of all ranks: ULP and absolute at the worst element, relative by Euclidean norms.'),
    steered(
      own,
      (set) => (found.length > 1 ? [pick('Gradients of', ordered.map(labelled), own.name, set('name'))] : []),
      draw,
    ),
  );
}
