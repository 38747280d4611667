"""`tidemark open` serves a report's folder and nothing else, to those who have the address."""
import contextlib
import pickle
import re
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from command import BINARY, environment, refuses


@pytest.fixture(autouse=True)
def report(folder):
    report = Path("report")
    (report / "trace" / "a").mkdir(parents=True)
    for name, text in {"report.json": "{}", "report.html": "<p>the page", "rank0.pickle": "snapshot <", "rank 0.trace.json.gz": "trace", "trace/a/b.json": "{}", "loss.txt": "1"}.items():
        (report / name).write_text(text)
    Path("other.txt").write_text("not served")
    (report / "link.txt").symlink_to(folder / "other.txt")


@contextlib.contextmanager
def served(path, *flags):
    with subprocess.Popen([BINARY, "open", path, "--no-browser", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()) as running:
        lines = []
        try:
            while not lines or lines[-1] not in ("", "Ctrl-C ends."):
                lines.append(running.stdout.readline().rstrip("\n"))
            assert lines.pop() == "Ctrl-C ends.", running.stderr.read() if running.poll() is not None else ""
            yield [line.rsplit(": ", 1) for line in lines]
        finally:
            running.send_signal(signal.SIGINT)
        running.communicate(timeout=20)
    assert running.returncode == 0


def get(address):
    try:
        with urllib.request.urlopen(address, timeout=20) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        error.close()
        return error.code, "", error.headers


# holds: reports/README.md, open
def test_a_report():
    with served("report") as lines:
        assert [name for name, _ in lines] == ["report.html", "rank 0.trace.json.gz", "rank0.pickle", "trace/a/b.json"]
        (_, page), (_, trace), (_, snapshot), (_, other) = lines
        assert get(page)[:2] == (200, "<p>the page")
        place = page.removesuffix("report.html")
        assert get(place + "rank%200.trace.json.gz")[:2] == (200, "trace")
        assert get(place + "loss.txt")[:2] == (200, "1")
        assert "https://ui.perfetto.dev" in get(trace)[1]
        assert "trace/a/b.json" in get(other)[1]
        status, text, headers = get(snapshot)
        assert '[{"name": "rank0.pickle", "base64": "c25hcHNob3QgPAAA"}]' in text
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert get(place + "open/")[1].count("<li>") == 4
        for wrong in ("../other.txt", "%2e%2e/other.txt", "link.txt", "", "trace/", "nosuch", "a%00b", "open/perfetto/rank0.pickle", "open/perfetto/../../other.txt", "open/perfetto", "open/x/report.html"):
            assert get(place + wrong)[0] == 404, wrong
        root = place.rsplit("/", 2)[0]
        for wrong in ("/report.html", "/x/report.html", "/"):
            assert get(root + wrong)[0] == 404, "without the secret: " + wrong
        assert root.startswith("http://127.0.0.1:")
        taken = subprocess.run([BINARY, "open", "report", "--no-browser", "--port", root.rsplit(":", 1)[1]], capture_output=True, text=True, env=environment(), timeout=60)
        assert (taken.returncode, taken.stdout) == (2, "")
        assert re.search(r"^error: open: port \d+ of this machine cannot be used: .*\n$", taken.stderr), taken.stderr


def test_a_file_of_it():
    with served("report/trace/a/b.json") as lines:
        assert lines[0][0] == "trace/a/b.json"
        assert "/open/perfetto/trace/a/b.json" in lines[0][1]
    Path("alone").mkdir()
    for name in "x.pickle", "y.pickle":
        Path("alone", name).write_text(name)
    with served("alone/x.pickle") as lines:
        assert [name for name, _ in lines] == ["x.pickle", "x.pickle in memory_viz"]
        place = lines[1][1].replace("open/memory_viz/x.pickle", "")
        assert lines[0][1] == place + "open/page/x.pickle"
        assert (get(place + "x.pickle")[0], get(place + "y.pickle")[0], get(place + "open/page/y.pickle")[0]) == (200, 404, 404)
        assert get(lines[0][1])[0] == 500, "it is no snapshot"
    Path("alone/x.pickle").write_bytes(pickle.dumps({"segments": [{"address": 0, "total_size": 512, "blocks": [{"size": 512, "state": "active_allocated"}]}], "device_traces": []}))
    with served("alone/x.pickle") as lines:
        status, page, _ = get(lines[0][1])
        assert status == 200 and "The file has no trace" in page


def test_mistakes():
    for words, says in (("open nosuch", "cannot be read"), ("open", "tidemark-out/latest cannot be read"), ("open .", "has no report.html"), ("open other.txt", "is neither a page"), ("open report --port 70000", "--port")):
        refuses(2, says, words)
