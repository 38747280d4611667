"""ci/nightly on a stand-in for tidemark that runs nothing: exit codes, what is compared with what,
what is published, what a second night or a broken one leaves."""
import itertools
import os
import subprocess
from pathlib import Path

import pytest
from stand_in import executable

NIGHTLY = Path(__file__).resolve().parent / "nightly"
BINARY = os.environ.get("TIDEMARK_BIN", str(NIGHTLY.parents[1] / "build/dev/tidemark"))
STAND_IN = """#!/usr/bin/env bash
echo "$*" >>"$CALLS"
case $1 in
run) out=${@: -1}
     [ "${NO_REPORT:-}" ] || { mkdir -p "$out"; for f in report.html report.json summary.md junit.xml benchmark.json; do echo "$f" >"$out/$f"; done; cp "$BENCHMARKS" "$out/benchmark.json"; }
     exit "${RUN_CODE:-0}" ;;
compare) out=${@: -1}; echo "<regression> & more" >"$out"; exit "${COMPARE_CODE:-0}" ;;
history) echo history >"${@: -1}" ;;
esac
"""
nights = itertools.count(1)


@pytest.fixture
def work(tmp_path):
    executable(tmp_path / "tidemark", STAND_IN)
    (tmp_path / "benchmarks").write_bytes((NIGHTLY.parents[1] / "reports/approved/benchmark.json").read_bytes())
    executable(tmp_path / "fsdp_prefetch_clocks_test", '#!/bin/sh\necho "$TIDEMARK_TEST_SEEDS <clocks>"\nexit ${RANDOM_CODE:-0}\n')
    return tmp_path


@pytest.fixture
def night(work):
    """Makes a night: its exit code, its messages, and the calls of the stand-in."""
    calls = work / "calls"

    def night(*words: str, **extra: str) -> tuple[int, str, list[str]]:
        calls.write_text("")
        env = {**os.environ, "CALLS": str(calls), "BENCHMARKS": str(work / "benchmarks"), "TIDEMARK_BIN": str(work / "tidemark"), "TIDEMARK_NIGHTLY_OUT": str(work / "out"),
               "TIDEMARK_NIGHTLY_RANKS": "2 3", "TIDEMARK_NIGHTLY_SEEDS": "0", "TIDEMARK_NIGHT": f"20260101-{next(nights):06}", **extra}
        run = subprocess.run([NIGHTLY, *words], env=env, capture_output=True, text=True, timeout=200, check=False)
        return run.returncode, run.stderr, calls.read_text().splitlines()

    return night


