"""nested_numbers.py: nested tensors and the encoder layers that take them, on the virtual device as on the CPU, with their gradients. Prints what differs."""
import warnings

import torch
from torch import nested, nn
from torch.nn import functional as F

warnings.simplefilter("ignore")
BACKWARD = {  # of sequences x with rows of 16, heads q of 4 with rows of 8, a matrix w and a vector b
    "pad": lambda x, q, w, b: nested.to_padded_tensor(x, 1.5), "layer norm": lambda x, q, w, b: F.layer_norm(x, (16,), b, b), "linear": lambda x, q, w, b: F.linear(x, w, b),
    "add": lambda x, q, w, b: x + x, "sub": lambda x, q, w, b: x - x * 2, "relu": lambda x, q, w, b: F.relu(x), "gelu": lambda x, q, w, b: F.gelu(x),
    "softmax": lambda x, q, w, b: x.softmax(-1), "matmul": lambda x, q, w, b: x @ x.transpose(1, 2), "bmm": lambda x, q, w, b: torch.bmm(x, x.transpose(1, 2)),
    "attention": lambda x, q, w, b: F.scaled_dot_product_attention(q, q, q), "clone": lambda x, q, w, b: x.clone(), "double": lambda x, q, w, b: x.double(),
    "unbind": lambda x, q, w, b: x.unbind()[1], "select": lambda x, q, w, b: x[1], "dropout": lambda x, q, w, b: F.dropout(x, 0.0), "mul": lambda x, q, w, b: x * 2.5,
}
FORWARD = {
    "chunk": lambda x, q, w, b: x.chunk(2, -1)[1], "view": lambda x, q, w, b: x.view(3, -1, 4, 4).transpose(1, 2), "cat": lambda x, q, w, b: torch.cat([x, x]),
    "div": lambda x, q, w, b: x / x, "tanh": lambda x, q, w, b: x.tanh(),
    "from mask": lambda x, q, w, b: torch._nested_tensor_from_mask(w.view(2, 8, 16), torch.arange(8, device=w.device).expand(2, 8) < torch.tensor([[3], [8]], device=w.device)),
}


def flat(tensor):
    tensor = tensor.detach()
    return (torch.cat([part.reshape(-1) for part in tensor.unbind()]) if tensor.is_nested else tensor).double().cpu()


def results(case, backward, device, dtype):
    torch.manual_seed(1)
    lengths = (3, 7, 1)
    x, q = ([torch.randn(*size(n)).to(device, dtype) for n in lengths] for size in (lambda n: (n, 16), lambda n: (4, n, 8)))
    inputs = [*(nested.nested_tensor(parts, requires_grad=backward) for parts in (x, q)), *(torch.randn(*size).to(device, dtype).requires_grad_(backward) for size in ((16, 16), (16,)))]
    y = case(*inputs)
    if not backward:
        return [y]
    sum(part.double().square().sum() for part in (y.unbind() if y.is_nested else [y])).backward()
    return [y, *(i.grad for i in inputs if i.grad is not None)]


def encoder(device, dtype, masked, padded, first):
    torch.manual_seed(2)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=first, activation="gelu" if first else "relu")
    net = nn.TransformerEncoder(layer, 2).to(device, dtype).eval()
    x = torch.randn(2, 5, 32).to(device, dtype)
    mask = torch.ones(5, 5, dtype=torch.bool, device=device).triu(1) if masked else None
    padding = torch.arange(5, device=device).expand(2, 5) >= torch.tensor([[5], [3]], device=device) if padded else None
    with torch.inference_mode():
        return [net(x, mask=mask, src_key_padding_mask=padding)]


def rows(device):
    """What CUDA alone has: a dense tensor with a row for each sequence."""
    x = [torch.randn(n, 16, generator=torch.Generator().manual_seed(n)) for n in (3, 7, 1)]
    d = torch.arange(48.0).view(3, 1, 16)
    if device == "cpu":
        return [torch.cat([(part + row).flatten() for part, row in zip(x, d)]), torch.cat([(part * row).flatten() for part, row in zip(x, d)])]
    there = nested.nested_tensor(x, device=device)
    return [there + d.to(device), there * d.to(device)]


compared = differ = 0


def compare(name, dtype, run):
    global compared, differ
    here, there = run("cpu"), run("cuda")
    limit = 1e-5 if dtype == torch.float32 else 6e-3
    compared += 1
    if len(here) != len(there) or not all(torch.allclose(flat(a), flat(b), rtol=limit, atol=limit) for a, b in zip(here, there)):
        differ += 1
        print(name, dtype, "differ")


for dtype in (torch.float32, torch.float16):
    for cases, backward in (BACKWARD, True), (FORWARD, False):
        for name, case in cases.items():
            compare(name, dtype, lambda device: results(case, backward, device, dtype))
    for choice in range(8):
        flags = [bool(choice >> bit & 1) for bit in range(3)]
        # In half precision the CPU's layer rounds more often than CUDA's: compared with the layer in float.
        compare(f"encoder {flags}", dtype, lambda device: encoder(device, dtype if device == "cuda" else torch.float32, *flags))
compare("rows", torch.float32, rows)
print(f"{compared} compared, {differ} differ")
