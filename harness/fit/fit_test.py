"""The answers of `tidemark fit` and `advise` for small programs of the torch that can be imported from SITE."""
import gzip
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testing.said import CHANGED, FOLDER, MIB, Said, TIDEMARK, TRAIN, exec_peaks, fit, script


# night: runs every value to compare it with the search; fit_search_test holds the search by day
def test_brute():
    """The answer for two GPUs is what running every value at their capacities gives."""
    train, count = script("train.py", TRAIN), 5
    profile = json.loads((TIDEMARK.parent / "virtual/profiles/t4-16g.json").read_text())
    for name, total in (("small", 120 * MIB), ("middle", 151 * MIB)):
        profile["name"] = name
        profile["torch"] = {key: {"value": value, "source": "of the test"} for key, value in (("total_bytes", total), ("context_bytes", MIB), ("nccl_bytes", 0))}
        (FOLDER / f"{name}.json").write_text(json.dumps(profile))
    result = fit("--vary", f"batch=1..{count}", "--gpu", "./small.json,./middle.json", "--", "python3", train, "{batch}").ends(0)
    capacities, values = (("./small.json", 119 * MIB), ("./middle.json", 150 * MIB)), range(1, count + 1)
    with ThreadPoolExecutor(2) as pool:
        runs = pool.map(lambda each: exec_peaks(*each[0], "python3", train, each[1]), [(one, value) for one in capacities for value in values])
        by_force = {gpu: [(value, *next(runs)) for value in values] for gpu, _ in capacities}
    for answer in result.record["answers"]:
        value, _, peaks = [row for row in by_force[answer["gpu"]] if row[1] == 0 and row[2]["ooms"] == 0][-1]
        retries, reserved = peaks["retries"], peaks["reserved"]
        result.check(1 < value < count, "the capacity cuts the range")
        run = answer["run"]
        result.check(answer["verdict"] == "fits" and answer["largest"] == str(value) and run["reserved"] == reserved and run["retries"] == retries,
                   f"brute force says {value}, {reserved} bytes, {retries} retries for {answer['gpu']}; said {answer['largest']}, {run['reserved']}")
        result.check(answer["next"] == str(value + 1) and answer["missing_bytes"] > 0, "the next value and what it needs")
    result.check(len(result.record["runs"]) < 2 * count, "fewer runs than by force")


# night: a search in four dimensions; python_fit and fit_refused search one by day
def test_grid():
    """Lists are a grid, of words, environment variables and keys of files; a file with prices names the cheapest."""
    train = script("grid.py", "import json, os, sys, tomllib, torch\nwith open(sys.argv[1], 'rb') as file: config = tomllib.load(file)\n"
                   "size = config['model']['width'] * int(os.environ['DEPTH'])\nx = torch.empty(size << 20, dtype=torch.uint8, device='cuda')\n")
    (FOLDER / "config.toml").write_text("# kept\n[model]\nwidth = 100\n")
    (FOLDER / "prices").write_text("t4-16g 0.5  # an hour\nl4-24g 0.8\n")
    result = fit("--vary", "env:DEPTH=1,100,200", "--vary", "config.toml:model.width=100,110", "--gpu", "l4-24g,t4-16g", "--prices", "prices",
               "--", "python3", train, "config.toml").ends(0, "cheapest GPU that fits, of those with a price: t4-16g, 0.5 an hour")
    verdicts = {(answer["values"]["DEPTH"], answer["values"]["model.width"], answer["gpu"]): answer["verdict"] for answer in result.record["answers"]}
    result.check(len(verdicts) == 12, "twelve combinations")
    for (depth, width, gpu), verdict in verdicts.items():
        capacity = next(each["total_bytes"] - each["context_bytes"] for each in result.record["gpus"] if each["name"] == gpu)
        result.check(verdict == ("fits" if int(depth) * int(width) * MIB <= capacity else "does not fit"), f"{depth} x {width} on {gpu}")
    result.check((FOLDER / "config.toml").read_text() == "# kept\n[model]\nwidth = 100\n", "the file stays as it was")
    (FOLDER / "fit.toml").write_text(f'gpu = ["t4-16g"]\ncommand = ["python3", "{train}", "config.toml"]\n[vary]\n"env:DEPTH" = [1, 200]\n')
    result = fit("--config", "fit.toml").ends(0)
    result.check([answer["verdict"] for answer in result.record["answers"]] == ["fits", "does not fit"], "the command of fit.toml")
    none = fit("--vary", "env:DEPTH=300,301", "--gpu", "t4-16g", "--", "python3", train, "config.toml").ends(1, "nothing fits t4-16g: the nearest, DEPTH 300")
    missing = 300 * 100 * MIB - (none.record["gpus"][0]["total_bytes"] - none.record["gpus"][0]["context_bytes"])
    result.check(none.record["answers"][0]["missing_bytes"] == missing, "by how much the nearest misses")


