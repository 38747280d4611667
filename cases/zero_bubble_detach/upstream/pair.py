"""PyTorch's own pipelining code held against this scenario: every rank, every schedule that both have, with PyTorch's habits taken out (edits.py).
Requested bytes: allocated ones add remainders that depend on the order in which Python walks a set."""
from upstream import Row

SPLIT = ("hook_cycle", "hooks_alone", "hooks_detach_outputs_loss", "hooks_detach_last", "drop_grads_hooks")
WHOLE = ("drop_grads_hooks",)  # schedules that do not split the backward have no variants to tell apart
LEAKS = ("as_released",)  # in its third step
SEED = {"layers": 32, "hidden": 4096}
SMALL = {"layers": 13, "hidden": 1024, "ffn": 2816, "heads": 16, "kv_heads": 4, "vocabulary": 5003, "sequence": 384,
         "microbatch": 2, "microbatches": 6, "virtual_stages": 3, "checkpointing": 1}
ONE, TWO = {"virtual_stages": 1}, {"virtual_stages": 2}
PROGRAMS = [("interleaved_zb", 4, SEED | {"checkpointing": 0}, SPLIT), ("interleaved_zb", 4, SEED | {"checkpointing": 2, "microbatches": 4}, SPLIT),
            ("interleaved_zb", 2, SMALL, SPLIT), ("interleaved_zb", 3, SMALL | TWO, SPLIT),
            ("zbv", 4, SEED | TWO | {"checkpointing": 0}, SPLIT), ("zbv", 3, SMALL | TWO, SPLIT), ("zbv", 2, SMALL | TWO | {"checkpointing": 2}, SPLIT),
            ("gpipe", 4, SEED | ONE | {"checkpointing": 0}, WHOLE), ("gpipe", 3, SMALL | ONE, WHOLE),
            ("1f1b", 4, SEED | ONE | {"checkpointing": 0}, WHOLE), ("1f1b", 3, SMALL | ONE, WHOLE), ("1f1b", 6, SMALL | ONE | {"checkpointing": 2}, WHOLE),
            ("interleaved_1f1b", 4, SEED | {"checkpointing": 0}, WHOLE), ("interleaved_1f1b", 3, SMALL, WHOLE),
            ("interleaved_zb", 4, SEED | {"checkpointing": 0}, LEAKS), ("interleaved_zb", 2, SMALL, LEAKS), ("zbv", 3, SMALL | TWO | {"checkpointing": 2}, LEAKS),
            ("1f1b", 3, SMALL | ONE, LEAKS)]
CHECKPOINTING = ("no block", "every second block", "every block")


def words(schedule, ranks, steps, parameters, *more):
    return (*(f"--{name}={value}" for name, value in {"schedule": schedule, "ranks": ranks, "steps": steps, **parameters}.items()), *more)


def row(torch, name, schedule, ranks, parameters, variant, *more, steps=2, **fields):
    return Row(f"{name}, {variant}", torch, words(schedule, ranks, steps, parameters, f"--variant={variant}", *more), variant,
               tuple({**parameters, "schedule": schedule}.items()), ranks=ranks, steps=steps, each_rank=True, flags=("--capacity", "4TiB"), **fields)


def rows():
    for schedule, ranks, parameters, variants in PROGRAMS:
        checkpointed = CHECKPOINTING[parameters.get("checkpointing", 0)]
        name = f"{schedule}, {parameters['layers']} layers, {ranks} ranks, {checkpointed} checkpointed"
        for variant in variants:
            yield row("2.11.0", name, schedule, ranks, parameters, variant, steps=3 if variants is LEAKS else 2, beside=variants,
                      small=parameters["layers"] == SMALL["layers"] and (ranks, variant) in ((2, "drop_grads_hooks"), (2, "hook_cycle")))
