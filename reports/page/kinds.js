// Kinds of memory in one order and one colour each, the same on all pages.

/** From the bottom of a stack to its top: what stays long lies below. The number is that of a colour of style.css. */
const KINDS = new Map([
  ['parameters', 0],
  ['buffers', 1],
  ['gradients', 2],
  ['optimizer state', 3],
  ['cuBLAS workspaces', 4],
  ['inputs', 10],
  ['activations', 5],
  ['sharding buffers', 6],
  ['gathered parameters', 11],
  ['gathered frozen parameters', 12],
  ['backward', 7],
  ['optimizer temporaries', 8],
  ['rounding', 13],
  ['other', 9],
]);
/** Memory that the program has freed and the allocator has not got back yet. */
export const WAITING = 'freed, held for another stream';

const ORDER = [...KINDS.keys()];
const place = (kind) => (ORDER.indexOf(kind) + 1 || ORDER.length + 1) - 1;

export const inOrder = (kinds) =>
  [...kinds].sort((a, b) => place(a) - place(b) || (a < b ? -1 : a > b ? 1 : 0));

/** The kind of a category of a scenario (CategoryScope in harness/measure/recorder.h) where the two have other words. */
const OF_CATEGORY = {
  outputs: 'activations',
  gathered: 'sharding buffers',
  communication: 'sharding buffers',
  'receive buffers': 'sharding buffers',
  'persistent buffers': 'buffers',
  unsharded: 'gathered parameters',
  frozen: 'gathered frozen parameters',
  temporaries: 'optimizer temporaries',
  workspaces: 'cuBLAS workspaces',
};
/** A category that is in no map keeps its own name: it is seen, and is not "other" silently. */
export const kindOf = (category) => OF_CATEGORY[category] ?? category;
export const isKnown = (kind) => kind === WAITING || KINDS.has(kind);

/** The name of a colour of style.css. */
export const toneOfKind = (kind) => (kind === WAITING ? 'kind-waiting' : `kind-${KINDS.get(kind) ?? KINDS.get('other')}`);
