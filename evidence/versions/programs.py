"""programs.py NAME: a small training of a kind that people run, three steps with random weights; `ci/versions` runs each with many releases of torch.
ddp, fsdp1, fsdp2 and tp_sp want two ranks."""
import os
import sys

import torch

WORDS, LENGTH, BATCH, STEPS = 8192, 512, 4, 3


def llama(**more):
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(vocab_size=WORDS, hidden_size=512, intermediate_size=1408, num_hidden_layers=4, num_attention_heads=8,
                                        num_key_value_heads=4, max_position_embeddings=LENGTH, use_cache=False, **more))


def tokens():
    return torch.randint(WORDS, (BATCH, LENGTH), device="cuda")


def train(model, loss_of, optimizer=None, mixed=True):
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), 1e-4)
    for _ in range(STEPS):
        with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
            loss = loss_of(model)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print("loss", float(loss))


def of_tokens(model):
    words = tokens()
    return model(input_ids=words, labels=words).loss


def plain():
    train(llama().cuda(), of_tokens)


def checkpointing():
    model = llama().cuda()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    train(model, of_tokens)


def lora():
    from peft import LoraConfig, get_peft_model
    train(get_peft_model(llama().cuda(), LoraConfig(r=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")), of_tokens)


def joined():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")


def ddp():
    joined()
    train(torch.nn.parallel.DistributedDataParallel(llama().cuda()), of_tokens)


def fsdp1():
    import functools

    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer
    joined()
    model = FullyShardedDataParallel(llama(), auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={LlamaDecoderLayer}),
                                     mixed_precision=MixedPrecision(torch.bfloat16, torch.float32), device_id=torch.cuda.current_device(), use_orig_params=True)
    train(model, of_tokens, mixed=False)


def fsdp2():
    try:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    except ImportError:  # before 2.6
        from torch.distributed._composable.fsdp import MixedPrecisionPolicy, fully_shard
    joined()
    model, policy = llama().cuda(), MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    train(model, of_tokens, mixed=False)


class Layer(torch.nn.Module):
    def __init__(self, wide=512):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(wide), torch.nn.Linear(wide, 4 * wide), torch.nn.Linear(4 * wide, wide)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers, self.norm, self.head = torch.nn.Embedding(WORDS, 512), torch.nn.ModuleList(Layer() for _ in range(4)), torch.nn.LayerNorm(512), torch.nn.Linear(512, WORDS)

    def forward(self, words):
        x = self.words(words)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def tp_sp():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module
    try:
        from torch.distributed.tensor import Replicate, Shard
    except ImportError:  # before 2.5
        from torch.distributed._tensor import Replicate, Shard
    joined()
    mesh, model = init_device_mesh("cuda", (2,)), Layers().cuda()
    parallelize_module(model, mesh, {"words": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "norm": SequenceParallel(),
                                     "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})
    for layer in model.layers:
        parallelize_module(layer, mesh, {"norm": SequenceParallel(), "up": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())})
        parallelize_module(layer, mesh, {"up": ColwiseParallel(input_layouts=Shard(1)), "down": RowwiseParallel(output_layouts=Shard(1))})

    def loss_of(model):
        words = tokens()
        return torch.nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten())
    train(model, loss_of, mixed=False)


def vit():
    from transformers import ViTConfig, ViTForImageClassification
    model = ViTForImageClassification(ViTConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536, num_labels=1000)).cuda()
    train(model, lambda model: model(torch.randn(8, 3, 224, 224, device="cuda"), labels=torch.randint(1000, (8,), device="cuda")).loss)


class UNet(torch.nn.Module):
    def __init__(self, wide=(32, 64, 128)):
        super().__init__()
        def block(a, b):
            return torch.nn.Sequential(torch.nn.Conv2d(a, b, 3, padding=1), torch.nn.GroupNorm(8, b), torch.nn.SiLU(), torch.nn.Conv2d(b, b, 3, padding=1), torch.nn.SiLU())
        self.down = torch.nn.ModuleList(block(a, b) for a, b in zip((3, *wide), wide))
        self.up = torch.nn.ModuleList(block(a + b, b) for a, b in zip(wide[:0:-1], wide[-2::-1]))
        self.out = torch.nn.Conv2d(wide[0], 3, 1)

    def forward(self, x):
        kept = []
        for at, block in enumerate(self.down):
            x = block(torch.nn.functional.max_pool2d(x, 2) if at else x)
            kept.append(x)
        for block, other in zip(self.up, kept[-2::-1]):
            x = block(torch.cat([torch.nn.functional.interpolate(x, scale_factor=2), other], 1))
        return self.out(x)


def unet():
    def loss_of(model):
        images = torch.randn(4, 3, 128, 128, device="cuda")
        return torch.nn.functional.mse_loss(model(images), images)
    train(UNet().cuda(), loss_of)


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.lstm, self.head = torch.nn.Embedding(WORDS, 256), torch.nn.LSTM(256, 512, 2, batch_first=True), torch.nn.Linear(512, WORDS)

    def forward(self, words):
        return self.head(self.lstm(self.words(words))[0])


def lstm():
    def loss_of(model):
        words = tokens()[:, :128]
        return torch.nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten())
    train(Recurrent().cuda(), loss_of, mixed=False)


def compiled():
    model = torch.compile(Layers().cuda())

    def loss_of(model):
        words = tokens()
        return torch.nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten())
    train(model, loss_of)


def adam_8bit():
    import bitsandbytes
    model = llama().cuda()
    train(model, of_tokens, bitsandbytes.optim.AdamW8bit(model.parameters(), 1e-4))


PROGRAMS = {"llama": plain, "llama_checkpointing": checkpointing, "lora": lora, "ddp": ddp, "fsdp1": fsdp1, "fsdp2": fsdp2, "tp_sp": tp_sp, "vit": vit, "unet": unet,
            "lstm": lstm, "compile": compiled, "adam_8bit": adam_8bit}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
