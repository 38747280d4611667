"""CUDA graphs of PyTorch programs."""
import json

from testing.said import FOLDER, MIB, python

TRAINING = """from torch import nn
def train(captured):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.5), nn.ReLU(), nn.Linear(32, 4)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)
    x, y = torch.randn(8, 16, device='cuda'), torch.randn(8, 4, device='cuda')
    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3): step()
    torch.cuda.current_stream().wait_stream(side)
    losses = []
    if captured:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph): loss = step()
    for seed in range(4):
        x.copy_(torch.full((8, 16), float(seed)))
        if captured: graph.replay()
        else: loss = step()
        losses.append(loss.item())
    return losses, [p.detach().cpu() for p in model.parameters()]
(a, p), (b, q) = train(False), train(True)
print(a == b, all(map(torch.equal, p, q)), len(set(a)))"""


def test_training():
    """Forward, dropout, backward and Adam in a graph: losses and parameters of the eager steps, to the bit; peaks of both modes."""
    peaks = {}
    for mode in "math", "known":
        result = python(TRAINING, "--mode", mode, "--out", FOLDER / mode).ends(0)
        result.check(result.out == "True True 4\n", "the numbers of the eager steps")
        peaks[mode] = json.loads((FOLDER / mode).read_text())["trials"][0]["program"]["ranks"][0]["devices"]
    result.check(peaks["math"] == peaks["known"], f"the peaks of both modes: {peaks}")


def test_pools():
    """A graph's memory: blocks of 20 MiB have segments of their own, and graphs that share a pool take each other's free ones."""
    text = """MIB = 1 << 20
def bytes_(): return torch.cuda.memory_allocated() // MIB, torch.cuda.memory_reserved() // MIB
x = torch.ones(5 * MIB, device='cuda')
one, two, three = (torch.cuda.CUDAGraph() for _ in range(3))
def capture(graph, **pool):
    with torch.cuda.graph(graph, **pool):
        y = x + 1
        z = y * 2
    return z
shared = torch.cuda.graph_pool_handle()
a = capture(one, pool=shared); print(bytes_())
b = capture(two, pool=shared); print(bytes_())
c = capture(three); print(bytes_())
for graph in one, two, three: graph.replay()
print(a.sum().item(), c[0].item())
del one, two, three, graph, a, b, c
torch.cuda.empty_cache(); print(bytes_())"""
    # 2 MiB: the small pool, for the state of the random generator, which a graph reads. Then x; the result of each graph is alive, and the y of the first is free for the y of the second (whose z is new) and not for the third.
    result = python(text, "--mode", "math").ends(0)
    expected = [(40, 62), (60, 82), (80, 122), f"{4.0 * 5 * MIB} 4.0", (20, 20)]
    result.check(result.out.splitlines() == list(map(str, expected)), f"allocated and reserved MiB: {expected}")


def test_callables():
    """make_graphed_callables: gradients of the eager module, to the bit."""
    text = """import copy
eager = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 8)).cuda()
graphed = torch.cuda.make_graphed_callables(copy.deepcopy(eager), (torch.randn(3, 8, device='cuda'),))
for step in range(4):
    x = torch.randn(3, 8, device='cuda')
    for module in eager, graphed:
        for p in module.parameters(): p.grad = None
        module(x).square().sum().backward()
    print(all(torch.equal(p.grad, q.grad) for p, q in zip(eager.parameters(), graphed.parameters())))"""
    for mode in "math", "known":
        result = python(text, "--mode", mode).ends(0)
        result.check(result.out == "True\n" * 4, "the gradients")


# night: each call that a capture does not permit
def test_invalid():
    """A capture that the program breaks ends with CUDA's words, and the program with its own exit code."""
    broken = {"x.sum().item()": "operation not permitted when stream is capturing",
              "torch.cuda.synchronize()": "operation not permitted when stream is capturing",
              "torch.cuda.current_stream().wait_event(earlier)": "dependency created on uncaptured work in another stream",
              "torch.nonzero(x)": "operation not permitted when stream is capturing"}
    for words, message in broken.items():
        text = f"""x, earlier = torch.ones(4, device='cuda'), torch.cuda.Event()
earlier.record()
graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
with torch.cuda.stream(side):
    graph.capture_begin()
    try: {words}
    except RuntimeError as error: print(str(error).splitlines()[0])
    try: graph.capture_end()
    except RuntimeError as error: print(str(error).splitlines()[0])
print(x.tolist())
raise SystemExit(7)"""
        result = python(text, "--mode", "math").ends(7)
        result.check(result.out.splitlines() == [f"CUDA error: {message}", "CUDA error: operation failed due to a previous error during capture", str([1.0] * 4)], words)


# night: collectives in graphs on two ranks; exec_graphs_training has a graph by day
def test_collectives():
    """Collectives in a graph are made again at each launch, also of lists of tensors."""
    text = """import torch.distributed as dist
dist.init_process_group('nccl')
rank = dist.get_rank()
torch.cuda.set_device(rank)
x = torch.zeros(4, device='cuda')
dist.all_reduce(x)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x + rank
    dist.all_reduce(y)
    parts = [torch.empty(4, device='cuda') for _ in range(2)]
    dist.all_gather(parts, y * (rank + 1))
for value in 1, 2:
    x.fill_(value)
    graph.replay()
    print([part[0].item() for part in parts])
dist.destroy_process_group()"""
    for schedule in "calibrated", "lagging":
        result = python(text, "--ranks", 2, "--mode", "math", "--schedule", schedule).ends(0)
        result.check(result.out.count("[3.0, 6.0]") == result.out.count("[5.0, 10.0]") == 2, "(value + 0) + (value + 1), once and twice")
