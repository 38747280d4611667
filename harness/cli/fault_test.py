"""One rank of three breaks off in every collective of a training step, in every way there is. Whatever it
does, the run ends on all ranks within the time-out, the report is written and says who stopped where and what the others waited
in, and nothing is left behind: no process, no shared memory, no folder. Which collectives a step has is asked of a run."""
import os
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from command import BINARY, drawn, environment, processes_of, read

TIMEOUT = 2  # seconds that a rank waits for another
MARGIN = 25  # more: start, the ranks' farewell (three seconds twice), and a machine that does other things besides
RANKS, BROKEN = 3, 1
STEP = ["fsdp_prefetch/record_stream", "fsdp_prefetch/separate_streams", "fsdp_prefetch/stash", "fsdp_prefetch/per_collective",
        "fsdp_prefetch/current_stream_sync", "fsdp_prefetch/rate_limiter", "fsdp_prefetch/two_buffers"]
OTHERS = ["zero_bubble_detach/retained"]  # for its kinds of calls
CALL = r"[a-z_]+ \d+ of \d+ x \w+ on communicator \d+ of 3 ranks, its call \d+"


class Outcome:
    """A run in a folder of its own, which also holds its temporary files and its shared memory."""

    root = Path()

    def __init__(self, name, patterns, fault="", *words, timeout=TIMEOUT):
        self.name, self.folder = name, self.root / name
        shared, temporary = self.folder / "shm", self.folder / "tmp"
        shared.mkdir(parents=True)
        temporary.mkdir()
        out = self.folder / "out"
        command = [BINARY, "run", *patterns, "--size", "smoke", "--steps", "2", "--ranks", str(RANKS), "--mode", "shapes", "--schedule",
                   "instant", "--timeout", str(timeout), "--out", str(out), *words]
        given = environment(TMPDIR=str(temporary), OMPI_MCA_btl_vader_backing_directory=str(shared), OMPI_MCA_btl_sm_backing_directory=str(shared), TIDEMARK_HISTORY="off",
                            **({"TIDEMARK_FAULT": fault} if fault else {}))
        begin = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, env=given, timeout=200, check=False)
        self.seconds, self.code, self.err = time.monotonic() - begin, done.returncode, done.stderr
        self.report = read(out) if (out / "report.json").exists() else None
        self.variants = {v["name"]: v for v in self.report["trials"][0]["variants"]} if self.report else {}
        self.left = [str(p.relative_to(self.folder)) for place in (shared, temporary) for p in place.rglob("*")]
        while processes_of(out) and time.monotonic() < begin + self.seconds + 5:  # a killed process takes a moment to end
            time.sleep(0.1)
        self.left += [f"process {p}" for p in processes_of(out)]
        self.sleeping = 0

    def __str__(self):
        return f"{self.name}: code {self.code} after {self.seconds:.1f} s; {self.err.strip()[-300:]}; {[v['error'] for v in self.variants.values()]}"

    def ended(self, code):
        assert self.code == code, f"{self.name}: exit code {code}: {self}"
        assert self.seconds < TIMEOUT + MARGIN + self.sleeping, f"{self.name}: ends in time: {self}"
        assert self.report, f"{self.name}: writes report.json: {self}"
        assert not self.left, f"{self.name}: leaves nothing behind, but {self.left}: {self}"


def kinds(variant):
    """How often a variant's rank 1 called what, in all steps."""
    return variant["ranks"][BROKEN]["counters"]["collectives"]


def about(error, rank):
    """What an error says of a rank whose place and operators it knows."""
    match = re.search(rf"rank {rank} was in [^;]*", error)
    return match.group() if match else ""


def dies(action, nth, what, patterns, words, position=0):
    """kill, exit and hang: the process or its time is gone, and the launching process writes the report. `position`: which
    call of a step it is, where that is known."""
    outcome = Outcome(f"{what}-{action}".replace(" ", "-"), patterns, f"rank={BROKEN} {nth} do={action}", *words)
    outcome.ended(3)
    error = next(iter(outcome.variants.values()))["error"]
    for rank in range(RANKS):
        text = about(error, rank)
        begun = ", step 0, " in text and re.search(r"last operators \w", text)
        before = rank != BROKEN and text != "" and ", step" not in text  # that rank had not come so far when this one went
        assert begun or before, f"{outcome.name}: knows where rank {rank} was: {outcome}"
        if rank == BROKEN:
            assert "waiting in" not in text, f"{outcome.name}: rank {rank} waits for no other: {outcome}"
            assert position < 2 or re.search(f", after {CALL}", text), f"{outcome.name}: what rank {rank} did last: {outcome}"
        elif action == "hang" and position > 0:
            assert re.search(rf"waiting in (?={CALL})[^(]*its call {position} \(", text), f"{outcome.name}: what rank {rank} waited in: {outcome}"
    if action == "hang":  # the others ran into it, and said so in the end
        assert f"rank {BROKEN} has not arrived" in error, f"{outcome.name}: who was waited for: {outcome}"
    if action == "kill":
        assert "signal 9" in error, f"{outcome.name}: how it ended: {outcome}"


