"""Programs with the operators of cuDNN."""
import re

from testing.said import FOLDER, HERE, Said, python

NUMBERS = str(HERE / "cudnn_numbers.py")
WARNING = "cuDNN's workspaces are modelled"


def agree(part, count, least, *flags):
    result = Said("--mode", "math", *flags, "--", "python3", NUMBERS, part, count).ends(0)
    match = re.search(r"(\d+) compared, (\d+) differ", result.out)
    result.check(match and int(match[1]) >= least and match[2] == "0", f"{part}: {result.out[-400:]}")


def test_convolutions():
    agree("convolution", 40, 160)


def test_norms():
    agree("batch_norm", 12, 48)
    agree("cells", 2, 30)


def test_recurrent():
    agree("recurrent", 25, 150)
    agree("dropout", 1, 3)


def test_tf32():
    """Tensor cores read fp32 as TF32, PyTorch's default, but not with few channels or filters, nor in depthwise convolutions."""
    result = python("""from torch.nn import functional as F
for channels, filters, groups in (16, 16, 1), (64, 8, 1), (16, 16, 2), (3, 64, 1), (64, 2, 1), (16, 16, 16), (16, 32, 16):
    for transposed in False, True:
        sizes = (channels, filters // groups) if transposed else (filters, channels // groups)
        x, w = torch.randn(2, channels, 50), torch.randn(*sizes, 3)
        f = F.conv_transpose1d if transposed else F.conv1d
        results = []
        for device in "cpu", "cuda":
            a, b = (t.to(device, copy=True).requires_grad_() for t in (x, w))
            y = f(a, b, groups=groups)
            y.sin().sum().backward()
            results.append([t.detach().cpu() for t in (y, a.grad, b.grad)])
        worst = [((one - other).abs().max() / one.abs().max()).item() for one, other in zip(*results)]
        print(channels, filters, groups, transposed, "TF32" if all(1e-5 < e < 1e-2 for e in worst) else "fp32" if max(worst) < 1e-6 else worst)
""", "--mode", "math").ends(0)
    kinds = [line.split()[-1] for line in result.out.splitlines()]
    depthwise_on_one_side = kinds.pop()  # 32 results of 16 channels: a group of the transposed one has two
    result.check(kinds == ["TF32"] * 6 + ["fp32"] * 7 and depthwise_on_one_side == "TF32", result.out)


# night: CTC loss, in two modes; exec_cudnn_recurrent and exec_cudnn_attention hold workspaces and numbers by day
def test_ctc():
    """CTC loss: numbers, its workspace by the sizes of its algorithm's tables, the same bytes in both modes, and what has no numbers."""
    agree("ctc", 20, 40)
    program = ("t, il, tl = torch.ones({0}, dtype=torch.int32), torch.full((4,), {1}, dtype=torch.int32), torch.full((4,), {2}, dtype=torch.int32)\n"
               "x = torch.randn({1}, 4, 6, device='cuda', requires_grad=True)\n"
               "before = torch.cuda.memory_stats()['requested_bytes.all.allocated']\n"
               "torch.nn.functional.ctc_loss(x, t, il, tl, reduction='sum').backward()\n"
               "print(torch.cuda.memory_stats()['requested_bytes.all.allocated'] - before)")
    results = {mode: python(program.format(4 * 5, 30, 5), "--mode", mode).ends(0, WARNING) for mode in ("known", "math")}
    results["known"].check(results["known"].out == results["math"].out, "the same bytes in both modes")
    workspace = 2 * 4 * 30 * (2 * 255 + 1) * 4  # of lengths that are tensors cuDNN knows the bound alone
    rest = int(results["known"].out) - workspace
    results["known"].check(0 < rest < 20_000, f"{rest} bytes beside the workspace: targets, losses, gradients")
    python(program.format(4 * 20, 30, 20), "--mode", "math").ends(1, "has no numbers where a sequence is too short for its labels")


def test_attention():
    """On Hopper the backend that hardware takes: cuDNN's in torch 2.11."""
    agree("attention", 4, 16)
    program = ("q = torch.randn(2, 3, 16, 64, device='cuda', dtype=torch.bfloat16, requires_grad=True)\n"
               "y = torch.nn.functional.scaled_dot_product_attention(q, q, q)\nprint(y.grad_fn.name())")
    result = python(program, "--gpu", "a100-80g").ends(0)
    result.check("Flash" in result.out and WARNING not in result.err, "Ampere takes flash attention; its memory is exact")


