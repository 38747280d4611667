// page_test.mjs TOOLS SAMPLE_REPORTS OUT: the page of made-up reports in headless Chromium with the network cut. Every chart
// has its data, every control changes what it should, names stay text, nothing is wrong on the console, axe-core finds
// nothing, a huge report answers in time. Pictures and a print stay in OUT. Exits with 77 where there is no browser.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { accessibility, launch, open, settled } from './browser.mjs';

const [tools, samples, out] = process.argv.slice(2);
const { browser, axe } = await launch(tools);
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
execFileSync(samples, [`${out}/reports`]);
const file = (name) => `${out}/reports/${name}/report.html`;
const SCENARIO = '#/fsdp_prefetch?trial=0&schedule=lagging';

const text = (page, selector = 'body') => page.locator(selector).innerText();
const texts = (page, selector) => page.locator(selector).allInnerTexts();
const choose = async (page, legend, option) => {
  await page
    .getByRole('group', { name: legend })
    .first()
    .getByRole('radio', { name: option })
    .check();
  await settled(page);
};
/** The lines of a chart, of all its panels. */
const paths = (page, section) =>
  page
    .locator(`${section} .chart svg path:is([stroke-width="1.8"], [stroke-width="1.4"])`)
    .evaluateAll((all) =>
      all.map((path) => path.getAttribute('d') ?? '').filter((d) => d.length > 20),
    );

