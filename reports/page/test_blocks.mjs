// Single blocks on the page of a program against the record: their stacks, where they are allocated and freed.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { accessibility, open, settled } from './browser.mjs';
import { text, whole } from './looking.mjs';
import { blocksOf, restsOf, segmentsOf } from './recorded.mjs';

/** "event 1,234, in ..." */
const eventIn = (words) => Number(/^event ([\d,]*\d)/.exec(words)[1].replaceAll(',', ''));

/** The events in "event 9, in ..., held for another stream until event 12, in ...": {freed, until}; null: not in the recording. */
function endOf(words) {
  if (words === 'not freed in the recording') return { freed: null, until: null };
  const [first, held] = words.split(', held for another stream until ');
  return { freed: eventIn(first), until: held === undefined ? eventIn(first) : held === 'the end' ? null : eventIn(held) };
}

/** What the card in a part of the page says: [{size, from, freed, until, address, frames}] of each block, with the frames of its stack. */
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
    rows.map(({ size, born, freed, address }) => ({ size, from: eventIn(born), ...endOf(freed), address, frames: frames.map(String) })),
  );
}

const asCard = ({ size, from, freed, until, address, frames }) => ({ size, from, freed, until, address, frames: frames.map(({ name, filename, line }) => String([name, line > 0 ? `${filename}:${line}` : filename])) });
/** The line of a block as a report names it: "forward train.py:10 (MmBackward0)". */
function lineOf({ frames: [first, second] }) {
  const [node, { name, filename, line }] = first.filename === 'autograd' ? [` (${first.name})`, second] : ['', first];
  return `${name} ${basename(filename)}:${line}${node}`;
}

/** The strips of the map as they are drawn, by address: [{pixels, bars: [{from, to, kind}]}], from and to in per cent of the segment. */
const stripsOf = (page) =>
  page.locator('#segments').evaluate((map) => {
    const names = new Map([...map.querySelectorAll('.legend li')].map((entry) => [entry.className, entry.innerText.trim()]));
    const strip = (element) => {
      const box = element.getBoundingClientRect();
      const bars = [...element.querySelectorAll('i')].map((bar) => {
        const [from, share] = [bar.style.left, bar.style.width].map((text) => Number(/([\d.]+)%/.exec(text)[1]));
        return { from, to: from + share, kind: names.get(bar.className), off: bar.getBoundingClientRect().left - box.left - element.clientLeft - (from * element.clientWidth) / 100 };
      });
      return { address: Number(/at (0x[0-9a-f]+),/.exec(element.title)[1]), pixels: element.clientWidth, bars };
    };
    return [...map.querySelectorAll('.strip')].map(strip).sort((a, b) => a.address - b.address);
  });

/** Holds the bars of a strip against the blocks of its segment: {from, to} in bytes of it, and the kinds that each may have. */
function holdBars({ pixels, bars }, blocks, size) {
  const at = (share) => (share * size) / 100;
  const near = (share, bytes) => Math.abs(at(share) - bytes) <= size * 1.1e-5; // both shares of a bar have three digits behind the point
  const seen = (2 * size) / pixels; // what is smaller may be left out, or be one with its neighbour
  for (const { from, to, kind, off } of bars) {
    const first = blocks.find((block) => near(from, block.from));
    assert.ok(first, `a bar at ${from} %, where no block begins`);
    assert.ok(first.kinds.has(kind), `${kind} at ${from} %, of ${[...first.kinds].join(', ')}`);
    assert.ok(blocks.some((block) => near(to, block.to)), `a bar to ${to} %, where no block ends`);
    assert.ok(Math.abs(off) <= 1, `a bar is ${off} pixels beside its place`);
  }
  blocks.forEach((block, i) => {
    const over = (low, high) => bars.filter(({ from, to }) => at(from) < high - size * 1.1e-5 && low + size * 1.1e-5 < at(to));
    if (block.to - block.from > seen) assert.ok(over(block.from, block.to).some(({ to, kind }) => at(to) >= block.to - size * 1.1e-5 && block.kinds.has(kind)), `no bar over ${block.from} to ${block.to}`);
    const next = blocks[i + 1]?.from ?? size;
    if (next - block.to > seen) assert.deepEqual(over(block.to, next), [], `free from ${block.to} to ${next}`);
  });
}

