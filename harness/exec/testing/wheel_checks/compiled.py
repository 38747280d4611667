"""torch.compile and kernels of Triton."""
import contextlib

import torch
from wheel_checks.registry import Absent, BF16, Mode, batch, check, close, model, since


@contextlib.contextmanager
def compiler():
    try:
        import triton  # noqa: F401
    except ImportError as error:
        raise Absent("no triton") from error
    yield
    torch._dynamo.reset()


@check("compiled")
def compiled():
    with compiler():
        net, x = model().cuda(), batch(0, 0).cuda()
        wanted = model().cuda()(x)
        net = torch.compile(net)
        for _ in range(2):
            out = net(x)
            out.square().mean().backward()
        close(out, wanted.cpu(), 2.5)


@check("compiled")
def compiled_to_graphs():
    with compiler(), torch.no_grad():
        net = torch.compile(model().cuda(), mode="reduce-overhead")
        for step in range(4):
            out = net(batch(0, step).cuda()).clone()
        assert out.shape == (8, 8)


@check("compiled")
def compiled_and_tuned():
    with compiler():
        if Mode.numbers:
            raise Absent("in mode math: kernels that Inductor launches to tune have no numbers")
        torch._inductor.config.max_autotune_gemm_backends = "TRITON"
        a, b = (torch.randn(128, 128, device="cuda", dtype=BF16) for _ in range(2))
        out = torch.compile(lambda a, b: a @ b, mode="max-autotune-no-cudagraphs")(a, b)
        assert out.shape == (128, 128)


@check("compiled")
def compiled_flex_attention():
    since(2, 5)
    with compiler():
        from torch.nn.attention.flex_attention import flex_attention
        q = torch.randn(1, 2, 128, 16, device="cuda", requires_grad=True)
        torch.compile(flex_attention)(q, q, q).sum().backward()
        assert q.grad.shape == q.shape


@check("compiled")
def kernels_of_64_kib():
    """A kernel of Triton whose shared memory is above what every GPU has without asking."""
    with compiler():
        from wheel_checks import triton_kernel  # a file of its own: Triton reads the source of its kernels
        assert triton_kernel.product(128, stages=2) > 49152
