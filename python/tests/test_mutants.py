"""Each example fails when what it tests is broken: one change of its text, and the verdict that must catch it. TIDEMARK_TEST_DRAW chooses a part of them."""
import os
import re
from pathlib import Path

import pytest
from test_outcomes import run

EXAMPLES = Path(__file__).parent.parent / "examples"
MUTANTS = [  # test, text, instead, what the failure says
    ("test_fsdp2.py::test_reshard_after_forward_keeps_one_layer", "sharded(reshard_after_forward=True), batch", "sharded(reshard_after_forward=False), batch",
     "memory/kept - resharded"),
    ("test_fsdp2.py::test_each_layer_of_prefetch_is_a_buffer", "i + 1 + depth]", "i + 1 + min(depth, 2)]", "memory/depth 3 - depth 1"),
    ("test_fsdp2.py::test_one_rank_of_512_holds_its_rows", "    for layer in model:\n        fully_shard(layer, **options)\n    fully_shard(model)\n", "", "memory/held"),
    ("test_parallel.py::test_tensor_parallel_keeps_its_own_rows", "        return gather(part) @ weight.t()",
     "        ctx.whole = gather(part)\n        return ctx.whole @ weight.t()", "memory/forward"),
    ("test_parallel.py::test_bucket_views_halve_gradients[1]", "gradient_as_bucket_view=bool(views)", "gradient_as_bucket_view=False", "memory/gradients and buckets"),
    ("test_activations.py::test_checkpointing_keeps_inputs_alone", "checkpoint(layer, y, use_reentrant=False)", "layer(y)", "memory/checkpointed"),
    ("test_activations.py::test_frozen_layers_have_no_activations_and_gradients", "requires_grad_(i >= frozen)", "requires_grad_(True)", "memory/forward"),
    ("test_activations.py::test_outputs_that_were_sent_keep_no_data", "            sent.data = torch.empty(1, device=\"cuda\")\n", "", "memory/warm-up"),
    ("test_optimizer.py::test_temporaries_of_adamw[fused-0]", "fused=kind == \"fused\"", "fused=False", "memory/requested/step/rise"),
    ("test_optimizer.py::test_accumulation_adds_in_place", "    for i in range(3):\n", "    kept = []\n    for i in range(3):\n        kept.append(layers[0].weight * 1)\n",
     "memory/gradients after microbatch"),
    ("test_optimizer.py::test_unscaling_is_in_place", "            scaler.unscale_(optimizer)\n",
     "            copies = [parameter.grad.clone() for parameter in layers.parameters()]\n            scaler.unscale_(optimizer)\n", "memory/requested/unscale/rise"),
    ("test_streams.py::test_buffers_of_a_copy_stream", "elif variant == \"wait\":", "elif False:", "races/none wait"),
    ("test_rest.py::test_an_error_leaves_nothing", "self.errors.append(str(error))", "self.errors.append(error)", "rest/step that fails"),
    ("test_rest.py::test_steps_do_not_grow", "            loss.backward()\n", "            loss.backward()\n            self.errors.append(loss)\n", "rest/step"),
]
if draw := os.environ.get("TIDEMARK_TEST_DRAW"):
    MUTANTS = MUTANTS[int(draw) % 8::8]


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Of each mutant its outcome, and what pytest prints of it. One pytest runs all of them."""
    folder, nodes = tmp_path_factory.mktemp("mutants"), []
    for number, (test, text, instead, _) in enumerate(MUTANTS):
        name, node = test.split("::")
        original = (EXAMPLES / name).read_text()
        assert text in original, f"the mutant of {test} no longer fits the example"
        path = folder / f"{Path(name).stem}_{number}.py"
        path.write_text(original.replace(text, instead))
        nodes.append(f"{path}::{node}")
    outcomes, output, code = run(folder, *nodes)
    assert code == 1, output
    return {name: (outcomes[name][0], text) for name, text in re.findall(r"(?ms)^_{3,} (test_\S+) _{3,}\n(.*?)(?=^_{3,} |^={3,} |\Z)", output)}


@pytest.mark.parametrize("test, verdict", [(test, verdict) for test, _, _, verdict in MUTANTS], ids=[test.split("::")[1] for test, *_ in MUTANTS])
def test_mutant_fails(seen, test, verdict):
    outcome, output = seen.get(test.split("::")[1], ("none", ""))
    assert outcome == "failure" and f"FAIL {verdict}" in output, f"{outcome}: {output}"
