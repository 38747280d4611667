#!/usr/bin/env python3
"""nightly_test.py TIDEMARK: ci/nightly on a stand-in for tidemark that runs nothing: exit codes, what is compared with what,
what is published, what a second night or a broken one leaves. Then one night of the real one, as small as can be."""
import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness" / "cli"))
from checks import check, executable, in_scratch  # noqa: E402

NIGHTLY = Path(__file__).resolve().parent / "nightly"
STAND_IN = """#!/usr/bin/env bash
echo "$*" >>"$CALLS"
case $1 in
run) out=${@: -1}
     [ "${NO_REPORT:-}" ] || { mkdir -p "$out"; for f in report.html report.json summary.md junit.xml benchmark.json; do echo "$f" >"$out/$f"; done; }
     exit "${RUN_CODE:-0}" ;;
compare) out=${@: -1}; echo "<regression> & more" >"$out"; exit "${COMPARE_CODE:-0}" ;;
history) echo history >"${@: -1}" ;;
esac
"""
nights = itertools.count(1)


def test(work: Path) -> None:
    calls, out = work / "calls", work / "out"
    stand_in = executable(work / "tidemark", STAND_IN)
    executable(work / "fsdp_prefetch_clocks_test", '#!/bin/sh\necho "$TIDEMARK_TEST_SEEDS <clocks>"\nexit ${RANDOM_CODE:-0}\n')

    def night(*words: str, **extra: str) -> tuple[int, str, list[str]]:
        calls.write_text("")
        env = {**os.environ, "CALLS": str(calls), "TIDEMARK_BIN": str(stand_in), "TIDEMARK_NIGHTLY_OUT": str(out),
               "TIDEMARK_NIGHTLY_RANKS": "2 3", "TIDEMARK_NIGHTLY_SEEDS": "0", "TIDEMARK_NIGHT": f"20260101-{next(nights):06}", **extra}
        run = subprocess.run([NIGHTLY, *words], env=env, capture_output=True, text=True, timeout=200, check=False)
        return run.returncode, run.stderr, calls.read_text().splitlines()

    code, _, called = night()
    check(code == 0, f"the first night is good: {code}")
    check([c.split()[0] for c in called] == ["run", "history"] * 2, f"the first night compares with nothing: {called}")
    check("--suite nightly --ranks 2" in called[0] and "--ranks 3" in called[2], "both worlds run the nightly suite")
    first = (out / "r2" / "last-good").read_text().strip()
    check((out / "publish" / "r3" / "report.html").exists(), "published")
    check("no good night yet" in (out / "publish" / "index.html").read_text(), "the index says that nothing was compared")

    code, _, called = night("--schedule", "lagging", TIDEMARK_NIGHTLY_THRESHOLD="memory=1KiB")
    check(code == 0 and sum(c.startswith("compare") for c in called) == 6, "the second night compares, in three formats")
    check(any(c.startswith("report ") and f"--base {out}/r2/{first}" in c for c in called), f"the page has the figures of both nights: {called}")
    check("--schedule lagging" in called[0], "arguments go to tidemark run")
    check(f"/r2/{first} " in called[1] and "--threshold memory=1KiB" in called[1] and "--allow-missing" not in called[1], called[1])
    second = (out / "r2" / "last-good").read_text().strip()
    check(second > first, "the good night moves on")
    check("&lt;regression&gt; &amp; more" in (out / "publish" / "index.html").read_text(), "the comparison is in the index, as text")

    for extra, expected in (({"COMPARE_CODE": "1"}, 1), ({"RUN_CODE": "1"}, 1), ({"RUN_CODE": "3"}, 3), ({"COMPARE_CODE": "4"}, 4),
                            ({"RUN_CODE": "1", "COMPARE_CODE": "2"}, 2), ({"NO_REPORT": "1"}, 3), ({"RUN_CODE": "137"}, 3)):
        code, _, _ = night(**extra)
        check(code == expected, f"{extra}: exit code {code}, not {expected}")
        check((out / "r2" / "last-good").read_text().strip() == second, f"{extra}: the good night stays the good one")
        check((out / "publish" / "index.html").exists(), f"{extra}: published all the same")
    for code, expected in (("0", 0), ("1", 1), ("134", 3)):
        found, _, _ = night(TIDEMARK_NIGHTLY_SEEDS="20", RANDOM_CODE=code)
        check(found == expected, f"clocks that end with {code}: exit code {found}, not {expected}")
        check("20 &lt;clocks&gt;" in (out / "publish" / "index.html").read_text(), "what they say is in the index, as text")
    checkout, python = work / "titan", executable(work / "python", '#!/bin/sh\necho "$2 <figures>"\nexit $FIGURES_CODE\n')
    checkout.mkdir()
    (checkout / "train.py").write_text("")
    for code, expected in (("0", 0), ("1", 1), ("2", 2)):
        found, _, _ = night(TIDEMARK_NIGHTLY_TORCHTITAN=str(checkout), TIDEMARK_PYTHON=str(python), FIGURES_CODE=code)
        check(found == expected, f"figures that end with {code}: exit code {found}, not {expected}")
        check(f"{checkout} &lt;figures&gt;" in (out / "publish" / "index.html").read_text(), "the figures are in the index, as text")
    both = {"TIDEMARK_NIGHT": "20251231-000001", "TIDEMARK_NIGHTLY_SEEDS": "20", "TIDEMARK_NIGHTLY_TORCHTITAN": str(checkout), "FIGURES_CODE": "0"}
    killed, _, _ = night(**both, TIDEMARK_PYTHON=str(executable(work / "killer", "#!/bin/sh\nkill -9 $PPID\n")))
    check(killed == -9, f"a night that is killed in its second part: {killed}")
    found, said, _ = night(**both, TIDEMARK_PYTHON=str(python), RANDOM_CODE="1")
    index = (out / "publish" / "index.html").read_text()
    check(found == 0 and said.count("had ended before") == 1, f"the first part is taken over, with its exit code: {found} {said}")
    check("20 &lt;clocks&gt;" in index and f"{checkout} &lt;figures&gt;" in index, "the index has both parts")
    check(not (out / "20251231-000001.parts").exists(), "nothing of a night that ended is kept for another")
    found, _, _ = night(TIDEMARK_NIGHTLY_SCALE="pp7")
    check(found == 2 and "no layout has pp7 in its name" in (out / "publish" / "index.html").read_text(), f"a layout that is not there: exit code {found}")
    code, _, _ = night("--accept")
    check(code == 0 and (out / "r2" / "last-good").read_text().strip() > second, "--accept takes the latest night")
    night(TIDEMARK_NIGHTLY_KEEP="1")
    check(sum(d.is_dir() and not d.is_symlink() for d in (out / "r2").iterdir()) == 1, "old nights go")

    for words, extra, says in ((["--accept"], {"TIDEMARK_NIGHTLY_RANKS": "7"}, "no night to accept"),
                               ([], {"TIDEMARK_NIGHTLY_RANKS": "two"}, "not a number of ranks"),
                               ([], {"TIDEMARK_NIGHTLY_KEEP": "0"}, "not a number of nights"),
                               ([], {"TIDEMARK_NIGHTLY_SEEDS": "few"}, "not a number of seeds"),
                               ([], {"TIDEMARK_NIGHTLY_TORCHTITAN": "/nowhere"}, "is not a checkout of torchtitan"),
                               ([], {"TIDEMARK_NIGHTLY_SUITE": "/nowhere"}, "is not a checkout of PyTorch"),
                               ([], {"TIDEMARK_BIN": "/nowhere"}, "cannot be run"),
                               ([], {"TIDEMARK_NIGHT": "tonight"}, "is not a time"),
                               ([], {"TIDEMARK_NIGHTLY_OUT": "/proc/x"}, "cannot be made")):
        code, said, _ = night(*words, **extra)
        check(code in (2, 4) and says in said, f"{extra}: {code} {said}")
    with subprocess.Popen(["flock", out / ".lock", "sleep", "3"]) as holder:
        subprocess.run(["sleep", "0.5"], check=True)
        code, said, _ = night()
        check(code == 3 and "another nightly runs" in said, f"two at once: {code} {said}")
        holder.wait()

    if len(sys.argv) > 1:
        shutil.rmtree(out)
        real = {"TIDEMARK_BIN": sys.argv[1], "TIDEMARK_NIGHTLY_RANKS": "2"}
        words = ("fsdp_prefetch/stash/smoke", "--schedule", "lagging", "--steps", "2")
        codes = [night(*words, **real)[0] for _ in range(2)]
        check(codes == [0, 0], f"two real nights: {codes}")
        check("no difference" in (out / "publish" / "r2" / "compare.txt").read_text(), "a night and the night before do not differ")
        check("2 runs" in (out / "publish" / "r2" / "history.html").read_text(), "both are in the history")


if __name__ == "__main__":
    in_scratch(test, "the nightly holds")
