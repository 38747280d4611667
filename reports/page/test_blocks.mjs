// Single blocks on the page of a program against the record: their stacks, where they are allocated and freed.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { accessibility, open, settled } from './browser.mjs';
import { text, whole } from './looking.mjs';

/** The blocks of a record, from its events alone: [{size, from, until, frames}] with the events of their lives, and those that are alive at the peak. */
export function blocksOf(file) {
  const { device_traces: [trace] } = JSON.parse(readFileSync(`${dirname(file)}/rank0.json`, 'utf8'));
  const [all, live] = [[], new Map()];
  let [active, highest, peak] = [0, 0, 0];
  trace.forEach(({ action, addr, size, frames }, i) => {
    if (action === 'alloc') {
      live.set(addr, { size, address: addr, from: i + 1, until: null, frames: frames.map(({ name, filename, line }) => ({ name, filename, line })) });
      all.push(live.get(addr));
      active += size;
    }
    if (action === 'free_completed') {
      live.get(addr).until = i + 1;
      live.delete(addr);
      active -= size;
    }
    if (active > highest) [highest, peak] = [active, i + 1];
  });
  return { all, peak, trace, alive: (at) => all.filter(({ from, until }) => from <= at && (until === null || at < until)) };
}

/** "event 1,234, in ..." */
const eventIn = (words) => Number(/^event ([\d,]*\d)/.exec(words)[1].replaceAll(',', ''));

/** What the card in a part of the page says: [{size, from, until, address, frames}] of each block, with the frames of its stack. */
export async function cardOf(page, part = '#alive') {
  for (let more = 1; more > 0;) {
    const button = page.locator(`${part} .held`).getByRole('button', { name: /^Show all/ }).first();
    more = await button.count();
    if (more > 0) await button.click();
  }
  const stacks = await page.locator(`${part} .one-stack`).evaluateAll((all) =>
    all.map((stack) => ({
      rows: [...stack.querySelectorAll('.born tbody tr')].map(({ cells }) => ({ size: Number(cells[0].querySelector('data').value), born: cells[1].textContent, freed: cells[2].textContent, address: Number(cells[4].textContent) })),
      frames: [...stack.querySelectorAll('.frames li')].map((item) => [item.querySelector('b').textContent, item.querySelector('a, span').textContent]),
    })),
  );
  return stacks.flatMap(({ rows, frames }) =>
    rows.map(({ size, born, freed, address }) => ({ size, from: eventIn(born), until: freed.startsWith('not freed') ? null : eventIn(freed), address, frames: frames.map(String) })),
  );
}

const asCard = ({ size, from, until, address, frames }) => ({ size, from, until, address, frames: frames.map(({ name, filename, line }) => String([name, line > 0 ? `${filename}:${line}` : filename])) });
const sorted = (blocks) => blocks.sort((a, b) => a.from - b.from);

export const tests = ({ browser, axe, file, out }) => ({
  async 'every row of what is alive leads to the stacks and lives of its blocks, as recorded'() {
    const page = await open(browser, file('program'));
    const { alive, peak } = blocksOf(file('program'));
    const seen = [];
    const rows = page.locator('.alive tbody tr');
    for (let i = 0; i < (await rows.count()); i += 1) {
      await rows.nth(i).getByRole('button').first().click();
      seen.push(...(await cardOf(page)));
    }
    assert.deepEqual(sorted(seen), sorted(alive(peak).map(asCard)));
    assert.match(await text(page, '.held'), /event [\d,]+, in (forward|backward|optimizer) of step \d/);
    await whole(page, 'program with a card');
    assert.deepEqual(await accessibility(page, axe), []);
    await page.screenshot({ path: `${out}/program_block.png`, fullPage: true });
    await page.locator('.held').getByRole('button', { name: 'Close' }).click();
    assert.equal(await page.locator('.held').count(), 0);
  },

  async 'a cell of the icicle leads to its blocks, and their events to that moment'() {
    const page = await open(browser, file('program'));
    await page.locator('.icicle').getByRole('button', { name: /^activations/ }).click();
    const { alive, peak } = blocksOf(file('program'));
    const known = alive(peak).map(asCard).map(({ address, from }) => `${address} ${from}`);
    const cells = page.locator('.icicle button.cell');
    const leaves = await cells.evaluateAll((all) => all.map((cell, i) => (/^(\d+ × )?[\d.]+ [KM]iB/.test(cell.title) ? i : -1)).filter((i) => i >= 0)); // those that lead to no further part
    assert.ok(leaves.length > 3);
    for (const cell of leaves.slice(0, 4).map((i) => cells.nth(i))) {
      const [, size, count] = /: ([\d,]+) bytes in (\d+) blocks?/.exec(await cell.getAttribute('title'));
      await cell.click();
      const card = await cardOf(page);
      assert.equal(card.length, Number(count));
      assert.equal(card.reduce((sum, block) => sum + block.size, 0), Number(size.replaceAll(',', '')));
      assert.ok(card.every(({ address, from }) => known.includes(`${address} ${from}`)));
    }
    const first = await page.locator('.born tbody tr').first().locator('td').nth(1).innerText();
    await page.locator('.born tbody tr').first().getByRole('button').first().click();
    assert.match(await text(page, '#alive'), new RegExp(`At the chosen moment, ${first.split(', in')[0]}`));
    await page.setViewportSize({ width: 400, height: 900 });
    await settled(page);
    await whole(page, 'a card, 400 px');
  },

  async 'a stack of 1,000 frames is shown whole, a name with markup as text'() {
    const page = await open(browser, file('program_deep'));
    const { all } = blocksOf(file('program_deep'));
    const deep = all.find(({ frames }) => frames.length === 1000);
    const line = `train.py:${deep.frames.find(({ filename }) => filename.endsWith('train.py')).line}`;
    await page.locator('.alive tbody tr', { hasText: line }).first().click();
    const [card] = (await cardOf(page)).filter(({ frames }) => frames.length === 1000);
    assert.deepEqual(card.frames, asCard(deep).frames);
    await whole(page, 'a deep stack');
    const one = await open(browser, file('program_of_one_event'));
    await one.locator('.alive tbody tr').click();
    const [{ size, until }] = await cardOf(one);
    assert.deepEqual([size, until], [1000, null], 'a block that is never freed');
    assert.equal(await one.locator('.strip').count(), 1);
    for (const name of ['program_without_events', 'program_without_memory'])
      assert.equal(await (await open(browser, file(name))).locator('#segments, .held, .ranks').count(), 0, name);
    const hostile = await open(browser, file('program_hostile'), { width: 400 });
    await hostile.locator('.alive tbody tr').first().click();
    assert.match(await text(hostile, '.frames'), /<img src=x onerror=alert\(1\)>/);
    assert.equal(await hostile.locator('img').count(), 0);
    await whole(hostile, 'a hostile stack');
  },
});
