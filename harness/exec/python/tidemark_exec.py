"""tidemark's part in a Python process: checks the torch that the program imports, puts the operator layer into it, and writes down the
process's peaks. `tidemark_exec.py --check` prints, after `tidemark-check:`, the libraries for the torch of this Python, or what is wrong
with it."""
import atexit
import functools
import glob
import importlib.machinery
import json
import os
import re
import sys
import threading

import tidemark_answers
import tidemark_launcher
import tidemark_phases  # noqa: F401  # for the pytest plugin, which has not this folder on its path
import tidemark_platform

INTERVAL = 0.5  # seconds between two records of a process, which may be killed
OLDEST, MAJORS = (2, 4), ("12", "13")  # of torch and of CUDA


def built():
    """The build's own facts: the torch that its libraries belong to, where it and its sources are (in the wheel: beside the libraries)."""
    virtual = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(virtual, "python", "built.json"), encoding="utf-8") as file:
        said = json.load(file)
    places = {key: os.path.normpath(os.path.join(virtual, said[key])) for key in ("source", "cuda_include", "json")}
    return {**said, **places, "virtual": virtual}


def facts_of(folders):
    """(folder, version, CUDA) of the torch package in these folders, or of none."""
    for folder in folders or ():
        path, said = os.path.join(folder, "version.py"), {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                exec(compile(file.read(), path, "exec"), said)
            return folder, str(said.get("__version__")), said.get("cuda")
    return None, None, None


def release(version):
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def problem(version, cuda):
    """The reason why a torch cannot be used, or None."""
    own = built()
    wanted = f"install torch {own['torch'].split('+')[0]}, the wheel of CUDA {own['cuda']}"
    if not version:
        return "has no torch: " + wanted
    if not cuda:
        return f"has torch {version}, a wheel without CUDA: {wanted}"
    if str(cuda).split(".")[0] not in MAJORS:
        return f"has torch {version} of CUDA {cuda}, which tidemark does not support (it supports {' and '.join(MAJORS)}): {wanted}"
    if release(version) < OLDEST:
        return f"has torch {version}, and tidemark supports none before {'.'.join(map(str, OLDEST))}: {wanted}"
    return None


def libraries_for(folder, version, cuda):
    """The operator layer for a torch, and the libraries that its processes need from their start. Raises where there are none."""
    own = built()
    if version == own["torch"]:
        place, libraries = own["virtual"], sorted(glob.glob(os.path.join(own["virtual"], "*.so.*")))
    else:
        sys.path.insert(0, os.path.join(own["source"], "harness", "virtual", "wheels"))
        sys.dont_write_bytecode = True  # into the sources
        try:
            import prepare
        except ImportError as error:
            raise RuntimeError(f"its virtual libraries are compiled from tidemark's sources, and these are not in {own['source']}") from error
        place, libraries = prepare.prepare(folder, version, cuda, own, lambda text: print(text, end="", file=sys.stderr, flush=True))
    return {"torch": version, "cuda": cuda, "folder": folder, "layer": os.path.join(place, "libtidemark_numbers.so"), "libraries": libraries}


def check():
    """The answer to `tidemark exec` about a program's Python."""
    found = importlib.machinery.PathFinder.find_spec("torch")
    folder, version, cuda = facts_of(found.submodule_search_locations if found else None)
    wrong = problem(version, cuda)
    if wrong:
        return {"problem": wrong}
    try:
        return libraries_for(folder, version, cuda)
    except Exception as error:
        return {"problem": f"has torch {version}: {error}"}


def stop(text):
    print("error: exec: " + text, file=sys.stderr, flush=True)
    os._exit(2)


class Finder:
    """Stands before Python's finders until the module `name` is imported. `execute(module, run)` then runs it in place of Python's `run(module)`."""

    def __init__(self, name, execute):
        self.name, self.execute = name, execute

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                break
        else:
            return None
        run = spec.loader.exec_module

        def exec_module(module):
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            self.execute(module, run)

        spec.loader.exec_module = exec_module
        return spec


def import_torch(module, run):
    _, version, cuda = facts_of(module.__path__)
    wrong = problem(version, cuda)
    if not wrong and version != os.environ["TIDEMARK_EXEC_TORCH"]:
        wrong = (f"has torch {version}, and the libraries are those for torch {os.environ['TIDEMARK_EXEC_TORCH']}: one program cannot have "
                 "both; name the Python: tidemark exec -- PYTHON SCRIPT")
    if wrong:
        stop(f"{sys.executable} {wrong}")
    if release(version) < (2, 9) and "PYTORCH_ALLOC_CONF" in os.environ:  # its name before
        os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", os.environ["PYTORCH_ALLOC_CONF"])
    run(module)
    begin(module)


def name_libzmq():
    """The libzmq of an installed pyzmq, whose wheel has it under another name, for NCCL's ranks."""
    found = importlib.machinery.PathFinder.find_spec("zmq")
    if found and found.submodule_search_locations and "TIDEMARK_LIBZMQ" not in os.environ:
        beside = os.path.join(os.path.dirname(list(found.submodule_search_locations)[0]), "pyzmq.libs", "libzmq*.so*")
        for library in sorted(glob.glob(beside))[:1]:
            os.environ["TIDEMARK_LIBZMQ"] = library


def wait_for_torch():
    here = tidemark_launcher.local_size()
    if here and (here > 1 or os.environ.get("LOCAL_WORLD_SIZE")):  # one task of srun may use all GPUs of a machine
        os.environ.setdefault("TIDEMARK_DEVICES", str(here))
    name_libzmq()
    if os.environ.get("TIDEMARK_EXEC_ALONE"):
        import tidemark_absent  # noqa: F401  # begins after torch
    if os.environ.get("TIDEMARK_EXEC_SNAPSHOTS"):
        import tidemark_snapshot  # noqa: F401  # likewise
    sys.meta_path.insert(0, Finder("torch", import_torch))


def begin(torch):
    """Right after `import torch`."""
    import ctypes

    try:
        layer = ctypes.CDLL(os.environ["TIDEMARK_EXEC_LAYER"], mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        stop(f"the operator layer cannot be loaded into torch {torch.__version__}: {error}")
    layer.tidemark_numbers_error.restype = ctypes.c_char_p
    mode = os.environ.get("TIDEMARK_MODE")
    mode = mode if mode in ("math", "known") else "cost"
    if layer.tidemark_numbers_install(mode.encode()) != 0:
        stop("no operator layer: " + layer.tidemark_numbers_error().decode())
    tidemark_answers.name_cudnn(getattr(torch._C, "_cudnn", None))
    if os.environ.get("TIDEMARK_EXEC_ALONE"):
        sys.modules["tidemark_absent"].begin(torch, int(os.environ["TIDEMARK_EXEC_ALONE"]), int(os.environ["WORLD_SIZE"]))
    if mode != "math":
        sys.meta_path.insert(0, Finder("torch._inductor.runtime.triton_heuristics", tidemark_answers.tune_without_copies))
    if mode == "known":
        tidemark_answers.print_host_copies()
        tidemark_answers.save_as_floats(torch)
    program = Program(torch)
    record = Record(torch, ctypes.CDLL(None), Events(program, layer))
    if os.environ.get("TIDEMARK_RACES") == "1":
        record.places = Places(program, layer)
    if os.environ.get("TIDEMARK_EXEC_SNAPSHOTS"):
        record.labels = sys.modules["tidemark_snapshot"].Labels(torch, layer)


class Program:
    """The program's own code: what is neither PyTorch's nor tidemark's."""

    def __init__(self, torch):
        self.others = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.abspath(__file__)) + os.sep)

    def frame(self, depth):
        """Its innermost frame on this thread, seen from `depth` calls above; or None."""
        frame = sys._getframe(depth + 1)
        while frame and frame.f_code.co_filename.startswith(self.others):
            frame = frame.f_back
        return frame


