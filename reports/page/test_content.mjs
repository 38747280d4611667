// What the page shows, and what its controls change.
import assert from 'node:assert/strict';
import { open, settled } from './browser.mjs';
import { choose, paths, text, texts, whole } from './looking.mjs';
import { axisOf, unitFor } from './format.js';
import { typeOf, ulps } from './ulp.js';

const SCENARIO = '#/fsdp_prefetch?trial=0&schedule=lagging';

export const tests = ({ browser, file }) => ({
  async 'distances in units of the last place, round scales'() {
    assert.equal(typeOf([1, -0.5, 0]), 'bfloat16');
    assert.equal(typeOf([1, Math.fround(0.1)]), 'float32');
    assert.equal(typeOf([1, 0.1]), 'float64');
    assert.equal(ulps(1, 1 + 2 ** -23, 'float32'), 1);
    assert.equal(ulps(1, 1 - 2 ** -24, 'float32'), 1);
    assert.equal(ulps(1, 1 + 2 ** -23, 'float64'), 2 ** 29);
    assert.equal(ulps(1, 1 + 2 ** -7, 'bfloat16'), 1);
    assert.equal(ulps(-0, 0, 'float64'), 0);
    assert.equal(ulps(-(2 ** -149), 2 ** -149, 'float32'), 2); // the least numbers beside zero
    assert.equal(ulps(-1, 1, 'float32'), 2 * 0x3f800000);
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

  async 'overview: headline, every scenario and variant, savings'() {
    const page = await open(browser, file('sample'));
    assert.match(await text(page, 'h1'), /^8 of 1,692 verdicts failed$/);
    assert.match(await text(page, '.virtual'), /Virtual device/);
    assert.match(await text(page, '#failed'), /memory\/form\/reserved\/backward/);
    assert.match(
      await text(page, '.card'),
      /record_stream.*baseline\s+3.81 GiB\s+stash.*fixed\s+0.88 GiB\s+2.94 GiB \(77 %\) of the step’s active peak saved, not judged: scale, lagging; price: 1.000x step time/s,
    );
    const rows = await texts(page, '#verdicts tbody tr');
    assert.equal(rows.length, 16);
    assert.match(
      rows[2],
      /stash\s+fixed\s+52\s+52\s+52\s+1.94 → 0.50 GiB\s+1.44 GiB \(74 %\), not judged\s+1.000x step time/s,
    );
    assert.match(await text(page, '#verdicts'), /record_stream under lagging: the capacity shaped this run/);
    await whole(page, 'overview');
    await page
      .getByRole('button', { name: 'separate_streams under lagging, 36 passed, 4 failed' })
      .first()
      .click();
    await settled(page);
    assert.equal(await text(page, 'h1'), 'All verdicts');
    assert.deepEqual(
      [...new Set(await texts(page, '.assertion td:nth-child(2)'))],
      ['separate_streams'],
    );
    assert.equal(await page.locator('.assertion').count(), 1);
    await page.goBack();
    assert.match(await text(page, 'h1'), /verdicts failed/);
    await page.locator('.card a').first().click();
    await settled(page);
    assert.equal(await text(page, 'h1'), 'fsdp_prefetch');
    assert.ok(
      await page.locator('h1').evaluate((h1) => h1 === document.activeElement),
      'focus follows',
    );
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
    assert.match(memory[1], /^rank 1, 500.0 MiB: whose it is NVML does not tell \(process 7 is not/);
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
    assert.equal(await page.locator('.chart').count(), 5);
    for (const [section, lines] of [
      ['#time', 6],
      ['#run-ahead', 8],
      ['#growth', 2],
      ['#loss', 11],
    ])
      assert.ok(
        (await paths(page, section)).length >= lines,
        `${section}: ${(await paths(page, section)).length}`,
      );
    const names = await page.locator('#cost .chart svg').textContent();
    for (const name of ['record_stream', 'stash, per_collective', 'rate_limiter'])
      assert.ok(names.includes(name), `#cost: ${name} in ${names}`);
    assert.match(await text(page, '#loss .legend'), /stash bit for bit equal/);
    assert.doesNotMatch(await text(page, '#loss .legend'), /unstash_before_wait/, 'a control is drawn where it is asked for');
    for (const box of await page.locator('#loss').getByRole('checkbox').all()) await box.check();
    await settled(page);
    assert.match(await text(page, '#loss .legend'), /unstash_before_wait differs from step 1/);
    assert.ok((await paths(page, '#loss')).length >= 15);
    assert.match(
      await text(page, '.top .lede'),
      /^stash peaks at 0.88 GiB of active memory where record_stream takes 3.81 GiB: 77 % less \(scale, .*price: 1.000x step time/,
    );
    await whole(page, 'scenario');
  },

  async 'statistic, schedule, rank and variants change what is shown'() {
    const page = await open(browser, file('sample'), { hash: SCENARIO });
    const all = await paths(page, '#time');
    assert.match(
      await text(page, '#time .legend'),
      /record_stream[\s\S]*active 1,984.0 MiB[\s\S]*stash[\s\S]*active 512.0 MiB/,
    );
    await choose(page, 'Statistic', 'reserved');
    assert.doesNotMatch(await text(page, '#time .legend'), /active/);
    assert.notDeepEqual(await paths(page, '#time'), all);
    await choose(page, 'Statistic', 'all three');
    assert.deepEqual(await paths(page, '#time'), all, 'the same picture again');
    await page.locator('#time').getByRole('checkbox', { name: 'no_reference (control)' }).check();
    await settled(page);
    assert.ok((await paths(page, '#time')).length > all.length);
    await choose(page, 'Rank', '2');
    assert.match(await text(page, '#time'), /record_stream on rank 2/);
    assert.match(page.url(), /rank=2/);
    await choose(page, 'Schedule', 'instant');
    assert.match(await text(page, '#time .legend'), /record_stream[\s\S]*active 512.0 MiB/);
    await page.getByLabel('Trial').selectOption({ index: 1 });
    await settled(page);
    assert.match(await text(page, '#loss'), /ran in shapes/);
    await page.reload();
    await settled(page);
    assert.match(await text(page, '#loss'), /ran in shapes/, 'the address keeps the trial');
    await whole(page, 'scenario');
  },

  async 'peaks over a size parameter: a line by formula, points where measured'() {
    const page = await open(browser, file('sample'), { hash: SCENARIO });
    assert.match(
      await text(page, '#growth .legend'),
      /record_stream 2,224.0 to 5,296.0 MiB\s+stash 1,112.0 to 2,648.0 MiB/,
    );
    const active = await paths(page, '#growth');
    const chart = page.locator('#growth .chart');
    const readAt = async (steps) => {
      await chart.focus();
      for (let i = 0; i < steps; i += 1) await page.keyboard.press('ArrowRight');
      return chart.locator('[aria-live]').innerText();
    };
    const [, formula, measured] =
      /layers \d+: record_stream, by formula ([\d,]+) bytes, record_stream, measured ([\d,]+) bytes/.exec(
        await readAt(1),
      );
    assert.equal(measured, formula);
    assert.match(await readAt(1), /record_stream, measured –/, 'between the points');
    await page.locator('#growth').getByRole('radio', { name: 'allocated' }).check();
    await settled(page);
    assert.notDeepEqual(await paths(page, '#growth'), active);
  },

  async 'the keyboard reads and zooms all panels in step'() {
    const page = await open(browser, file('sample'), { hash: SCENARIO });
    const chart = page.locator('#time .chart');
    await chart.focus();
    for (let i = 0; i < 3; i += 1) await page.keyboard.press('ArrowRight');
    const read = await chart.locator('[aria-live]').innerText();
    assert.match(
      read,
      /^at [\d.]+ \S+: record_stream allocated [\d,]+ bytes, stash allocated [\d,]+ bytes, record_stream active/,
    );
    assert.equal(await page.locator('.reading tr').count(), 3);
    await page.keyboard.press('Escape');
    const before = await paths(page, '#time');
    await page.keyboard.press('+');
    await settled(page);
    const after = await paths(page, '#time');
    assert.equal(
      after.filter((d) => before.includes(d)).length,
      0,
      'every line of every panel moved',
    );
    await page.keyboard.press('0');
    await settled(page);
    assert.deepEqual(await paths(page, '#time'), before);
    await page
      .getByRole('button', { name: /^allocated/ })
      .first()
      .click();
    assert.match((await texts(page, '.alive'))[0], /Peak of record_stream[\s\S]*unsharded/);
    // A peak that lasts no time, because a free follows at the same moment, is read all the same.
    for (const button of await page.locator('.peak').all()) {
      await button.click();
      const [, statistic, peak] = (await button.getAttribute('title')).match(
        /of (\w+): ([\d,]+) bytes/,
      );
      assert.ok((await text(page, '.reading')).includes(peak), `${statistic} reads ${peak}`);
    }
    assert.deepEqual(page.wrong, []);
  },

  async 'what was alive at the peak: categories, the ten largest blocks, what is pending'() {
    const page = await open(browser, file('sample'), { hash: SCENARIO });
    assert.match(await text(page, '.story'), /^A gathered buffer is kept until/);
    await page.getByText('What each variant does').click();
    assert.match(await text(page, '.top dl'), /record_stream\s+flat buffers: 1/);
    await page
      .getByRole('button', { name: /^allocated/ })
      .first()
      .click();
    const [first] = await texts(page, '.alive');
    assert.match(first, /Peak of record_stream[\s\S]*unsharded[\s\S]*largest blocks/);
    assert.match(first, /64.00 MiB\s+communication\s+aten::empty\s+Float \[16777213\]\s+freed, pending/);
    await page.locator('.blocks summary').click();
    const tables = page.locator('.blocks table');
    assert.equal(await tables.count(), 8, 'a table a variant');
    assert.equal(await tables.nth(0).locator('tbody tr').count(), 8);
    assert.equal(await tables.nth(0).locator('.pending').count(), 7);
    assert.equal(await tables.nth(2).locator('.pending').count(), 0, 'a stash leaves none');
    await whole(page, 'blocks');
  },

  async 'segments: where the fragmentation is, and what waits'() {
    const page = await open(browser, file('sample'), { hash: SCENARIO });
    const figures = () => text(page, '#segments .states');
    const count = (state) => page.locator(`#segments rect.${state}`).count();
    assert.match(await figures(), /reserved 512.0 MiB\s+held by tensors 64.0 MiB\s+freed, awaiting a stream 448.0 MiB/);
    assert.equal(await page.locator('#segments li:has(svg)').count(), 2);
    assert.equal(await count('pending'), 7);
    assert.match(
      await page.locator('#segments svg').nth(1).getAttribute('aria-label'),
      /256.0 MiB, large pool, stream 1: 64.00 MiB held by tensors, 192.0 MiB freed/,
    );
    await choose(page, 'Moment', 'end');
    assert.match(await figures(), /held by tensors 0 bytes|held by tensors 0.0 MiB/);
    assert.match(await figures(), /free in empty segments 512.0 MiB/);
    await choose(page, 'Moment', 'peak of allocated');
    await page.locator('#segments select').selectOption({ label: 'stash' });
    assert.equal(await count('pending'), 0);
    assert.match(await figures(), /free between blocks in use \(3 holes\) 192.0 MiB/);
    assert.match(await text(page, '#segments'), /stash on rank 3/); // the worst
    await choose(page, 'Rank', '1');
    assert.match(await text(page, '#segments'), /record_stream on rank 1/);
    await whole(page, 'segments');
  },

  async 'streams: spans, waits, run-ahead, races between their two accesses'() {
    const page = await open(browser, file('sample'), { hash: SCENARIO });
    const gantt = page.locator('.gantt');
    const kinds = (kind) => page.locator(`.gantt rect.${kind}`).count();
    assert.deepEqual(await texts(page, '.gantt-lanes > div'), ['host', 'default stream', 'stream 1']);
    assert.equal(await kinds('collective'), 8);
    assert.equal(await kinds('operator'), 8);
    assert.ok((await kinds('wait')) >= 2);
    assert.equal(await page.locator('.gantt .issued').count(), 1);
    assert.match(await text(page, '#streams'), /host runs at most [\d.]+ µs ahead of the device and waits for it 1 time/);
    assert.equal(await page.locator('.race-line').count(), 0);
    await gantt.focus();
    await page.keyboard.press('ArrowRight');
    assert.match(await text(page, '.reading-line'), /^stream 1: ncclDevKernel_AllGather, collective, 300 ns from 0 ns, enqueued 0 ns ahead$/);
    assert.equal(await page.locator('.gantt rect.read').count(), 1);
    const wide = await page.locator('.gantt rect.collective').first().getAttribute('width');
    await page.keyboard.press('+');
    assert.ok(Number(await page.locator('.gantt rect.collective').first().getAttribute('width')) > 1.5 * Number(wide));
    await page.keyboard.press('0');
    assert.equal(await page.locator('.gantt rect.collective').first().getAttribute('width'), wide);
    await page.locator('#streams select').selectOption({ label: 'no_reference (races)' });
    assert.equal(await page.locator('.race-line').count(), 1);
    assert.match(await text(page, '.race-note'), /1 race, each drawn between its two accesses/);
    // From the middle of the collective on its lane to the middle of the operator on its own.
    const line = await page.locator('.race-line line').evaluate((one) => ['x1', 'y1', 'x2', 'y2'].map((name) => Number(one.getAttribute(name))));
    const box = (kind) =>
      page.locator(`.gantt rect.${kind}`).last().evaluate((one) => ['x', 'width', 'y', 'height'].map((name) => Number(one.getAttribute(name))));
    for (const [kind, x, y] of [['collective', line[0], line[1]], ['operator', line[2], line[3]]]) {
      const [left, width, top, height] = await box(kind);
      assert.ok(x > left && x < left + width && y > top && y < top + height, `the race meets its ${kind}`);
    }
    await whole(page, 'streams');
  },

  async 'gradients by parameter: sorted by any error, the first divergence linked'() {
    const page = await open(browser, file('sample'), { hash: SCENARIO });
    const names = () => texts(page, '.gradients tbody th');
    assert.match(await text(page, '#gradients'), /4 gradients, each equal to the baseline's, bit for bit/, 'fixes first');
    await page.locator('#gradients select').selectOption({ label: 'unstash_before_wait (control)' });
    assert.match(await text(page, '#gradients'), /differs as it should. First divergence from the baseline: layers.1.weight \[0, 7\], at worst 1,000 ULP/);
    assert.equal(await page.locator('#gradients :is(.first, .off)').count(), 0, 'a control that behaves is not red');
    assert.deepEqual(await names(), [0, 1, 2, 3].map((i) => `layers.${i}.weight`));
    const sort = (name) => page.getByRole('button', { name: `${name}: sort gradients` }).click();
    await sort('ULP to the baseline');
    assert.deepEqual(await names(), ['layers.3.weight', 'layers.1.weight', 'layers.2.weight', 'layers.0.weight']);
    await sort('ULP to the baseline');
    assert.equal((await names())[0], 'layers.0.weight');
    await sort('absolute to the reference');
    assert.deepEqual((await names())[0], 'layers.3.weight');
    await page.locator('#gradients .link').click();
    assert.equal(await page.evaluate(() => document.activeElement.querySelector('th').textContent), 'layers.1.weight');
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
