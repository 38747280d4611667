#!/usr/bin/env python3
"""Figures of the allocator that another author printed for one training step on two GPUs with NCCL (printed/two_ranks.json), made again:

    tidemark exec --devices 2 --gpu h100-80g --mode shapes -- python3 reports/measured/two_ranks.py OUT    # writes OUT.full.0 ...

The model of step.py in another size, once with an AdamW of its own on each rank and once with one whose state is sharded over the ranks. The
recorded program runs with torch 2.6, where looking rows up in `weight[tokens, :]` makes a slice that backward answers with zeros; later
releases leave it out, so the program asks for it.
"""
import json
import math
import os
import sys

import step
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.nn import functional

SIZES = {"WIDTH": 1600, "HIDDEN": 6400, "LAYERS": 48, "HEADS": 25, "BATCH": 4}
CONTEXT, RANKS = 128, 2
STATISTICS = {
    "current_allocated_bytes": "allocated_bytes.all.current",
    "current_reserved_bytes": "reserved_bytes.all.current",
    "max_allocated_bytes": "allocated_bytes.all.peak",
    "max_reserved_bytes": "reserved_bytes.all.peak",
    "active_peak_bytes": "active_bytes.all.peak",
    "requested_peak_bytes": "requested_bytes.all.peak",
}


def look_up(self, tokens):
    return torch.ops.aten.slice(self.weight, 1, 0, sys.maxsize)[tokens]


def turn(self, x):
    """Rows of the tables are looked up in every call."""
    even, odd = x.unflatten(-1, (-1, 2)).movedim(-1, 0)
    places = torch.arange(x.size(-2), device=x.device)
    cos, sin = self.turns[:, places]
    turned_even = cos * even - sin * odd
    turned_odd = sin * even + cos * odd
    return torch.stack((turned_even, turned_odd), dim=-1).flatten(-2)


class AdamW(step.AdamW):
    """Its own order of the same products, which decides what is alive at the peak."""

    def step(self):
        for group in self.param_groups:
            rate, decay, first, second = (group[key] for key in ("rate", "decay", "first", "second"))
            for parameter in group["params"]:
                gradient, state = parameter.grad.data, self.state[parameter]
                steps = state.get("steps", 1)
                old_mean = state.get("mean", torch.zeros_like(gradient))
                old_square = state.get("square", torch.zeros_like(gradient))
                mean = first * old_mean + ((1 - first) * gradient)
                square = second * old_square + ((1 - second) * torch.square(gradient))
                corrected = rate * (math.sqrt(1 - second**steps) / (1 - first**steps))
                parameter.data -= corrected * mean / (torch.sqrt(square) + 1e-8)
                parameter.data -= rate * decay * parameter.data
                state["mean"], state["square"], state["steps"] = mean, square, steps + 1


class Sharded:
    """Each rank steps every other parameter, and then has the others' from their owners."""

    def __init__(self, parameters, rank):
        self.parameters = list(parameters)
        self.own = AdamW(self.parameters[rank::RANKS])

    def step(self):
        self.own.step()
        for i, parameter in enumerate(self.parameters):
            dist.broadcast(parameter.data, src=i % RANKS)


def figures():
    statistics = torch.cuda.memory_stats()
    torch.cuda.reset_peak_memory_stats()
    return {name: statistics[key] for name, key in STATISTICS.items()}


def rank_main(rank, mode, out):
    torch.cuda.set_device(rank)
    store = os.path.abspath(f"{out}.{mode}.store")
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    vars(step).update(SIZES)
    step.Embedding.forward, step.Rotary.forward = look_up, turn
    model = step.Model(CONTEXT).to(f"cuda:{rank}")
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    optimizer = Sharded(model.parameters(), rank) if mode == "sharded" else AdamW(model.parameters())
    tokens, targets = (torch.randint(0, step.VOCABULARY, (step.BATCH, CONTEXT)).to("cuda") for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    moments = {"after_model_initialization": figures()}

    def loss_of():
        logits = model(tokens)
        return functional.cross_entropy(logits.reshape(-1, logits.size(-1)), targets.reshape(-1))

    loss = loss_of()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad /= RANKS
    torch.cuda.synchronize()
    moments["before_optimizer_step"] = figures()
    optimizer.step()
    torch.cuda.synchronize()
    moments["after_optimizer_step"] = figures()
    with open(f"{out}.{mode}.{rank}", "w", encoding="utf-8") as file:
        json.dump(moments, file)
    dist.destroy_process_group()


def main():
    for mode in ("full", "sharded"):
        multiprocessing.spawn(rank_main, args=(mode, sys.argv[1]), nprocs=RANKS)


if __name__ == "__main__":
    main()
