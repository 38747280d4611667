"""Colours for a terminal and for those who ask, and none in a file, whichever launcher starts the ranks; the time that is left."""
import os
import pty
import re
import subprocess

from command import BINARY, environment, passes

RUN = ("run", "fsdp_prefetch/stash/smoke", "--mode", "shapes", "--schedule", "instant", "--steps", "2", "--races", "off", "--details", "none", "--history", "off")
ESCAPE = b"\033["


def has_escapes(*words, launcher=(), terminal=False, **more):
    """Whether escapes are in standard output, a file or a terminal."""
    given = {name: value for name, value in environment(**more).items() if name in more or name not in ("NO_COLOR", "CLICOLOR_FORCE")}
    command = [*launcher, BINARY, *words]
    if not terminal:
        done = subprocess.run(command, capture_output=True, env=given, check=True)
        assert b"\r\033[K" not in done.stderr
        return ESCAPE in done.stdout
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL, env=given) as running:
        os.close(theirs)
        seen = b""
        try:
            while part := os.read(ours, 65536):
                seen += part
        except OSError:  # all of its users have closed it
            pass
    assert running.returncode == 0, seen
    return ESCAPE in seen


# night: eight runs under two launchers; test_a_terminal_has_colours and test_exec_has_the_same_colours hold colours by day
def test_a_launchers_output_is_a_file():
    for launcher in ((), ("mpirun", "-n", "2")):
        assert not has_escapes(*RUN, launcher=launcher), launcher
        assert has_escapes(*RUN, launcher=launcher, CLICOLOR_FORCE="1"), launcher
    assert has_escapes(*RUN, "--color", "always", launcher=launcher, NO_COLOR="1")
    assert not has_escapes(*RUN, launcher=launcher, NO_COLOR="1", CLICOLOR_FORCE="1")
    bench = ("bench", "--size", "smoke", "--benchmark_filter=^fsdp_prefetch/smoke/.*/stash/")
    assert not has_escapes(*bench, launcher=launcher, TERM="xterm")
    assert has_escapes(*bench, "--benchmark_color=true", launcher=launcher, TERM="xterm")


def test_a_terminal_has_colours():
    assert has_escapes(*RUN, terminal=True, NO_COLOR="")
    assert not has_escapes(*RUN, terminal=True, NO_COLOR="1")
    assert not has_escapes(*RUN, terminal=True, CLICOLOR_FORCE="0", NO_COLOR="1")


def test_exec_has_the_same_colours():
    def red(*words, **more):
        given = {name: value for name, value in environment(**more).items() if name in more or name not in ("NO_COLOR", "CLICOLOR_FORCE")}
        done = subprocess.run([BINARY, "exec", "--max-peak", "1MiB", *words, "--", "true"], capture_output=True, env=given, check=False)
        assert done.returncode == 5
        assert b"FAIL" in done.stderr
        return ESCAPE in done.stderr
    assert not red()
    assert red("--color", "always", NO_COLOR="1")
    assert red(CLICOLOR_FORCE="1")
    assert red(TIDEMARK_COLOR="always")
    assert not red("--color", "never", CLICOLOR_FORCE="1")


# night: three runs for one line; history_test holds the times of earlier runs by day
def test_time_that_is_left():
    words = ("run", "ddp_bucket_view/bucket_view/smoke", "--mode", "shapes", "--schedule", "instant", "--details", "none")
    left = re.compile(r"\[1/1\] .* s, about [\d.]+ m?s left\)")
    assert not re.search(left, passes(*words).stderr)
    assert re.search(left, passes(*words).stderr)
    assert not re.search(left, passes(*words, "--set", "rows=5").stderr)
