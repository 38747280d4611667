#!/usr/bin/env python3
"""Small programs whose allocator events other people recorded from the first byte on (README.md names the sources):

    attention   backward through one plain attention
    forward     three passes of a language model of four layers, on the sequences of 100 tokens
    train       three training steps of it, with an Adam written out

Run as step.py is, with `--program attention --out recorded.pickle`; `--batch` reads such options from stdin, a run a line. Every operator
that allocates stands in the order of the recorded program. The slices in `loss` that change nothing were recorded with torch 2.6, whose
backward makes a tensor of zeros for each; later releases leave them out, so the program asks for them.
"""
import argparse
import math
import sys

import batch
import torch
from torch import nn

VOCABULARY, WIDTH, HIDDEN, LAYERS, HEADS, BATCH, CONTEXT = 10000, 512, 1344, 4, 16, 10, 100


def parameter(*shape):
    weight = nn.Parameter(torch.empty(*shape, device="cuda"))
    with torch.no_grad():
        weight.uniform_().erfinv_()  # as trunc_normal_, in place
    return weight


class Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = parameter(outputs, inputs)

    def forward(self, x):
        return torch.einsum("...i,oi->...o", x, self.weight)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH, device="cuda"))

    def forward(self, x):
        scale = torch.sqrt(torch.mean(x**2, dim=-1, keepdim=True) + 1e-5)
        return x / scale * self.weight


