"""Convolutions, norms, recurrent networks, embeddings, losses."""
import copy
import warnings

import torch
import torch.nn.functional as F
from wheel_checks.registry import BF16, FP16, FP32, check, close, trains


def convolve(make, sizes, dtype=FP32, layout=torch.contiguous_format):
    """Forward and backward of a layer, against the CPU's in float."""
    torch.manual_seed(4)
    layer, x = make(), torch.randn(sizes)
    there = copy.deepcopy(layer).to("cuda", dtype, memory_format=layout)
    y = there(x.to("cuda", dtype).contiguous(memory_format=layout).requires_grad_())
    y.float().square().sum().backward()
    assert all(p.grad.shape == p.shape for p in there.parameters())
    close(y, layer(x), 4 if dtype == FP32 else 1.5)


LAYERS = [(lambda: torch.nn.Conv1d(8, 16, 3), (2, 8, 20)), (lambda: torch.nn.Conv2d(3, 16, 3, padding=1), (2, 3, 16, 16)),
          (lambda: torch.nn.Conv2d(16, 16, 3, stride=2, dilation=2, bias=False), (2, 16, 17, 17)), (lambda: torch.nn.Conv2d(16, 64, 1), (2, 16, 8, 8)),
          (lambda: torch.nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), (2, 16, 8, 8)), (lambda: torch.nn.Conv2d(16, 32, 3, groups=4), (2, 16, 8, 8)),
          (lambda: torch.nn.ConvTranspose2d(16, 8, 2, stride=2), (2, 16, 8, 8)), (lambda: torch.nn.Conv3d(3, 8, 3), (1, 3, 8, 8, 8))]


@check("alone")
def convolutions():
    torch.backends.cudnn.allow_tf32 = False
    for make, sizes in LAYERS:
        for dtype in FP32, BF16, FP16:
            convolve(make, sizes, dtype)
    torch.backends.cudnn.allow_tf32 = True


@check("alone")
def convolutions_channels_last():
    torch.backends.cudnn.allow_tf32 = False
    for make, sizes in LAYERS:
        if len(sizes) == 4:
            convolve(make, sizes, FP32, torch.channels_last)
            convolve(make, sizes, FP16, torch.channels_last)
    torch.backends.cudnn.allow_tf32 = True


@check("alone")
def convolutions_benchmark():
    torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = True, False
    for make, sizes in LAYERS[1:4]:
        convolve(make, sizes)
    torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = False, True


@check("alone")
def convolutions_autocast():
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.ConvTranspose2d(16, 8, 2), torch.nn.Conv2d(8, 8, 3, groups=8))
    net = net.cuda().to(memory_format=torch.channels_last)
    with torch.autocast("cuda", BF16):
        y = net(torch.randn(2, 3, 16, 16, device="cuda"))
    y.float().sum().backward()
    assert y.dtype == BF16


@check("alone")
def norms():
    for make, sizes in ((lambda: torch.nn.BatchNorm1d(24), (8, 24)), (lambda: torch.nn.BatchNorm2d(8), (4, 8, 6, 6)), (lambda: torch.nn.GroupNorm(2, 8), (4, 8, 6, 6)),
                        (lambda: torch.nn.LayerNorm(24), (8, 24)), (lambda: torch.nn.InstanceNorm2d(8, affine=True), (4, 8, 6, 6)), (lambda: torch.nn.RMSNorm(24), (8, 24))):
        trains(make, lambda step, sizes=sizes: torch.randn(sizes, generator=torch.Generator().manual_seed(step)), digits=4)
    norm, x = torch.nn.BatchNorm2d(8).eval(), torch.randn(4, 8, 6, 6)
    close(norm.cuda()(x.cuda()), torch.nn.BatchNorm2d(8).eval()(x))


@check("alone")
def recurrent_networks():
    for kind in torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN:
        for options in {}, {"bidirectional": True, "num_layers": 2}:
            torch.manual_seed(5)
            net, x = kind(6, 8, batch_first=True, **options), torch.randn(3, 7, 6)
            here = net(x)[0]
            there = net.cuda()(x.cuda())[0]
            there.square().sum().backward()
            close(there, here, 2.5)  # TF32 is on for recurrent networks


@check("alone")
def embeddings():
    table, rows = torch.randn(32, 16), torch.tensor([[1, 5, 5], [31, 0, 2]])
    for sparse in False, True:
        weight = table.cuda().requires_grad_()
        F.embedding(rows.cuda(), weight, sparse=sparse).square().sum().backward()
        here = table.clone().requires_grad_()
        F.embedding(rows, here).square().sum().backward()
        close(weight.grad.to_dense() if sparse else weight.grad, here.grad)
    close(F.embedding_bag(rows.cuda(), table.cuda(), mode="mean"), F.embedding_bag(rows, table, mode="mean"))


@check("alone")
def losses():
    x, classes, other = torch.randn(8, 10), torch.arange(8), torch.rand(8, 10)
    for function in (lambda a, b, c: F.cross_entropy(a, b, label_smoothing=0.1), lambda a, b, c: F.nll_loss(a.log_softmax(1), b), lambda a, b, c: F.mse_loss(a, c),
                     lambda a, b, c: F.smooth_l1_loss(a, c), lambda a, b, c: F.binary_cross_entropy_with_logits(a, c), lambda a, b, c: F.kl_div(a.log_softmax(1), c.softmax(1)),
                     lambda a, b, c: F.cosine_embedding_loss(a, c, torch.ones(8, device=a.device)), lambda a, b, c: F.multi_margin_loss(a, b)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            there, here = x.cuda().requires_grad_(), x.clone().requires_grad_()
            one, two = function(there, classes.cuda(), other.cuda()), function(here, classes, other)
        one.backward(), two.backward()
        close(one, two), close(there.grad, here.grad)
