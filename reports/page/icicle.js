// What is alive at a moment, as an icicle: kind, module, line, blocks. A cell leads to its parts; `layers.*` to its layers.
import { h } from './dom.js';
import { bytes, exactBytes, natural, plural } from './format.js';
import { inOrder, toneOfKind } from './kinds.js';

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
  return [...groups.values()].sort((a, b) => b.bytes - a.bytes || natural(a.name, b.name));
}

function labelOf(group, key) {
  if (key !== size) return group.name;
  return group.blocks.length > 1 ? `${group.blocks.length} × ${bytes(group.blocks[0].bytes)}` : bytes(group.bytes);
}

/**
 * `path`: names from the kind downwards; go(path) shows another one. `look`, for icicles beside each other: {whole: bytes of the full width, name, unit,
 * above: of stackOf, rows: levels that are drawn}. pick(title, blocks) shows what a cell without parts is made of.
 */
export function icicle(blocks, path, go, pick, look = {}) {
  const levels = levelsOf(path).slice(0, look.rows);
  const all = below(blocks, path);
  const whole = look.whole ?? all.reduce((sum, block) => sum + block.bytes, 0);
  const width = whole > 0 ? (100 * all.reduce((sum, block) => sum + block.bytes, 0)) / whole : 0;
  /** Beside another one, kinds have one order: in both the same parts lie below each other, and what one has more sticks out. */
  const ordered = (parts, names) => {
    if (!look.above || names.length > 0) return parts;
    const kinds = inOrder(parts.map(({ name }) => name));
    const place = ({ name }) => kinds.indexOf(name) + look.above.has(name) * kinds.length;
    return parts.sort((a, b) => place(a) - place(b));
  };
  const faint = (block) => (look.above && !look.above.has(block.kind) ? ' faint' : '');
  const cells = [];
  let depth = 0;
  const cell = (text, row, left, width, { tone, title, to, here, act = to && (() => go(to)) }) => {
    depth = Math.max(depth, row + 1);
    const style = `top:${row * ROW}px;left:${left.toFixed(4)}%;width:${width.toFixed(4)}%`;
    const inner = width > 1.5 && (tone?.endsWith(' free') ? h('i', {}, text) : text); // one that is free may be longer than its cell
    cells.push(
      act
        ? h('button', { class: `cell ${tone ?? ''}`, style, title, 'aria-current': here && 'true', onclick: act }, h('span', {}, inner || h('span', { class: 'unseen' }, text)))
        : h('div', { class: `cell ${tone ?? ''}`, style, title }, h('span', {}, inner)),
    );
  };
  const named = (names) => {
    const part = below(blocks, names).reduce((sum, block) => sum + block.bytes, 0);
    return `${names.at(-1) ?? look.name ?? 'all'} · ${look.unit ? `${look.unit.format(part)} ${look.unit.name}` : bytes(part)}`;
  };
  [[], ...path.map((_, i) => path.slice(0, i + 1))].forEach((names, row) =>
    cell(named(names), row, 0, names.length === path.length ? width : 100, {
      tone: `${names.length > 0 ? toneOfKind(path[0]) : 'root'}${look.whole ? ' free' : ''}`,
      title: named(names),
      to: names,
      here: names.length === path.length,
    }),
  );
  const draw = (group, names, row, left, width) => {
    const key = levels[names.length];
    if (!key) return;
    let at = left;
    let rest = 0; // bytes of those that are too small
    let count = 0;
    for (const part of ordered(grouped(group, key), names)) {
      const share = whole > 0 ? (100 * part.bytes) / whole : 0;
      if (share < ROOM) {
        rest += part.bytes;
        count += 1;
        continue;
      }
      const next = [...names, part.name];
      const leads = key !== size && next.length < levels.length;
      const { text, source } = part.blocks[0];
      const said = `${labelOf(part, key)}: ${exactBytes(part.bytes)} in ${plural(part.blocks.length, 'block')}${key === line && source ? `\n${source}` : ''}${key === size ? `\n${text}` : ''}`;
      const act = leads ? () => go(next) : key === size ? () => pick(`${text || '(no line)'}: ${labelOf(part, key)}`, part.blocks) : undefined;
      cell(labelOf(part, key), row, at, share, { tone: toneOfKind(part.blocks[0].kind) + faint(part.blocks[0]), title: said, act });
      draw(part.blocks, next, row + 1, at, share);
      at += share;
    }
    if (count > 0 && rest > 0)
      cell(`${count} more`, row, at, Math.min((100 * rest) / whole, left + width - at), { tone: 'rest', title: `${plural(count, 'smaller part')}: ${exactBytes(rest)}; in the table below` });
  };
  draw(all, path, path.length + 1, 0, width);
  return h('div', { class: 'icicle', role: 'group', 'aria-label': `What is alive${look.name ? ` in ${look.name}` : ''}, by kind, module, line and blocks`, style: `height:${depth * ROW}px` }, cells);
}
