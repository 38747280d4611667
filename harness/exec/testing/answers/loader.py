"""A data loader with workers and pinned memory, and copies that the host does not wait for, under DistributedDataParallel."""
import os

import torch
import torch.distributed as dist
from answers import answer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        return torch.full((4096,), float(index))


if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    with answer("loader"):
        model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4096, 128), torch.nn.Linear(128, 1)).cuda(), bucket_cap_mb=0.5)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            for batch in DataLoader(Numbers(), batch_size=32, num_workers=2, pin_memory=True):
                model(batch.cuda(non_blocking=True)).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    dist.destroy_process_group()
