"""A process under `tidemark exec` that has imported torch once, and forks a copy of itself for each program that it is asked to run: a run then costs
no import. python/tidemark/server.py forks the ranks of tests in the same way (`run`).

    tidemark exec -- python3 tidemark_server.py SOCKET python3     with the setting `serves`: a file of the environment that exec has given

A client (../../ranks/served.h) connects to SOCKET, sends its stdin, stdout and stderr, and

    LENGTH\\n FOLDER\\0 COUNT\\0 WORD\\0 ... NAME=VALUE\\0 ...

The answer is a line: "refused", if the program must have a process of its own (another Python, other words of Python's, a variable that the import of
torch may have read), or "code N" or "signal N" at its end. A client that goes ends its program."""
import contextlib
import ctypes
import importlib.machinery
import os
import runpy
import resource
import select
import signal
import socket
import sys
import time
import traceback
import types
import warnings

import tidemark_files
import tidemark_imported
import tidemark_settings

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # <linux/prctl.h>
LONGEST = 15  # seconds between asking processes to end and killing them

# Variables that differ between runs and are read after the import of torch, or by the command or pytest alone (the last four).
OF_A_RUN = {"TIDEMARK_MODE", "TIDEMARK_SCHEDULE", "TIDEMARK_SIZES", "TIDEMARK_DEVICES", "TIDEMARK_TIMEOUT", "TIDEMARK_EXEC", "TIDEMARK_USERS", "TIDEMARK_CAPACITY", "TIDEMARK_RACES", "TIDEMARK_RESERVE", "TIDEMARK_KNOWN_LIMIT", "TIDEMARK_GPU", tidemark_settings.VARIABLE, "TIDEMARK_NCCL_ALONE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT", "_", "PWD", "SHLVL", "TEST_COST_FILE", "GITHUB_ACTIONS", "GITLAB_CI", "PYTEST_CURRENT_TEST", "PYTEST_VERSION"}


class Copy(BaseException):
    """Leaves the server's frames in a copy, which ends in `program()`."""

    def __init__(self, program):
        super().__init__()
        self.program = program


def how(name, status):
    """The end of a process in the words of `tidemark exec`; "" for exit code 0."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"{name} was ended by signal {number} ({signal.strsignal(number)})"
    code = os.WEXITSTATUS(status)
    return f"{name} ended with exit code {code}" if code else ""


def end(pids, number):
    for pid in pids:
        for kill in (os.killpg, os.kill):  # the process alone where it is about to have a group
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, number)
                break


def code_of(program):
    """The exit code of `program()`, as Python's own end would have it."""
    try:
        program()
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            return (left.code or 0) & 0xFF
        print(left.code, file=sys.stderr)
        return 1
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1
    return 0


def fork(program, connection):
    """The process id of a copy of this process. The copy gets Copy(program)."""
    server = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: of a fork beside a thread, which waits in this process alone
        pid = os.fork()
    if pid:
        return pid
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != server:
        os._exit(1)
    os.setpgid(0, 0)
    connection.close()
    tidemark_imported.begin_in_copy()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)
    raise Copy(program)


def run(programs, connection, started=None):
    """Runs a dictionary of programs by name at the same time, as copies of this process; the first that fails ends the others, and so does a client that
    goes. `started` gets the process ids. Returns the status of the first that failed or 0, its name and its end in words, and the process ids."""
    left = {fork(program, connection): name for name, program in programs.items()}
    pids = list(left)
    if started:
        started(pids)
    first, process, message, asked = 0, "", "", 0.0
    while left:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            if asked and time.monotonic() > asked + LONGEST:
                end(left, signal.SIGKILL)
            if select.select([connection], [], [], 0.005)[0] and not asked and gone(connection):
                asked = time.monotonic()
                end(left, signal.SIGTERM)
            elif asked:
                time.sleep(0.005)
            continue
        if pid not in left:
            continue
        name = left.pop(pid)
        words = how(name, status)
        end([pid], signal.SIGKILL)  # what it has left running in its process group
        if words and not message:
            first, process, message, asked = status, name, words, time.monotonic()
            end(left, signal.SIGTERM)
    return first, process, message, pids


def gone(connection):
    return not connection.recv(1, socket.MSG_PEEK)


def main_of(words):
    """What Python's own words ask for: the program in the module __main__. None: of such words nothing is known."""
    words = words[1:] if words[:1] == ["-u"] else words
    if len(words) > 1 and words[0] == "-m" and not words[1].startswith("-"):
        return lambda: run_module(words[1:])
    if len(words) > 1 and words[0] == "-c":
        return lambda: run_text(words)
    if words and words[0].endswith(".py") and os.path.isfile(words[0]):
        return lambda: run_file(words)
    return None


