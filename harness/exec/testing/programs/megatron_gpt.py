"""megatron_gpt.py TENSOR PIPELINE: a small GPT of Megatron-core with that much tensor and pipeline parallelism, its distributed
optimizer, four microbatches a step, three steps. BATCH (2): sequences of a microbatch."""
import os
import sys

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.transformer_config import TransformerConfig

LENGTH, BATCH, WORDS = 64, int(os.environ.get("BATCH", "2")), 256
TENSOR, PIPELINE = int(sys.argv[1]), int(sys.argv[2])


def batches():
    while True:
        yield torch.randint(WORDS, (BATCH, LENGTH), device="cuda")


def forward(data, model):
    words = next(data)
    places = torch.arange(LENGTH, device="cuda").expand(BATCH, LENGTH)
    later = torch.ones(1, 1, LENGTH, LENGTH, device="cuda").triu(1).bool()
    output = model(words, places, later, labels=words)
    return output, lambda losses: (losses.float().mean(), {"loss": losses.float().mean().detach()})


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=TENSOR, pipeline_model_parallel_size=PIPELINE)
    tensor_parallel.model_parallel_cuda_manual_seed(123)
    config = TransformerConfig(num_layers=4, hidden_size=64, num_attention_heads=4, bf16=True, params_dtype=torch.bfloat16,
                               pipeline_dtype=torch.bfloat16, tensor_model_parallel_size=TENSOR, pipeline_model_parallel_size=PIPELINE,
                               gradient_accumulation_fusion=False, masked_softmax_fusion=False, bias_dropout_fusion=False,
                               bias_activation_fusion=False)
    stage = GPTModel(config, get_gpt_layer_local_spec(), vocab_size=WORDS, max_sequence_length=LENGTH,
                     pre_process=parallel_state.is_pipeline_first_stage(), post_process=parallel_state.is_pipeline_last_stage()).cuda()
    model = DistributedDataParallel(config, DistributedDataParallelConfig(use_distributed_optimizer=True), Float16Module(config, stage))
    config.finalize_model_grads_func = finalize_model_grads
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=1e-3, bf16=True, params_dtype=torch.bfloat16, use_distributed_optimizer=True, clip_grad=1.0), [model])
    step = get_forward_backward_func()
    for _ in range(3):
        model.zero_grad_buffer()
        optimizer.zero_grad()
        losses = step(forward_step_func=forward, data_iterator=batches(), model=[model], num_microbatches=4, seq_length=LENGTH,
                      micro_batch_size=BATCH, forward_only=False)
        updated, norm, _ = optimizer.step()
        print("loss", [each["loss"].item() for each in losses], "norm", norm, "updated", updated)
    torch.distributed.destroy_process_group()


main()
