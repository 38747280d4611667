"""Programs whose memory grows with each step: leak.py total|own|list|attribute|hook|cycle|none. In each another object of Python holds the memory."""
import gc
import os
import sys

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.seen = nn.Linear(1024, 1024, bias=False), []

    def forward(self, x):
        return self.up(x)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x * 2
        return ctx.y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def train(way, rank):
    model, kept, unpacked, total, loss = nn.Sequential(Block()).cuda(), [], [], 0, 0
    optimizer = torch.optim.SGD(model.parameters(), 0.1) if way != "own" else None
    for _ in range(8):
        model(torch.ones(64, 1024, device="cuda")).sum().backward()
        if optimizer:
            optimizer.step()
        output = model(torch.ones(256 << rank, 1024, device="cuda"))
        if way in ("total", "own"):
            loss = output.pow(2).mean()
        elif way == "list":
            kept.append(output)
        elif way == "attribute":
            model[0].seen.append(output)
        elif way == "hook":
            with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: unpacked.append(1) or x):
                loss = output.pow(2).mean()
            assert not unpacked
        elif way == "cycle":
            Twice.apply(output)
        total = total + loss


gc.disable()
train(sys.argv[1], int(os.environ.get("RANK", "0")))
