// page_test.mjs TOOLS OUT FILE[,FILE...] [PART]: the page of the made-up reports in OUT/reports, in headless Chromium with the network cut, by
// the tests of test_FILE.mjs. Every chart has its data, every control changes what it should, names stay text, nothing is wrong on the console,
// axe-core finds nothing, a huge report answers in time. PART: tests with it in their names. Pictures and a print stay in OUT. Exits with 77
// where there is no browser.
import { launch } from './browser.mjs';

const [tools, out, of, part = ''] = process.argv.slice(2);
const { browser, axe } = await launch(tools);
const tests = [];
for (const name of of.split(',')) {
  const all = (await import(`./test_${name}.mjs`)).tests({ browser, axe, out, file: (report) => `${out}/reports/${report}/report.html` });
  tests.push(...Object.entries(all).filter(([test]) => test.includes(part)));
}

let failed = 0;
for (const [name, test] of tests) {
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
const passed = tests.length - failed;
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
