// The page of a program: its pictures against the record, to the byte; and programs that are small, large or hostile.
import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { accessibility, open, settled } from './browser.mjs';
import { choose, text, whole } from './looking.mjs';

const OPENS_MS = 1500; // on a machine that opens the page of one event in a third of it; on a slower one, three times what that page takes
const LARGEST = 3_000_000;

/** The rows of the table of what is alive: [kind, module, line, blocks, bytes]. */
const rowsOf = (page) =>
  page.locator('.alive tbody tr').evaluateAll((rows) =>
    rows.map(({ cells }) => [
      cells[2].textContent,
      cells[3].textContent,
      cells[4].firstChild.textContent,
      Number(cells[1].textContent.replaceAll(',', '')),
      Number(cells[0].querySelector('data').value),
    ]),
  );
const total = (page) => page.locator('#alive data').first().evaluate((data) => Number(data.value));

export const tests = ({ browser, axe, file, out }) => ({
  async 'what is alive at the peak is that of the record, to the byte'() {
    const page = await open(browser, file('program'));
    const record = JSON.parse(readFileSync(`${dirname(file('program'))}/report.json`, 'utf8'));
    const alive = record.trials[0].alive;
    const wanted = alive.parts.map(({ kind, module, line, count, bytes }) => [kind, module, line, count, bytes]).map(String);
    assert.deepEqual((await rowsOf(page)).map(String).sort(), wanted.sort());
    assert.equal(await total(page), alive.active);
    const words = await text(page);
    assert.match(words, /The peak is .* of active memory on rank 0, in backward of step 2, when forward train.py:10 \(MmBackward0\)/);
    assert.match(words, /of 110 MiB that it can have on the virtual GPU h100-80g/);
    assert.equal(await page.locator('#memory .chart svg text', { hasText: 'h100-80g holds 110' }).count(), 1, 'a line at the capacity');
    await whole(page, 'program');
    assert.deepEqual(await accessibility(page, axe), []);
    await page.screenshot({ path: `${out}/program.png`, fullPage: true });
  },

  async 'the bars of a change lead from the old peak to the new one, to the byte'() {
    const [page, before] = [await open(browser, file('program_changed')), JSON.parse(readFileSync(`${dirname(file('program'))}/report.json`, 'utf8'))];
    const after = JSON.parse(readFileSync(`${dirname(file('program_changed'))}/report.json`, 'utf8'));
    const [old, fresh] = [before, after].map(({ trials }) => trials[0].alive.active);
    const bars = await page.locator('.waterfall data').evaluateAll((all) => all.map((data) => Number(data.value)));
    assert.equal(bars[0], old);
    assert.equal(bars.at(-1), fresh);
    assert.equal(bars.slice(1, -1).reduce((sum, bytes) => sum + bytes, old), fresh);
    const sum = (parts, place) => parts.filter(({ kind, module, line }) => `${kind}, ${module}, ${line}` === place).reduce((all, { bytes }) => all + bytes, 0);
    const names = await page.locator('.waterfall .stack-name').allInnerTexts();
    const at = names.findIndex((name) => name.split(', ').length === 3);
    assert.equal(bars[at], sum(after.trials[0].alive.parts, names[at]) - sum(before.trials[0].alive.parts, names[at]), names[at]);
    assert.match(await text(page, 'h1'), /against the other run: \d+ regressions/);
    await whole(page, 'program changed');
    assert.deepEqual(await accessibility(page, axe), []);
    await page.setViewportSize({ width: 400, height: 900 });
    await settled(page);
    await whole(page, 'program changed, 400 px');
  },

  async 'a click shows what is alive at that moment, a drag zooms, the keyboard does both'() {
    const page = await open(browser, file('program'));
    const chart = page.locator('#memory .chart');
    const peak = await total(page);
    let box = await chart.boundingBox();
    await page.mouse.click(box.x + box.width * 0.25, box.y + 150);
    const there = await total(page);
    assert.ok(there > 0 && there < peak, `${there} of ${peak}`);
    assert.match(await text(page, '#alive'), /At the chosen moment, event \d/);
    assert.equal((await rowsOf(page)).reduce((sum, row) => sum + row[4], 0), there);
    await page.getByRole('button', { name: 'Back to the peak' }).click();
    assert.equal(await total(page), peak);
    box = await chart.boundingBox(); // the click has scrolled
    await page.mouse.move(box.x + box.width * 0.3, box.y + 150);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 150, { steps: 4 });
    await page.mouse.up();
    await settled(page);
    assert.match(await chart.getAttribute('aria-label'), /from event [1-9]/);
    await page.getByRole('button', { name: 'Show all events' }).click();
    await settled(page);
    assert.match(await chart.getAttribute('aria-label'), /from event 0 to/);
    await chart.focus();
    for (let i = 0; i < 12; i += 1) {
      await page.keyboard.press('ArrowLeft');
      const active = Number(await chart.getAttribute('data-active'));
      assert.ok(active < peak);
      assert.equal(await total(page), active, `${i + 1} columns before the peak: the blocks sum to active`);
    }
    assert.match(await chart.locator('[aria-live]').innerText(), /active/);
    await page.keyboard.press('Home');
    await page.keyboard.press('+');
    await settled(page);
    assert.match(await chart.getAttribute('aria-label'), /from event [1-9]/);
    await whole(page, 'program after all that');
  },

  async 'a line has its source, and a link to the editor where the page lies as it was written'() {
    const page = await open(browser, file('program'));
    const line = page.locator('.alive tbody tr', { hasText: 'train.py:20' }).first();
    assert.equal(await line.locator('code.source').innerText(), 'line_20(<b>)');
    assert.equal(await line.locator('a').getAttribute('href'), `vscode://file${encodeURI(dirname(file('program')))}/train.py:20`);
    copyFileSync(file('program'), `${out}/elsewhere.html`);
    const moved = await open(browser, `${out}/elsewhere.html`);
    assert.equal(await moved.locator('.alive a[href^="vscode"]').count(), 0);
    assert.equal(await total(moved), await total(await open(browser, file('program'))));
  },

  async 'the icicle leads from kinds to layers to lines; the search and the heads of the table work'() {
    const page = await open(browser, file('program'));
    const all = await rowsOf(page);
    await page.locator('.icicle').getByRole('button', { name: /^activations/ }).click();
    const some = await rowsOf(page);
    assert.deepEqual(some.map(String), all.filter(([kind]) => kind === 'activations').map(String));
    await page.locator('.icicle').getByRole('button', { name: /^layers\.\*\.up/ }).click();
    assert.equal(await page.locator('.icicle .cell', { hasText: /^layers\.\d\.up/ }).count(), 4, 'a cell a layer');
    await page.locator('.icicle').getByRole('button', { name: /^all/ }).click();
    await page.getByRole('searchbox').fill('optimizer train.py:20');
    assert.deepEqual((await rowsOf(page)).map(([kind]) => kind), ['optimizer state']);
    assert.match(await text(page, '#alive'), /Shown: .* in 4 blocks/);
    await page.getByRole('searchbox').fill('nothing such');
    assert.match(await text(page, '#alive'), /Nothing that is alive has these words/);
    await page.getByRole('searchbox').fill('');
    await page.getByRole('button', { name: 'blocks' }).click();
    const counts = (await rowsOf(page)).map((row) => row[3]);
    assert.deepEqual(counts, [...counts].sort((a, b) => b - a));
    await whole(page, 'program searched');
  },

  async 'ranks are chosen, equal ones once'() {
    const page = await open(browser, file('program'));
    const peak = await total(page);
    await choose(page, 'Rank', 'rank 1, rank 2');
    assert.ok((await total(page)) < peak);
  },

  async 'programs without events, of one event, hostile, of 64 ranks'() {
    for (const name of ['program_without_events', 'program_without_snapshots', 'program_without_memory', 'program_of_one_event', 'program_hostile', 'program_of_64_ranks']) {
      const page = await open(browser, file(name), { width: 400 });
      await whole(page, name);
      assert.equal(await page.locator('img').count(), 0, name);
      const drawn = await page.locator('#memory .chart').count();
      assert.equal(drawn, name.includes('without') ? 0 : 1, `${name}: no empty chart`);
      assert.ok(statSync(file(name)).size <= LARGEST, `${name}: ${statSync(file(name)).size} bytes`);
    }
    assert.match(await text(await open(browser, file('program_without_events'))), /What was alive is not known/);
    const many = await open(browser, file('program_of_64_ranks'), { dark: true });
    assert.equal(await many.getByLabel('Rank').locator('option').count(), 16);
    assert.deepEqual(await accessibility(many, axe), []);
    await many.screenshot({ path: `${out}/program_dark.png`, fullPage: true });
  },

  async 'a step of 65,000 events opens in time, and a million of events are drawn from fewer moments'() {
    let page;
    /** Milliseconds until the page is drawn: the least of three, since others work on the machine. */
    const opening = async (name) => {
      let took = Infinity;
      for (let i = 0; i < 3; i += 1) {
        const begun = Date.now();
        page = await open(browser, file(name));
        took = Math.min(took, Date.now() - begun);
      }
      return took;
    };
    const limit = Math.max(OPENS_MS, 3 * (await opening('program_of_one_event')));
    for (const [name, events] of [['program_large', 65_000], ['program_million', 1_000_000]]) {
      assert.ok(statSync(file(name)).size <= LARGEST, `${name}: ${statSync(file(name)).size} bytes`);
      const took = await opening(name);
      console.log(`        ${name}: ${statSync(file(name)).size} bytes, ${took} ms`);
      const [, count] = (await text(page, '#memory')).match(/([\d,]+) events of PyTorch's allocator/);
      assert.ok(Number(count.replaceAll(',', '')) >= events, `${count} events`);
      if (name === 'program_large') assert.ok(took <= limit, `${took} ms of ${limit}`);
      else assert.match(await text(page, '#memory'), /of which [\d,]+ moments are here/);
      const record = JSON.parse(readFileSync(`${dirname(file(name))}/report.json`, 'utf8'));
      assert.equal(await total(page), record.trials[0].alive.active);
      await whole(page, name);
    }
  },
});