def test_nights(work, night):
    out = work / "out"
    code, _, called = night()
    assert code == 0, f"the first night is good: {code}"
    assert [c.split()[0] for c in called] == ["run", "history"] * 2, f"the first night compares with nothing: {called}"
    assert "--suite nightly --ranks 2" in called[0] and "--ranks 3" in called[2], "both worlds run the nightly suite"
    first = (out / "r2" / "last-good").read_text().strip()
    assert (out / "publish" / "r3" / "report.html").exists(), "published"
    index = (out / "publish" / "index.html").read_text()
    assert "no good night yet" in index, "the index says that nothing was compared"
    assert index.count("<td>fsdp_prefetch/smoke/r2/math/lagging/stash</td>") == 2 and index.count(" of active") >= 2, "the pairs of both worlds"

    code, _, called = night("--schedule", "lagging", TIDEMARK_NIGHTLY_THRESHOLD="memory=1KiB")
    assert code == 0 and sum(c.startswith("compare") for c in called) == 6, "the second night compares, in three formats"
    assert any(c.startswith("report ") and f"--base {out}/r2/{first}" in c for c in called), f"the page has the figures of both nights: {called}"
    assert "--schedule lagging" in called[0], "arguments go to tidemark run"
    assert f"/r2/{first} " in called[1] and "--threshold memory=1KiB" in called[1] and "--allow-missing" not in called[1], called[1]
    second = (out / "r2" / "last-good").read_text().strip()
    assert second > first, "the good night moves on"
    assert "&lt;regression&gt; &amp; more" in (out / "publish" / "index.html").read_text(), "the comparison is in the index, as text"

    for extra, expected in (({"COMPARE_CODE": "1"}, 1), ({"RUN_CODE": "1"}, 1), ({"RUN_CODE": "3"}, 3), ({"COMPARE_CODE": "4"}, 4),
                            ({"RUN_CODE": "1", "COMPARE_CODE": "2"}, 2), ({"NO_REPORT": "1"}, 3), ({"RUN_CODE": "137"}, 3)):
        code, _, _ = night(**extra)
        assert code == expected, f"{extra}: exit code {code}, not {expected}"
        assert (out / "r2" / "last-good").read_text().strip() == second, f"{extra}: the good night stays the good one"
        assert (out / "publish" / "index.html").exists(), f"{extra}: published all the same"
    for code, expected in (("0", 0), ("1", 1), ("134", 3)):
        exit_code, _, _ = night(TIDEMARK_NIGHTLY_SEEDS="20", RANDOM_CODE=code)
        assert exit_code == expected, f"clocks that end with {code}: exit code {exit_code}, not {expected}"
        assert "20 &lt;clocks&gt;" in (out / "publish" / "index.html").read_text(), "what they say is in the index, as text"
    checkout, python = work / "titan", executable(work / "python", '#!/bin/sh\necho "$2 <figures>"\nexit $FIGURES_CODE\n')
    checkout.mkdir()
    (checkout / "train.py").write_text("")
    for code, expected in (("0", 0), ("1", 1), ("2", 2)):
        exit_code, _, _ = night(TIDEMARK_NIGHTLY_TORCHTITAN=str(checkout), TIDEMARK_PYTHON=str(python), FIGURES_CODE=code)
        assert exit_code == expected, f"figures that end with {code}: exit code {exit_code}, not {expected}"
        assert f"{checkout} &lt;figures&gt;" in (out / "publish" / "index.html").read_text(), "the figures are in the index, as text"
    both = {"TIDEMARK_NIGHT": "20251231-000001", "TIDEMARK_NIGHTLY_SEEDS": "20", "TIDEMARK_NIGHTLY_TORCHTITAN": str(checkout), "FIGURES_CODE": "0"}
    killed, _, _ = night(**both, TIDEMARK_PYTHON=str(executable(work / "killer", "#!/bin/sh\nkill -9 $PPID\n")))
    assert killed == -9, f"a night that is killed in its second part: {killed}"
    exit_code, output, _ = night(**both, TIDEMARK_PYTHON=str(python), RANDOM_CODE="1")
    index = (out / "publish" / "index.html").read_text()
    assert exit_code == 0 and output.count("had ended before") == 1, f"the first part is taken over, with its exit code: {exit_code} {output}"
    assert "20 &lt;clocks&gt;" in index and f"{checkout} &lt;figures&gt;" in index, "the index has both parts"
    assert not (out / "20251231-000001.parts").exists(), "nothing of a night that ended is kept for another"
    exit_code, _, _ = night(TIDEMARK_NIGHTLY_SCALE="pp7")
    assert exit_code == 2 and "no layout has pp7 in its name" in (out / "publish" / "index.html").read_text(), f"a layout that is not there: exit code {exit_code}"
    (work / "bin").mkdir()
    with_id = executable(work / "bin" / "id", "#!/bin/sh\necho 1000\n").parent  # no root: ci/bare makes no machine
    exit_code, _, _ = night(TIDEMARK_NIGHTLY_BARE="trixie", PATH=f"{with_id}:{os.environ['PATH']}")
    index = (out / "publish" / "index.html").read_text()
    assert exit_code == 77 and "README's commands on a bare trixie" in index and "no bare machine can be made: this is not root" in index, f"a bare machine: {exit_code}"
    code, _, _ = night("--accept")
    assert code == 0 and (out / "r2" / "last-good").read_text().strip() > second, "--accept takes the latest night"
    night(TIDEMARK_NIGHTLY_KEEP="1")
    assert sum(d.is_dir() and not d.is_symlink() for d in (out / "r2").iterdir()) == 1, "old nights go"


def test_mistakes(night):
    for words, extra, says in ((["--accept"], {"TIDEMARK_NIGHTLY_RANKS": "7"}, "no night to accept"),
                               ([], {"TIDEMARK_NIGHTLY_RANKS": "two"}, "not a number of ranks"),
                               ([], {"TIDEMARK_NIGHTLY_KEEP": "0"}, "not a number of nights"),
                               ([], {"TIDEMARK_NIGHTLY_SEEDS": "few"}, "not a number of seeds"),
                               ([], {"TIDEMARK_NIGHTLY_TORCHTITAN": "/nowhere"}, "is not a checkout of torchtitan"),
                               ([], {"TIDEMARK_NIGHTLY_SUITE": "/nowhere"}, "is not a checkout of PyTorch"),
                               ([], {"TIDEMARK_BIN": "/nowhere"}, "cannot be run"),
                               ([], {"TIDEMARK_NIGHT": "tonight"}, "is not a time"),
                               ([], {"TIDEMARK_NIGHTLY_OUT": "/proc/x"}, "cannot be made")):
        code, output, _ = night(*words, **extra)
        assert code in (2, 4) and says in output, f"{extra}: {code} {output}"


def test_two_at_once(work, night):
    (work / "out").mkdir()
    with subprocess.Popen(["flock", work / "out/.lock", "sleep", "3"]) as holder:
        subprocess.run(["sleep", "0.5"], check=True)
        code, output, _ = night()
        assert code == 3 and "another nightly runs" in output, f"two at once: {code} {output}"
        holder.wait()


def test_real(work, night):
    """Two nights of the real one, as small as can be."""
    publish = work / "out/publish/r2"
    real = {"TIDEMARK_BIN": BINARY, "TIDEMARK_NIGHTLY_RANKS": "2"}
    words = ("fsdp_prefetch/stash/smoke", "--schedule", "lagging", "--steps", "2")
    codes = [night(*words, **real)[0] for _ in range(2)]
    assert codes == [0, 0], f"two real nights: {codes}"
    assert "no difference" in (publish / "compare.txt").read_text(), "a night and the night before do not differ"
    assert "2 runs" in (publish / "history.html").read_text(), "both are in the history"
