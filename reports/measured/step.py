#!/usr/bin/env python3
"""Training step of a small language model whose allocator events other people recorded on a GPU (README.md names the source).

    LD_PRELOAD=$(ls $PWD/build/dev/virtual/*.so.* | tr '\\n' ':') TIDEMARK_GPU=a100-80g TIDEMARK_UNKNOWN=nan \\
      python3 reports/measured/step.py --context 256 --training --out recorded.pickle

with the torch 2.11.0 wheel: five warm-up steps, then one under PyTorch's memory history, whose snapshot is written. The model is a pre-norm
transformer of plain operators: RMSNorm in single precision, rotary positions, attention without a fused kernel, SwiGLU, cross-entropy and
AdamW written out. Every operator that allocates stands in the order of the recorded program, since the events are compared one by one.
`--windows` is a program that another author recorded, with the same model: other sizes, tokens made on the host, and no optimizer.
`--batch` reads such options from stdin, a run a line; each run is a process of its own, forked before CUDA starts.
"""
import argparse
import math
import sys

import batch
import torch
from torch import nn

VOCABULARY, WIDTH, HIDDEN, LAYERS, HEADS, BATCH, WARM_UP = 10000, 1024, 4096, 24, 16, 4, 5
WINDOWS = {"WIDTH": 768, "HIDDEN": 3072, "LAYERS": 12, "HEADS": 12, "BATCH": 32}


class Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))

    def forward(self, x):
        return torch.einsum("...i,oi->...o", x, self.weight)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(WIDTH))

    def forward(self, x):
        wide = x.to(torch.float32)
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        wide = wide * scale
        return (self.weight * wide).to(x.dtype)


class Rotary(nn.Module):
    def __init__(self, context):
        super().__init__()
        angles = torch.arange(context)[:, None] * 10000.0 ** (-torch.arange(0, WIDTH // HEADS, 2) / (WIDTH // HEADS))
        self.register_buffer("turns", torch.stack((angles.cos(), angles.sin())), persistent=False)

    def forward(self, x):
        even, odd = x.unflatten(-1, (-1, 2)).movedim(-1, 0).unbind(0)
        cos, sin = self.turns[:, : x.size(-2), :].unbind(0)
        turned_even = cos * even - sin * odd
        turned_odd = sin * even + cos * odd
        return torch.concat((turned_even, turned_odd), dim=-1)


def softmax(x):
    shifted = x - torch.max(x, dim=-1, keepdim=True)[0]
    powers = torch.exp(shifted)
    return powers / torch.sum(powers, dim=-1, keepdim=True)


def attend(q, k, v, mask):
    scores = torch.einsum("...qd,...kd->...qk", q, k) / math.sqrt(k.size(-1))
    scores = torch.where(mask, scores, float("-inf"))
    weights = softmax(scores)  # kept until the function returns, as the scores are
    return torch.einsum("...qk,...kd->...qd", weights, v)


class Attention(nn.Module):
    def __init__(self, rotary):
        super().__init__()
        self.q, self.k, self.v, self.out = (Linear(WIDTH, WIDTH) for _ in range(4))
        self.rotary = rotary

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(-3, -2) for y in (q, k, v))
        q = self.rotary(q)
        k = self.rotary(k)
        place = torch.arange(x.size(1), device=x.device)
        seen = (place[:, None] >= place[None, :])[None, ...]
        mixed = attend(q, k, v, seen)
        mixed = mixed.transpose(-3, -2).flatten(-2).contiguous()
        return self.out(mixed)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.down, self.up = Linear(WIDTH, HIDDEN), Linear(HIDDEN, WIDTH), Linear(WIDTH, HIDDEN)

    def forward(self, x):
        return self.down(silu(self.gate(x)) * self.up(x))


def silu(x):
    return x * torch.sigmoid(x)


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(VOCABULARY, WIDTH))

    def forward(self, tokens):
        return self.weight[tokens, :]


class Block(nn.Module):
    def __init__(self, rotary):
        super().__init__()
        self.attention, self.feed = Attention(rotary), Gated()
        self.before_attention, self.before_feed = Norm(), Norm()

    def forward(self, x):
        attended = self.attention(self.before_attention(x))
        middle = x + attended
        fed = self.feed(self.before_feed(middle))
        return middle + fed


