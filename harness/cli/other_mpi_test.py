"""An MPI that cannot be used, one that is not the launcher's, and ranks of two installations are each one line with
both sides named, and exit code 3. harness/ranks/testing/stub_mpi.cpp stands in for an MPI."""
import os
import re
import subprocess
from pathlib import Path

from command import BINARY, ROOT, environment, refuses, without_mpirun

STUB, MPIRUN = os.environ["STUB_MPI_LIBRARY"], os.environ.get("MPIEXEC", "mpirun")
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "1"}
MPICH = {"PMI_RANK": "0", "PMI_SIZE": "2"}
VERSION = re.search('__version__ = "(.+)"', (ROOT / "python/tidemark/version.py").read_text())[1]
OTHER = re.sub(r"\d", "9", VERSION)
RUN = "run fsdp_prefetch/stash/smoke --mode shapes --schedule instant --history off --out out"


def test_an_mpi_that_cannot_be_used():
    for launcher, stub, says in (
            (OPEN_MPI, {"STUB_MPI_VERSION": "2"}, "Open MPI v4.1.4 cannot be used: it is MPI 2.1, and tidemark needs MPI 3"),
            (OPEN_MPI, {"STUB_MPI_LEVEL": "0"}, "Open MPI v4.1.4 cannot be used: it was built without threads (MPI_THREAD_SERIALIZED)"),
            (OPEN_MPI, {"STUB_MPI_LEVEL": "1"}, "it was built without threads"),
            (OPEN_MPI, {}, "the launcher started 2 ranks that Open MPI v4.1.4 cannot connect: use its own mpirun, or srun --mpi=pmix"),
            (OPEN_MPI, {"STUB_MPI_NAME": "MPICH Version:\t4.0.2\nmore"}, f"a launcher of MPI (Open MPI's) has started this process, and no library of it is found; "
             f"{STUB} is MPICH Version:"),
            (MPICH, {}, f"a launcher of MPI (MPICH's family) has started this process, and no library of it is found; {STUB} is Open MPI v4.1.4"),
            (MPICH, {"STUB_MPI_NAME": "unheard of"}, f"{STUB} is unheard of"),
            (OPEN_MPI, {"TIDEMARK_LIBMPI": "/nosuch/libmpi.so"}, "/nosuch/libmpi.so: cannot open shared object file")):
        refuses(3, says, RUN, **{"TIDEMARK_LIBMPI": STUB, **launcher, **stub})
        assert not Path("out").exists()


def test_ranks_of_two_installations():
    """As of two hosts, of which one has another version."""
    here = Path(BINARY).parent
    for name in ("mpi", "virtual", "staged"):
        Path(name).symlink_to(here / name)
    for name in ("tidemark", "tidemark_scenarios"):
        program = (here / name).read_bytes()
        own, other = (f"\0{version}\0".encode() for version in (VERSION, OTHER))
        assert own in program
        Path(name).write_bytes(program.replace(own, other))
        Path(name).chmod(0o755)
    words = RUN.split()
    # A shell chooses the program: mpiexec of Open MPI 5.0.7 (Debian 13) dies of signal 11 when it is given two.
    chooses = 'case $OMPI_COMM_WORLD_RANK in 0) exec "$0" "$@" ;; *) exec ./tidemark "$@" ;; esac'
    done = subprocess.run([MPIRUN, "--oversubscribe", "-n", "2", "sh", "-c", chooses, BINARY, *words],
                          env=environment(LD_LIBRARY_PATH=os.pathsep.join([str(here / "virtual"), os.environ.get("LD_LIBRARY_PATH", "")])),
                          capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 3, done.stderr
    output = without_mpirun(done.stderr)
    assert re.search(rf"error: the ranks are not of one installation: rank 0 is tidemark {re.escape(VERSION)} .* on host .*, rank 1 is tidemark {re.escape(OTHER)} .* on host ", output), output
    assert output.count("error: ") == 1, output
