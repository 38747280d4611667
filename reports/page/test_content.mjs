// holds: reports/README.md, report.html
// What the page shows, and what its controls change.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { accessibility, open, settled } from './browser.mjs';
import { choose, paths, readAt, text, texts, whole } from './looking.mjs';
import { axisOf, unitFor } from './format.js';
import { overprints } from './overlaps.mjs';
import { holdStories } from './stories.mjs';

const SCENARIO = '#/fsdp_prefetch?trial=0&schedule=lagging';

export const tests = ({ browser, axe, file }) => ({
  async 'round scales'() {
    const gib = unitFor(18 * 2 ** 30);
    for (const [low, high] of [
      [0, 17.84 * 2 ** 30],
      [64e6, 64.5e6],
      [68e6, 68e6],
      [0, 0],
      [-3e9, 5e9],
    ]) {
      const { min, max, interval, format } = axisOf(low, high, gib);
      assert.ok(min <= low && max >= high && max > min, `${low} to ${high}: ${min} to ${max}`);
      assert.ok((max - min) / interval <= 8, `${low} to ${high}: ${(max - min) / interval} steps`);
      assert.notEqual(format(min), format(min + interval));
    }
  },

  async 'no amount is written as zero that is none, and no line says zero twice'() {
    const wrong = [];
    for (const [name, hash] of [['program', ''], ['program_drawn_0', ''], ['program_without_memory', ''], ['program_of_one_event', ''], ['program_changed', ''], ['sample', ''], ['sample', SCENARIO], ['tests', ''], ['fit_two', '']]) {
      const page = await open(browser, file(name), { hash });
      const none = (all) => all.filter((one) => Number(one.value) !== 0 && /^[+−-]?0(\.0+)?( [KMGT]iB| bytes)?$/.test(one.textContent.trim())).map((one) => `${one.value}: ${one.textContent}`);
      wrong.push(...(await page.locator('data[value]').evaluateAll(none)));
      wrong.push(...(await page.locator('main p').allInnerTexts()).filter((line) => /\b0 bytes\b.*\b0 bytes\b/.test(line)).map((line) => `${name}: ${line}`));
    }
    assert.deepEqual(wrong, []);
    for (let at = 0; at < 40; at += 1) {
      const [largest, value] = [2 ** at, 2 ** (at * ((at * 7) % 13) / 13)];
      const text = unitFor(largest).format(value);
      assert.ok(text.startsWith('<') ? Number(text.slice(1)) * unitFor(largest).bytes > value / 2 : Number(text.replaceAll(',', '')) > 0, `${value} of ${largest}: ${text}`);
      assert.equal(Number(unitFor(largest).format(0)), 0);
    }
  },

  async 'the story of every fix: each bar and each column has the kinds of the record, and its sum'() {
    const { fsdp_prefetch: held } = await holdStories(browser, file('sample'), ({ schedule }) => schedule === 'lagging');
    assert.ok(held.columns > 1000, JSON.stringify(held));
  },

  async 'a reader can check the formula of a saving: its symbols have their values below it'() {
    const page = await open(browser, file('sample'), { hash: SCENARIO });
    const rows = await page.locator('.saving tbody tr').evaluateAll((all) => all.map((row) => ({ predicted: row.querySelector('.figure data')?.value, formula: row.querySelector('code').textContent, values: row.querySelector('.worth')?.textContent ?? '' })));
    const some = rows.filter(({ formula, predicted }) => predicted && /^[\w+\-*() ]+$/.test(formula) && /[A-Za-z]/.test(formula));
    assert.ok(some.length > 0, JSON.stringify(rows));
    for (const { predicted, formula, values } of some) {
      const known = new Map(values.replace(/^with /, '').split(/, (?=\w+ =)/).map((one) => one.split(' = ')).map(([name, value]) => [name, Number(value.replaceAll(',', ''))]));
      const product = (text) => text.split('*').reduce((all, part) => all * (known.get(part.trim()) ?? Number(part)), 1);
      if (/[()]/.test(formula)) assert.ok([...formula.matchAll(/[A-Za-z]\w*/g)].every(([name]) => known.has(name)), `${formula} ${values}`);
      else assert.equal(formula.split(/(?=[+-])/).reduce((sum, part) => sum + (part.trim().startsWith('-') ? -1 : 1) * product(part.replace(/[+-]/, '')), 0), Number(predicted), `${formula} ${values}`);
    }
  },

  async 'the first screen: what is wasted, by whom, how much the fix saves, and the formula as a sum in the colours'() {
    const page = await open(browser, file('sample'), { hash: SCENARIO, width: 1400 });
    assert.equal(await text(page, 'h1'), 'fsdp_prefetch holds 1.44 GiB too much: sharding buffers of layers 0 to 7, kept by the communication stream');
    assert.match(await text(page, '.top .lede'), /^stash peaks at 0.50 GiB of active memory where record_stream takes 1.94 GiB: 74 % less, as predicted; price: 1.000x step time/);
    const terms = await page.locator('.term').evaluateAll((all) => all.map((one) => ({ tone: one.className.replace('term ', ''), words: one.innerText.replace(/\s+/g, ' '), bytes: Number(one.querySelector('data').value) })));
    assert.deepEqual(terms.map(({ tone }) => tone), ['kind-sharding-buffers']);
    assert.match(terms[0].words, /^23 B sharding buffers 1.44 GiB$/);
    assert.equal(terms.reduce((sum, { bytes }) => sum + bytes, 0), 2_080_565_248 - 536_920_064);
    const areas = await page.locator('#story .chart').first().evaluate((chart) => chart.areas);
    assert.equal(areas.at(-1).name, 'sharding buffers', 'the waste lies on top');
    assert.equal(await page.locator('#story .chart').first().locator('svg text', { hasText: '1.44 GiB too much' }).count(), 1);
    const { top, bottom } = await page.locator('.differences').first().evaluate((one) => one.getBoundingClientRect().toJSON());
    assert.ok(top > 0 && bottom < 900, `on the first screen: ${top} to ${bottom}`);
    const wide = await open(browser, file('sample'), { hash: '#/fsdp_prefetch' });
    assert.match(await text(wide, '.facts'), /fsdp_prefetch \/ scale/, 'the largest, where no seed ran');
    await whole(page, 'the first screen');
  },

  async 'a moment chosen, a stretch dragged, a kind opened, and the way back'() {
    const page = await open(browser, file('sample'), { hash: SCENARIO });
    const chart = page.locator('#story .chart').first();
    const columns = () => page.locator('#story .chart').first().evaluate(({ areas }) => areas.at(-1).data.length);
    const bars = () => page.locator('#story .icicle .root').allInnerTexts();
    const peaks = await bars();
    assert.deepEqual(peaks, ['record_stream · 1.94 GiB', 'stash · 0.50 GiB']);
    await chart.focus();
    for (let i = 0; i < 15; i += 1) await page.keyboard.press('ArrowLeft');
    assert.match(await text(page, '.alive-at h2'), /chosen moments/);
    assert.notDeepEqual(await bars(), peaks);
    const all = await columns();
    await page.keyboard.press('+');
    await settled(page);
    assert.ok((await columns()) < all, 'zoomed');
    await page.getByRole('button', { name: 'Show the last step' }).click();
    await settled(page);
    assert.equal(await columns(), all);
    await page.getByRole('button', { name: 'Back to the peaks' }).click();
    assert.deepEqual(await bars(), peaks);
    await page.locator('#story .icicle').first().getByRole('button', { name: /^sharding buffers/ }).click();
    assert.match(await text(page, '#story .icicle >> nth=1'), /^stash · 0.\d\d GiB\s+sharding buffers · 0.\d\d GiB\s+layers/);
    await whole(page, 'opened');
  },

  async 'overview: headline, what failed, every scenario with its savings'() {
    const page = await open(browser, file('sample'));
    assert.match(await text(page, 'h1'), /^8 of 1,700 verdicts failed$/);
    assert.equal(await page.title(), 'tidemark: 8 of 1,700 verdicts failed');
    assert.match(await text(page, '.virtual'), /Virtual device/);
    assert.match(await text(page, '#failed'), /memory\/form\/reserved\/backward/);
    const rows = await texts(page, '#scenarios tbody tr');
    assert.equal(rows.length, 9);
    assert.match(
      rows[0],
      /fsdp_prefetch \/ smoke\s+active peak under lagging\s+4 of 874 verdicts failed\s+all 2 controls caught\s+stash\s+1.94 GiB\s+0.50 GiB\s+1.44 GiB \(74 %\)\s+1.000x step time/s,
    );
    const pair = page.locator('#pairs article');
    assert.equal(await pair.count(), 1);
    assert.match(await text(page, '#pairs article'), /^fsdp_prefetch holds 2.94 GiB too much: sharding buffers/);
    const tops = await pair.locator('.chart').evaluateAll((charts) => charts.map(({ areas }) => Math.max(...areas.at(-1).data.map(([, level]) => level))));
    assert.deepEqual(tops, await pair.locator('figcaption data').evaluateAll((all) => all.map(({ value }) => Number(value))), 'baseline beside fix');
    await page.locator('#failed .copy').first().click();
    assert.match(
      await page.evaluate(() => getSelection().toString() || navigator.clipboard.readText()),
      /tidemark run fsdp_prefetch .*--schedule lagging/,
    );
    await whole(page, 'overview');
    await page.getByRole('link', { name: 'Every verdict that failed' }).click();
    await settled(page);
    assert.equal(await text(page, 'h1'), 'All verdicts');
    assert.equal(await page.locator('.assertion').count(), 2);
    await page.goBack();
    assert.match(await text(page, 'h1'), /verdicts failed/);
    await page.locator('#scenarios a').nth(1).click();
    await settled(page);
    assert.match(await text(page, 'h1'), /^fsdp_prefetch/);
    assert.match(page.url(), /trial=2/, 'in the order of the run, in which seed is the second');
    assert.ok(
      await page.locator('h1').evaluate((h1) => h1 === document.activeElement),
      'focus follows',
    );
  },

  async 'result and table without JavaScript'() {
    const context = await browser.newContext({ javaScriptEnabled: false, offline: true });
    const page = await context.newPage();
    await page.goto(pathToFileURL(file('sample')).href);
    assert.match(await text(page, 'h1'), /^8 of 1,700 verdicts failed$/);
    assert.equal(await page.locator('#scenarios tbody tr').count(), 9);
    await context.close();
  },

  async 'the figures of another run beside'() {
    const page = await open(browser, file('beside'));
    assert.match(await text(page, '.base'), /^Compared with run 3f9a1c of .*: 8 of 1,700 verdicts failed. .* [\d,]+ comparisons .*: 0 regressions, \d+ improvements?/);
    const rows = await texts(page, '#scenarios tbody tr');
    assert.match(rows[0], /1.00 GiB\s+−512.0 MiB\s+-50 %$/);
    assert.match(rows[1], /none$/);
    assert.equal(await page.locator('#scenarios .figure data').first().getAttribute('title'), '2,080,565,248 bytes', 'every byte in a tooltip');
    const nights = page.locator('.nights').first();
    const peaks = (await nights.getAttribute('data-peaks')).split(' ').map(Number);
    assert.deepEqual(peaks, [5 << 20, 5 << 20, 6 << 20, 536920064], 'the last night is this run');
    assert.equal(await nights.getAttribute('aria-label'), 'highest peak of any step, the last 4 nights: 5 MiB, 5 MiB, 6 MiB, 512.0 MiB');
    const heights = (await nights.locator('polyline').getAttribute('points')).split(' ').map((point) => Number(point.split(',')[1]));
    assert.ok(heights[0] === heights[1] && heights[1] >= heights[2] && heights[2] > heights[3], 'higher is more');
    assert.ok((await nights.boundingBox()).height > 10);
    const scenario = await open(browser, file('beside'), { hash: '#/fsdp_prefetch?trial=0' });
    assert.match((await texts(scenario, '#overview tbody tr'))[2], /stash[\s\S]*0.50 GiB\s+1.00 GiB\s+−512.0 MiB/);
    await whole(scenario, 'beside');
  },

  async 'a page of tests: each with peak, limit and result, and what was alive where one failed'() {
    const page = await open(browser, file('tests'));
    assert.equal(await text(page, 'h1'), '1 failed, 2 passed, 1 skipped, 1 error');
    assert.deepEqual(await texts(page, 'h2'), ['Tests', 'tests/test_memory.py::test_<b>is_over</b>', 'tests/test_memory.py::test_broke', 'Every claim']);
    const cells = (row) => page.locator('section').filter({ has: page.getByRole('heading', { name: 'Tests', exact: true }) }).locator('tbody tr').nth(row).locator('td').allInnerTexts();
    assert.deepEqual(await cells(0), ['tests/test_memory.py::test_<b>is_over</b>', 'failed', '9 MiB', 'allocated', 'memory/allocated/limit: at most 8 MiB, and 1 more']);
    assert.equal(await page.locator('.tests .limit.over').count(), 1, 'a bar of the limit');
    await page.locator('.tests a').first().click();
    assert.equal(await page.locator(':target h2').innerText(), 'tests/test_memory.py::test_<b>is_over</b>');
    assert.deepEqual(await cells(1), ['tests/test_memory.py::test_broke', 'error', '', '', '']);
    assert.deepEqual(await cells(2), ['tests/test_memory.py::test_fits', 'passed', '6 MiB', 'reserved', 'memory/reserved/limit: at most 8 MiB']);
    assert.equal(await page.locator('.tests .limit').nth(1).getAttribute('title'), '75 % of the limit');
    assert.deepEqual((await cells(3)).slice(0, 2), ['tests/test_memory.py::test_pair, baseline kept', 'ran']);
    assert.deepEqual((await cells(4)).slice(0, 2), ['tests/test_memory.py::test_pair, fixed freed', 'passed']);
    assert.equal((await cells(6))[1], 'skipped: needs two GPUs');
    const words = await text(page);
    assert.match(words, /memory\/allocated\/limit, rank 0: measured 9 MiB \(1 MiB more\), expected at most 8 MiB/);
    assert.deepEqual(await page.locator('section').last().locator('tbody tr').first().locator('[title]').evaluateAll((all) => all.map(({ title, innerText }) => [innerText, title])), [['9 MiB (1 MiB more)', '9,437,184 bytes (+1,048,576)'], ['at most 8 MiB', 'at most 8,388,608 bytes']]);
    assert.match(words, /6 MiB\s+2\s+activations\s+layers\.\*, forward <model>\.py:5/);
    assert.doesNotMatch(words, /No fix ran|No memory over time|No loss/);
    await whole(page, 'tests');
    assert.deepEqual(await accessibility(page, axe), []);
    await page.setViewportSize({ width: 400, height: 900 });
    await settled(page);
    await whole(page, 'tests, 400 px');
  },

  async 'a document: text, tables, lines with a gap'() {
    const page = await open(browser, file('document'));
    assert.equal(await text(page, 'h1'), '2 runs, <b>1</b> stepped');
    assert.equal(await page.title(), 'tidemark history: 2 runs, <b>1</b> stepped');
    assert.match(await text(page, 'section'), /Peaks <\/script>\s+A line of text.\s+Another.\s+memory <i>/);
    assert.equal(await page.locator('figure .chart').count(), 3);
    assert.equal((await paths(page, 'figure >> nth=0 >>')).length, 2);
    const chart = page.locator('figure .chart').first();
    const set = await page.locator('section').first().locator('tbody tr').evaluateAll((rows) => rows.map(({ cells }) => [...cells].map((cell) => cell.className)));
    assert.deepEqual(set, [['', '', 'figure', 'figure'], ['', '', 'figure', 'figure']], 'names and times are no figures');
    assert.match(await readAt(page, chart, 2), /^run 1: base no number, new 1,048,576 bytes/);
    assert.deepEqual(await accessibility(page, axe), []);
    await whole(page, 'document');
    const moments = async () => (await page.locator('figure .chart').nth(2).locator('svg text').allTextContents()).filter((each) => /^\d\d:\d\d:\d\d$/.test(each));
    assert.deepEqual([(await moments()).at(0), (await moments()).at(-1)], ['08:00:00', '08:00:23'], 'moments of one minute are told apart');
    await page.setViewportSize({ width: 400, height: 900 });
    await settled(page);
    assert.equal((await moments()).length, 3);
    assert.deepEqual(await overprints(page), []);
  },

  async 'the contents and the files of a scenario'() {
    const page = await open(browser, file('sample'), { hash: SCENARIO });
    const entries = page.getByRole('navigation', { name: 'Contents' }).getByRole('button');
    assert.deepEqual(await entries.allInnerTexts(), await texts(page, '.memory h2'));
    await entries.filter({ hasText: 'Price' }).click();
    await settled(page);
    const { top, shown } = await page.locator('#cost').evaluate((one) => ({ top: one.getBoundingClientRect().top, shown: innerHeight }));
    assert.ok(top >= 0 && top < shown, `the section is in sight: ${top}`);
    for (const name of ['trace', 'snapshot of rank 0', 'losses']) {
      const href = await page.locator('#files').getByRole('link', { name }).first().getAttribute('href');
      assert.ok(existsSync(join(dirname(file('sample')), href)), href);
    }
  },

  async 'what only a GPU tells'() {
    const page = await open(browser, file('gpu'));
    assert.equal(
      await text(page, '.sharing'),
      'Ranks 0, 1 on one GPU: each with its part of 90 % of the memory.',
    );
    const scenario = (schedule) =>
      open(browser, file('gpu'), { hash: `#/fsdp_prefetch?trial=0&schedule=${schedule}` });
    const timed = await scenario('device');
    const rows = await texts(timed, '#hardware tbody tr');
    assert.match(rows[0], /record_stream\s+4 ms\s+3.9 ms to 4.3 ms\s+1.000×/);
    assert.match(rows[1], /stash\s+3 ms\s+2.9 ms to 3.1 ms\s+0.750×\s+0.500× to 1.250×/);
    const memory = await texts(timed, '#hardware li');
    assert.equal(
      memory[0],
      'rank 0, 500.0 MiB: this process 480.0 MiB, other processes 20.00 MiB, kept by the driver besides 550.0 MiB',
    );
    assert.match(memory[1], /^rank 1, 500.0 MiB: NVML does not say who uses it \(process 7 is not/);
    assert.equal(
      await timed.locator('#hardware li data').first().getAttribute('title'),
      '524,288,000 bytes',
    );
    const lagging = await scenario('lagging');
    assert.match(
      (await texts(lagging, '#hardware li')).at(-1),
      /^record_stream, rank 1: the host took 90 ms, the device 60 ms$/,
    );
    const none = await open(browser, file('sample'), { hash: SCENARIO });
    assert.equal(await none.locator('#hardware, .sharing').count(), 0);
  },

  async 'every chart has its data'() {
    const page = await open(browser, file('sample'), {
      hash: '#/fsdp_prefetch?trial=0&schedule=calibrated',
    });
    assert.equal(await page.locator('.chart').count(), 2);
    for (const [section, lines] of [
      ['#growth', 2],
      ['#loss', 6],
    ])
      assert.ok(
        (await paths(page, section)).length >= lines,
        `${section}: ${(await paths(page, section)).length}`,
      );
    assert.match(await text(page, '#loss .legend >> nth=0'), /stash bit for bit equal/);
    assert.doesNotMatch(await text(page, '#loss .legend >> nth=0'), /unstash_before_wait/, 'a control is drawn where it is asked for');
    for (const box of await page.locator('#loss').getByRole('checkbox').all()) await box.check();
    await settled(page);
    assert.match(await text(page, '#loss .legend >> nth=0'), /unstash_before_wait differs from step 1/);
    assert.ok((await paths(page, '#loss')).length >= 8);
    assert.match(await text(page, '#story'), /No picture of its memory was kept under calibrated/);
    await whole(page, 'scenario');
  },

  async 'schedule, rank, trial and the variant beside the baseline change what is shown'() {
    const page = await open(browser, file('sample'), { hash: SCENARIO });
    await page.getByLabel('Beside the baseline').selectOption('rate_limiter');
    await settled(page);
    assert.match(await text(page, '.top .lede'), /^rate_limiter peaks at/);
    assert.match(page.url(), /fix=rate_limiter/);
    await page.getByLabel('Beside the baseline').selectOption({ label: 'no_reference (control)' });
    await settled(page);
    assert.match(await text(page, '#story .duo'), /no_reference\s*control peaks at/);
    await choose(page, 'Rank of the tables', '2');
    assert.match(page.url(), /rank=2/);
    await choose(page, 'Schedule', 'instant');
    assert.match(await text(page, '#story'), /No picture/);
    await page.getByLabel('Trial').selectOption({ index: 1 });
    await settled(page);
    assert.match(await text(page, '#loss'), /ran in mode shapes/);
    await page.reload();
    await settled(page);
    assert.match(await text(page, '#loss'), /ran in mode shapes/, 'the address keeps the trial');
    await whole(page, 'scenario');
  },

  async 'peaks over a size parameter: a line by formula, points where measured'() {
    const page = await open(browser, file('sample'), { hash: SCENARIO });
    assert.match(
      await text(page, '#growth .legend'),
      /record_stream 2.17 GiB to 5.17 GiB\s+stash 1.09 GiB to 2.59 GiB/,
    );
    const active = await paths(page, '#growth');
    const chart = page.locator('#growth .chart');
    const [, formula, measured] =
      /layers \d+: record_stream, by formula ([\d,]+) bytes, record_stream, measured ([\d,]+) bytes/.exec(
        await readAt(page, chart, 1),
      );
    assert.equal(measured, formula);
    assert.match(await readAt(page, chart, 1), /record_stream, measured –/, 'between the points');
    await choose(page, 'Peak of', 'allocated');
    assert.notDeepEqual(await paths(page, '#growth'), active);
    await page.locator('#growth').getByRole('radio', { name: 'kernel time / launch time' }).check();
    await choose(page, 'Peak of', 'reserved');
    assert.match(await text(page, '#growth .legend'), /record_stream 664.0 MiB to 1.65 GiB/);
    assert.match(await readAt(page, chart, 1), /^kernel time \/ launch time [\d.]+×: record_stream/);
  },

  async 'the story, and what each variant does'() {
    const page = await open(browser, file('sample'), { hash: SCENARIO });
    assert.match(await text(page, '.story'), /^A gathered buffer is kept until/);
    assert.match(await text(page, '.seen'), /example\/training#12: buffers that wait for a stream\s+own: a second reading of it/);
    assert.deepEqual(await page.locator('.seen a').evaluateAll((all) => all.map((a) => [a.textContent, a.href])), [
      ['example/training#12', 'https://github.com/example/training/issues/12'],
    ]);
    await page.getByText('What each variant does').click();
    assert.match(await text(page, '.memory dl.provenance'), /record_stream\s+flat buffers: 1/);
  },

  async 'figures of others stand beside those of the same two variants here'() {
    const page = await open(browser, file('sample'), { hash: SCENARIO });
    assert.match(await text(page, '#published tbody'), /example\/training#12\s+a 7B model, layout not given\s+40 %\s+record_stream → separate_streams\s+100.0 → 60.0 MiB: 40 %/);
  },

  async 'gradients by parameter: the farthest first, the first divergence named'() {
    const page = await open(browser, file('sample'), { hash: SCENARIO });
    assert.match(await text(page, '#gradients'), /4 gradients, each equal to the baseline's, bit for bit/, 'fixes first');
    await page.locator('#gradients select').selectOption({ label: 'unstash_before_wait (control)' });
    assert.match(await text(page, '#gradients'), /differs as it should. First divergence from the baseline: layers.1.weight \[0, 7\], at worst 1,000 ULP/);
    assert.equal(await page.locator('#gradients :is(.first, .off)').count(), 0, 'a control that behaves is not red');
    assert.deepEqual(await texts(page, '.gradients tbody th'), ['layers.3.weight', 'layers.1.weight', 'layers.2.weight', 'layers.0.weight']);
    assert.match(await text(page, '.gradients tbody'), /∞/);
    await page.locator('#gradients select').selectOption({ label: 'stash' });
    assert.match(await text(page, '#gradients'), /4 gradients, each equal to the baseline's/);
    await whole(page, 'gradients');
  },

  async 'the list of assertions: status, search, details, command'() {
    const page = await open(browser, file('sample'), { hash: '#/-/assertions' });
    await page.getByRole('radio', { name: /^failed/ }).check();
    assert.equal(await page.locator('.assertion.fail').count(), 2);
    assert.equal(await page.locator('.assertion').count(), 2);
    await page.getByRole('radio', { name: /^all/ }).check();
    await page.getByRole('searchbox').fill('LAGGING parity stash');
    assert.equal(await page.locator('.assertion').count(), 2);
    await page.getByRole('searchbox').fill('no such thing');
    assert.equal(await text(page, '[role=status]'), 'No verdict matches.');
    await page.getByRole('searchbox').fill('saving/active/backward stash lagging math');
    await page.locator('.toggle').first().click();
    const details = await text(page, '.details >> visible=true');
    assert.match(details, /\(2\*L\*k \+ L - 1\)\*U[\s\S]*L = 8[\s\S]*Run it again/);
    const command = await text(page, '.details .command code >> visible=true');
    assert.match(command, /tidemark run fsdp_prefetch .*--schedule lagging/);
    await page.locator('.copy >> visible=true').first().click();
    assert.equal(
      await page.evaluate(() => getSelection().toString() || navigator.clipboard.readText()),
      command,
    );
    assert.deepEqual(page.wrong, []);
  },
});
