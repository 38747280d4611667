"""A Llama for 16,384 positions, trained with short sequences."""
import torch
from transformers import LlamaConfig, LlamaForCausalLM

model = LlamaForCausalLM(LlamaConfig(vocab_size=1024, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=16384)).cuda()
words = torch.randint(1024, (2, 128), device="cuda")
for _ in range(2):
    model(input_ids=words, labels=words).loss.backward()
