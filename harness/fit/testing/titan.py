"""titan.py WORDS...: torchtitan 0.2.2's own trainer with random tokens and its Llama models (the flavor llama3_random), as `ci/scale` runs it; WORDS are its own."""
import dataclasses
import sys

sys.argv = ["train.py", "--model.name=llama3_random", *sys.argv[1:]]  # which torchtitan reads when it is imported
import torch
import torchtitan.protocols.train_spec as specs
from torchtitan.models import llama3
from torchtitan.train import Trainer, main


class Tokens:
    def __init__(self, training, model):
        self.shape, self.vocabulary = (training.local_batch_size, training.seq_len + 1), model.vocab_size

    def __iter__(self):
        while True:
            tokens = torch.randint(0, self.vocabulary, self.shape)
            yield {"input": tokens[:, :-1]}, tokens[:, 1:]

    def state_dict(self):
        return {}


def loader(job_config, **_):
    return Tokens(job_config.training, SPEC.model_args[job_config.model.flavor])


SPEC = llama3.get_train_spec()
specs.register_train_spec("llama3_random", dataclasses.replace(SPEC, build_tokenizer_fn=None, build_dataloader_fn=loader))
main(Trainer)