def test_input():
    train = script("train.py", TRAIN)
    command = ("--", "python3", train, "{batch}")
    Said("--vary", "batch=1..8", "--", "python3", train, "1").refuses("no word of the command has {batch}")
    Said("--vary", "batch=9..8", *command).refuses("the range is empty: 9 is above 8")
    Said("--vary", "batch=", *command).refuses("a value is empty")
    Said("--vary", "batch=0..8:x2", *command).refuses("the values do not grow")
    Said("--vary", "batch=1..8", "--vary", "x=1..3", "--", "python3", train, "{batch}", "{x}").refuses("batch and x are both ranges")
    Said("--vary", "batch=1..8", "--gpu", "h100", *command).refuses("no GPU profile 'h100'", "h100-80g")
    Said("--vary", "batch=1..8", "--gpu", "t4-16g,t4-16g", *command).refuses("names t4-16g twice")
    Said("--vary", "batch=1..8", "--frobnicate", "3", *command).refuses("--frobnicate is not a flag of fit (tidemark fit --help lists flags)")
    Said("--report", "x", *command, command="advise").refuses("--report is not a flag of advise (tidemark advise --help lists flags)")
    Said("--vary", "batch=1..8", "--gpu", "t4-16g,l4-24g", "--capacity", "1GiB", *command).refuses("--capacity is that of one GPU")
    Said("--vary", "batch=1..8", "--reserve", "90GiB", *command).refuses("--reserve leaves nothing of h100-80g")
    Said("--vary", "nothing.toml:a.b=1,2", *command).refuses("nothing.toml is not a file")
    (FOLDER / "a.toml").write_text("a = 1\n")
    Said("--vary", "a.toml:b=1,2", "--", "python3", train, "a.toml").refuses("a.toml: has no key b")
    Said("--vary", "batch=1..8", "--", "nowhere", "{batch}").refuses("nowhere cannot be started")
    Said("--vary", "batch=1..8", *command, TIDEMARK_MODE="abacus").ends(2, "abacus")
    Said("--vary", "batch=1..8").refuses("no command")
    Said(*command).refuses("nothing varies")
    Said("--config", "none.toml").refuses("none.toml: is not a file")
    (FOLDER / "bad.toml").write_text("gpu = [\n")
    Said("--config", "bad.toml").refuses("bad.toml: line")


# holds: harness/fit/README.md, Any program
def test_refused():
    """A program refuses values: the others are searched, its line is named, and it is never 'does not fit'."""
    odd = script("odd.py", "import sys\nif int(sys.argv[1]) % 4: raise ValueError('batch must be divisible by 4')\n" + TRAIN)
    result = fit("--vary", "batch=2..9", "--gpu", "t4-16g", "--", "python3", odd, "{batch}").ends(0, "ValueError: batch must be divisible by 4")
    result.check(result.record["answers"][0]["largest"] == "8", "8 is the largest multiple of 4")
    result = fit("--vary", "batch=1,2", "--gpu", "t4-16g", "--", "python3", odd, "{batch}").ends(1, "refused by the program")
    result.check({answer["verdict"] for answer in result.record["answers"]} == {"refused by the program"}, "not 'does not fit'")


# holds: harness/fit/README.md, The search
def test_refused_alike():
    """A program that fails in the same way each time is not run hundreds of times; its values are ranges, and its line is there."""
    always = script("always.py", "import sys, torch\nx = torch.empty(1 << 20, device='cuda')\nraise RuntimeError(f'cuDNN error with a batch of {sys.argv[1]}')")
    result = fit("--vary", "batch=1..256", "--gpu", "t4-16g", "--capacity", "1GiB", "--reserve", "0B", "--", "python3", always, "{batch}").ends(
        1, "three values were refused alike, so the others did not run", "Refused by the program: batch 1", "RuntimeError: cuDNN error with a batch of ")
    result.check(len(result.record["runs"]) <= 4 and result.record["gpus"][0]["total_bytes"] == 1 << 30 and result.record["answers"][0]["capacity_bytes"] == 1 << 30, "few runs, and the capacity")
    result.check(result.record["answers"][0]["verdict"] == "refused by the program", "the verdict")


