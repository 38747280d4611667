"""zero.py STAGE bf16|fp16 [offload]: a small network under DeepSpeed's ZeRO of that stage, three steps."""
import sys

import deepspeed
import torch
from torch import nn

WORDS = [word for word in sys.argv[1:] if not word.startswith("--local_rank")]  # which DeepSpeed's launcher puts first
STAGE, PRECISION = int(WORDS[0]), WORDS[1]
TYPE = {"bf16": torch.bfloat16, "fp16": torch.float16}[PRECISION]

torch.manual_seed(0)
network = nn.Sequential(*[nn.Sequential(nn.Linear(128, 128), nn.GELU()) for _ in range(4)])
settings = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": STAGE}, PRECISION: {"enabled": True}, "gradient_clipping": 1.0}
if "offload" in WORDS:
    settings["zero_optimization"]["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    settings["zero_force_ds_cpu_optimizer"] = False
engine, _, _, _ = deepspeed.initialize(model=network, optimizer=torch.optim.AdamW(network.parameters(), 1e-3), config=settings)
for _ in range(3):
    loss = engine(torch.randn(4, 128, device=engine.device, dtype=TYPE)).float().square().mean()
    engine.backward(loss)
    engine.step()
    print("loss", loss.item())
torch.distributed.destroy_process_group()
