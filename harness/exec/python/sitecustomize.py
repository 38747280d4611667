"""The first module of every Python under `tidemark exec`: gets tidemark's part ready, then the user's own sitecustomize."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
if os.environ.get("TIDEMARK_EXEC"):
    import gc

    # As tidemark_collector.seen(), whose import makes objects too.
    before = gc.isenabled(), gc.get_count()[0], set(map(id, gc.get_objects()))
    gc.disable()
    import tidemark_collector
    import tidemark_exec

    tidemark_exec.wait_for_torch()
    tidemark_collector.forget_since(before)
    del before
sys.path[:] = [place for place in sys.path if os.path.abspath(place or ".") != HERE]
ours = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize  # noqa: F401  # the user's
except ModuleNotFoundError as error:
    if error.name != "sitecustomize":
        raise
    if ours is not None:
        sys.modules["sitecustomize"] = ours
