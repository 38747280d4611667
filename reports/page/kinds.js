// Kinds of memory in one order and one colour each, the same on all pages.

const KINDS = [
  'parameters',
  'buffers',
  'gradients',
  'optimizer state',
  'cuBLAS workspaces',
  'activations',
  'sharding buffers',
  'backward',
  'optimizer temporaries',
  'other',
];
/** Memory that the program has freed and the allocator has not got back yet. */
export const WAITING = 'freed, held for another stream';

const place = (kind) => (KINDS.indexOf(kind) + 1 || KINDS.length + 1) - 1;

/** From the bottom of a stack to its top: what stays long lies below. */
export const inOrder = (kinds) =>
  [...kinds].sort((a, b) => place(a) - place(b) || (a < b ? -1 : a > b ? 1 : 0));

/** The kind of a category of a scenario (CategoryScope). */
const OF_CATEGORY = {
  inputs: 'activations',
  outputs: 'activations',
  gathered: 'sharding buffers',
  communication: 'sharding buffers',
  'receive buffers': 'sharding buffers',
  'persistent buffers': 'buffers',
  [WAITING]: WAITING,
};
export const kindOf = (category) => OF_CATEGORY[category] ?? (KINDS.includes(category) ? category : 'other');

/** The name of a colour of style.css. */
export function toneOfKind(kind) {
  if (kind === WAITING) return 'kind-waiting';
  return KINDS.includes(kind) ? `kind-${KINDS.indexOf(kind)}` : 'kind-9';
}
