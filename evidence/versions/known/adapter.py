"""A LoRA of rank 64 on every linear layer of a Llama in bfloat16."""
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

torch.set_default_dtype(torch.bfloat16)
model = LlamaForCausalLM(LlamaConfig(vocab_size=1024, hidden_size=512, intermediate_size=1408, num_hidden_layers=4, num_attention_heads=8, max_position_embeddings=512))
torch.set_default_dtype(torch.float32)
model = get_peft_model(model.to(torch.bfloat16), LoraConfig(r=64, target_modules="all-linear", task_type="CAUSAL_LM")).cuda()
optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], 1e-4)
words = torch.randint(1024, (4, 512), device="cuda")
for _ in range(3):
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(input_ids=words, labels=words).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