# night: many runs of programs that say nothing of a GPU; fit_refused has one of them by day
def test_program():
    """Programs that have no peaks or no optimizer, have no code for the GPU, read its size or are not deterministic."""
    none = script("none.py", "import torch")
    fit("--vary", "batch=1,2", "--", "python3", none, "{batch}").ends(1, "unknown: the program has used no CUDA memory")
    without = script("without.py", "import sys, torch\nx = torch.empty(int(sys.argv[1]) << 20, device='cuda')")
    fit("--vary", "batch=1,2", "--gpu", "t4-16g", "--", "python3", without, "{batch}").ends(0, "No optimizer of torch.optim has stepped with 2 of 2 combinations of values")
    profile = json.loads((TIDEMARK.parent / "virtual/profiles/t4-16g.json").read_text())
    profile["name"], profile["chip"]["compute_minor"]["value"] = "v100", 0
    (FOLDER / "v100.json").write_text(json.dumps(profile))
    code = script("train.py", TRAIN)
    result = fit("--vary", "batch=2,3", "--gpu", "./v100.json", "--", "python3", code, "{batch}").ends(1, "no kernel image is available for execution on the device")
    result.check({answer["verdict"] for answer in result.record["answers"]} == {"refused by the program"}, "a GPU that the wheel has no code for")
    adapts = script("adapts.py", "import torch, sys\nfree, _ = torch.cuda.mem_get_info()\n"
                    "x = torch.empty(min(int(free * 0.9), int(sys.argv[1]) << 30), dtype=torch.uint8, device='cuda')\n")
    result = fit("--vary", "batch=1..64", "--gpu", "t4-16g", "--", "python3", adapts, "{batch}").ends(0, "it reads the size")
    result.check(result.code == 0 and result.record["answers"][0]["largest"] in ("12", "64"), "runs at the real size")
    chance = script("chance.py", "import os, torch\nruns = open(__file__ + '.runs', 'ab')\nruns.write(b'.')\nruns.flush()\n"
                    "x = torch.empty(runs.tell() << 24, device='cuda')\n")  # each run has 64 MiB more than the one before
    fit("--vary", "batch=1,2", "--gpu", "t4-16g", "--", "python3", chance, "{batch}").ends(0, "not deterministic")


# holds: harness/fit/README.md, Steps that repeat
def test_steady():
    """A run ends when its steps repeat, if that is not switched off, and has the same peaks."""
    long = script("train.py", TRAIN)
    for words, steady in ((("--until-steady",), True), (("--no-until-steady",), False)):
        result = fit(*words, "--vary", "batch=2,3", "--gpu", "t4-16g", "--", "python3", long, "{batch}", STEPS="30").ends(0)
        result.check(all(run["steady"] == steady for run in result.record["runs"]), f"steady: {steady}")
        peaks = [run["reserved"] for run in result.record["runs"]]
        result.check(steady or peaks == before, "the peaks of all steps are those until they repeat")
        before = peaks


# A GPU that others share: between what is allocated and what is reserved only runs at its size decide.
FRAGMENTS = """
import sys, torch
batch = int(sys.argv[1])
model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(1):
    held = [torch.empty((20 + 7 * (i % 3)) << 20, dtype=torch.uint8, device="cuda") for i in range(batch)]
    model(torch.ones(16, 1024, device="cuda")).sum().backward()
    del held[::2]
    more = torch.empty(batch * 11 << 20, dtype=torch.uint8, device="cuda")
    optimizer.step()
    del held, more
"""


