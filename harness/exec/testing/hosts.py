"""Two hosts on one machine: network namespaces with names of their own, and two cables (veth pairs) between them. `control` is for the
launcher, `data` for NCCL. Needs iproute2, and root or user namespaces; a test is skipped where they are refused."""
import os
import shutil
import subprocess
import sys
import time

import pytest
from testing.lacks import lacks


def may_make_hosts():
    """Begins pytest again in a user namespace where it is not root; skips the test where it must not make hosts either way."""
    for tool, package in ("ip", "iproute2"), ("unshare", "util-linux"), ("nsenter", "util-linux"):
        if not shutil.which(tool):
            lacks(f"{tool} (package {package})")
    for more in [], ["--user", "--map-root-user"]:
        tried = subprocess.run(["unshare", *more, "--net", "--uts", "--ipc", "ip", "link", "add", "type", "veth"], capture_output=True, text=True, check=False)
        if tried.returncode == 0:
            if more:
                os.execvp("unshare", ["unshare", *more, "--net", sys.executable, *sys.argv])
            return
    pytest.skip(f"no network namespaces: {tried.stderr.strip()}")


class Host:
    def __init__(self, name, number):
        self.name, self.number = name, number
        self.keeper = subprocess.Popen(["unshare", "--net", "--uts", "--ipc", "sh", "-c", f"hostname {name}; ip link set lo up; echo up; exec sleep 1000"],
                                       stdout=subprocess.PIPE, text=True)
        if self.keeper.stdout.readline() != "up\n":
            pytest.fail(f"there is no host {name}")

    def address(self, cable):
        return f"10.{ {'control': 77, 'data': 78}[cable]}.0.{self.number}"

    def start(self, *command, **environment):
        place = ["nsenter", "--target", str(self.keeper.pid), "--net", "--uts", "--ipc"]
        return subprocess.Popen([*place, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                env={**os.environ, **environment})

    def ip(self, *words):
        done = self.start("ip", *words)
        error = done.communicate()[1]
        if done.returncode:
            pytest.fail(f"ip {words}: {error}")


class Hosts(list):
    def __init__(self):
        super().__init__([Host("one", 1), Host("two", 2)])
        one, two = (str(host.keeper.pid) for host in self)
        for cable in "control", "data":
            subprocess.run(["ip", "link", "add", cable, "netns", one, "type", "veth", "peer", "name", cable, "netns", two], check=True)
            for host in self:
                host.ip("address", "add", host.address(cable) + "/24", "dev", cable)
                host.ip("link", "set", cable, "up")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for host in self:
            host.keeper.kill()


def ends(processes, limit=120):
    """The processes once they have ended, with their output and errors as `out` and `err`."""
    end = time.monotonic() + limit
    for one in processes:
        try:
            one.out, one.err = one.communicate(timeout=max(0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            for other in processes:
                os.killpg(other.pid, 9)
            pytest.fail(f"hangs for {limit} s: {[other.communicate() for other in processes]}")
    return processes
