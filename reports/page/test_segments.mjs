// The map of the allocator's segments against the record, at the peak and at other moments.
import assert from 'node:assert/strict';
import { accessibility, open, settled } from './browser.mjs';
import { text, whole } from './looking.mjs';
import { blocksOf, restsOf, segmentsOf } from './recorded.mjs';
import { cardOf } from './test_blocks.mjs';

const sum = (all, of) => all.reduce((bytes, one) => bytes + of(one), 0);
const figures = (page) => page.locator('#segments .lede data').evaluateAll((all) => all.map((data) => Number(data.value)));
const eventOf = async (page) => Number(/event ([\d,]*\d)/.exec(await text(page, '#segments .lede'))[1].replaceAll(',', ''));

/** Holds the sums, the strips and one card against the record at the moment that the page shows. */
async function held(page, record) {
  const segments = segmentsOf(record, await eventOf(page));
  const [reserved, used, rest, free, cached] = await figures(page);
  assert.equal(reserved, sum(segments, ({ from, to }) => to - from), 'reserved');
  assert.equal(used, sum(segments, ({ blocks }) => sum(blocks, ({ size }) => size)), 'blocks');
  assert.equal(rest, sum(segments, (segment) => sum(restsOf(segment), (rest) => rest)), 'rounding');
  assert.equal(used + rest + free + cached, reserved, 'all of it');
  assert.equal(cached, sum(segments.filter(({ blocks }) => blocks.length === 0), ({ from, to }) => to - from), 'free segments');
  assert.equal(await page.locator('.strip').count(), segments.length);
  return segments;
}

export const tests = ({ browser, axe, file, out }) => ({
  async 'blocks, rounding and free memory of the map sum to what is reserved, at any moment'() {
    for (const name of ['program', 'program_pools']) {
      const page = await open(browser, file(name));
      const record = blocksOf(file(name));
      await held(page, record);
      await page.getByRole('button', { name: 'Go to the moment at which most is reserved' }).click();
      const segments = await held(page, record);
      const most = Math.max(...record.trace.map((_, i) => sum(segmentsOf({ ...record, alive: () => [] }, i + 1), ({ from, to }) => to - from)));
      assert.equal(sum(segments, ({ from, to }) => to - from), most, 'the most of all moments');
      const chart = page.locator('#memory .chart');
      await chart.focus();
      for (let i = 0; i < 5; i += 1) {
        await page.keyboard.press('Shift+ArrowLeft');
        await held(page, record);
      }
      await whole(page, name);
    }
  },

  async 'a strip leads to its blocks, and a segment with free memory says what holds it'() {
    const page = await open(browser, file('program'));
    const segments = await held(page, blocksOf(file('program')));
    for (const segment of segments.filter(({ blocks }) => blocks.length > 0).slice(0, 3)) {
      await page.locator(`.strip[title*="0x${segment.from.toString(16)},"]`).click();
      const card = await cardOf(page, '#segments');
      assert.deepEqual(card.map(({ address }) => address).sort(), segment.blocks.map(({ address }) => address).sort());
    }
    const freeOf = (segment) => segment.to - segment.from - sum(segment.blocks, ({ size }) => size) - sum(restsOf(segment), (rest) => rest);
    const wanted = segments.filter((one) => one.blocks.length > 0 && freeOf(one) > 0).map(freeOf).sort((a, b) => b - a);
    const more = page.getByRole('button', { name: /^Show all \d+ segments/ });
    if (await more.isVisible()) await more.click();
    const rows = await page.locator('.pins tbody tr').evaluateAll((all) => all.map(({ cells }) => [Number(cells[0].querySelector('data').value), cells[4].textContent]));
    assert.deepEqual(rows.map(([free]) => free), wanted);
    assert.ok(rows.every(([, by]) => /train\.py:\d+/.test(by)), 'a line for each');
    assert.deepEqual(await accessibility(page, axe), []);
    await page.screenshot({ path: `${out}/program_segments.png`, fullPage: true });
    await page.setViewportSize({ width: 400, height: 900 });
    await settled(page);
    await whole(page, 'the map, 400 px');
  },

  async 'private pools have their names, and no pool is named where none is known'() {
    const page = await open(browser, file('program_pools'), { dark: true });
    assert.match(await text(page, '#segments'), /Private pool \(0, 1\), default stream/);
    assert.deepEqual(await accessibility(page, axe), []);
    assert.doesNotMatch(await text(await open(browser, file('program')), '#segments'), /[Pp]ool/);
  },
});
