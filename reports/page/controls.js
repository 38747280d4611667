// Native controls: the browser brings the keyboard and the screen reader.
import { h, freshId, refill } from './dom.js';
import { bytes, exactBytes, plural } from './format.js';

/** `options` are [value, text]; `change` gets the value. */
export function select(label, options, value, change) {
  const box = h(
    'select',
    { onchange: () => change(options[box.selectedIndex][0]) },
    options.map(([key, text]) => h('option', { selected: key === value }, text)),
  );
  return h('label', { class: 'control' }, h('span', {}, label), box);
}

/** A row of choices, one of which holds. */
export function choice(label, options, value, change) {
  const name = freshId('choice');
  return h(
    'fieldset',
    { class: 'control choice' },
    h('legend', {}, label),
    h(
      'div',
      {},
      options.map(([key, text]) =>
        h(
          'label',
          {},
          h('input', { type: 'radio', name, checked: key === value, onchange: () => change(key) }),
          h('span', {}, text),
        ),
      ),
    ),
  );
}

/** Any of the options; `chosen`, a Set, is changed in place. */
export function several(label, options, chosen, change) {
  return h(
    'fieldset',
    { class: 'control several' },
    h('legend', {}, label),
    options.map(([key, text]) =>
      h(
        'label',
        {},
        h('input', {
          type: 'checkbox',
          checked: chosen.has(key),
          onchange: (event) => {
            if (event.target.checked) chosen.add(key);
            else chosen.delete(key);
            change();
          },
        }),
        ` ${text}`,
      ),
    ),
  );
}

/** `choice` while the options are few, else `select`. */
export function pick(label, options, value, change) {
  const characters = options.reduce((sum, [, text]) => sum + text.length + 3, 0);
  return (characters <= 48 ? choice : select)(label, options, value, change);
}

/**
 * Controls, and below them what `draw` makes of the choices in `own`: made again when one changes. controls(set, show) returns
 * them; a control calls set('key') with the new choice of that name, or show() once it has changed it itself. draw gets `set`.
 */
export function steered(own, controls, draw) {
  const body = h('div', {});
  const show = () => refill(body, draw(set));
  const set = (key) => (value) => {
    own[key] = value;
    show();
  };
  const bar = controls(set, show);
  show();
  return [bar.length > 0 && h('div', { class: 'controls' }, bar), body];
}

/** A heading with its own link, a sentence, and what `parts` hold. */
export function section(id, title, lede, ...parts) {
  return h(
    'section',
    { id, 'aria-labelledby': `${id}-title` },
    h('h2', { id: `${id}-title` }, title),
    lede && h('p', { class: 'lede' }, lede),
    parts,
  );
}

/** Bytes as people read them, with every digit in the title. */
export const amount = (value) => h('data', { value, title: exactBytes(value) }, bytes(value));

export const figure = (...content) => h('td', { class: 'figure' }, content);

/** A variant as an option of a control. */
export const labelled = ({ name, role }) => [name, role === 'control' ? `${name} (control)` : name];

/** The name of a variant with its role. */
export const named = (name, role) => [name, h('span', { class: 'role' }, role)];

/**
 * A table that scrolls by itself where it is wider than the page. heads: a text each, in an array over a column of figures; rows: cells, or what they hold; the first of a
 * row is its header.
 */
export function table(label, kind, heads, rows) {
  const head = (one) => h('th', { scope: 'col', class: Array.isArray(one) && 'figure' }, one);
  const cell = (one, i) =>
    one instanceof HTMLTableCellElement ? one : h(i === 0 ? 'th' : 'td', i === 0 ? { scope: 'row' } : {}, one);
  return h(
    'div',
    { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': label },
    h(
      'table',
      { class: kind },
      h('thead', {}, h('tr', {}, heads.map(head))),
      h('tbody', {}, rows.map((cells) => h('tr', {}, cells.map(cell)))),
    ),
  );
}

/** The first `few` of the items, as wrap() puts what made() makes of each, and a button of the class `look` that shows all. */
export function shortened(items, few, noun, made, wrap, look = 'link') {
  const box = h('div', {});
  const show = (all) => {
    const some = all ? items : items.slice(0, few);
    refill(
      box,
      wrap(some.map(made)),
      some.length < items.length && h('button', { class: look, onclick: () => show(true) }, `Show all ${plural(items.length, noun)}`),
    );
  };
  show(false);
  return box;
}

/** Gives a box with a command a button that copies it. */
export function addCopy(box) {
  const code = box.querySelector('code');
  const button = h(
    'button',
    {
      class: 'copy',
      onclick: async () => {
        try {
          await navigator.clipboard.writeText(code.textContent);
          button.textContent = 'Copied';
        } catch {
          getSelection().selectAllChildren(code); // a page opened from a file may not reach the clipboard
          button.textContent = 'Selected';
        }
        setTimeout(() => {
          button.textContent = 'Copy';
        }, 1500);
      },
    },
    'Copy',
  );
  box.append(button);
  return box;
}

export const copyable = (command) => addCopy(h('div', { class: 'command' }, h('code', {}, command)));
