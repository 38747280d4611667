"""Edits of the sources of torch.distributed.pipelining, applied as they are imported: the variants that take back what released code does."""
import importlib
import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

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
    """Imports torch.distributed.pipelining with these edits; without any, as it is installed."""
    package = "torch.distributed.pipelining"
    if not edits:
        return importlib.import_module(package)
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
