// The gradients of step 0, a parameter a row: which are off, how far, and where two programs part first.
import { h } from './dom.js';
import { pick, scroller } from './controls.js';
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

const element = (index, shape) => {
  const at = [];
  for (let i = shape.length - 1; i >= 0; i -= 1) {
    at.unshift(index % shape[i]);
    index = Math.floor(index / shape[i]);
  }
  return `[${at.join(', ')}]`;
};

/** Null where no variant has gradients. */
export function gradients(trial) {
  const found = trial.variants.filter((variant) => variant.gradients.length > 0);
  if (found.length === 0) return null;
  // A control differs because it is wrong on purpose: fixes come first, and of them one that is off.
  const judged = found.filter(({ role }) => role !== 'control');
  const ordered = [...judged, ...found.filter(({ role }) => role === 'control')];
  const own = {
    name: (judged.find((variant) => firstOff(variant.gradients)) ?? judged.find(({ role }) => role === 'fixed') ?? ordered[0]).name,
    by: null,
    down: true,
    all: false,
  };
  const body = h('div', {});

  function table(rows, columns, control) {
    const value = (row) => row[own.by[0]]?.[own.by[1]] ?? -1;
    const sorted = own.by
      ? rows.slice().sort((a, b) => (value(b) === value(a) ? 0 : value(b) - value(a)) * (own.down ? 1 : -1))
      : rows;
    const kept = own.all ? sorted : sorted.slice(0, SHOWN);
    const first = firstOff(rows);
    const rowOf = (row) =>
      h(
        'tr',
        { class: row === first && (control ? 'first-off wanted' : 'first-off'), tabindex: row === first && -1 },
        h('th', { scope: 'row' }, row.name),
        h('td', { class: 'quiet' }, `[${row.shape.join(', ')}]`),
        columns.map(({ against, key }) => {
          const distance = row[against];
          return h(
            'td',
            { class: distance ? 'figure' : 'figure quiet' },
            distance
              ? h('data', { value: distance[key], class: !control && against === 'baseline' && distance[key] > 0 && 'off', title: `${exact(distance[key])} ${key}` }, show(distance[key]))
              : '–',
          );
        }),
      );
    const sort = ({ against, key, words }) =>
      h(
        'th',
        {
          scope: 'col',
          class: 'figure',
          'aria-sort': own.by?.[0] === against && own.by[1] === key ? (own.down ? 'descending' : 'ascending') : 'none',
        },
        h(
          'button',
          {
            class: 'sort',
            'aria-label': `${words} ${against === 'baseline' ? AGAINST[0][1] : AGAINST[1][1]}: sort gradients`,
            onclick: () => {
              const again = own.by?.[0] === against && own.by[1] === key;
              Object.assign(own, { by: [against, key], down: again ? !own.down : true });
              draw();
            },
          },
          words,
        ),
      );
    return [
      scroller(
        'Gradients by parameter',
        h(
          'table',
          { class: 'gradients' },
          h(
            'thead',
            {},
            h('tr', {}, h('td', { colspan: 2 }), AGAINST.filter(([against]) => columns.some((one) => one.against === against)).map(([, words]) => h('th', { scope: 'colgroup', colspan: FIGURES.length, class: 'figure' }, words))),
            h('tr', {}, h('th', { scope: 'col' }, 'parameter'), h('th', { scope: 'col' }, 'shape'), columns.map(sort)),
          ),
          h('tbody', {}, kept.map(rowOf)),
        ),
      ),
      sorted.length > kept.length &&
        h('button', { class: 'wide', onclick: () => ((own.all = true), draw()) }, `Show all ${exact(sorted.length)} parameters`),
    ];
  }

  function sentence(rows, compared, control) {
    const first = firstOff(rows);
    if (first) {
      const go = () => {
        own.all = true;
        draw();
        const row = body.querySelector('.first-off');
        row.scrollIntoView({ block: 'center' });
        row.focus({ preventScroll: true });
      };
      return h(
        'p',
        { class: control ? 'quiet' : 'first' },
        control ? 'A wrong fix, which differs as it should. First divergence from the baseline: ' : 'First divergence from the baseline: ',
        h('button', { class: 'link', onclick: go }, `${first.name} ${element(first.first, first.shape)}`),
        `, at worst ${show(first.baseline.ulps)} ULP.`,
      );
    }
    return h('p', { class: 'quiet' }, compared ? `${plural(rows.length, 'gradient')}, each equal to the baseline's, bit for bit.` : `${plural(rows.length, 'gradient')} of the baseline itself.`);
  }

  function draw() {
    const { gradients: rows, role } = found.find(({ name }) => name === own.name);
    const has = (against) => rows.some((row) => row[against]);
    const columns = AGAINST.filter(([against]) => has(against)).flatMap(([against]) => FIGURES.map(([key, words]) => ({ against, key, words })));
    body.replaceChildren(...[sentence(rows, has('baseline'), role === 'control'), table(rows, columns, role === 'control')].flat().filter(Boolean));
  }

  draw();
  return h(
    'div',
    { id: 'gradients' },
    h('h3', {}, 'Gradients of step 0'),
    h('p', { class: 'quiet' }, 'A parameter a row, the worst of all ranks: ULP and absolute at the worst element, relative by Euclidean norms.'),
    found.length > 1 && h('div', { class: 'controls' }, pick('Gradients of', ordered.map(({ name, role }) => [name, role === 'control' ? `${name} (control)` : name]), own.name, (name) => {
      Object.assign(own, { name, all: false });
      draw();
    })),
    body,
  );
}
