"""tidemark_environments.py list|commits|make REQUEST: for `tidemark bisect`, the versions of a package or the commits of a repository, and an
environment of one of them, made by uv. REQUEST and the answer on stdout are JSON:

list     {"python", "package", "first", "last", "listed", "kept"} -> {"versions": [...], "skipped": [[version, why]]}
commits  {"repo", "first", "last"} -> {"versions": [...], "titles": [...]}
make     {"python", "package", "version", "fixed": {name: version}, "repo", "kept"} -> {"folder", "lock", "path", "packages": {name: version}, "changed": [...]}
         or {"skipped": why} where this version cannot be installed

A version is what comes after "NAME=="; with "repo" it is a commit, and "package" is empty. "kept" is the folder of environments: one that is whole
has the file `ready`, and what is left of another goes. Exit code 2 after the line "error: ..." on stdout for a mistake of the user's, 3 for what the machine lacks."""
import fcntl
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import tidemark_files
from tidemark_index import list_versions
from tidemark_text import one_line
from tidemark_uv import Skipped, Stop, canonical, frozen, pin, short, uv

# What torch demands of NVIDIA's libraries, in place of which the platform stands. Their headers are needed, and nvidia-ml-py is a module of Python.
STOOD_IN = re.compile(r"(nvidia-(?!ml-py|cuda-runtime)|cuda-toolkit)")