# night: runs every value of a program that fragments
def test_edge():
    """Where fragmentation decides, the answer is what running every value at the GPU's size gives; a value that does not fit below one that does is passed over."""
    program, count = script("fragments.py", FRAGMENTS), 11
    profile = json.loads((TIDEMARK.parent / "virtual/profiles/t4-16g.json").read_text())
    capacity = 300 * MIB
    profile["name"] = "edge"
    profile["torch"] = {key: {"value": value, "source": "of the test"} for key, value in (("total_bytes", capacity), ("context_bytes", 0), ("nccl_bytes", 0))}
    (FOLDER / "edge.json").write_text(json.dumps(profile))
    result = fit("--vary", f"batch=1..{count}", "--gpu", "./edge.json", "--", "python3", program, "{batch}").ends(0)
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda value: exec_peaks("./edge.json", capacity, "python3", program, value), range(1, count + 1)))
    largest = max(value for value, (code, device) in zip(range(1, count + 1), runs) if code == 0 and device["ooms"] == 0)
    result.check(result.record["answers"][0]["largest"] == str(largest), f"brute force says {largest}, said {result.record['answers'][0]['largest']}")
    result.check(result.record["answers"][0]["run"]["retries"] > 0, "the edge is reached by a retry")


# night: several ranks, absent and under torchrun; python_fit holds the answer by day, and fit_steady the end of a run
def test_ranks():
    """Ranks that differ: the worst decides and is named. Two ranks that meet end together when both repeat; NCCL's memory is kept for them."""
    script("stages.py", "import os, sys, torch\nrank = int(os.environ['RANK'])\n"
           "x = torch.empty((rank + 1) * int(sys.argv[1]) << 20, dtype=torch.uint8, device='cuda')\n")
    result = fit("--vary", "size=1000,3000", "--gpu", "t4-16g", "--as-rank", "0,3", "--of", "4", "--", "python3", "stages.py", "{size}").ends(0)
    result.check([(each["run"]["worst"], each["run"]["reserved"]) for each in result.record["answers"]] == [("rank 3", 4000 * MIB), ("rank 3", 12000 * MIB)], "rank 3")
    script("parallel.py", "import os, sys, torch\nimport torch.distributed as dist\ndist.init_process_group('nccl')\n"
           "device = torch.device('cuda', int(os.environ['LOCAL_RANK']))\ntorch.cuda.set_device(device)\n"
           "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1024, 1024).to(device), device_ids=[device.index])\n"
           "optimizer = torch.optim.AdamW(model.parameters())\nfor _ in range(200):\n"
           "    model(torch.ones(int(sys.argv[1]), 1024, device=device)).sum().backward()\n    optimizer.step()\n    optimizer.zero_grad()\n")
    result = fit("--vary", "batch=256", "--gpu", "t4-16g", "--", "python3", "-m", "torch.distributed.run", "--nproc-per-node", "2",
               "parallel.py", "{batch}").ends(0)
    run = result.record["answers"][0]["run"]
    gpu, = result.record["gpus"]
    result.check(run["steady"] and run["nccl"] and run["exit_code"] == 0, "both ranks repeat")
    result.check(result.record["answers"][0]["capacity_bytes"] == gpu["total_bytes"] - gpu["context_bytes"] - gpu["nccl_bytes"], "NCCL's memory")


BY_HAND = {"allocator: expandable_segments": "expandable", "allocator: max_split_size_mb:128": "split", "optimizer without foreach": "plain",
           "fused optimizer": "fused", "recompute every second repeated module": "half", "recompute all repeated modules": "all",
           "zero_grad(set_to_none=True)": "none", "Python's garbage collected each step": "collect"}
SETTINGS = {"expandable": "expandable_segments:True", "split": "max_split_size_mb:128"}


