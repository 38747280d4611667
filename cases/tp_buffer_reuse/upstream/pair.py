"""nanotron's tensor-parallel layers compared with this scenario: as released, with the published change of their buffers, with its asynchronous part, and with
its withdrawn first version. What their asynchronous modes differ in is derived here from their code.

A layer keeps k of a microbatch. All forms begin with the tensors that are alive when the top layer's backward begins; then one of three operators is the highest:
the linear after the GLU (its product of f, the gradient of W_d), the GLU, or the linear of gate and up. The backward of that last one is one Function: it makes the whole
gradient of its input (F) and the scattered part of it (X) while the gradient of its output (g) is alive."""
from upstream import Difference, Row

TORCH = "2.11.0"
RELEASED, CHANGED, ASYNCHRONOUS, FIRST = "nanotron==0.4", "nanotron@4eb520fd", "nanotron@0adb3684", "nanotron@ed1ca7d0"
NAMES = {RELEASED: "nanotron 0.4", CHANGED: "the change", ASYNCHRONOUS: "its asynchronous part", FIRST: "its withdrawn first version"}
LLAMA_8B = {"layers": 32, "hidden": 4096, "ffn": 14336, "heads": 32, "kv_heads": 8, "sequence": 4096, "microbatch": 1, "in_flight": 1}
SMALL = {"layers": 4, "hidden": 512, "ffn": 1536, "heads": 8, "kv_heads": 4, "sequence": 512, "microbatch": 2, "in_flight": 3}
SIZES = {"Llama-8B": (LLAMA_8B, (2, 4)), "small": (SMALL, (2, 4))}
BF16 = 2  # bytes
SEVERAL = "--accumulation=3"  # microbatches, each forward and backward before the next one
BEFORE_BACKWARD = ("forward", "optimizer", "zero_grad")
BOTH = ("allocated", "active", "requested")
HOLDS = Difference("MLP.forward of nanotron holds its input while it computes, which no column linear keeps that keeps what it has gathered", "X", ("forward",), BOTH)
NO_RESERVED = {"reserved": "has no formula, and other blocks lie between the large ones"}
SECOND_BUFFER = {"reserved": "has no formula, and nanotron makes its second buffer in the first backward, here before the first forward"}
NO_FORM = dict.fromkeys(("allocated", "active"), "have no form at this size, and the difference takes its values from a form")


def kept(column, eager):
    return f"(2*X + 2*{column} + 2*s + A + g + {2 if eager else 1}*f)"


def top(buffers, column, eager, moments):
    """`column`: what a column linear keeps of its input."""
    return (f"rest + {buffers}*F + q*X + (q*L - 1)*{kept(column, eager)} + 3*X + 2*{column} + 2*s + A + g + max({', '.join(moments)})")


def glu(eager):
    return "4*f + W_d" if eager else "g + f + W_d"


def whole(why, formula):
    return Difference(why, formula, ("backward",), BOTH, whole=True)


def fresh(eager, own_part):
    """Asynchronous without persistent buffers: every gather into new memory, for a column linear (again) in backward and for the gradient of a row linear.
    0.4 multiplies its own part of that first, and gathers the product."""
    product = f"{2 if eager else 1}*f + F + f + {'f/t + ' if own_part else ''}W_d"
    yield Difference("asynchronous, no persistent buffer: nothing is gathered between the products", "-b", BEFORE_BACKWARD, BOTH)
    yield whole("asynchronous, no persistent buffer: both gathers of backward are new memory" + ("; a row linear's own part is multiplied apart" if own_part else ""),
                top(0, "X", eager, [product, glu(eager), "2*F + X + 3*W_d"]))


def eager_asynchronous():
    yield Difference("asynchronous with an eager GLU: a layer keeps f more", "q*L*f", ("forward",), BOTH)
    yield whole("asynchronous with an eager GLU", top(2, "X", True, ["3*f + W_d", glu(True), "F + X + 3*W_d"]))


def row_buffer():
    why = "asynchronous, gathers are kept: the gradient of a row linear is gathered into a persistent buffer"
    yield Difference(why, "F", BEFORE_BACKWARD, BOTH)
    yield whole(why, top(1, "F", False, ["2*f + W_d", glu(False), "F + X + 3*W_d"]))


def cases():
    """(code, flags, variant, differences, statistics that are not judged)"""
    eager, again, apart = "--eager-glu", "--no-recompute", "--asynchronous"
    yield RELEASED, (eager,), "separate", (HOLDS,), {}
    yield RELEASED, (), "fused_glu", (HOLDS,), {}
    yield RELEASED, (eager, SEVERAL), "separate", (HOLDS,), {}
    yield RELEASED, (eager, apart), "recompute", fresh(True, True), NO_RESERVED
    yield RELEASED, (apart,), "recompute_fused_glu", fresh(False, True), NO_RESERVED
    yield CHANGED, (eager,), "recompute", (), {}
    yield CHANGED, (), "recompute_fused_glu", (), {}
    yield CHANGED, (eager, again), "no_recompute", (HOLDS,), {}
    yield CHANGED, (again,), "no_recompute_fused_glu", (HOLDS,), {}
    yield CHANGED, (SEVERAL,), "recompute_fused_glu", (), {}
    yield CHANGED, (eager, apart), "recompute", fresh(True, False), NO_RESERVED
    yield CHANGED, (apart,), "recompute_fused_glu", fresh(False, False), NO_RESERVED
    yield ASYNCHRONOUS, (apart,), "async", (), SECOND_BUFFER
    yield ASYNCHRONOUS, (eager, apart), "async", eager_asynchronous(), NO_RESERVED
    yield ASYNCHRONOUS, (again, apart), "no_recompute_fused_glu", (HOLDS, *row_buffer()), NO_RESERVED
    yield FIRST, (), "aliased", (HOLDS,), {}


def rows():
    for size, (parameters, of_ranks) in SIZES.items():
        for ranks in of_ranks:
            for code, flags, variant, differences, not_judged in cases():
                differences = tuple(differences)
                if parameters is SMALL and set(differences) - {HOLDS}:
                    not_judged = not_judged | NO_FORM
                elif HOLDS in differences:
                    not_judged = not_judged | NO_RESERVED
                one_at_a_time = SEVERAL in flags
                own = parameters | ({"in_flight": 1} if one_at_a_time else {})
                yield Row(f"{NAMES[code]}{''.join(', ' + flag.strip('-') for flag in flags)}, {size}, {ranks} ranks", TORCH,
                          (*(f"--{name}={value}" for name, value in own.items()), *flags), variant, (*own.items(), ("accumulation", 3 if one_at_a_time else 1), ("precision", 1)),
                          size="smoke", ranks=ranks, packages=(code, "packaging==24.2"), environment=(("CUDA_DEVICE_MAX_CONNECTIONS", "1"),),
                          values=(("t", ranks), ("X", BF16 * own["sequence"] // ranks * own["microbatch"] * own["hidden"])), differences=differences, not_judged=not_judged)
