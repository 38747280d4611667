"""Operators and optimizers whose temporaries depend on the device."""
from . import program, squares, stack, torch_, trained


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
