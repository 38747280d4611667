#!/usr/bin/env python3
"""open_test.py TIDEMARK: `tidemark open` serves a report's folder and nothing else, to those who have the address."""
import contextlib
import signal
import subprocess
import unittest
import urllib.error
import urllib.request

from command import BINARY, InFolder, environment


class Open(InFolder):
    def setUp(self):
        super().setUp()
        self.report = self.folder / "report"
        (self.report / "trace" / "a").mkdir(parents=True)
        for name, text in {"report.json": "{}", "report.html": "<p>the page", "rank0.pickle": "snapshot <", "rank 0.trace.json.gz": "trace", "trace/a/b.json": "{}", "loss.txt": "1"}.items():
            (self.report / name).write_text(text)
        (self.folder / "other.txt").write_text("not served")
        (self.report / "link.txt").symlink_to(self.folder / "other.txt")

    @contextlib.contextmanager
    def served(self, path, *flags):
        with subprocess.Popen([BINARY, "open", path, "--no-browser", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, env=environment()) as running:
            lines = []
            try:
                while not lines or lines[-1] not in ("", "Ctrl-C ends."):
                    lines.append(running.stdout.readline().rstrip("\n"))
                self.assertEqual(lines.pop(), "Ctrl-C ends.", running.stderr.read() if running.poll() is not None else "")
                yield [line.rsplit(": ", 1) for line in lines]
            finally:
                running.send_signal(signal.SIGINT)
            running.communicate(timeout=20)
        self.assertEqual(running.returncode, 0)

    def get(self, address):
        try:
            with urllib.request.urlopen(address, timeout=20) as answer:
                return answer.status, answer.read().decode(), answer.headers
        except urllib.error.HTTPError as error:
            error.close()
            return error.code, "", error.headers

    def test_a_report(self):
        with self.served("report") as lines:
            self.assertEqual([name for name, _ in lines], ["report.html", "rank 0.trace.json.gz", "rank0.pickle", "trace/a/b.json"])
            (_, page), (_, trace), (_, snapshot), (_, other) = lines
            self.assertEqual(self.get(page)[:2], (200, "<p>the page"))
            place = page.removesuffix("report.html")
            self.assertEqual(self.get(place + "rank%200.trace.json.gz")[:2], (200, "trace"))
            self.assertEqual(self.get(place + "loss.txt")[:2], (200, "1"))
            self.assertIn("https://ui.perfetto.dev", self.get(trace)[1])
            self.assertIn("trace/a/b.json", self.get(other)[1])
            status, text, headers = self.get(snapshot)
            self.assertIn('[{"name": "rank0.pickle", "base64": "c25hcHNob3QgPAAA"}]', text)
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
            self.assertEqual(self.get(place + "open/")[1].count("<li>"), 4)
            for wrong in ("../other.txt", "%2e%2e/other.txt", "link.txt", "", "trace/", "nosuch", "a%00b", "open/perfetto/rank0.pickle", "open/perfetto/../../other.txt", "open/perfetto", "open/x/report.html"):
                self.assertEqual(self.get(place + wrong)[0], 404, wrong)
            root = place.rsplit("/", 2)[0]
            for wrong in ("/report.html", "/x/report.html", "/"):
                self.assertEqual(self.get(root + wrong)[0], 404, "without the secret: " + wrong)
            self.assertTrue(root.startswith("http://127.0.0.1:"))
            taken = subprocess.run([BINARY, "open", "report", "--no-browser", "--port", root.rsplit(":", 1)[1]], capture_output=True, text=True, cwd=self.folder, env=environment(), timeout=60)
            self.assertEqual((taken.returncode, taken.stdout), (2, ""))
            self.assertRegex(taken.stderr, r"^error: open: port \d+ of this machine cannot be used: .*\n$")

    def test_a_file_of_it(self):
        with self.served("report/trace/a/b.json") as lines:
            self.assertEqual(lines[0][0], "trace/a/b.json")
            self.assertIn("/open/perfetto/trace/a/b.json", lines[0][1])
        (self.folder / "alone").mkdir()
        for name in "x.pickle", "y.pickle":
            (self.folder / "alone" / name).write_text(name)
        with self.served("alone/x.pickle") as lines:
            self.assertEqual(len(lines), 1)
            place = lines[0][1].replace("open/memory_viz/x.pickle", "")
            self.assertEqual((self.get(place + "x.pickle")[0], self.get(place + "y.pickle")[0]), (200, 404))

    def test_mistakes(self):
        for words, says in (("open nosuch", "cannot be read"), ("open", "tidemark-out/latest cannot be read"), ("open .", "has no report.html"), ("open other.txt", "is neither a page"), ("open report --port 70000", "--port")):
            self.refuses(2, says, words)


if __name__ == "__main__":
    unittest.main(argv=["open_test.py"])
