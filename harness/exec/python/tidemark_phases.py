"""Phases of a program, for the record of its memory: forward (an outermost module runs), backward (autograd runs), optimizer, and the program's
own ranges of record_function and NVTX."""
import functools
import os
import threading

import tidemark_collector


def followed(torch):
    """Functions of PyTorch that Phases follows."""
    function, nvtx = torch.autograd.profiler.record_function, torch.cuda.nvtx
    return (function.__enter__, function.__exit__, nvtx.range_push, nvtx.range_pop, torch.cuda.memory.empty_cache, torch.autograd.backward, torch.autograd.grad)


def follow_ranges(torch, begin, end):
    """`begin(name, caller)` is called before each range of record_function (`caller`: the file that has it) and NVTX (""), `end(what it returned)` after it."""
    around = tidemark_collector.own.around
    function, nvtx, pushed = torch.autograd.profiler.record_function, torch.cuda.nvtx, threading.local()
    own = f"tidemark_range_{id(begin)}"  # a range has several followers

    def enters(self):
        setattr(self, own, begin(str(self.name), next((file for _, file, _ in tidemark_collector.own.stack()), "")))

    def leaves(self, *_):
        if hasattr(self, own):
            end(getattr(self, own))

    def pushes(message):
        pushed.ranges = [*getattr(pushed, "ranges", []), begin(str(message), "")]

    def pops():
        if getattr(pushed, "ranges", []):
            end(pushed.ranges.pop())

    function.__enter__, function.__exit__ = around(function.__enter__, enters), around(function.__exit__, leaves)
    nvtx.range_push, nvtx.range_pop = around(nvtx.range_push, pushes), around(nvtx.range_pop, pops)


class Phases:
    def __init__(self, torch, layer, trace, growth):
        self.torch, self.trace, self.growth = torch, trace, growth
        self.tell, self.tell_end = layer.tidemark_record_builtin(b"phase"), layer.tidemark_record_builtin(b"phase_end")
        self.backwards, self.makes_graph = 0, False
        self.after_backward = None
        self.place = os.path.dirname(torch.__file__) + os.sep

    def enter(self, name):
        step = self.tell(name)
        self.trace.begun(name, step)
        self.growth.begun(name, step)

    def leave(self, name):
        self.tell_end(name)
        self.trace.ended(name)

    def follow(self, after_backward):
        """Begins to notice backwards and the program's ranges."""
        self.after_backward = after_backward
        self.follow_backwards()
        follow_ranges(self.torch, self.begin, self.end)
        memory, around = self.torch.cuda.memory, tidemark_collector.own.around
        emptied = around(memory.empty_cache, lambda: self.enter("empty_cache"), lambda: self.leave("empty_cache"))
        self.torch.cuda.empty_cache = memory.empty_cache = emptied  # a program without phases may do so once a step

    def begin(self, name, caller):
        """A range; PyTorch's own are none."""
        if caller.startswith(self.place):
            return None
        self.enter(name)
        return name

    def end(self, name):
        if name is not None:
            self.leave(name)

    def follow_backwards(self):
        modes, fake = self.torch._C._get_dispatch_mode, self.torch._C._TorchDispatchModeKey.FAKE
        real = threading.local()  # bits, a bit for each backward of this thread: whether torch.compile does not look at what it compiles

        def before(place, *arguments, **keywords):
            is_real = modes(fake) is None
            real.bits = getattr(real, "bits", 0) << 1 | is_real
            self.makes_graph = self.makes_graph or is_real and keywords.get("create_graph", arguments[place] if len(arguments) > place else False) is True
            self.backwards += is_real
            if is_real and self.backwards == 1:
                self.enter("backward")

        def after(*_, **__):
            is_real, real.bits = real.bits & 1, real.bits >> 1
            self.backwards -= is_real
            if is_real and self.backwards == 0:
                self.after_backward()
                self.leave("backward")
                if self.makes_graph:
                    self.makes_graph = False
                    self.growth.tell_graphs()

        for name, place in ("backward", 3), ("grad", 4):  # of the argument create_graph
            setattr(self.torch.autograd, name, tidemark_collector.own.around(getattr(self.torch.autograd, name), functools.partial(before, place), after))
