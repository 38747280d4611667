// page_test.mjs TOOLS SAMPLE_REPORTS OUT [PART]: the page of made-up reports in headless Chromium with the network cut. Every chart
// has its data, every control changes what it should, names stay text, nothing is wrong on the console, axe-core finds
// nothing, a huge report answers in time. PART: tests with it in their names. Pictures and a print stay in OUT. Exits with 77 where there is no browser.
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { launch } from './browser.mjs';
import * as content from './test_content.mjs';
import * as fit from './test_fit.mjs';
import * as limits from './test_limits.mjs';
import * as memory from './test_memory.mjs';
import * as opened from './test_open.mjs';

const [tools, samples, out, part = ''] = process.argv.slice(2);
const { browser, axe } = await launch(tools);
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
execFileSync(samples, [`${out}/reports`, 'huge']);
const given = { browser, axe, out, file: (name) => `${out}/reports/${name}/report.html` };
const all = { ...content.tests(given), ...memory.tests(given), ...fit.tests(given), ...limits.tests(given), ...opened.tests(given) };
const tests = Object.fromEntries(Object.entries(all).filter(([name]) => name.includes(part)));

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  const start = Date.now();
  try {
    await test();
    console.log(`ok      ${name} (${Date.now() - start} ms)`);
  } catch (error) {
    failed += 1;
    console.log(
      `FAILED  ${name}\n${error.message}\n${error.stack.split('\n').find((line) => line.includes('test_')) ?? ''}`,
    );
  }
}
await browser.close();
rmSync(`${out}/reports`, { recursive: true });
const passed = Object.keys(tests).length - failed;
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
