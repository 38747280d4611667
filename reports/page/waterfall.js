// What a program's new peak has beyond the old one: a bar for each part, which begins where the one before it ends.
import { h } from './dom.js';
import { bytes, exactBytes } from './format.js';
import { WAITING, toneOfKind } from './kinds.js';

/** {before, after, parts: [{kind, name, bytes}]}: the parts sum to the difference. */
export function waterfall({ before, after, parts }) {
  const levels = [before];
  for (const part of parts) levels.push(levels.at(-1) + part.bytes);
  const [low, high] = [Math.min(...levels), Math.max(...levels)];
  const begin = low > 0.6 * high ? Math.max(0, low - (high - low) / 4) : 0; // else small changes of a large peak are not seen
  const share = (level) => `${((100 * (level - begin)) / Math.max(1, high - begin)).toFixed(3)}%`;
  const row = (name, from, to, tone, value, text) => [
    h('div', { class: 'stack-name' }, name),
    h(
      'div',
      { class: 'stack' },
      h('i', { style: `background:none;width:${share(Math.min(from, to))}` }),
      h('i', { class: tone, title: exactBytes(value), style: `background:var(--tone);width:${share(begin + Math.abs(to - from))}` }),
      h('data', { value, title: exactBytes(value) }, text),
    ),
  ];
  const signed = (value) => (value < 0 ? '−' : '+') + bytes(Math.abs(value));
  return [
    h(
      'div',
      { class: 'stacks waterfall' },
      row('old peak', begin, before, toneOfKind(WAITING), before, bytes(before)),
      parts.map((part, at) => row(part.name, levels[at], levels[at + 1], toneOfKind(part.kind), part.bytes, signed(part.bytes))),
      row('new peak', begin, after, toneOfKind(WAITING), after, bytes(after)),
    ),
    begin > 0 && h('p', { class: 'quiet' }, `Bars begin at ${bytes(begin)}.`),
  ];
}
