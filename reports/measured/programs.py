#!/usr/bin/env python3
"""Small training programs, each in a process of its own, whose allocator events are recorded from the first byte on: on a GPU, or on the platform.

    python3 reports/measured/programs.py --out DIR [--jobs N] [--seconds S] [NAME...]

Writes a recording DIR/NAME.json.gz for each, of a program of several ranks DIR/NAME.RANK.json.gz, with the highest allocated and reserved bytes until
the end of each step; `tidemark compare --events` compares two of them. The ranks share one GPU: NCCL takes each for a host of its own (NCCL_HOSTID).
Some programs need transformers, torchvision or timm. Exit code: 0 all were recorded, 1 one failed."""
import argparse
import contextlib
import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

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


# transformers

def of_config(kind, config, **more):
    import transformers
    return getattr(transformers, kind)(getattr(transformers, config)(**more))


def words(torch, vocabulary, batch, length):
    return torch.randint(0, vocabulary, (batch, length), device="cuda")


def language(model, x):
    return model(input_ids=x, labels=x).loss


@program()
def llama_bf16():
    torch = torch_()
    model = of_config("LlamaForCausalLM", "LlamaConfig", hidden_size=2048, intermediate_size=5632, num_hidden_layers=6, num_attention_heads=32,
                      num_key_value_heads=8, vocab_size=32000).to("cuda", torch.bfloat16)
    yield from trained(model, words(torch, 32000, 4, 2048), language, torch.optim.AdamW(model.parameters(), fused=True))


@program()
def llama_checkpointed():
    torch = torch_()
    model = of_config("LlamaForCausalLM", "LlamaConfig", hidden_size=2048, intermediate_size=5632, num_hidden_layers=6, num_attention_heads=32,
                      num_key_value_heads=8, vocab_size=128256, use_cache=False).to("cuda", torch.bfloat16)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    yield from trained(model, words(torch, 128256, 2, 4096), language, torch.optim.AdamW(model.parameters()), clip=1.0)


@program()
def gpt2_autocast():
    torch = torch_()
    model = of_config("GPT2LMHeadModel", "GPT2Config").to("cuda")
    yield from trained(model, words(torch, 50257, 8, 1024), language, torch.optim.AdamW(model.parameters()), mixed=torch.bfloat16, clip=1.0)


@program()
def gpt2_eager_fp32():
    torch = torch_()
    model = of_config("GPT2LMHeadModel", "GPT2Config", attn_implementation="eager").to("cuda")
    yield from trained(model, words(torch, 50257, 4, 512), language, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9))


@program()
def bert_fp16_scaler():
    torch = torch_()
    model = of_config("BertForMaskedLM", "BertConfig").to("cuda")
    yield from trained(model, words(torch, 30522, 16, 384), language, torch.optim.AdamW(model.parameters()), mixed=torch.float16,
                       scaler=torch.amp.GradScaler())


@program()
def t5_bf16():
    torch = torch_()
    model = of_config("T5ForConditionalGeneration", "T5Config", decoder_start_token_id=0).to("cuda", torch.bfloat16)
    yield from trained(model, words(torch, 32128, 8, 512), language, torch.optim.AdamW(model.parameters()))


@program()
def mixtral_bf16():
    torch = torch_()
    model = of_config("MixtralForCausalLM", "MixtralConfig", hidden_size=1024, intermediate_size=2048, num_hidden_layers=2, num_attention_heads=16,
                      num_key_value_heads=8, vocab_size=8000).to("cuda", torch.bfloat16)
    yield from trained(model, words(torch, 8000, 2, 512), language, torch.optim.AdamW(model.parameters()))


@program()
def whisper_fp32():
    torch = torch_()
    model = of_config("WhisperForConditionalGeneration", "WhisperConfig").to("cuda")
    features, labels = torch.randn(4, 80, 3000, device="cuda"), words(torch, 51865, 4, 64)
    yield from trained(model, (features, labels), lambda m, b: m(input_features=b[0], labels=b[1]).loss, torch.optim.AdamW(model.parameters()))


