"""Edits of the sources of torch.distributed.pipelining, applied as they are imported: the variants, and PyTorch's habits."""
import importlib
import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

# An edit: module, what stands there (or what stands there in another release), what comes instead.
KEEPS_ALL_OUTPUTS = [("stage", "        if self.is_last and save_forward_output:\n            self.output_chunks.append(output)",
                      "        self.output_chunks.append(output)")]  # 2.6.0 keeps every stage's outputs, 2.11.0 the last one's
NO_DETACH = [("_backward", "    for t in stage_outputs_or_loss:\n        t.detach_()\n", ""),
             ("stage", ("                if not t._is_view():  # views are not detachable in-place\n                    t.detach_()\n",
                        "            for t in stage_output:\n                t.detach_()\n"), "                pass\n")]
NO_CLEANING = [("_backward", "    for handle in handles:\n        handle.remove()\n", ""),
               ("_backward", '        del param_group["intermediates"]\n', ""),
               ("_backward", ('            del param_group["grads"]\n', '        del param_group["grads"]\n'), "")]
VARIANTS = {"hook_cycle": NO_CLEANING, "hooks_alone": NO_DETACH, "hooks_detach_outputs_loss": NO_DETACH[1:],
            "hooks_detach_last": NO_DETACH[:1], "drop_grads_hooks": [],
            "hooks_alone_keep_grads": NO_DETACH + NO_CLEANING[2:], "keep_grads": NO_CLEANING[2:]}

# Habits of 2.11.0 that this program does not have, by name. "merged_logits" is no edit: program.py does it.
HABITS = {
    "received_gradient": [  # an input's gradient stays on its receive buffer until the next step
        ("_backward", "    for inp, dinput in zip(input_values, dinputs):", "    for inp, dinput in []:")],
    "summed_copy": [  # sum() begins with 0, so a captured gradient is copied
        ("_backward", "summed_grad = sum(non_none_grads)", "(summed_grad,) = non_none_grads")],
    "loop_variables": [  # the last group's weight gradients live on while the next group runs
        ("_backward", "                    weight.grad += dw\n", "                    weight.grad += dw\n            del dweights, dw\n")],
    "merged_logits": [],  # the outputs of the last stage are merged when the step ends: a second copy of all logits
    "sent_gradient": [  # 1F1B alone: a gradient that was sent lives until the next one is to be sent
        ("schedules", 'desc="bwd_send_fwd_recv"))\n', 'desc="bwd_send_fwd_recv"))\n            bwd_sends.clear()\n'),
        ("schedules", '_batch_p2p(bwd_sends, desc="bwd_send")', '_batch_p2p(bwd_sends, desc="bwd_send"); bwd_sends.clear()')],
    "handed_over": [  # ZB-V alone: what a rank hands to itself stays on the receiving stage until the next step
        ("stage", "            info.buffer = tensor.detach().requires_grad_(True)\n",
         "            info.buffer = tensor.detach().requires_grad_(True)\n            info.handed_over = True\n"),
        ("stage", "            info.buffer = tensor\n", "            info.buffer = tensor\n            info.handed_over = True\n"),
        ("stage", "                return info.buffer\n",
         "                buffer = info.buffer\n"
         "                if getattr(info, 'handed_over', False):\n"
         "                    info.buffer = torch.empty(0, device='meta')\n"
         "                return buffer\n")],
}


class Edited(SourceFileLoader):
    """Compiles the source with the edits of its module; never reads or writes bytecode."""

    def __init__(self, name, path, edits):
        super().__init__(name, path)
        self.edits = edits

    def get_code(self, fullname):
        text = self.get_source(fullname)
        for module, old, new in self.edits:
            if module != fullname.rpartition(".")[2]:
                continue
            found = [one for one in ((old,) if isinstance(old, str) else old) if one in text]
            if not found:
                sys.exit(f"error: {self.path} has no longer: {old!r}")
            text = text.replace(found[0], new)
        return compile(text, self.path, "exec", dont_inherit=True)


def install(edits):
    """Imports torch.distributed.pipelining with these edits."""
    package = "torch.distributed.pipelining"
    folder = Path(importlib.util.find_spec(package).submodule_search_locations[0])

    class Finder:
        @staticmethod
        def find_spec(name, _path=None, _target=None):
            if name != package and not name.startswith(package + "."):
                return None
            file = folder / (name[len(package) + 1:] or "__init__")
            return importlib.util.spec_from_file_location(name, f"{file}.py", loader=Edited(name, f"{file}.py", edits),
                                                          submodule_search_locations=[str(folder)] if name == package else None)

    sys.meta_path.insert(0, Finder)
    return importlib.import_module(package)
