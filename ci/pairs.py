"""A table of HTML of a file of Google Benchmark that tidemark has written (benchmark.json of a run, tidemark bench), for the index of a night:
ci/pairs.py benchmark.json [TEXT]: the rows with this text in their names, or where there are none all. Its counters are described in reports/benchmark.h."""
import html
import json
import sys

PEAKS = ("peak_requested", "peak_allocated", "peak_active", "peak_reserved")


def cells(row):
    if row.get("error_occurred"):
        return [row["error_message"]]
    time = f"{row['real_time']:.3f} {row['time_unit']}" if row["real_time"] > 0 else "-"
    return [*(f"{row[name] / 2**20:,.1f}" for name in PEAKS), f"{row['collectives']:g}", f"{row['collective_bytes'] / 2**20:,.1f}", f"{row['retries']:g}", time, row["label"]]


def table(file, text):
    rows = [row for row in file["benchmarks"] if text in row["name"]] or file["benchmarks"]
    lines = [f"<p>Time: {html.escape(file['context']['tidemark_time'])}.</p><table>", "<tr><th>benchmark</th>" + "".join(
        f"<th>{name}</th>" for name in ("requested, MiB", "allocated, MiB", "active, MiB", "reserved, MiB", "collectives a step", "of MiB", "retries", "step", "")) + "</tr>"]
    for row in rows:
        name = html.escape(row["name"].removesuffix("/manual_time"))
        lines.append(f"<tr><td>{name}</td>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells(row)) + "</tr>")
    return "\n".join([*lines, "</table>"])


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as opened:
        print(table(json.load(opened), "".join(sys.argv[2:])))