@program()
def wav2vec2_amp():
    torch = torch_()
    model = of_config("Wav2Vec2ForCTC", "Wav2Vec2Config", mask_time_prob=0.0, num_hidden_layers=4).to("cuda")
    sound, labels = torch.randn(4, 64000, device="cuda"), torch.randint(1, 32, (4, 20), device="cuda")
    yield from trained(model, (sound, labels), lambda m, b: m(input_values=b[0], labels=b[1]).loss, torch.optim.AdamW(model.parameters()),
                       mixed=torch.bfloat16)


@program()
def llama_generate():
    torch = torch_()
    model = of_config("LlamaForCausalLM", "LlamaConfig", hidden_size=1024, intermediate_size=2816, num_hidden_layers=4, num_attention_heads=16,
                      vocab_size=32000).to("cuda", torch.bfloat16).eval()
    prompt = words(torch, 32000, 4, 128)
    for _ in range(2):
        model.generate(prompt, max_new_tokens=24, min_new_tokens=24, do_sample=False, pad_token_id=0)
        yield


# Vision

def classified(model, batch):
    import torch
    out = model(batch[0])
    return torch.nn.functional.cross_entropy(out["out"] if isinstance(out, dict) else out, batch[1])


def images(torch, n, size=224, classes=1000, **more):
    return torch.randn(n, 3, size, size, device="cuda").to(**more), torch.randint(0, classes, (n,), device="cuda")


def vision(name, n, size=224, mixed=None, last=False, source="torchvision", **more):
    torch = torch_()
    if source == "timm":
        import timm
        model = timm.create_model(name, pretrained=False, **more)
    else:
        import torchvision
        found = getattr(torchvision.models, name, None) or getattr(torchvision.models.segmentation, name)
        model = found(weights=None, **more)
    model = model.to("cuda")
    layout = {"memory_format": torch.channels_last} if last else {}
    if last:
        model = model.to(**layout)
    yield from trained(model, images(torch, n, size, **layout), classified, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), mixed=mixed)


@program()
def resnet50_fp32():
    yield from vision("resnet50", 32)


@program()
def resnet50_amp_last():
    yield from vision("resnet50", 64, mixed=torch_().float16, last=True)


@program()
def resnet18_benchmark():
    torch_().backends.cudnn.benchmark = True
    yield from vision("resnet18", 32)


@program()
def resnet18_deterministic():
    torch_().backends.cudnn.deterministic = True
    yield from vision("resnet18", 32)


@program()
def mobilenet_bf16():
    yield from vision("mobilenet_v3_large", 64, mixed=torch_().bfloat16)


@program()
def vit_b_16_bf16():
    yield from vision("vit_b_16", 32, mixed=torch_().bfloat16)


@program()
def swin_t_bf16():
    yield from vision("swin_t", 16, mixed=torch_().bfloat16)


@program()
def convnext_timm():
    yield from vision("convnext_tiny", 32, mixed=torch_().bfloat16, source="timm")


@program()
def efficientnet_timm():
    yield from vision("efficientnet_b0", 32, mixed=torch_().float16, last=True, source="timm")


@program()
def vgg11_fp32():
    yield from vision("vgg11", 16)


