#!/usr/bin/env python3
"""Llama-3-8B under FSDP2 on 8 GPUs, by torchtitan's own train.py: peak reserved memory on the virtual platform against what
torchtitan's authors printed on 8 H100 GPUs (95 GB).

    python3 reports/measured/llama3_8b.py CHECKOUT --virtual build/dev/virtual

CHECKOUT is torchtitan at commit 5940ddeb5 (February 2025); python3 can import torch 2.11.0. One process stands for rank 0 or 7 of 8.
The figures are those of the commit's own description: reserved GiB after the model is made, at step 1 and from step 2 on. One of them
was printed as 49.59 then and as 49.58 six weeks later.

Patched from outside, because the other ranks are absent and kernels compute nothing: the rendezvous store lives in the process, and
answers with a unique id where another rank would have set one; DTensor's random state is taken from the host; tokens are random
instead of the data set's; nothing is written for TensorBoard. The seed is given, so that no rank asks another for it."""
import argparse
import ctypes
import os
import re
import subprocess
import sys
import types
from pathlib import Path

RANKS, STEPS, VOCABULARY = 8, 3, 128256
MODEL = {"3.77"}
PRINTED = {"default": ({"42.08"}, {"49.58", "49.59"}), "always": ({"41.89"}, {"49.41"}), "never": ({"54.66"}, {"62.18"})}
ENVIRONMENT = {"TIDEMARK_UNKNOWN": "nan", "TIDEMARK_NCCL_ALONE": "1", "TIDEMARK_SCHEDULE": "calibrated", "TIDEMARK_GPU": "h100-80g",
               "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "WORLD_SIZE": str(RANKS), "LOCAL_RANK": "0"}


def stop(text: str, code: int) -> None:
    print(f"error: {text}", file=sys.stderr)
    sys.exit(code)


def train(checkout: Path, rank: int, reshard: str) -> None:
    """Runs train.py as this rank; prints what it prints."""
    sys.path.insert(0, str(checkout))
    import torch
    import torch.distributed as dist
    from torch.distributed.tensor import _random

    class Alone(dist.Store):
        """Keeps what this rank sets, and makes a unique id where another would have set one."""

        def __init__(self):
            super().__init__()
            self.kept = {}

        def set(self, key, value):
            self.kept[key] = bytes(value)

        def get(self, key):
            if key not in self.kept:
                made = ctypes.create_string_buffer(128)
                ctypes.CDLL(None).ncclGetUniqueId(made)
                self.kept[key] = made.raw
            return self.kept[key]

        def add(self, key, amount):
            self.kept[key] = str(int(self.kept.get(key, b"0")) + amount).encode()
            return int(self.kept[key])

        def wait(self, keys, timeout=None):
            pass

        def check(self, keys):
            return all(key in self.kept for key in keys)

    def random_state(tracker):
        state = tracker._device_handle.get_rng_state()
        state.to(tracker._device)
        return state

    class Tokens:
        def __iter__(self):
            while True:
                tokens = torch.randint(0, VOCABULARY, (1, 8193))
                yield tokens[:, :-1], tokens[:, 1:]

        def state_dict(self):
            return {}

    _random.OffsetBasedRNGTracker._get_device_state = random_state
    sys.modules["torch.utils.tensorboard"] = types.SimpleNamespace(SummaryWriter=None)
    sys.modules["torchtitan.datasets"] = types.SimpleNamespace(
        build_hf_data_loader=lambda *_: Tokens(), build_tokenizer=lambda *_: types.SimpleNamespace(n_words=VOCABULARY))
    store, init = dist.HashStore() if rank == 0 else Alone(), dist.init_process_group
    dist.init_process_group = lambda **options: init(store=store, rank=rank, world_size=RANKS, **options)
    sys.argv = ["train.py", "--model.name=llama3", "--model.flavor=8B", "--training.seq_len=8192", "--training.batch_size=1",
                f"--training.steps={STEPS}", "--training.seed=42", f"--training.fsdp_reshard_after_forward={reshard}", "--metrics.log_freq=1",
                "--metrics.disable_color_printing", "--activation_checkpoint.mode=selective", "--activation_checkpoint.selective_ac_option=op"]
    exec(compile((checkout / "train.py").read_text(), "train.py", "exec"), {"__name__": "__main__"})


def measured(options, rank: int, reshard: str) -> tuple[str, ...]:
    """Reserved GiB: of the model, at step 1, at step 3; ends the program where train.py does not print them."""
    libraries = sorted(options.virtual.resolve().glob("*.so.*"))
    if not libraries:
        stop(f"{options.virtual} has no libraries of the virtual platform: build tidemark, or name its folder with --virtual", 2)
    env = {**os.environ, **ENVIRONMENT, "RANK": str(rank), "LD_PRELOAD": ":".join(map(str, libraries))}
    done = subprocess.run([sys.executable, __file__, str(options.checkout), "--as", str(rank), reshard], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    model = re.findall(r"memory usage for model: ([\d.]+)GiB", done.stdout)
    steps = re.findall(r"step: +\d+ .*memory: +([\d.]+)GiB", done.stdout)
    if done.returncode != 0 or len(model) != 1 or len(steps) != STEPS:
        stop(f"rank {rank}, {reshard}: train.py ended with exit code {done.returncode}:\n" + "\n".join(done.stdout.splitlines()[-8:]), 3)
    return model[0], steps[0], steps[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--virtual", type=Path, default=Path(__file__).parents[2] / "build/dev/virtual")
    parser.add_argument("--as", nargs=2, dest="one", metavar=("RANK", "RESHARD"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not (options.checkout / "train.py").exists():
        stop(f"{options.checkout} is no checkout of torchtitan: it has no train.py", 2)
    if options.one:
        train(options.checkout, int(options.one[0]), options.one[1])
        return 0
    wrong = 0
    for reshard, printed in PRINTED.items():
        for rank in (0, RANKS - 1):
            found = measured(options, rank, reshard)
            off = [f for f, allowed in zip(found, (MODEL, *printed)) if f not in allowed]
            wrong += len(off)
            print(f"reshard_after_forward {reshard}, rank {rank}: model {found[0]}, step 1 {found[1]}, step {STEPS} {found[2]} GiB reserved"
                  + (f"; printed on hardware: {[sorted(a) for a in (MODEL, *printed)]}" if off else ""), flush=True)
    print(f"18 figures compared with those printed on hardware, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
