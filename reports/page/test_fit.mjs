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
      const last = Math.max(...record.answers.flatMap(({ largest, next }) => [Number(largest), Number(next)]));
      assert.deepEqual(
        peaks.points,
        record.runs
          .map(({ values, reserved }) => [Number(values.batch), reserved])
          .filter(([batch]) => batch <= last)
          .sort(([a], [b]) => a - b),
        'as far as the answers go',
      );
      assert.deepEqual(
        capacities.map(({ points }) => points[0][1]),
        record.gpus.map(({ total_bytes, context_bytes }) => total_bytes - context_bytes),
      );
      assert.equal(await page.locator('.chart').getAttribute('data-series'), String(1 + record.gpus.length));
      assert.equal(await text(page, 'h1'), 'train.py: batch 9 on t4-16g, 14 on l4-24g, 55 on h100-80g');
    },

    async 'fit: a cell a run of two variables, red where it does not fit'() {
      const record = recordOf('fit_two');
      const page = await open(browser, file('fit_two'));
      const maps = await page.locator('table.heat').evaluateAll((all) =>
        all.map((table) => ({
          columns: [...table.tHead.rows[0].cells].slice(1).map((cell) => cell.innerText),
          rows: [...table.tBodies[0].rows].map(({ cells: [name, ...cells] }) => ({
            name: name.innerText,
            cells: cells.map((cell) => ({ bytes: Number(cell.querySelector('data').value), over: cell.className.includes('over'), title: cell.title })),
          })),
        })),
      );
      assert.equal(maps.length, record.gpus.length);
      let red = 0;
      maps.forEach(({ rows, columns }, i) => {
        const { name: gpu, total_bytes: total, context_bytes: context } = record.gpus[i];
        for (const { name, cells } of rows)
          cells.forEach(({ bytes, over, title }, at) => {
            const run = record.runs.find(({ values }) => values.batch === name && values.recompute === columns[at]);
            assert.equal(bytes, run.reserved);
            assert.match(title, new RegExp(` ${((100 * bytes) / (total - context)).toFixed(1).replace('.', '\\.')} % of the capacity`));
            const answer = record.answers.find((one) => one.gpu === gpu && one.values.recompute === columns[at]);
            assert.equal(over, !(answer.largest && Number(name) <= Number(answer.largest)), `${gpu}, batch ${name}, recompute ${columns[at]}: as its answer says`);
            red += over;
          });
      });
      assert.equal(await page.locator('td.over').count(), red);
      assert.ok(red > 0);
    },

    async 'fit: what does not fit, what would help, what was refused'() {
      let page = await open(browser, file('fit_none'));
      assert.equal(await text(page, 'h1'), 'train.py: does not fit on t4-16g');
      assert.match(await text(page, 'section >> nth=0'), /nothing fits t4-16g: the nearest, batch 1, needs 232.0 MiB more/);
      const tones = await page.locator('.legend li').evaluateAll((all) => all.map(({ className, innerText }) => [innerText.trim(), className]));
      assert.deepEqual(tones.filter(([name]) => name === 'activations'), [['activations', 'kind-activations']], 'the colours of all pages');
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
