"""Blocks of this process, by kind, module and line: read from the record of its memory, by `tidemark snapshot show`."""
from __future__ import annotations

import ctypes
import glob
import json
import os
import subprocess
from typing import Any

from tidemark import launch
from tidemark.formula import Misuse

OURS = ("TIDEMARK", "LD_PRELOAD", "PYTHONPATH")


def record() -> str:
    """The record of this process under `tidemark exec`; "" before it uses CUDA."""
    found = glob.glob(os.path.join(glob.escape(os.environ.get("TIDEMARK_EXEC", "")), f"{os.getpid()}*.record"))
    return max(found, key=os.path.getmtime, default="")


def devices() -> list[dict[str, Any]]:
    """`tidemark snapshot show --format json` of this process, a device an entry. Raises Misuse where there is no answer."""
    path = record()
    if not path:
        return []
    layer = ctypes.PyDLL(None)
    layer.tidemark_record_end(1)  # so that the record has all that is known until now,
    layer.tidemark_record_end(0)  # and goes on
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    done = subprocess.run([launch.executable(), "snapshot", "show", path, "--format", "json"], capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise Misuse(f"tidemark: the blocks of this process cannot be read: {done.stderr.strip()}")
    return json.loads(done.stdout)["devices"]


def kinds() -> dict[str, int]:
    """Bytes as requested that are alive at the highest peak of active memory, by kind; they sum to it."""
    found: dict[str, int] = {}
    for device in devices():
        for part in device.get("parts", ()):
            found[part["kind"]] = found.get(part["kind"], 0) + part["bytes"]
    return dict(sorted(found.items()))


def largest_or_why(count: int) -> str:
    """The same for a failure, which this must not hide."""
    try:
        return largest(count)
    except (Misuse, OSError, ValueError) as error:
        return f"not known: {error}"


def largest(count: int = 10) -> str:
    """The largest groups of blocks at the highest peak, by module and line: a line each; "" where there is none."""
    parts = sorted((part for device in devices() for part in device.get("parts", ())), key=lambda part: -part["bytes"])
    lines = [f"{part['bytes']:>18,} bytes in {part['count']} block{'s' if part['count'] > 1 else ''}, {part['kind']}: "
             + ", ".join(filter(None, [part["module"], part["site"]])) for part in parts[:count]]
    if len(parts) > count:
        lines.append(f"{sum(part['bytes'] for part in parts[count:]):>18,} bytes in {len(parts) - count} more lines")
    return "\n".join(lines)
