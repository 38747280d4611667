// pictures.mjs TOOLS REPORT_HTML OUT: the pictures of the README, from any report that has fsdp_prefetch, or of a program or of a fit.
//
//     .deps/page/node/bin/node reports/page/pictures.mjs .deps/page tidemark-out/latest/report.html reports
//     .deps/page/node/bin/node reports/page/pictures.mjs .deps/page DIR/report.html reports    # DIR: of tidemark exec or fit --report
import { fileURLToPath } from 'node:url';
import { resolve } from 'node:path';
import { launch, open } from './browser.mjs';

/** Of a program program.png, of a fit fit.png; else overview.png, and the first screen of fsdp_prefetch, memory.png. */
export async function pictures(browser, report, out) {
  const width = 1160;
  let page = await open(browser, report, { width });
  if ((await page.locator('#memory').count()) > 0) {
    const { y, height } = await page.locator('.icicle').boundingBox();
    await page.screenshot({ path: `${out}/program.png`, fullPage: true, clip: { x: 0, y: 0, width, height: y + height + 8 } });
    return;
  }
  if ((await page.locator('.stacks').count()) > 0) {
    const { y, height } = await page.locator('figure').first().boundingBox();
    await page.screenshot({ path: `${out}/fit.png`, fullPage: true, clip: { x: 0, y: 0, width, height: y + height } });
    return;
  }
  await page.screenshot({ path: `${out}/overview.png`, clip: { x: 0, y: 0, width, height: 700 } });
  page = await open(browser, report, { width: 1400, hash: '#/fsdp_prefetch' });
  await page.screenshot({ path: `${out}/memory.png` });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [tools, report, out] = process.argv.slice(2);
  if (!out) {
    console.error('usage: pictures.mjs TOOLS REPORT_HTML OUT');
    process.exit(2);
  }
  const { browser } = await launch(resolve(tools));
  await pictures(browser, resolve(report), out);
  await browser.close();
}
