"""Released FSDP2 compared with this scenario: before c10d stopped to record the buffers of asynchronous collectives (2.6.0), with that switched
off there, and after (2.11.0, 2.15.0)."""
import itertools

from upstream import Difference, Row

SCHEDULES = ("instant", "calibrated", "lagging")
LAYOUTS = {"explicit_async": "explicit, asynchronous", "explicit": "explicit", "implicit": "implicit"}
WAITING = ("active", "requested")  # blocks that wait for a stream are active, and no longer allocated
WITHOUT_RESERVED = ("allocated", "active", "requested")
WORKSPACE = 32 << 20  # cuBLAS's of a Hopper GPU, one for each of the two threads that multiply
BARRIER = {"2.6.0": 1, "2.11.0": 1, "2.15.0": 4}  # bytes of the tensor that dist.barrier keeps

ROOT_STAYS = "2.6.0 never reshards its root after forward (FSDPState._lazy_init), so no backward gathers the norms: their flat buffers do not wait"
ROOT = (Difference(ROOT_STAYS, "-k*B0", ("zero_grad", "forward"), WAITING), Difference(ROOT_STAYS, "-(k + 1)*B0", ("backward", "optimizer"), WAITING))
NEWER = ("2.15.0 has a cuBLAS workspace for the time of a product only (else two rest), and releases a unit's flat buffer before the next one is copied "
         "out (before, the local prev_all_gather_state of wait_for_unshard kept it that long). The highest moment of forward is then")
RESTS = "2.15.0 has a cuBLAS workspace for the time of a product only (else two rest)"


def newer_forward(layout, stays):
    """The peak of forward, less the scenario's, as a formula. The scenario's highest moment is the last block's copy-out. Of the candidates here the highest
    counts. `w` is cuBLAS's workspace; `U` counts the buffer of a block that the scenario has gathered already."""
    later = "-w - T - U" if stays else "-w - T"  # the block before the last multiplies, and the last one's flat buffer is there
    if layout == "explicit_async":
        return f"max(-2*w, {later})"  # that, or still the copy-out
    multiplies = "3*x - B - T - w"  # the last block multiplies, its flat buffer deferred
    return f"max({later}, {multiplies})" if layout == "explicit" else multiplies


def differences(torch, layout, stays, waits):
    all_differences = [Difference(f"{torch}: dist.barrier keeps a tensor", f"block({BARRIER[torch]})", statistics=("allocated", "active")),
             Difference(f"{torch}: dist.barrier keeps a tensor", str(BARRIER[torch]), statistics=("requested",))]
    if waits and not stays:
        all_differences += ROOT
    if torch == "2.15.0":
        forward = newer_forward(layout, stays)
        all_differences += [Difference(f"{NEWER} {forward}", forward, ("forward",), WITHOUT_RESERVED),
                  Difference(f"{RESTS}; backward's highest moment is a product", "-w", ("backward",), WITHOUT_RESERVED),
                  Difference(RESTS, "-2*w", ("zero_grad", "optimizer"), WITHOUT_RESERVED),
                  Difference("2.15.0: both threads multiply on one stream, so they take turns with one workspace", "-w", statistics=("reserved",))]
    return tuple(all_differences)


def row(torch, layout, stays, schedule, avoid=False):
    recorded = torch == "2.6.0" and layout == "explicit_async" and not avoid
    not_judged = {}
    if recorded and schedule == "calibrated":
        not_judged = dict.fromkeys(("active", "requested", "reserved"), "which recorded blocks are free again depends on the clock of the program")
    elif recorded and schedule == "lagging" and not stays:
        not_judged = {"reserved": "has no formula, and less small blocks wait"}
    elif torch == "2.15.0" and stays and layout == "explicit_async":
        not_judged = {"reserved": "has no formula, and no workspace rests between the large blocks"}
    name = f"{LAYOUTS[layout]}{', stays gathered' if stays else ''}{', TORCH_NCCL_AVOID_RECORD_STREAMS=1' if avoid else ''}"
    return Row(name, torch, (layout, *(["--stays"] if stays else [])), "record_stream" if recorded else "stash" if layout == "explicit_async" else "separate_streams",
               (("reshard_after_forward", int(not stays)),), schedule=schedule, values=(("w", WORKSPACE),), not_judged=not_judged,
               environment=(("TORCH_NCCL_AVOID_RECORD_STREAMS", "1"),) if avoid else (), differences=differences(torch, layout, stays, recorded and schedule == "lagging"),
               small=torch == "2.11.0" and schedule == "lagging")


def rows():
    for torch, layout, stays, schedule in itertools.product(BARRIER, LAYOUTS, (False, True), SCHEDULES):
        if layout != "explicit" or schedule == "instant":
            yield row(torch, layout, stays, schedule)
    for stays, schedule in itertools.product((False, True), SCHEDULES):
        yield row("2.6.0", "explicit_async", stays, schedule, avoid=True)