def breaks_off(action, plan, what):
    """throw and oom: an exception, once in each variant, in another call each time. The others notice, and every variant runs."""
    outcome = Outcome(what, STEP, ";".join(f"rank={BROKEN} nth={nth} do={action}" for nth, _ in plan), "--set", "layers=1")
    outcome.ended(3)
    assert len(outcome.variants) == len(STEP), f"{what}: every variant has run: {outcome}"
    says = "injected fault in" if action == "throw" else "CUDA out of memory. Tried to allocate 1048576.00 GiB"
    for (_, position), (name, variant) in zip(plan, outcome.variants.items()):
        error = variant["error"]
        assert f"rank {BROKEN}: {says}" in error and "the warm-up" not in error, f"{what}: {name} breaks off in call {position}: {error}"
        after = re.search(rf"rank {BROKEN}: [^\[]*\[in fsdp_prefetch/smoke/instant {name}, step 0(, after {CALL})?", error)
        assert after and (position == 1 or after.group().endswith(f"its call {position - 1}")), f"{what}: {name}, where: {error}"
        assert error.count("last operators ") == RANKS, f"{what}: {name}, the last operators of every rank: {error}"
        for rank in range(RANKS):
            if rank != BROKEN:
                text = re.search(rf"; rank {rank}: ([^\[]*)\[", error)
                assert (text and f"rank {BROKEN} has aborted the communicator while rank" in text.group(1) and re.search(
                    r"waits for it in nccl\w+\(count \d+, .*\), (call|message) \d+ on communicator", text.group(1))), \
                    f"{what}: {name}, what rank {rank} waited in: {error}"
    if action == "oom":
        snapshots = sorted(p.name for p in (outcome.folder / "out" / "oom").iterdir())
        wanted = sorted(f"fsdp_prefetch-smoke-shapes-instant-{name}-rank{BROKEN}.pickle" for name in outcome.variants)
        assert snapshots == wanted, f"{what}: a snapshot of each moment"


def leader_hangs():
    """Rank 0 takes no message any more, however long what the others have to tell it is."""
    outcome = Outcome("leader-hangs", STEP[:1], "rank=0 call=all_gather nth=2 do=hang")
    outcome.ended(3)
    error = next(iter(outcome.variants.values()))["error"]
    assert "rank 0 has not arrived at the end of the variant in time" in error, f"{outcome.name}: who was waited for: {outcome}"


def slows(calls):
    plan = ";".join(f"rank={BROKEN} nth={nth} do=slow" for nth in calls)
    outcome = Outcome("slow", STEP[:1], plan, "--set", "layers=1", timeout=60)
    outcome.sleeping = 2 * len(calls)
    outcome.ended(0)
    assert outcome.seconds > 2 * len(calls), f"slow: it was: {outcome}"


# holds: harness/README.md, Faults on demand
def test_fault(folder):
    Outcome.root, begin = folder, time.monotonic()
    with ThreadPoolExecutor(3) as pool:
        plain = pool.submit(Outcome, "default", STEP)
        small = pool.submit(Outcome, "one-layer", STEP, "", "--set", "layers=1")
        other = pool.submit(Outcome, "other", OTHERS)
        plain, small, other = plain.result(), small.result(), other.result()
        for outcome in (plain, small, other):
            outcome.ended(0)
        # A variant makes a communicator and warms up in the default size, then again in its own.
        warm = {name: 1 + sum(kinds(v).values()) for name, v in plain.variants.items()}
        step = {name: sum(kinds(v).values()) // 2 for name, v in small.variants.items()}
        first = next(iter(warm))
        calls = step[first]
        assert 5 < calls <= len(STEP) and set(step.values()) == {calls}, f"a step has {step} collectives"
        tasks = []
        before, plan = 0, []
        for position, name in zip(range(1, calls + 1), warm):  # what has been called when variant `name` breaks off
            plan.append((before + warm[name] + 1 + position, position))
            before = plan[-1][0]
        for action in ("throw", "oom"):
            tasks.append((breaks_off, action, plan, action))
        tasks.append((slows, [warm[first] + 1 + position for position in range(1, calls + 1)]))
        tasks.append((leader_hangs,))
        for position in range(1, calls + 1):
            for action in ("hang", "kill", "exit"):
                tasks.append((dies, action, f"nth={warm[first] + 1 + position}", f"call {position}", STEP[:1], ["--set", "layers=1"], position))
        new = sorted(set(kinds(other.variants["retained"])) - set(kinds(small.variants[first])))
        for kind in new:
            for action in ("hang", "kill", "exit"):
                tasks.append((dies, action, f"call={kind} nth=1", kind, OTHERS, []))
        tasks = drawn(tasks)
        for done in [pool.submit(*task) for task in tasks]:
            done.result()
    print(f"{len(tasks) + 3} runs in {time.monotonic() - begin:.0f} s")
    if "TIDEMARK_TEST_DRAW" in os.environ:
        return
    print(f"COUNTED {calls * 6} Faults: a rank throws, runs out of memory, is slow, hangs, is killed, exits, in each of the {calls} collectives of a step")
    print(f"COUNTED {3 * len(new)} Faults: a rank hangs, is killed, exits, in the other kinds of calls ({', '.join(new)})")
