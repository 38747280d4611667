"""Lines of the program for the code that Inductor, the compiler of torch.compile, has written. Inductor notes a trace for each stretch of its code: the frames
of the program that called the operator (../../virtual/recorder/written_lines.h). Code from Inductor's cache has the notes of its first compilation, perhaps
by another program, so a trace counts only if Dynamo has seen it in this process."""
import ctypes
import functools
import os
import re

import tidemark_collector
from tidemark_platform import when_imported

FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.M)
seen = set()


def frames_of(trace):
    """Of a trace as Python prints it, the outermost first: (file, line, function)."""
    return tuple(FRAME.findall(trace or ""))


def tell(layer, path, begins, stretches):
    """From line begins[i] on, the code of the file stands for the frames stretches[i]."""
    for line, frames in zip(begins, stretches):
        texts, numbers = ctypes.c_char_p * len(frames), ctypes.c_int * len(frames)
        layer.tidemark_record_written(os.fsencode(path), line, ctypes.c_size_t(len(frames)), texts(*(name.encode() for _, _, name in frames)),
                                      texts(*(os.fsencode(file) for file, _, _ in frames)), numbers(*(int(number) for _, number, _ in frames)))


def follow_graphs(_layer, module):
    def before(graph, *_, **__):
        seen.update(frames_of(node.stack_trace) for node in getattr(getattr(graph, "graph", None), "nodes", ()))

    module.compile_fx = tidemark_collector.own.around(module.compile_fx, before)


def follow_code(layer, module):
    """PyCodeCache loads what was compiled now, and what Inductor's folder has from another time."""
    cache = module.PyCodeCache

    def after(_key, path, *_, **__):
        begins, traces = cache.linemaps.get(path) or ((), ())
        tell(layer, path, begins, (frames if frames in seen else () for frames in map(frames_of, traces)))

    cache.load_by_key_path = staticmethod(tidemark_collector.own.around(cache.load_by_key_path, after=after))


def follow_modules(layer, module):
    """A graph that a backend runs by itself (aot_eager, eager) is code of torch.fx, a file of its own for each time that it is written."""
    def after(graph, *_, **__):
        nodes, code, begin = list(graph.graph.nodes), getattr(type(graph).forward, "__code__", None), getattr(graph, "_prologue_start", None)
        if code is None or begin is None or not any(node.stack_trace for node in nodes):  # older releases do not say where the code begins
            return
        lines = sorted((graph._lineno_map or {}).items())
        traces = (nodes[node].stack_trace if node is not None and node < len(nodes) else "" for _, node in lines)
        tell(layer, code.co_filename, [begin + line for line, _ in lines], map(frames_of, traces))

    module.GraphModule.recompile = tidemark_collector.own.around(module.GraphModule.recompile, after=after)


def begin(layer):
    for name, follow in ("torch.fx.graph_module", follow_modules), ("torch._inductor.compile_fx", follow_graphs), ("torch._inductor.codecache", follow_code):
        when_imported(name, functools.partial(tidemark_collector.own.of(follow), layer))
