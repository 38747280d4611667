#!/usr/bin/env python3
"""Llama-3-8B under FSDP2 on 8 GPUs, by torchtitan's own train.py: peak reserved memory on the virtual platform against what
torchtitan's authors printed on 8 H100 GPUs (95 GB).

    python3 reports/measured/llama3_8b.py CHECKOUT --tidemark build/dev/tidemark

CHECKOUT is torchtitan at commit 5940ddeb5 (February 2025); python3 can import torch 2.11.0. `tidemark exec` runs rank 0 and rank 7 of 8,
each without its partners.
The figures are those of the commit's own description: reserved GiB after the model is made, at step 1 and from step 2 on. One of them
was printed as 49.59 then and as 49.58 six weeks later.

Patched from outside: tokens are random instead of the data set's, and nothing is written for TensorBoard. The seed is given, so that no
rank asks another for it."""
import argparse
import re
import subprocess
import sys
import types
from pathlib import Path

RANKS, STEPS, VOCABULARY = 8, 3, 128256
MODEL = {"3.77"}
PRINTED = {"default": ({"42.08"}, {"49.58", "49.59"}), "always": ({"41.89"}, {"49.41"}), "never": ({"54.66"}, {"62.18"})}
FLAGS = ["--gpu", "h100-80g", "--schedule", "calibrated", "--alloc-conf", "expandable_segments:True"]


def stop(text: str, code: int) -> None:
    print(f"error: {text}", file=sys.stderr)
    sys.exit(code)


def train(checkout: Path, reshard: str) -> None:
    """Runs train.py as the rank that the environment names; prints what it prints."""
    sys.path.insert(0, str(checkout))
    import torch

    class Tokens:
        def __iter__(self):
            while True:
                tokens = torch.randint(0, VOCABULARY, (1, 8193))
                yield tokens[:, :-1], tokens[:, 1:]

        def state_dict(self):
            return {}

    sys.modules["torch.utils.tensorboard"] = types.SimpleNamespace(SummaryWriter=None)
    sys.modules["torchtitan.datasets"] = types.SimpleNamespace(
        build_hf_data_loader=lambda *_: Tokens(), build_tokenizer=lambda *_: types.SimpleNamespace(n_words=VOCABULARY))
    sys.argv = ["train.py", "--model.name=llama3", "--model.flavor=8B", "--training.seq_len=8192", "--training.batch_size=1",
                f"--training.steps={STEPS}", "--training.seed=42", f"--training.fsdp_reshard_after_forward={reshard}", "--metrics.log_freq=1",
                "--metrics.disable_color_printing", "--activation_checkpoint.mode=selective", "--activation_checkpoint.selective_ac_option=op"]
    exec(compile((checkout / "train.py").read_text(), "train.py", "exec"), {"__name__": "__main__"})


def measured(options, rank: int, reshard: str) -> tuple[str, ...]:
    """Reserved GiB: of the model, at step 1, at step 3; ends the program where train.py does not print them."""
    done = subprocess.run([options.tidemark, "exec", *FLAGS, "--as-rank", str(rank), "--of", str(RANKS), "--", sys.executable, __file__,
                           str(options.checkout), "--train", reshard], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    model = re.findall(r"memory usage for model: ([\d.]+)GiB", done.stdout)
    steps = re.findall(r"step: +\d+ .*memory: +([\d.]+)GiB", done.stdout)
    if done.returncode != 0 or len(model) != 1 or len(steps) != STEPS:
        stop(f"rank {rank}, {reshard}: train.py ended with exit code {done.returncode}:\n" + "\n".join(done.stdout.splitlines()[-8:]), 3)
    return model[0], steps[0], steps[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--tidemark", type=Path, default=Path(__file__).parents[2] / "build/dev/tidemark")
    parser.add_argument("--train", metavar="RESHARD", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not (options.checkout / "train.py").exists():
        stop(f"{options.checkout} is not a checkout of torchtitan: it has no train.py", 2)
    if not options.tidemark.exists():
        stop(f"{options.tidemark} is not there: build tidemark, or name it with --tidemark", 2)
    if options.train:
        train(options.checkout, options.train)
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
