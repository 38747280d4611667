"""A product and its backward."""
import torch

x = torch.ones(512, 512, device="cuda", requires_grad=True)
for _ in range(2):
    (x @ x).sum().backward()
