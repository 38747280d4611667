"""PyTorch's own pipelining code compared with this scenario, on every rank: 2.5.1 (before the change), 2.6.0 (after it) and 2.11.0 as installed, and of 2.11.0
also the variants that take back a part of the change (edits.py); the scenario has the habits of the release. Requested bytes: allocated ones add remainders
that depend on the order in which Python walks a set."""
from upstream import Difference, Row

SPLIT = ("hook_cycle", "hooks_alone", "hooks_detach_outputs_loss", "hooks_detach_last", "drop_grads_hooks")
INSTALLED = "drop_grads_hooks"
WHOLE = (INSTALLED,)  # schedules that do not split the backward have no variants to tell apart
SEED = {"layers": 32, "hidden": 4096}
SMALL = {"layers": 13, "hidden": 1024, "ffn": 2816, "heads": 16, "kv_heads": 4, "vocabulary": 5003, "sequence": 384,
         "microbatch": 2, "microbatches": 6, "virtual_stages": 3, "checkpointing": 1}
ONE, TWO = {"virtual_stages": 1}, {"virtual_stages": 2}
PROGRAMS = [("interleaved_zb", 4, SEED | {"checkpointing": 0}, SPLIT), ("interleaved_zb", 4, SEED | {"checkpointing": 1}, SPLIT),
            ("interleaved_zb", 4, SEED | {"checkpointing": 2, "microbatches": 4}, SPLIT), ("interleaved_zb", 2, SMALL, SPLIT),
            ("interleaved_zb", 3, SMALL | TWO, SPLIT), ("interleaved_zb", 2, SMALL | {"norm": "floats"}, WHOLE),
            ("zbv", 4, SEED | TWO | {"checkpointing": 0}, SPLIT), ("zbv", 3, SMALL | TWO, SPLIT), ("zbv", 2, SMALL | TWO | {"checkpointing": 2}, SPLIT),
            ("gpipe", 4, SEED | ONE | {"checkpointing": 0}, WHOLE), ("gpipe", 3, SMALL | ONE, WHOLE),
            ("1f1b", 4, SEED | ONE | {"checkpointing": 0}, WHOLE), ("1f1b", 3, SMALL | ONE, WHOLE), ("1f1b", 6, SMALL | ONE | {"checkpointing": 2}, WHOLE),
            ("interleaved_1f1b", 4, SEED | {"checkpointing": 0}, WHOLE), ("interleaved_1f1b", 3, SMALL, WHOLE)]
CHECKPOINTING = ("no block", "every second block", "every block")


def name_of(schedule, ranks, parameters):
    return f"{schedule}, {parameters['layers']} layers, {ranks} ranks, {CHECKPOINTING[parameters.get('checkpointing', 0)]} checkpointed"


def words(schedule, ranks, steps, parameters, *more):
    return (*(f"--{name}={value}" for name, value in {"schedule": schedule, "ranks": ranks, "steps": steps, **parameters}.items()), *more)


# Norms in floats, because these releases refuse a fused one; 2.5.1 in its third step.
OLDER = [("interleaved_zb", 4, SEED | {"checkpointing": 0}, ("2.5.1", "2.6.0")), ("interleaved_zb", 4, SEED | {"checkpointing": 1}, ("2.6.0",)),
         ("interleaved_zb", 4, SEED | {"checkpointing": 2, "microbatches": 4}, ("2.6.0",)),
         ("interleaved_zb", 2, SMALL, ("2.5.1", "2.6.0")), ("interleaved_zb", 3, SMALL | TWO | {"checkpointing": 0}, ("2.5.1", "2.6.0")),
         ("zbv", 4, SEED | TWO | {"checkpointing": 0}, ("2.6.0",)), ("zbv", 3, SMALL | TWO, ("2.6.0",)),
         ("gpipe", 3, SMALL | ONE, ("2.5.1", "2.6.0")), ("1f1b", 3, SMALL | ONE, ("2.5.1", "2.6.0")), ("1f1b", 6, SMALL | ONE | {"checkpointing": 2}, ("2.6.0",)),
         ("interleaved_1f1b", 3, SMALL, ("2.5.1", "2.6.0"))]
BEFORE = "2.5.1"
ON_HOST = Difference("the state of attention's dropout, two tensors of 16 and 8 bytes for each graph that is alive, is on the host", "-16*n_random - 8*n_offset")
EXAMPLES = Difference("an example of every stage's input and output is on the device, for as long as the stage is", "2*own*x + first*(ids - x) + last*(logits - x)")


def row(torch, schedule, ranks, parameters, variant, edited=(), **fields):
    """`edited`: the words that make released code another variant than it is."""
    name = name_of(schedule, ranks, parameters) + ", norms in floats" * ("norm" in parameters)
    steps = 3 if torch == BEFORE else 2
    return Row(f"{name}, {variant}" if edited else f"{name}, as installed", torch, words(schedule, ranks, steps, parameters, *edited), variant,
               tuple({**parameters, "schedule": schedule, "habits": "torch_" + torch.rpartition(".")[0]}.items()), ranks=ranks, steps=steps,
               each_rank=True, flags=("--capacity", "4TiB"), **fields)


def older(torch, schedule, ranks, parameters):
    before = torch == BEFORE
    stages = parameters.get("virtual_stages", 2)
    tokens = parameters.get("sequence", 2048) * parameters.get("microbatch", 1)
    return row(torch, schedule, ranks, parameters | {"norm": "floats"}, "as_released" if before else INSTALLED, values=(("ids", 8 * tokens),),
               of_rank=tuple((("own", stages), ("first", int(rank == 0)), ("last", int(rank == ranks - 1))) for rank in range(ranks)),
               differences=(ON_HOST, EXAMPLES) if before else (ON_HOST,))


def rows():
    for schedule, ranks, parameters, releases in OLDER:
        for torch in releases:
            yield older(torch, schedule, ranks, parameters)
    for schedule, ranks, parameters, variants in PROGRAMS:
        for variant in variants:
            edited = () if variant == INSTALLED else (f"--variant={variant}",)
            yield row("2.11.0", schedule, ranks, parameters, variant, edited, beside=variants,
                      small=parameters["layers"] == SMALL["layers"] and (ranks, variant) in ((2, INSTALLED), (2, "hook_cycle")))
