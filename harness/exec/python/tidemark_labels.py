"""What the record of a process's memory cannot know by itself (../../virtual/recorder/recorder.h): the module that runs, the names of parameters,
buffers and optimizer state, and the phases of a training step."""
import importlib
import threading
import warnings
import weakref

from tidemark_growth import Growth
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
            hook(arguments[0])

    return hook_or_nothing


def setting(value):
    """A setting of the allocator as PYTORCH_CUDA_ALLOC_CONF has it; "" where it decides nothing."""
    if isinstance(value, dict):
        return "[" + ",".join(f"{size}:{count}" for size, count in value.items()) + "]" if any(value.values()) else ""
    return str(value)


def tell_settings(torch, layer):
    for name, value in torch.cuda.memory._snapshot().get("allocator_settings", {}).items():
        if setting(value):
            layer.tidemark_record_setting(str(name).encode(), setting(value).encode())


class Calls(threading.local):
    """Modules that run on a thread, by their paths, and whether they are a forward of their own."""

    def __init__(self):
        self.stack, self.forward = [], False


class Labels:
    def __init__(self, torch, layer, libraries):
        self.torch, self.layer = torch, layer
        self.trace = Trace(libraries)
        self.modules = weakref.WeakKeyDictionary()  # module -> its path below the outermost one
        self.phases = Phases(torch, layer, self.trace, Growth(torch, layer, self.modules))
        self.names = {}  # a parameter's id -> it, weakly, and its name
        self.plain = {torch.Tensor, torch.nn.Parameter}  # types whose memory is their own
        self.has_optimizer = False
        self.calls = Calls()
        self.tell_module = layer.tidemark_record_module
        warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are global hooks")  # which are these
        hooks = torch.nn.modules.module
        hooks.register_module_forward_pre_hook(outside_compilation(torch, self.enter))
        hooks.register_module_forward_hook(outside_compilation(torch, self.leave), always_call=True)
        optimizer = importlib.import_module("torch.optim.optimizer")
        self.phases.follow(self.after_backward)
        optimizer.register_optimizer_step_pre_hook(self.before_step)
        optimizer.register_optimizer_step_post_hook(self.after_step)

    def enter(self, module):
        stack = self.calls.stack
        if not stack:
            if module not in self.modules:
                self.learn(module)
            self.calls.forward = self.phases.backwards == 0  # else autograd computes activations again
            if self.calls.forward:
                self.phases.enter("forward")
        path = self.modules.get(module) or type(module).__name__.encode()
        stack.append(path)
        self.tell_module(path)

    def leave(self, _module):
        stack = self.calls.stack
        if stack:
            stack.pop()
            if not stack and self.calls.forward:
                self.phases.leave("forward")
        self.tell_module(stack[-1] if stack else b"")

    def learn(self, root):
        """Names of the modules and parameters below the outermost module, when it is called for the first time."""
        for path, module in root.named_modules():
            self.modules.setdefault(module, plain(path).encode())
        for name, parameter in root.named_parameters():
            named = self.names.get(id(parameter))
            if named is None or named[0]() is not parameter:
                self.names[id(parameter)] = weakref.ref(parameter), plain(name).encode()
            self.label(b"parameters", plain(name).encode(), parameter)
        for name, buffer in root.named_buffers():
            self.label(b"buffers", plain(name).encode(), buffer)

    def address(self, tensor):
        """Where a tensor lies on a GPU, or 0."""
        if type(tensor) not in self.plain:
            tensor = getattr(tensor, "_local_tensor", tensor)  # of a DTensor
            if not isinstance(tensor, self.torch.Tensor):
                return 0
        try:
            return tensor.data_ptr() if tensor.is_cuda else 0
        except (RuntimeError, NotImplementedError):
            return 0  # a tensor without memory of its own

    def label(self, kind, name, tensor):
        address = self.address(tensor)
        if address:
            self.layer.tidemark_record_label(address, kind, name)

    def name(self, parameter):
        named, name = self.names.get(id(parameter), (None, None))
        if named is None or named() is not parameter:
            name = f"{type(parameter).__name__}{list(parameter.shape)}".encode()
            self.names[id(parameter)] = weakref.ref(parameter), name
        return name

    def after_backward(self):
        """Gradients that are not autograd's own work (FSDP's, of a reduction), of a program whose optimizer is not PyTorch's."""
        for named, name in [] if self.has_optimizer else list(self.names.values()):
            parameter = named()
            if parameter is not None and parameter.grad is not None:
                self.label(b"gradients", name, parameter.grad)

    def before_step(self, optimizer, _arguments, _keywords):
        self.has_optimizer = True
        self.phases.enter("optimizer")
        for parameter in self.parameters(optimizer):
            name, gradient = self.name(parameter), parameter.grad
            self.label(b"parameters", name, parameter)
            if gradient is not None:
                self.label(b"gradients", name, gradient)

    def after_step(self, optimizer, _arguments, _keywords):
        for parameter in self.parameters(optimizer):
            name = self.name(parameter)
            for value in optimizer.state.get(parameter, {}).values():
                self.label(b"optimizer state", name, value)
        self.phases.leave("optimizer")

    @staticmethod
    def parameters(optimizer):
        return [parameter for group in optimizer.param_groups for parameter in group["params"]]
