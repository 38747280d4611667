"""Files that are no reports, or that were made to harm: each command refuses them in one line, in time and memory that its size explains, and writes
nothing outside of the folder. The files are made here, of drawn sizes and names; none is kept."""
import gzip
import json
import os
import pathlib
import random
import re
import signal
import sqlite3
import struct
import subprocess
import time
import zlib

import pytest
from command import BINARY, ROOT, environment, seed

GIB = 1 << 30
MOST_SECONDS, MOST_BYTES = 10, GIB  # of a file under 1 MiB
SEED = seed()
CORPUS = ROOT / "harness/cli/testing/corpus"


@pytest.fixture(autouse=True)
def drawn():
    print("TIDEMARK_TEST_SEED", SEED)
    return random.Random(SEED)


def spent(*words, **more):
    """(exit code, stdout, stderr, CPU seconds, bytes at the peak) of a command; one that does not end is ended after a minute."""
    with subprocess.Popen([BINARY, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment(**more)) as running:
        signal.alarm(90)
        out, err = running.stdout.read(), running.stderr.read()
        _, status, usage = os.wait4(running.pid, 0)
        signal.alarm(0)
        running.returncode = os.waitstatus_to_exitcode(status)
    return running.returncode, out, err, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def a_line(text):
    """One line without what a terminal obeys."""
    shown = text.decode()  # UTF-8
    assert shown.count("\n") == 1 and shown.endswith("\n"), shown
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown), repr(shown)
    return shown


def is_line(text):
    """Such a line, which does not have the text of a C++ exception."""
    shown = a_line(text)
    assert not re.search(r"stoi|stoul|basic_string|bad_alloc|filesystem error|terminate|what\(\)|json\.exception|vector::|map::at", shown), shown
    return shown


def bounded(*words, small=True, codes=(0, 1, 2), **more):
    code, out, err, seconds, peak = spent(*words, **more)
    print(words, code, f"{seconds:.1f} s", f"{peak >> 20} MiB", err.decode(errors="replace")[:300])
    assert code in codes, err
    if code == 2:
        is_line(err)
    assert seconds < MOST_SECONDS * (1 if small else 6) + 3 and peak < MOST_BYTES, (seconds, peak)
    return code, out, err