class Model(nn.Module):
    def __init__(self, context):
        super().__init__()
        self.embedding = Embedding()
        self.rotary = Rotary(context)
        self.blocks = nn.ModuleList(Block(self.rotary) for _ in range(LAYERS))
        self.last = Norm()
        self.head = Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        looked_up = self.embedding(tokens)
        x = looked_up
        for block in self.blocks:
            x = block(x)
        x = self.last(x)
        return self.head(x)


def log_softmax(x):
    highest = torch.max(x, dim=-1, keepdim=True)[0]  # kept until the function returns
    x = x - highest
    return x - torch.log(torch.sum(torch.exp(x), dim=-1, keepdim=True))


def cross_entropy(logits, targets):
    losses = -log_softmax(logits)
    return torch.mean(torch.gather(losses, -1, targets.unsqueeze(-1)))


class AdamW(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"rate": 1e-3, "decay": 0.01, "first": 0.9, "second": 0.999})

    def step(self):
        for group in self.param_groups:
            rate, decay, first, second = (group[key] for key in ("rate", "decay", "first", "second"))
            for parameter in group["params"]:
                gradient, state = parameter.grad.data, self.state[parameter]
                steps = state.get("steps", 0) + 1
                corrected = rate * math.sqrt(1 - second**steps) / (1 - first**steps)
                parameter.data -= rate * decay * parameter.data
                # zeros are made in every step, even where there are moments already
                old_mean = state.get("mean", torch.zeros_like(gradient))
                old_square = state.get("square", torch.zeros_like(gradient))
                mean = first * old_mean + ((1 - first) * gradient)
                square = second * old_square + ((1 - second) * torch.square(gradient))
                parameter.data -= corrected * mean / (torch.sqrt(square) + 1e-8)
                state["mean"], state["square"], state["steps"] = mean, square, steps


def record(a):
    device = torch.device("cuda")
    model = Model(a.context)
    model.to(device)
    optimizer = AdamW(model.parameters())

    def tokens(steps):
        return torch.randint(0, VOCABULARY, (steps, BATCH, a.context), device=device)

    def mixed():
        return torch.autocast("cuda", torch.bfloat16, enabled=a.autocast)

    def begin():
        torch.cuda.synchronize()
        torch.cuda.memory._record_memory_history(max_entries=1000000, context="all" if a.frames else None)

    warm_up, recorded = tokens(WARM_UP), tokens(1)
    if a.training:
        warm_up_targets, recorded_targets = tokens(WARM_UP), tokens(1)
        for i in range(WARM_UP):
            with mixed():
                logits = model(warm_up[i])
                loss = cross_entropy(logits, warm_up_targets[i])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        del logits, loss
        begin()
        with mixed():
            logits = model(recorded[0])
            loss = cross_entropy(logits, recorded_targets[0])
        loss.backward()
        optimizer.step()
    else:
        model.eval()
        with torch.inference_mode():
            for i in range(WARM_UP):
                with mixed():
                    model(warm_up[i])
            begin()
            with mixed():
                model(recorded[0])
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(a.out)


def record_windows(a):
    globals().update(WINDOWS)
    model = Model(a.context).to("cuda")
    tokens, targets = (torch.randint(0, VOCABULARY, (BATCH, a.context)).to("cuda") for _ in range(2))
    for i in range(WARM_UP + 1):
        if i == WARM_UP:
            torch.cuda.memory._record_memory_history(max_entries=1000000, context="all" if a.frames else None)
        logits = model(tokens)
        loss = cross_entropy(logits, targets)
        loss.backward()
        torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(a.out)


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--autocast", action="store_true")
    parser.add_argument("--windows", action="store_true")
    parser.add_argument("--frames", action="store_true")  # Python frames of every event
    parser.add_argument("--out", required=True)
    return parser.parse_args(words)


def run(words):
    a = arguments(words)
    record_windows(a) if a.windows else record(a)


if __name__ == "__main__":
    sys.exit(batch.main(run))