def git(repo, *words):
    done = subprocess.run(["git", "-C", repo, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Stop(f"--repo {repo}: {short((done.stderr or done.stdout).strip().removeprefix('fatal: '))}", 2)
    return done.stdout


def list_commits(request):
    repo, first, last = request["repo"], request["first"], request["last"]
    begin, end = (git(repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{one}^{{commit}}").strip() if commit_exists(repo, one) else "" for one in (first, last))
    for word, found in ((first, begin), (last, end)):
        if not found:
            raise Stop(f"--commits: {repo} has no commit {word}", 2)
    if subprocess.run(["git", "-C", repo, "merge-base", "--is-ancestor", begin, end], check=False).returncode != 0:
        raise Stop(f"--commits: {first} is not an ancestor of {last} in {repo}", 2)
    lines = git(repo, "log", "--first-parent", "--reverse", "--format=%h %s", f"{begin}..{end}").splitlines()
    lines = git(repo, "log", "-1", "--format=%h %s", begin).splitlines() + lines
    return {"versions": [line.split(" ", 1)[0] for line in lines], "titles": [one_line(line.partition(" ")[2]) for line in lines]}


def commit_exists(repo, word):
    git(repo, "rev-parse", "--git-dir")
    return subprocess.run(["git", "-C", repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}"], capture_output=True, check=False).returncode == 0


def worktree(repo, commit, kept):
    """The files of a commit, in a folder of its own."""
    root = git(repo, "rev-parse", "--show-toplevel").strip()
    whole = git(repo, "rev-parse", commit).strip()
    folder = kept / "commits" / f"{Path(root).name}-{whole[:16]}"
    if not (folder / ".git").exists():
        git(root, "worktree", "prune")
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            git(root, "worktree", "add", "--detach", "--force", str(folder), whole)
        except Stop as stop:
            shutil.rmtree(folder, ignore_errors=True)
            raise Stop(stop.args[0], 3) from None
    return folder


def project_of(folder):
    """The name of the package that a folder has the sources of; "" where there is none to install."""
    if not any((folder / name).exists() for name in ("pyproject.toml", "setup.py")):
        return ""
    text = (folder / "pyproject.toml").read_text() if (folder / "pyproject.toml").exists() else ""
    named = re.search(r"^\[project\][^\[]*?^name *= *[\"']([^\"']+)", text, re.M) or re.search(r"^\[tool\.poetry\][^\[]*?^name *= *[\"']([^\"']+)", text, re.M)
    if not named and (folder / "setup.cfg").exists():
        named = re.search(r"^\[metadata\][^\[]*?^name *= *(\S+)", (folder / "setup.cfg").read_text(), re.M)
    if not named and (folder / "setup.py").exists():
        named = re.search(r"\bname *= *[\"']([^\"']+)[\"']", (folder / "setup.py").read_text())
    return canonical(named[1]) if named else ""


def missing(python):
    """What installed packages ask for and the user's environment does not have: left out on purpose."""
    done = subprocess.run(["uv", "pip", "check", "--python", python], capture_output=True, text=True, check=False)
    return {canonical(name) for name in re.findall(r"requires `([A-Za-z0-9._-]+)[^`]*`, but it's not installed", done.stderr + done.stdout)}


def locked(request, base, requirement, name, work):
    """The lines of the lock file: the base, in which only what this version demands is another."""
    roots = {one: line if "==" not in line else one for one, line in base.items() if not STOOD_IN.match(one)}
    roots = {one: line for one, line in roots.items() if one != name and not line.endswith(f"/{name}")}
    for one, version in request["fixed"].items():
        roots[canonical(one)] = f"{one}=={version}"
    (wanted, lock, left_out) = (work / one for one in ("wanted.in", "lock.txt", "left_out.txt"))
    with tidemark_files.create(wanted) as file:
        file.write("\n".join([*roots.values(), requirement]) + "\n")
    with tidemark_files.create(lock) as file:  # what uv keeps where it can
        file.write("\n".join(line for line in base.values() if "==" in line and not STOOD_IN.match(line)) + "\n")
    with tidemark_files.create(left_out) as file:
        file.write("\n".join(missing(request["python"]) - set(roots) - {name}) + "\n")
    uv("pip", "compile", "--python", request["python"], "--no-header", "--no-annotate", "--no-strip-extras", "--excludes", left_out, "--output-file", lock, wanted)
    return [line for line in lock.read_text().splitlines() if line.strip() and not STOOD_IN.match(line)]


def versions_in(lines):
    return {canonical(re.match(r"[A-Za-z0-9._-]+", line)[0]): pin(line) for line in lines if re.match(r"[A-Za-z0-9]", line)}


def make(request):
    kept, python = Path(request["kept"]), request["python"]
    kept.mkdir(parents=True, exist_ok=True)
    base = frozen(python)
    beside = ""
    if request["repo"]:
        folder = worktree(request["repo"], request["version"], kept)
        name = project_of(folder)
        requirement, what = (f"{name} @ {folder.as_uri()}" if name else ""), f"commit {request['version']}"
        if not name:
            beside = str(folder / "src" if (folder / "src").is_dir() else folder)
    else:
        name, what = canonical(request["package"]), f"{request['package']} {request['version']}"
        requirement = f"{name}=={request['version']}"
    with tempfile.TemporaryDirectory(dir=kept) as work:
        lines = locked(request, base, requirement, name, Path(work))
    facts = subprocess.run([python, "-c", "import sys; print(sys.version, sys.base_prefix)"], capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256("\n".join([facts, *lines]).encode()).hexdigest()[:16]
    place = kept / "environments" / f"{name or 'commit'}-{request['version'].replace('/', '_')}-{digest}"
    place.parent.mkdir(exist_ok=True)
    with tidemark_files.append(f"{place}.lock") as lock_file:  # two commands may want the same
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        if not (place / "ready").exists():
            print(f"tidemark: bisect: an environment for {what} ...", file=sys.stderr, flush=True)
            shutil.rmtree(place, ignore_errors=True)
            try:
                uv("venv", "--python", python, place)
                with tidemark_files.create(place / "lock.txt") as file:
                    file.write("\n".join(lines) + "\n")
                uv("pip", "install", "--python", place / "bin" / "python", "--no-deps", "-r", place / "lock.txt")
                with tidemark_files.create(place / "ready") as file:
                    file.write("")
            except BaseException as error:
                shutil.rmtree(place, ignore_errors=True)
                if isinstance(error, OSError) and error.errno in (28, 122):
                    raise Stop(f"the disk is full: {place}", 3) from None
                raise
    now, then = versions_in(lines), versions_in(line for line in base.values() if not STOOD_IN.match(line))
    chosen = {name, *map(canonical, request["fixed"])}
    changed = [f"{one} {then[one]} -> {now[one]}" for one in sorted(now) if one in then and then[one] != now[one] and one not in chosen]
    changed += [f"{one} {now[one]} is added" for one in sorted(now) if one not in then and one not in chosen]
    changed += [f"{one} {then[one]} is gone" for one in sorted(then) if one not in now and one not in chosen and "==" in base.get(one, "")]
    return {"folder": str(place), "lock": str(place / "lock.txt"), "path": beside, "packages": now, "changed": changed,
            "repo": str(folder) if request["repo"] else ""}


def main():
    act = {"list": list_versions, "commits": list_commits, "make": make}[sys.argv[1]]
    try:
        try:
            answer = act(json.loads(sys.argv[2]))
        except Skipped as skipped:
            if sys.argv[1] != "make":
                raise Stop(skipped.args[0], 2) from None
            answer = {"skipped": skipped.args[0]}
    except Stop as stop:
        print(one_line("error: bisect: " + stop.args[0]))
        return stop.args[1]
    except OSError as error:
        print(one_line(f"error: bisect: {error}"))
        return 3
    except KeyboardInterrupt:
        return 130
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
