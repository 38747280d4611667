// The page that explains snapshots in a browser: the page of a dropped file is that of `tidemark snapshot show --format html`, byte for byte. The
// recordings of GPUs, the forms of torch's versions, several at once, and files that are none. It is built by itself (ci/cmake/wasm.cmake).
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { accessibility } from './browser.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDERS = [`${ROOT}/reports/measured`, `${ROOT}/reports/measured/h100-80g`, `${ROOT}/harness/memory/testing/forms`];

/** The page with a network that is cut, and all that it asks for. */
async function opened(browser, built) {
  const view = await browser.newContext({ offline: true });
  const page = await view.newPage();
  page.asked = [];
  page.on('request', (request) => /^(file|blob|data):/.test(request.url()) || page.asked.push(request.url()));
  page.on('pageerror', (error) => page.asked.push(`exception: ${error.message}`));
  await page.goto(pathToFileURL(built).href);
  return page;
}

/** What the page says once it has read the files: its page's text, or a line. */
async function dropped(page, files) {
  await page.locator('input').setInputFiles([]);
  await page.locator('input').setInputFiles(files);
  await page.waitForFunction(() => !/^(Reading|Nothing)/.test(document.querySelector('[role="status"]').textContent), null, { timeout: 300_000 });
  return page.evaluate(() => ({ said: document.querySelector('[role="status"]').textContent, text: shown }));
}

export const tests = ({ browser, axe, out }) => {
  const built = `${out}/../../wasm/explain.html`, tidemark = `${out}/../tidemark`;
  if (!existsSync(built)) {
    console.log(`skipped: there is no ${built} (ci/cmake/wasm.cmake says how it is built)`);
    process.exit(77);
  }
  return {
    async 'a dropped file is the page that the command writes'() {
      const page = await opened(browser, built);
      const all = FOLDERS.flatMap((one) => readdirSync(one).filter((name) => /\.(json|pickle)\.gz$/.test(name)).map((name) => `${one}/${name}`));
      assert.ok(all.length > 20, `${all.length} files`);
      for (const file of all) {
        let expected;
        try {
          expected = execFileSync(tidemark, ['snapshot', 'show', basename(file), '--format', 'html'], { cwd: dirname(file), stdio: 'pipe', maxBuffer: 1 << 28 }).toString();
        } catch (error) {
          expected = error.stderr.toString();
        }
        const start = Date.now();
        const { said, text } = await dropped(page, [file]);
        console.log(`        ${basename(file)}: ${text?.length ?? said}, ${Date.now() - start} ms`);
        if (text === undefined) assert.equal(`error: ${said}\n`, expected);
        else assert.ok(text === expected, `${file}: ${text.length} and ${expected.length} characters; the first that differs: ${[...expected].findIndex((c, i) => c !== text[i])}`);
      }
      assert.deepEqual(page.asked, []);
      await page.context().close();
    },

    async 'a long history is the page that the command writes'() {
      const folder = mkdtempSync(`${tmpdir()}/explain-`);
      try {
        // More events than 32 bits hold when they are multiplied by the moments of a picture.
        const event = (action) => `{"action":"${action}","addr":4096,"size":512,"stream":0,"frames":[]}`;
        const three = ['alloc', 'free_requested', 'free_completed'].map(event).join(',');
        const segment = '{"address":4096,"total_size":2097152,"stream":0,"segment_type":"small","blocks":[{"address":4096,"size":2097152,"requested_size":0,"state":"inactive","frames":[]}]}';
        writeFileSync(`${folder}/long.json`, `{"segments":[${segment}],"device_traces":[[${new Array(500_000).fill(three).join(',')}]]}`);
        const expected = execFileSync(tidemark, ['snapshot', 'show', 'long.json', '--format', 'html'], { cwd: folder, stdio: 'pipe', maxBuffer: 1 << 28 }).toString();
        const page = await opened(browser, built);
        const { said, text } = await dropped(page, [`${folder}/long.json`]);
        assert.ok(text === expected, `${said}: ${text?.length} and ${expected.length} characters`);
        await page.context().close();
      } finally {
        rmSync(folder, { recursive: true });
      }
    },

    async 'files that are none are a line, and several files are one page'() {
      const folder = mkdtempSync(`${tmpdir()}/explain-`);
      try {
        const page = await opened(browser, built);
        assert.deepEqual(await accessibility(page, axe), []);
        writeFileSync(`${folder}/evil.pickle`, Buffer.from('\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.', 'latin1'));
        writeFileSync(`${folder}/text.pickle`, 'hello');
        assert.match((await dropped(page, [`${folder}/evil.pickle`])).said, /evil\.pickle: .*nothing was run/);
        assert.match((await dropped(page, [`${folder}/text.pickle`])).said, /text\.pickle: .*neither/);
        const forms = FOLDERS[2];
        const { text } = await dropped(page, readdirSync(forms).slice(0, 2).map((name) => `${forms}/${name}`));
        assert.match(text, /2 files, /);
        await page.frameLocator('iframe').locator('main[data-shown]').waitFor();
        assert.deepEqual(page.asked, []);
        await page.context().close();
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  };
};
