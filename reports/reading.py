"""report.json as it was before its repetitions were taken out and its details put into files (tidemark report --schema says how)."""
import gzip
import json
from pathlib import Path


def read(folder, details=False):
    """The report of a run's folder; with what details/ holds, where that is asked for."""
    report = json.loads((Path(folder) / "report.json").read_text(encoding="utf-8"))
    shared = report.pop("shared", None)

    def whole(value):
        if isinstance(value, str) and value.startswith("$") and shared is not None:
            return value[1:] if value.startswith("$$") else inside(shared[int(value[1:])])
        return inside(value)

    def inside(value):
        if isinstance(value, dict):
            return {key: whole(item) for key, item in value.items()}
        return [whole(item) for item in value] if isinstance(value, list) else value

    report["trials"] = whole(report["trials"])
    for variant in (variant for trial in report["trials"] for variant in trial["variants"] if details):
        for file in variant.get("files", []):
            if file["what"] == "details":
                more = json.loads(gzip.decompress(Path(folder, file["path"]).read_bytes()))
                variant["gradients"] = more["gradients"]
                for rank, of_rank in zip(variant["ranks"], more["ranks"], strict=True):
                    rank.update(of_rank)
    return report
