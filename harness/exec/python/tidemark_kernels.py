"""What a kernel of Triton writes, of what its arguments point to: read off its code in Triton's own intermediate language (TTIR). In mode known the rest stays
known when the kernel is launched. Whatever this file does not recognise counts as written."""
import ctypes
import re

from tidemark_platform import when_imported

LOCATION = re.compile(r"\bloc\((?:\"[^\"]*\"(?:\((?:#\w+|unknown)\))?|#\w+|unknown)\)")
NAME = r"%[A-Za-z0-9_$.-]+(?:#\d+)?"
# Operations that write, with the pointer as their first operand.
WRITES = {"tt.store", "tt.atomic_rmw", "tt.atomic_cas"}
# What comes from memory points to no argument: addresses that a kernel reads are not followed.
READS = {"tt.load", *WRITES}
HARMLESS = re.compile(
    r"(?:arith|math|ub)\.\w+|tt\.(?:load|make_tensor_ptr|advance|splat|unsplat|addptr|broadcast|expand_dims|make_range|get_program_id|get_num_programs|dot|dot_scaled|reduce|reduce\.return|"
    r"scan|scan\.return|map_elementwise|map_elementwise\.return|trans|reshape|cat|join|split|histogram|gather|bitcast|int_to_ptr|ptr_to_int|fp_to_fp|clampf|"
    r"precise_sqrt|precise_divf|mulhiui|print|assert|return)|gpu\.barrier|llvm\.intr\.assume|scf\.(?:for|if|while|yield|condition)|cf\.(?:br|cond_br|assert)")
PURE = ("tt.extern_elementwise", "tt.elementwise_inline_asm")  # where they say so


class Region:
    """An operation with a region: what its `yield` gives to its results, and to its own arguments in the next turn."""

    def __init__(self, results=(), turns=(), in_order=True):
        self.results, self.turns, self.in_order = list(results), list(turns), in_order


class Code:
    """The lines of a function: which values each value is made of, and the pointers that are written through."""

    def __init__(self, text):
        self.made_of, self.written, self.arguments, self.regions = {}, [], None, []
        self.block_arguments, self.branches = [], []
        for line in text.splitlines():
            self.take(LOCATION.sub("", line).strip())
        for one in self.block_arguments:
            self.add(one, self.branches)

    def add(self, name, sources):
        self.made_of.setdefault(name, set()).update(sources)

    def take(self, line):
        if not line or line.startswith(("#", "module", "//")):
            if line.endswith("{") and not line.startswith("#"):
                self.regions.append(Region())
            return
        if line.startswith("tt.func"):
            if self.arguments is not None or "!tt.tensordesc" in line:
                raise ValueError(line)
            self.arguments = re.findall(rf"({NAME}): ", line)
            self.regions.append(Region())
            return
        if line.startswith("^"):
            self.block_arguments += re.findall(rf"({NAME}): ", line)
            return
        if line.startswith("}"):
            if not line.endswith("{"):  # not "} else {", "} do {"
                self.regions.pop()
            return
        self.operation(line)

    def operation(self, line):
        left, right = re.fullmatch(rf"(?:((?:{NAME}(?::\d+)?(?:, )?)+) = )?(.+)", line).groups()
        results = []
        for name, count in re.findall(rf"({NAME})(?::(\d+))?", left or ""):
            results += [f"{name}#{i}" for i in range(int(count))] if count else [name]
        kind = re.match(r'"?([\w.]+)', right).group(1)
        names = re.findall(NAME, right)
        if kind in WRITES:
            self.written.append(names[0])
        elif not HARMLESS.fullmatch(kind) and not (kind in PURE and "pure = true" in right):
            raise ValueError(line)
        if kind in ("scf.yield", "scf.condition"):
            self.give(names if kind == "scf.yield" else names[1:])
            return
        turns = re.search(r"(?:iter_args|scf\.while )\(([^)]*)\)", right)
        pairs = re.findall(rf"({NAME}) = ({NAME})", turns.group(1)) if turns else []
        for own, start in pairs:
            self.add(own, [start])
        if kind.startswith("cf."):
            self.branches += names
        if right.endswith("{"):
            self.regions.append(Region(results, [own for own, _ in pairs], kind != "scf.while"))
        if kind == "scf.for":  # without a turn, its results are what it began with
            for one, (_, start) in zip(results, pairs):
                self.add(one, [start])
        elif kind not in READS and not kind.startswith("scf."):
            for one in results:
                self.add(one, names)

    def give(self, names):
        region = self.regions[-1]
        if region.in_order:
            for targets in region.results, region.turns:
                for target, name in zip(targets, names):
                    self.add(target, [name])
            return
        self.branches += names  # of a `while`: to any of them, and to the arguments of its blocks
        for target in region.results + region.turns:
            self.add(target, names)

    def reached(self):
        seen, waiting = set(), list(self.written)
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting += self.made_of.get(one, ())
        return seen


def read_only(ttir):
    """For each argument whether the kernel at most reads what it points to; None if that cannot be said."""
    try:
        code = Code(ttir)
    except (ValueError, AttributeError, IndexError):
        return None
    if code.arguments is None:
        return None
    reached = code.reached()
    return [one not in reached for one in code.arguments]


def tell(function, ttir):
    """The platform's kernel `function`, a CUfunction, has this code."""
    only = read_only(ttir) if isinstance(ttir, str) else None
    if function and only:
        ctypes.CDLL(None).tidemark_device_kernel_reads(ctypes.c_void_p(function), bytes(only), ctypes.c_size_t(len(only)))


def follow_compiled(kernel):
    """Of Triton: each kernel is told when its code is loaded."""
    inner = kernel._init_handles

    def _init_handles(self):
        loaded = self.module is not None
        inner(self)
        if not loaded:
            tell(self.function, self.asm.get("ttir"))

    kernel._init_handles = _init_handles


def follow_static(kernel):
    """Of Inductor, which may load and launch kernels of Triton itself; they come from other processes or from its cache."""
    begin, load = kernel.__init__, kernel.load_kernel

    def __init__(self, compiled):
        begin(self, compiled)
        self.tidemark_code = compiled.asm.get("ttir")

    def load_kernel(self, device):
        loaded = self.function is not None
        load(self, device)
        if not loaded:
            tell(self.function, getattr(self, "tidemark_code", None))

    kernel.__init__, kernel.load_kernel = __init__, load_kernel


# By module: the class, and what is done to it.
FOLLOWED = {
    "triton.compiler.compiler": ("CompiledKernel", follow_compiled),
    "torch._inductor.runtime.static_triton_launcher": ("StaticallyLaunchedTritonKernel", follow_static),
    "torch._inductor.runtime.static_cuda_launcher": ("StaticallyLaunchedCudaKernel", follow_static),  # before torch 2.11
}


def follow():
    """Now, or as soon as they are imported."""
    for name, (kernel, begin) in FOLLOWED.items():
        def change(module, kernel=kernel, begin=begin):
            if hasattr(module, kernel):
                begin(getattr(module, kernel))

        when_imported(name, change)