/** Holds the table of segments with free memory, the most first, and what holds each: free, largest gap, size, in use. */
async function holdPins(page, segments) {
  const row = (segment) => {
    const rests = restsOf(segment);
    const ends = [segment.from, ...segment.blocks.map(({ address, size }, i) => address + size + rests[i])];
    const gaps = [...segment.blocks.map(({ address }) => address), segment.to].map((to, i) => to - ends[i]);
    const sum = (all) => all.reduce((total, bytes) => total + bytes, 0);
    return [sum(gaps), Math.max(...gaps), segment.to - segment.from, sum(segment.blocks.map(({ size }) => size))];
  };
  const wanted = segments.filter(({ blocks }) => blocks.length > 0).map(row).filter(([free]) => free > 0);
  const more = page.getByRole('button', { name: /^Show all \d+ segments/ });
  if (await more.isVisible()) await more.click();
  const rows = await page.locator('.pins tbody tr').evaluateAll((all) => all.map(({ cells }) => [[0, 1, 3].map((i) => Number(cells[i].querySelector('data').value)), cells[2].innerText, cells[4].innerText]));
  const seen = rows.map(([[free, largest, used], size]) => [free, largest, inBytes(size), used]);
  assert.deepEqual(seen.map(String).sort(), wanted.map(String).sort());
  assert.deepEqual(seen.map(([free]) => free), wanted.map(([free]) => free).sort((a, b) => b - a));
  for (const [[, , used], , by] of rows) {
    const said = [...by.matchAll(/\(([\d.,]+ \w+)/g)].map(([, size]) => inBytes(size));
    const others = Number(/(\d+) more line/.exec(by)?.[1] ?? 0);
    assert.ok(said[0] >= (said[1] ?? 0) && said.reduce((all, size) => all + size, 0) >= (0.99 * used * said.length) / (said.length + others), `${by}: the lines with the most`);
  }
}

/** The bytes of "20.00 MiB". */
const inBytes = (text) => Math.round(Number(text.split(' ')[0].replaceAll(',', '')) * { bytes: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 }[text.split(' ')[1]]);

const sorted = (blocks) => blocks.sort((a, b) => a.from - b.from);

export const tests = ({ browser, axe, file, out }) => ({
  async 'every row of what is alive leads to the stacks and lives of its blocks, as recorded'() {
    let page;
    for (const name of ['program_pools', 'program']) {
      page = await open(browser, file(name));
      const { alive, peak } = blocksOf(file(name));
      const [seen, modules] = [[], []];
      const rows = page.locator('.alive tbody tr');
      for (let i = 0; i < (await rows.count()); i += 1) {
        await rows.nth(i).getByRole('button').first().click();
        seen.push(...(await cardOf(page)));
        const module = await rows.nth(i).locator('td').nth(3).innerText();
        const own = await page.locator('#alive .born tbody td:nth-child(4)').evaluateAll((all) => all.map((cell) => cell.textContent));
        const wanted = new RegExp(`^${module.replaceAll('.', '\\.').replaceAll('*', '\\d+')}$`);
        assert.ok(own.every((name) => wanted.test(name)), `${own} are modules of ${module}`);
        modules.push(...own);
      }
      assert.ok(modules.includes('layers.3.up'), 'modules have their numbers');
      assert.deepEqual(sorted(seen), sorted(alive(peak).map(asCard)), name);
      const held = seen.filter(({ freed, until }) => freed !== until).length;
      assert.equal(held > 0, name === 'program_pools', `${held} blocks of ${name} are held for another stream`);
    }
    assert.match(await text(page, '.held'), /event [\d,]+, in (forward|backward|optimizer) of step \d/);
    await whole(page, 'program with a card');
    assert.deepEqual(await accessibility(page, axe), []);
    await page.screenshot({ path: `${out}/program_block.png`, fullPage: true });
    await page.locator('.held').getByRole('button', { name: 'Close' }).click();
    assert.equal(await page.locator('.held').count(), 0);
  },

  async 'each strip of the map has its blocks where the record has them, in the colour of their kind'() {
    for (const name of ['program', 'program_pools']) {
      const page = await open(browser, file(name));
      const record = blocksOf(file(name));
      const { parts } = JSON.parse(readFileSync(`${dirname(file(name))}/report.json`, 'utf8')).trials[0].alive;
      const kindsOf = (block) => new Set(block.freed !== null && block.freed <= record.peak ? ['freed, held for another stream'] : parts.filter(({ line }) => line === lineOf(block)).map(({ kind }) => kind));
      const segments = segmentsOf(record, record.peak);
      const strips = await stripsOf(page);
      assert.deepEqual(strips.map(({ address }) => address), segments.map(({ from }) => from), name);
      segments.forEach((segment, i) => {
        const rests = restsOf(segment);
        const blocks = segment.blocks.map((block, k) => ({ from: block.address - segment.from, to: block.address - segment.from + block.size + rests[k], kinds: kindsOf(block) }));
        holdBars(strips[i], blocks, segment.to - segment.from);
      });
      const waits = record.alive(record.peak).filter(({ freed }) => freed !== null && freed <= record.peak).reduce((sum, { size }) => sum + size, 0);
      assert.equal(await page.locator('#alive .waiting').evaluateAll((all) => all.reduce((sum, { value }) => sum + Number(value), 0)), waits, `${name}: held for another stream`);
      await holdPins(page, segments);
      const grown = record.trace.findLastIndex(({ action }) => /^segment_(alloc|map)$/.test(action)) + 1;
      for (const t of [grown - 1, grown]) {
        await page.evaluate((at) => { location.hash = `#t=${at}`; }, t);
        await settled(page);
        const [, said] = /, ([\d.,]+ \w+) reserved/.exec(await text(page, '#alive .lede'));
        assert.equal(said, await page.locator('#segments .lede data').first().innerText(), `${name}: reserved at event ${t}, beside a new segment`);
      }
      assert.ok(new Set(strips.flatMap(({ bars }) => bars.map(({ kind }) => kind))).size > 3, `${name}: several kinds`);
    }
  },

  async 'a cell of the icicle leads to its blocks, and their events to that moment'() {
    const page = await open(browser, file('program'));
    await page.locator('.icicle').getByRole('button', { name: /^activations/ }).click();
    const { alive, peak } = blocksOf(file('program'));
    const known = alive(peak).map(asCard).map(({ address, from }) => `${address} ${from}`);
    const widths = await page.locator('.icicle .cell').evaluateAll((all) => all.map(({ title, style }) => [Number(/: ([\d,]+) bytes/.exec(title)?.[1].replaceAll(',', '')), parseFloat(style.width)]).filter(([bytes]) => bytes > 0));
    const { parts } = JSON.parse(readFileSync(`${dirname(file('program'))}/report.json`, 'utf8')).trials[0].alive;
    const all = parts.filter((part) => part.kind === 'activations').reduce((sum, { bytes }) => sum + bytes, 0);
    assert.ok(widths.length > 5);
    for (const [bytes, width] of widths) assert.ok(Math.abs(width - (100 * bytes) / all) < 0.001, `${bytes} of ${all} bytes are ${width} % wide`);
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
