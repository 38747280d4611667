"""cudnn_numbers.py PART [COUNT]: operators of cuDNN, and those of CUDA alone beside them, on shapes at random, against the CPU. Prints how many
results were compared, and each that differs."""
import random
import sys

import torch
from torch import nn
from torch.nn import functional as F

torch.backends.cudnn.allow_tf32 = False
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 4e-2, torch.bfloat16: 4e-2}  # half precision: rounded once from fp32
compared, differ = 0, []


def check(name, expected, measured, tolerance):
    global compared
    compared += 1
    a, b = (t.detach().cpu().double() for t in (expected, measured))
    if a.shape != b.shape or not torch.allclose(a, b, rtol=tolerance, atol=tolerance):
        differ.append(name)
        print("differs:", name)


def agree(name, function, inputs, tolerance, modules=None):
    """Results and gradients on both devices."""
    results = []
    for device in ("cpu", "cuda"):
        tensors = [t.clone().to(device).requires_grad_() for t in inputs]
        y = function(device, *tensors)
        y.backward(1 + torch.arange(y.numel(), device=device).reshape(y.shape).to(y.dtype) % 3)
        parameters = [p.grad for p in modules[device].parameters()] if modules else []
        results.append([y, *(t.grad for t in tensors), *parameters])
    for i, (a, b) in enumerate(zip(*results, strict=True)):
        check(f"{name}, {i}", a, b, tolerance)


def wide_on_cpu(device, function, *tensors):
    """The CPU computes half precision in float."""
    return function(*tensors) if device == "cuda" else function(*(t.float() if t.dtype.itemsize == 2 else t for t in tensors)).to(tensors[0].dtype)


def convolution():
    d, groups = random.choice([1, 2, 2, 3]), random.choice([1, 1, 2, 4])
    # channels = groups is a depthwise convolution, a kernel of PyTorch's own
    channels, outputs = groups * random.choice([1, 2, 3]), groups * random.choice([1, 2, 4])
    pick = lambda *of: [random.choice(of) for _ in range(d)]  # noqa: E731
    kernel, size, dtype = pick(1, 2, 3), pick(6, 7, 8, 9), random.choice(list(TOLERANCE))
    settings = {"stride": pick(1, 2), "padding": pick(0, 1), "dilation": pick(1, 1, 2), "groups": groups}
    transposed, last = random.random() < 0.3, {2: torch.channels_last, 3: torch.channels_last_3d}.get(d) if random.random() < 0.4 else None
    weight = (channels, outputs // groups) if transposed else (outputs, channels // groups)
    function = getattr(F, f"conv{'_transpose' if transposed else ''}{d}d")

    def run(device, x, w, b):
        return wide_on_cpu(device, lambda *t: function(*t, **settings), x.contiguous(memory_format=last) if last else x, w, b)

    inputs = [torch.randn(2, channels, *size), torch.randn(*weight, *kernel), torch.randn(outputs)]
    agree(f"{function.__name__} {channels} -> {outputs} {kernel} {settings} {dtype} {last}", run, [t.to(dtype) for t in inputs], TOLERANCE[dtype])


def batch_norm():
    dtype, training, last = random.choice([torch.float32, torch.float16, torch.bfloat16]), random.random() < 0.6, random.random() < 0.5
    channels = random.choice([3, 6, 8])

    def run(device, x, w, b):
        mean, var = torch.zeros(channels, device=device), torch.ones(channels, device=device)
        x = x.contiguous(memory_format=torch.channels_last) if last else x
        y = F.batch_norm(x if device == "cuda" else x.float(), mean, var, w, b, training).to(dtype)
        return torch.cat([y.reshape(-1), mean.to(dtype), var.to(dtype)])

    agree(f"batch_norm {channels} {dtype} {training} {last}", run, [torch.randn(4, channels, 5, 5).to(dtype), torch.rand(channels) + 0.5,
                                                                    torch.randn(channels)], TOLERANCE[dtype])


def recurrent():
    kind, first, packed = random.choice(["LSTM", "LSTM", "GRU", "RNN"]), random.random() < 0.5, random.random() < 0.4
    settings = {"num_layers": random.choice([1, 2, 3]), "bidirectional": random.random() < 0.5, "batch_first": first, "bias": random.random() < 0.7}
    if kind == "LSTM" and random.random() < 0.4:
        settings["proj_size"] = 3
    if kind == "RNN":
        settings["nonlinearity"] = random.choice(["tanh", "relu"])
    modules = {device: getattr(nn, kind)(5, 7, **settings) for device in ("cpu", "cuda")}
    modules["cuda"].load_state_dict(modules["cpu"].state_dict())
    modules["cuda"].cuda()
    autocast = random.random() < 0.4

    def run(device, x):
        lengths = [3, 2, 1] if first else [3, 2, 2, 1]
        with torch.autocast("cuda", torch.float16, enabled=autocast):
            y, h = modules[device](nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=first) if packed else x)
        return torch.cat([t.reshape(-1) for t in (y.data if packed else y, *(h if isinstance(h, tuple) else (h,)))])

    agree(f"{kind} {settings} {packed} {autocast}", run, [torch.randn(3, 4, 5)], TOLERANCE[torch.float16] if autocast else 1e-4, modules)


