"""Programs that record.py records, by name: a generator, which yields at the end of each step, the number of its ranks, and its environment."""
import contextlib

PROGRAMS = {}


def program(ranks=1, **variables):
    def registered(function):
        PROGRAMS[function.__name__] = (function, ranks, variables)
        return function
    return registered


def torch_():
    import torch
    torch.manual_seed(0)
    return torch


def trained(model, batch, loss_of, optimizer, steps=3, mixed=None, scaler=None, clip=None, set_to_none=True):
    """Yields after each step."""
    torch = torch_()
    for _ in range(steps):
        with torch.autocast("cuda", mixed) if mixed else contextlib.nullcontext():
            loss = loss_of(model, batch)
        if scaler:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
        optimizer.zero_grad(set_to_none=set_to_none)
        del loss
        yield


def block(torch, width, heads, hidden, backend=None):
    """A pre-norm transformer block."""
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.other = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

        def forward(self, x):
            q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, heads, width // heads)).unbind(-3)
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            from torch.nn.attention import sdpa_kernel
            with sdpa_kernel(backend) if backend is not None else contextlib.nullcontext():
                mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).flatten(-2))
            return x + self.down(F.gelu(self.up(self.other(x))))

    return Block()


def stack(torch, layers=4, width=1024, heads=16, hidden=4096, backend=None):
    return torch.nn.Sequential(*(block(torch, width, heads, hidden, backend) for _ in range(layers)))


def squares(model, x):
    return model(x).float().square().mean()


NOTES = {}  # what a program adds to the source of its recording
