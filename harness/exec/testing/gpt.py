"""gpt.py BATCH: three training steps of a GPT of 12 layers on sequences of 1,024 tokens: the program of the README's picture."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, LAYERS, WORDS, TOKENS = 768, 12, 50304, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        shape = (*x.shape[:2], WIDTH // 64, 64)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


model = GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(3):
    ids = torch.randint(WORDS, (int(sys.argv[1]), TOKENS), device="cuda")
    loss = F.cross_entropy(model(ids).view(-1, WORDS), ids.view(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
