"""What the record of a process's memory cannot know by itself (../../virtual/recorder/recorder.h): the module that runs, the names of parameters,
buffers and optimizer state, and the phases of a training step."""
import contextlib
import functools
import importlib
import threading
import weakref

import tidemark_collector
import tidemark_phases
from tidemark_growth import Growth
from tidemark_platform import when_imported
from tidemark_tensors import plain_tensors
from tidemark_trace import Trace

# Modules that wrap another one: of torch.compile, checkpointing, FSDP, Lightning's Fabric, DDP.
WRAPPERS = {"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module", "_forward_module", "module"}


def plain(path):
    return ".".join(word for word in path.split(".") if word not in WRAPPERS)


def is_below(path, known):
    """True for a path that begins further out: that of a module which the program first called alone."""
    return path != known and (not known or path.endswith(b"." + known))


def shared(root):
    """By ids of modules with nothing in them that several others have, as one activation function of all layers, a name for all places: `*.act`, or the
    module's type."""
    places = {}
    for parent in root.modules():
        for name, child in parent._modules.items():
            if child is not None and not child._modules and not child._parameters:
                places.setdefault(id(child), (child, []))[1].append(name)
    return {number: "*." + names[0] if len(set(names)) == 1 else type(module).__name__ for number, (module, names) in places.items() if len(names) > 1}


def followed(torch):
    """Functions of PyTorch that are followed with a report alone."""
    module = torch.nn.Module
    return (module.__call__, module._apply, module.__setstate__, module.register_parameter, module.register_buffer, torch.nn.RNNBase.flatten_parameters,
            torch.utils.swap_tensors, torch.optim.Optimizer.load_state_dict, *tidemark_phases.followed(torch))


def parts_of(state):
    """What an object that an optimizer keeps for a parameter has, as the preconditioner of Shampoo; else the value itself."""
    own = getattr(state, "__dict__", None)
    return own if own and not isinstance(state, dict) and not hasattr(state, "data_ptr") else state


def setting(value):
    """A setting of the allocator as PYTORCH_CUDA_ALLOC_CONF has it; "" where it decides nothing."""
    if isinstance(value, dict):
        return "[" + ",".join(f"{size}:{count}" for size, count in value.items()) + "]" if any(value.values()) else ""
    return str(value)


def tell_settings(torch, layer):
    for name, value in torch.cuda.memory._snapshot().get("allocator_settings", {}).items():
        if setting(value):
            layer.tidemark_record_setting(str(name).encode(), setting(value).encode())


class Modules(dict):
    """Paths of modules below the outermost one, by the ids of the modules, while these live."""

    def __init__(self, layer):
        super().__init__()
        self.own, self.alive = tidemark_collector.own, {}  # numbers of modules and weak references to them, by the ids of these
        self.ended = self.own.of(self.remove)
        self.tell, self.forget = layer.tidemark_record_builtin(b"name_module"), layer.tidemark_record_builtin(b"forget_module")

    def add(self, module, path):
        known = self.get(id(module))
        if known is None:
            reference = weakref.ref(module, self.ended)
            entry = id(module), reference
            self.alive[id(reference)] = entry
            self.own.untrack(entry)  # the collector expects the reference among what it looks at
        elif not is_below(path, known):
            return
        self[id(module)] = path
        self.tell(module, path or type(module).__name__.encode())  # "": what another one wraps

    def remove(self, reference):
        number, _ = self.alive.pop(id(reference))
        del self[number]
        self.forget(number)


class Shards:
    """The shards of FSDP, also of a model that is never called, and those of ZeRO-3, which lie in flat buffers. Their modules are changed in every process, with or without a record of history, when the program imports them:
    Python's collector counts what an import makes."""
    label = None  # of the process's Labels

    def __init__(self, owner, function, of, kind):
        self.owner, self.function, self.of, self.kind = owner, function, of, kind

    def follow(self, module):
        if owner := getattr(module, self.owner, None):
            setattr(owner, self.function, tidemark_collector.own.around(getattr(owner, self.function), after=self.tell))

    def tell(self, shard, *_, **__):
        if Shards.label and hasattr(shard, self.of):
            Shards.label(self.kind, getattr(shard, self.of))


