// What a test asks of a page that stands open.
import assert from 'node:assert/strict';
import { settled } from './browser.mjs';

export const text = (page, selector = 'body') => page.locator(selector).innerText();
export const texts = (page, selector) => page.locator(selector).allInnerTexts();
export const choose = async (page, legend, option) => {
  await page
    .getByRole('group', { name: legend })
    .first()
    .getByRole('radio', { name: option })
    .check();
  await settled(page);
};
/** What a chart says after so many presses of the right arrow. */
export const readAt = async (page, chart, presses) => {
  await chart.focus();
  for (let i = 0; i < presses; i += 1) await page.keyboard.press('ArrowRight');
  return chart.locator('[aria-live]').innerText();
};
/** The lines of a chart, of all its panels. */
export const paths = (page, section) =>
  page
    .locator(`${section} .chart svg path:is([stroke-width="1.8"], [stroke-width="1.4"])`)
    .evaluateAll((all) =>
      all.map((path) => path.getAttribute('d') ?? '').filter((d) => /[LCHV]/i.test(d)),
    );

/** Nothing is missing, nothing sticks out, nothing went wrong. */
export async function whole(page, what) {
  const words = await text(page);
  assert.doesNotMatch(words, /\b(undefined|NaN|\[object)/, `${what}: a figure is missing`);
  const wide = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  assert.ok(wide <= 0, `${what}: ${wide} pixels wider than the window`);
  assert.deepEqual(page.wrong, [], `${what}: something went wrong`);
}
