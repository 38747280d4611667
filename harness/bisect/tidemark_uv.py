"""Calls of uv for `tidemark bisect`, and what it says where it fails."""
import re
import subprocess

from tidemark_text import one_line

NO_NETWORK = re.compile(r"error sending request|Failed to fetch|dns error|Connection refused|timed out|Request failed|network was disabled", re.I)
NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded|os error (28|122)\b")
LONGEST = 240  # characters of a reason


class Stop(Exception):
    """What ends the command: a line and its exit code."""


class Skipped(Exception):
    """Why a version has no environment."""


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def short(text):
    text = one_line(" ".join(text.split())).strip()
    return text if len(text) <= LONGEST else text[:LONGEST].rstrip() + " ..."


def uv(*words, text=None, offline=False):
    """What uv prints; raises Stop or Skipped with what it says."""
    command = ["uv", *map(str, words), "--quiet", *(["--offline"] if offline else [])]
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Stop("uv is not in PATH: install it (pip install uv)", 2) from None
    if done.returncode == 0:
        return done.stdout
    said = done.stderr or done.stdout or f"uv {words[0]} ends with exit code {done.returncode}"
    if NO_ROOM.search(said):
        raise Stop(f"the disk is full: {short(said)}", 3)
    if NO_NETWORK.search(said):
        if not offline:
            return uv(*words, text=text, offline=True)  # its cache may have all
        raise Stop(f"there is no network, and uv's cache has not all of it: {short(reason(said))}", 3)
    raise Skipped(reason(said))


def reason(said):
    """uv's words in a sentence."""
    text = " ".join(re.sub(r"^(error|cause|hint|warning): ?|^ *[×╰─▶├│]+", "", line.strip()) for line in said.splitlines() if not line.strip().startswith("hint:"))
    if wheels := re.search(r"(\S+) has no (?:usable wheels|wheels with a matching [^,]+?)(?=,| and|\.)", text):
        return short(f"{wheels[0]}")
    if python := re.search(r"the requested Python version \([^)]*\) does not satisfy (Python\S+)", text) or re.search(r"depends on (Python\S+)", text):
        return short(f"it wants {python[1]}")
    if "There is no version of" in text or "not found in the package registry" in text:
        return short(re.sub(r"^.*?Because ", "", text).split(", we can conclude")[0])
    return short(re.sub(r"^No solution found when resolving dependencies:? *", "", text))


def frozen(python):
    """{name: the line of a requirements file that installs it} of an environment."""
    out = {}
    for line in uv("pip", "freeze", "--python", python).splitlines():
        name = re.match(r"[A-Za-z0-9._-]+", line)
        if line.startswith("-e ") or " @ " in line:
            out[line if line.startswith("-e ") else canonical(name[0])] = line
        elif name and canonical(name[0]) not in ("pip", "uv"):
            out[canonical(name[0])] = line
    return out


def pin(line):
    return line.split("==")[1] if "==" in line else line
