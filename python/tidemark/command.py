"""The command `tidemark` of the wheel: becomes the executable that the wheel brings."""
import os
import sys

from tidemark import launch
from tidemark.formula import Misuse


def main():
    try:
        found = launch.executable(on_path=False)
    except Misuse as error:
        sys.exit(f"error: {error}")
    os.execv(found, ["tidemark", *sys.argv[1:]])