# night: runs the program once for each change and each pair
def test_advise():
    """Each change, and the best together, has the peaks of the program with that change made by hand; one that the program cannot take is named."""
    program = script("changed.py", CHANGED)
    out = FOLDER / "advise.json"
    result = Said("--gpu", "t4-16g", "--out", out, "--", "python3", program, "as-it-is", command="advise").ends(0, "bf16 autocast")
    advice = json.loads(out.read_text())
    rows = {row["change"]: row for row in advice["rows"]}

    def by_hand(words):
        more = {"PYTORCH_ALLOC_CONF": SETTINGS[word] for word in words if word in SETTINGS}
        return exec_peaks("t4-16g", 1 << 40, "python3", program, ",".join(words), **more)

    best, = (change for change in rows if change.startswith("together: "))
    names = {change: [BY_HAND[part] for part in change.removeprefix("together: ").split(" + ")]
             for change in (best, "recompute every second repeated module", "zero_grad(set_to_none=True)")}
    with ThreadPoolExecutor(2) as pool:
        peaks = pool.map(by_hand, names.values())
    for change, (code, device) in zip(names, peaks):
        run = rows[change]["run"]
        result.check(code == 0 and (run["allocated"], run["reserved"]) == (device["allocated"], device["reserved"]),
                   f"{change}: {run['allocated']} allocated, {run['reserved']} reserved; by hand {device['allocated']}, {device['reserved']}")
        result.check(rows[change]["reserved_saved_bytes"] == advice["run"]["reserved"] - device["reserved"], f"{change}: what it saves")
    savings = [rows[change]["reserved_saved_bytes"] for change in BY_HAND]
    result.check(rows[best]["reserved_saved_bytes"] >= max(savings) > 0, "together as much as alone")
    result.check(rows["bf16 autocast"]["outcome"] == "does not run" and rows["bf16 autocast"]["why"] == "AssertionError: needs float32", "named with its line")
    result.check(rows["DDP: gradient_as_bucket_view"]["outcome"] == "nothing to change", "no DDP")
    weights = 8 * 512 * 2048 + 512 * 1000  # elements; biases have less than 4,096
    parameters = weights + 4 * (2048 + 512) + 1000
    states = rows["optimizer states of 8 bits"]
    result.check(states["how"] == "computed" and states["allocated_saved_bytes"] == 2 * weights * 3 - 2 * weights // 64, "3 of 4 bytes, less the scales")
    result.check(rows["FSDP over 8 ranks"]["allocated_saved_bytes"] == 4 * 4 * parameters * 7 // 8, "parameters, gradients, two states")
    logits = 4 * 4096 * 1000
    result.check(rows["loss in 8 chunks"]["allocated_saved_bytes"] in [blocks * logits * 7 // 8 for blocks in (1, 2, 3, 4)], "blocks as large as the logits: they, their logarithms or their gradients")
    Said("--gpu", "t4-16g,l4-24g", "--", "python3", program, "x", command="advise").refuses("--gpu takes one GPU")
    refused = Said("--", "python3", program, command="advise").ends(1, "error: advise: the program itself does not run: IndexError")
    refused.check(len(refused.err.strip().splitlines()) == 1, "one line of error")


# night: trains the steps of three recordings; outside_test holds the capacities by day
def test_hardware():
    """Three training steps that others recorded on a GPU: each fits a GPU with the bytes that theirs had reserved, and not one with less."""
    measured = Path(__file__).resolve().parents[2] / "reports" / "measured"

    def recorded(name):
        with gzip.open(measured / f"medium_{name}_training.json.gz") as file:
            return sum(segment["size"] for segment in json.load(file)["segments_at_end"])

    small, middle, large = recorded(128), recorded(256), recorded(512)
    profile = json.loads((TIDEMARK.parent / "virtual/profiles/a100-80g.json").read_text())
    profile["name"] = "as-recorded"
    profile["torch"] = {key: {"value": value, "source": "the recording"} for key, value in (("total_bytes", middle), ("context_bytes", 0), ("nccl_bytes", 0))}
    (FOLDER / "as-recorded.json").write_text(json.dumps(profile))
    more = {"TIDEMARK_PLACEMENT": "wsl2", "TIDEMARK_UNKNOWN": "nan"}
    command = ("--", "python3", measured / "step.py", "--training", "--out", FOLDER / "step{context}.pickle", "--context", "{context}")
    result = fit("--vary", "context=128,256", "--gpu", "./as-recorded.json", *command, **more).ends(0)
    reserved = [answer["run"]["reserved"] for answer in result.record["answers"]]
    result.check(reserved == [small, middle] and {answer["verdict"] for answer in result.record["answers"]} == {"fits"}, f"{reserved}, recorded {small}, {middle}")
    result = fit("--vary", "context=512", "--gpu", "./as-recorded.json", *command, "--autocast", **more).ends(1)
    result.check(result.record["answers"][0]["missing_bytes"] == large - middle, f"recorded {large}")


BOTH = ("import sys, torch\ntorch.distributed.init_process_group('gloo')\n"
        "kept = [torch.empty(500 << 20, dtype=torch.uint8, device='cuda:0') for _ in range(int(sys.argv[1]))]\ntorch.distributed.barrier()\n")


def test_processes_of_one_gpu():
    """Both ranks take cuda:0, where each of them has a whole GPU: a value fits if their peaks do so together, and beyond it nothing is said."""
    program = script("both.py", BOTH)
    result = fit("--ranks", 2, "--vary", "n=14,15", "--gpu", "t4-16g", "--", "python3", program, "{n}").ends(0)
    (gpu,) = result.record["gpus"]
    (capacity,) = {answer["capacity_bytes"] for answer in result.record["answers"]}
    result.check(2 * 14 * 500 * MIB + gpu["context_bytes"] <= capacity < 2 * 15 * 500 * MIB, f"{capacity}, {gpu}")
    result.check([answer["verdict"] for answer in result.record["answers"]] == ["fits", "unknown"], f"{result.record['answers']}")
    result.check("n 15 on t4-16g: whether it fits is not known: rank 0 and rank 1 use GPU 0 at the same time" in result.out, "why")


# night: searches a range, and tries the changes of advise; fit_processes_of_one_gpu holds two values by day
def test_search_of_processes_of_one_gpu():
    program = script("both.py", BOTH)
    result = fit("--ranks", 2, "--vary", "n=1..32", "--gpu", "t4-16g", "--", "python3", program, "{n}").ends(0)
    answer, = result.record["answers"]
    (gpu,) = result.record["gpus"]
    best = (answer["capacity_bytes"] - gpu["context_bytes"]) // (2 * 500 * MIB)
    result.check(answer["verdict"] == "fits" and int(answer["largest"]) == best, f"{answer}, not {best}")
    result.check(f"whether n {best + 1} fits is not known: rank 0 and rank 1 use GPU 0 at the same time" in result.out, "the next value")
    result.check("next" not in answer or int(answer["next"]) * 500 * MIB > answer["capacity_bytes"], "a value that does not fit does not for one rank alone")
    result.check(len(result.record["runs"]) <= 10, f"{len(result.record['runs'])} runs")
    advised = Said("--ranks", 2, "--gpu", "t4-16g", "--", "python3", program, best + 1, command="advise").ends(0)
    advised.check("not known" in advised.out and " yes " not in advised.out, "whether it fits is not known, with any change")


# night: searches of a range, and every value of it by force; exec_oom_limit holds the sentences of one run by day
def test_limit():
    """A program that allows itself a part of the GPU, or takes memory outside the allocator: the answer is that of running every value, values beyond it do not
    run each, and the line names what is left of that part."""
    own = script("limit.py", "import sys, torch\ntorch.cuda.set_per_process_memory_fraction(0.45)\n"
                 "kept = [torch.empty(500 << 20, dtype=torch.uint8, device='cuda') for _ in range(int(sys.argv[1]))]\n")
    outside = script("outside.py", "import ctypes, sys, torch\ncuda, place = ctypes.CDLL('libcudart.so.13'), ctypes.c_void_p()\n"
                     "assert cuda.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(9 << 30)) == 0\n"
                     "kept = [torch.empty(500 << 20, dtype=torch.uint8, device='cuda') for _ in range(int(sys.argv[1]))]\n")
    for program in own, outside:
        result = fit("--vary", "n=1..32", "--gpu", "t4-16g", "--", "python3", program, "{n}").ends(0)
        answer, = result.record["answers"]
        capacity, best = answer["capacity_bytes"], int(answer["largest"])
        for value, fits in (best, True), (best + 1, False):
            code, peaks = exec_peaks("t4-16g", capacity, "python3", program, value)
            result.check((code == 0 and peaks["ooms"] == 0) == fits, f"{program}: {value} fits: {fits}")
        if program is own:
            result.check(len(result.record["runs"]) <= 8, f"{program}: {len(result.record['runs'])} runs")
            limit = round(0.45 * capacity)
            result.check(abs(answer["limit"] - limit) <= 1 and best == limit // (500 * MIB), f"{answer['limit']:,} for {limit:,}")
            result.check("that the program allows itself (memory fraction)" in result.out, "the line says it")
        else:
            result.check(answer["run"]["outside"] == 9 << 30 and best == (capacity - (9 << 30)) // (500 * MIB), f"{answer['run']}")
            result.check("9.00 GiB of them outside PyTorch's allocator" in result.out, "the line says it")
