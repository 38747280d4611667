"""Kinds of memory of an optimizer that is no torch.optim.Optimizer."""
import random

from testing.held import alive
from testing.said import FOLDER, MIB, python, seed

# A plain function updates two weights `ps` and keeps its state in `s`. By function: the tensors of a weight's size that it keeps, its temporaries that are alive
# at `peak()`, and its code.
UPDATES = {
    "momentum": (2, 1, """
        for p in ps:
            m = s.setdefault(p, torch.zeros_like(p)).mul_(0.9).add_(p.grad)
            u = m * 0.1
            peak(p is ps[-1])
            p.data.sub_(u)"""),
    "adam": (4, 1, """
        for p in ps:
            m, v = s.setdefault(p, (torch.zeros_like(p), torch.zeros_like(p)))
            m.lerp_(p.grad, 0.1), v.mul_(0.9).addcmul_(p.grad, p.grad)
            d = v.sqrt().add_(1e-8)
            peak(p is ps[-1])
            p.addcdiv_(m, d, value=-0.1)"""),
    "lists": (4, 2, """
        m, v = s.setdefault(0, ([torch.zeros_like(p) for p in ps], [torch.zeros_like(p) for p in ps]))
        gs = [p.grad for p in ps]
        torch._foreach_mul_(m, 0.9), torch._foreach_add_(m, gs), torch._foreach_addcmul_(v, gs, gs)
        d = torch._foreach_sqrt(v)
        torch._foreach_add_(d, 1e-8)
        peak(True)
        torch._foreach_addcdiv_(ps, m, d, -0.1)"""),
    "replaced": (2, 0, """
        for p in ps:
            s[p] = s[p] * 0.9 + p.grad if p in s else p.grad.clone()
            peak(p is ps[-1])
            p -= s[p]"""),
    "products": (2, 1, """
        for p in ps:
            m = s.setdefault(p, torch.zeros_like(p)).add_(p.grad)
            x = m.bfloat16()
            y = x @ (x.t() @ x)
            peak(p is ps[-1])
            p.add_(y, alpha=-0.1)"""),
    "masters": (2, 0, """
        for p in ps:
            w = s.setdefault(p, p.detach().clone()).sub_(p.grad, alpha=0.1)
            peak(p is ps[-1])
            p.copy_(w)"""),
}
# What no update keeps, and is no temporary of one: what is alive of it at the peak.
OTHERS = {
    "average": (2, "for p in ps: other.setdefault(p, p.detach().clone()).lerp_(p, 0.1)"),
    "swapped average": (2, "for p in ps: other.setdefault(('swap', p), p.detach().clone()).lerp_(p, 0.1); p.copy_(other['swap', p])"),
    "log of a gradient": (1, "if step == 1: other['log'] = ps[0].grad.clone()"),
    "metric": (2, "for p in ps: other.setdefault(('metric', p), torch.zeros_like(p)).copy_(p.grad.abs())"),
    "sum of gradients": (2, "for p in ps: a = other.setdefault(('sum', p), torch.zeros_like(p)); a.zero_(); a.add_(p.grad); p.sub_(a)"),
    "noise": (1, "other['noise'] = torch.randn_like(ps[0]); ps[0].add_(other['noise'])"),
    "merged": (1, "other['merged'] = ps[0] * 0.1; ps[1].add_(other['merged'])"),
    "average of the weights and a metric": (2, "other.setdefault('both', torch.stack([p.detach() for p in ps])).add_(ps[0].grad)"),
}


def test_own_updates():
    """A plain function updates the weights: what updates of several steps read that comes from gradients is state, what one reads and frees a temporary. What
    is not read by an update, does not come from gradients, or is overwritten before the next step, is neither."""
    draw = random.Random(seed())
    updates, others = draw.sample(sorted(UPDATES), 2), draw.sample(sorted(OTHERS), 3)
    keeps, temporary = sum(UPDATES[one][0] for one in updates), UPDATES[updates[-1]][1]
    others_text = "\n        ".join(f"if True:\n            {OTHERS[one][1]}" for one in others)
    functions = "\n".join(f"    def update{i}(ps, s, peak):{UPDATES[one][2]}" for i, one in enumerate(updates))
    result = python(f"""
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(1024, 1024, bias=False) for _ in range(6))
    def forward(self, x):
        return sum(layer(x).sum() for layer in self.layers)
net = Net().cuda()
ps = list(net.parameters())
other, states = {{}}, ({{}}, {{}})
with torch.no_grad():
{functions}
    def others(ps, step):
        {others_text}
for step in range(5):
    net(torch.ones(8, 1024, device="cuda")).backward()
    def peak(last, at=step):
        block = torch.empty(1 << 28, dtype=torch.int8, device="cuda") if last and at == 3 else None
    with torch.no_grad():
        others(ps[4:], step)
        update0(ps[:2], states[0], lambda last: None)
        update1(ps[2:4], states[1], peak)
    net.zero_grad()
""", "--report", FOLDER / "updates").ends(0)
    size = 4 * MIB
    state, (other, lines) = alive(result, "optimizer state")[0], alive(result, "other")
    what = f"{updates} and {others}"
    result.check(state == keeps * size, f"{state / size} of {keeps} kept by {what}")
    if temporary:
        bytes_ = alive(result, "optimizer temporaries")[0]
        result.check(bytes_ == temporary * size, f"{bytes_ / size} of {temporary} temporaries of {what}")
    else:
        result.check("optimizer temporaries" not in result.err, f"temporaries of {what}")
    kept = sum(OTHERS[one][0] for one in others)
    result.check(other == (1 << 28) + kept * size, f"{(other - (1 << 28)) / size} of {kept} others of {what}: {lines}")