@program()
def unet_bf16():
    """A small U-Net with transposed convolutions and group norms."""
    torch = torch_()
    from torch import nn

    class UNet(nn.Module):
        def __init__(self, widths=(64, 128, 256)):
            super().__init__()
            def two(i, o):
                return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(8, o), nn.SiLU(), nn.Conv2d(o, o, 3, padding=1), nn.SiLU())
            self.down = nn.ModuleList(two(i, o) for i, o in zip((3, *widths), widths))
            self.middle = two(widths[-1], widths[-1])
            self.grow = nn.ModuleList(nn.ConvTranspose2d(w, w, 2, stride=2) for w in reversed(widths))
            self.up = nn.ModuleList(two(2 * w, max(w // 2, 64)) for w in reversed(widths))
            self.last = nn.Conv2d(64, 10, 1)

        def forward(self, x):
            kept = []
            for d in self.down:
                x = d(x)
                kept.append(x)
                x = nn.functional.max_pool2d(x, 2)
            x = self.middle(x)
            for g, u in zip(self.grow, self.up):
                x = u(torch.cat((g(x), kept.pop()), 1))
            return self.last(x).mean((2, 3))

    model = UNet().cuda()
    yield from trained(model, images(torch, 8, 128, 10), classified, torch.optim.AdamW(model.parameters()), mixed=torch.bfloat16)


@program()
def conv3d_fp16():
    torch = torch_()
    from torch import nn
    model = nn.Sequential(nn.Conv3d(1, 32, 3, padding=1), nn.InstanceNorm3d(32, affine=True), nn.LeakyReLU(), nn.Conv3d(32, 64, 3, stride=2, padding=1),
                          nn.BatchNorm3d(64), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(64, 4)).cuda()
    x = torch.randn(2, 1, 64, 64, 64, device="cuda"), torch.randint(0, 4, (2,), device="cuda")
    yield from trained(model, x, classified, torch.optim.Adam(model.parameters()), mixed=torch.float16, scaler=torch.amp.GradScaler())


# Recurrent

def recurrent(kind, **more):
    torch = torch_()
    from torch import nn
    net, head = getattr(nn, kind)(512, 512, **more).cuda(), nn.Linear(512 * (2 if more.get("bidirectional") else 1), 10).cuda()
    both = nn.ModuleList((net, head))
    x = torch.randn(64, 100, 512, device="cuda") if more.get("batch_first") else torch.randn(100, 64, 512, device="cuda")
    yield from trained(both, x, lambda m, b: head(net(b)[0]).float().square().mean(), torch.optim.Adam(both.parameters()))


@program()
def lstm_two_layers():
    yield from recurrent("LSTM", num_layers=2, batch_first=True, dropout=0.1)


@program()
def gru_bidirectional():
    yield from recurrent("GRU", num_layers=2, bidirectional=True)


# Attention

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


# Several things that allocate by the device's size: sorts, scans, sparse products, 8-bit products

@program()
def sorts_and_scans():
    torch = torch_()
    x = torch.randn(1 << 20, device="cuda")
    i = torch.randint(0, 1000, (1 << 20,), device="cuda")
    for kept in (x.sort(), x.topk(1000), x.cumsum(0), i.unique(return_counts=True), i.nonzero(), x.masked_select(x > 0), x.view(1024, -1).sort(1),
                 x.argsort(descending=True), i.bincount(), x.view(64, -1).median(1), torch.randperm(1 << 18, device="cuda"), x.kthvalue(10),
                 torch.multinomial(x.view(256, -1).softmax(1), 16), x.histc(50), i.mode(), torch.searchsorted(x.sort()[0], x), x.std(), x.norm(),
                 x.view(1024, 1024) @ x.view(1024, 1024), torch.einsum("ij,kj->ik", x.view(1024, 1024), x.view(1024, 1024)), x.logcumsumexp(0)):
        del kept
    yield


@program()
def embeddings():
    torch = torch_()
    from torch import nn
    bag, table = nn.EmbeddingBag(100000, 128, mode="mean").cuda(), nn.Embedding(50000, 256, sparse=True).cuda()
    i = torch.randint(0, 50000, (4096, 20), device="cuda")
    one, two = torch.optim.Adagrad(bag.parameters()), torch.optim.SparseAdam(list(table.parameters()))
    for _ in range(3):
        (bag(i).sum() + table(i).sum()).backward()
        one.step()
        two.step()
        one.zero_grad()
        two.zero_grad()
        yield


@program()
def fp8_products():
    torch = torch_()
    a = torch.randn(2048, 2048, device="cuda").to(torch.float8_e4m3fn)
    b = torch.randn(2048, 2048, device="cuda").to(torch.float8_e4m3fn).t()
    one = torch.ones((), device="cuda")
    for kind in (torch.bfloat16, torch.float32):
        torch._scaled_mm(a, b, one, one, out_dtype=kind)
        yield
    torch._int_mm(torch.ones(512, 512, device="cuda", dtype=torch.int8), torch.ones(512, 512, device="cuda", dtype=torch.int8))
    yield


@program()
def optimizers():
    torch = torch_()
    model = stack(torch, layers=1).cuda()
    x = torch.randn(2, 128, 1024, device="cuda")
    for kind, more in (("AdamW", {"foreach": True}), ("AdamW", {"fused": True}), ("AdamW", {"foreach": False}), ("AdamW", {"capturable": True}),
                       ("Adafactor", {}), ("SGD", {"momentum": 0.9, "nesterov": True}), ("RMSprop", {}), ("Adagrad", {}), ("NAdam", {}), ("RAdam", {}),
                       ("Adamax", {}), ("ASGD", {}), ("Rprop", {})):
        yield from trained(model, x, squares, getattr(torch.optim, kind)(model.parameters(), lr=1e-3, **more), steps=2, set_to_none=kind != "NAdam")


@program()
def lbfgs_and_second_order():
    torch = torch_()
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.Tanh(), torch.nn.Linear(512, 1)).cuda()
    x = torch.randn(512, 256, device="cuda", requires_grad=True)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5, max_eval=6)

    def closure():
        optimizer.zero_grad()
        loss = squares(model, x)
        loss.backward()
        return loss

    optimizer.step(closure)
    yield
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    slope.square().sum().backward()
    yield


# Ranks

def joined(rank, world):
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", 0))


def ranks():
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


@program(ranks=2)
def ddp():
    torch = torch_()
    joined(*ranks())
    from torch.nn.parallel import DistributedDataParallel
    model = DistributedDataParallel(stack(torch).cuda(), device_ids=[0])
    for _ in trained(model, torch.randn(4, 512, 1024, device="cuda"), squares, torch.optim.AdamW(model.parameters()), steps=4):
        yield
        torch.cuda.synchronize()
        time.sleep(0.4)


def sharded(checkpointed=False, **policy):
    torch = torch_()
    joined(*ranks())
    from torch.distributed.fsdp import fully_shard
    model = stack(torch)
    for layer in model:
        fully_shard(layer, **policy)
    model = fully_shard(model, **policy)
    model = model.to("cuda")
    return torch, model


@program(ranks=2)
def fsdp2_bf16():
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy
    torch, model = sharded(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    for _ in trained(model, torch.randn(4, 512, 1024, device="cuda", dtype=torch.bfloat16), squares, torch.optim.AdamW(model.parameters()), steps=4):
        yield
        torch.cuda.synchronize()


@program(ranks=2)
def fsdp2_fp32_kept():
    torch, model = sharded(reshard_after_forward=False)
    for _ in trained(model, torch.randn(4, 512, 1024, device="cuda"), squares, torch.optim.AdamW(model.parameters()), steps=4, clip=1.0):
        yield
        torch.cuda.synchronize()


@program(ranks=2)
def fsdp1():
    torch = torch_()
    joined(*ranks())
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    model = stack(torch).cuda()
    model = FSDP(torch.nn.Sequential(*(FSDP(layer, use_orig_params=True) for layer in model)), use_orig_params=True)
    for _ in trained(model, torch.randn(4, 512, 1024, device="cuda"), squares, torch.optim.AdamW(model.parameters()), steps=4):
        yield
        torch.cuda.synchronize()


@program(ranks=2)
def tensor_parallel():
    torch = torch_()
    joined(*ranks())
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cuda", (2,))
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)) for _ in range(4))).cuda()
    for layer in model:
        parallelize_module(layer, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    for _ in trained(model, torch.randn(2048, 1024, device="cuda"), squares, torch.optim.AdamW(model.parameters()), steps=4):
        yield
        torch.cuda.synchronize()


NOTES = {}


def of_process():
    """Bytes of the GPU that NVIDIA's management library counts for this process; none where it does not say."""
    try:
        import pynvml
        pynvml.nvmlInit()
        found = pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByIndex(0))
        return {p.pid: p.usedGpuMemory for p in found}.get(os.getpid())
    except Exception:
        return None


