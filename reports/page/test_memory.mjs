// The page of a program: its pictures against the record, to the byte; and programs that are small, large or hostile.
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { accessibility, open, settled } from './browser.mjs';
import { choose, marksOf, text, whole } from './looking.mjs';

const OPENS_MS = 1000; // of a processor, where the page of one event takes 170 and that of 65,000 events 310; on a slower one, three times what the first takes
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
    assert.equal(await page.locator('#memory .legend li', { hasText: 'PyTorch can have 110.0 MiB on h100-80g' }).count(), 1, 'the line at the capacity is named');
    assert.equal(await page.locator('#memory .chart svg text', { hasText: 'can have' }).count(), 0, 'not on the areas');
    await whole(page, 'program');
    assert.deepEqual(await accessibility(page, axe), []);
    await page.screenshot({ path: `${out}/program.png`, fullPage: true });
  },

  async 'a head sorts what is alive by its column, and the other way when it is clicked again'() {
    const page = await open(browser, file('program'));
    const bytes = (await rowsOf(page)).map((row) => Number(row.at(-1)));
    assert.deepEqual(bytes, [...bytes].sort((a, b) => b - a), 'the largest first');
    for (const sort of ['ascending', 'descending']) {
      await page.locator('.alive th button').nth(2).click();
      assert.equal(await page.locator('.alive th').nth(2).getAttribute('aria-sort'), sort);
      const kinds = (await rowsOf(page)).map(([kind]) => kind);
      assert.ok(new Set(kinds).size > 2);
      const wanted = [...kinds].sort((a, b) => a.localeCompare(b));
      assert.deepEqual(kinds, sort === 'ascending' ? wanted : wanted.reverse(), sort);
    }
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
    // Both runs above the bars: each step of both records, at its place; more than before is hatched.
    const rows = await page.locator('.overlay').evaluate((element) => element.rows);
    const levelsOf = (name) => {
      const { device_traces: [trace] } = JSON.parse(readFileSync(`${dirname(file(name))}/rank0.json`, 'utf8'));
      let active = 0;
      return [0, ...trace.map(({ action, size }) => (active += action === 'alloc' ? size : action === 'free_completed' ? -size : 0))];
    };
    const [was, is] = ['program', 'program_changed'].map(levelsOf);
    assert.deepEqual([Math.max(...rows.map((row) => row.old)), Math.max(...rows.map((row) => row.fresh))], [old, fresh]);
    let [more, phases] = [0, 0];
    for (const { old: a, fresh: b, events } of rows) {
      if (events[0] < was.length - 1) assert.equal(a, was[events[0]], `the old run at event ${events[0]}`);
      assert.equal(b, is[events[1]], `the new run at event ${events[1]}`);
      more += b > a;
      phases += a > 0 && b > 0;
    }
    assert.ok(more > 0 && phases > 100, 'both runs are compared, and the new one has more somewhere');
    assert.equal((await page.locator('.overlay .area-more').getAttribute('d')).match(/M/g).length, rows.slice(0, -1).filter((row) => row.fresh > row.old).length);
    assert.match(await page.locator('.overlay .area-more').getAttribute('fill'), /^url\(#/);
    const [was_high, is_high] = await page.locator('.overlay').evaluate((element) => {
      const floor = Number(/^M[\d.]+ ([\d.]+)/.exec(element.querySelector('.grid').getAttribute('d'))[1]);
      return ['old-line', 'new-line'].map((line) => floor - Math.min(...element.querySelector(`.${line}`).getAttribute('d').match(/(?<=V|M[\d.]+ )[\d.]+/g).map(Number)));
    });
    assert.ok(Math.abs(was_high / is_high - old / fresh) < 0.01, `the lines are ${was_high} and ${is_high} pixels high`);
    const above = await page.evaluate(() => document.querySelector('.overlay').getBoundingClientRect().bottom <= document.querySelector('.waterfall').getBoundingClientRect().top);
    assert.ok(above, 'the picture is above the bars');
    await page.locator('.overlay').focus();
    for (let i = 0; i < 3; i += 1) await page.keyboard.press('Shift+ArrowRight');
    assert.match(await text(page, '.said'), /Event \d+ of the old run and \d+ of the new one, in forward of step 1: .* (more|less|equal)/);
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
    await page.getByRole('button', { name: 'blocks', exact: true }).click();
    const counts = (await rowsOf(page)).map((row) => row[3]);
    assert.deepEqual(counts, [...counts].sort((a, b) => b - a));
    await whole(page, 'program searched');
  },

  async 'an address restores rank, moment and stretch; the back button works; a wrong one opens the peak'() {
    const page = await open(browser, file('program'));
    const chart = page.locator('#memory .chart');
    const peak = await total(page);
    for (const rank of ['0', '1', '2']) {
      const t = 20 + Math.floor(Math.random() * 200);
      const there = await open(browser, file('program'), { hash: `#rank=${rank}&t=${t}&from=10&to=250` });
      const what = `rank ${rank}, event ${t}`;
      assert.match(await text(there, '#alive'), new RegExp(`event ${t}[^\\d]`), what);
      assert.match(await chart.getAttribute('aria-label'), /from event 10 to 250/, what);
      assert.equal(await total(there), Number(await chart.getAttribute('data-active')), what);
      assert.ok(await there.getByRole('radio', { name: rank === '0' ? 'rank 0' : 'rank 1, rank 2' }).isChecked(), what);
      await whole(there, what);
    }
    for (const wrong of ['rank=9&t=5', 't=abc', 'from=9&to=3', '%', 't=99999999999999', 'rank=%3Cb%3E', '/some/where?x=1']) {
      const there = await open(browser, file('program'), { hash: `#${wrong}` });
      if (!wrong.includes('t=9') && wrong !== 'rank=9&t=5') assert.equal(await total(there), peak, wrong);
      await whole(there, wrong);
    }
    await open(browser, file('program'));
    const box = await chart.boundingBox();
    await page.mouse.click(box.x + box.width * 0.25, box.y + 150);
    const [first, hash] = [await total(page), await page.evaluate(() => location.hash)];
    assert.match(hash, /^#rank=0&t=\d+$/);
    await choose(page, 'Rank', 'rank 1, rank 2');
    assert.match(await page.evaluate(() => location.hash), /^#rank=1&t=\d+$/);
    await page.goBack();
    await settled(page);
    assert.equal(await total(page), first);
    await page.goBack();
    await settled(page);
    assert.equal(await total(page), peak);
    await page.goForward();
    await settled(page);
    assert.equal(await total(page), first);
    await chart.focus();
    const before = await page.evaluate(() => history.length);
    for (let i = 0; i < 5; i += 1) await page.keyboard.press('ArrowRight');
    assert.equal(await page.evaluate(() => history.length), before, 'a walk by keys is no step of the history');
    assert.notEqual(await page.evaluate(() => location.hash), hash, 'but its end is in the address');
  },

  async 'the Markdown is summary.md, the picture has the colours of the chart, and a browser that refuses is said'() {
    for (const name of ['program', 'program_out_of_memory', 'program_hostile', 'program_without_events']) {
      const page = await open(browser, file(name));
      await page.getByRole('button', { name: 'Copy as Markdown' }).click();
      await page.getByText('The Markdown is copied.').waitFor();
      const summary = readFileSync(`${dirname(file(name))}/summary.md`, 'utf8');
      assert.equal(await page.evaluate(() => navigator.clipboard.readText()), summary, name);
      const heading = (await text(page, 'h1')).replace(/\s+/g, ' ');
      assert.equal(await page.title(), `${heading} - tidemark`, name);
      const button = page.getByRole('button', { name: 'Copy picture' });
      assert.equal(await button.count(), name.includes('without') ? 0 : 1, name);
      if (name.includes('without')) continue;
      await button.click();
      await page.getByText('The picture is copied.').waitFor();
      const { width, height, missing, drawn, texts } = await page.evaluate(async () => {
        const [item] = await navigator.clipboard.read();
        const bitmap = await createImageBitmap(await item.getType('image/png'));
        const pen = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d');
        pen.drawImage(bitmap, 0, 0);
        const { data } = pen.getImageData(0, 0, bitmap.width, bitmap.height);
        const colours = new Map();
        for (let i = 0; i < data.length; i += 4) {
          const colour = `${data[i]}, ${data[i + 1]}, ${data[i + 2]}`;
          colours.set(colour, (colours.get(colour) ?? 0) + 1);
        }
        const kinds = [...document.querySelectorAll('#memory .legend .swatch:not(.dashed)')].map((swatch) => getComputedStyle(swatch).backgroundColor.slice(4, -1));
        // Its texts: a heading above, the name beside the first swatch, and how the run was made below.
        const paper = `${data[0]}, ${data[1]}, ${data[2]}`;
        const at = (x, y) => [0, 1, 2].map((i) => data[4 * (y * bitmap.width + x) + i]).join(', ');
        const inked = (left, top, wide, high) => {
          let count = 0;
          for (let y = top; y < top + high; y += 1) for (let x = left; x < left + wide; x += 1) count += at(x, y) !== paper;
          return count;
        };
        const first = getComputedStyle(document.querySelector('#memory .legend .swatch:not(.dashed)')).backgroundColor.slice(4, -1);
        let swatch = 0;
        while (at(swatch % bitmap.width, Math.floor(swatch / bitmap.width)) !== first) swatch += 1;
        const facts = document.querySelectorAll('.facts').length;
        const texts = [inked(0, 0, bitmap.width, 80), inked((swatch % bitmap.width) + 26, Math.floor(swatch / bitmap.width), 60, 22), inked(0, bitmap.height - 32 - 40 * facts, bitmap.width, 40), inked(0, bitmap.height - 72, bitmap.width, 40)];
        // A swatch has 400 pixels: what has more is in the chart.
        return { texts, width: bitmap.width, height: bitmap.height, missing: kinds.filter((colour) => !colours.has(colour)), drawn: kinds.filter((colour) => colours.get(colour) > 600).length };
      });
      assert.deepEqual(missing, [], `${name}: colours of the legend`);
      assert.ok(texts.every((ink) => ink > 100), `${name}: pixels of the heading, of a name in the legend, of the facts: ${texts}`);
      assert.ok(width > 1500 && height > 800 && drawn >= 2, `${name}: ${width} x ${height}, ${drawn} kinds in the chart`);
      await page.evaluate(() => {
        navigator.clipboard.write = navigator.clipboard.writeText = () => Promise.reject(new Error('no'));
      });
      await button.click();
      const link = page.getByRole('link', { name: 'Save the picture' });
      assert.match(await link.getAttribute('href'), /^blob:/);
      await page.getByRole('button', { name: 'Copy as Markdown' }).click();
      assert.equal(await page.locator('#post textarea').inputValue(), summary, name);
      assert.equal(await page.evaluate(() => getSelection().toString() || document.activeElement.value.slice(document.activeElement.selectionStart, document.activeElement.selectionEnd)), summary);
      await whole(page, name);
      assert.deepEqual(await accessibility(page, axe), [], name);
    }
  },

  async 'steps, the cursor, reserved memory and the refusal are drawn where the record has them'() {
    for (const name of ['program', 'program_out_of_memory']) {
      const page = await open(browser, file(name), { hash: '#t=111' });
      const marks = await marksOf(page);
      assert.equal(marks.cursor.length, 1);
      assert.ok(Math.abs(marks.cursor[0] - 111) <= 2 * marks.pixel.events, `${name}: the cursor at ${marks.cursor}`);
      const [, refused] = /event ([\d,]*\d)/.exec(await text(await open(browser, file(name)), '#alive'));
      assert.equal(marks.refused.length, name === 'program' ? 0 : 1, name);
      for (const at of marks.refused) assert.ok(Math.abs(at - Number(refused.replaceAll(',', ''))) <= 2 * marks.pixel.events, `refused at ${at} of ${refused}`);
      await page.getByRole('button', { name: 'Go to the moment at which most is reserved' }).click();
      const most = await page.locator('#segments .lede data').first().evaluate((data) => Number(data.value));
      assert.ok(Math.abs(marks.reserved - most) <= 3 * marks.pixel.bytes, `${name}: ${marks.reserved} reserved of ${most}`);
      assert.ok(marks.steps.length >= 2, `${marks.steps}`);
      const phaseAt = async (event) => {
        await page.evaluate((t) => { location.hash = `#t=${t}`; }, Math.max(0, Math.round(event)));
        await settled(page);
        return / of (step \d+)/.exec(await text(page, '#alive .lede'))?.[1] ?? '';
      };
      for (const [step, at] of marks.steps) {
        assert.equal(await phaseAt(at + 3 * marks.pixel.events + 1), step, `${name}: behind the line of ${step}`);
        assert.notEqual(await phaseAt(at - 3 * marks.pixel.events - 1), step, `${name}: before the line of ${step}`);
      }
    }
  },

  async 'the refused block and the rest of its step stand above the capacity, and the cursor at it'() {
    const page = await open(browser, file('program_out_of_memory'));
    const record = JSON.parse(readFileSync(`${dirname(file('program_out_of_memory'))}/report.json`, 'utf8'));
    const { program, alive } = record.trials[0];
    assert.equal(await text(page, 'h1'), program.finding.text);
    assert.match(program.finding.text, /^train\.py: out of memory in \w+ of step \d on rank 0: it needs .* more than the 80 MiB/);
    assert.match(await text(page, '#alive'), /^When memory was refused, event \d+, in \w+ of step \d/);
    const refused = await total(page);
    assert.ok(refused > 0 && refused !== alive.active);
    const highest = await page.locator('#memory .chart').evaluate((chart) => Math.max(...chart.areas.at(-1).data.map(([, level]) => level)));
    assert.ok(highest > alive.active, `${highest} above ${alive.active}: the rest of the step`);
    assert.ok(program.needs.reserved > record.run.device.capacity_bytes);
    assert.doesNotMatch(await text(page), /are lacking|may fit if/, 'one figure of what is lacking: that of the run with room');
    assert.match(await text(page, '#memory'), /At the red line .* were refused\. The picture is of the second run, with room/);
    await page.keyboard.press('Tab');
    await page.locator('#memory .chart').focus();
    await page.keyboard.press('ArrowLeft');
    assert.ok((await total(page)) < refused, 'before it the block is not there');
    await whole(page, 'out of memory');
    await page.screenshot({ path: `${out}/program_out_of_memory.png`, fullPage: true });
  },

  async 'every file beside the page is there, and every file that is there is named'() {
    for (const name of readdirSync(dirname(dirname(file('program')))).filter((one) => one.startsWith('program') && !one.includes('million') && !one.includes('large'))) {
      const page = await open(browser, file(name));
      const folder = dirname(file(name));
      const named = await page.locator('.beside a').evaluateAll((links) => links.map((link) => decodeURIComponent(link.getAttribute('href'))));
      for (const one of named) assert.ok(existsSync(join(folder, one)), `${name}: ${one}`);
      const there = readdirSync(folder, { recursive: true }).filter((one) => /\.(json|md|xml|record|pickle)$/.test(one) && !one.endsWith('rank0.json'));  // of the test of stacks
      assert.deepEqual([...named].sort(), there.map(String).sort(), name);
    }
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
    assert.equal(await many.getByLabel('Rank').locator('option').count(), 64);
    assert.deepEqual(await accessibility(many, axe), []);
    await many.screenshot({ path: `${out}/program_dark.png`, fullPage: true });
  },

  async 'a step of 65,000 events opens in time, and a million of events are drawn from fewer moments'() {
    let page;
    /** Milliseconds of a processor until the page is drawn (others work on the machine): the least of three. */
    const opening = async (name) => {
      let took = Infinity;
      for (let i = 0; i < 3; i += 1) {
        const begun = i === 0 ? 0 : await used();
        page = await open(browser, file(name));
        took = Math.min(took, (await used()) - begun);
      }
      assert.ok(took > 0, `${name}: ${took} ms`); // another process has another clock
      return Math.round(took);
    };
    const used = async () => {
      const session = await page.context().newCDPSession(page);
      await session.send('Performance.enable');
      const { metrics } = await session.send('Performance.getMetrics');
      return 1000 * metrics.find(({ name }) => name === 'ProcessTime').value;
    };
    const limit = Math.max(OPENS_MS, 3 * (await opening('program_of_one_event')));
    for (const [name, events] of [['program_large', 65_000], ['program_million', 1_000_000]]) {
      if (name === 'program_million' && Number(process.env.TIDEMARK_TEST_DRAW ?? 0) % 8 !== 0) continue; // part 0 has it (sample_reports)
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
