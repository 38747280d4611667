"""Released sharding with frozen units compared with this scenario: FSDP2, as released and with the reshard of frozen units put off to the end of
backward; FSDP1; fairscale."""
from upstream import Difference, Row

LAYERS, RANKS = 8, 8
FROZEN = {"even": lambda i: i % 2 == 0, "all_but_last": lambda i: i < LAYERS - 1, "first_half": lambda i: i < LAYERS // 2,
          "last_half": lambda i: i >= LAYERS // 2}
HIDDEN, ROWS = 4096, 8
FAIRSCALE_RESERVED = "it shards on the device, and what is left in the cache by that has not been derived"


def one_by_one(pattern):
    """Temporaries of Adam, parameter by parameter: a square root, its quotient, and the one before."""
    trained = sum(not FROZEN[pattern](i) for i in range(LAYERS))
    return Difference("fairscale: its parameters are of a class of their own, so Adam goes one by one: a square root, that divided, and the one before",
                      f"{2 + (trained > 1) - trained}*d", ("optimizer",), ("allocated",))


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
    for torch in ("2.6.0", "2.11.0"):
        for pattern in (*FROZEN, "adapters", "nested_adapters"):
            yield row("fsdp1", pattern, "will_execute", torch=torch)
            yield row("fsdp1", pattern, "will_execute", ("--stays",), stays=True, torch=torch)
        for pattern in ("first_half", "adapters", "nested_adapters"):
            yield row("fsdp1", pattern, "will_execute", ("--no-input-gradient",), torch=torch)
    for pattern in FROZEN:
        yield row("fsdp1", pattern, "late", ("--late",))
    for pattern in FROZEN:
        yield row("fairscale", pattern, "late", differences=(one_by_one(pattern),), not_judged={"reserved": FAIRSCALE_RESERVED})


def row(code, pattern, variant, flags=(), stays=False, torch="2.11.0", **more):
    without = "--no-input-gradient" in flags
    name = f"{code}, {pattern}{', late' if '--late' in flags else ''}{', stays gathered' if stays else ''}{', the input needs no gradient' if without else ''}"
    parameters = {"layers": LAYERS, "hidden": HIDDEN, "batch": ROWS * RANKS, "pattern": pattern, "adapter_rank": 16, "reshard_after_forward": int(not stays),
                  "input_gradient": int(not without), "layout": int(code != "fsdp2"), "backward_prefetch": int(code != "fairscale")}
    return Row(name, torch, (code, pattern, *flags), variant, tuple(parameters.items()), size="seed_test", ranks=RANKS, steps=3, as_rank=0,
               small=torch == "2.11.0" and (pattern, variant) in (("even", "input_node"), ("adapters", "late"), ("even", "will_execute")),
               packages=("fairscale==0.4.13",) if code == "fairscale" else (), **more)
