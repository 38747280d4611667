"""Blocks of this process, by kind, module and line: read from the record of its memory, by `tidemark snapshot show`."""
from __future__ import annotations

import ctypes
import glob
import json
import os
import subprocess
from typing import Any

from tidemark.executable import executable
from tidemark.verdict import Misuse

OURS = ("TIDEMARK", "LD_PRELOAD", "PYTHONPATH")


def record() -> str:
    """The record of this process under `tidemark exec`; "" before it uses CUDA."""
    records = glob.glob(os.path.join(glob.escape(os.environ.get("TIDEMARK_EXEC", "")), f"{os.getpid()}*.record"))
    return max(records, key=os.path.getmtime, default="")


def devices() -> list[dict[str, Any]]:
    """`tidemark snapshot show --format json` of this process, a device an entry. Raises Misuse where there is no answer."""
    path = record()
    if not path:
        return []
    layer = ctypes.PyDLL(None)
    layer.tidemark_record_end(1)  # so that the record has all that is known until now,
    layer.tidemark_record_end(0)  # and goes on
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    done = subprocess.run([executable(), "snapshot", "show", path, "--format", "json"], capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise Misuse(f"tidemark: the blocks of this process cannot be read: {done.stderr.strip()}")
    return json.loads(done.stdout)["devices"]


def kinds() -> dict[str, int]:
    """Bytes as requested that are alive at the highest peak of active memory, by kind; they sum to it."""
    bytes_by_kind: dict[str, int] = {}
    for device in devices():
        for part in device.get("parts", ()):
            bytes_by_kind[part["kind"]] = bytes_by_kind.get(part["kind"], 0) + part["bytes"]
    return dict(sorted(bytes_by_kind.items()))


def at_peak() -> dict[str, Any] | None:
    """What is alive at the highest peak of active memory, on the device where it is highest, as a report has it (`alive` of a trial: where, active, reserved,
    parts); None where there is nothing."""
    device = max(devices(), key=lambda one: one["peak"]["active"], default=None)
    if device is None or not device.get("parts"):
        return None
    parts = [{"line" if name == "site" else name: part[name] for name in ("kind", "module", "site", "count", "bytes")} for part in device["parts"]]
    return {"where": f"rank {os.environ.get('RANK', 0)}", "active": sum(part["bytes"] for part in parts), "reserved": device["peak"]["reserved"],
            "parts": sorted(parts, key=lambda part: -part["bytes"])}


def text(alive: dict[str, Any], count: int = 10) -> str:
    """The largest parts of at_peak(), a line each."""
    parts = alive["parts"]
    lines = [f"{part['bytes']:>18,} bytes in {part['count']} block{'s' if part['count'] > 1 else ''}, {part['kind']}: "
             + ", ".join(filter(None, [part["module"], part["line"]])) for part in parts[:count]]
    if len(parts) > count:
        lines.append(f"{sum(part['bytes'] for part in parts[count:]):>18,} bytes in {len(parts) - count} more lines")
    return "\n".join(lines)