class Places:
    """Lines of the program for the reports of races."""

    def __init__(self, program, layer):
        import ctypes

        self.program, self.layer, self.numbers = program, layer, {}
        self.lock = threading.Lock()
        self.listener = ctypes.CFUNCTYPE(ctypes.c_int)(self.number)
        layer.tidemark_numbers_on_place(self.listener)
        atexit.register(layer.tidemark_numbers_on_place, None)

    def number(self):
        frame = self.program.frame(1)
        if not frame:
            return -1
        place = (frame.f_code, frame.f_lineno)
        with self.lock:
            if place not in self.numbers:
                self.numbers[place] = len(self.numbers)
                name = f"{frame.f_code.co_name} {os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
                self.layer.tidemark_numbers_place_name(self.numbers[place], name.encode())
            return self.numbers[place]


class Events:
    """The answers that the program got about values that are not known, with the lines that asked."""

    def __init__(self, program, layer):
        import ctypes

        self.program = program
        self.counts, self.lock = {}, threading.Lock()
        self.listener = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int)(self.add)
        layer.tidemark_numbers_on_event(self.listener)
        atexit.register(layer.tidemark_numbers_on_event, None)

    def add(self, operation, answer, decides):
        frame = self.program.frame(1)
        line = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
        event = (operation.decode(), answer.decode(), bool(decides), line)
        with self.lock:
            self.counts[event] = self.counts.get(event, 0) + 1

    def all(self):
        with self.lock:
            counts = dict(self.counts)
        names = ("operation", "answer", "decides", "line")
        return [{**dict(zip(names, event)), "count": count} for event, count in counts.items()]


