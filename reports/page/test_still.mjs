// Pages without a script, as the viewers of CI show them: they have each picture that the script would draw, and the list of what is alive.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { pathToFileURL } from 'node:url';
import { open } from './browser.mjs';
import { marksOf, texts } from './looking.mjs';
import { overprints } from './overlaps.mjs';

const PARTS = 8; // of the pages, of which a commit looks at one
const UNITS = { GiB: 2 ** 30, MiB: 2 ** 20, KiB: 2 ** 10, bytes: 1 };

/** The bytes of the cells of memory in a table that stands still, and those that are written as a number alone. */
const figuresOf = (still) => ({
  bytes: [...still.querySelectorAll('tbody tr')].map(({ cells }) => Number((cells[1].querySelector('[title]')?.title ?? cells[1].textContent).replace(/ bytes|,/g, ''))),
  bare: [...still.querySelectorAll('tbody tr')].map(({ cells }) => cells[1].textContent).filter((text) => !/ ([KMGT]iB|bytes)$/.test(text)),
});

export const tests = ({ browser, file }) => ({
  async 'without a script: pictures, what is alive, links that lead somewhere, nothing on another text'() {
    const { TIDEMARK_TEST_DRAW: part } = process.env;
    const names = readdirSync(dirname(dirname(file('small')))).filter((_, i) => part === undefined || i % PARTS === Number(part) % PARTS);
    const drawn = new Map();
    for (const name of names) {
      const page = await open(browser, file(name));
      drawn.set(name, await page.locator('main .chart').count());
      assert.equal(await page.locator('.still, noscript .gap').count(), 0, `${name}: no picture twice`);
    }
    const context = await browser.newContext({ javaScriptEnabled: false, offline: true });
    const page = await context.newPage();
    try {
      for (const name of names) {
        await page.goto(pathToFileURL(file(name)).href);
        assert.match(await page.locator('noscript').innerText(), /^No script runs here/, name);
        const plots = await page.locator('.still .plot').count();
        assert.ok(plots >= Math.min(drawn.get(name), 1), `${name}: ${plots} pictures, ${drawn.get(name)} charts with a script`);
        const dead = await page.locator('a[href^="#"]').evaluateAll((all) => all.filter((a) => !document.getElementById(a.getAttribute('href').slice(1))).map((a) => a.getAttribute('href')));
        assert.deepEqual(dead, [], `${name}: links that lead nowhere`);
        const bare = await page.locator('main h2').evaluateAll((all) => all.filter((h2) => !h2.nextElementSibling?.innerText.trim()).map((h2) => h2.innerText));
        assert.deepEqual(bare, [], `${name}: headings with nothing below`);
        for (const width of [1400, 400]) {
          await page.setViewportSize({ width, height: 900 });
          assert.deepEqual(await overprints(page), [], `${name}, ${width} pixels`);
        }
      }
    } finally {
      await context.close();
    }
  },

  async 'without a script two runs lie over each other, and a program out of memory is the run with room, as with a script'() {
    const shown = await open(browser, file('program_out_of_memory'));
    const alive = await shown.locator('#alive data').first().evaluate((data) => Number(data.value));
    const above = await shown.locator('#memory .chart').evaluate((chart) => Math.max(...chart.areas.at(-1).data.map(([, level]) => level)));
    const context = await browser.newContext({ javaScriptEnabled: false, offline: true });
    try {
      const page = await context.newPage();
      await page.goto(pathToFileURL(file('program_changed')).href);
      const [old, fresh] = ['program', 'program_changed'].map((name) => JSON.parse(readFileSync(`${dirname(file(name))}/report.json`, 'utf8')).trials[0].alive.active);
      const drawn = await page.locator('.overlaid').evaluate((element) => {
        const top = Math.max(...[...element.querySelectorAll('.y')].map((label) => Number(label.textContent)));
        const highest = (path) => 1 - Math.min(...path.getAttribute('d').match(/(?<=V|M\d+ )\d+/g).map(Number)) / 1000;
        return { top, runs: ['old-run', 'new-run'].map((run) => highest(element.querySelector(`path.${run}`))), areas: [...element.querySelectorAll('path[fill]')].map((path) => path.getAttribute('d').split('M').length - 1), fills: [...element.querySelectorAll('path[fill]')].map((path) => document.querySelector(path.getAttribute('fill').slice(4, -1))?.tagName) };
      });
      const top = drawn.top * UNITS.MiB;
      [old, fresh].forEach((active, i) => assert.ok(Math.abs(drawn.runs[i] * top - active) <= top / 2000 + 1, `${drawn.runs[i] * top} drawn of ${active}`));
      assert.ok(drawn.areas[0] > 20, 'the new run has more, and that is hatched');
      assert.deepEqual(drawn.fills, ['pattern', 'pattern']);
      const bars = await page.locator('.waterfall data').evaluateAll((all) => all.map((data) => Number(data.value)));
      assert.deepEqual([bars[0], bars.at(-1), bars.slice(0, -1).reduce((sum, bytes) => sum + bytes, 0)], [old, fresh, fresh]);
      await page.goto(pathToFileURL(file('program_out_of_memory')).href);
      const still = await page.locator('.still').evaluate(figuresOf);
      const listed = still.bytes.reduce((sum, bytes) => sum + bytes, 0);
      assert.deepEqual(still.bare, [], 'figures have units');
      const highest = await page.locator('.still').evaluate((element) => ({ top: Math.max(...[...element.querySelectorAll('.y')].map((label) => Number(label.textContent))), share: 1 - Math.min(...element.querySelector('path').getAttribute('d').match(/(?<=V|M\d+ )\d+/g).map(Number)) / 1000 }));
      assert.equal(listed, alive, 'what is alive where the page opens');
      assert.ok(Math.abs(highest.share * highest.top * UNITS.MiB - above) <= (highest.top * UNITS.MiB) / 2000 + 1, `${highest.share} of ${highest.top} is ${above}`);
    } finally {
      await context.close();
    }
  },

  async 'the picture that stands still has the kinds, steps, reserved memory, capacity and refusal of the one that a script draws'() {
    await open(browser, file('program')); // the context of all tests is the first one
    const context = await browser.newContext({ javaScriptEnabled: false, offline: true });
    const still = await context.newPage();
    const wrong = [];
    try {
      for (const name of ['program', 'program_out_of_memory']) {
        const page = await open(browser, file(name));
        const { steps, reserved, refused, pixel } = await marksOf(page);
        const { last, peak, kinds } = await page.locator('#memory .chart').evaluate((chart) => {
          const { data } = chart.areas.at(-1);
          const high = Math.max(...data.map(([, level]) => level));
          const shown = chart.areas.filter((area, i) => area.data.some(([, level], k) => level > (i > 0 ? chart.areas[i - 1].data[k][1] : 0)));
          return { last: data.at(-1)[0], peak: data.find(([, level]) => level === high)[0], kinds: shown.map((area) => area.name) };
        });
        const capacity = Number(/PyTorch can have ([\d.]+) MiB/.exec((await texts(page, '#memory .legend'))[0])[1]) * UNITS.MiB;
        await still.goto(pathToFileURL(file(name)).href);
        const drawn = await still.locator('.still .plot').first().evaluate((plot) => {
          const top = Math.max(...[...plot.querySelectorAll('.y')].map((label) => Number(label.textContent)));
          const heights = (path) => path.getAttribute('d').match(/(?<=V|M\d+ )\d+/g).map((y) => (1 - y / 1000) * top);
          const at = (path, level) => Number(path.getAttribute('d').slice(0, path.getAttribute('d').indexOf(`V${level}`)).match(/H(\d+)$/)[1]) / 1000;
          const area = plot.querySelector('path[class^="kind-"]'); // of all kinds together: the others lie over it
          const lines = [...plot.querySelectorAll('path.capacity')];
          return {
            kinds: [...plot.closest('.still').querySelectorAll('.legend li[class^="kind-"]')].map((entry) => entry.innerText.trim()),
            reserved: Math.max(...heights(plot.querySelector('.of-reserved'))),
            peak: at(area, Math.min(...area.getAttribute('d').match(/(?<=V)\d+/g).map(Number))),
            steps: [...plot.querySelectorAll('.step')].map((step) => [step.innerText, parseFloat(step.style.left) / 100]),
            capacity: lines.filter((path) => path.getAttribute('d').includes('H')).map((path) => heights(path)[0]),
            refused: lines.filter((path) => path.getAttribute('d').includes('V')).map((path) => Number(/^M(\d+)/.exec(path.getAttribute('d'))[1]) / 1000),
            pixel: top / 1000,
          };
        });
        const near = (a, b, by) => Math.abs(a - b) <= by;
        const bytes = 2 * drawn.pixel * UNITS.MiB + 2 * pixel.bytes;
        const share = 2 / 160 + (2 * pixel.events) / last; // a column of the picture that stands still
        if (String(drawn.kinds) !== String(kinds)) wrong.push(`${name}: kinds ${drawn.kinds}, not ${kinds}`);
        if (!near(drawn.reserved * UNITS.MiB, reserved, bytes)) wrong.push(`${name}: reserved ${drawn.reserved * UNITS.MiB}, not ${reserved}`);
        if (!near(drawn.peak, peak / last, share)) wrong.push(`${name}: the peak at ${drawn.peak}, not ${peak / last}`);
        if (drawn.capacity.length !== 1 || !near(drawn.capacity[0] * UNITS.MiB, capacity, bytes)) wrong.push(`${name}: the capacity at ${drawn.capacity}, not ${capacity}`);
        if (drawn.refused.length !== refused.length || refused.some((x, i) => !near(drawn.refused[i], x / last, share))) wrong.push(`${name}: refused at ${drawn.refused}, not ${refused}`);
        for (const [step, x] of drawn.steps) if (!near(x, new Map(steps).get(step) / last, share)) wrong.push(`${name}: ${step} at ${x}`);
        if (drawn.steps.length < 2) wrong.push(`${name}: ${drawn.steps.length} steps`);
      }
    } finally {
      await context.close();
    }
    assert.deepEqual(wrong, []);
  },

  async 'the picture that stands still is that of the record, and the list sums to it'() {
    const context = await browser.newContext({ javaScriptEnabled: false, offline: true });
    const page = await context.newPage();
    try {
      for (const name of ['program', 'program_large', 'program_drawn_0', 'program_drawn_1', 'program_drawn_2', 'program_drawn_3']) {
        const { alive } = JSON.parse(readFileSync(`${dirname(file(name))}/report.json`, 'utf8')).trials[0];
        await page.goto(pathToFileURL(file(name)).href);
        const shown = await page.locator('.still').evaluate((still) => ({
          unit: /in (\w+)\.$/.exec(still.querySelector('p').innerText)[1],
          top: Math.max(...[...still.querySelectorAll('.y')].map((label) => Number(label.textContent))),
          highest: Math.min(...still.querySelector('path').getAttribute('d').match(/(?<=V|M\d+ )\d+/g).map(Number)),
        }));
        Object.assign(shown, await page.locator('.still').evaluate(figuresOf));
        assert.deepEqual(shown.bare, [], `${name}: figures have units`);
        assert.equal(shown.bytes.reduce((sum, bytes) => sum + bytes, 0), alive.active, name);
        const top = shown.top * UNITS[shown.unit];
        const height = (1 - shown.highest / 1000) * top;
        assert.ok(Math.abs(height - alive.active) <= top / 2000 + 1, `${name}: ${height} drawn of ${alive.active}`);
      }
    } finally {
      await context.close();
    }
  },
});
