// What a record says of single blocks and of segments, from its events alone (rank0.json beside the page).
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * The blocks of a record: [{size, address, from, freed, until, frames}] with the events of their lives, `freed` by the program and given back at
 * `until` (null: never); and those that are alive at the peak.
 */
export function blocksOf(file) {
  const { device_traces: [trace] } = JSON.parse(readFileSync(`${dirname(file)}/rank0.json`, 'utf8'));
  const [all, live] = [[], new Map()];
  let [active, highest, peak] = [0, 0, 0];
  trace.forEach(({ action, addr, size, frames }, i) => {
    const at = i + 1;
    if (action === 'alloc') {
      live.set(addr, { size, address: addr, from: at, freed: null, until: null, frames: frames.map(({ name, filename, line }) => ({ name, filename, line })) });
      all.push(live.get(addr));
      active += size;
    }
    if (action === 'free_requested') live.get(addr).freed = at;
    if (action === 'free_completed') {
      const block = live.get(addr);
      block.until = at;
      if (block.freed === at - 1) block.freed = at; // the allocator gives a block back in the event after, unless another stream uses it
      live.delete(addr);
      active -= size;
    }
    if (active > highest) [highest, peak] = [active, at];
  });
  return { all, peak, trace, alive: (at) => all.filter(({ from, until }) => from <= at && (until === null || at < until)) };
}

/** What a record says of a moment: its segments by address, those that are mapped end to end as one, and the blocks in them. */
export function segmentsOf({ trace, alive }, at) {
  const ranges = new Map();
  for (const { action, addr, size } of trace.slice(0, at)) {
    if (action === 'segment_alloc' || action === 'segment_map') ranges.set(addr, { from: addr, to: addr + size, mapped: action === 'segment_map' });
    if (action === 'segment_free' || action === 'segment_unmap') ranges.delete(addr);
  }
  const segments = [];
  for (const range of [...ranges.values()].sort((a, b) => a.from - b.from)) {
    if (range.mapped && segments.at(-1)?.to === range.from) segments.at(-1).to = range.to;
    else segments.push({ ...range });
  }
  for (const segment of segments) segment.blocks = alive(at).filter(({ address }) => segment.from <= address && address < segment.to).sort((a, b) => a.address - b.address);
  return segments;
}

export const rounded = (size) => Math.ceil(size / 512) * 512;

/** What the allocator rounds a block up by: to 512 bytes, and in a segment for blocks above 1 MiB by a gap of at most as much, which it does not split off. */
export function restsOf({ from, to, mapped, blocks }) {
  const MIB = 1 << 20;
  const large = !mapped && blocks.every(({ size }) => size > MIB);
  return blocks.map(({ address, size }, i) => {
    const gap = (blocks[i + 1]?.address ?? to) - address - rounded(size);
    assert.ok(address >= from && gap >= 0, 'blocks lie in their segment, one behind the other');
    return rounded(size) - size + (large && gap <= MIB ? gap : 0);
  });
}