def free(place, ending):
    """The place, with a number where a file of that name is there."""
    number = 0
    while os.path.exists(found := place + (f"-{number}" if number else "") + ending):
        number += 1
    return found.removesuffix(ending)


class Record:
    """The peaks of this process, in a file of the folder that `tidemark exec` reads."""

    NAMES = {"allocated": "allocated_bytes.all.peak", "active": "active_bytes.all.peak", "reserved": "reserved_bytes.all.peak",
             "requested": "requested_bytes.all.peak", "retries": "num_alloc_retries", "ooms": "num_ooms"}

    def __init__(self, torch, libraries, events):
        self.torch, self.libraries, self.events = torch, libraries, events
        self.pid, self.rank = os.getpid(), None
        self.lock = threading.Lock()
        self.labels = None  # of a memory snapshot, where one is wanted
        self.before = {}  # device -> what it was before the program reset its peaks
        self.path = self.free_path()
        for name in ("_cuda_resetPeakMemoryStats", "_cuda_resetAccumulatedMemoryStats"):
            self.keep_at(name)
        for name in ("_exit", "execv", "execve"):
            self.write_before(name)
        self.learn_rank()
        os.register_at_fork(after_in_child=self.forked)
        atexit.register(self.write, True)
        self.ended = threading.Event()
        threading.Thread(target=self.watch, name="tidemark", daemon=True).start()

    def keep_at(self, name):
        reset = getattr(self.torch._C, name)

        def kept(device):
            self.before = self.devices()
            return reset(device)

        setattr(self.torch._C, name, kept)

    def free_path(self):
        """A process may become another program (exec), and numbers of processes come again: what stands in the folder stays."""
        return free(os.path.join(os.environ["TIDEMARK_EXEC"], str(self.pid)), ".json") + ".json"

    def write_before(self, name):
        """Functions of os that end this program's process without the end of Python."""
        end = getattr(os, name)

        def ending(*words, **more):
            # In a child of a fork that does not use CUDA nothing is written; a signal may have come while this thread was writing.
            if os.getpid() == self.pid and self.lock.acquire(timeout=1):
                self.lock.release()
                self.write(True)
            try:
                end(*words, **more)
            except OSError:  # no such program: this one goes on
                self.ended = threading.Event()
                threading.Thread(target=self.watch, name="tidemark", daemon=True).start()
                self.write(False)
                raise

        setattr(os, name, functools.wraps(end)(ending))

    def learn_rank(self):
        """The rank is that of the process group, which may be gone at the end."""
        c10d = self.torch.distributed.distributed_c10d
        update = c10d._update_default_pg

        def updated(group):
            if group is not None:
                self.rank = group.rank()
            return update(group)

        c10d._update_default_pg = updated

    def forked(self):
        """The child of a fork writes for itself if it comes to use CUDA; multiprocessing ends it by os._exit."""
        self.pid, self.rank, self.before, self.lock = os.getpid(), None, {}, threading.Lock()
        self.path = self.free_path()
        self.events.counts, self.events.lock = {}, threading.Lock()
        self.ended = threading.Event()
        from multiprocessing import util

        util.register_after_fork(self, lambda record: util.Finalize(record, record.leave, exitpriority=0))

    def leave(self):
        self.write(True)
        self.libraries.tidemark_nccl_leave()

    def devices(self):
        """device -> its figures: the greater of now and before the last reset."""
        if not self.torch.cuda.is_initialized() or self.torch.cuda._is_in_bad_fork():
            return {}
        found = dict(self.before)
        for device in range(self.torch.cuda.device_count()):
            try:
                now = self.torch.cuda.memory_stats(device)
            except RuntimeError:  # an allocator of the program's own (CUDAPluggableAllocator) counts nothing
                return {}
            if now.get("reserved_bytes.all.peak", 0) > 0 or device in found:
                old = found.get(device, {})
                found[device] = {key: max(int(now.get(name, 0)), old.get(key, 0)) for key, name in self.NAMES.items()}
        return found

    def races(self):
        found = tidemark_platform.read("tidemark_races_read") if os.environ.get("TIDEMARK_RACES") == "1" else []
        for race in found:
            race["explanation"] += f" ({race['count']} times)" if race["count"] > 1 else ""
        return found

    def write(self, ended):
        if ended:
            self.ended.set()  # no thread of Python's may run after its end
        with self.lock:
            devices = self.devices()
            if not devices or os.getpid() != self.pid:
                return
            rank = self.rank if self.rank is not None else tidemark_launcher.rank()
            record = {"pid": self.pid, "rank": rank, "ended": ended,
                      "devices": [{"device": device, **figures} for device, figures in sorted(devices.items())], "races": self.races(),
                      "collectives": tidemark_platform.read("tidemark_nccl_calls"), "events": self.events.all(), "stood_in": self.libraries.tidemark_nccl_stood_in()}
            try:
                with open(self.path + ".new", "w", encoding="utf-8") as file:
                    json.dump(record, file)
                os.replace(self.path + ".new", self.path)
            except FileNotFoundError:
                return  # the command has ended before this process
            except OSError as error:
                if ended:
                    print(f"tidemark: the peaks of process {self.pid} cannot be written to {error.filename or self.path}: {error.strerror}",
                          file=sys.stderr, flush=True)
                return
            if ended and self.labels:
                name = f"process{self.pid}" if rank is None else f"rank{rank}"  # several processes may say that they are rank 0
                self.labels.write(free(os.path.join(os.environ["TIDEMARK_EXEC_SNAPSHOTS"], name), ".pickle"))

    def watch(self):
        while not self.ended.wait(INTERVAL):
            self.write(False)
            if self.labels:
                self.labels.trace.bound()


if __name__ == "__main__" and sys.argv[1:] == ["--check"]:
    sys.path.pop(0)
    try:
        print("tidemark-check:" + json.dumps(check()))
    except KeyboardInterrupt:
        os._exit(130)
