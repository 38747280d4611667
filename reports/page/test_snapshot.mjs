// The page of a memory snapshot: the same picture as a program's, held against the events of the file; also where its ring has lost the first events, and without any.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { accessibility, open, settled } from './browser.mjs';
import { text, whole } from './looking.mjs';

const total = (page) => page.locator('#alive data').first().evaluate((data) => Number(data.value));

/** Active bytes after each event of a snapshot, by its blocks at the end and its trace alone; and the blocks that are there before it. */
function levelsOf(file) {
  const { segments, device_traces: [trace = []] } = JSON.parse(readFileSync(`${dirname(file)}/a.json`, 'utf8'));
  const there = segments.flatMap(({ blocks }) => blocks).filter(({ state }) => state !== 'inactive');
  const by = ({ action, size }) => (action === 'alloc' ? size : action === 'free_completed' ? -size : 0);
  let level = there.reduce((sum, { requested_size }) => sum + requested_size, 0) - trace.reduce((sum, event) => sum + by(event), 0);
  const levels = [level, ...trace.map((event) => (level += by(event)))];
  const born = new Set();
  const before = new Map(there.map(({ address, requested_size, frames }) => [address, { size: requested_size, frames }]));
  for (const { action, addr, size } of trace) {
    if (action === 'alloc') born.add(addr);
    if (action === 'free_completed' && !born.has(addr)) before.set(addr, { size, frames: [] });
  }
  for (const addr of born) before.delete(addr);
  return { levels, before, trace };
}

export const tests = ({ browser, axe, file, out }) => ({
  async 'the sums at the peak and at moments before and behind it are those of the file'() {
    const { TIDEMARK_TEST_DRAW: part } = process.env; // a commit looks at one of the two
    for (const name of ['snapshot', 'snapshot_mapped'].filter((_, i) => part === undefined || i === Number(part) % 2)) {
      const page = await open(browser, file(name));
      const { levels } = levelsOf(file(name));
      assert.equal(await total(page), Math.max(...levels), name);
      assert.ok(levels[0] > 0, 'something is there before the trace');
      for (const t of [0, 1, 40, 97, levels.length - 1]) {
        await page.evaluate((at) => { location.hash = `#t=${at}`; }, t);
        await settled(page);
        assert.equal(await total(page), levels[t], `${name}, event ${t}`);
        const rows = await page.locator('.alive tbody data').evaluateAll((all) => all.map((data) => Number(data.value)));
        assert.equal(rows.reduce((sum, bytes) => sum + bytes, 0), levels[t], `${name}, event ${t}: the rows`);
      }
      await whole(page, name);
      assert.deepEqual(await accessibility(page, axe), []);
      await page.screenshot({ path: `${out}/${name}.png`, fullPage: true });
      await page.setViewportSize({ width: 400, height: 900 });
      await settled(page);
      await whole(page, `${name}, 400 px`);
    }
  },

  async 'a block from before the recording says what is known of it, and that its allocation was not recorded'() {
    const page = await open(browser, file('snapshot'), { hash: '#t=0' });
    const { before } = levelsOf(file('snapshot'));
    const rows = page.locator('.alive tbody tr', { hasText: 'from before' });
    let [known, unknown] = [0, 0];
    for (let i = 0; i < (await rows.count()); i += 1) {
      await rows.nth(i).getByRole('button').first().click();
      for (let more = 1; more > 0;) {
        const button = page.locator('#alive .held').getByRole('button', { name: /^Show all/ }).first();
        more = await button.count();
        if (more > 0) await button.click();
      }
      for (const stack of await page.locator('#alive .one-stack').all()) {
        const blocks = await stack.locator('.born tbody tr').evaluateAll((all) => all.map(({ cells }) => ({ size: Number(cells[0].querySelector('data').value), born: cells[1].textContent, address: Number(cells[4].textContent) })));
        const frames = await stack.locator('.frames li b').allInnerTexts();
        for (const { size, born, address } of blocks) {
          assert.equal(born, 'before the recording');
          assert.equal(before.get(address).size, size);
          assert.deepEqual(frames, before.get(address).frames.map(({ name }) => name));
          if (frames.length > 0) known += 1;
          else unknown += 1;
        }
        if (frames.length === 0) assert.match(await stack.innerText(), /when they were allocated, and by what line, was not recorded/);
      }
    }
    assert.equal(known + unknown, before.size);
    assert.ok(known > 0 && unknown > 0, `${known} with a stack and ${unknown} without`);
    await whole(page, 'a card from before');
  },

  async 'segments are those of the file, and a file without a trace is one moment'() {
    const segmentsOf = (name) => JSON.parse(readFileSync(`${dirname(file(name))}/a.json`, 'utf8')).segments;
    for (const name of ['snapshot', 'snapshot_without_trace']) {
      const { levels } = levelsOf(file(name));
      const page = await open(browser, file(name), { hash: `#t=${levels.length - 1}` });
      const reserved = segmentsOf(name).reduce((sum, { total_size }) => sum + total_size, 0);
      assert.equal(await page.locator('#segments .lede data').first().evaluate((data) => Number(data.value)), reserved, name);
      assert.equal(await page.locator('.strip').count(), segmentsOf(name).length, name);
      assert.equal(await total(page), levels.at(-1), name);
      await whole(page, name);
    }
    assert.match(await text(await open(browser, file('snapshot_without_trace'))), /The file has no trace/);
  },
});
