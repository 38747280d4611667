"""Tensors that autograd keeps: checkpointing, frozen layers, outputs of a pipeline stage."""
import torch
from torch.utils.checkpoint import checkpoint

LAYERS, ROWS, WIDTH, INNER = 4, 64, 256, 1024
b, f = 4 * ROWS * WIDTH, 4 * ROWS * INNER  # bytes of a block's output, and of what is inside of it


def blocks(count=LAYERS):
    return torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(WIDTH, INNER, bias=False), torch.nn.ReLU(),
                                                   torch.nn.Linear(INNER, WIDTH, bias=False)) for _ in range(count)).cuda()


def kept(memory, name):
    """Requested bytes at the end of a phase above its start."""
    return memory.value(name, memory.end(name).requested - memory.occurrences(name)[-1].start["requested"])


def test_checkpointing_keeps_inputs_alone(memory):
    """A block keeps ReLU's output, of which the second layer needs the same tensor, and its own output is the next one's input. With
    checkpointing the former is made again."""
    layers, x = blocks(), torch.randn(ROWS, WIDTH, device="cuda")

    def forward(run):
        y = x
        for layer in layers:
            y = run(layer, y)
        return y

    forward(lambda layer, y: layer(y)).sum().backward()
    with memory.phase("plain"):
        y = forward(lambda layer, y: layer(y))
    kept(memory, "plain").equals("L*(b + f)", L=LAYERS, b=b, f=f)
    del y
    with memory.phase("checkpointed"):
        y = forward(lambda layer, y: checkpoint(layer, y, use_reentrant=False))
    kept(memory, "checkpointed").equals("L*b", L=LAYERS, b=b)


def test_frozen_layers_have_no_activations_and_gradients(memory):
    """Layers before the first trained one are not in the graph; a trained layer keeps its input and gets a gradient."""
    trained, frozen = 2, 3
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False).cuda().requires_grad_(i >= frozen) for i in range(frozen + trained)]
    x = torch.randn(ROWS, WIDTH, device="cuda")

    def forward():
        y = x
        for layer in layers:
            y = layer(y)
        return y

    forward().sum().backward()
    for layer in layers:
        layer.weight.grad = None
    with memory.phase("forward"):
        y = forward()
    kept(memory, "forward").equals("(T + 1)*b", T=trained, b=b)  # the inputs of the trained layers, and y
    with memory.phase("backward"):
        y.sum().backward()
    kept(memory, "backward").equals("T*w - T*b", T=trained, w=4 * WIDTH * WIDTH, b=b)


def test_outputs_that_were_sent_keep_no_data(memory):
    """A pipeline stage with M microbatches under way keeps each one's input for the backward. Its output was sent: of that the graph alone is
    needed, so its data are replaced by one element."""
    stage, microbatches = torch.nn.Linear(WIDTH, WIDTH, bias=False).cuda(), 5
    stage(torch.randn(ROWS, WIDTH, device="cuda")).sum().backward()
    under_way = []
    with memory.phase("warm-up of the pipeline"):
        for _ in range(microbatches):
            received = torch.empty(ROWS, WIDTH, device="cuda", requires_grad=True)
            sent = stage(received)
            sent.data = torch.empty(1, device="cuda")
            under_way.append((received, sent))
    kept(memory, "warm-up of the pipeline").equals("M*(b + 4)", M=microbatches, b=b)
    for received, sent in under_way:
        torch.autograd.Variable._execution_engine.run_backward((sent,), (torch.ones(ROWS, WIDTH, device="cuda"),), False, False, (),
                                                               allow_unreachable=True, accumulate_grad=True)
        assert received.grad is not None
