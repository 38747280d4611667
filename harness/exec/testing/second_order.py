"""second_order.py: steps of optimizers that decompose matrices: as in Shampoo (roots of statistics by eigh), SOAP (eigh, then qr), GaLore (svd), Muon (products)."""
import torch
from torch import nn


def root(statistics, power):
    values, vectors = torch.linalg.eigh(statistics.float() + 1e-6 * torch.eye(len(statistics), device=statistics.device))
    return vectors * values.clamp_min(1e-12).pow(power) @ vectors.mT


def shampoo(grad, state):
    for side, product in (("l", grad @ grad.mT), ("r", grad.mT @ grad)):
        state[side] = state.get(side, 0) + product
    return root(state["l"], -0.25) @ grad @ root(state["r"], -0.25)


def soap(grad, state):
    state["l"] = 0.95 * state.get("l", 0) + grad @ grad.mT
    if "basis" not in state:
        state["basis"] = torch.linalg.eigh(state["l"])[1]
    else:
        state["basis"] = torch.linalg.qr(state["l"] @ state["basis"])[0]
    turned = state["basis"].mT @ grad
    state["second"] = 0.95 * state.get("second", 0) + turned.square()
    return state["basis"] @ (turned / (state["second"].sqrt() + 1e-8))


def galore(grad, state):
    if "basis" not in state:
        state["basis"] = torch.linalg.svd(grad, full_matrices=False)[0][:, :8]
    low = state["basis"].mT @ grad
    state["first"] = 0.9 * state.get("first", 0) + low
    return state["basis"] @ state["first"]


def whitened(grad, _):
    return torch.linalg.solve_triangular(torch.linalg.cholesky(grad @ grad.mT + torch.eye(len(grad), device=grad.device)), grad, upper=False)


torch.manual_seed(0)
for rule in (shampoo, soap, galore, whitened):
    net = nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 32)).cuda()
    states = {p: {} for p in net.parameters()}
    for _ in range(3):
        loss = net(torch.randn(16, 48, device="cuda")).square().mean()
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.01 * (rule(p.grad, states[p]) if p.dim() == 2 else p.grad)
                p.grad = None
    print(rule.__name__, f"{float(loss):.6f}")
