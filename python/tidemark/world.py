"""The fixture `world`."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class World:
    """The default process group of a test, of NCCL: this process's rank, the number of ranks, and its device."""

    rank: int
    size: int
    device: torch.device
