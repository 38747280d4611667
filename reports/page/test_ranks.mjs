// Ranks of a program: a few are buttons, many a map of their peaks, against the record.
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { accessibility, open, settled } from './browser.mjs';
import { text, whole } from './looking.mjs';

const LARGEST = 3_000_000;
const total = (page) => page.locator('#alive data').first().evaluate((data) => Number(data.value));
const cells = (page) => page.locator('.ranks tr').evaluateAll((rows) => rows.map((row) => [...row.querySelectorAll('i')].map(({ dataset }) => Number(dataset.bytes))));
const recordOf = (of) => JSON.parse(readFileSync(`${dirname(of)}/report.json`, 'utf8')).trials[0].program.ranks;

export const tests = ({ browser, axe, file, out }) => ({
  async 'the cells of 64 and of 512 ranks are the peaks of the record, and a click chooses a rank'() {
    for (const ranks of [64, 512]) {
      const name = `program_of_${ranks}_ranks`;
      assert.ok(statSync(file(name)).size <= LARGEST, `${name}: ${statSync(file(name)).size} bytes`);
      console.log(`        ${name}: ${statSync(file(name)).size} bytes`);
      const page = await open(browser, file(name));
      const [over, ...phases] = await cells(page);
      const wanted = recordOf(file(name)).map(({ devices: [{ active }] }) => active);
      assert.deepEqual(over, wanted);
      const shades = await page.locator('.ranks tr').first().locator('i').evaluateAll((all) => all.map((cell) => [Number(cell.dataset.bytes), Number.parseFloat(cell.style.getPropertyValue('--level'))]).sort(([a], [b]) => a - b));
      assert.ok(shades.every(([, shade], i) => i === 0 || shade >= shades[i - 1][1]) && shades[0][1] < shades.at(-1)[1], 'the most has the strongest colour');
      over.forEach((peak, rank) => assert.equal(Math.max(...phases.map((row) => row[rank])), peak, 'the peak of a rank lies in a phase'));
      for (const rank of [0, 1, ranks / 2 + 3, ranks - 1]) {
        await page.locator('.ranks tr').first().locator('i').nth(rank).click();
        assert.equal(await total(page), wanted[rank], `rank ${rank}`);
        assert.equal(await page.getByLabel('Rank').locator('option:checked').innerText(), `rank ${rank}`);
        assert.equal(await page.locator('.ranks i[data-chosen]').first().getAttribute('data-rank'), String(rank));
      }
      await page.getByLabel('Rank').selectOption('rank 2');
      assert.equal(await total(page), wanted[2]);
      await whole(page, name);
      if (ranks === 512) continue; // axe looks at 4,000 cells for long
      assert.deepEqual(await accessibility(page, axe), []);
      await page.screenshot({ path: `${out}/${name}.png`, fullPage: true });
      await page.setViewportSize({ width: 400, height: 900 });
      await settled(page);
      await whole(page, `${name}, 400 px`);
    }
  },

  async 'a few ranks are buttons'() {
    const page = await open(browser, file('program'));
    assert.equal(await page.locator('.ranks').count(), 0);
    assert.equal(await page.getByRole('group', { name: 'Rank' }).getByRole('radio').count(), 2);
    assert.match(await text(page, '#memory'), /rank 1, rank 2/);
  },
});
