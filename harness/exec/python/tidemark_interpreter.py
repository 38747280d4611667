"""Triton's interpreter, which computes a kernel with NumPy, for mode math: on memory that is the host's already, in a process that compiles
kernels too, and with what the interpreter itself lacks: arithmetic in bf16 and fp8, functions of libdevice, kernels' floats."""
import functools
import inspect
import types

import numpy
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter

NARROW = {str(getattr(tl, ours)): getattr(torch, theirs)  # floats that NumPy does not have: the interpreter keeps their bits
          for ours, theirs in (("bfloat16", "bfloat16"), ("float8e4nv", "float8_e4m3fn"), ("float8e5", "float8_e5m2"))}
TensorHandle = interpreter.TensorHandle


def type_of(handle):
    return NARROW.get(str(handle.dtype.scalar)) if isinstance(handle, TensorHandle) else None


def widened(handle):
    """A handle in single precision, where its values are floats that NumPy does not have."""
    kind = type_of(handle)
    if kind is None:
        return handle
    bits = torch.from_numpy(numpy.ascontiguousarray(handle.data).view(f"int{8 * kind.itemsize}"))
    return TensorHandle(bits.view(kind).float().numpy(), tl.float32)


def narrowed(handle, dtype):
    """Of single precision, rounded to the nearest value of the type, as on a GPU."""
    kind = NARROW[str(dtype.scalar)]
    bits = torch.from_numpy(numpy.ascontiguousarray(handle.data, dtype=numpy.float32)).to(kind).view(getattr(torch, f"int{8 * kind.itemsize}"))
    return TensorHandle(bits.numpy().view(f"uint{8 * kind.itemsize}"), dtype.scalar)


def in_single(method, result):
    """A method of the builder. The result has the type of operand `result`, except for comparisons."""

    def call(self, *handles, **named):
        if not any(map(type_of, handles)):
            return method(self, *handles, **named)
        out, of = method(self, *map(widened, handles), **named), handles[result]
        return narrowed(out, of.dtype) if type_of(of) and out.data.dtype != bool else out

    return call


class Builder(interpreter.InterpreterBuilder):
    binary_op = in_single(interpreter.InterpreterBuilder.binary_op, 0)
    unary_op = in_single(interpreter.InterpreterBuilder.unary_op, 0)
    ternary_op = in_single(interpreter.InterpreterBuilder.ternary_op, 2)
    create_fma = in_single(interpreter.InterpreterBuilder.create_fma, 2)
    create_erf = in_single(interpreter.InterpreterBuilder.create_erf, 0)
    create_rsqrt = in_single(interpreter.InterpreterBuilder.create_rsqrt, 0)
    create_dot = in_single(interpreter.InterpreterBuilder.create_dot, 2)

    def get_bf16(self, value):
        return narrowed(self.get_fp32(value), tl.bfloat16)

    def cast_impl(self, src, dst_type):
        src = widened(src)
        if str(dst_type.scalar) in NARROW:
            return narrowed(super().cast_impl(src, tl.float32), dst_type)
        return super().cast_impl(src, dst_type)

    def create_fp_to_fp(self, src, dst_type, rounding_mode):
        if rounding_mode == interpreter._ir.ROUNDING_MODE.RTZ:
            raise NotImplementedError("a conversion that rounds towards zero")
        return self.cast_impl(src, dst_type)

    def create_atomic_rmw(self, rmwOp, ptr, val, *words):
        if type_of(val):
            raise NotImplementedError(f"an atomic operation in {val.dtype}")
        return super().create_atomic_rmw(rmwOp, ptr, val, *words)


def reduce_in_single(apply):
    def call(self, input):
        words = input if isinstance(input, tuple) else (input,)
        if not any(type_of(word.handle) for word in words):
            return apply(self, input)
        done = apply(self, tuple(word.to(tl.float32) if type_of(word.handle) else word for word in words))
        done = tuple(one.to(word.dtype) if type_of(word.handle) else one for one, word in zip(done, words))
        return done if isinstance(input, tuple) else done[0]

    return call


