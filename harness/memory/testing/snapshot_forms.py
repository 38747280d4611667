"""snapshot_forms.py OUT.pickle: a small training, after which PyTorch writes its memory snapshot: the files of forms/, one for each version of torch, by
    tidemark exec --devices 2 -- python3 snapshot_forms.py 2.15.pickle && gzip -9 2.15.pickle
snapshot_forms.py --older 2.15.pickle VERSION OUT.pickle: the form of 1.13, 2.0, 2.1 or 2.2 (2.2 and 2.3), which do not run here, of a newer file: by the
sources of these versions (torch/csrc/cuda/Module.cpp, torch/csrc/cuda/memory_snapshot.cpp, torch/cuda/_memory_viz.py)."""
import inspect
import pickle
import sys


def train(out):
    import torch

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            return x * 2

        @staticmethod
        def backward(_, grad):
            return grad * 2

    class Block(torch.nn.Module):
        def __init__(self, n):
            super().__init__()
            self.up, self.down = torch.nn.Linear(n, 2 * n), torch.nn.Linear(2 * n, n)

        def forward(self, x):
            return Twice.apply(x + self.down(torch.nn.functional.gelu(self.up(x))))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList(Block(256) for _ in range(2))

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    memory = torch.cuda.memory
    known = inspect.signature(memory._record_memory_history).parameters
    more = {name: True for name in ("record_pinned_host_memory", "global_record_annotations") if name in known}
    memory._record_memory_history(max_entries=100_000, stacks="python", **more)
    pinned = torch.ones(1 << 20).pin_memory()
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        with torch.profiler.record_function("load"):
            x = torch.ones(512, 256).cuda()
        y = model(x)
        (y * y).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    say = getattr(memory, "_set_memory_metadata", lambda _: None)
    say("kept for later")
    kept = torch.empty(1 << 20, device="cuda")
    say("")
    getattr(memory, "_annotate_tensor", lambda *_: None)(kept, "a note")
    static = torch.ones(256, 256, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = static @ static
    second = torch.ones(1 << 20, device="cuda:1")
    try:
        torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        pass
    memory._dump_snapshot(out)
    return pinned, kept, result, second


def older(snapshot, version):
    """A snapshot of torch 2.8 or newer as `version` writes it."""
    for trace in snapshot["device_traces"]:
        trace[:] = [event for event in trace if event["action"] != "annotate"]
        for event in trace:
            for key in ("compile_context", "user_metadata", "pool_id", *(() if version == "2.2" else ("time_us",))):
                event.pop(key, None)
    for segment in snapshot["segments"]:
        if version != "2.2":
            segment.pop("segment_pool_id")
        if version in ("1.13", "2.0"):
            for key in ("requested_size", "is_expandable", "frames"):
                segment.pop(key)
            for block in segment["blocks"]:
                address, size, frames = (block.pop(key) for key in ("address", "requested_size", "frames"))
                if size:
                    block["history"] = [{"addr": address, "real_size": size, "frames": frames}]
    if version == "1.13":
        return snapshot["segments"]
    settings = {"allocator_settings": snapshot["allocator_settings"]} if version == "2.2" else {}
    return {"segments": snapshot["segments"], "device_traces": snapshot["device_traces"], **settings}


def main():
    if sys.argv[1] != "--older":
        kept = train(sys.argv[1])
        del kept
        return
    source, version, out = sys.argv[2:]
    with open(source, "rb") as file:
        snapshot = pickle.load(file)  # noqa: S301 - train() made it
    with open(out, "wb") as file:
        pickle.dump(older(snapshot, version), file)


if __name__ == "__main__":
    main()
