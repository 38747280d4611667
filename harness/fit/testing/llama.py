"""llama.py --batch N [--length L] [--size 8B|70B] [--steps S]: trains a model with the shapes of Llama 3 under FSDP2: bf16, AdamW, checkpointed blocks.
The ranks come from the environment, as torchrun or `tidemark exec --as-rank 0 --of 8` sets it."""
import argparse
import dataclasses

VOCABULARY = 128256


@dataclasses.dataclass
class Size:
    layers: int
    width: int
    heads: int
    hidden: int
    groups: int = 8  # of keys and values


SIZES = {"8B": Size(32, 4096, 32, 14336), "70B": Size(80, 8192, 64, 28672)}


def llama(torch, size):
    from torch import nn
    from torch.nn import functional as F
    from torch.utils.checkpoint import checkpoint

    head = size.width // size.heads

    def turned(x, table):
        first, second = x.float().unflatten(-1, (-1, 2)).unbind(-1)
        cosine, sine = table
        return torch.stack((first * cosine - second * sine, first * sine + second * cosine), -1).flatten(-2).to(x.dtype)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.other_norm = nn.RMSNorm(size.width), nn.RMSNorm(size.width)
            self.q = nn.Linear(size.width, size.width, bias=False)
            self.k, self.v = (nn.Linear(size.width, size.groups * head, bias=False) for _ in range(2))
            self.o = nn.Linear(size.width, size.width, bias=False)
            self.gate, self.up = (nn.Linear(size.width, size.hidden, bias=False) for _ in range(2))
            self.down = nn.Linear(size.hidden, size.width, bias=False)

        def forward(self, x, table):
            y = self.norm(x)
            q, k, v = (layer(y).unflatten(-1, (-1, head)).transpose(1, 2) for layer in (self.q, self.k, self.v))
            y = F.scaled_dot_product_attention(turned(q, table), turned(k, table), v, is_causal=True, enable_gqa=True)
            x = x + self.o(y.transpose(1, 2).flatten(2))
            y = self.other_norm(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, size.width)
            self.blocks = nn.ModuleList(Block() for _ in range(size.layers))
            self.norm = nn.RMSNorm(size.width)
            self.output = nn.Linear(size.width, VOCABULARY, bias=False)

        def forward(self, tokens, table):
            x = self.embedding(tokens)
            for block in self.blocks:
                x = checkpoint(block, x, table, use_reentrant=False, preserve_rng_state=False)
            return self.output(self.norm(x))

    return Llama()


def sharded(torch, size, mesh):
    """The model over the mesh, with zeros for parameters."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    with torch.device("meta"):
        model = llama(torch, size)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device="cuda")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return model


def turns(torch, size, length):
    angles = torch.zeros(length, size.width // size.heads // 2, device="cuda")
    return angles.cos(), angles.sin()


def train(torch, model, optimizer, tokens, table):
    """One step."""
    logits = model(tokens, table)
    torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten()).backward()
    del logits
    optimizer.step()
    optimizer.zero_grad()


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--batch", type=int, required=True)
    options.add_argument("--length", type=int, default=8192)
    options.add_argument("--size", choices=SIZES, default="8B")
    options.add_argument("--steps", type=int, default=6)
    options = options.parse_args()

    import torch
    import torch.distributed as dist

    size = SIZES[options.size]
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
    model = sharded(torch, size, dist.init_device_mesh("cuda", (dist.get_world_size(),)))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.zeros(options.batch, options.length, dtype=torch.int64, device="cuda")
    table = turns(torch, size, options.length)
    for _ in range(options.steps):
        train(torch, model, optimizer, tokens, table)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
