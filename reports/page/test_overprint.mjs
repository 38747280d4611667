// No text of a page lies on another one, is struck through or is cut: on every kind of page, wide and narrow, and after a zoom.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { open, settled } from './browser.mjs';
import { overprints, unmarked } from './overlaps.mjs';

const WIDTHS = [1400, 400];
const SHEET = 703; // pixels of a page of A4 between its margins
const PARTS = 8; // of which a commit looks at one

/** A generator of numbers from 0 to 1, the same for the same seed (mulberry32). */
function drawing(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Moves the places and windows of all charts by keys, as a user does. */
async function zoomed(page, draw) {
  for (const chart of await page.locator('.chart[tabindex]').all()) {
    await chart.focus();
    const keys = Array.from({ length: 6 }, () => ['+', '-', 'ArrowLeft', 'ArrowRight', 'Shift+ArrowRight', 'Shift+ArrowLeft', '+', '+'][Math.floor(draw() * 8)]);
    for (const key of keys) await page.keyboard.press(key);
    await page.keyboard.press('Escape'); // what a chart says at a place is over it
  }
  await page.mouse.move(0, 0);
  await settled(page);
}

export const tests = ({ browser, file }) => ({
  async 'no text is on another one, struck through or cut: on every page, at 1400 and 400 pixels, and after a zoom'() {
    const { TIDEMARK_TEST_DRAW: part, TIDEMARK_TEST_SEED: seed = '1' } = process.env;
    console.log(`TIDEMARK_TEST_SEED ${seed}`);
    const all = readdirSync(dirname(dirname(file('small'))));
    const names = part === undefined ? all : all.filter((_, i) => i % PARTS === Number(part) % PARTS);
    const wrong = [];
    let looked = 0;
    for (const name of names)
      for (const width of WIDTHS) {
        const draw = drawing(Number(seed) + width);
        const page = await open(browser, file(name), { width });
        const look = async (what) => {
          looked += 1;
          for (const fault of await overprints(page)) wrong.push(`${name}, ${width} pixels, ${what}: ${fault}`);
        };
        const pages = await page.locator('#pages a[href^="#/"]').evaluateAll((all) => all.map((a) => a.getAttribute('href')));
        for (const hash of new Set(['#/', ...pages])) {
          await page.evaluate((to) => { location.hash = to; }, hash);
          await settled(page);
          await look(hash);
        }
        if (pages.length > 2) {
          await page.evaluate((to) => { location.hash = to; }, pages[2]);
          await settled(page);
        }
        if ((await page.locator('.chart').count()) === 0) continue;
        await zoomed(page, draw);
        await look('after a zoom');
      }
    assert.ok(looked > names.length * 2, `${looked} pages were looked at`);
    assert.deepEqual(wrong, []);
  },

  async 'on paper no text is on another one, pictures keep to their columns and have colours, and figures that lead somewhere stay'() {
    const { TIDEMARK_TEST_DRAW: part } = process.env;
    const names = readdirSync(dirname(dirname(file('small')))).filter((_, i) => part === undefined || i % PARTS === Number(part) % PARTS);
    const wrong = [];
    for (const name of names) {
      const page = await open(browser, file(name), { width: 1400 });
      const links = await page.locator('#pages a[href^="#/"]').evaluateAll((all) => all.map((a) => a.getAttribute('href')));
      for (const hash of new Set(['', ...links.slice(2, 3)])) {
        if (hash) await page.evaluate((to) => { location.hash = to; }, hash);
        await settled(page);
        const said = await page.locator('td').allInnerTexts();
        await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
        await page.emulateMedia({ media: 'print' });
        await page.setViewportSize({ width: SHEET, height: 1000 });
        await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
        const what = `${name}${hash}`;
        for (const fault of await overprints(page)) wrong.push(`${what}: ${fault}`);
        const { wide, black, left } = await page.evaluate(() => ({
          wide: [...document.querySelectorAll('body *')].filter((one) => one.checkVisibility() && !one.closest('.unseen') && one.getBoundingClientRect().right > document.documentElement.clientWidth + 1).slice(0, 3).map((one) => `${one.tagName} ${one.className} ${one.textContent.slice(0, 40)}`),
          black: [...document.querySelectorAll('.chart')].flatMap(({ areas = [] }) => areas).filter(({ colour }) => !/^(#[0-9a-f]{6}|rgb\(\d+,\d+,\d+\))$/.test(colour)).map(({ name: kind, colour }) => `${kind} ${colour}`),
          left: [...document.querySelectorAll('td')].map((cell) => cell.innerText),
        }));
        if (wide.length > 0) wrong.push(`${what}: beyond the paper: ${wide.join('; ')}`);
        if (black.length > 0) wrong.push(`${what}: no colours: ${black.join(', ')}`);
        const lost = said.filter((text, i) => text.trim() && !(left[i] ?? '').trim());
        if (said.length === left.length && lost.length > 0) wrong.push(`${what}: cells that are empty on paper: ${lost.slice(0, 4).join('; ')}`);
        await page.emulateMedia({ media: null });
        await page.evaluate(() => dispatchEvent(new Event('afterprint')));
        await page.setViewportSize({ width: 1400, height: 900 });
      }
    }
    assert.deepEqual(wrong, []);
  },

  async 'at 400 pixels what matters is inside, and what is wider says that it can be scrolled'() {
    for (const [name, hash, columns] of [
      ['program', '', ['.alive tbody td:nth-child(5)', '.alive tbody td:nth-child(1)']],
      ['program_large', '', ['.alive tbody td:nth-child(5)']],
      ['sample', '', ['.scenarios .saved', '.scenarios [data-head="peak of fix"]', '.scenarios .fix']],
      ['beside', '', ['.scenarios [data-head="change"]']],
      ['tests', '', ['.tests td:first-child', '.tests [data-head="peak"]']],
      ['fit_two', '', []],
      ['sample', '#/fsdp_prefetch?trial=0&schedule=lagging', []],
    ]) {
      const page = await open(browser, file(name), { hash, width: 400 });
      assert.deepEqual(await unmarked(page), [], name);
      const counts = await page.locator('.alive td:nth-child(2)').evaluateAll((all) => all.map((td) => `${td.textContent} ${td.dataset.noun}`));
      assert.deepEqual(counts.filter((text) => /^1 blocks|^(?!1 )[\d,]+ block$/.test(text) || !/ blocks?$/.test(text)), [], name);
      for (const column of columns) {
        const boxes = await page.locator(column).evaluateAll((all) => all.filter((cell) => cell.checkVisibility()).map((cell) => cell.getBoundingClientRect().toJSON()));
        assert.ok(boxes.length > 0, `${name}: no ${column}`);
        for (const { left, right } of boxes) assert.ok(left >= 0 && right <= 400, `${name}: ${column} from ${left} to ${right}`);
      }
    }
  },
});