def packed(snapshot, source):
    """The trace and the segments of a snapshot in columns (README.md, "Your own GPU"), with addresses above the lowest one."""
    trace = snapshot["device_traces"][0]
    actions = sorted({event["action"] for event in trace})
    lowest = min([event["addr"] for event in trace if event.get("addr")] + [segment["address"] for segment in snapshot["segments"]], default=0)
    streams = {stream: n for n, stream in enumerate(sorted({event["stream"] for event in trace} | {s["stream"] for s in snapshot["segments"]}))}
    return {"schema": "tidemark/recording", "schema_version": "1.0", "source": source, "actions": actions, "streams": len(streams), "lowest_address": lowest,
            "settings": os.environ.get("PYTORCH_ALLOC_CONF", ""),
            "events": {"action": [actions.index(event["action"]) for event in trace], "size": [event["size"] for event in trace],
                       "stream": [streams[event["stream"]] for event in trace],
                       "address": [event["addr"] - lowest if event.get("addr") else None for event in trace]},
            "segments_at_end": [{"address": s["address"] - lowest, "size": s["total_size"], "type": s["segment_type"], "stream": streams[s["stream"]],
                                 "expandable": s["is_expandable"], "blocks": [[b["size"], b["state"], b["requested_size"]] for b in s["blocks"]]}
                                for s in snapshot["segments"]]}


