"""hugging_face.py plain|checkpointing|compiled|lora|fsdp2|deepspeed: the Trainer of transformers on a small Llama with random weights, three steps. BATCH (4): sequences."""
import os
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

LENGTH, WORDS, BATCH = 64, 512, int(os.environ.get("BATCH", "4"))


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 8 * BATCH

    def __getitem__(self, index):
        words = torch.randint(WORDS, (LENGTH,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": words, "labels": words}


def model():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(vocab_size=WORDS, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
                                        num_key_value_heads=2, max_position_embeddings=256))


def adapted(whole):
    from peft import LoraConfig, get_peft_model
    return get_peft_model(whole, LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))


def main(kind):
    more = {}
    if kind == "checkpointing":
        more = {"gradient_checkpointing": True, "eval_strategy": "steps", "eval_steps": 2}
    if kind == "compiled":
        more = {"torch_compile": True}
    if kind == "fsdp2":
        more = {"fsdp": "full_shard auto_wrap", "fsdp_config": {"version": 2, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}}
    if kind == "deepspeed":
        more = {"deepspeed": {"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
                              "gradient_clipping": "auto", "bf16": {"enabled": True}, "zero_force_ds_cpu_optimizer": False}}
    arguments = TrainingArguments("hugging_face", max_steps=3, per_device_train_batch_size=BATCH, logging_steps=1, report_to=[], bf16=True,
                                  save_strategy="no", optim="adamw_torch_fused", **more)
    whole = adapted(model()) if kind == "lora" else model()
    trainer = Trainer(whole, arguments, train_dataset=Tokens(), eval_dataset=Tokens())
    print("loss", trainer.train().training_loss)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