async function whole(page, what) {
  const words = await text(page);
  assert.doesNotMatch(words, /\b(undefined|NaN|\[object)/, `${what}: a figure is missing`);
  const wide = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  assert.ok(wide <= 0, `${what}: ${wide} pixels wider than the window`);
  assert.deepEqual(page.wrong, [], `${what}: something went wrong`);
}

const tests = {
  async 'overview: headline, every scenario and variant, savings'() {
    const page = await open(browser, file('sample'));
    assert.match(await text(page, 'h1'), /^8 of 1,692 verdicts failed$/);
    assert.match(await text(page, '.virtual'), /Virtual device/);
    assert.match(await text(page, '#failed'), /memory\/reserved\/backward/);
    assert.match(
      await text(page, '.card'),
      /record_stream.*baseline\s+3,940.0 MiB\s+stash.*fixed\s+920.0 MiB/s,
    );
    const rows = await texts(page, '#verdicts tbody tr');
    assert.equal(rows.length, 16);
    assert.match(
      rows[2],
      /stash\s+fixed\s+52\s+52\s+52\s+1,480.0 MiB\s+1,480.0 MiB.*reserved\/backward, lagging/s,
    );
    await whole(page, 'overview');
    await page
      .getByRole('button', { name: 'separate_streams under lagging, 36 passed, 4 failed' })
      .first()
      .click();
    await settled(page);
    assert.equal(await text(page, 'h1'), 'All assertions');
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

  async 'every chart has its data'() {
    const page = await open(browser, file('sample'), {
      hash: '#/fsdp_prefetch?trial=0&schedule=calibrated',
    });
    assert.equal(await page.locator('.chart').count(), 5);
    for (const [section, lines] of [
      ['#time', 6],
      ['#run-ahead', 8],
      ['#loss', 15],
    ])
      assert.ok(
        (await paths(page, section)).length >= lines,
        `${section}: ${(await paths(page, section)).length}`,
      );
    const names = await page.locator('#cost .chart svg').textContent();
    for (const name of ['record_stream', 'stash, per_collective', 'rate_limiter'])
      assert.ok(names.includes(name), `#cost: ${name} in ${names}`);
    assert.match(
      await text(page, '#loss'),
      /stash bit for bit equal[\s\S]*unstash_before_wait differs from step 1/,
    );
    assert.match(
      await text(page, '.top .lede'),
      /^stash peaks at 920.0 MiB of reserved memory where record_stream takes 3,940.0 MiB: 77 % less/,
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
    await page.getByLabel('no_reference (control)').check();
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
      const [, statistic, peak] = (await button.getAttribute('title')).match(/of (\w+): ([\d,]+) bytes/);
      assert.ok((await text(page, '.reading')).includes(peak), `${statistic} reads ${peak}`);
    }
    assert.deepEqual(page.wrong, []);
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

  async 'small, passing and empty reports'() {
    let page = await open(browser, file('small'));
    const words = await text(page);
    assert.match(words, /1 of 6 verdicts failed/);
    assert.match(words, /6,291,456 bytes[\s\S]*\+1,048,576/);
    assert.match(words, /S \+ 2\*U[\s\S]*U = 1,048,576/);
    assert.match(words, /size seed runs in shapes only/);
    const scenario = await open(browser, file('small'), { hash: '#/fsdp_prefetch' });
    const approved = fileURLToPath(new URL('../approved/page.txt', import.meta.url));
    const rendered = `${words}\n\n${'='.repeat(80)}\n\n${await text(scenario)}\n`;
    if (process.env.TIDEMARK_APPROVE) writeFileSync(approved, rendered);
    assert.equal(
      rendered,
      readFileSync(approved, 'utf8'),
      'as approved (wanted? TIDEMARK_APPROVE=1 writes it)',
    );
    page = await open(browser, file('passing'));
    assert.equal(await text(page, 'h1'), 'All 3 verdicts passed');
    await whole(page, 'passing');
    page = await open(browser, file('empty'));
    assert.equal(await text(page, 'h1'), 'Nothing ran');
    await whole(page, 'empty');
  },

  async 'hostile names stay text'() {
    const page = await open(browser, file('hostile'));
    for (const hash of [
      '',
      '#/-/assertions',
      '#/%',
      '#/__proto__?rank=__proto__',
      '#/<img src=x onerror=alert(1)>',
    ]) {
      await page.evaluate((to) => {
        location.hash = to;
      }, hash);
      await settled(page);
      assert.equal(await page.locator('img').count(), 0, hash);
      assert.match(await page.title(), /^tidemark/);
      await whole(page, `hostile ${hash}`);
    }
    await page.evaluate(() => {
      location.hash = '';
    });
    await page.locator('.card a').first().click();
    await settled(page);
    assert.match(await text(page, 'h1'), /<\/script><img src=x onerror=/);
    for (const chart of await page.locator('.chart').all()) {
      await chart.focus();
      await page.keyboard.press('ArrowRight');
      await page.keyboard.press('ArrowRight');
      await chart.hover();
    }
    assert.ok((await page.locator('.reading').count()) > 0, 'a reading was shown');
    assert.equal(await page.locator('img').count(), 0);
    await whole(page, 'hostile scenario');
  },

  async 'a page whose data is cut off says so'() {
    const cut = `${out}/cut.html`;
    writeFileSync(
      cut,
      readFileSync(file('small'), 'utf8').replace(/(id="data">.{400})[^<]*/s, '$1'),
    );
    const page = await open(browser, cut);
    assert.match(await text(page), /This report cannot be shown/);
  },

  async 'a huge report opens and answers in time'() {
    const page = await open(browser, file('huge'), { hash: '#/fsdp_prefetch' });
    assert.ok(readFileSync(file('huge')).length < 8e6, 'under 8 MB');
    const slow = await page.evaluate(async () => {
      const took = [];
      const time = async (name, act) => {
        let best = Infinity;
        for (let i = 0; i < 3; i += 1) {
          const start = performance.now();
          act(i);
          await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); // drawn, too
          best = Math.min(best, performance.now() - start);
          await new Promise((done) => setTimeout(done, 60));
        }
        took.push([name, best]);
      };
      const radios = (legend) =>
        [...document.querySelectorAll('fieldset')]
          .find((set) => set.querySelector('legend')?.textContent === legend)
          .querySelectorAll('input');
      await time('rank', (i) => radios('Rank')[i + 1].click());
      await time('statistic', (i) =>
        [...document.querySelectorAll('#time input[type=radio]')][i + 1].click(),
      );
      const key = (name) =>
        document
          .querySelector('#time .chart')
          .dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
      await time('read', () => key('ArrowRight'));
      await time('zoom', () => key('+'));
      location.hash = '#/-/assertions';
      await new Promise((done) => setTimeout(done, 500));
      const search = document.querySelector('input[type=search]');
      await time('search', (i) => {
        search.value = `memory ${i}`;
        search.dispatchEvent(new Event('input'));
      });
      return took;
    });
    console.log(`    ${slow.map(([name, ms]) => `${name} ${ms.toFixed(0)} ms`).join(', ')}`);
    for (const [name, ms] of slow) assert.ok(ms < 200, `${name} took ${ms.toFixed(0)} ms`);
    assert.match(await text(page, '.facts'), /only in report.json/);
    assert.deepEqual(page.wrong, []);
  },

  async 'nothing for axe-core, pictures, print'() {
    for (const [name, hash] of [
      ['overview', ''],
      ['scenario', '#/fsdp_prefetch?trial=0&schedule=calibrated'],
      ['assertions', '#/-/assertions'],
    ]) {
      const page = await open(browser, file('sample'), { hash });
      const sizes = [
        [1280, 'light', name !== 'assertions'],
        [1280, 'dark', false],
        [400, 'light', false],
        [400, 'dark', name !== 'overview'],
      ];
      for (const [width, colorScheme, judged] of name === 'assertions' ? sizes.slice(3) : sizes) {
        await page.setViewportSize({ width, height: 900 });
        await page.emulateMedia({ colorScheme });
        await settled(page);
        const what = `${name}-${width}-${colorScheme}`;
        await page.screenshot({ path: `${out}/${what}.png`, fullPage: true });
        await whole(page, what);
        if (judged) assert.deepEqual(await accessibility(page, axe), [], what);
      }
      const pdf = await page.pdf({ path: `${out}/${name}.pdf`, printBackground: true });
      assert.ok(pdf.length > 20_000, `${name}: printed`);
      await page.context().close();
    }
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  const start = Date.now();
  try {
    await test();
    console.log(`ok      ${name} (${Date.now() - start} ms)`);
  } catch (error) {
    failed += 1;
    console.log(
      `FAILED  ${name}\n${error.message}\n${error.stack.split('\n').find((line) => line.includes('page_test')) ?? ''}`,
    );
  }
  for (const view of browser.contexts()) await view.close();
}
await browser.close();
rmSync(`${out}/reports`, { recursive: true });
const passed = Object.keys(tests).length - failed;
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
