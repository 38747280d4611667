#!/usr/bin/env python3
"""The tables of ablation.md, measured by TIDEMARK_BIN (build/dev/tidemark): what each part saves on a Llama-7B, by rank."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from upstream import trial  # noqa: E402

CELLS = ["retained", "detach_outputs_loss", "detach_last_alone", "detach_stage_outputs", "hooks_alone", "hooks_detach_outputs_loss",
         "hooks_detach_last", "drop_grads_hooks", "release_after_input", "one_weight_task", "gradient_edge", "hook_cycle", "as_released"]
CHECKPOINTING = ["none", "every second block", "every block"]
GRID = [(2, 2, 2048), (2, 4, 1024), (2, 4, 2048), (2, 4, 4096), (2, 8, 2048), (2, 16, 2048), (4, 4, 2048), (4, 8, 1024), (4, 8, 2048),  # ranks,
        (4, 8, 4096), (4, 16, 2048), (8, 8, 1024), (8, 8, 2048), (8, 8, 4096), (8, 16, 2048)]  # microbatches, sequence
MARKS = {0: 0.10, 1: 0.50, 2: 0.50}  # what the first report of this names, for a 7B without and with checkpointing


def peaks(variants, ranks, parameters, statistic="allocated"):
    """Bytes by variant, of every rank, highest of all phases of the last step."""
    (found,) = trial("zero_bubble_detach", tuple(variants), "seed", tuple(parameters.items()), "instant", ranks, 2)["trials"]
    return {variant["name"]: [max(phase[statistic]["peak"] for phase in rank["phases"]) for rank in variant["ranks"]] for variant in found["variants"]}


def leaks(ranks, parameters):
    """Requested bytes that the last of three steps of as_released adds, by rank; compared with the replay by the run."""
    (found,) = trial("zero_bubble_detach", ("as_released",), "seed", tuple(parameters.items()), "instant", ranks, 3)["trials"]
    found = {rank: v["measured"] for v in found["verdicts"] if v["variant"] == "as_released" and v["name"] == "leak/requested/end" for rank in v["ranks"]}
    return [found[rank] for rank in range(ranks)]


def gib(value):
    return f"{value / 2**30:.1f}"


def by_habits():
    """Requested bytes with the norms and the habits of a release; in brackets, how far this program without them lies under it."""
    print("\n| norms | habits | checkpointing | rank 0 | rank 1 | rank 2 | rank 3 |\n|---|---|---|---|---|---|---|")
    for checkpointing, name in enumerate(CHECKPOINTING):
        plain = None
        for norm, habits in (("fused", "none"), ("fused", "torch_2.11"), ("floats", "torch_2.11"), ("floats", "torch_2.6")):
            found = peaks(["drop_grads_hooks"], 4, {"checkpointing": checkpointing, "norm": norm, "habits": habits}, "requested")["drop_grads_hooks"]
            plain = plain or found
            cells = [gib(peak) + f" ({1 - least / peak:.1%})" * (peak != least) for peak, least in zip(found, plain)]
            print(f"| {norm} | {habits} | {name} |", " | ".join(cells), "|", flush=True)


def main():
    print("| GiB on ranks 0, 1, 2, 3 |", " | ".join(CHECKPOINTING), "|\n|---|---|---|---|")
    columns = [peaks(CELLS, 4, {"checkpointing": c}) for c in range(3)]
    for name in CELLS:
        print(f"| `{name}` |", " | ".join(", ".join(map(gib, column[name])) for column in columns), "|")
    print("\n| `as_released` |", " | ".join(CHECKPOINTING), "|\n|---|---|---|---|")
    print("| GiB a step |", " | ".join(", ".join(map(gib, leaks(4, {"checkpointing": c}))) for c in range(3)), "|")
    by_habits()
    print("\n| ranks | microbatches | sequence |", " | ".join(CHECKPOINTING), "|\n|---|---|---|---|---|---|")
    for ranks, microbatches, sequence in GRID:
        cells = []
        for checkpointing in range(3):
            found = peaks(["hooks_alone", "drop_grads_hooks"], ranks,
                          {"microbatches": microbatches, "sequence": sequence, "checkpointing": checkpointing})
            saved = [1 - after / before for before, after in zip(found["hooks_alone"], found["drop_grads_hooks"])]
            near = min(saved) - 0.02 <= MARKS[checkpointing] <= max(saved) + 0.02
            cells.append(f"{saved[0]:.0%}; {min(saved[1:]):.0%} to {max(saved[1:]):.0%}{' ◆' if near else ''}")
        print(f"| {ranks} | {microbatches} | {sequence} |", " | ".join(cells), "|", flush=True)


main()
