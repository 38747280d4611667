"""Attention, the allocator's settings, streams, graphs, compiled models, and an out of memory."""
import os

from . import NOTES, program, squares, stack, torch_, trained


def attention(backend, mixed="bfloat16", heads=16, length=2048):
    torch = torch_()
    from torch.nn.attention import SDPBackend
    model = stack(torch, layers=2, heads=heads, backend=getattr(SDPBackend, backend) if backend else None).cuda()
    x = torch.randn(2, length, 1024, device="cuda", requires_grad=True)
    yield from trained(model, x, squares, torch.optim.AdamW(model.parameters()), mixed=getattr(torch, mixed))


@program()
def sdpa_default():
    yield from attention(None)


@program()
def sdpa_cudnn():
    yield from attention("CUDNN_ATTENTION")


@program()
def sdpa_flash():
    yield from attention("FLASH_ATTENTION", "float16")


@program()
def sdpa_efficient():
    yield from attention("EFFICIENT_ATTENTION")


@program()
def sdpa_math():
    yield from attention("MATH", length=512)


# Allocator, streams, graphs

@program(PYTORCH_ALLOC_CONF="expandable_segments:True")
def expandable():
    torch = torch_()
    model = stack(torch).cuda()
    for length in (256, 1024, 512):
        x = torch.randn(4, length, 1024, device="cuda")
        yield from trained(model, x, squares, torch.optim.AdamW(model.parameters()), steps=2, mixed=torch.bfloat16)


@program(PYTORCH_ALLOC_CONF="max_split_size_mb:128,roundup_power2_divisions:4,garbage_collection_threshold:0.6")
def settings():
    torch = torch_()
    model = stack(torch).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for length in (300, 1100, 700):
        yield from trained(model, torch.randn(4, length, 1024, device="cuda"), squares, optimizer, steps=2)


@program()
def lengths_and_cache():
    torch = torch_()
    model = stack(torch, layers=3).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for length in (128, 640, 384, 1024, 96, 512):
        yield from trained(model, torch.randn(8, length, 1024, device="cuda"), squares, optimizer, steps=1, mixed=torch.bfloat16)
        if length == 384:
            torch.cuda.empty_cache()


@program()
def side_stream():
    torch = torch_()
    model = stack(torch, layers=2).cuda()
    side = torch.cuda.Stream()
    optimizer = torch.optim.AdamW(model.parameters())
    host = torch.randn(4, 512, 1024).pin_memory()

    def fetched():
        with torch.cuda.stream(side):
            return host.to("cuda", non_blocking=True)

    following = fetched()
    for _ in range(4):
        torch.cuda.current_stream().wait_stream(side)
        x = following
        x.record_stream(torch.cuda.current_stream())
        following = fetched()
        yield from trained(model, x, squares, optimizer, steps=1)
        torch.cuda.synchronize()


@program()
def graph_of_a_step():
    """The whole step captured, after PyTorch's notes on CUDA graphs."""
    torch = torch_()
    model = stack(torch, layers=2).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
    x = torch.randn(4, 256, 1024, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            squares(model, x).backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    yield
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = squares(model, x)
        loss.backward()
        optimizer.step()
    yield
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    yield


@program()
def graphed_callables():
    torch = torch_()
    model = stack(torch, layers=2).cuda()
    x = torch.randn(4, 256, 1024, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(model, (x,))
    yield from trained(graphed, x, squares, torch.optim.SGD(model.parameters(), 0.01))


@program()
def compiled():
    torch = torch_()
    model = stack(torch, layers=2).cuda()
    step = torch.compile(model)
    yield from trained(step, torch.randn(4, 512, 1024, device="cuda"), squares, torch.optim.AdamW(model.parameters()), mixed=torch.bfloat16)


@program()
def compiled_reduce_overhead():
    torch = torch_()
    model = stack(torch, layers=2).cuda()
    step = torch.compile(model, mode="reduce-overhead")
    yield from trained(step, torch.randn(4, 512, 1024, device="cuda"), squares, torch.optim.AdamW(model.parameters()), mixed=torch.bfloat16, steps=4)


@program()
def batch_halved_when_out_of_memory():
    """The usual loop: catches the out of memory, halves the batch and goes on."""
    torch = torch_()
    model = stack(torch, layers=4).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    batch, text = 2048, []
    while True:
        try:
            yield from trained(model, torch.randn(batch, 512, 1024, device="cuda"), squares, optimizer, steps=2, mixed=torch.bfloat16)
            break
        except torch.OutOfMemoryError as error:
            text.append(str(error))
        optimizer.zero_grad()
        batch //= 2
    NOTES.update(batch=batch, messages=text)


@program()
def of_batch():
    """Two steps with TIDEMARK_BATCH sequences: what `tidemark fit` searches."""
    torch = torch_()
    model = stack(torch, layers=16, width=2048, hidden=8192).cuda()
    x = torch.randn(int(os.environ.get("TIDEMARK_BATCH", "4")), 1024, 2048, device="cuda")
    yield from trained(model, x, squares, torch.optim.AdamW(model.parameters()), mixed=torch.bfloat16, clip=1.0, steps=2)
