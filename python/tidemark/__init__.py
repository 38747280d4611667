"""Memory tests of PyTorch programs without a GPU: what a test's decorators say. torch is not imported here."""
from tidemark.settings import as_rank, capacity, devices, gpu, mode, races, ranks, schedule, sizes, timeout
from tidemark.fit import fit
from tidemark.pairs import pair

__all__ = ["as_rank", "capacity", "devices", "fit", "gpu", "mode", "pair", "races", "ranks", "schedule", "sizes", "timeout"]
