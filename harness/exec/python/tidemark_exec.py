"""tidemark's part in a Python process: checks the torch that the program imports, puts the operator layer into it, and begins its record."""
import functools
import glob
import importlib.machinery
import os
import sys

import tidemark_answers
import tidemark_collector
import tidemark_compiled
import tidemark_exit
import tidemark_frames  # noqa: F401  # in every process: what they import, torch does not, so that Python's collector comes to the program in one state
import tidemark_jiterator
import tidemark_kernels
import tidemark_labels
import tidemark_launcher
import tidemark_phases  # noqa: F401  # for the pytest plugin, which has not this folder on its path
import tidemark_profiles
import tidemark_record
import tidemark_triton
import tidemark_wheel
from tidemark_platform import stop
from tidemark_settings import settings


HERE = os.path.dirname(os.path.abspath(__file__))


class Imports:
    """Stands before Python's finders, alone of tidemark and whatever the flags, since each import asks each finder, and Python's collector counts what that makes."""

    def __init__(self):
        self.watched = {}  # by name

    def watch(self, name, execute):
        """When the module is imported, `execute(module, run)` runs it in place of Python's `run(module)`, or of what was to run it before."""
        self.watched.setdefault(name, []).append(execute)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name not in self.watched:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                break
        else:
            return None
        original = spec.loader.exec_module

        def exec_module(module):
            run = original
            for execute in self.watched.pop(name, ()):
                run = functools.partial(execute, run=run)
            run(module)

        spec.loader.exec_module = exec_module
        return spec


imports = Imports()


def accept(module):
    """Stops the process if this torch is not the one that the libraries were made for."""
    _, version, cuda = tidemark_wheel.facts_of(module.__path__)
    wrong = tidemark_wheel.problem(version, cuda)
    if not wrong and version != settings()["torch"]:
        wrong = (f"has torch {version}, and the libraries are those for torch {settings()['torch']}: one program cannot have "
                 "both; name the Python: tidemark exec -- PYTHON SCRIPT")
    if wrong:
        stop(f"{sys.executable} {wrong}")
    if tidemark_wheel.release(version) < (2, 9) and "PYTORCH_ALLOC_CONF" in os.environ:  # its name before
        os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", os.environ["PYTORCH_ALLOC_CONF"])


def import_torch(module, run):
    accept(module)
    run(module)
    begin(module)


def begin_after_import(torch):
    """torch is being imported: importlib says at the end that it is no longer."""
    accept(torch)
    spec = torch.__spec__

    class Watched(type(spec)):
        @property
        def _initializing(self):
            return self.__dict__.get("_initializing", False)

        @_initializing.setter
        def _initializing(self, value):
            self.__dict__["_initializing"] = value
            if not value:
                self.__class__ = Watched.__mro__[1]
                if sys.modules.get("torch") is torch:
                    begin(torch)

    spec.__class__ = Watched


def name_libzmq():
    """The libzmq of an installed pyzmq, whose wheel has it under another name, for NCCL's ranks."""
    spec = importlib.machinery.PathFinder.find_spec("zmq")
    if spec and spec.submodule_search_locations and "TIDEMARK_LIBZMQ" not in os.environ:
        beside = os.path.join(os.path.dirname(list(spec.submodule_search_locations)[0]), "pyzmq.libs", "libzmq*.so*")
        for library in sorted(glob.glob(beside))[:1]:
            os.environ["TIDEMARK_LIBZMQ"] = library


def import_for_copies(module, run):
    accept(module)
    run(module)


def begin_in_copy(torch):
    """In a copy of tidemark_server.py, whose environment is now that of a program."""
    import ctypes

    sys.path.insert(0, HERE)
    prepare()
    sys.path.remove(HERE)
    ctypes.CDLL(None).tidemark_races_detect(int(os.environ.get("TIDEMARK_RACES") in ("1", "on")))  # the device has read the variable of the server
    begin(torch)


def prepare():
    here = tidemark_launcher.local_size()
    if here and (here > 1 or os.environ.get("LOCAL_WORLD_SIZE")):  # one task of srun may use all GPUs of a machine
        os.environ.setdefault("TIDEMARK_DEVICES", str(here))
    name_libzmq()
    if settings()["alone"] >= 0:
        import tidemark_absent  # noqa: F401  # begins after torch
    if settings()["steady"]:
        import tidemark_steady  # noqa: F401  # likewise
    if settings()["changes"]:
        import tidemark_changes  # noqa: F401  # likewise


def wait_for_torch():
    """Begins after the import of torch. Called by sitecustomize, or while torch is imported by ../../virtual/device/python_start.cpp."""
    if settings()["serves"]:
        imports.watch("torch", import_for_copies)
        return
    prepare()
    if "torch" in sys.modules:
        begin_after_import(sys.modules["torch"])
    else:
        imports.watch("torch", import_torch)


def let_workers_rest(torch):
    """A backward ends when autograd's workers have let go of its last node (../../virtual/device/workers.h)."""
    import ctypes

    ends = ctypes.CDLL(None).tidemark_device_backward_ends

    def after(*_, **__):
        ends()

    torch.autograd._engine_run_backward = torch.autograd.graph._engine_run_backward = tidemark_collector.own.around(torch.autograd.graph._engine_run_backward, after=after)


def begin(torch):
    """Right after `import torch`."""
    before = tidemark_collector.seen()
    try:
        start(torch)
    finally:
        tidemark_collector.forget_since(before)
    tidemark_collector.own.drop_spare()  # the program begins with the same ones, whatever the flags


def start(torch):
    import ctypes

    try:
        layer = ctypes.CDLL(settings()["layer"], mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        stop(f"the operator layer cannot be loaded into torch {torch.__version__}: {error}")
    layer.tidemark_layer_error.restype = ctypes.c_char_p
    mode = os.environ.get("TIDEMARK_MODE")
    mode = mode if mode in ("math", "known") else "cost"
    if settings()["history"]:
        layer.tidemark_layer_follow_reads()
    if layer.tidemark_layer_install(mode.encode()) != 0:
        stop("no operator layer: " + layer.tidemark_layer_error().decode())
    tidemark_exit.begin()
    tidemark_answers.name_cudnn(getattr(torch._C, "_cudnn", None))
    if settings()["alone"] >= 0:
        sys.modules["tidemark_absent"].begin(torch, settings()["alone"], int(os.environ["WORLD_SIZE"]))
    inductor = tidemark_answers.tune_without_copies
    if mode == "math":
        inductor = tidemark_triton.compute_inductor
        tidemark_jiterator.compute_kernels(torch)
        imports.watch("triton.runtime.jit", tidemark_triton.compute_kernels)
        imports.watch("triton.runtime.autotuner", tidemark_triton.tune_without_results)
    imports.watch("torch._inductor.runtime.triton_heuristics", inductor)
    if mode == "known":
        tidemark_kernels.follow()
        tidemark_answers.print_host_copies()
        tidemark_answers.save_as_floats(torch)
    tidemark_profiles.label(torch)
    tidemark_collector.own = tidemark_collector.OwnCode(torch, layer)
    let_workers_rest(torch)
    tidemark_labels.follow_shards()
    tidemark_collector.own.of(follow)(torch, layer)


def follow(torch, layer):
    tidemark_compiled.begin(layer)
    for one in tidemark_labels.followed(torch):
        tidemark_collector.make_attributes(one)
    record = tidemark_record.begin(torch, layer)
    if settings()["changes"]:
        sys.modules["tidemark_changes"].Changes(torch)
    if settings()["steady"]:
        sys.modules["tidemark_steady"].Steady(torch, record)
