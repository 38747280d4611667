"""Models of transformers, and recurrent networks."""
from . import program, torch_, trained


def of_config(kind, config, **more):
    import transformers
    return getattr(transformers, kind)(getattr(transformers, config)(**more))


def words(torch, vocabulary, batch, length):
    return torch.randint(0, vocabulary, (batch, length), device="cuda")


def language(model, x):
    return model(input_ids=x, labels=x).loss


@program()
def llama_bf16():
    torch = torch_()
    model = of_config("LlamaForCausalLM", "LlamaConfig", hidden_size=2048, intermediate_size=5632, num_hidden_layers=6, num_attention_heads=32,
                      num_key_value_heads=8, vocab_size=32000).to("cuda", torch.bfloat16)
    yield from trained(model, words(torch, 32000, 4, 2048), language, torch.optim.AdamW(model.parameters(), fused=True))


@program()
def llama_checkpointed():
    torch = torch_()
    model = of_config("LlamaForCausalLM", "LlamaConfig", hidden_size=2048, intermediate_size=5632, num_hidden_layers=6, num_attention_heads=32,
                      num_key_value_heads=8, vocab_size=128256, use_cache=False).to("cuda", torch.bfloat16)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    yield from trained(model, words(torch, 128256, 2, 4096), language, torch.optim.AdamW(model.parameters()), clip=1.0)


@program()
def gpt2_autocast():
    torch = torch_()
    model = of_config("GPT2LMHeadModel", "GPT2Config").to("cuda")
    yield from trained(model, words(torch, 50257, 8, 1024), language, torch.optim.AdamW(model.parameters()), mixed=torch.bfloat16, clip=1.0)


@program()
def gpt2_eager_fp32():
    torch = torch_()
    model = of_config("GPT2LMHeadModel", "GPT2Config", attn_implementation="eager").to("cuda")
    yield from trained(model, words(torch, 50257, 4, 512), language, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9))


@program()
def bert_fp16_scaler():
    torch = torch_()
    model = of_config("BertForMaskedLM", "BertConfig").to("cuda")
    yield from trained(model, words(torch, 30522, 16, 384), language, torch.optim.AdamW(model.parameters()), mixed=torch.float16,
                       scaler=torch.amp.GradScaler())


@program()
def t5_bf16():
    torch = torch_()
    model = of_config("T5ForConditionalGeneration", "T5Config", decoder_start_token_id=0).to("cuda", torch.bfloat16)
    yield from trained(model, words(torch, 32128, 8, 512), language, torch.optim.AdamW(model.parameters()))


@program()
def mixtral_bf16():
    torch = torch_()
    model = of_config("MixtralForCausalLM", "MixtralConfig", hidden_size=1024, intermediate_size=2048, num_hidden_layers=2, num_attention_heads=16,
                      num_key_value_heads=8, vocab_size=8000).to("cuda", torch.bfloat16)
    yield from trained(model, words(torch, 8000, 2, 512), language, torch.optim.AdamW(model.parameters()))


@program()
def whisper_fp32():
    torch = torch_()
    model = of_config("WhisperForConditionalGeneration", "WhisperConfig").to("cuda")
    features, labels = torch.randn(4, 80, 3000, device="cuda"), words(torch, 51865, 4, 64)
    yield from trained(model, (features, labels), lambda m, b: m(input_features=b[0], labels=b[1]).loss, torch.optim.AdamW(model.parameters()))


@program()
def wav2vec2_amp():
    torch = torch_()
    model = of_config("Wav2Vec2ForCTC", "Wav2Vec2Config", mask_time_prob=0.0, num_hidden_layers=4).to("cuda")
    sound, labels = torch.randn(4, 64000, device="cuda"), torch.randint(1, 32, (4, 20), device="cuda")
    yield from trained(model, (sound, labels), lambda m, b: m(input_values=b[0], labels=b[1]).loss, torch.optim.AdamW(model.parameters()),
                       mixed=torch.bfloat16)


@program()
def llama_generate():
    torch = torch_()
    model = of_config("LlamaForCausalLM", "LlamaConfig", hidden_size=1024, intermediate_size=2816, num_hidden_layers=4, num_attention_heads=16,
                      vocab_size=32000).to("cuda", torch.bfloat16).eval()
    prompt = words(torch, 32000, 4, 128)
    for _ in range(2):
        model.generate(prompt, max_new_tokens=24, min_new_tokens=24, do_sample=False, pad_token_id=0)
        yield





def recurrent(kind, **more):
    torch = torch_()
    from torch import nn
    net, head = getattr(nn, kind)(512, 512, **more).cuda(), nn.Linear(512 * (2 if more.get("bidirectional") else 1), 10).cuda()
    both = nn.ModuleList((net, head))
    x = torch.randn(64, 100, 512, device="cuda") if more.get("batch_first") else torch.randn(100, 64, 512, device="cuda")
    yield from trained(both, x, lambda m, b: head(net(b)[0]).float().square().mean(), torch.optim.Adam(both.parameters()))


@program()
def lstm_two_layers():
    yield from recurrent("LSTM", num_layers=2, batch_first=True, dropout=0.1)


@program()
def gru_bidirectional():
    yield from recurrent("GRU", num_layers=2, bidirectional=True)
