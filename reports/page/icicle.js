// What is alive at a moment, as an icicle: kind, module, line, blocks. A cell leads to its parts; `layers.*` to its layers.
import { h } from './dom.js';
import { bytes, exactBytes, plural } from './format.js';
import { toneOfKind } from './kinds.js';

const kind = (block) => block.kind;
const pattern = (block) => block.pattern || '(no module)';
const module = (block) => block.module;
const line = (block) => block.text || '(no line)';
const size = (block) => `${block.bytes}`;
const ROW = 28;
const ROOM = 0.25; // per cent of the width below which cells are drawn together

/** What each further level below `path` is made by. */
function levelsOf(path) {
  const opened = path.length >= 2 && path[1].includes('*');
  return [kind, pattern, ...(opened ? [module] : []), line, size];
}

/** The blocks below a path of names. */
export function below(blocks, path) {
  const levels = levelsOf(path);
  return blocks.filter((block) => path.every((name, i) => levels[i](block) === name));
}

/** Blocks by a key, the largest sum first: [{name, blocks, bytes}]. */
export function grouped(blocks, key) {
  const groups = new Map();
  for (const block of blocks) {
    const name = key(block);
    const group = groups.get(name) ?? { name, blocks: [], bytes: 0 };
    if (group.blocks.length === 0) groups.set(name, group);
    group.blocks.push(block);
    group.bytes += block.bytes;
  }
  return [...groups.values()].sort((a, b) => b.bytes - a.bytes || (a.name < b.name ? -1 : 1));
}

function labelOf(group, key) {
  if (key !== size) return group.name;
  return group.blocks.length > 1 ? `${group.blocks.length} × ${bytes(group.blocks[0].bytes)}` : bytes(group.bytes);
}

/** `path`: names from the kind downwards; go(path) shows another one. */
export function icicle(blocks, path, go) {
  const levels = levelsOf(path);
  const all = below(blocks, path);
  const total = all.reduce((sum, block) => sum + block.bytes, 0);
  const cells = [];
  let depth = 0;
  const cell = (text, row, left, width, { tone, title, to, here }) => {
    depth = Math.max(depth, row + 1);
    const style = `top:${row * ROW}px;left:${left.toFixed(4)}%;width:${width.toFixed(4)}%`;
    const inner = width > 1.5 ? text : '';
    cells.push(
      to
        ? h('button', { class: `cell ${tone ?? ''}`, style, title, 'aria-current': here && 'true', onclick: () => go(to) }, h('span', {}, inner || h('span', { class: 'unseen' }, text)))
        : h('div', { class: `cell ${tone ?? ''}`, style, title }, h('span', {}, inner)),
    );
  };
  const whole = (names) => {
    const part = below(blocks, names).reduce((sum, block) => sum + block.bytes, 0);
    return `${names.at(-1) ?? 'all'} · ${bytes(part)}`;
  };
  [[], ...path.map((_, i) => path.slice(0, i + 1))].forEach((names, row) =>
    cell(whole(names), row, 0, 100, {
      tone: names.length > 0 ? toneOfKind(path[0]) : 'root',
      title: whole(names),
      to: names,
      here: names.length === path.length,
    }),
  );
  const draw = (group, names, row, left, width) => {
    const key = levels[names.length];
    if (!key) return;
    let at = left;
    let rest = 0;
    let count = 0;
    for (const part of grouped(group, key)) {
      const share = total > 0 ? (100 * part.bytes) / total : 0;
      if (share < ROOM) {
        rest += share;
        count += 1;
        continue;
      }
      const next = [...names, part.name];
      const leads = key !== size && next.length < levels.length;
      const { text, source } = part.blocks[0];
      const said = `${labelOf(part, key)}: ${exactBytes(part.bytes)} in ${plural(part.blocks.length, 'block')}${key === line && source ? `\n${source}` : ''}${key === size ? `\n${text}` : ''}`;
      cell(labelOf(part, key), row, at, share, { tone: toneOfKind(part.blocks[0].kind), title: said, to: leads && next });
      draw(part.blocks, next, row + 1, at, share);
      at += share;
    }
    if (count > 0 && rest > 0)
      cell(`${count} more`, row, at, Math.min(rest, left + width - at), { tone: 'rest', title: `${plural(count, 'smaller part')}: in the table below` });
  };
  draw(all, path, path.length + 1, 0, 100);
  return h('div', { class: 'icicle', role: 'group', 'aria-label': 'What is alive, by kind, module, line and blocks', style: `height:${depth * ROW}px` }, cells);
}
