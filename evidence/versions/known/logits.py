"""The logits of a Llama in bfloat16, without a loss."""
import torch
from transformers import LlamaConfig, LlamaForCausalLM

model = LlamaForCausalLM(LlamaConfig(vocab_size=32768, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=1024)).cuda().to(torch.bfloat16)
with torch.no_grad():
    for _ in range(2):
        model(input_ids=torch.randint(32768, (4, 1024), device="cuda"))
