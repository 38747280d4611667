"""The versions that the indexes of uv have of a package, in the order of PEP 440."""
import base64
import html.parser
import json
import re
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import tidemark_files
from tidemark_uv import Stop, canonical, frozen, pin, short, uv

VERSION = re.compile(r"v?(?:(\d+)!)?(\d+(?:\.\d+)*)(?:[-_.]?(alpha|a|beta|b|preview|pre|c|rc)[-_.]?(\d*))?(?:[-_.]?(?:post|rev|r)[-_.]?(\d*)|-(\d+))?"
                     r"([-_.]?dev[-_.]?(\d*))?(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?", re.I)


def order(version):
    """A key by which versions are in the order of PEP 440; None for a text that is no version."""
    match = VERSION.fullmatch(version.strip())
    if match is None:
        return None
    epoch, release, pre, pre_number, post, post_bare, dev, dev_number, _ = match.groups()
    numbers = [int(one) for one in release.split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    after = int(post or 0) if post is not None else int(post_bare) if post_bare else -1
    letter = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}.get((pre or "").lower(), (pre or "").lower())
    before = (letter, int(pre_number or 0)) if pre else ("", 0) if dev and after < 0 else ("z", 0)
    return int(epoch or 0), numbers, before, after, int(dev_number or 0) if dev else float("inf")


def is_final(version):
    match = VERSION.fullmatch(version)
    return match is not None and not match[3] and not match[7] and not match[9]


class Links(html.parser.HTMLParser):
    """The files of a page of an index: PEP 503."""

    def __init__(self):
        super().__init__()
        self.files = []

    def handle_starttag(self, tag, attrs):
        facts = dict(attrs)
        if tag == "a" and facts.get("href"):
            name = urllib.parse.unquote(urllib.parse.urlsplit(facts["href"]).path.rsplit("/", 1)[-1])
            self.files.append({"filename": name, "yanked": facts["data-yanked"] or True if "data-yanked" in facts else False})


def sources():
    """(addresses of indexes, folders or pages of files), as uv is set up."""
    with tempfile.NamedTemporaryFile("r", suffix=".txt") as empty:
        said = uv("pip", "compile", "--no-header", "--emit-index-url", "--emit-find-links", empty.name)
    indexes = re.findall(r"^--(?:extra-)?index-url (\S+)", said, re.M)
    return indexes, re.findall(r"^--find-links (.+)$", said, re.M)


def page_of(address):
    """The files that an index has of a package; none where it has no such package. Raises OSError."""
    if address.startswith("file:"):
        place = Path(urllib.request.url2pathname(urllib.parse.urlsplit(address).path))
        for file in (place / "index.json", place / "index.html"):
            if file.is_file():
                return files_of(file.read_text(), file.suffix == ".json")
        return []
    facts = urllib.parse.urlsplit(address)
    headers = {"Accept": "application/vnd.pypi.simple.v1+json, text/html;q=0.5", "User-Agent": "tidemark"}
    if facts.username:
        words = f"{urllib.parse.unquote(facts.username)}:{urllib.parse.unquote(facts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(words.encode()).decode()
        address = facts._replace(netloc=facts.netloc.rsplit("@", 1)[1]).geturl()
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=60) as answer:  # noqa: S310
            return files_of(answer.read().decode(), "json" in answer.headers.get("Content-Type", ""))
    except urllib.error.HTTPError as error:
        if error.code in (403, 404):
            return []
        raise


def files_of(text, is_json):
    if is_json:
        return json.loads(text)["files"]
    links = Links()
    links.feed(text)
    return links.files


def files_in(place, name):
    if re.match(r"\w+://", place) and not place.startswith("file:"):
        return page_of(place)
    folder = Path(urllib.request.url2pathname(urllib.parse.urlsplit(place).path)) if place.startswith("file:") else Path(place)
    return [{"filename": one.name} for one in folder.iterdir() if canonical(one.name).startswith(name)] if folder.is_dir() else []


def version_of(filename, name):
    """The version of a wheel or of a source distribution of this package; None for another file."""
    if filename.endswith(".whl"):
        parts = filename.split("-")
        return parts[1] if len(parts) >= 5 and canonical(parts[0]) == name else None
    for ending in (".tar.gz", ".zip"):
        if filename.endswith(ending):
            project, _, version = filename.removesuffix(ending).rpartition("-")
            return version if canonical(project) == name else None
    return None


def versions_of(name, kept):
    """{version: why it is not to be used, or ""}; what the indexes have said last where they do not answer."""
    indexes, folders = sources()
    files, memory = [], kept / "versions" / f"{name}.json"
    try:
        for index in indexes:
            files += page_of(f"{index.rstrip('/')}/{name}/")
        for place in folders:
            files += files_in(place, name)
    except (OSError, ValueError) as error:
        if memory.exists():
            return json.loads(memory.read_text())
        raise Stop(f"no network: the versions of {name} are not known: {getattr(error, 'reason', error)}", 3) from None
    out = {}
    for file in files:
        version = version_of(file["filename"], name)
        if version is None or order(version) is None:
            continue
        yanked = file.get("yanked") or ""
        why = ("yanked: " + short(yanked) if isinstance(yanked, str) and yanked is not True else "yanked") if yanked else ""
        out[version] = why if out.get(version, why) else ""
    memory.parent.mkdir(parents=True, exist_ok=True)
    with tidemark_files.create(memory) as file:
        json.dump(out, file)
    return out


def list_versions(request):
    name, kept = canonical(request["package"]), Path(request["kept"])
    installed = frozen(request["python"]).get(name)
    if installed is None:
        raise Stop(f"{name} is not installed in the environment of {request['python']}: install it, as the program that runs there has it", 2)
    all_versions = versions_of(name, kept)
    first, last = request["first"] or pin(installed), request["last"]
    for word in (first, last, *request["listed"]):
        if word and order(word) is None:
            raise Stop(f"--package {name}: {word} is not a version", 2)
    by_order = {json.dumps(order(version)): version for version in all_versions}
    listed = {by_order.get(json.dumps(order(word)), word) for word in request["listed"]}
    if absent := sorted(listed - set(all_versions), key=order):
        raise Stop(f"--package {name}: the index has no {name} {absent[0]}", 2)
    if last and order(first) > order(last):
        raise Stop(f"--package {name}: the range is empty: {first} is after {last}", 2)
    wanted, skipped = [], []
    for version in sorted(all_versions, key=order):
        inside = version in listed if listed else order(first) <= order(version) and (not last or order(version) <= order(last))
        if not inside or not listed and not is_final(version) and version not in (first, last):
            continue
        if all_versions[version]:
            skipped.append([version, all_versions[version]])
        else:
            wanted.append(version)
    if not wanted:
        has = sorted(filter(is_final, all_versions), key=order)
        span = f"it has {has[0]} to {has[-1]}" if has else "it has no release"
        raise Stop(f"--package {name}: the index has no version from {first} to {last or 'the newest'}{' but yanked ones' if skipped else ''}: {span}", 2)
    return {"versions": wanted, "skipped": skipped}