class OfBlock(BaseException):
    """A block is asked for one truth value. The interpreter turns every other exception into its own."""


in_blocks = False  # a function that combines two values combines two blocks of them


def truth(self):
    if in_blocks and self.handle.data.size != 1:
        raise OfBlock
    return bool(self.handle.data) if self.handle.data.size == 1 else True


def combined(operation, kinds, lefts, rights):
    """Blocks of the same shape, element by element."""
    global in_blocks
    in_blocks = True
    try:
        out = operation.combine_fn.fn(*(operation.to_tensor(block, kind) for blocks in (lefts, rights) for block, kind in zip(blocks, kinds)))
    finally:
        in_blocks = False
    out = out if isinstance(out, tuple) else (out,)
    return [numpy.broadcast_to(each.handle.data if isinstance(each, tl.tensor) else each, left.shape).astype(left.dtype) for each, left in zip(out, lefts)]


def reduce_in_blocks(self, input, inner=interpreter.ReduceOps.generic_reduce):
    """A function is associative, so neighbours are combined: as many steps as the length has bits, where the interpreter takes one for each element. It does
    so where the function asks for the truth of a single value (`not`, `if`)."""
    parts, axis = self.unravel(input, self.axis)
    blocks, kinds = [numpy.moveaxis(part.handle.data, axis, 0) for part in parts], [part.dtype for part in parts]
    try:
        while len(blocks[0]) > 1:
            blocks = combined(self, kinds, [block[::2] for block in blocks], [block[1::2] for block in blocks])
    except OfBlock:
        return inner(self, input)
    results = [block[0] for block in blocks]
    if self.keep_dims:
        results = [numpy.expand_dims(result, axis if self.axis is not None else tuple(range(len(input[0].shape)))) for result in results]
    tensors = tuple(self.to_tensor(result, kind) for result, kind in zip(results, kinds))
    return tensors if len(tensors) > 1 else tensors[0]


def scan_in_blocks(self, input, inner=interpreter.ScanOps.generic_scan):
    """The same of a scan: after each step an element has combined twice as many."""
    blocks, kinds = [numpy.moveaxis(part.handle.data, self.axis, 0) for part in input], [part.dtype for part in input]
    distance = 1
    try:
        while distance < len(blocks[0]):
            combined_blocks = combined(self, kinds, [numpy.roll(block, distance, 0) for block in blocks], blocks)
            blocks = [numpy.concatenate([block[:distance], each[distance:]]) for block, each in zip(blocks, combined_blocks)]
            distance *= 2
    except OfBlock:
        return inner(self, input)
    return [self.to_tensor(numpy.moveaxis(block, 0, self.axis), kind) for block, kind in zip(blocks, kinds)]


interpreter.ReduceOps.generic_reduce, interpreter.ScanOps.generic_scan = reduce_in_blocks, scan_in_blocks


class Libdevice:
    """NVIDIA's libdevice by PyTorch's functions on the host. Other functions are refused: `round` and `remainder` have a name in common, and other values."""

    FUNCTIONS = {name: getattr(torch.special if name == "erfcx" else torch, name) for name in (
        "abs acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh erf erfc erfcx erfinv exp exp2 expm1 floor fmax fmin fmod hypot isfinite isinf isnan ldexp lgamma "
        "log log10 log1p log2 nextafter pow rsqrt signbit sin sinh sqrt tan tanh trunc").split()}
    FUNCTIONS.update(rint=torch.round, nearbyint=torch.round, llrint=torch.round, fabs=torch.abs, isnand=torch.isnan, isinfd=torch.isinf, div_rn=torch.div,
                     fma=lambda x, y, z: (x.double() * y.double() + z.double()).to(x.dtype))  # rounded once

    def __getattr__(self, name):
        def refuse(*_, **__):
            raise NotImplementedError(f"libdevice.{name}")

        function = self.FUNCTIONS.get(name)
        if function is None:
            return refuse

        def call(*words, **_):
            words = [word if isinstance(word, tl.tensor) else interpreter.interpreter_semantic.to_tensor(word) for word in words]
            arrays = numpy.broadcast_arrays(*(word.handle.data for word in words))
            result = function(*(torch.from_numpy(numpy.ascontiguousarray(array)) for array in arrays)).numpy()
            dtype = (tl.int1 if result.dtype == bool else words[0].dtype).scalar
            is_block = any(word.type.is_block() for word in words)  # a scalar is an array with one element too
            return tl.tensor(TensorHandle(result, dtype), tl.block_type(dtype, list(result.shape)) if is_block else dtype)

        return call


