"""The releases of torch that were tried: what the documents say of them is what ci/wheels has found, and a release that was never tried is named."""
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "ci"), str(ROOT / "harness" / "exec" / "python")]
import releases  # noqa: E402
import tidemark_releases  # noqa: E402
from environments import VERSIONS  # noqa: E402

OUTCOMES = json.loads(releases.OUTCOMES.read_text())


def test_documents():
    for file, text in releases.documents(OUTCOMES).items():
        assert file.read_text() == text, f"{file} does not say what {releases.OUTCOMES.name} has: run ci/wheels --documents"


def test_every_release_has_outcomes():
    assert sorted(OUTCOMES) == sorted(VERSIONS), "each release of VERSIONS was tried, and no other"
    most = max(len(one["checks"]) for one in OUTCOMES.values())
    for release, one in OUTCOMES.items():
        assert len(one["checks"]) == most and one["commit"] and one["date"] and one["torch"].startswith(release), release
        assert all(outcome.split(":")[0] in ("passed", "absent", "refused", "failed") for outcome in one["checks"].values()), release


def outcome(*checks):
    return {"torch": "", "date": "2026-11-29", "commit": "0", "checks": dict(enumerate(checks))}


def test_span():
    """A release in which a check fails is named; one in which a check is refused by name is whole."""
    assert tidemark_releases.span({"2.10.0": outcome("passed"), "2.4.1": outcome("refused: no")}) == "2.4 to 2.10"
    assert tidemark_releases.span({"2.4.1": outcome("passed"), "2.9.1": outcome("failed: it", "passed"), "2.10.0": outcome("passed")}) == "2.4 to 2.10; not all of it in 2.9"


def test_untried():
    for release in OUTCOMES:
        assert tidemark_releases.untried(f"{release}+cu130") is None
        assert tidemark_releases.untried(release.rsplit(".", 1)[0] + ".99") is None, "another patch of a minor release that was tried"
    newest = max(map(tidemark_releases.numbers, OUTCOMES))
    for version in f"{newest[0]}.{newest[1] + 1}.0", "3.0.0.dev20270101+cu140", "2.3.1":
        line = tidemark_releases.untried(version)
        assert version in line and "never tried" in line and "\n" not in line
