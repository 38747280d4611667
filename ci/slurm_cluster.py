"""A Slurm of this machine's own: a controller, a node and its keys in a folder, ended with it. An installed Slurm is not touched. Needs root and
Debian's slurm-wlm and munge."""
import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path

CPUS = 16  # that the node claims to have

SETTINGS = """ClusterName=tidemark
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=10
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} SocketsPerBoard=1 CoresPerSocket={cpus} RealMemory=20000
PartitionName=work Nodes={host} Default=YES MaxTime=INFINITE State=UP
PartitionName=empty MaxTime=INFINITE State=UP
"""


def free_ports(number):
    probes = [socket.socket() for _ in range(number)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class Cluster:
    """`with Cluster() as cluster`: its environment is `cluster.environment`. Raises RuntimeError in one line where it does not start."""

    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="tidemark-slurm-", ignore_cleanup_errors=True)
        self.folder = Path(self.temporary.name)
        self.daemons = []
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        self.folder.chmod(0o755)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        host = socket.gethostname().split(".")[0]
        (self.folder / "slurm.conf").write_text(SETTINGS.format(host=host, ports=free_ports(2), folder=self.folder, cpus=CPUS))
        self.daemon("munged", "-F", f"--key-file={key}", f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munged.pid",
                    f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munged.seed")
        self.await_("munged", (self.folder / "munge.socket").exists)
        self.daemon("slurmctld", "-D")
        self.await_("slurmctld", lambda: self.says("scontrol", "ping").find(" is UP") > 0)
        self.daemon("slurmd", "-D")
        self.await_("slurmd", lambda: self.says("sinfo", "-h", "-p", "work", "-o", "%T").strip() == "idle")

    def daemon(self, *command):
        with (self.folder / f"{command[0]}.out").open("w") as out:
            self.daemons.append(subprocess.Popen(command, stdout=out, stderr=out, env=self.environment, start_new_session=True))

    def await_(self, name, holds):
        for _ in range(300):
            if holds():
                return
            if self.daemons[-1].poll() is not None:
                break
            time.sleep(0.1)
        lines = "".join(file.read_text() for file in self.folder.glob(f"{name}.*o*")).strip().splitlines()
        raise RuntimeError(f"{name} does not start: {lines[-1] if lines else 'it says nothing'}")

    def says(self, *command):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, timeout=60).stdout

    def __exit__(self, *_):
        if len(self.daemons) > 2:
            subprocess.run(["scancel", "--user=root"], env=self.environment, capture_output=True, check=False, timeout=60)
            for _ in range(100):
                if not self.says("squeue", "-h").strip():
                    break
                time.sleep(0.2)
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
        self.temporary.cleanup()
