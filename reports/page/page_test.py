#!/usr/bin/env python3
"""page_test.py SAMPLE_REPORTS: the page of every made-up report in headless Chromium: drawn, with its figures, without an
error on the console and without asking for anything else. Exits with 77 (skipped) where there is no Chromium."""
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
         "--enable-logging=stderr", "--hide-scrollbars", "--run-all-compositor-stages-before-draw",
         "--virtual-time-budget=5000"]
failures = []


def check(holds: bool, what: str) -> None:
    if not holds:
        failures.append(what)
        print(f"FAILED: {what}")


class Drawn(html.parser.HTMLParser):
    """What stands in the page: elements by tag, visible text, table rows."""

    def __init__(self, dom: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.ids: set[str] = set()
        self.text: list[str] = []
        self.title, self.silent, self.inside = "", 0, ""
        self.links: list[str] = []
        self.feed(dom)
        self.words = " ".join(" ".join(self.text).split())

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.inside = tag
        if "id" in found:
            self.ids.add(found["id"])
        self.silent += tag in ("script", "style", "noscript")
        self.links += [value for key, value in attributes if key in ("src", "href") and value]

    def handle_endtag(self, tag):
        self.silent -= tag in ("script", "style", "noscript")

    def handle_data(self, data):
        if self.inside == "title" and not self.title:
            self.title = data
        if not self.silent:
            self.text.append(data)


def browse(chromium: str, page: Path, *more: str) -> tuple[str, str]:
    with tempfile.TemporaryDirectory() as profile:
        run = subprocess.run([chromium, *FLAGS, f"--user-data-dir={profile}", *more, page.as_uri()], capture_output=True,
                             timeout=120, check=False)
    log = run.stderr.decode(errors="replace")
    return run.stdout.decode(errors="replace"), "\n".join(line for line in log.splitlines() if "CONSOLE" in line)


def visit(chromium: str, folder: Path) -> Drawn:
    dom, console = browse(chromium, folder / "report.html", "--dump-dom")
    name = folder.name
    check(console == "", f"{name}: nothing on the console, but: {console[:300]}")
    page = Drawn(dom)
    check(page.title.startswith("tidemark"), f"{name}: title is '{page.title}'")
    check("provenance" in page.ids, f"{name}: drawn to its end")
    check(all(link.startswith(("data:", "#")) for link in page.links), f"{name}: refers to nothing outside: {page.links}")
    check(not re.search(r"\b(undefined|NaN|\[object)", page.words), f"{name}: no figure is missing")
    return page


# Touches every control of the page as a person would; what it sees goes into the title.
TOUCH = """<script type="module">
while (!document.getElementById('provenance')) await new Promise((again) => setTimeout(again, 20));
const seen = [];
const all = (query) => [...document.querySelectorAll(query)];
const count = (query) => all(query).length;
const key = (where, name) => where.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
all('.list input[type=radio]').find((input) => input.nextSibling.textContent.startsWith('failed')).click();
seen.push(`failed ${count('.assertion.fail')}/${count('.assertion')}`);
all('.list input[type=radio]')[0].click();
const search = document.querySelector('input[type=search]');
search.value = 'LAGGING parity stash';
search.dispatchEvent(new Event('input'));
seen.push(`found ${count('.assertion')}`);
search.value = 'no such thing';
search.dispatchEvent(new Event('input'));
seen.push(document.querySelector('[role=status]').textContent);
search.value = '';
search.dispatchEvent(new Event('input'));
document.querySelector('.wide').click();
seen.push(`more ${count('.assertion')}`);
all('.toggle')[3].click();
seen.push(`open ${count('tr.more:not([hidden])')}`);
all('.matrix button').at(-1).click();
seen.push(`of one variant ${new Set(all('.assertion td:nth-child(2)').map((cell) => cell.textContent)).size}`);
for (const query of ['input[type=radio]', 'select', 'summary']) {
  for (let i = 0; i < count(query); i += 1) {
    const control = all(query)[i];
    if (query !== 'select') control.click();
    for (let option = 0; option < (control.options?.length ?? 0); option += 1) {
      const again = all(query)[i];
      if (!again) break;
      again.selectedIndex = option;
      again.dispatchEvent(new Event('change'));
    }
  }
}
seen.push(count('#loss .empty') === 1 ? 'shapes has no loss' : 'a loss in shapes');
const bar = document.querySelector('.bar select');
bar.selectedIndex = 0;
bar.dispatchEvent(new Event('change'));
await new Promise((done) => setTimeout(done, 500));
const chart = document.querySelector('#time .chart');
chart.dispatchEvent(new PointerEvent('pointermove', { clientX: chart.getBoundingClientRect().left + 300 }));
seen.push(`reading ${chart.querySelectorAll('.reading b').length}`);
for (const one of all('.chart')) for (const name of ['ArrowRight', 'ArrowRight', 'ArrowLeft']) key(one, name);
seen.push(`readings ${count('.reading:not([hidden])')}`);
for (const one of all('.chart')) key(one, 'Escape');
seen.push(`left ${count('.reading:not([hidden])')}`);
seen.push(`wider than the page ${document.documentElement.scrollWidth > document.documentElement.clientWidth}`);
document.title = `tidemark: ${seen.join('; ')}`;
</script>
"""
TOUCHED = ("tidemark: failed 2/2; found 2; No verdict matches.; more 100; open 2; of one variant 1; shapes has no loss; "
           "reading 2; readings 3; left 0; wider than the page false")


def touch(chromium: str, folder: Path) -> None:
    touched = folder / "touched.html"
    touched.write_text((folder / "report.html").read_text().replace("</body>", TOUCH + "</body>"))
    dom, console = browse(chromium, touched, "--dump-dom")
    check(console == "", f"touched: nothing on the console, but: {console[:300]}")
    check(Drawn(dom).title == TOUCHED, f"touched: {Drawn(dom).title}\n   not: {TOUCHED}")


def grouped(value: int) -> str:
    return f"{value:,}"


def main() -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not chromium:
        print("skipped: no chromium")
        sys.exit(77)
    work = Path(tempfile.mkdtemp())
    try:
        subprocess.run([sys.argv[1], str(work)], check=True)

        page = visit(chromium, work / "sample")
        report = json.loads((work / "sample" / "report.json").read_text())
        for part in ("verdicts", "peaks", "saving", "time", "composition", "run-ahead", "loss", "step-time"):
            check(part in page.ids, f"sample: has the section {part}")
        check(f"{report['summary']['failed']} of" in page.words, "sample: the headline counts the failures")
        check(page.tags.get("svg", 0) == 3, f"sample: three charts, not {page.tags.get('svg')}")
        check(page.tags.get("path", 0) == 2 * 2 + 8 + 8, f"sample: lines in them ({page.tags.get('path')})")
        for trial in report["trials"]:
            for verdict in trial["verdicts"]:
                if verdict["status"] == "fail" and verdict["rank"] == 3:
                    check(grouped(verdict["measured"]) in page.words, f"sample: measured figure of {verdict['name']}")
        check("Virtual device" in page.words, "sample: says that it is virtual")

        touch(chromium, work / "sample")

        page = visit(chromium, work / "small")
        check("1 of 6 verdicts failed" in page.words, "small: headline")
        check("6,291,456 bytes" in page.words and "+1,048,576" in page.words, "small: what was measured, and how far off")
        check("S + 2*U" in page.words and "U = 1,048,576" in page.words, "small: formula with its values")
        check("tidemark run fsdp_prefetch --size smoke --mode math --schedule lagging" in page.words, "small: the command again")
        check("size seed runs in shapes only" in page.words, "small: why a trial was skipped")
        check(page.words.index("memory/active/forward stash") < page.words.index("memory/active/forward record_stream"),
              "small: the failed verdict comes first")

        page = visit(chromium, work / "passing")
        check("All 3 verdicts passed" in page.words, "passing: headline")
        page = visit(chromium, work / "empty")
        check("Nothing ran" in page.words, "empty: says so")

        page = visit(chromium, work / "hostile")
        check("img" not in page.tags, "hostile: a name stays text")
        check("onerror=" in page.words, "hostile: the name is shown as it is")

        for width in (500, 1280):
            image = work / f"{width}.png"
            browse(chromium, work / "sample" / "report.html", f"--window-size={width},3000", f"--screenshot={image}")
            check(image.exists() and image.stat().st_size > 50_000, f"sample: a picture at {width} pixels")
            if os.environ.get("TIDEMARK_SCREENSHOTS"):
                shutil.copy(image, os.environ["TIDEMARK_SCREENSHOTS"])
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{len(failures)} failed" if failures else "all pages hold")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
