"""Every operator of PyTorch's own list (OpInfo, of the torch that is installed), on CUDA against the CPU: operators.py [NAME...]. For each type of NAMES its sample inputs (at most
MOST, drawn by chance, seed 0) run on both, forward and, where the operator has one, backward. Prints a line for each operator that does not run or agree, and the counts.
Random numbers, uninitialised memory and decompositions with free signs are compared by shape and type alone. Exit code: 1 where an operator fails."""
import itertools
import random
import sys
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db

NAMES = (torch.float32, torch.int64, torch.bool)
MOST = 8  # samples of an operator and type
UNLIKE = ("empty", "bernoulli", "multinomial", "normal", "randint", "randn", "rand", "dropout", "cauchy", "exponential", "geometric", "log_normal", "uniform", "randperm",
          "rrelu", "fractional_max_pool", "lowrank", "resize_", "scaled_dot_product", "multi_head_attention_forward", "partial_views")
FREE = ("svd", "eig", "qr", "lu", "geqrf", "ormqr", "householder", "ldl", "lobpcg")
# Not of CUDA: OpInfo lists them for all devices, and PyTorch has no kernel there, or another answer than the CPU's.
APART = {"sparse.mm.reduce": "has a kernel on the CPU alone", "native_batch_norm": "returns statistics in inference, which the CPU does not", "_softmax_backward_data": "gives a sample that PyTorch's CUDA code itself refuses (a half output beside a float gradient)",
         "_native_batch_norm_legit": "returns statistics in inference, which the CPU does not"}


def on(device, value):
    if isinstance(value, torch.Tensor):
        return value.detach().to(device).requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {name: on(device, each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        made = [on(device, each) for each in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return torch.device(device) if isinstance(value, torch.device) else device if value in ("cpu", "cuda") and isinstance(value, str) else value


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [each for one in value.values() for each in tensors(one)] if isinstance(value, dict) else [each for one in value for each in tensors(one)] if isinstance(value, (list, tuple)) else []


def answers(op, sample, device, backward):
    given = [sample.input, sample.args, sample.kwargs]
    given = on("cpu", given) if device == "cpu" else given
    torch.manual_seed(0)
    results = tensors(op(given[0], *given[1], **given[2]))
    if backward and (roots := [each for each in results if each.requires_grad and each.is_floating_point()]):
        leaves = [each for each in tensors(given) if each.requires_grad]
        results = results + [each for each in torch.autograd.grad([each.sum() for each in roots], leaves, allow_unused=True) if each is not None]
    return [each.detach() for each in results]


def compare(op, sample, backward):
    ours = answers(op, sample, "cuda", backward)
    try:
        theirs = answers(op, sample, "cpu", backward)
    except (RuntimeError, NotImplementedError):
        return  # CUDA alone has it
    assert len(ours) == len(theirs), f"{len(ours)} tensors, {len(theirs)} on the CPU"
    for one, other in zip(ours, theirs):
        assert one.shape == other.shape and one.dtype == other.dtype, f"{one.shape} {one.dtype}, {other.shape} {other.dtype} on the CPU"
        if one.layout != torch.strided:
            one, other = one.to_dense(), other.to_dense()
        if not any(word in name_of(op) for word in UNLIKE + FREE):
            torch.testing.assert_close(one.cpu(), other, equal_nan=True, rtol=1e-3, atol=1e-4)  # in fp32 both sum in other orders


def name_of(op):
    return ".".join(filter(None, (op.name, op.variant_test_name)))


def main(names):
    ran = agreed = 0
    wanted = [op for op in op_db if not names or op.name in names or name_of(op) in names]
    chosen = [op for op in wanted if name_of(op) not in APART]
    for op in chosen:
        problem = None
        for dtype in NAMES:
            if dtype not in op.supported_dtypes("cuda"):
                continue
            backward = dtype == torch.float32 and op.supports_autograd
            random.seed(0)
            torch.manual_seed(0)
            try:
                samples = list(itertools.islice(op.sample_inputs("cuda", dtype, requires_grad=backward), 64))
                for sample in random.sample(samples, min(MOST, len(samples))):
                    compare(op, sample, backward)
            except AssertionError as error:
                problem = problem or ("differs", dtype, error)
            except Exception as error:  # noqa: BLE001  # of any kind: it is counted
                problem = ("stops", dtype, error)
                break
        if problem:
            kind, dtype, error = problem
            print(f"{name_of(op)} {kind} in {str(dtype)[6:]}: {' '.join(str(error).split())[:300]}", flush=True)
        ran += not problem or problem[0] == "differs"
        agreed += not problem
    for name in [name_of(op) for op in wanted if name_of(op) in APART]:
        print(f"{name} is left out: it {APART[name]}")
    print(f"{ran} run and {agreed} agree of {len(chosen)} operators")
    return 0 if agreed == len(chosen) else 1


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        sys.exit(main(sys.argv[1:]))
