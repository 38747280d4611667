// The page of `tidemark fit`: its pictures hold the record, to the byte.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { accessibility, open } from './browser.mjs';
import { text, texts, whole } from './looking.mjs';

export const tests = ({ browser, axe, file, out }) => {
  const recordOf = (name) => JSON.parse(readFileSync(`${dirname(file(name))}/fit.json`, 'utf8'));
  const sum = (parts) => parts.reduce((all, { bytes }) => all + bytes, 0);
  /** The data of the figures, as the page has them. */
  const figures = (page) =>
    page.locator('figure script').evaluateAll((all) => all.map((one) => JSON.parse(one.textContent)));
  const answered = (record) => record.answers.filter(({ run }) => run?.alive);

  return {
    async 'fit: a bar an answer, of all bytes that are alive at its peak'() {
      for (const name of ['fit_one', 'fit_two', 'fit_none', 'fit_refused']) {
        const record = recordOf(name);
        const page = await open(browser, file(name));
        const rows = answered(record);
        const totals = await page.locator('.stacks data').evaluateAll((all) => all.map((one) => Number(one.value)));
        assert.deepEqual(totals, rows.map(({ run }) => run.alive.active), name);
        assert.deepEqual(totals, rows.map(({ run }) => sum(run.alive.parts)), name);
        const shown = await page
          .locator('.stacks .stack')
          .evaluateAll((all) =>
            all.map((stack) => [...stack.querySelectorAll('i')].reduce((bytes, part) => bytes + Number(part.title.match(/([\d,]+) bytes/)[1].replaceAll(',', '')), 0)),
          );
        assert.deepEqual(shown, totals, `${name}: the titles of the parts`);
        await whole(page, name);
      }
    },

    async 'fit: a point a run and a line a capacity'() {
      const record = recordOf('fit_one');
      const page = await open(browser, file('fit_one'));
      const [chart] = (await figures(page)).filter(({ lines }) => lines);
      const [peaks, ...capacities] = chart.lines;
      assert.deepEqual(
        peaks.points,
        record.runs.map(({ values, reserved }) => [Number(values.batch), reserved]).sort(([a], [b]) => a - b),
      );
      assert.deepEqual(
        capacities.map(({ points }) => points[0][1]),
        record.gpus.map(({ total_bytes, context_bytes }) => total_bytes - context_bytes),
      );
      assert.equal(await page.locator('.chart').getAttribute('data-series'), String(1 + record.gpus.length));
      assert.match(await text(page, 'h1'), /^batch 9 on t4-16g: /);
    },

    async 'fit: a cell a run of two variables, red where it does not fit'() {
      const record = recordOf('fit_two');
      const page = await open(browser, file('fit_two'));
      const maps = (await figures(page)).filter(({ kind }) => kind === 'heat');
      assert.equal(maps.length, record.gpus.length);
      for (const { rows, columns, capacity, y, x } of maps)
        for (const { name, cells } of rows)
          cells.forEach((cell, at) => {
            const run = record.runs.find(({ values }) => values[y] === name && values[x] === columns[at]);
            assert.equal(cell.bytes, run.reserved);
            assert.equal(cell.share, run.reserved / capacity);
          });
      const red = await page.locator('td.over').count();
      const over = maps.flatMap(({ rows }) => rows.flatMap(({ cells }) => cells)).filter(({ fits }) => fits === false);
      assert.equal(red, over.length);
      assert.ok(red > 0);
    },

    async 'fit: what does not fit, what would help, what was refused'() {
      let page = await open(browser, file('fit_none'));
      assert.match(await text(page, 'h1'), /^nothing fits t4-16g: the nearest, batch 1, needs 232.0 MiB more/);
      assert.match(await text(page), /What would help[\s\S]*recompute all repeated modules saves 400 MiB[\s\S]*bf16 autocast\s+exact\s+does not run/);
      assert.match(await text(page), /Computed from the record, not run: optimizer states of 8 bits/);
      page = await open(browser, file('fit_refused'));
      assert.match(await text(page), /refused by the program/);
      assert.match(await text(page), /ValueError: 3 is odd/);
      assert.equal(await page.locator('img').count(), 0, 'a name stays text');
      assert.ok((await texts(page, 'td')).includes('</script>'));
    },

    async 'fit: light, dark and narrow'() {
      for (const name of ['fit_one', 'fit_two', 'fit_none', 'fit_refused']) {
        const dark = await open(browser, file(name), { dark: true });
        assert.deepEqual(await accessibility(dark, axe), [], name);
        await dark.screenshot({ path: `${out}/${name}_dark.png`, fullPage: true });
        const narrow = await open(browser, file(name), { width: 400 });
        await whole(narrow, name);
        await narrow.screenshot({ path: `${out}/${name}_narrow.png`, fullPage: true });
        const light = await open(browser, file(name));
        assert.deepEqual(await accessibility(light, axe), [], name);
        await light.screenshot({ path: `${out}/${name}.png`, fullPage: true });
      }
    },
  };
};
