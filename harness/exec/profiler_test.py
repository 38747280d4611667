"""torch.profiler with the activities of the virtual device."""
from testing.said import HERE, Said

PROGRAM = HERE / "profiled.py"


def profiled(part, *flags, **environment):
    result = Said(*flags, "--", "python3", PROGRAM, *part.split(), **environment).ends(0)
    result.check("problems: " not in result.out or result.out.count("problems: ") == result.out.count("problems: 0\n"), "calls before operations, in the window")
    result.check("CUPTI" not in result.err, "no warning")
    return result


def test_training():
    """Kernels and copies with their operators, in each mode, with the report's own trace too."""
    for flags in (), ("--mode", "math"), ("--mode", "shapes", "--report", "--schedule", "lagging"):
        result = profiled("training", *flags)
        for line in ("problems: 0", "operators: aten::copy_", "products: aten::addmm aten::mm", "device: [('kernel', 69), ('gpu_memcpy', 6)]",
                     "allocated: 1363968", "averages: True | label: True"):
            result.check(line in result.out, line)


def test_peak():
    """The profiler changes no byte."""
    on, off = profiled("peak on"), profiled("peak off")
    on.check("peak: " in on.out and on.out == off.out, f"peaks with and without the profiler: {on.out} {off.out}")
    table = [[line for line in result.err.splitlines() if line.startswith("process")][0].split()[2:] for result in (on, off)]
    on.check(table[0] == table[1], f"{table}")


def test_windows():
    """A window has what was called in it, and its times are in it also where the device is slower than the host."""
    result = profiled("schedule")
    result.check("windows: 2 50 True True" in result.out, "two equal windows")
    result = profiled("busy", "--mode", "shapes")
    result.check("seconds: 0.5 4" in result.out, "four products on the virtual clock")


# night: repeats exec_profiler_training on several streams
def test_streams():
    """Waits, CUDA graphs, and collectives on the streams and devices of two ranks."""
    result = profiled("waits")
    result.check("waits: Context Sync Event Sync Stream Sync" in result.out, "kinds of waits")
    result = profiled("graph")
    result.check("graph: 2 {'cudaGraphLaunch'} 64" in result.out, "a graph's kernels are those of its launch")
    result = profiled("ranks", "--ranks", 2)
    for rank in range(2):
        line = f"rank {rank}: 4 ncclDevKernel_AllReduce_Sum_f32_RING ncclDevKernel_Broadcast_RING cudaLaunchKernelExC True True"
        result.check(line in result.out or line.replace("AllReduce_Sum_f32_RING ncclDevKernel_Broadcast_RING", "Broadcast_RING ncclDevKernel_AllReduce_Sum_f32_RING") in result.out,
                   "collectives by their kernels")


# night: a profiler that ends with its process; exec_profiler_training has one by day
def test_torn_down():
    """Kineto ends CUPTI after a profile (TEARDOWN_CUPTI), from a callback of a later call, and begins it again."""
    for again in "0", "1":
        result = profiled("schedule", TEARDOWN_CUPTI="1", **({"DISABLE_CUPTI_LAZY_REINIT": "1"} if again == "1" else {}))
        result.check("windows: 2 50 True True" in result.out, "two equal windows")