def record(name, out):
    import torch
    function, world, _ = PROGRAMS[name]
    suffix = f".{os.environ['RANK']}" if world > 1 else ""
    torch.cuda.memory._record_memory_history(max_entries=1000000, context=None)
    peaks = []
    for _ in function():
        torch.cuda.synchronize()
        peaks.append([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()])
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    source = {"program": name, "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
              "nccl": ".".join(map(str, torch.cuda.nccl.version())), "total": total, "free_at_end": free, "reserved_at_end": torch.cuda.memory_reserved(),
              "process": of_process(), "peaks": peaks, **NOTES}
    snapshot = torch.cuda.memory._snapshot()
    with gzip.GzipFile(f"{out}/{name}{suffix}.json.gz", "wb", mtime=0) as file:
        file.write(json.dumps(packed(snapshot, source), separators=(",", ":")).encode())
    sys.stdout.flush()
    os._exit(0)  # nothing after the recording


def started(name, out, port):
    function, world, variables = PROGRAMS[name]
    all_ = []
    for rank in range(world):
        env = {**os.environ, **variables}
        if world > 1:
            env |= {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                    "NCCL_HOSTID": f"rank{rank}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket"}
        log = open(f"{out}/{name}.{rank}.log", "w")
        all_.append(subprocess.Popen([sys.executable, __file__, "--one", name, "--out", out], env=env, stdout=log, stderr=log))
    return all_


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--one")
    parser.add_argument("names", nargs="*")
    a = parser.parse_args()
    if a.one:
        return record(a.one, a.out)
    Path(a.out).mkdir(parents=True, exist_ok=True)
    alone = {"batch_halved_when_out_of_memory"}
    names = a.names or list(PROGRAMS)
    waiting = [n for n in names if n not in alone] + [n for n in names if n in alone]
    running, failed, begin, port = {}, [], time.monotonic(), 29600
    while waiting or running:
        while waiting and len(running) < (1 if waiting[0] in alone else a.jobs):
            port += 1
            running[waiting[0]] = (started(waiting[0], a.out, port), time.monotonic())
            waiting.pop(0)
        late = time.monotonic() - begin > a.seconds
        for name, (processes, since) in list(running.items()):
            codes = [p.poll() for p in processes]
            if late or time.monotonic() - since > 150 or any(c for c in codes):
                for p in processes:
                    p.kill()
            elif None in codes:
                continue
            codes = [p.wait() for p in processes]
            del running[name]
            if any(codes):
                failed.append(name)
            log = "".join(Path(f"{a.out}/{name}.{r}.log").read_text() for r in range(len(processes)))
            print(f"{name}: {'failed: ' + ([x for x in log.splitlines() if x.strip()] or ['killed'])[-1][:300] if any(codes) else 'recorded'}"
                  f" {time.monotonic() - since:.1f} s", flush=True)
        if late:
            print("out of time; not run: " + " ".join(waiting))
            return 1
        time.sleep(0.05)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