def patch_tensor(tensor, *words, inner=interpreter._patch_lang_tensor):
    inner(tensor, *words)
    tensor.__bool__ = truth
    tensor.__index__ = lambda self: self.handle.data.item()  # int() of an array with one element is an error since NumPy 2.4


def convert(word, inner=interpreter._implicit_cvt):
    """A kernel's float is a tensor, as where it is compiled."""
    return tl.tensor(TensorHandle(numpy.array([word], dtype=numpy.float32), tl.float32), tl.float32) if isinstance(word, float) else inner(word)


interpreter.interpreter_builder.__class__ = Builder
reductions = getattr(interpreter, "ReduceScanOpInterface", None) or interpreter.ReduceScanOpIneterface  # its name before Triton 3.3
reductions.apply = reduce_in_single(reductions.apply)
interpreter._patch_lang_tensor, interpreter._implicit_cvt = patch_tensor, convert


def patch_once(function, inner=interpreter._patch_lang):
    """Triton's language, as this function sees it, once a run: the interpreter does so for each call from within a kernel."""
    languages = frozenset(id(value) for value in function.__globals__.values() if value is tl or value is tl.core)
    if languages not in Language.patched:
        Language.patched.add(languages)
        return inner(function)


interpreter._patch_lang = patch_once


class Executor(interpreter.GridExecutor):
    """Runs a kernel on the arguments' own memory."""

    def _init_args_hst(self, args_dev, kwargs):
        return list(args_dev), dict(kwargs)

    def _restore_args_dev(self, *_):
        pass


class Language:
    """Restores Triton's language, which the interpreter changes for good: the same process compiles kernels too."""

    patched = set()

    def __enter__(self):
        self.patched.clear()
        descriptors = [value for name, value in vars(tl.core).items() if inspect.isclass(value) and "descriptor" in name]
        self.saved = [(each, dict(vars(each))) for each in (tl, tl.core, tl.math, tl.tensor, *descriptors)]

    def __exit__(self, *_):
        for each, before in self.saved:
            for name in set(vars(each)) - set(before):
                delattr(each, name)
            for name, value in before.items():
                if vars(each)[name] is not value:
                    setattr(each, name, value)


@functools.cache
def interpreted(function):
    """Of a Python function that Triton would compile, which stays as it is."""
    libdevice, names = Libdevice(), dict(function.__globals__)
    for name, value in names.items():
        if inspect.ismodule(value) and value.__name__.endswith(".libdevice"):
            names[name] = libdevice
        elif str(getattr(value, "__module__", "")).endswith(".libdevice"):
            names[name] = getattr(libdevice, value.__name__)
    own = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    own.__annotations__, own.__kwdefaults__, own.__module__, own.__qualname__ = function.__annotations__, function.__kwdefaults__, function.__module__, function.__qualname__
    return interpreter.InterpretedFunction(own)


def run(function, grid, words, named):
    kernel = interpreted(function)
    arguments = {name: value for name, value in named.items() if name in kernel.arg_names}  # not how it is compiled
    with Language():
        Executor(kernel.rewrite(), kernel.arg_names, grid)(*words, **arguments)


triton.runtime.jit.JITFunction.__call__ = lambda self, *words, **named: interpreted(self.fn)(*words, **named)  # from within a kernel
