"""Edits of the sources of torch.distributed.pipelining, applied as they are imported: the variants that take back what released code does."""
import importlib
import sys
from importlib.machinery import PathFinder, SourceFileLoader

PACKAGE = "torch.distributed.pipelining"
# An edit: module, what stands there (or what stands there in another release), what comes instead.
NO_DETACH = [("_backward", "    for t in stage_outputs_or_loss:\n        t.detach_()\n", ""),
             ("stage", ("                if not t._is_view():  # views are not detachable in-place\n                    t.detach_()\n",
                        "            for t in stage_output:\n                t.detach_()\n"), "                pass\n")]
NO_CLEANING = [("_backward", "    for handle in handles:\n        handle.remove()\n", ""),
               ("_backward", '        del param_group["intermediates"]\n', ""),
               ("_backward", ('            del param_group["grads"]\n', '        del param_group["grads"]\n'), "")]
VARIANTS = {"hook_cycle": NO_CLEANING, "hooks_alone": NO_DETACH, "hooks_detach_outputs_loss": NO_DETACH[1:],
            "hooks_detach_last": NO_DETACH[:1], "drop_grads_hooks": []}


class Edited(SourceFileLoader):
    """Compiles the source with the edits of its module; never reads or writes bytecode."""
    edits = []

    def get_code(self, fullname):
        text = self.get_source(fullname)
        for module, old, new in self.edits:
            if module != fullname.rpartition(".")[2]:
                continue
            matches = [one for one in ((old,) if isinstance(old, str) else old) if one in text]
            if not matches:
                sys.exit(f"error: {self.path} has no longer: {old!r}")
            text = text.replace(matches[0], new)
        return compile(text, self.path, "exec", dont_inherit=True)

    @classmethod
    def find_spec(cls, name, path=None, _target=None):
        spec = PathFinder.find_spec(name, path) if name.startswith(PACKAGE + ".") else None
        if spec:
            spec.loader = cls(name, spec.origin)
        return spec


def install(edits):
    """Imports torch.distributed.pipelining with these edits; without any, as it is installed."""
    if edits:
        Edited.edits = edits
        sys.meta_path.insert(0, Edited)
    return importlib.import_module(PACKAGE)
