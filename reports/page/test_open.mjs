// `tidemark open` hands a file to Perfetto and memory_viz, which stand here for themselves: a page that answers as Perfetto's protocol says,
// and a module with the function that PyTorch's pages call. Both hold what they were given against the file.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';

const SOURCES = { 'tidemark_open.py': '../../harness/cli/tidemark_open.py', 'tidemark_text.py': '../../python/tidemark/text.py' };
const ANSWERS = `<script>
addEventListener('message', ({ data, source, origin }) => {
  if (data === 'PING') source.postMessage('PONG', origin);
  else window.got = { title: data.perfetto.title, bytes: [...new Uint8Array(data.perfetto.buffer)] };
});
</script>`;
const MODULE = 'export const add_local_files = (files, kind) => { window.got = { files, kind }; };';

/** The addresses that the server prints, and its end. */
async function served(folder, file) {
  const scripts = mkdtempSync(`${tmpdir()}/open-scripts-`); // beside one another, as in the build
  for (const [name, source] of Object.entries(SOURCES)) copyFileSync(fileURLToPath(new URL(source, import.meta.url)), `${scripts}/${name}`);
  const server = spawn('python3', ['-I', `${scripts}/tidemark_open.py`, folder, file, '0', 'no', 'tidemark'], { stdio: ['ignore', 'pipe', 'inherit'] });
  let said = '';
  for await (const part of server.stdout) {
    said += part;
    if (said.includes('Ctrl-C')) break;
  }
  const line = said.split('\n').find((one) => !one.includes('/open/page/')); // that of a snapshot's own page comes before its tool's
  return { address: line.split(': ')[1], end: () => (server.kill('SIGINT'), rmSync(scripts, { recursive: true })) };
}

export const tests = ({ browser }) => ({
  async 'open: a site that does not answer is said to, at once or in time'() {
    const folder = mkdtempSync(`${tmpdir()}/open-`);
    const view = await browser.newContext();
    await view.route('**/*', (route) => {
      const { host, pathname } = new URL(route.request().url());
      if (host.startsWith('127.0.0.1')) return pathname === '/favicon.ico' ? route.fulfill({ body: '' }) : route.continue();
      return host === 'ui.perfetto.dev' ? route.fulfill({ contentType: 'text/html', body: 'silent' }) : route.abort();
    });
    try {
      for (const [name, said] of [['a.pickle', /MemoryViz\.js does not answer: .* network.* tidemark snapshot show a\.pickle --format html/], ['a.trace.json.gz', /perfetto.dev does not answer: this needs a network/]]) {
        writeFileSync(`${folder}/${name}`, '1');
        const { address, end } = await served(folder, name);
        const page = await view.newPage();
        await page.clock.install();
        await page.goto(address);
        if (name.endsWith('.gz')) {
          await page.getByRole('button').click();
          assert.match(await page.getByRole('status').innerText(), /^Waiting for/);
          await page.clock.runFor(11_000);
        }
        await page.waitForFunction(() => /does not answer/.test(document.querySelector('[role="status"]').textContent));
        assert.match(await page.getByRole('status').innerText(), said);
        end();
      }
    } finally {
      await view.close();
      rmSync(folder, { recursive: true });
    }
  },

  async 'open: Perfetto and memory_viz get the file'() {
    const folder = mkdtempSync(`${tmpdir()}/open-`);
    const view = await browser.newContext();
    const wrong = [];
    view.on('page', (page) => page.on('pageerror', (error) => wrong.push(error.message)));
    view.on('console', (message) => message.type() === 'error' && wrong.push(message.text()));
    await view.route('**/*', (route) => {
      const { host, pathname } = new URL(route.request().url());
      if (host.startsWith('127.0.0.1')) return pathname === '/favicon.ico' ? route.fulfill({ body: '' }) : route.continue();
      if (host === 'ui.perfetto.dev') return route.fulfill({ contentType: 'text/html', body: ANSWERS });
      if (pathname.endsWith('/MemoryViz.js'))
        return route.fulfill({ contentType: 'text/javascript', headers: { 'access-control-allow-origin': '*' }, body: MODULE });
      wrong.push(`asked for ${host}`);
      return route.abort();
    });
    const bytes = Buffer.from([0, 255, 60, 47, 115, 99, 114, 105, 112, 116, 62]); // </script> among them
    const names = ['a <b>\'".trace.json.gz', 'a <b>\'".pickle'];
    try {
      for (const name of names) {
        writeFileSync(`${folder}/${name}`, bytes);
        const { address, end } = await served(folder, name);
        const page = await view.newPage();
        await page.goto(address);
        if (name.endsWith('.gz')) {
          const opened = view.waitForEvent('page');
          await page.getByRole('button').click();
          const other = await opened;
          await other.waitForFunction(() => window.got);
          assert.deepEqual(await other.evaluate(() => window.got), { title: name, bytes: [...bytes] });
          assert.match(await page.getByRole('status').innerText(), /Perfetto has the trace/);
        } else {
          await page.waitForFunction(() => window.got);
          const { files, kind } = await page.evaluate(() => window.got);
          assert.equal(kind, 'Active Memory Timeline');
          assert.equal(files[0].name, name);
          assert.deepEqual(Buffer.from(files[0].base64, 'base64').subarray(0, bytes.length), bytes);
        }
        end();
      }
      assert.deepEqual(wrong, []);
      assert.equal(readFileSync(`${folder}/${names[0]}`).length, bytes.length);
    } finally {
      await view.close();
      rmSync(folder, { recursive: true });
    }
  },
});