def cells():
    for cell in (nn.LSTMCell, nn.GRUCell):
        modules = {device: cell(5, 7) for device in ("cpu", "cuda")}
        modules["cuda"].load_state_dict(modules["cpu"].state_dict())
        modules["cuda"].cuda()
        agree(cell.__name__, lambda device, x, of=modules: torch.cat([y if isinstance(y, tuple) else (y,) for y in [of[device](x)]][0]),
              [torch.randn(4, 5)], 1e-5, modules)
    agree("grid_sample", lambda device, x, theta: F.grid_sample(x, F.affine_grid(theta, [2, 3, 6, 6], align_corners=True), align_corners=True),
          [torch.randn(2, 3, 6, 6), torch.randn(2, 2, 3)], 1e-4)


def attention():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    causal, keys = random.random() < 0.5, random.choice([16, 24])
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH], set_priority=True):
        agree(f"attention {causal} {keys}", lambda device, *t: wide_on_cpu(device, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), *t),
              [torch.randn(2, 3, n, 64).bfloat16() for n in (16, keys, keys)], 4e-2)


def ctc():
    steps, batch, symbols = random.randint(20, 40), random.randint(1, 6), random.randint(3, 12)
    labels = torch.tensor([random.randint(1, 9) for _ in range(batch)], dtype=torch.int32)
    inputs = torch.tensor([random.randint(18, steps) for _ in range(batch)], dtype=torch.int32)
    targets = torch.randint(1, symbols, (int(labels.sum()),), dtype=torch.int32)
    reduction, zero = random.choice(["none", "mean", "sum"]), random.random() < 0.3
    here = reduction == "mean" or random.random() < 0.5  # PyTorch divides by the lengths where they are

    as_lists = random.random() < 0.3  # the older interface, for sequences of full length
    if as_lists:
        inputs = torch.full_like(inputs, steps)

    def run(device, x):
        moved = [t.to(device) if here else t for t in (targets, inputs, labels)]
        if as_lists:
            moved = [targets, tuple(inputs.tolist()), tuple(labels.tolist())]
        loss = F.ctc_loss(x.log_softmax(2), *moved, reduction=reduction, zero_infinity=zero)
        if device == "cuda" and "CudnnCtcLoss" not in str(grad_functions(loss)):
            differ.append("this is not cuDNN's loss")
        return loss

    agree(f"ctc_loss {steps} {batch} {symbols} {reduction} {zero} {here} {as_lists}", run, [torch.randn(steps, batch, symbols)], 1e-4)


def grad_functions(tensor):
    names, left = [], [tensor.grad_fn]
    while left:
        one = left.pop()
        if one is not None:
            names.append(type(one).__name__)
            left += [before for before, _ in one.next_functions]
    return names


def dropout():
    """Between the layers: the masks follow cuDNN's state, which each call changes, backward has those of forward, and the share is right."""
    model, x = nn.LSTM(64, 64, 2, dropout=0.5).cuda(), torch.randn(5, 16, 64, device="cuda")
    zeros = torch.zeros(2, 16, 64, device="cuda")

    def new_state(seed):
        return torch._cudnn_init_dropout_state(0.5, True, seed, dtype=torch.uint8, device="cuda")

    def forward(leaf, state):
        return torch._cudnn_rnn(leaf, model._flat_weights, 4, None, zeros, zeros, 2, 64, 0, 2, False, 0.5, True, False, [], state)[0]

    def run(state):
        leaf = x.clone().requires_grad_()
        y = forward(leaf, state)
        y.sum().backward()
        return y, leaf.grad

    state = new_state(1)
    (y, g), (next_y, _), (again, g_again), (other, _) = run(state), run(state), run(new_state(1)), run(new_state(2))
    if torch.equal(y, next_y) or torch.equal(model(x)[0], model(x)[0]):
        differ.append("the next call drops the same")
    check("dropout, the same seed", y, again, 0)
    check("dropout, backward", g, g_again, 0)
    if torch.equal(y, other):
        differ.append("another seed drops the same")
    # d/de sum(y(x + e v)) along a direction, with the masks of the seed: by two forwards and by backward.
    v, e = torch.randn_like(x), 1e-2
    sums = []
    for sign in (1, -1):
        sums.append(forward(x + sign * e * v, new_state(1)).double().sum())
    check("dropout, differences", (sums[0] - sums[1]) / (2 * e), (g * v).double().sum(), 2e-2)


def main():
    part, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for seed in range(count):
        random.seed(seed)
        torch.manual_seed(seed)
        globals()[part]()
    print(f"{compared} compared, {len(differ)} differ")


main()