def run_module(words):
    sys.path[0], sys.argv = os.getcwd(), ["-m", *words[1:]]
    sys.modules["__main__"] = types.ModuleType("__main__")
    runpy._run_module_as_main(words[0])


def run_text(words):
    sys.path[0], sys.argv = "", ["-c", *words[2:]]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=sys.modules["builtins"], __loader__=importlib.machinery.BuiltinImporter)
    exec(compile(words[1], "<string>", "exec", dont_inherit=True), main.__dict__)


def run_file(words):
    path = os.path.abspath(words[0])
    sys.path[0], sys.argv = os.path.dirname(os.path.realpath(path)), list(words)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=sys.modules["builtins"], __loader__=importlib.machinery.SourceFileLoader("__main__", path), __cached__=None)
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def order_of(connection):
    """(files, folder, words, environment) that the client has sent."""
    data, files, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    while b"\n" not in data:
        data += connection.recv(1 << 16) or exit()
    length, _, rest = data.partition(b"\n")
    while len(rest) < int(length):
        rest += connection.recv(1 << 16) or exit()
    folder, count, *texts = rest.decode(sys.getfilesystemencoding(), "surrogateescape").split("\0")[:-1]
    words, variables = texts[:int(count)], texts[int(count):]
    return files, folder, words, dict(variable.split("=", 1) for variable in variables)


class Programs:
    """Runs programs for clients, each by a copy that waits for it."""

    def __init__(self, torch, python, environment):
        self.torch, self.python, self.environment = torch, python, environment  # that the process was started as and with
        self.added = {name: value for name, value in os.environ.items() if environment.get(name) != value}  # by what starts Python, and by imports

    def serve(self, connection):
        files, folder, words, environment = order_of(connection)
        differ = {name for name in {*environment, *self.environment} if environment.get(name) != self.environment.get(name)}
        os.chdir(folder)
        program = main_of(words[1:])
        if program is None or words[0] != self.python or not differ <= OF_A_RUN:
            print(f"refused: {words[:3]}, {sorted(differ - OF_A_RUN)}", file=sys.stderr, flush=True)
            connection.sendall(b"refused\n")
            return
        status, _, _, _ = run({"the program": lambda: self.become(files, environment, words, program)}, connection)
        kind, number = ("signal", os.WTERMSIG(status)) if os.WIFSIGNALED(status) else ("code", os.WEXITSTATUS(status))
        if file := environment.get("TEST_COST_FILE"):  # of a test (harness/testing/one_test.cpp)
            add_cost(file)
        with contextlib.suppress(OSError):
            connection.sendall(f"{kind} {number}\n".encode())

    def become(self, files, environment, words, program):
        """This process, a copy of the server, is that of the program from here on."""
        for file, number in zip(files, (0, 1, 2)):
            os.dup2(file, number)
            os.close(file)
        os.environ.clear()
        os.environ.update({**environment, **self.added})
        sys.orig_argv = list(words)
        if "numpy" in sys.modules:  # Python seeds its own generator after a fork
            sys.modules["numpy"].random.seed()
        if folder := tidemark_settings.settings()["steady"]:
            with tidemark_files.create(os.path.join(folder, f"{os.getpid()}.copy")):
                pass
        sys.modules["tidemark_exec"].begin_in_copy(self.torch)
        program()


def add_cost(file):
    """Appends the CPU seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    with contextlib.suppress(OSError), tidemark_files.append(file) as costs:
        costs.write(f"{sum(one.ru_utime + one.ru_stime for one in used):.3f}\n")


def environment_given():
    with open(tidemark_settings.settings()["serves"], "rb") as file:
        return dict(text.split("=", 1) for text in file.read().decode(sys.getfilesystemencoding(), "surrogateescape").split("\0") if "=" in text)


def main(place, python):
    tidemark_imported.begin()
    import torch
    import torch._dynamo  # optimizers import it  # noqa: F401

    if torch.cuda.is_initialized():
        sys.exit("error: the import of torch has started CUDA: its copies cannot have a GPU of their own")
    programs = Programs(torch, python, environment_given())
    listener = socket.socket(socket.AF_UNIX)
    tidemark_imported.set_apart()
    listener.bind(place + ".new")
    listener.listen(64)
    os.rename(place + ".new", place)
    libc = ctypes.CDLL(None)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for the copies
    while True:
        connection, _ = listener.accept()
        if os.fork():
            connection.close()
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1)  # what the program leaves comes here
        listener.close()
        try:
            programs.serve(connection)
            with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
                end(map(int, file.read().split()), signal.SIGKILL)
        except Exception:
            traceback.print_exc()
        os._exit(0)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Copy as copy:
        asked_for = copy.program
    sys.exit(code_of(asked_for))  # Python's own end, with what the program has left
