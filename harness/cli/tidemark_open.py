"""tidemark_open.py FOLDER FILE PORT BROWSER TIDEMARK: serves a report's folder on this machine alone, and opens FILE of it in the browser ("yes") or
only says where it is. Every address begins with a secret, which stands in no command line: the browser is given a file of this user's alone, which leads
to the address. So other users of the machine cannot read the files. A trace is handed to Perfetto by its postMessage protocol, a snapshot to memory_viz as PyTorch's own pages do."""
import base64
import contextlib
import functools
import html
import http.server
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import urllib.parse
import webbrowser
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # python -I leaves it out
from tidemark_text import one_line  # noqa: E402

PERFETTO = "https://ui.perfetto.dev"
VIZ = "https://cdn.jsdelivr.net/gh/pytorch/pytorch@main/torch/utils/viz/MemoryViz.js"
VIZ_SITES = "https://cdn.jsdelivr.net https://cdn.skypack.dev"
MOST_SAID = 4  # files; /open/ lists all
TRACES, SNAPSHOTS = (".trace.json.gz", ".json"), (".record", ".pickle")

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 16px system-ui; margin: 2rem; }} button {{ font: inherit; padding: 0.5rem 1rem; }}</style>
{body}
"""

# A browser opens another window after a click alone. The handshake repeats PING until the other window listens.
HANDOVER = """<button disabled>Open {name} in Perfetto</button><p role="status">The trace is read ...</p>
<script nonce="{nonce}">
const button = document.querySelector('button'), status = document.querySelector('p'), site = {site};
let buffer;
fetch({file}).then((answer) => answer.arrayBuffer()).then((bytes) => {{
  buffer = bytes; button.disabled = false; status.textContent = 'The trace stays on this machine: Perfetto reads it in the browser.';
}});
button.onclick = () => {{
  const view = window.open(site);
  if (!view) {{ status.textContent = 'The browser has opened no window: permit it for this page.'; return; }}
  status.textContent = 'Waiting for ' + site + ' ...';
  const ping = setInterval(() => view.postMessage('PING', site), 50);
  const late = setTimeout(() => {{ status.textContent = site + ' does not answer: this needs a network. It gets the trace once it does.'; }}, {patience});
  addEventListener('message', function hear(event) {{
    if (event.source !== view || event.origin !== site || event.data !== 'PONG') return;
    clearInterval(ping); clearTimeout(late); removeEventListener('message', hear);
    view.postMessage({{ perfetto: {{ buffer, title: {title} }} }}, site);
    status.textContent = 'Perfetto has the trace.';
  }});
}};
</script>"""

# What torch.cuda._memory_viz writes, with the file in the page: its policy lets the page send nothing anywhere.
VIZ_BODY = """<p id="waiting" role="status">Waiting for {module} ...</p>
<script type="module" nonce="{nonce}">
const waiting = document.querySelector('#waiting'), fails = () => {{ waiting.textContent = {offline}; }};
const late = setTimeout(fails, {patience});
import({module_text}).then(({{ add_local_files }}) => {{
  clearTimeout(late);
  waiting.remove();
  add_local_files({files}, 'Active Memory Timeline');
}}, fails);
</script>"""
PATIENCE = 10_000  # milliseconds until a site that has not answered is said to be out of reach


def script_text(value):
    return json.dumps(value).replace("<", "\\u003c")


def tool_of(name):
    """The tool that reads a file; of a page none."""
    if name.endswith(SNAPSHOTS):
        return "memory_viz"
    is_trace = name.endswith(".trace.json.gz") or (name.startswith("trace/") and name.endswith(TRACES))
    return "perfetto" if is_trace else None


def files_of(folder, file):
    """Pages, traces and snapshots of a report; of a folder without one the file alone."""
    if not (folder / "report.json").is_file():
        return [file]
    names = (str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())
    return sorted(name for name in names if name == "report.html" or tool_of(name))


def page_of(name):
    """The address of the page that `tidemark explain` makes of a snapshot."""
    return "open/page/" + urllib.parse.quote(name)


def address_of(name):
    path = urllib.parse.quote(name)
    return f"open/{tool_of(name)}/{path}" if tool_of(name) else path


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files of the folder, and /open/TOOL/FILE: a page that hands a file to a tool."""
    server_version, sys_version = "tidemark", ""

    def log_message(self, *_words):
        pass

    def list_directory(self, path):
        self.send_error(404)

    def is_served(self, name):
        """A file within the folder, links included."""
        if "\0" in name:
            return False
        folder, file = Path(self.directory).resolve(), (Path(self.directory) / name).resolve()
        return file.is_file() and file.is_relative_to(folder) and (name in self.server.names or self.server.whole)

    def say(self, title, body, policy=""):
        text = PAGE.format(title=html.escape(title), body=body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; " + policy)
        self.end_headers()
        self.wfile.write(text)

    def snapshot(self, name):
        """A snapshot as a pickle; None: it cannot be had, and the answer says so."""
        file = Path(self.directory) / name
        if not name.endswith(".record"):
            return file.read_bytes()
        with tempfile.TemporaryDirectory(prefix="tidemark-open-") as folder:
            out = Path(folder, "snapshot.pickle")
            done = subprocess.run([self.server.tidemark, "snapshot", "convert", file, "--to", "pickle", "--out", out], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return out.read_bytes()
        self.send_error(500, one_line(done.stderr.strip()))
        return None

    def page(self, name):
        """The page of a snapshot."""
        with tempfile.TemporaryDirectory(prefix="tidemark-open-") as folder:
            done = subprocess.run([self.server.tidemark, "explain", Path(self.directory) / name, "--report", folder], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                self.send_error(500, one_line(done.stderr.strip()))
                return
            text = Path(folder, "report.html").read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_HEAD(self):
        self.send_error(501)

    def do_GET(self):
        secret, _, address = urllib.parse.urlsplit(self.path).path.lstrip("/").partition("/")
        if not secrets.compare_digest(secret, self.server.secret):
            self.send_error(404)
            return
        if address == "open/":
            rows = "".join(f'<li><a href="../{html.escape(address_of(name))}">{html.escape(name)}</a> {tool_of(name) or ""}</li>' for name in self.server.names)
            self.say("tidemark", f"<ul>{rows}</ul>")
            return
        name = urllib.parse.unquote(address)
        is_opened = name.startswith("open/") and name.count("/") > 1
        if is_opened:
            _, tool, name = name.split("/", 2)
        is_page = is_opened and tool == "page" and tool_of(name) == "memory_viz"
        if not self.is_served(name) or (is_opened and not is_page and tool != tool_of(name)):
            self.send_error(404)
            return
        if is_page:
            self.page(name)
            return
        if not is_opened:
            self.path = "/" + urllib.parse.quote(name)
            super().do_GET()
            return
        nonce = secrets.token_urlsafe(16)
        if tool_of(name) == "perfetto":
            body = HANDOVER.format(name=html.escape(name), nonce=nonce, site=script_text(PERFETTO), file=script_text(f"/{secret}/{urllib.parse.quote(name)}"), title=script_text(name), patience=PATIENCE)
            self.say(name, body, f"script-src 'nonce-{nonce}'; connect-src 'self'")
            return
        content = self.snapshot(name)
        if content is None:
            return
        content += b"\0" * (-len(content) % 3)  # base64 without "=", as torch.cuda._memory_viz gives it
        files = script_text([{"name": Path(name).name, "base64": base64.b64encode(content).decode()}])
        self.say(name, VIZ_BODY.format(module=html.escape(VIZ), nonce=nonce, module_text=script_text(VIZ), files=files, patience=PATIENCE,
                                        offline=script_text(f"{VIZ} does not answer: memory_viz needs a network. Without one, tidemark snapshot show {name} --format html draws this file.")), f"script-src 'nonce-{nonce}' {VIZ_SITES}; img-src data:")


@contextlib.contextmanager
def leading_to(address):
    """A page of this user's alone that leads to the address: every user reads the words that a browser is started with."""
    with tempfile.TemporaryDirectory(prefix="tidemark-open-") as folder:  # 0700
        page = Path(folder, "open.html")
        page.touch(0o600)
        page.write_text(PAGE.format(title="tidemark", body=f'<meta http-equiv="refresh" content="0;url={html.escape(address)}">'
                                                           f'<a href="{html.escape(address)}">{html.escape(address)}</a>'), encoding="utf-8")
        yield page.as_uri()


def say(name, address):
    print(f"{one_line(name)}: {address}")


def main():
    folder, file, port, browser, tidemark = sys.argv[1:]
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), functools.partial(Handler, directory=folder))
    except OSError as error:
        print(f"error: open: port {port} of this machine cannot be used: {error.strerror}; choose another (--port)", file=sys.stderr)
        sys.exit(2)
    server.secret, server.names = secrets.token_urlsafe(12), files_of(Path(folder), file)
    server.tidemark = tidemark
    server.whole = (Path(folder) / "report.json").is_file()
    place = f"http://127.0.0.1:{server.server_port}/{server.secret}/"
    # A snapshot that somebody made: its page first. Those of a report are drawn on the report's page.
    is_alone = tool_of(file) == "memory_viz" and not server.whole
    first = place + (page_of(file) if is_alone else address_of(file))
    say(file, first)
    if is_alone:
        say(f"{file} in memory_viz", place + address_of(file))
    others = [name for name in server.names if name != file]
    for name in others[:MOST_SAID]:
        say(name, place + address_of(name))
    if len(others) > MOST_SAID:
        print(f"and {len(others) - MOST_SAID} more: {place}open/")
    print("Ctrl-C ends.", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with leading_to(first) if browser == "yes" else contextlib.nullcontext() as page:
        if page is not None and not webbrowser.open(page):
            print("no browser was found: open the first address", file=sys.stderr)
        server.serve_forever()


try:
    main()
except KeyboardInterrupt:
    pass
