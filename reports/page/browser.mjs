// A page of report.html in headless Chromium, as a test needs it: without a network, and with everything that went wrong.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const SKIPPED = 77;

function skip(why) {
  console.log(`skipped: ${why}`);
  process.exit(SKIPPED);
}

/** playwright-core, axe-core and Chromium, or the end of the test with a reason. */
export async function launch(tools) {
  const require = createRequire(`${tools}/`);
  let chromium, axe;
  try {
    ({ chromium } = require('playwright-core'));
    axe = require('axe-core').source;
  } catch {
    skip(`no playwright-core and axe-core in ${tools}: ci/setup browser brings them`);
  }
  const paths = ['chromium', 'chromium-browser', 'google-chrome'].flatMap((name) =>
    process.env.PATH.split(':').map((folder) => `${folder}/${name}`),
  );
  const executablePath = paths.find(existsSync);
  if (!executablePath) skip('no Chromium on the PATH: ci/setup browser brings it');
  const browser = await chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-gpu'],
  });
  return { browser, axe };
}

/** The one page of all tests: a new one takes as long as the report that it is to show. */
async function pageOf(browser) {
  const [view] = browser.contexts();
  if (view) return view.pages()[0];
  const page = await (
    await browser.newContext({
      reducedMotion: 'reduce',
      offline: true,
      permissions: ['clipboard-read', 'clipboard-write'],
    })
  ).newPage();
  page.setDefaultTimeout(60_000);
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type()))
      page.wrong.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => page.wrong.push(`exception: ${error.message}`));
  page.on('dialog', (dialog) => {
    page.wrong.push('a dialog opened');
    dialog.dismiss();
  });
  page.on('request', (request) => {
    const url = request.url();
    if (url.split('#')[0] !== page.address && !url.startsWith('data:') && !url.startsWith('blob:'))
      page.wrong.push(`asked for ${url}`);
  });
  return page;
}

/** Opens a report anew; `wrong` of the page collects console errors, exceptions and requests to anything but the file. */
export async function open(browser, file, { hash = '', width = 1280, dark = false } = {}) {
  const page = await pageOf(browser);
  page.wrong = [];
  page.address = 'about:blank';
  await page.goto(page.address); // the same file with another hash would not be opened anew
  await page.setViewportSize({ width, height: 900 });
  await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' });
  page.address = pathToFileURL(file).href;
  await page.goto(page.address + hash);
  await page.waitForSelector('main[data-shown], .empty');
  await settled(page);
  return page;
}

/** Until every chart that is there has been drawn. */
export async function settled(page) {
  await page.waitForFunction(() =>
    [...document.querySelectorAll('.chart')].every((chart) => chart.dataset.series !== undefined),
  );
  // A chart draws in the frame after the one that gives it another width.
  await page.evaluate(
    () =>
      new Promise((done) =>
        requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done))),
      ),
  );
}

/** Violations of the page as it stands, one line each. */
export async function accessibility(page, axe) {
  await page.evaluate(axe); // not through the page, whose policy runs no script but its own
  return page.evaluate(async () => {
    const { violations } = await window.axe.run(document, {
      resultTypes: ['violations'],
      preload: false,
    });
    return violations.map(
      ({ id, nodes }) =>
        `${id}: ${nodes
          .slice(0, 3)
          .map((node) => node.target.join(' '))
          .join(' | ')}`,
    );
  });
}
