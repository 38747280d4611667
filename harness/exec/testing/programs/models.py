"""models.py NAME: two or three training steps of a released model, small and with random weights."""
import sys

import torch
from torch.nn import functional as F


def train(model, batch, steps=2, optimizer=None, scaler=None):
    """`batch()` gives the loss."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(steps):
        loss = batch()
        (scaler.scale(loss) if scaler else loss).backward()
        (scaler.step(optimizer) or scaler.update()) if scaler else optimizer.step()
        optimizer.zero_grad()
        print("loss", loss.item())


def tokens(vocabulary, *sizes):
    return torch.randint(4, vocabulary, sizes).cuda()


def resnet50():
    """torchvision: AMP in fp16, channels last, cudnn.benchmark."""
    from torchvision.models import resnet50 as make

    torch.backends.cudnn.benchmark = True
    model = make(num_classes=100).cuda().to(memory_format=torch.channels_last)

    def batch():
        x = torch.randn(2, 3, 64, 64).cuda(non_blocking=True).to(memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.float16):
            return F.cross_entropy(model(x), tokens(100, 2))

    # Small enough that no gradient overflows: a step that is skipped has no momentum, and mode known assumes that none is.
    train(model, batch, 2, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), torch.amp.GradScaler(init_scale=128))


def unet2d():
    """diffusers: fp32, with TF32 in the convolutions."""
    from diffusers import DDPMScheduler, UNet2DModel

    model = UNet2DModel(sample_size=16, block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8,
                        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D")).cuda()
    scheduler = DDPMScheduler()

    def batch():
        clean, noise, t = torch.randn(2, 3, 16, 16).cuda(), torch.randn(2, 3, 16, 16).cuda(), tokens(1000, 2)
        return F.mse_loss(model(scheduler.add_noise(clean, noise, t), t).sample, noise)

    train(model, batch)


def vit():
    """timm: bf16, stochastic depth."""
    from timm import create_model

    model = create_model("vit_tiny_patch16_224", img_size=64, num_classes=10, drop_path_rate=0.1).cuda()

    def batch():
        with torch.autocast("cuda", torch.bfloat16):
            return F.cross_entropy(model(torch.randn(4, 3, 64, 64).cuda()), tokens(10, 4))

    train(model, batch)


def whisper():
    """transformers: convolutions over time, encoder and decoder."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    model = WhisperForConditionalGeneration(WhisperConfig(
        vocab_size=200, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=128,
        decoder_ffn_dim=128, max_source_positions=100, max_target_positions=50, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3,
        suppress_tokens=None, begin_suppress_tokens=None)).cuda()
    train(model, lambda: model(input_features=torch.randn(2, 80, 200).cuda(), labels=tokens(200, 2, 12)).loss)


def lstm():
    """A language model of two LSTM layers with dropout."""
    encoder, rnn = torch.nn.Embedding(500, 64).cuda(), torch.nn.LSTM(64, 64, 2, dropout=0.2).cuda()
    hidden = tuple(torch.zeros(2, 8, 64, device="cuda") for _ in range(2))

    def batch():
        nonlocal hidden
        x = tokens(500, 17, 8)
        y, hidden = rnn(encoder(x[:-1]), tuple(h.detach() for h in hidden))
        return F.cross_entropy((y @ encoder.weight.T).view(-1, 500), x[1:].reshape(-1))

    train(torch.nn.ModuleList([encoder, rnn]), batch, 3)


def qwen3_moe():
    """transformers: eight experts, two for each token, bf16."""
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    model = Qwen3MoeForCausalLM(Qwen3MoeConfig(
        vocab_size=500, hidden_size=64, intermediate_size=128, moe_intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=32, num_experts=8, num_experts_per_tok=2, decoder_sparse_step=1, output_router_logits=True)).cuda().bfloat16()

    def batch():
        x = tokens(500, 2, 32)
        return model(input_ids=x, labels=x).loss

    train(model, batch)


def llama(**more):
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(vocab_size=500, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, **more)).bfloat16()


def reduce_overhead():
    """transformers: compiled, with steps that are CUDA graphs from the third on."""
    model = torch.compile(llama(hidden_size=64, intermediate_size=128).cuda(), mode="reduce-overhead")

    def batch():
        torch.compiler.cudagraph_mark_step_begin()
        x = tokens(500, 2, 16)
        return model(input_ids=x, labels=x).loss

    train(model, batch, 4)


def qlora():
    """bitsandbytes and peft: weights in NF4, adapters, and AdamW in 8 bits, whose states lie in managed memory from 100,000 elements on."""
    import bitsandbytes as bnb
    from peft import LoraConfig, get_peft_model

    model = llama(hidden_size=512, intermediate_size=512)
    for name, module in list(model.model.named_modules()):
        if isinstance(module, torch.nn.Linear):
            quantised = bnb.nn.Linear4bit(module.in_features, module.out_features, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4")
            quantised.weight = bnb.nn.Params4bit(module.weight.data, requires_grad=False, quant_type="nf4")
            model.model.set_submodule(name, quantised)
    model = get_peft_model(model.cuda(), LoraConfig(r=256, target_modules=["q_proj", "v_proj"]))

    def batch():
        x = tokens(500, 2, 32)
        return model(input_ids=x, labels=x).loss

    train(model, batch, 2, bnb.optim.PagedAdamW8bit([p for p in model.parameters() if p.requires_grad], lr=1e-3))


def generate():
    """transformers: eight tokens with a static cache."""
    model = llama(hidden_size=64, intermediate_size=128).cuda().eval()
    y = model.generate(tokens(500, 2, 8), max_new_tokens=8, min_new_tokens=8, do_sample=False, cache_implementation="static", disable_compile=True, pad_token_id=0)
    print("no loss:", tuple(y.shape))


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]]()