def memo_bomb(lists, times):
    """A pickle of one list that is shared by many: small on disk, large where sharing is expanded."""
    entry = b"}(\x8c\x06actionq\x01\x8c\x05allocq\x02\x8c\x04addrq\x03K\x01\x8c\x04sizeq\x04K\x01\x8c\x06streamq\x05K\x00u"
    trace = b"](" + entry + b"q\x10" + b"h\x10" * lists + b"eq\x11"
    return (b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces](" + trace + b"h\x11" * times + b"eu.")


def shared_report(width):
    report = json.loads((CORPUS / "report/scenario.json").read_text())
    name = f"{'x' * 40}"
    report["shared"] = [name]
    verdict = dict(report["trials"][0]["verdicts"][0]) if report["trials"][0]["verdicts"] else None
    report["shared"] += [[verdict] * width] if verdict else [[name] * width]
    report["trials"] = [{**report["trials"][0], "verdicts": "$1"} for _ in range(width)]
    return json.dumps(report)


# night: expands large files in every command; readers_test holds the limits of memory and time by day, hostile_long_texts a command's
def test_bombs(folder, drawn):
    """What is small and would be large: sharing in a pickle and in a report, a stack on a stack, gzip of numbers."""
    pathlib.Path("memo.pickle").write_bytes(memo_bomb(drawn.randint(60_000, 95_000), drawn.randint(90, 390)))
    for words in ("show", "show --format json", "convert --to perfetto --out a.trace", "convert --to json --out a.json"):
        verb, *flags = words.split()
        bounded("snapshot", verb, "memo.pickle", *flags)
    bounded("compare", "memo.pickle", "memo.pickle", codes=(0, 1, 2, 4))
    pathlib.Path("report.json").write_text(shared_report(drawn.randint(2_000, 4_000)))
    for words in (["report", "."], ["compare", "report.json", "report.json"], ["compare", "report.json", "report.json", "--format", "html"]):
        bounded(*words, codes=(0, 1, 2, 4))
    record = bytearray((CORPUS / "record/of.record").read_bytes())
    entries = b"\x01\x01f\x02\x01\x01\x01" + b"".join(b"\x03" + leb(i) + b"\x01" for i in range(drawn.randint(50_000, 60_000)))
    place = 128  # of the first moment's size: magic, six numbers, the phase, `now`
    assert struct.unpack_from("<Q", record, place) == (len(record) - 65536,)
    record[65536:] = entries
    struct.pack_into("<Q", record, place, len(entries))
    pathlib.Path("stack.record").write_bytes(record)
    bounded("snapshot", "show", "stack.record")
    for name in ("ints.json.gz", "rec.json.gz"):
        head = b'{"events": [' if name == "rec.json.gz" else b"["
        pathlib.Path(name).write_bytes(packed(head, drawn))
        assert pathlib.Path(name).stat().st_size < 1 << 20
        for verb in ("show", "replay"):
            bounded("snapshot", verb, name)
        bounded("compare", "--events", name, name, codes=(2,))


def sqlite_of(size, drawn):
    """A history whose texts are long."""
    with sqlite3.connect("made.sqlite") as database:
        pathlib.Path("made.sqlite").write_bytes((CORPUS / "history/of.sqlite").read_bytes())
        each = drawn.randint(50_000, 400_000)
        database.executemany("INSERT INTO series VALUES (?, ?, 'a', 'a', 'a', ?, 0, 0, 'bytes')", ((1_000 + i, str(i), "x" * each) for i in range(size // each)))
        database.executemany("INSERT INTO point VALUES (?, 1, 1.5)", ((1_000 + i,) for i in range(size // each)))
    database.close()
    return pathlib.Path("made.sqlite").read_bytes()


def safetensors_of(size):
    """A header of many tensors without elements."""
    metadata = json.loads((CORPUS / "numbers/of.safetensors").read_bytes()[8:].split(b"}")[0].decode() + "}}")
    header = json.dumps({**metadata, **{f"parameters/w{i}[0:0]": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(size // 70)}}).encode()
    return struct.pack("<Q", len(header)) + header


# night: makes files of many MiB and reads each in every command that takes it
def test_large(folder, drawn):
    """A file above 1 MiB that is made to harm costs at most 1 GiB of memory or 4 bytes for each of its own (100 where it is packed), and 13 seconds of a processor or one more for each MiB."""
    mib = drawn.randint(2, 12)
    program = json.loads((CORPUS / "report/program.json").read_text())
    trials = program["trials"] * (mib * 1_000_000 // len(json.dumps(program["trials"])))
    event = b"}(h\x10h\x11h\x12\x8a\x06\x00\x00\x00\x00\x10\x7fh\x13J\x00\x10\x00\x00h\x14K\x00u"
    names = b"".join(b"\x8c" + bytes([len(name)]) + name + b"q" + bytes([16 + i]) + b"0" for i, name in enumerate((b"action", b"alloc", b"addr", b"size", b"stream")))
    figures = ",".join(str(drawn.randrange(10**9)) for _ in range(mib * 300_000))
    contents = {
        "report.json": json.dumps({**program, "trials": trials}).encode(),
        "table.csv": b"step,loss\n" + b"".join(b"%d,0.5\n" % i for i in range(mib * 90_000)),
        "columns.csv": b"step," + b",".join(b"c%d" % i for i in range(mib * 60_000)) + b"\n1" + b",1" * (mib * 60_000),
        "ints.json": b"[" + b"0," * (mib * 500_000) + b"0]",
        "trace.pickle": b"\x80\x04" + names + b"}(\x8c\x08segments]\x8c\x0ddevice_traces](](" + event * (mib * 30_000) + b"eeu.",
        "sharing.pickle": memo_bomb(mib * 450_000, 3),
        "history.sqlite": sqlite_of(mib << 20, drawn),
        "config.toml": b"a = [" + b"0," * (mib * 500_000) + b"0]\n",
        "numbers/a.safetensors": safetensors_of(mib << 20),
    }
    for name, content in contents.items():
        pathlib.Path(name).parent.mkdir(exist_ok=True)
        pathlib.Path(name).write_bytes(content)
    assert all(len(content) > 1 << 20 for content in contents.values()), {name: len(content) for name, content in contents.items()}
    for name, words in (("report.json", "report ."), ("report.json", "compare report.json report.json"), ("table.csv", "compare losses table.csv table.csv"),
                        ("columns.csv", "compare losses columns.csv columns.csv"), ("ints.json", "snapshot show ints.json"), ("ints.json", "compare losses ints.json ints.json"),
                        ("trace.pickle", "snapshot show trace.pickle"), ("trace.pickle", "snapshot convert trace.pickle --to perfetto --out o --force"), ("sharing.pickle", "snapshot show sharing.pickle"),
                        ("history.sqlite", "history . --metric *"), ("history.sqlite", "history . --last-good"), ("config.toml", "fit --config config.toml"), ("numbers/a.safetensors", "compare --numbers . .")):
        size = len(contents[name]) * max(words.count(name), 1)
        code, _, err, seconds, peak = spent(*words.split())
        print(words, f"{size >> 20} MiB", code, f"{seconds:.1f} s", f"{peak >> 20} MiB", err.decode(errors="replace")[:200])
        lines = [line for line in err.splitlines(keepends=True) if b": reading " not in line]
        assert code in (0, 1, 2, 4) and (code != 2 or is_line(b"".join(lines))), err
        assert peak < max(GIB, size * (100 if name.endswith(".gz") else 4)) and seconds < MOST_SECONDS + 3 + size / (1 << 20), (words, size, seconds, peak)


def test_many_names(folder, drawn):
    """Columns of losses and counters of a benchmark, as many as fit into a MiB: no name is searched among all others."""
    number = drawn.randint(85_000, 95_000)
    pathlib.Path("columns.csv").write_text("step," + ",".join(f"c{i}" for i in range(number)) + "\n1" + ",1" * number)
    rows = json.loads((CORPUS / "benchmarks/three.json").read_text())
    rows["benchmarks"][0].update({f"peak_{i}": 1 for i in range(number // 2)})
    pathlib.Path("rows.json").write_text(json.dumps(rows))
    for name, words in (("columns.csv", ["compare", "losses"]), ("rows.json", ["compare"])):
        assert pathlib.Path(name).stat().st_size < 1 << 20
        bounded(*words, name, name, codes=(0,))


def packed(head, drawn):
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    part, out = b"0," * 500_000, [packer.compress(head)]
    for _ in range(drawn.randint(200, 300)):
        out.append(packer.compress(part))
    return b"".join([*out, packer.compress(b"0]"), packer.flush()])


def leb(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def test_deep(folder, drawn):
    """Brackets in brackets, in the place of every file that is JSON or TOML: what goes down by recursion never begins."""
    depth = drawn.randint(1_500, 250_000)
    numbers = "numbers/a.safetensors"
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        text = opening * depth + drawn.choice(["", "1", "1" + closing * depth])
        for file, words in (("report.json", "report ."), ("report.json", "compare . ."), ("report.json", "compare --events report.json report.json"), ("report.json", "compare losses report.json report.json"),
                            ("report.json", "snapshot show report.json"), ("report.json", "fit --gpu ./report.json --vary a=1,2 -- true {a}"), ("tests.jsonl", "report ."), ("ranks/job", "report ."),
                            ("unfinished/plan", "report ."), ("config.toml", "fit --config config.toml"), ("pyproject.toml", "exec -- /bin/true"), (numbers, "compare --numbers . .")):
            place = folder / f"deep{len(list(folder.iterdir()))}"
            (place / file).parent.mkdir(parents=True)
            content = text + "\n" if file == "tests.jsonl" else f"x = {text}" if file.endswith(".toml") else text
            (place / file).write_bytes((struct.pack("<Q", len(text)) if file == numbers else b"") + content.encode())
            os.chdir(place)
            bounded(*words.split(), codes=(2,))
        for file, words in (("config.toml", "fit --config config.toml"), ("pyproject.toml", "exec -- /bin/true")):
            for key in (f"{'.'.join('a' * depth)} = 1\n", f"[{'.'.join('a' * depth)}]\nb = 1\n"):
                (place / file).write_text(key)
                bounded(*words.split(), codes=(2,))
            (place / file).unlink()
        judged = subprocess.run([BINARY, "judge"], input=text.encode(), capture_output=True, env=environment(), check=False)
        assert judged.returncode == 2, judged
        is_line(judged.stderr)
    os.chdir(folder)


def test_not_files(folder):
    """A pipe without a writer, a device and a folder in the place of any file that is read."""
    os.mkfifo("pipe")
    for name, target in (("zero", "/dev/zero"), ("folder", folder)):
        pathlib.Path(name).symlink_to(target)
    for name in ("pipe", "zero", "folder"):
        place = pathlib.Path(f"of-{name}")
        place.mkdir()
        (place / "report.json").symlink_to(folder / name)
        (place / "history.sqlite").symlink_to(folder / name)
        for words in (["report", place], ["report", place, "--json"], ["compare", place, place], ["compare", "losses", name, name], ["compare", "--events", name, name],
                      ["snapshot", "show", name], ["snapshot", "replay", name], ["history", place], ["history", place, "--last-good"],
                      ["fit", "--config", name], ["fit", "--gpu", f"./{name}", "--vary", "a=1,2", "--", "true", "{a}"], ["fit", "--prices", name, "--vary", "a=1,2", "--", "true", "{a}"]):
            begun = time.monotonic()
            code, _, err, _, peak = spent(*words)
            assert code in (2, 3) and time.monotonic() - begun < 30 and peak < GIB // 4, (words, code, err)
            is_line(err)


def evil(folder, victim, name):
    """A report's folder with a link in the place of `name`."""
    folder.mkdir(parents=True)
    (folder / "report.json").write_text((CORPUS / "report/scenario.json").read_text())
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).symlink_to(victim)


def test_links(folder, drawn):
    """A folder from elsewhere writes nothing outside of itself, whatever stands for a link in it."""
    home = folder / "home"
    home.mkdir()
    victim = home / ".bashrc"
    victim.write_text("mine\n")
    before = {file: file.read_bytes() for file in home.rglob("*") if file.is_file()}
    written = ["summary.md", "report.html", "junit.xml", "benchmark.json"]
    for name in [*written, *(f"{one}.partial" for one in written)]:
        evil(folder / "to-file" / name, victim, name)
        bounded("report", folder / "to-file" / name, codes=(0, 2))
    for name in ("loss", "trace", "snapshot", "details", "unfinished", "ranks"):
        evil(folder / "to-folder" / name, home, name)
        bounded("report", folder / "to-folder" / name, codes=(0, 2))
    assert {file: file.read_bytes() for file in home.rglob("*") if file.is_file()} == before


def test_history_of_another(folder, drawn):
    """Views, triggers and generated rows in the place of a history's tables."""
    for number, tables in enumerate((
            "CREATE VIEW run AS WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM r) SELECT i AS key, i AS id, i AS started, i AS folder, i AS tidemark, i AS git, i AS torch, i AS device, i AS host, i AS argv, i AS duration_ns, i AS exit_code, i AS passed, i AS failed, i AS skipped FROM r;"
            "CREATE TABLE series(key); CREATE TABLE point(series, run, value);",
            "CREATE TABLE run(key, id, started, folder); CREATE VIEW series AS SELECT 1; CREATE TABLE point(a);",
            "CREATE TABLE run(x); CREATE TABLE series(x); CREATE VIEW point AS WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM r) SELECT i AS series, i AS run, i AS value FROM r;")):
        place = pathlib.Path(f"h{number}")
        place.mkdir()
        with sqlite3.connect(place / "history.sqlite") as database:
            database.executescript(f"PRAGMA application_id = {0x7469646d}; PRAGMA user_version = 1; {tables}")
        database.close()
        for words in (["history", place], ["history", place, "--metric", "*"], ["history", place, "--last-good"], ["history", place, "--prune", "1"]):
            bounded(*words, codes=(2,))


def words_of(drawn, length):
    alphabet = ["\x1b[31m", "\x1b]0;title\x07", "\n", "`", "\u009b", "\u2028", "<img src=x onerror=alert(1)>", "|", "::error::", "a", " ", "%", "\\", "é", "\udcff"]
    return "".join(drawn.choice(alphabet) for _ in range(length))


def test_texts(folder, drawn):
    """Texts of a program and of files in the terminal, in errors and in Markdown: nothing that a terminal obeys, no line and no markup of theirs."""
    for number in range(12):
        place = pathlib.Path(f"t{number}")
        place.mkdir()
        report = json.loads((CORPUS / "report/program.json").read_text())
        trial = report["trials"][0]
        text = words_of(drawn, drawn.randint(5, 40)).encode(errors="surrogatepass").decode(errors="replace")
        trial["program"]["words"] = ["python3", text]
        trial["scenario"], report["run"]["host"] = text, text
        (place / "report.json").write_text(json.dumps(report))
        for words in (["report", place], ["compare", place, place]):
            _, out, err, _, _ = spent(*words)
            for shown in (out.decode(), err.decode()):
                assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028]", shown), repr(shown)
        summary = place / "summary.md"
        if summary.exists():
            assert "<img" not in re.sub(r"(`+).*?\1", "", summary.read_text()), summary.read_text()
        name = f"no{text}".replace("/", "").replace("\0", "")[:60]
        for words in (["report", name], ["snapshot", "show", name], ["open", name], ["history", name], ["compare", name, name]):
            code, _, err, _, _ = spent(*words)
            assert code == 2, err
            is_line(err)


def test_long_texts(folder, drawn):
    """A text of a program may be as long as it likes."""
    for length in (drawn.randint(30_000, 60_000), drawn.randint(60_000, 400_000)):
        report = json.loads((CORPUS / "report/program.json").read_text())
        alive = json.dumps(report).replace("train.py", "x" * length + " train.py")
        pathlib.Path("long.json").write_text(alive)
        bounded("compare", "long.json", "long.json", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY="summary.md", codes=(0, 1, 2, 4))
        scenario = json.loads((CORPUS / "report/scenario.json").read_text())
        for variant in scenario["trials"][0]["variants"]:
            variant["error"] = "out of memory. Tried to allocate " + "9" * length
        pathlib.Path("error").mkdir(exist_ok=True)
        pathlib.Path("error/report.json").write_text(json.dumps(scenario))
        bounded("report", "error", codes=(0, 2))


def test_variables(drawn):
    """A wrong value of a variable is one line and exit code 2, in every command, before anything starts."""
    commands = (["run", "fsdp_prefetch/stash/smoke"], ["list"], ["exec", "--", "/bin/true"], ["fit", "--vary", "a=1,2", "--", "/bin/true", "{a}"], ["history", "."], ["bench"], ["advise", "--", "/bin/true"])
    wrong = {"UNKNOWN": ["yes", "\x1b[31m"], "KNOWN_LIMIT": ["many", "-1", "1e99"], "PROFILES": ["/nosuch"], "PLACEMENT": ["moon", "wsl2:1,3"], "DEVICES": ["65", "-1", "x"], "SEED": ["-3", "a"],
             "CAPACITY": ["0", "much"], "SCHEDULE": ["late"], "MODE": ["real"], "RACES": ["perhaps"], "TIMEOUT": ["0", "x"], "NCCL_WAITS": ["2"], "NCCL_ALONE": ["x"]}
    for name, values in wrong.items():
        for value in values:
            words = drawn.choice(commands)
            code, out, err, _, _ = spent(*words, **{f"TIDEMARK_{name}": value})
            assert (code, out) == (2, b""), (words, name, value, code, err)
            assert f"TIDEMARK_{name}=" in is_line(err)


def test_variables_of_flags(drawn):
    """What a flag of exec takes, its variable takes too, before the program and for the device."""
    right = {"CAPACITY": ["6GiB", "6442450944"], "KNOWN_LIMIT": ["1MiB", "256KiB"], "DEVICES": ["1", "64"], "TIMEOUT": ["5"], "SCHEDULE": ["lagging,instant"], "RACES": ["1", "0"]}
    for flag in ("mode", "schedule", "races"):
        refused = spent("exec", f"--{flag}", "nosuch", "--", "/bin/true")[2].decode()
        words = re.search(r"not in \{([\w,]+)\}", refused)
        assert words, refused
        right.setdefault(flag.upper(), []).extend(words[1].split(","))
    assert len(right["MODE"]) == 3 and len(right["RACES"]) == 4, right
    for name, values in right.items():
        for value in values if len(values) < 3 else drawn.sample(values, 3):
            code, _, err, _, _ = spent("exec", "--", "/bin/true", **{f"TIDEMARK_{name}": value})
            assert code == 0 and b"no virtual device" not in err, (name, value, err)


def test_closed_descriptors(folder):
    """A command that is started without any standard descriptor ends, as others do."""
    script = f"exec {BINARY} run ddp_bucket_view/bucket_view/smoke --mode shapes --schedule instant --ranks 2 --out out <&- >&- 2>&-"
    done = subprocess.run(["sh", "-c", script], env=environment(), timeout=180, check=False)
    assert done.returncode == 0 and pathlib.Path("out/report.json").exists()
