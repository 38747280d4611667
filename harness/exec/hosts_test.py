"""Programs of PyTorch with ranks on two hosts."""
import json
import os
import re
import shutil
import sys
import time

import pytest
from testing import hosts
from testing.lacks import lacks
from testing.said import FOLDER, HERE, SITE, TIDEMARK

MPIRUN = os.environ.get("MPIEXEC", "mpirun")
PORT = 29500  # each test has its own networks
REDUCING = """import time, torch, torch.distributed as dist
dist.init_process_group('nccl')
x = torch.ones(1 << 16, device='cuda')
for step in range(2000):
    dist.all_reduce(x)
    torch.cuda.synchronize()
    print('step', flush=True)
    time.sleep(0.02)
"""


def check(holds, what, processes):
    if not holds:
        pytest.fail(f"{what}\n" + "\n".join(f"exit code {one.returncode}\n{one.out}\n{one.err}" for one in processes))


@pytest.fixture
def two():
    hosts.may_make_hosts()
    with hosts.Hosts() as made:
        yield made


def ranks(two, program, *flags, environments=({}, {})):
    """Starts `program` as a rank on each host."""
    common = {"PYTHONPATH": SITE, "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": two[0].address("control"), "MASTER_PORT": str(PORT),
              "NCCL_SOCKET_IFNAME": "data"}
    return [host.start(TIDEMARK, "exec", *flags, "--", sys.executable, *program, **{**common, "RANK": str(rank), **environments[rank]})
            for rank, host in enumerate(two)]


def torchrun(host, size, per_host, rank, name, *program):
    return host.start(TIDEMARK, "exec", "--out", FOLDER / name, "--", sys.executable, "-m", "torch.distributed.run", "--nnodes", size, "--node-rank", rank,
                      "--nproc-per-node", per_host, "--master-addr", host.address("control")[:-1] + "1", "--master-port", PORT, *program,
                      PYTHONPATH=SITE, GLOO_SOCKET_IFNAME="control")


def peaks(*names):
    by_rank = {}
    for name in names:
        for rank in json.loads((FOLDER / name).read_text())["trials"][0]["program"]["ranks"]:
            by_rank[rank["rank"]] = [{**device, "device": 0} for device in rank["devices"]]
    return by_rank


# night: a second host differs from a second process in what nccl_network_test holds by day
def test_torchrun(two):
    """Peaks, losses and parameters are those of one host, to the byte and to the bit."""
    alone = hosts.ends([torchrun(two[0], 1, 4, 0, "one", HERE / "shard.py")])
    both = hosts.ends([torchrun(host, 2, 2, rank, f"two{rank}", HERE / "shard.py") for rank, host in enumerate(two)])
    check([one.returncode for one in alone + both] == [0, 0, 0], "all end well", alone + both)
    check(sorted(alone[0].out.split()) == sorted((both[0].out + both[1].out).split()), "the same at rest", alone + both)
    check(sorted(peaks("one")) == [0, 1, 2, 3] and peaks("one") == peaks("two0", "two1"), f"peaks {peaks('one')} {peaks('two0', 'two1')}", both)
    training = [HERE / "wheel.py", "training"]
    both = hosts.ends(ranks(two, training, "--mode", "math"))
    check([one.returncode for one in both] == [0, 0] and all(re.fullmatch(r"begin data_parallel\ncheck data_parallel passed \d+ \d+\n", one.out) for one in both), "the numbers of the CPU", both)


def lost(two, other, seconds):
    return f" of host {two[other].name} ({two[other].address('data')} port ", f" has not answered host {two[1 - other].name} ({two[1 - other].address('data')}) for {seconds} s"


# night: waits for the time-out of a cable that is cut
def test_cable(two):
    """A cable that is cut in the middle is said on both hosts; one that comes back in time is not."""
    both = ranks(two, ["-c", REDUCING], "--timeout", 16)
    for one in both:
        while one.stdout.readline() not in ("step\n", ""):
            pass
    two[0].ip("link", "set", "data", "down")
    time.sleep(1)
    two[0].ip("link", "set", "data", "up")
    for one in both:
        for _ in range(20):
            one.stdout.readline()
    two[0].ip("link", "set", "data", "down")
    hosts.ends(both, 60)
    for rank, one in enumerate(both):
        for text in (*lost(two, 1 - rank, 8), f", which has rank {1 - rank}, has", f"rank {rank} waits for it in ncclAllReduce(count 65536, float32, sum"):
            # 134: PyTorch's watchdog has seen the error before Python's exception had ended the process.
            check(one.returncode in (1, 134) and text in one.err, f"no {text!r} on host {rank}", both)


