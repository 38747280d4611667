"""Mode math: a program's own kernels of torch.cuda.jiterator are computed on the host. Each one is a function of C++ for one element, which a C++ compiler
compiles for the host too, with what CUDA has in the global namespace and C++ lacks: min, max, rsqrt. A function with anything else of CUDA's is refused by name.

A launch goes its usual way first (tidemark_triton.py). The types are PyTorch's: inputs of the common type, computed in float for half precision."""
import ctypes
import functools
import os
import shutil
import subprocess
import tempfile

import tidemark_files
import tidemark_triton
from tidemark_platform import refusal

SECONDS = 120  # for the compiler
NAMES = {"bool": "bool", "uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t", "float32": "float", "float64": "double",
         "complex64": "std::complex<float>", "complex128": "std::complex<double>"}
SCALARS = {bool: ("bool", ctypes.c_bool), int: ("int64_t", ctypes.c_int64), float: ("double", ctypes.c_double)}
SOURCE = """#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <algorithm>
#include <complex>
#include <limits>
#include <type_traits>
#define __host__
#define __device__
#define __forceinline__ inline
template <typename T> static inline T min(T a, T b) { if constexpr (std::is_floating_point_v<T>) return std::fmin(a, b); else return b < a ? b : a; }
template <typename T> static inline T max(T a, T b) { if constexpr (std::is_floating_point_v<T>) return std::fmax(a, b); else return a < b ? b : a; }
static inline float rsqrt(float x) { return 1 / std::sqrt(x); }
static inline double rsqrt(double x) { return 1 / std::sqrt(x); }
%(code)s
extern "C" void tidemark_each(int64_t count, void** tensors, void** scalars) {
  for (int64_t i = 0; i < count; ++i) {
    %(outputs)s
    %(call)s;
    %(stores)s
  }
}
"""


def source_of(code, name, kind, inputs, outputs, by_reference, scalars):
    words = [f"static_cast<{kind}*>(tensors[{i}])[i]" for i in range(inputs)] + [f"*static_cast<{scalar}*>(scalars[{i}])" for i, scalar in enumerate(scalars)]
    call = f"{name}<{kind}>({', '.join(words + [f'out{i}' for i in range(outputs)] * by_reference)})"
    return SOURCE % {"code": code, "call": call if by_reference else f"out0 = {call}", "outputs": " ".join(f"{kind} out{i};" for i in range(outputs)),
                     "stores": " ".join(f"static_cast<{kind}*>(tensors[{inputs + i}])[i] = out{i};" for i in range(outputs))}


@functools.cache
def compiled(source):
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX") or "g++", "g++", "clang++", "c++"))), None)
    if compiler is None:
        raise NotImplementedError("no C++ compiler is on the PATH: set CXX")
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    with tempfile.TemporaryDirectory(prefix="tidemark-") as folder:
        file, library = os.path.join(folder, "kernel.cpp"), os.path.join(folder, "kernel.so")
        with tidemark_files.create(file) as out:
            out.write(source)
        done = subprocess.run([compiler, "-std=c++17", "-O1", "-ffp-contract=off", "-w", "-shared", "-fPIC", file, "-o", library], capture_output=True, text=True, check=False,
                              env=environment, stdin=subprocess.DEVNULL, timeout=SECONDS)
        if done.returncode != 0:
            errors = [line.partition("error: ")[2] for line in done.stderr.splitlines() if "error: " in line]
            raise NotImplementedError(f"it is no C++ of the host: {(errors or [done.stderr.strip()])[0]}")
        return ctypes.CDLL(library).tidemark_each


def compute(torch, code, name, by_reference, tensors, results, scalars):
    common = results[0].dtype
    kind = torch.float32 if common in (torch.float16, torch.bfloat16) else common
    if not all(type(value) in SCALARS for value in scalars.values()) or str(kind)[6:] not in NAMES:
        raise NotImplementedError(f"values of {common}, or of {', '.join(type(value).__name__ for value in scalars.values())}")
    each = compiled(source_of(code, name, NAMES[str(kind)[6:]], len(tensors), len(results), by_reference, [SCALARS[type(value)][0] for value in scalars.values()]))
    ins = [tidemark_triton.on_host(tensor).to(common).to(kind).expand(results[0].shape).contiguous() for tensor in tensors]
    outs = [torch.empty(results[0].shape, dtype=kind, device="cpu") for _ in results]
    values = [SCALARS[type(value)][1](value) for value in scalars.values()]
    addresses = (ctypes.c_void_p * len(ins + outs))(*(tensor.data_ptr() for tensor in ins + outs))
    each(ctypes.c_int64(results[0].numel()), addresses, (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values)))
    for result, out in zip(results, outs):
        tidemark_triton.on_host(result).copy_(out)


def compute_kernels(torch):
    from torch.utils._python_dispatch import _disable_current_modes

    launch = getattr(torch._C, "_cuda_jiterator_compile_and_launch_kernel", None)
    if launch is None:
        return

    def run_and_compute(code, name, by_reference, count, tensors, scalars):
        if not tidemark_triton.is_computed():
            return launch(code, name, by_reference, count, tensors, scalars)
        with tidemark_triton.Suspended():
            done = launch(code, name, by_reference, count, tensors, scalars)
        results = [done] if isinstance(done, torch.Tensor) else list(done)
        tidemark_triton.await_stream(torch)
        if results[0].numel() > 0:
            try:
                with torch.no_grad(), torch._C.DisableTorchFunction(), _disable_current_modes():  # the program's modes do not see it
                    compute(torch, code, name, by_reference, tensors, results, scalars)
            except Exception as error:
                raise refusal(f"kernel {name} of torch.cuda.jiterator has no numbers in mode math ({error}): modes known and shapes run it without them") from error
        return done

    torch._C._cuda_jiterator_compile_and_launch_kernel = run_and_compute
