"""Mode math: the kernels of Triton, which do nothing on the virtual GPU, are computed on the host by Triton's own interpreter
(tidemark_interpreter.py).

A launch goes its usual way first, so that its time, its checks and its memory are those of every mode, and no byte moves meanwhile. Then the
interpreter runs the same Python function on the same memory, which is the host's in mode math: nothing is copied, and the host does not wait for the device."""
import ctypes
import functools
import importlib.util
import itertools
import os
import traceback

from tidemark_platform import refusal

measuring = 0  # measurements under way: their results are not read


class Suspended:
    """The platform moves no byte for this thread, and refuses no kernel."""

    def __enter__(self):
        ctypes.CDLL(None).tidemark_device_suspend_data(1)

    def __exit__(self, *_):
        ctypes.CDLL(None).tidemark_device_suspend_data(-1)


def is_captured():
    import torch

    return measuring == 0 and torch.cuda.is_current_stream_capturing()


def is_computed():
    """Whether a kernel is computed when it is launched."""
    return measuring == 0 and not is_captured()


@functools.cache
def interpreter():
    """tidemark_interpreter, when the first kernel is computed: this folder is no longer on the path then."""
    spec = importlib.util.spec_from_file_location("tidemark_interpreter", os.path.join(os.path.dirname(os.path.abspath(__file__)), "tidemark_interpreter.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def await_stream(torch):
    """Until what the current stream waits for of other ranks is there."""
    ctypes.CDLL(None).tidemark_device_await_stream(ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))


def compute(function, grid, words, named):
    import torch

    await_stream(torch)
    try:
        interpreter().run(function, grid, words, named)
    except Exception as error:
        raise refusal(f"kernel {function.__name__} cannot be computed in mode math by Triton's interpreter ({error}): modes known and shapes run it "
                      "without numbers") from error


captured = {}  # what the kernels in CUDA graphs compute, by number
numbers = itertools.count(1)


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
def compute_captured(number):
    try:
        captured[number]()
    except Exception:
        traceback.print_exc()  # the launch of the graph fails
        return 1
    return 0


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def forget_captured(number):
    captured.pop(number, None)


def on_host(tensor):
    """A tensor of the CPU on the memory of this one, which is the host's in mode math. It does not keep the memory."""
    import torch

    if tensor.numel() == 0:
        return torch.empty(tensor.size(), dtype=tensor.dtype, device="cpu")
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride()))
    memory = (ctypes.c_char * (extent * tensor.element_size())).from_address(tensor.data_ptr())
    return torch.frombuffer(memory, dtype=torch.uint8).view(tensor.dtype).as_strided(tensor.size(), tensor.stride(), 0)


def by_address(value):
    import torch

    return on_host(value) if isinstance(value, torch.Tensor) else value


def capture(name, launch, arguments):
    """A kernel becomes part of a CUDA graph: each launch of the graph computes it. `arguments()`: those of compute(), after the launch."""
    platform, number = ctypes.CDLL(None), next(numbers)
    platform.tidemark_device_begin_operator(name.encode())
    try:
        with Suspended():
            done = launch()
        function, grid, words, named = arguments()
        captured[number] = functools.partial(compute, function, grid, [by_address(word) for word in words], {key: by_address(value) for key, value in named.items()})
        if not platform.tidemark_device_capture_effect(compute_captured, ctypes.c_void_p(number), forget_captured):
            raise refusal(f"kernel {name} has no numbers in this CUDA graph, which does not have it: modes known and shapes run it without them")
    finally:
        platform.tidemark_device_end_operator(ctypes.c_uint64(0))
    return done


def compute_kernels(module, run):
    """`module` is triton.runtime.jit."""
    run(module)
    launch = module.JITFunction.run

    def run_and_compute(self, *words, grid, warmup, **named):
        if not warmup and is_captured():
            return capture(self.fn.__name__, lambda: launch(self, *words, grid=grid, warmup=False, **named), lambda: (self.fn, grid, words, named))
        if warmup or not is_computed():
            return launch(self, *words, grid=grid, warmup=warmup, **named)
        with Suspended():
            done = launch(self, *words, grid=grid, warmup=False, **named)
        compute(self.fn, grid, words, named)
        return done

    module.JITFunction.run = run_and_compute


def without_results(measure):
    """Of a function that launches a kernel many times to measure it."""

    def outer(*words, **named):
        global measuring
        measuring += 1
        try:
            with Suspended():
                return measure(*words, **named)
        finally:
            measuring -= 1

    return functools.wraps(measure)(outer)


def tune_without_results(module, run):
    """`module` is triton.runtime.autotuner."""
    run(module)
    module.Autotuner._bench = without_results(module.Autotuner._bench)


def compute_inductor(module, run):
    """`module` is torch._inductor.runtime.triton_heuristics, which keeps what it compiles."""
    run(module)
    tuner = module.CachingAutotuner
    if not hasattr(tuner, "_interpret_args_grid"):  # before torch 2.8
        return
    launch = tuner.run

    def run_and_compute(self, *words, stream, benchmark_run=False, **named):
        def start():
            return launch(self, *words, stream=stream, **named)

        def arguments():
            config = self.launchers[0].config
            if self.fn.fn is None:  # compiled by another process
                self.fn = self._reload_kernel().fn
            own, grid = self._interpret_args_grid(words, config)
            return self.fn.fn, grid, own, {**named, **config.kwargs}

        if benchmark_run or measuring:
            return launch(self, *words, stream=stream, benchmark_run=benchmark_run, **named)
        if is_captured():
            return capture(self.fn.__name__, start, arguments)
        with Suspended():
            done = start()
        compute(*arguments())
        return done

    tuner.run = run_and_compute
    tuner.bench = without_results(tuner.bench)
