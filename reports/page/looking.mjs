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

/** Where the marks of a program's picture are drawn: {steps: [[name, event]], cursor: event, refused: event, reserved: highest bytes, pixel: {events, bytes}}. */
export const marksOf = (page) =>
  page.locator('#memory .chart').evaluate((chart) => {
    const UNITS = { GiB: 2 ** 30, MiB: 2 ** 20, KiB: 2 ** 10, bytes: 1 };
    const texts = [...chart.querySelectorAll('svg text')].map((one) => ({ text: one.textContent, box: one.getBoundingClientRect() }));
    const numbers = texts.filter(({ text }) => /^[\d,.]+$/.test(text)).map(({ text, box }) => ({ value: Number(text.replaceAll(',', '')), box }));
    const lowest = Math.max(...numbers.map(({ box }) => box.bottom));
    const [below, beside] = [true, false].map((is) => numbers.filter(({ box }) => lowest - box.bottom < 2 === is).sort((a, b) => a.value - b.value));
    const [left, right] = [below[0].box.left, below.at(-1).box.right];
    const [floor, top] = [beside[0], beside.at(-1)].map(({ box }) => (box.top + box.bottom) / 2);
    const events = (below.at(-1).value - below[0].value) / (right - left);
    const unit = UNITS[texts.find(({ text }) => text in UNITS).text];
    const bytes = ((beside.at(-1).value - beside[0].value) * unit) / (floor - top);
    const at = (x) => below[0].value + (x - left) * events;
    const lines = (colour, dashed) =>
      [...chart.querySelectorAll('svg path')]
        .filter((path) => path.getAttribute('stroke')?.toLowerCase() === getComputedStyle(chart).getPropertyValue(`--${colour}`).trim().toLowerCase() && path.hasAttribute('stroke-dasharray') === dashed)
        .map((path) => path.getBoundingClientRect());
    const upright = (colour) => lines(colour, false).filter(({ width, height }) => width < 1 && height > 100).map(({ left: x }) => at(x));
    return {
      steps: texts.filter(({ text }) => /^step \d+$/.test(text)).map(({ text, box }) => [text, at(box.left)]),
      cursor: upright('focus'),
      refused: upright('fail'),
      reserved: Math.max(...lines('ink', true).filter(({ width }) => width > 100).map(({ top: y }) => (floor - y) * bytes)),
      pixel: { events, bytes },
    };
  });
