"""Released sharding with frozen units held against this scenario: FSDP2, as released and with the reshard of frozen units put off to the end of
backward; FSDP1; fairscale. What FSDP1 and fairscale differ in is derived here from their code, for a chain of layers."""
from upstream import Difference, Row

LAYERS, RANKS = 8, 8
FROZEN = {"even": lambda i: i % 2 == 0, "all_but_last": lambda i: i < LAYERS - 1, "first_half": lambda i: i < LAYERS // 2,
          "last_half": lambda i: i >= LAYERS // 2}
HIDDEN, ROWS = 4096, 8
UNIT = 4 * HIDDEN * HIDDEN
WAITING = ("active", "requested")  # blocks that wait for a stream are active, and no longer allocated
BOTH = ("allocated", *WAITING)
VALUES = tuple({"U": UNIT, "S": UNIT // RANKS, "d": UNIT // RANKS, "x": 4 * ROWS * HIDDEN}.items())
NO_RESERVED = "has no formula, and a unit is gathered straight into its parameter"


class Chain:
    """Of a pattern, for the code that gathers straight into a flat parameter. A layer keeps its input where it is trained; the first one's is
    the input itself, which a step has in any case (x)."""

    def __init__(self, pattern, ahead, late):
        self.frozen = [FROZEN[pattern](i) for i in range(LAYERS)]
        self.ahead, self.late = ahead, late  # backward gathers the unit before; frozen units stay whole until its end

    def trained(self, units):
        return sum(not self.frozen[i] for i in units)

    def saved(self, k):
        """Inputs that layers up to this one keep, the first one's aside."""
        return self.trained(range(1, k + 1))

    def whole(self, k):
        """Full parameters when unit k computes in backward."""
        return 1 + (self.ahead and k > 0) + (sum(self.frozen[k + 1:]) if self.late else 0)

    def forward(self):
        """Each unit alone is whole, with its input (kept or not), its output, and what the layers have kept."""
        activations = [1 + self.saved(k) + 1 + (k > 0 and self.frozen[k]) for k in range(LAYERS)]
        return f"rest + {max(activations)}*x + U"

    def backward(self):
        """A trained unit's gradient is there twice, the weight's own and, of which that is a part, the flat parameter's, and the gradient of its input is.
        A frozen unit has the gradients of its output and input."""
        moments = []
        for k in range(LAYERS):
            shards, kept = self.trained(range(k + 1, LAYERS)), 1 + self.saved(k - 1)
            # What a frozen unit in front of this one keeps until the gradient of its input has passed this one's hook.
            moments.append(f"{kept + (1 if not self.frozen[k] else 2)}*x + {self.whole(k) + (0 if self.frozen[k] else 2)}*U + {shards}*S")
        return f"rest + 2*c + max({', '.join(moments)})"

    def trajectory(self):
        """(unit, what it has more than the scenario when its backward begins, allocated)"""
        for k in range(LAYERS):
            behind = k + 1 < LAYERS and self.frozen[k + 1]
            reducing = self.trained(range(k + 1, LAYERS)) > 0
            yield k, f"{int(behind and not self.late)}*U - {int(k > 0 and not self.ahead)}*U - {int(reducing)}*U"


def flat(code, pattern):
    """FSDP1 and fairscale."""
    chain = Chain(pattern, code == "fsdp1", code == "fairscale")
    why = f"{code} gathers a unit straight into its flat parameter: no gather buffer, and no input of a reduce-scatter beside the gradient"
    found = [Difference(f"{why}; forward gathers nothing ahead", chain.forward(), ("forward",), BOTH, whole=True),
             Difference(f"{why}; a weight is a part of the flat parameter, so its gradient is there twice", chain.backward(), ("backward",), BOTH, whole=True)]
    order = "the unit behind is still whole where it is frozen: its hook comes after this unit's" if code == "fsdp1" else "backward gathers nothing ahead"
    for k, more in chain.trajectory():
        found.append(Difference(f"{code}, when a unit's backward begins: {order}; no input of a reduce-scatter is kept", more, (f"unit {k}",)))
    return [*found, *ends(code, chain)]


def ends(code, chain):
    """Of blocks that another stream has used, each waits for the next allocation: the first unit's own (FSDP1, frozen) or its gradient (trained), which
    is the last to be freed; in fairscale every frozen unit, which the end of backward frees."""
    first, second, frozen, trained = not chain.frozen[0], not chain.frozen[1], sum(chain.frozen), chain.trained(range(LAYERS))
    waits = 1 if code == "fsdp1" else int(first)
    yield Difference(f"{code}: no input of a reduce-scatter is kept", "-U", ("end of backward",))
    yield Difference(f"{code}: the last block that backward frees waits for a stream", f"{waits}*U", ("end of backward",), ("requested",))
    if code == "fsdp1":
        yield Difference("fsdp1: nothing is gathered ahead of the first unit, so the second one's gradient still waits", f"{int(second)}*U", ("unit 0",), ("requested",))
        temporaries = trained
    else:
        waits += frozen
        temporaries = 2 + (trained > 1)
        yield Difference("fairscale: its parameters are of a class of their own, so Adam goes one by one: a square root, that divided, and the one before",
                         f"{temporaries - trained}*d", ("optimizer",), ("allocated",))
    yield Difference(f"{code}: what backward has freed still waits when the optimizer begins", f"rest + 2*x + {trained}*S + max({temporaries}*d, {waits}*U)",
                     ("optimizer",), WAITING, whole=True)


def rows():
    for torch in ("2.6.0", "2.11.0"):
        for pattern in (*FROZEN, "adapters", "nested_adapters", "mixed"):
            for late in (False, True):
                yield row("fsdp2", pattern, "late" if late else "input_node", ("--late",) if late else (), torch=torch)
    for late in (False, True):
        yield row("fsdp2", "nested_adapters", "late" if late else "input_node", ("--no-input-gradient", *(["--late"] if late else [])))
    for pattern in ("even", "mixed"):
        for late in (False, True):
            yield row("fsdp2", pattern, "late" if late else "input_node", ("--stays", *(["--late"] if late else [])), stays=True)
    for code, variant in (("fsdp1", "input_node"), ("fairscale", "late")):
        for pattern in FROZEN:
            yield row(code, pattern, variant, differences=flat(code, pattern), not_judged={"reserved": NO_RESERVED})


def row(code, pattern, variant, flags=(), stays=False, torch="2.11.0", **more):
    without = "--no-input-gradient" in flags
    name = f"{code}, {pattern}{', late' if '--late' in flags else ''}{', stays gathered' if stays else ''}{', the input needs no gradient' if without else ''}"
    parameters = {"layers": LAYERS, "hidden": HIDDEN, "batch": ROWS * RANKS, "pattern": pattern, "adapter_rank": 16, "reshard_after_forward": int(not stays),
                  "input_gradient": int(not without)}
    more["differences"] = tuple(more.get("differences", ()))
    return Row(name, torch, (code, pattern, *flags), variant, tuple(parameters.items()), size="seed_test", ranks=RANKS, steps=3, stand_for=0,
               values=VALUES, small=torch == "2.11.0" and (pattern, variant) in (("even", "input_node"), ("adapters", "late")),
               packages=("fairscale==0.4.13",) if code == "fairscale" else (), **more)
