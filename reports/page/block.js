// The card of blocks that were chosen: where each was born and freed, and the whole stacks that allocated them.
import { amount, figure, shortened, table } from './controls.js';
import { h } from './dom.js';
import { bytes, exact, plural } from './format.js';
import { grouped } from './icicle.js';

const FEW_STACKS = 3;
const FEW_BLOCKS = 6;
const FEW_FRAMES = 30;

/** "event 1,234, in forward of step 2", which leads to that moment. */
function momentText(course, moment, go) {
  const phase = course.phaseAt(moment);
  return [h('button', { class: 'link', onclick: () => go(moment) }, `event ${exact(course.eventOf(moment))}`), phase && `, in ${phase}`];
}

/** Where a block begins and ends: {born, freed} as children of h. */
function lifeOf(course, { from, freed, until }, go) {
  const end = course.moments;
  return {
    born: from === 0 ? 'before the recording' : momentText(course, from, go),
    freed: freed >= end ? 'not freed in the recording' : [momentText(course, freed, go), until > freed && (until < end ? [', held for another stream until ', momentText(course, until, go)] : ', held for another stream until the end')],
  };
}

function blockTable(course, blocks, go) {
  const row = (block) => {
    const { born, freed } = lifeOf(course, block, go);
    return [figure(amount(block.bytes)), born, freed, block.module, `0x${block.address.toString(16)}`];
  };
  const heads = [['size'], 'allocated at', 'freed at', 'module', 'address'];
  return shortened(blocks, FEW_BLOCKS, 'block', row, (rows) => table('Blocks of one stack', 'born', heads, rows));
}

function frameList(course, call, link, before) {
  const frames = course.stackOf(call);
  if (frames === null) return h('p', { class: 'quiet' }, 'This stack is not on the page, which has room for those of the largest blocks. The record beside the page has it.');
  if (frames.length === 0) return h('p', { class: 'quiet' }, before ? 'These blocks were there when the recording began: when they were allocated, and by what line, was not recorded.' : 'No stack was recorded.');
  const made = (frame) => {
    const place = frame.line > 0 ? `${frame.file}:${frame.line}` : frame.file;
    const to = link(frame.file, frame.line);
    return h('li', {}, h('b', {}, frame.function), ' ', to ? h('a', { href: to }, place) : h('span', { class: 'quiet' }, place), frame.source && h('code', { class: 'source' }, frame.source));
  };
  return shortened(frames, FEW_FRAMES, 'frame', made, (items) => h('ol', { class: 'frames' }, items));
}

/** `blocks`: of course.alive; link(file, line): an address or ''; go(moment) moves the cursor; close() takes the card away. */
export function blockCard(course, title, blocks, { link, go, close }) {
  const whole = blocks.map((block) => ({ ...block, ...course.block(block.index) }));
  const stacks = grouped(whole, ({ call }) => call);
  const sum = blocks.reduce((all, block) => all + block.bytes, 0);
  const made = ({ name: call, blocks: of, bytes: size }) =>
    h(
      'div',
      { class: 'one-stack' },
      stacks.length > 1 && h('p', {}, `${plural(of.length, 'block')}, ${bytes(size)}:`),
      blockTable(course, of.sort((a, b) => b.bytes - a.bytes), go),
      frameList(course, call, link, of.every(({ from }) => from === 0)),
    );
  return h(
    'section',
    { class: 'held', 'aria-label': 'Chosen blocks' },
    h('h3', { tabindex: -1 }, title, ' ', h('button', { class: 'link', onclick: close }, 'Close')),
    h('p', { class: 'quiet' }, amount(sum), ` in ${plural(blocks.length, 'block')} of ${plural(stacks.length, 'stack')}, the innermost frame first.`),
    shortened(stacks, FEW_STACKS, 'stack', made, (all) => all),
  );
}

/** Brings a card into view and moves the focus to its heading. */
export function reveal(card) {
  card.scrollIntoView({ block: 'nearest' });
  card.querySelector('h3').focus({ preventScroll: true });
}
