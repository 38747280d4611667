"""Python's collector as tidemark leaves it: when it runs decides what tensors in cycles of references cost, and it runs by a count of new objects. No object of tidemark's is
counted, and the collector does not look at those that stay (../../virtual/recorder/collector.h)."""
import atexit
import contextlib
import ctypes
import functools
import gc
import os
import sys
import types
import weakref

import tidemark_frames

HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
VARARGS, VARKEYWORDS = 4, 8  # flags of code, as in inspect, whose import takes long
STACK = 1 << 16  # bytes of a stack
LARGEST = 1 << 19  # bytes of the interpreter's state that are looked at
THRESHOLDS = (77_777_777, 55_555_555, 33_333_333)  # as no program has them
# What may end, with what it holds; the collector expects weak references with a callback among what it looks at.
OTHERS = (types.FrameType, types.GeneratorType, types.TracebackType, BaseException, weakref.ReferenceType)
forgotten = []  # objects that the collector does not look at; they live as long as the process


def pairs(words):
    """By place: the two integers of a word."""
    return [(word & 0xFFFFFFFF, word >> 32) for word in words]


def places():
    """Addresses of the flag that the collector runs, and of the count of new objects. Raises LookupError."""
    state = getattr(ctypes.pythonapi, "PyInterpreterState_Get", None)
    if state is None or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return tidemark_frames.only((), "its collector")
    state.restype = ctypes.c_void_p
    begin, memory = state(), tidemark_frames.Memory()
    enabled, thresholds = gc.isenabled(), gc.get_threshold()
    gc.disable()
    try:
        gc.set_threshold(*THRESHOLDS)
        words = memory.words(begin, LARGEST // tidemark_frames.WORD)
    finally:
        gc.set_threshold(*thresholds)
        os.close(memory.file)
        if enabled:
            gc.enable()
    lists = id(gc.garbage), id(gc.callbacks)
    flag = tidemark_frames.only((at - 1 for at in range(1, len(words) - 1) if words[at:at + 2] == lists), "the flag of its collector")
    numbers = pairs(words[:flag])
    young = tidemark_frames.only((at for at in range(flag - 3) if (numbers[at][0], numbers[at + 3][0]) == THRESHOLDS[:2]), "the count of new objects")
    return begin + flag * tidemark_frames.WORD, begin + young * tidemark_frames.WORD + 4


def forget_since(before):
    """Takes all objects from the collector's sight that are made after seen(), which has returned `before`, and those that it counts from the count."""
    enabled, count, known = before
    if len(sys._current_frames()) == 1:  # else another thread may have made some
        if not forgotten:
            atexit.register(remember)  # done last
        begin = len(forgotten)
        apart = (known, before, forgotten)
        forgotten.extend(one for one in gc.get_objects() if not issubclass(type(one), OTHERS) and id(one) not in known and not any(one is each for each in apart))
        for one in forgotten[begin:]:
            call("PyObject_GC_UnTrack")(one)
    with contextlib.suppress(LookupError):
        ctypes.c_int.from_address(places()[1]).value = count
    if enabled:
        gc.enable()


def call(name):
    """A function of Python's own of one object."""
    function = getattr(ctypes.pythonapi, name)
    function.argtypes, function.restype = (ctypes.py_object,), None
    return function


def remember():
    """The process ends: Python lets go of the objects as of those that its collector looks at."""
    for one in forgotten:
        if not gc.is_tracked(one):
            call("PyObject_GC_Track")(one)


def make_attributes(function):
    """Python makes a function's dictionary and annotations when it is first asked for them, as around() does: what follows a function with a report alone asks for them with
    every flag, since the collector counts what a program makes that asks first (torch.compile asks every function of PyTorch)."""
    for name in ("__dict__", *functools.WRAPPER_ASSIGNMENTS):
        getattr(function, name, None)


def signature_of(function):
    """The parameters of a function, the arguments with which it passes them on, as text, and what they are if they are not given."""
    if not isinstance(function, types.FunctionType):
        return "*arguments, **keywords", "*arguments, **keywords", None, None
    code, defaults = function.__code__, function.__defaults__ or ()
    names, most = list(code.co_varnames), code.co_argcount
    positional, own = names[:most], names[most:most + code.co_kwonlyargcount]
    rest = names[most + code.co_kwonlyargcount:]
    parameters = [name + "=None" * (at >= most - len(defaults)) for at, name in enumerate(positional)]
    if code.co_posonlyargcount:
        parameters.insert(code.co_posonlyargcount, "/")
    arguments = list(positional)
    if code.co_flags & VARARGS:
        arguments.append("*" + rest.pop(0))
        parameters.append(arguments[-1])
    elif own:
        parameters.append("*")
    parameters += [name + "=None" * (name in (function.__kwdefaults__ or {})) for name in own]
    arguments += [f"{name}={name}" for name in own]
    if code.co_flags & VARKEYWORDS:
        arguments.append("**" + rest.pop(0))
        parameters.append(arguments[-1])
    return ", ".join(parameters), ", ".join(arguments), function.__defaults__, function.__kwdefaults__


def seen():
    """The collector is off until forget_since()."""
    enabled, count = gc.isenabled(), gc.get_count()[0]
    gc.disable()
    return enabled, count, set(map(id, gc.get_objects()))


own = None  # the process's OwnCode, once torch is imported


class OwnCode:
    """Ways from a program's code into tidemark's, which neither Python's collector nor torch.compile sees."""

    def __init__(self, torch, layer):
        layer = ctypes.PyDLL(None, handle=layer._handle)  # its calls are short: Python's lock is kept
        builtin = layer.tidemark_record_builtin
        builtin.restype = ctypes.py_object
        self.record_stack, self.text = layer.tidemark_record_stack, ctypes.create_string_buffer(STACK)
        self.record_stack.restype, self.record_stack.argtypes = ctypes.c_size_t, (ctypes.c_char_p, ctypes.c_size_t)
        with contextlib.suppress(LookupError):
            layer.tidemark_record_collector(*map(ctypes.c_void_p, places()))
        self.compiling = torch.compiler.is_compiling
        frames = torch._C._dynamo.eval_frame
        builtin(b"set_eval_frame")(frames.set_eval_frame)
        self.of, self.untrack = builtin(b"own"), builtin(b"untrack")  # of(function): a builtin that calls it
        self.drop_spare = builtin(b"drop_spare")
        self.stand, self.stand_at_modules, self.call_around = builtin(b"around"), builtin(b"around_module"), builtin(b"call_around")
        if hasattr(frames, "skip_code"):
            self.leave_alone = frames.skip_code
        else:  # of newer versions
            self.leave_alone = lambda code: frames.set_code_exec_strategy(code, frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT))

    def stack(self):
        """Yields function, file and line of the frames of this thread that are not tidemark's, the innermost first. Where the recorder knows Python's frames, none becomes an
        object, which would live as long as its function runs."""
        length = self.record_stack(self.text, STACK)
        for line in ctypes.string_at(self.text, min(length, STACK)).decode(errors="replace").splitlines():
            function, _, place = line.partition(" ")
            file, _, number = place.rpartition(":")
            if number.isdigit() and not file.startswith(HERE):
                yield function, file, int(number)
        frame = None if length else sys._getframe(1)
        while frame:
            if not frame.f_code.co_filename.startswith(HERE):
                yield frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back

    def around(self, original, before=None, after=None):
        """A function that calls before(...), `original` and after(...) with its arguments; `after` also where `original` raises."""
        surrounded = self.like(original, self.call_around(object(), original, before, after))
        functools.update_wrapper(surrounded, original)
        make_attributes(surrounded)
        self.leave_alone(surrounded.__code__)
        self.stand(surrounded, original, before, after)
        return surrounded

    def like(self, original, call):
        """A function of Python with the parameters of `original`, so that a call makes no object that one of `original` does not. Its body runs where a builtin cannot stand in
        its place (Python 3.11 runs a function's code, whatever is to be called), and is what torch.compile sees in a function that calls it."""
        parameters, arguments, defaults, keywords = signature_of(original)
        space = {"tidemark_call": call, "tidemark_original": original, "tidemark_compiling": self.compiling}
        text = f"def surrounded({parameters}):\n    if tidemark_compiling():\n        return tidemark_original({arguments})\n    return tidemark_call({arguments})\n"
        exec(compile(text, HERE + "tidemark_surrounded.py", "exec"), space)
        space["surrounded"].__defaults__, space["surrounded"].__kwdefaults__ = defaults, keywords
        return space["surrounded"]