class Rotary:
    """Its tables stay on the host, and go to the device in every call."""

    def __init__(self):
        turns = torch.arange(256)[:, None] * 10000.0 ** (-torch.arange(0, WIDTH // HEADS, 2) / (WIDTH // HEADS))
        self.sin, self.cos = turns.sin(), turns.cos()

    def __call__(self, x):
        sin = self.sin[: x.size(-2)].to("cuda")
        cos = self.cos[: x.size(-2)].to("cuda")
        sin, cos = sin[None, :, :, None], cos[None, :, :, None]
        x = x.unflatten(-1, (-1, 2))
        first = cos * x[..., :1] - sin * x[..., 1:]
        second = sin * x[..., :1] + cos * x[..., 1:]
        turned = torch.cat([first, second], dim=-1)
        return turned.flatten(-2)


def softmax(x):
    highest, _ = torch.max(x, dim=-1, keepdim=True)
    return torch.exp(x - highest) / torch.sum(torch.exp(x - highest), dim=-1, keepdim=True)


def attend(q, k, v, seen):
    seen = seen.to(q.device)
    products = torch.einsum("...qd,...kd->...qk", q, k)
    scores = products / torch.sqrt(torch.tensor(q.size(-1), device=products.device))
    scores.masked_fill_(~seen.bool(), float("-inf"))
    weights = softmax(scores)
    return torch.einsum("...qk,...kd->...qd", weights, v)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before_attention, self.before_feed = Norm(), Norm()
        self.q, self.k, self.v, self.out = (Linear(WIDTH, WIDTH) for _ in range(4))
        self.gate, self.down, self.up = Linear(WIDTH, HIDDEN), Linear(HIDDEN, WIDTH), Linear(WIDTH, HIDDEN)
        self.rotary = Rotary()

    def attention(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        q = q.unflatten(-1, (HEADS, -1)).transpose(-3, -2)
        k = k.unflatten(-1, (HEADS, -1)).transpose(-3, -2)
        v = v.unflatten(-1, (HEADS, -1)).transpose(-3, -2)
        q = self.rotary(q)
        k = self.rotary(k)
        mixed = attend(q, k, v, torch.tril(torch.ones(x.size(-2), x.size(-2))))
        mixed = mixed.transpose(-3, -2).flatten(-2)
        return self.out(mixed)

    def feed(self, x):
        gate = self.gate(x)
        opened = gate * torch.sigmoid(gate)
        up = self.up(x)
        both = opened * up
        return self.down(both)

    def forward(self, x):
        normed = self.before_attention(x)
        attended = self.attention(normed)
        middle = attended + x
        normed_middle = self.before_feed(middle)
        fed = self.feed(normed_middle)
        return fed + middle


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = parameter(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.last = Norm()
        self.head = Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding[tokens]
        for block in self.blocks:
            x = block(x)
        x = self.last(x)
        return self.head(x)


def whole(x, dim):
    return torch.ops.aten.slice(x, dim, 0, sys.maxsize)


def loss_of(predicted, targets):
    count = predicted.size(0)
    highest, _ = torch.max(predicted, dim=-1, keepdim=True)
    logs = predicted - highest - torch.log(torch.sum(torch.exp(predicted - highest), dim=-1, keepdim=True))
    chosen = torch.zeros_like(logs)
    chosen.scatter_(-1, targets.unsqueeze(-1), 1)
    return -torch.sum(chosen * logs) / count


class Adam(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"rate": 1e-3, "decay": 0.0, "first": 0.9, "second": 0.999})
        for one in self.param_groups[0]["params"]:
            self.state[one] = {"mean": torch.zeros_like(one.data), "square": torch.zeros_like(one.data), "steps": 0}

    def step(self):
        rate, decay, first, second = (self.param_groups[0][key] for key in ("rate", "decay", "first", "second"))
        for one in self.param_groups[0]["params"]:
            state = self.state[one]
            steps = state["steps"] + 1
            corrected = rate * math.sqrt(1 - second**steps) / (1 - first**steps)
            gradient = one.grad.data
            mean = state["mean"]
            new_mean = first * mean + (1 - first) * gradient
            state["mean"] = new_mean
            square = state["square"]
            new_square = second * square + (1 - second) * gradient**2
            state["square"] = new_square
            state["steps"] = steps
            one.data = one.data - corrected * (new_mean / (torch.sqrt(new_square) + 1e-8))
            one.data = one.data - rate * decay * one.data


def attention():
    q = torch.randn(8, 4096, 16, device="cuda", requires_grad=True)
    k = torch.randn(8, 4096, 16, device="cuda", requires_grad=True)
    v = torch.randn(8, 4096, 16, device="cuda", requires_grad=True)

    def softened(x):
        highest = torch.max(x, dim=-1, keepdim=True)[0]  # kept until the function returns
        powers = torch.exp(x - highest)
        return powers / torch.sum(powers, dim=-1, keepdim=True)

    def attended():
        scores = torch.einsum("...qd,...kd->...qk", q, k) / math.sqrt(16)
        return torch.einsum("...qk,...kd->...qd", softened(scores), v)

    out = attended()
    loss = out.sum()
    loss.backward()
    return out, loss


def forward():
    model = Model()
    tokens = torch.randint(0, VOCABULARY, (BATCH, CONTEXT)).to("cuda")
    for _ in range(3):
        model(tokens)
    return model, tokens


def train():
    model = Model()
    optimizer = Adam(model.parameters())
    tokens = torch.randint(0, VOCABULARY, (BATCH, CONTEXT)).to("cuda")
    targets = torch.randint(0, VOCABULARY, (BATCH,)).to("cuda")
    for _ in range(3):
        optimizer.zero_grad()
        logits = model(tokens)
        predicted = whole(whole(logits, 0).select(1, -1), 1)
        loss = loss_of(predicted, targets)
        loss.backward()
        optimizer.step()
    return model, optimizer, tokens, targets, logits, predicted, loss


def record(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    programs = {"attention": attention, "forward": forward, "train": train}
    parser.add_argument("--program", choices=programs, required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--frames", action="store_true")  # of every event, PyTorch's default ones
    a = parser.parse_args(words)
    torch.cuda.memory._record_memory_history(max_entries=1000000, context="all" if a.frames else None)
    alive = programs[a.program]()
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(a.out)
    return alive


if __name__ == "__main__":
    sys.exit(batch.main(record))
