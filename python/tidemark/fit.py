"""`tidemark fit` from Python: which values of a program's variables fit which GPU."""
from __future__ import annotations

import html
import json
import os
import subprocess
import tempfile
from typing import Any, Mapping, Optional, Sequence, Union

from tidemark.executable import executable

COLUMNS = ("gpu", "answer", "largest", "next", "reserved", "capacity", "missing", "worst", "retries")


class Fit:
    """The result: `rows` is a list of dictionaries, one for each combination and GPU; bytes are numbers. `record` is the whole JSON, `text` what the
    command printed. A notebook shows the table."""

    def __init__(self, record: dict[str, Any], text: str, exit_code: int) -> None:
        self.record, self.text, self.exit_code = record, text, exit_code
        self.rows = [self.row(answer) for answer in record["answers"]]

    @staticmethod
    def row(answer: dict[str, Any]) -> dict[str, Any]:
        run = answer.get("run") or {}
        return {**answer["values"], "gpu": answer["gpu"], "answer": answer["verdict"], "largest": answer.get("largest"), "next": answer.get("next"),
                "reserved": run.get("reserved"), "capacity": answer["capacity_bytes"], "missing": answer.get("missing_bytes"), "worst": run.get("worst"),
                "retries": run.get("retries")}

    def largest(self, gpu: str) -> Optional[dict[str, Any]]:
        """The row of a GPU with the largest value that fits, or None."""
        values = next((variable["values"] for variable in self.record["variables"] if variable["searched"]), [])
        rows = [row for row in self.rows if row["gpu"] == gpu and row["answer"] == "fits"]
        return max(rows, key=lambda row: values.index(row["largest"]) if row["largest"] else 0, default=None)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        columns = [variable["name"] for variable in self.record["variables"] if not variable["searched"]] + list(COLUMNS)

        def cell(row: dict[str, Any], column: str) -> str:
            value = row.get(column)
            text = f"{value / 2**30:.2f} GiB" if column in ("reserved", "capacity", "missing") and value is not None else "" if value is None else str(value)
            return f"<td>{html.escape(text)}</td>"

        head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
        body = "".join("<tr>" + "".join(cell(row, column) for column in columns) + "</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def values_of(values: Union[str, range, Sequence[Any]]) -> str:
    return values if isinstance(values, str) else f"{values.start}..{values[-1]}:{values.step}" if isinstance(values, range) and len(values) else ",".join(map(str, values))


def fit(command: Sequence[Any], vary: Mapping[str, Union[str, range, Sequence[Any]]], gpu: Union[str, Sequence[str]] = "h100-80g", **flags: Any) -> Fit:
    """Runs `tidemark fit`. `command` is a list of words with {name} in them; `vary` maps a name to a range(...), a list, or a text as --vary has it;
    `gpu` is a name or a list; each further argument is a flag (as_rank=[0, 511], of=512, until_steady=False). Returns a Fit. Raises ValueError with the
    line of the command if the input is wrong, and RuntimeError if it failed."""
    words = [executable(), "fit"]
    for name, values in vary.items():
        words += ["--vary", f"{name}={values_of(values)}"]
    words += ["--gpu", gpu if isinstance(gpu, str) else ",".join(gpu)]
    for name, value in flags.items():
        flag = name.replace("_", "-")
        words += [f"--{flag}" if value else f"--no-{flag}"] if isinstance(value, bool) else [f"--{flag}", value if isinstance(value, str) else
                                                                                            ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)]
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "fit.json")
        done = subprocess.run([*map(str, words), "--out", out, "--", *map(str, command)], capture_output=True, text=True, check=False)
        if not os.path.exists(out):
            line = (done.stderr.strip().splitlines() or ["tidemark fit has said nothing"])[-1].removeprefix("error: ")
            raise ValueError(line) if done.returncode == 2 else RuntimeError(line)
        with open(out, encoding="utf-8") as file:
            return Fit(json.load(file), done.stdout, done.returncode)
