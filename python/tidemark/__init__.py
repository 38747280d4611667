"""Memory of PyTorch programs on a virtual GPU, without a GPU: decorators of memory tests, and `run` for a program. torch is not imported here."""
from tidemark.fit import fit
from tidemark.memory import Figures, Measured, Memory
from tidemark.pairs import pair
from tidemark.program import Run, load_ipython_extension, run
from tidemark.settings import as_rank, capacity, devices, gpu, limit, limit_growth, mode, races, ranks, schedule, sizes, timeout
from tidemark.verdict import Misuse
from tidemark.version import __version__
from tidemark.world import World

__all__ = ["Figures", "Measured", "Memory", "Misuse", "Run", "World", "__version__", "as_rank", "capacity", "devices", "fit", "gpu", "limit", "limit_growth", "load_ipython_extension", "mode", "pair", "races", "ranks", "run", "schedule",
           "sizes", "timeout"]