WORKSPACE = ("w, x = torch.randn(64, 64, 3, 3, device='cuda', dtype={type}), torch.randn(2, 64, 128, 128, device='cuda', dtype={type}).contiguous(memory_format={format})\n"
             "y = torch.empty(2, 64, 128, 128, device='cuda', dtype={type})\n"
             "before = torch.cuda.memory_stats()['requested_bytes.all.allocated']\n"
             "y = torch.nn.functional.conv2d(x, w, padding=1)\n"
             "print(torch.cuda.memory_stats()['requested_bytes.all.allocated'] - before - y.numel() * y.element_size())")


# night: nine programs for figures that new recordings alone change; exec_cudnn_refused and exec_cudnn_peaks hold cuDNN by day
def test_workspaces():
    """Bytes that the convolution takes beside its result."""
    def workspace(gpu, type="torch.float32", format="torch.contiguous_format", first=""):
        result = python(first + WORKSPACE.format(type=type, format=format), "--gpu", gpu).ends(0, WARNING)
        return int(result.out)

    x, w = 2 * 64 * 128 * 128, 64 * 64 * 9
    def check(measured, wanted, what):
        Said("--", "true").check(measured == wanted, f"{what}: {measured:,} for {wanted:,}")

    check(8_536_576, 4 * (x + w) + 512, "the rule on paper")
    check(16_925_184, 4 * (2 * x + w) + 512, "the rule on paper")
    check(workspace("a100-80g"), 8_536_576, "as recorded on Ampere: the input and the filter, transformed")
    check(workspace("h100-80g", "torch.bfloat16"), 8_462_352, "as recorded on Hopper: the result too")
    tries = "with cudnn.benchmark on: the engines that a GPU tries take more"
    for on in (True, False):
        result = python(f"torch.backends.cudnn.benchmark = {on}\n" + WORKSPACE.format(type="torch.float16", format="torch.contiguous_format")).ends(0)
        result.check((tries in result.err) == on, f"benchmark {on}")
    check(workspace("b200-180g"), 16_925_184, "as recorded on Blackwell: the result too")
    check(workspace("a100-80g", "torch.float16"), 2 * (x + w) + 512, "of half the bytes")
    check(workspace("a100-80g", "torch.float16", "torch.channels_last"), 2 * w, "PyTorch's own copy of the filter, and no workspace")
    check(workspace("a100-80g", first="torch.backends.cudnn.allow_tf32 = False\n"), 0, "without tensor cores none")
    check(workspace("t4-16g"), 0, "Turing has no TF32")


def test_peaks():
    """A training step of convolutions, batch norm and an LSTM has the same peaks in both modes."""
    program = FOLDER / "train.py"
    program.write_text("""import torch
from torch import nn
net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, groups=2), nn.BatchNorm2d(32),
                    nn.ConvTranspose2d(32, 8, 2), nn.Flatten(2)).cuda().to(memory_format=torch.channels_last)
rnn, scaler = nn.LSTM(64, 32, 2, dropout=0.1).cuda(), torch.amp.GradScaler()
optimizer = torch.optim.SGD([*net.parameters(), *rnn.parameters()], 0.1)
torch.backends.cudnn.benchmark = True
for step in range(3):
    with torch.autocast("cuda", torch.float16):
        loss = rnn(net(torch.randn(4, 3, 19, 19, device="cuda").to(memory_format=torch.channels_last))[..., :64])[0].float().square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
""")
    peaks = {}
    for mode in ("known", "math"):
        result = Said("--mode", mode, "--", "python3", program).ends(0, WARNING)
        peaks[mode] = re.search(r"process \d+ +(.*)", result.err)[1]
    result.check(peaks["known"] == peaks["math"], str(peaks))


# holds: harness/virtual/README.md, cuDNN
# holds: harness/virtual/cudnn/
def test_refused():
    """Turing has no bf16 in cuDNN: PyTorch takes its own kernels. What is not modelled is refused by name."""
    result = python("x = torch.ones(1, 8, 8, 8, device='cuda', dtype=torch.bfloat16)\ntorch.nn.functional.conv2d(x, x)", "--gpu", "t4-16g").ends(0)
    result.check(WARNING not in result.err, "no workspace of cuDNN")
    python("import os\nos.environ['TORCH_CUDNN_V8_API_DISABLED'] = '1'\nx = torch.ones(1, 8, 8, 8, device='cuda')\ntorch.nn.functional.conv2d(x, x)").ends(
        1, "tidemark: cudnn", "is not modelled by the virtual device", "torch.backends.cudnn.enabled = False", "CUDNN_STATUS_NOT_SUPPORTED")
