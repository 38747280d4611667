"""scaled_dot_product_attention by each backend, of nested tensors, and FlexAttention."""
import contextlib
import warnings

import torch
import torch.nn.functional as F
from wheel_checks.registry import BF16, FP16, FP32, Absent, Mode, check, close, equal, since

Backend = torch.nn.attention.SDPBackend


def attend(dtype, shape=(2, 4, 128, 64), keys=None, backend=None, **options):
    """Forward and backward of scaled_dot_product_attention, by one backend or by PyTorch's choice."""
    torch.manual_seed(2)
    here = [torch.randn(shape), *(torch.randn(keys or shape) for _ in range(2))]
    there = [t.to("cuda", dtype).requires_grad_() for t in here]
    with torch.nn.attention.sdpa_kernel(backend) if backend else contextlib.nullcontext():
        try:
            out = F.scaled_dot_product_attention(*there, **{k: v.cuda().to(v.dtype if v.dtype == torch.bool else dtype) if isinstance(v, torch.Tensor) else v
                                                            for k, v in options.items()})
        except RuntimeError as error:
            if "No available kernel" not in str(error):
                raise
            raise Absent("PyTorch has no kernel of this backend for these tensors on this GPU") from error
    out.float().square().sum().backward()
    assert all(t.grad.shape == t.shape for t in there)
    if not options.get("dropout_p"):
        close(out, F.scaled_dot_product_attention(*here, **options), 4 if dtype == FP32 else 1.5)


@check("alone", "attention")
def attention_by_default():
    for dtype in FP32, BF16, FP16:
        attend(dtype)
        attend(dtype, is_causal=True)
        attend(dtype, (1, 2, 16, 8))
        attend(dtype, (2, 4, 100, 64))
        attend(dtype, (1, 4, 1, 64), (1, 4, 77, 64))
        attend(dtype, dropout_p=0.25)


@check("alone", "attention")
def attention_with_masks():
    for dtype in FP32, BF16:
        attend(dtype, attn_mask=torch.ones(128, 128, dtype=torch.bool).tril())
        attend(dtype, attn_mask=torch.linspace(-1, 1, 128 * 128).reshape(128, 128))


@check("alone", "attention")
def attention_of_groups():
    since(2, 5)
    for dtype in FP32, BF16:
        attend(dtype, (2, 8, 64, 64), (2, 2, 64, 64), enable_gqa=True)


@check("alone", "attention")
def attention_flash():
    for dtype in BF16, FP16:
        attend(dtype, backend=Backend.FLASH_ATTENTION, is_causal=True)
        attend(dtype, backend=Backend.FLASH_ATTENTION, dropout_p=0.25)


@check("alone", "attention")
def attention_efficient():
    for dtype in FP32, BF16, FP16:
        attend(dtype, backend=Backend.EFFICIENT_ATTENTION)
        attend(dtype, backend=Backend.EFFICIENT_ATTENTION, dropout_p=0.25)


@check("alone", "attention")
def attention_cudnn():
    since(2, 5)
    for dtype in BF16, FP16:
        attend(dtype, backend=Backend.CUDNN_ATTENTION)
        attend(dtype, backend=Backend.CUDNN_ATTENTION, is_causal=True)
        attend(dtype, backend=Backend.CUDNN_ATTENTION, dropout_p=0.25)


@check("alone", "attention")
def attention_composed():
    for dtype in FP32, BF16:
        attend(dtype, backend=Backend.MATH, is_causal=True)


@check("alone")
def attention_of_sequences():
    """Sequences of three lengths in one nested tensor."""
    parts = [torch.randn(n, 4, 64) for n in (5, 17, 9)]
    q = torch.nested.nested_tensor(parts, layout=torch.jagged, device="cuda", dtype=BF16).transpose(1, 2)
    out = F.scaled_dot_product_attention(q, q, q)
    assert out.shape[0] == 3 and out.shape[3] == 64


@check("alone")
def attention_drops_the_same():
    """With the identity as values the output is the probabilities that dropout has left, and the backward must take the same ones."""
    torch.manual_seed(2)
    for dtype, backend in (BF16, Backend.FLASH_ATTENTION), (FP32, Backend.EFFICIENT_ATTENTION):
        q, k, grad = (torch.randn(1, 2, 16, 16, device="cuda", dtype=dtype) for _ in range(3))
        v = torch.eye(16, device="cuda", dtype=dtype).expand(1, 2, 16, 16).clone().requires_grad_()
        with torch.nn.attention.sdpa_kernel(backend):
            left = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
        left.backward(grad)
        if Mode.numbers:
            assert 0.1 < (left == 0).float().mean().item() < 0.4
            torch.testing.assert_close(v.grad.float().cpu(), left.float().cpu().transpose(2, 3) @ grad.float().cpu(), rtol=0.02, atol=0.05)  # of bf16


@check("alone")
def attention_flex():
    since(2, 5)
    from torch.nn.attention.flex_attention import flex_attention
    q, k, v = (torch.randn(1, 2, 128, 16) for _ in range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is slow without compilation
        out = flex_attention(q.cuda(), k.cuda(), v.cuda(), score_mod=lambda score, b, h, i, j: torch.where(i >= j, score, -float("inf")))
    close(out, F.scaled_dot_product_attention(q, k, v, is_causal=True), 4)


@check("alone")
def encoder():
    """The fused layers of an encoder in evaluation, which takes the padding away and gives zeros in its place."""
    torch.manual_seed(3)
    net = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2).eval()
    x, padding = torch.randn(2, 5, 32), torch.arange(5).expand(2, 5) >= torch.tensor([[5], [3]])
    with torch.no_grad():
        here = net(x, src_key_padding_mask=padding)
        close(net.cuda()(x.cuda(), src_key_padding_mask=padding.cuda()), here, 4)
    assert (here[1, 3:] == 0).all(), "the padding"
    equal(padding.cuda(), padding)