def follow_shards():
    for name, *words in (("torch.distributed.fsdp._fully_shard._fsdp_param", "FSDPParam", "_init_sharded_param", "sharded_param", b"parameters"),
                         ("torch.distributed._composable.fsdp._fsdp_param", "FSDPParam", "_init_sharded_param", "sharded_param", b"parameters"),
                         ("torch.distributed.fsdp._flat_param", "FlatParamHandle", "shard", "flat_param", b"parameters"),
                         ("deepspeed.runtime.zero.stage3", "DeepSpeedZeroOptimizer_Stage3", "_create_fp16_partitions_with_defragmentation", "lp_param_buffer", b"parameters"),
                         ("deepspeed.runtime.zero.stage3", "DeepSpeedZeroOptimizer_Stage3", "_setup_for_real_optimizer", "grad_partitions_flat_buffer", b"gradients")):
        when_imported(name, Shards(*words).follow)


class Labels:
    def __init__(self, torch, layer, libraries):
        self.torch, self.layer, self.own = torch, layer, tidemark_collector.own
        tensor = torch.empty(0)
        layer.tidemark_record_builtin(b"tensor_types")(tensor, getattr(tensor, "_cdata", 0), torch.Tensor, torch.nn.Parameter)
        self.trace = Trace(libraries, layer)
        self.modules = Modules(layer)
        self.phases = tidemark_phases.Phases(torch, layer, self.trace, Growth(torch, layer, self.modules, libraries))
        self.names = {}  # a parameter's id -> it, weakly, and its name
        self.has_optimizer = False
        self.optimizers = {}  # by their ids, weakly: those that have stepped, or got their state
        self.sharded = weakref.WeakSet()  # modules with a group of parameters of FSDP2
        self.stepping = {}  # an optimizer's id, while it steps -> names of its parameters by their ids
        self.runs = threading.local()  # root: the outermost module of this thread, weakly; forward: it is a forward of its own
        self.in_vain = weakref.WeakKeyDictionary()  # a root -> how often it was searched for a module that was not in it
        self.tell_labels, self.tell_gradients, self.enter = map(layer.tidemark_record_builtin, (b"labels", b"gradient_labels", b"enter"))
        self.follow_modules()
        self.follow_moves()
        self.follow_copies()
        self.follow_swaps()
        Shards.label = self.own.of(lambda kind, tensor: self.label(kind, [b""], [tensor]))
        self.follow_states()
        self.follow_autocast()
        optimizer = importlib.import_module("torch.optim.optimizer")
        self.phases.follow(self.after_backward)
        optimizer.register_optimizer_step_pre_hook(self.own.of(self.before_step))
        optimizer.register_optimizer_step_post_hook(self.own.of(self.after_step))

    def follow_modules(self):
        """A wrapper of Module.__call__, since a global hook takes all modules from PyTorch's short path. Nothing of it is left in what torch.compile
        makes: a compiled module is one module."""
        call, compiling = self.torch.nn.Module.__call__, self.own.compiling
        entered, left = self.layer.tidemark_record_builtin(b"entered"), self.layer.tidemark_record_builtin(b"left")
        begin, begin_unnamed, end = self.own.of(self.begin), self.own.of(self.begin_unnamed), self.own.of(self.end)

        @functools.wraps(call)
        def followed(module, *arguments, **keywords):  # this body runs where the builtin cannot stand in its place
            if compiling():
                return call(module, *arguments, **keywords)
            if (inside := entered(module)) is not True:
                (begin if inside is None else begin_unnamed)(module, *arguments, **keywords)
            try:
                return call(module, *arguments, **keywords)
            finally:
                if not left():
                    end()

        self.own.leave_alone(followed.__code__)
        self.own.stand_at_modules(followed, call, vars(self.torch.compiler), self.begin, self.begin_unnamed, self.end)
        self.torch.nn.Module.__call__ = followed

    def follow_moves(self):
        """What Module.to, cuda, half and the like allocate are parameters, buffers and gradients, also in a hook of a forward (offloading), or of a module
        that is never called."""
        def applied(module, *_, **__):
            self.label_own(module)
            parameters = [one for one in module._parameters.values() if one is not None]
            self.label_gradients_of([b""] * len(parameters), parameters)

        module, recurrent = self.torch.nn.Module, self.torch.nn.RNNBase
        module._apply = self.own.around(module._apply, after=applied)
        recurrent.flatten_parameters = self.own.around(recurrent.flatten_parameters, after=self.label_own)  # into a block of its own

    def follow_copies(self):
        """What a module has that is copied (a moving average of the weights), loaded, or built on the GPU, also if it is never called."""
        module_type = self.torch.nn.Module

        def follow(register, kind, of):
            def registered(module, *arguments, **keywords):
                named = module.__dict__.get(of, {})
                name = arguments[0] if arguments else keywords.get("name")
                if id(module) not in self.modules and type(name) is str and name in named:
                    self.label(kind, [b""], [named[name]])

            return self.own.around(register, after=registered)

        module_type.__setstate__ = self.own.around(module_type.__setstate__, after=lambda module, _state: self.label_own(module))
        module_type.register_parameter = follow(module_type.register_parameter, b"parameters", "_parameters")
        module_type.register_buffer = follow(module_type.register_buffer, b"buffers", "_buffers")

    def follow_swaps(self):
        """PyTorch swaps no tensors to which there are weak references, as those of the names."""
        names = []

        def before(*tensors):
            names.append([(one, self.names.pop(id(one), (None, b""))[1]) for one in tensors])

        def after(*_):
            for one, name in names.pop():
                if name:
                    self.keep_name(one, name)

        self.torch.utils.swap_tensors = self.own.around(self.torch.utils.swap_tensors, before, after)

    def follow_states(self):
        """The state that an optimizer is given, before its next step."""
        base = self.torch.optim.Optimizer
        base.load_state_dict = self.own.around(base.load_state_dict, after=lambda optimizer, *_, **__: self.label_state(optimizer))

    def follow_autocast(self):
        """What autocast lets go of when its outermost context ends are the copies of weights that it has kept until then."""
        freed = self.layer.tidemark_record_freed
        self.torch.clear_autocast_cache = self.own.around(self.torch.clear_autocast_cache, lambda: freed(b"autocast copies"), lambda: freed(None))

    def label_state(self, optimizer):
        self.optimizers[id(optimizer)] = weakref.ref(optimizer)
        self.label_state_of(optimizer, {id(parameter): self.name(parameter) for group in optimizer.param_groups for parameter in group["params"]})

    def label_state_of(self, optimizer, name_of):
        names, values = [], []
        for parameter, state in optimizer.state.items():
            if id(parameter) in name_of:
                names += [b"" if len(optimizer.state) == 1 and self.is_of_all(state, parameter) else name_of[id(parameter)]] * len(state)
                values += map(parts_of, state.values())
        self.label(b"optimizer state", names, values)

    def is_of_all(self, state, parameter):
        """True of one state of all parameters, as that of LBFGS."""
        with self.torch._C.DisableTorchFunctionSubclass():
            return any(one.numel() > parameter.numel() for one in state.values() if issubclass(type(one), self.torch.Tensor))

    def label_own(self, module):
        """The parameters and buffers of this module alone."""
        path = self.modules.get(id(module))
        for kind, named in (b"parameters", module._parameters), (b"buffers", module._buffers):
            tensors = dict(named.items())  # those of TorchScript are no dictionaries
            self.label(kind, [b"" if path is None else path + b"." * bool(path) + name.encode() for name in tensors], list(tensors.values()))

    def begin(self, module, *arguments, **keywords):
        """The outermost module of a thread runs."""
        self.runs.root = weakref.ref(module)
        if id(module) not in self.modules:
            self.learn(module)
        self.runs.forward = self.phases.backwards == 0  # else autograd computes activations again
        if self.runs.forward:
            self.phases.enter("forward")
        self.run(module)
        self.label_inputs(arguments, keywords)

    def begin_unnamed(self, module, *_, **__):
        """A module runs that has no path."""
        self.learn_again()
        self.run(module)

    def run(self, module):
        self.enter(self.modules.get(id(module)) or type(module).__name__.encode())

    def label_inputs(self, arguments, keywords):
        """What the program passes to an outermost module. Of these the record's reader takes those that no module and no library has made for inputs."""
        values = [*arguments, *keywords.values()]
        tensors = [one for value in values for one in (value.values() if type(value) is dict else value if type(value) in (list, tuple) else (value,))
                   if issubclass(type(one), self.torch.Tensor)]
        self.label(b"inputs", [b""] * len(tensors), tensors)

    def end(self):
        if getattr(self.runs, "forward", False):
            self.runs.forward = False
            self.phases.leave("forward")

    def learn(self, root):
        """Names of the modules and parameters below the outermost module, when it is called for the first time."""
        of_shared = shared(root)
        for path, module in root.named_modules():
            self.modules.add(module, of_shared.get(id(module), plain(path)).encode())
            if hasattr(type(module), "_get_fsdp_state"):
                self.sharded.add(module)
        for kind, named in ((b"parameters", root.named_parameters()), (b"buffers", root.named_buffers())):
            tensors = dict(named)
            self.label(kind, [plain(name).encode() for name in tensors], list(tensors.values()))
        for name, parameter in root.named_parameters():
            self.name(parameter, plain(name).encode())

    def learn_again(self):
        """A module without a path runs below the outermost one: one that was added since (an adapter), or that belongs to no other."""
        root, known = self.runs.root(), len(self.modules)
        if root is None or self.in_vain.get(root, 0) == 3:
            return
        self.learn(root)
        if len(self.modules) == known:
            self.in_vain[root] = self.in_vain.get(root, 0) + 1

    def label(self, kind, names, tensors):
        """Tensors, or None, of a kind, with their names."""
        self.each(self.tell_labels, kind, names, tensors, lambda one: one)

    def label_gradients_of(self, names, parameters):
        self.each(self.tell_gradients, b"gradients", names, parameters, lambda one: one.grad)

    def each(self, tell, kind, names, tensors, choose):
        at = 0
        while (at := tell(kind, names, tensors, at)) < len(tensors):
            one = choose(tensors[at])
            for address in () if one is None else self.addresses(one):
                self.layer.tidemark_record_label(address, kind, names[at])
            at += 1

    def addresses(self, value):
        """Where a value that is no plain tensor lies on a GPU. A tensor without memory raises what its class likes, which the program must not see."""
        pointers = []
        with contextlib.suppress(Exception):
            for tensor in plain_tensors(self.torch, value):
                with contextlib.suppress(Exception):
                    pointers += [tensor.data_ptr()] if tensor.is_cuda else []
        return filter(None, pointers)

    def name(self, parameter, path=None):
        """The name of a parameter: its path below the outermost module, or its type and shape."""
        named, name = self.names.get(id(parameter), (None, b""))
        if named is None or named() is not parameter or path and (name.endswith(b"]") or is_below(path, name)):
            name = path or f"{type(parameter).__name__}{list(parameter.shape)}".encode()
            self.keep_name(parameter, name)
        return name

    def keep_name(self, parameter, name):
        named = weakref.ref(parameter), name
        self.names[id(parameter)] = named
        self.own.untrack(named[0], named)

    def after_backward(self):
        """Gradients that are not autograd's own work (FSDP's, of a reduction), of a program whose optimizer is not PyTorch's."""
        if not self.has_optimizer:
            self.label_gradients()
        if self.sharded:
            self.label_unsharded()

    def label_unsharded(self):
        """Gradients of whole parameters that FSDP2 keeps from one backward to the next, where a program does not synchronise them."""
        names, values = [], []
        for module in list(self.sharded):
            state = module._get_fsdp_state()
            for group in getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]:  # a list since torch 2.12
                for parameter in group.fsdp_params if group else ():
                    names.append(self.name(parameter.sharded_param))
                    values.append(parameter.unsharded_accumulated_grad)
        self.label(b"gradients", names, values)

    def label_gradients(self):
        """Those of all parameters that have a name; also at the end of the program, which may have made them itself since the last step."""
        parameters = [parameter for named, _ in list(self.names.values()) if (parameter := named()) is not None and parameter.is_leaf]
        self.label_gradients_of([self.name(parameter) for parameter in parameters], parameters)

    def label_at_end(self):
        """At the end, or where memory runs out: gradients and states that the program has made itself, or moved, since the last step."""
        self.label_gradients()
        for optimizer in [one() for one in list(self.optimizers.values())]:
            if optimizer is not None:
                self.label_state(optimizer)

    def before_step(self, optimizer, _arguments, _keywords):
        self.has_optimizer = True
        self.optimizers[id(optimizer)] = weakref.ref(optimizer)
        self.phases.enter("optimizer")
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        names = [self.name(parameter) for parameter in parameters]
        self.stepping[id(optimizer)] = dict(zip(map(id, parameters), names))
        self.label(b"parameters", names, parameters)
        self.label_gradients_of(names, parameters)
        self.phases.growth.before_step()

    def after_step(self, optimizer, _arguments, _keywords):
        self.label_state_of(optimizer, self.stepping.pop(id(optimizer), {}))
        self.phases.leave("optimizer")
