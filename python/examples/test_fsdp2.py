"""FSDP2: full parameters that a forward holds at a time, and what one rank of many holds at rest."""
import torch
from torch.distributed.fsdp import fully_shard

import tidemark

LAYERS, ROWS, WIDTH = 6, 8, 1024
U = 4 * WIDTH * WIDTH  # bytes of one layer, unsharded


def sharded(**options):
    """A stack of layers, each a group of FSDP2."""
    with torch.device("meta"):
        model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])
    for layer in model:
        fully_shard(layer, **options)
    fully_shard(model)
    model.to_empty(device="cuda")
    return model


def forward_peak(memory, name, model, batch):
    """Requested bytes of the second forward above its start: cuBLAS has its workspace, and FSDP2 its state, after the first."""
    for _ in range(2):
        model(batch).sum().backward()
        model.zero_grad()
    with memory.phase(name):
        loss = model(batch).sum()
    loss.backward()
    return memory.rise(name).requested


@tidemark.ranks(2)
def test_reshard_after_forward_keeps_one_layer(memory, world):
    """At the last layer of a forward all layers are full where none is given back, and else this layer alone; activations and the buffer
    of the all-gather are the same."""
    batch = torch.randn(ROWS, WIDTH, device="cuda")
    kept = forward_peak(memory, "kept", sharded(reshard_after_forward=False), batch)
    resharded = forward_peak(memory, "resharded", sharded(reshard_after_forward=True), batch)
    memory.value("kept - resharded", kept - resharded).equals("(L - 1)*U", L=LAYERS, U=U)


@tidemark.ranks(2)
def test_each_layer_of_prefetch_is_a_buffer(memory, world):
    """A layer that is gathered ahead has the buffer of its all-gather, U; its parameters are copied out of that when it is its turn. The last layer at which
    all of D buffers are under way is number L - D, so each more of them finds one output x less."""
    batch = torch.randn(ROWS, WIDTH, device="cuda")
    peaks = {}
    for depth in (1, 2, 3):
        model = sharded(reshard_after_forward=True)
        for i, layer in enumerate(model):
            layer.set_modules_to_forward_prefetch(list(model[i + 1:i + 1 + depth]))
        peaks[depth] = forward_peak(memory, f"depth {depth}", model, batch)
    memory.value("depth 2 - depth 1", peaks[2] - peaks[1]).equals("U - x", U=U, x=4 * ROWS * WIDTH)
    memory.value("depth 3 - depth 1", peaks[3] - peaks[1]).equals("2*(U - x)", U=U, x=4 * ROWS * WIDTH)


@tidemark.as_rank(0, 511, of=512)
def test_one_rank_of_512_holds_its_rows(memory, world):
    """Parameters, and Adam's two moments: two rows of 1,024 of each layer. Its step counters are on the host."""
    before = memory.held()
    model = sharded()
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    memory.value("held", memory.held() - before).equals("3*L*U/N", L=LAYERS, U=U, N=world.size)
