"""A training that fails once in its second step and that torchrun starts again."""
import os

import torch
import torch.distributed as dist
from answers import answer
from parallel import PARTS, replicated

if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        replicated()
        raise SystemExit(1)
    with answer("after a restart"):
        PARTS["bf16 hook"]()
    dist.destroy_process_group()
