"""sparse_numbers.py COUNT: sparse tensors at random, on the virtual device as on the CPU. Prints what differs."""
import random
import sys

import torch
from torch import nn

TYPES = (torch.float32, torch.float64)


def coo(x, repeated=False):
    s = x.to_sparse()
    if not repeated:
        return s
    return torch.sparse_coo_tensor(torch.cat([s.indices(), s.indices()], 1), torch.cat([s.values(), 2 * s.values()]), s.shape)


CASES = {  # of a matrix with zeros, and of dense ones on its right and of its own shape
    "to_dense": lambda x, b, c: coo(x).to_dense(), "coalesce": lambda x, b, c: coo(x, True).coalesce(), "add": lambda x, b, c: coo(x) + coo(c),
    "dense + sparse": lambda x, b, c: c + coo(x), "mul scalar": lambda x, b, c: coo(x) * 3, "mm": lambda x, b, c: torch.sparse.mm(coo(x), b),
    "addmm": lambda x, b, c: torch.sparse.addmm(x @ b, coo(x), b), "csr @ dense": lambda x, b, c: x.to_sparse_csr() @ b, "csr @ vector": lambda x, b, c: x.to_sparse_csr() @ b[:, 0],
    "csr dense": lambda x, b, c: x.to_sparse_csr().to_dense(), "csc": lambda x, b, c: x.to_sparse_csc(), "csr to coo": lambda x, b, c: x.to_sparse_csr().to_sparse_coo(),
    "sum": lambda x, b, c: torch.sparse.sum(coo(x)), "sum rows": lambda x, b, c: torch.sparse.sum(coo(x), 0).to_dense(), "transposed": lambda x, b, c: coo(x).t().coalesce(),
    "mask": lambda x, b, c: c.sparse_mask(coo(x).coalesce()), "abs": lambda x, b, c: coo(x).abs(), "neg_": lambda x, b, c: coo(x).coalesce().neg_(), "clone": lambda x, b, c: coo(x, True).clone(),
    "mul sparse": lambda x, b, c: coo(x) * coo(c), "sub_": lambda x, b, c: coo(x).clone().sub_(coo(c)),
}


def grows(x, b, c):
    """Gradients of a product, of both sides."""
    s, b = coo(x).requires_grad_(), b.clone().requires_grad_()
    torch.sparse.mm(s, b).square().sum().backward()
    return s.grad.coalesce(), b.grad


def embedding(x, b, c):
    table = nn.Embedding.from_pretrained(c.clone(), freeze=False, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters(), 0.1)
    for step in range(3):
        optimizer.zero_grad()
        table(torch.tensor([0, step % len(c), 0], device=c.device)).square().sum().backward()
        optimizer.step()
    return table.weight, table.weight.grad.coalesce()


def product_gradients(x, b, c):
    """Of a product of two sparse matrices."""
    left, right = coo(x).requires_grad_(), coo(c.t() * (c.t() > 0)).requires_grad_()
    torch.sparse.sum(torch.sparse.mm(left, right)).backward()
    return left.grad.coalesce(), right.grad.coalesce()


CASES |= {"gradients": grows, "embedding": embedding, "product gradients": product_gradients,
          "sparse @ sparse": lambda x, b, c: torch.sparse.mm(coo(x), coo(x.t().contiguous())), "twice @ sparse": lambda x, b, c: torch.sparse.mm(coo(x, True), coo(x.t().contiguous(), True)),
          "csr @ csr": lambda x, b, c: torch.sparse.mm(x.to_sparse_csr(), x.t().contiguous().to_sparse_csr()).to_dense()}


def parts(result):
    for one in [result] if isinstance(result, torch.Tensor) else result:
        one = one.detach()
        if one.layout == torch.sparse_coo:
            yield from (one._indices().cpu(), one._values().cpu())
        elif one.layout != torch.strided:
            yield from (p.cpu() for p in ((one.crow_indices(), one.col_indices()) if one.layout == torch.sparse_csr else (one.ccol_indices(), one.row_indices())))
            yield one.values().cpu()
        else:
            yield one.cpu()


def main():
    torch.manual_seed(0)
    random.seed(0)
    compared = differ = 0
    for _ in range(int(sys.argv[1])):
        for name, call in CASES.items():
            type_, m, n = random.choice(TYPES), random.choice((1, 3, 17, 40)), random.choice((2, 5, 33))
            x = torch.randn(m, n, dtype=type_) * (torch.rand(m, n) < random.choice((0.05, 0.3, 1)))
            inputs = [x, torch.randn(n, 4, dtype=type_), torch.randn(m, n, dtype=type_)]
            compared += 1
            try:
                expected, measured = list(parts(call(*inputs))), list(parts(call(*(one.cuda() for one in inputs))))
                same = all(a.shape == b.shape and torch.allclose(a, b, 1e-6, 1e-6) for a, b in zip(expected, measured, strict=True))
            except Exception as error:
                same, measured = False, str(error).splitlines()[0]
            if not same:
                differ += 1
                print(name, type_, (m, n), measured if isinstance(measured, str) else (expected, measured))
    print(f"{compared} compared, {differ} differ")


main()
