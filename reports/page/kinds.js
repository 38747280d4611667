// Kinds of memory in one order and one colour each, the same on all pages: those of harness/record/memory_kind.h, from the bottom of a stack to its top.
import { KINDS } from './kinds_of_memory.js';

/** Memory that the program has freed and the allocator has not got back yet. */
export const WAITING = KINDS.at(-1);

const place = (kind) => (KINDS.indexOf(kind) + 1 || KINDS.length + 1) - 1;

export const inOrder = (kinds) =>
  [...kinds].sort((a, b) => place(a) - place(b) || (a < b ? -1 : a > b ? 1 : 0));

export const isKnown = (kind) => KINDS.includes(kind);

/** The name of a colour of style.css, of which each kind has one: --kind-parameters, --kind-optimizer-state. */
export const toneOfKind = (kind) => `kind-${(isKnown(kind) ? kind : 'other').toLowerCase().replace(/[^a-z]+/g, '-')}`;
