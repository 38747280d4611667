"""The tables of claims in cases/README.md: every variant, parameter, size, verdict and file that they name exists, and every variant stands in one."""
import json
import re

from command import ROOT, passes

README = ROOT / "cases" / "README.md"
KINDS = re.findall(r'"(\w+)"', re.search(r"kVerdictKinds\[\] = {(.*?)}", (ROOT / "harness/record/verdict_kind.h").read_text(), re.S)[1])


def section_of(text):
    return text.split("## The claims of the reports\n")[1].split("\n## ")[0]


def tables(text):
    """Of each scenario: the sources in its heading, and its rows of two cells."""
    for section in section_of(text).split("\n### ")[1:]:
        heading, *lines = section.splitlines()
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]
        yield re.match("`(.*?)`", heading)[1], re.findall(r"[\w.-]+/[\w.-]+#\d+", heading), rows


def has(scenario, word):
    """Whether the word is a variant, a size, a symbol, a parameter with a value, a kind of verdict, or a file."""
    if "=" in word:
        key, value = word.split("=", 1)
        parameter = {one["name"]: one for one in scenario["parameters"]}.get(key, {"values": []})
        return value in parameter["values"] if "values" in parameter else parameter["low"] <= int(value) <= parameter["high"]
    names = {one["name"] for part in ("variants", "sizes", "symbols") for one in scenario[part]}
    return word in names | {"snapshot/", "summary.md"} or ("/" in word and word.split("/")[0] in KINDS) or (ROOT / "cases" / word).is_file()


def faults(text, scenarios):
    """What is wrong with the tables, a line each."""
    known = {scenario["name"]: scenario for scenario in scenarios}
    for name, sources, rows in tables(text):
        scenario = known[name]
        if not rows or not sources or not set(sources) <= {source["name"] for source in scenario["seen"]}:
            yield f"{name}: no rows, or {sources} are not sources of the scenario"
        words = [re.findall("`(.*?)`", row[-1]) for row in rows]
        for row, own in zip(rows, words):
            if len(row) != 2 or not all(row):
                yield f"{name}: an empty cell in {row}"
            yield from (f"{name}: `{word}` is nothing that it has" for word in own if not has(scenario, word))
            yield from (f"{name}: `{size}` is no size" for size in re.findall("size `(.*?)`", row[-1]) if size not in [one["name"] for one in scenario["sizes"]])
            for variant in scenario["variants"]:
                if variant["role"] == "control" and variant["name"] in own and not any(word.startswith(variant["caught_by"].split("/")[0] + "/") for word in own):
                    yield f"{name}: `{variant['name']}` without what must catch it ({variant['caught_by']})"
        yield from (f"{name}: `{variant['name']}` stands for no claim" for variant in scenario["variants"] if variant["name"] not in sum(words, []))
    told = [name for name, *_ in tables(text)]
    if sorted([*told, "ddp_bucket_view"]) != sorted(known):
        yield f"tables of {told}, scenarios {list(known)}"


# holds: cases/README.md, The claims of the reports
def test_what_the_claims_name_exists():
    scenarios = json.loads(passes("list --json").stdout)
    text = README.read_text()
    assert list(faults(text, scenarios)) == []
    tried = 0
    for row in section_of(text).splitlines():
        for word in re.findall("`(.*?)`", row.split("|")[2]) if row.startswith("| ") and "claim of the report" not in row else ():
            if "/" in word or "." in word:
                continue
            assert list(faults(text.replace(row, row.replace(f"`{word}`", f"`{word}x`")), scenarios)), f"`{word}x` in {row}"
            tried += 1
        if row.startswith("| ") and "claim of the report" not in row:
            assert list(faults(text.replace(row, f"|{row.split('|')[1]}| |"), scenarios)), f"nothing beside {row}"
    assert tried > 50, tried
