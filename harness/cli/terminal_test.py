#!/usr/bin/env python3
"""terminal_test.py TIDEMARK: colours for a terminal and for those who ask, and none in a file, whichever launcher starts the ranks; the time that is left."""
import os
import pty
import re
import subprocess
import unittest

from command import BINARY, InFolder, environment

RUN = ("run", "fsdp_prefetch/stash/smoke", "--mode", "shapes", "--schedule", "instant", "--steps", "2", "--races", "off", "--details", "none", "--history", "off")
ESCAPE = b"\033["


class Terminal(InFolder):
    def said(self, *words, launcher=(), terminal=False, **more):
        """Whether escapes are in standard output, a file or a terminal."""
        given = {name: value for name, value in environment(**more).items() if name in more or name not in ("NO_COLOR", "CLICOLOR_FORCE")}
        command = [*launcher, BINARY, *words]
        if not terminal:
            done = subprocess.run(command, capture_output=True, cwd=self.folder, env=given, check=True)
            self.assertNotIn(b"\r\033[K", done.stderr)
            return ESCAPE in done.stdout
        ours, theirs = pty.openpty()
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL, cwd=self.folder, env=given) as running:
            os.close(theirs)
            seen = b""
            try:
                while part := os.read(ours, 65536):
                    seen += part
            except OSError:  # all of its users have closed it
                pass
        self.assertEqual(running.returncode, 0, seen)
        return ESCAPE in seen

    def test_a_launchers_output_is_a_file(self):
        for launcher in ((), ("mpirun", "-n", "2")):
            self.assertFalse(self.said(*RUN, launcher=launcher), launcher)
            self.assertTrue(self.said(*RUN, launcher=launcher, CLICOLOR_FORCE="1"), launcher)
        self.assertTrue(self.said(*RUN, "--color", "always", launcher=launcher, NO_COLOR="1"))
        self.assertFalse(self.said(*RUN, launcher=launcher, NO_COLOR="1", CLICOLOR_FORCE="1"))
        bench = ("bench", "--benchmark_filter=^step/fsdp_prefetch/stash/smoke/r2/shapes/")
        self.assertFalse(self.said(*bench, launcher=launcher, TERM="xterm"))
        self.assertTrue(self.said(*bench, "--benchmark_color=true", launcher=launcher, TERM="xterm"))

    def test_a_terminal_has_colours(self):
        self.assertTrue(self.said(*RUN, terminal=True, NO_COLOR=""))
        self.assertFalse(self.said(*RUN, terminal=True, NO_COLOR="1"))
        self.assertFalse(self.said(*RUN, terminal=True, CLICOLOR_FORCE="0", NO_COLOR="1"))

    def test_exec_has_the_same_colours(self):
        def red(*words, **more):
            given = {name: value for name, value in environment(**more).items() if name in more or name not in ("NO_COLOR", "CLICOLOR_FORCE")}
            done = subprocess.run([BINARY, "exec", "--max-peak", "1MiB", *words, "--", "true"], capture_output=True, cwd=self.folder, env=given, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"FAIL", done.stderr)
            return ESCAPE in done.stderr
        self.assertFalse(red())
        self.assertTrue(red("--color", "always", NO_COLOR="1"))
        self.assertTrue(red(CLICOLOR_FORCE="1"))
        self.assertTrue(red(TIDEMARK_COLOR="always"))
        self.assertFalse(red("--color", "never", CLICOLOR_FORCE="1"))

    def test_time_that_is_left(self):
        words = ("run", "ddp_bucket_view/bucket_view/smoke", "--mode", "shapes", "--schedule", "instant", "--details", "none")
        left = re.compile(r"\[1/1\] .* s, about [\d.]+ m?s left\)")
        self.assertNotRegex(self.passes(*words).stderr, left)
        self.assertRegex(self.passes(*words).stderr, left)
        self.assertNotRegex(self.passes(*words, "--set", "rows=5").stderr, left)


if __name__ == "__main__":
    unittest.main(argv=["terminal_test.py"])
