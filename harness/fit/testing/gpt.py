"""gpt.py --batch N [--recompute none|full]: trains a language model of 354 million parameters, 1,024 tokens a sequence, bf16 autocast, AdamW."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

LAYERS, WIDTH, HEADS, VOCABULARY, LENGTH = 24, 1024, 16, 50304, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Model(nn.Module):
    def __init__(self, recompute):
        super().__init__()
        self.recompute = recompute
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks, self.last = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return F.linear(self.last(x), self.tokens.weight)


options = argparse.ArgumentParser()
options.add_argument("--batch", type=int, required=True)
options.add_argument("--recompute", choices=("none", "full"), default="none")
options.add_argument("--steps", type=int, default=10)
options = options.parse_args()
with torch.device("cuda"):
    model = Model(options.recompute == "full")
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(options.steps):
    tokens = torch.randint(VOCABULARY, (options.batch, LENGTH + 1), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