# night: waits for the time-out of packets that are dropped
def test_firewall(two):
    """Answers of the first host are dropped: the second says so, the first that the second has not come, and where it is awaited."""
    two[0].ip("route", "add", "blackhole", two[1].address("data") + "/32")
    both = hosts.ends(ranks(two, ["-c", REDUCING], "--timeout", 6), 60)
    for text in (*lost(two, 0, 3), ", which made the unique id, has", "rank 1 waits in ncclCommInitRank", "a firewall", "NCCL_SOCKET_IFNAME"):
        check(both[1].returncode == 1 and text in both[1].err, f"no {text!r} on the second host", both)
    for text in "rank 1 of 2 ranks has not arrived after 6 s: rank 0 waits in ncclCommInitRank, and meets the others at process ", "(10.78.0.1 port ":
        check(both[0].returncode == 1 and text in both[0].err, f"no {text!r} on the first host", both)


# night: waits for processes in two network namespaces; nccl_network_test has hosts that do not answer and other versions by day
def test_interface(two):
    """An interface that is not there is one line on both hosts, whichever of them lacks it; within a host it does no harm."""
    lacks = " has no network interface that its NCCL_SOCKET_IFNAME or NCCL_SOCKET_FAMILY permits"
    for without in 0, 1:
        names = [{}, {}]
        names[without] = {"NCCL_SOCKET_IFNAME": ("lo", "nosuch")[without]}
        both = hosts.ends(ranks(two, ["-c", REDUCING], "--timeout", 6, environments=names), 60)
        text = f"host {two[without].name}{lacks}, and host {two[1 - without].name} ({two[1 - without].address('data')}) is another host"
        check([one.returncode for one in both] == [1, 1] and text in both[1].err, f"no {text!r}", both)
        text = "rank 1 of 2 ranks has not arrived", f"reach: host {two[0].name}{lacks}"
        if without == 1:
            text = "rank 0 (process ", ") and rank 1 (process ", f" of host {two[1].name}) cannot meet: host {two[1].name}{lacks}"
        check(all(part in both[0].err for part in text), f"no {text} on the first host", both)
    inside = hosts.ends([two[0].start(TIDEMARK, "exec", "--ranks", 2, "--", sys.executable, HERE / "wheel.py", "training", PYTHONPATH=SITE,
                                      NCCL_SOCKET_IFNAME="nosuch")])
    check(inside[0].returncode == 0 and inside[0].out.count("passed") == 2, "ranks of one host", inside)


# night: two runs of a scenario over two hosts
def test_mpirun(two):
    """mpirun over both hosts: the report of a run on one."""
    if not shutil.which(MPIRUN):
        lacks("mpirun (package openmpi-bin)")
    agent = FOLDER / "agent"  # in the place of ssh
    agent.write_text("#!/bin/sh\ncase $1 in\n" + "".join(
        f"{host.address('control')}) target={host.keeper.pid};;\n" for host in two) + "esac\nshift\nexec nsenter --target $target --net --uts --ipc sh -c \"$*\"\n")
    agent.chmod(0o755)
    mca = {"plm_rsh_agent": str(agent), "plm_ssh_agent": str(agent), "btl_tcp_if_include": "10.77.0.0/24", "oob_tcp_if_include": "10.77.0.0/24"}
    settings = {f"{of}_MCA_{name}": value for of in ("OMPI", "PRTE") for name, value in mca.items()}  # PRTE: from Open MPI 5 on
    reports = []
    for name, where in ("here", two[:1]), ("over", two):
        placed = ",".join(f"{host.address('control')}:{2 // len(where)}" for host in where)
        results = hosts.ends([two[0].start(MPIRUN, "-n", 2, "--host", placed, TIDEMARK, "run", "tp_buffer_reuse*", "--size", "smoke", "--schedule", "calibrated",
                                        "--out", FOLDER / name, **settings, NCCL_SOCKET_IFNAME="data")], 200)
        check(results[0].returncode == 0, name, results)
        reports.append(json.loads((FOLDER / name / "report.json").read_text()))
        del reports[-1]["run"]  # when, where, how long
    check(reports[0]["trials"] and reports[0] == reports[1], "the same report", results)

