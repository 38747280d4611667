"""The allocator, streams, copies, snapshots, graphs."""
import re
import tempfile

import torch
from wheel_checks.registry import Absent, MIB, Mode, check, equal


@check("alone")
def allocations():
    """Blocks are multiples of 512 bytes; 1 to 10 MiB come from segments of 20 MiB, more from segments of multiples of 2 MiB."""
    torch.cuda.empty_cache()
    before, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    tensors = [torch.empty(n, dtype=torch.uint8, device="cuda") for n in (3 * MIB + 1, 18 * MIB)]  # the second is too long for the first's rest
    assert torch.cuda.memory_allocated() - before == 3 * MIB + 512 + 18 * MIB
    assert torch.cuda.memory_reserved() - reserved == 20 * MIB + 18 * MIB
    del tensors
    assert torch.cuda.memory_allocated() == before
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == reserved


@check("alone")
def out_of_memory():
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        assert "Tried to allocate 1024.00 GiB" in str(error)
    else:
        raise AssertionError("1 TiB was allocated")


@check("alone")
def streams_and_events():
    side, start, end = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    x = torch.arange(1 << 16, dtype=torch.float32, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
        x.record_stream(side)
    torch.cuda.current_stream().wait_stream(side)
    end.record()
    end.synchronize()
    assert end.query() and start.elapsed_time(end) > 0
    equal(y, torch.arange(1 << 16, dtype=torch.float32) * 2)


@check("alone")
def pinned_copies():
    source = torch.randn(1 << 12).pin_memory()
    there = source.to("cuda", non_blocking=True)
    back = torch.empty(1 << 12, pin_memory=True)
    back.copy_(there, non_blocking=True)
    torch.cuda.synchronize()
    equal(back, source)


@check("alone")
def snapshot():
    """A snapshot has the segment and the allocation."""
    torch.cuda.empty_cache()
    torch.cuda.memory._record_memory_history(max_entries=100)
    tensor = torch.empty(7 * MIB, dtype=torch.uint8, device="cuda")
    recorded = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    assert any(event["action"] == "alloc" and event["size"] == tensor.numel() for event in recorded["device_traces"][0])
    assert any(segment["total_size"] == 20 * MIB for segment in recorded["segments"])


@check("alone")
def graphs():
    """A CUDA graph computes again at each launch."""
    x, graph = torch.zeros(4, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x + 1).square()
        z = torch.rand(4, device="cuda")
    for value in range(3):
        x.fill_(value)
        torch.manual_seed(value)
        graph.replay()
        equal(y, torch.full((4,), float((value + 1) ** 2)))
        torch.manual_seed(value)
        equal(z, torch.rand(4, device="cuda").cpu())


@check("alone")
def loading():
    """A loader with a worker and pinned batches; a checkpoint written and read."""
    data = torch.utils.data.TensorDataset(torch.arange(48.0).reshape(16, 3))
    net = torch.nn.Linear(3, 4).cuda()
    for (rows,) in torch.utils.data.DataLoader(data, batch_size=4, num_workers=1, pin_memory=True):
        net(rows.cuda(non_blocking=True)).sum().backward()
    with tempfile.NamedTemporaryFile() as file:
        torch.save(net.state_dict(), file.name)
        state = torch.load(file.name, map_location="cuda")
    equal(state["weight"], net.weight)
    net.load_state_dict(state)


@check("alone")
def refusals():
    """What a kernel of the program's own would compute is an error, not a made-up result."""
    if not Mode.numbers:
        raise Absent("in mode known nothing is computed")
    twice = torch.cuda.jiterator._create_jit_fn("template <typename T> T twice(T x) { return __fadd_rn(x, x); }")
    try:
        twice(torch.ones(4, device="cuda")).cpu()
    except RuntimeError as error:
        assert re.search("kernel twice of torch.cuda.jiterator has no numbers", str(error)), error
    else:
        raise AssertionError("a kernel of the program's own has numbers")
