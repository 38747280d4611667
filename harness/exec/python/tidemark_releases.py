"""The releases of torch that were tried with this tidemark (tidemark_releases.json, which ci/wheels writes)."""
import json
import os


def outcomes():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tidemark_releases.json"), encoding="utf-8") as file:
        return json.load(file)


def minor(release):
    return ".".join(release.split(".")[:2])


def numbers(release):
    return tuple(map(int, release.split(".")))


def span(tried):
    """"2.4 to 2.15", or with the releases in which a check fails: "2.4 to 2.15; not all of it in 2.5"."""
    releases = sorted(tried, key=numbers)
    failing = [minor(release) for release in releases if any(outcome.startswith("failed") for outcome in tried[release]["checks"].values())]
    whole = f"{minor(releases[0])} to {minor(releases[-1])}" if len(releases) > 1 else minor(releases[0])
    return whole + (f"; not all of it in {', '.join(failing)}" if failing else "")


def untried(version):
    """A line about a torch whose minor release is not among those that were tried, else None."""
    tried = outcomes()
    if minor(version.split("+")[0]) in map(minor, tried):
        return None
    return f"torch {version} was never tried with this tidemark, which was tried with torch {span(tried)}: what fails may be tidemark's fault, please report it"
