"""Memory that is left after an error, and over steps."""
import torch

WIDTH = 512


class Trainer:
    """Goes on after a step that ends in an error."""

    def __init__(self):
        self.model = torch.nn.Linear(WIDTH, WIDTH, bias=False).cuda()
        self.errors = []

    def step(self, rows, broken=False):
        try:
            loss = self.model(torch.randn(rows, WIDTH, device="cuda")).sum()
            if broken:
                raise FloatingPointError("the loss is not finite")
            loss.backward()
        except FloatingPointError as error:
            self.errors.append(str(error))  # and not the error: its traceback holds the step's tensors
        finally:
            self.model.zero_grad()


def test_an_error_leaves_nothing(memory):
    trainer = Trainer()
    trainer.step(64)
    with memory.rest("step that fails"):
        trainer.step(64, broken=True)
    assert trainer.errors == ["the loss is not finite"]


def test_steps_do_not_grow(memory):
    trainer = Trainer()
    for _ in memory.steps(4):
        trainer.step(64)
    memory.returns_to_rest()
    memory.no_growth()
