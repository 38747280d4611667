"""A process's memory snapshot with labels that PyTorch's own has not: the module that ran forward at each allocation, and the names of
parameters, buffers, gradients and optimizer state. `tidemark snapshot show` reads both."""
import bisect
import ctypes
import importlib
import os
import pickle
import sys
import threading
import warnings
import weakref

from tidemark_phases import Phases
from tidemark_trace import Trace

# Modules that wrap another one: of torch.compile, checkpointing, FSDP, DDP.
WRAPPERS = {"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module", "module"}


def plain(path):
    return ".".join(word for word in path.split(".") if word not in WRAPPERS)


def outside_compilation(torch, hook):
    """The hook, of which nothing is left in what torch.compile makes: a compiled module is one module."""
    compiling = torch.compiler.is_compiling

    def hook_or_nothing(*arguments):
        if not compiling():
            hook(*arguments)

    return hook_or_nothing


class Gather(ctypes.Structure):
    """tidemark_numbers_gather of harness/virtual/numbers/numbers.h"""

    _fields_ = [(name, ctypes.c_int64) for name in ("device", "allocations", "output", "shard", "shard_bytes")]


class Labels:
    def __init__(self, torch, layer):
        self.torch, self.layer = torch, layer
        self.rows = []  # device, allocations until then, address, kind, name
        self.libraries = ctypes.CDLL(None)
        self.trace = Trace(self.libraries)
        self.phases = Phases(torch, self.trace)
        self.allocations = {}  # by device, at the moment that is labelled
        self.modules = weakref.WeakKeyDictionary()  # module -> its path below the outermost one
        self.names = torch.utils.weak.WeakIdKeyDictionary()  # parameter -> its name
        self.calls = threading.local()
        self.sequence = [0]  # of autograd's nodes on the main thread, ascending,
        self.paths = [""]  # and the module that ran forward from there on
        layer.tidemark_numbers_name_backward(1)
        layer.tidemark_numbers_note_gathers(1)
        self.keeps_lt = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)  # cuBLASLt's workspaces, between products
        self.metadata = getattr(torch._C, "_cuda_setMemoryMetadata", None)  # torch 2.10 and later
        # A stack at each free too ("all") would clear an exception that is on its way while tensors are freed: of torch 2.11 with checkpointing and dropout.
        torch.cuda._lazy_call(lambda: self.record_history(torch))
        warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are global hooks")  # which are these
        hooks = torch.nn.modules.module
        hooks.register_module_forward_pre_hook(outside_compilation(torch, self.enter))
        hooks.register_module_forward_hook(outside_compilation(torch, self.leave), always_call=True)
        optimizer = importlib.import_module("torch.optim.optimizer")
        self.phases.follow()
        optimizer.register_optimizer_step_pre_hook(self.before_step)
        optimizer.register_optimizer_step_post_hook(self.after_step)

    @staticmethod
    def record_history(torch):
        try:
            torch.cuda.memory._record_memory_history(context="alloc", stacks="python", max_entries=sys.maxsize)
        except RuntimeError as error:  # of cudaMallocAsync, or an allocator of the program's own
            sys.modules["tidemark_exec"].stop(f"--report needs PyTorch's own allocator: {str(error).splitlines()[0]}")

    def stack(self):
        if not hasattr(self.calls, "stack"):
            self.calls.stack = []
        return self.calls.stack

    def enter(self, module, _arguments):
        stack = self.stack()
        if not stack:
            if module not in self.modules:
                self.learn(module)
            self.calls.forward = self.phases.backwards == 0  # else autograd computes activations again
            if self.calls.forward:
                self.phases.enter("forward")
        stack.append(self.modules.get(module) or type(module).__name__)
        self.now_in(stack[-1])

    def now_in(self, path):
        if self.metadata:
            self.metadata(path)
        if threading.current_thread() is threading.main_thread():
            self.sequence.append(self.torch._C._autograd._get_sequence_nr())
            self.paths.append(path)

    def leave(self, _module, _arguments, _result):
        stack = self.stack()
        if stack:
            stack.pop()
            if not stack and self.calls.forward:
                self.phases.leave("forward")
        self.now_in(stack[-1] if stack else "")

    def learn(self, root):
        """Names of the modules and parameters below the outermost module, when it is called for the first time."""
        self.allocations.clear()
        for path, module in root.named_modules():
            self.modules.setdefault(module, plain(path))
        for name, parameter in root.named_parameters():
            self.names.setdefault(parameter, plain(name))
            self.label("parameters", plain(name), parameter)
        for name, buffer in root.named_buffers():
            self.label("buffers", plain(name), buffer)

    def label(self, kind, name, tensor):
        tensor = getattr(tensor, "_local_tensor", tensor)  # of a DTensor
        if not isinstance(tensor, self.torch.Tensor) or tensor.device.type != "cuda" or not self.torch.cuda.is_initialized():
            return
        try:
            address = tensor.untyped_storage().data_ptr()
        except (RuntimeError, NotImplementedError):
            return  # a tensor without memory of its own
        if address:
            self.add(tensor.device.index, address, kind, name)

    def add(self, device, address, kind, name):
        if device not in self.allocations:
            self.allocations[device] = self.torch._C._cuda_memoryStats(device)["allocation"]["all"]["allocated"]
        self.rows.append([device, self.allocations[device], address, kind, name])

    def label_workspaces(self):
        """cuBLAS's, which PyTorch allocates in the operator that multiplies first."""
        if not self.torch.cuda.is_initialized():
            return
        addresses = (ctypes.c_void_p * 256)()
        self.libraries.tidemark_device_workspaces.restype = ctypes.c_size_t
        for i in range(min(256, self.libraries.tidemark_device_workspaces(addresses, ctypes.c_size_t(256), ctypes.c_int(self.keeps_lt)))):
            for device in range(self.torch.cuda.device_count()):  # the device's ranges of addresses are apart
                self.add(device, addresses[i], "cuBLAS workspaces", "")

    def name(self, parameter):
        return self.names.get(parameter, f"{type(parameter).__name__}{list(parameter.shape)}")

    def before_step(self, optimizer, _arguments, _keywords):
        self.allocations.clear()
        self.label_workspaces()
        self.phases.enter("optimizer", {parameter.device.index for parameter in self.parameters(optimizer) if parameter.device.type == "cuda"})
        for parameter in self.parameters(optimizer):
            self.label("parameters", self.name(parameter), parameter)
            if parameter.grad is not None:
                self.label("gradients", self.name(parameter), parameter.grad)

    def after_step(self, optimizer, _arguments, _keywords):
        self.allocations.clear()
        for parameter in self.parameters(optimizer):
            for value in optimizer.state.get(parameter, {}).values():
                self.label("optimizer state", self.name(parameter), value)
        self.phases.leave("optimizer")

    @staticmethod
    def parameters(optimizer):
        return [parameter for group in optimizer.param_groups for parameter in group["params"]]

    def name_node(self, event):
        """Turns the operator layer's "autograd:NODE:SEQUENCE" into a frame for the node and the module that made it in forward."""
        metadata = event.get("user_metadata") or ""
        if not metadata.startswith("autograd:"):
            return
        _, node, number = metadata.rsplit(":", 2)
        event["user_metadata"] = self.paths[bisect.bisect_right(self.sequence, int(number)) - 1]
        if not event.get("frames"):
            event["frames"] = [{"name": node, "filename": "autograd", "line": 0}]

    def gathers(self):
        """The all-gathers, as rows of `Gather`."""
        self.layer.tidemark_numbers_gathers.restype = ctypes.c_size_t
        rows = (Gather * self.layer.tidemark_numbers_gathers(None, ctypes.c_size_t(0)))()
        self.layer.tidemark_numbers_gathers(rows, ctypes.c_size_t(len(rows)))
        return [[getattr(row, name) for name, _ in Gather._fields_] for row in rows]

    def write(self, place):
        """The files `place`.pickle and `place`.trace.json.gz, each whole or not at all."""
        self.trace.write(place, os.path.basename(place))
        self.allocations.clear()
        self.label_workspaces()
        snapshot = self.torch.cuda.memory._snapshot()
        for trace in snapshot["device_traces"]:
            for event in trace:
                self.name_node(event)
        snapshot["tidemark_labels"], snapshot["tidemark_phases"] = self.rows, self.phases.all()
        snapshot["tidemark_gathers"] = self.gathers()
        with open(place + ".new", "wb") as file:
            pickle.dump(snapshot, file)
        os.replace(place + ".new", place + ".pickle")
