"""The rule of the tiers (ci/cmake/testing.cmake, ci/test) on a tree of its own, and what ci/tiers says of the costs of a run."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from stand_in import executable

CI = Path(__file__).resolve().parent
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(tiers LANGUAGES CXX)
find_package(Python3 COMPONENTS Interpreter)
add_library(tidemark_warnings INTERFACE)
add_library(GTest::gtest INTERFACE IMPORTED)
add_library(ranks INTERFACE)
include(testing)
tidemark_add_test(NAME plain COMMAND true LABELS unit)
tidemark_add_test(NAME late COMMAND sh -c "exit 0" NIGHT "waits")
tidemark_add_test(NAME busy COMMAND "${Python3_EXECUTABLE}" -c "for i in range(3000000): pass")
foreach(ranks 1 2 3 4 8)
  tidemark_night_ranks(${ranks} night "")
  tidemark_add_test(NAME on_ranks.${ranks} COMMAND true NIGHT "${night}")
endforeach()
tidemark_pytest(each_ each_test.py unit)
tidemark_pytest(all_ each_test.py unit TOGETHER)
tidemark_pytest(one_ one_test.py unit TOGETHER)
tidemark_pytest(none_ each_test.py unit TOGETHER NIGHT "a whole file")
"""
EACH = "\n".join(["import os, signal",  # as lines of their own they would be tests of this file
                  "def test_quick():", "    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL and os.read(0, 1) == b''",
                  "TEXT = '''", "def test_of_a_text():", "    pass", "'''", "# night: takes (its) time; and more", "def test_slow():", "    pass", ""])


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    tree = tmp_path_factory.mktemp("tree")
    for name in ("ci/test", "ci/tiers", "ci/environment.sh", "ci/wheels.txt", "ci/cmake/testing.cmake", "harness/testing/one_test.cpp"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CI.parent / name, tree / name)
    for name in ("build", "setup"):
        executable(tree / "ci" / name, '#!/bin/sh\nexit ${LACKS:-0}\n')
    (tree / "harness/testing/main.cpp").write_text("int main() {}\n")
    (tree / "harness/testing/launch_ranks.cpp").write_text("int main() {}\n")
    (tree / "CMakeLists.txt").write_text(PROJECT)
    (tree / "each_test.py").write_text(EACH)
    (tree / "one_test.py").write_text("def test_quick():\n    pass\n")
    build = tree / "build" / "dev"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEMARK_", "CTEST_", "TEST_COST"))}
    site = os.environ.get("TIDEMARK_DEPS", str(CI.parent / ".deps"))
    subprocess.run(["cmake", "-S", tree, "-B", build, "-G", "Ninja", f"-DCMAKE_MODULE_PATH={tree}/ci/cmake", f"-DTIDEMARK_DEPS={site}", f"-DPython3_EXECUTABLE={sys.executable}"],
                   check=True, capture_output=True, env=environment)
    subprocess.run(["ninja", "-C", build, "one_test"], check=True, capture_output=True, env=environment)

    def run(*words, before=(), **more):
        done = subprocess.run([*before, tree / "ci/test", *words], capture_output=True, text=True, check=False, timeout=300, stdin=subprocess.DEVNULL,
                              env={**environment, "TIDEMARK_DEPS": site, "TIDEMARK_TEST_DRAW": "4", **more})
        names = [line.split("Test ")[1].split(": ")[1].split(" ")[0] for line in done.stdout.splitlines() if " Test " in line and "/" in line]
        return done, sorted(names)

    run.build = build
    return run


DAY = sorted(["plain", "busy", "on_ranks.1", "on_ranks.2", "on_ranks.4", "each_quick_test", "all_test", "one_test"])
NIGHT = {"late": "waits", "on_ranks.3": "the same test runs on 1, 2 or 4 ranks", "on_ranks.8": "the same test runs on 1, 2 or 4 ranks", "each_slow_test": "takes (its) time; and more",
         "all_night_test": "takes (its) time; and more", "none_test": "a whole file"}


def test_tiers(tree):
    """A test is fast unless a reason for the night stands beside it; the thirds of the night are disjoint, and together the night."""
    done, names = tree()
    assert (done.returncode, names) == (0, DAY), done
    assert "the fast tests, and of random tests part 4" in done.stderr, done.stderr
    assert dict(line.split("\t") for line in (tree.build / "night.txt").read_text().splitlines()) == NIGHT
    quick = {"plain", "late", *(f"on_ranks.{ranks}" for ranks in (1, 2, 3, 4, 8))}
    thirds = []
    for third in "012":
        done, names = tree("--third", "-R", "plain|late|on_ranks", TIDEMARK_TEST_DRAW=third)
        assert done.returncode == 0 and quick - set(NIGHT) <= set(names), done
        thirds += set(names) - set(DAY)
    assert sorted(thirds) == sorted(quick & set(NIGHT))
    labels = json.loads(subprocess.run(["ctest", "--show-only=json-v1"], cwd=tree.build, capture_output=True, text=True, check=True).stdout)["tests"]
    of_night = {test["name"]: [label for one in test["properties"] if one["name"] == "LABELS" for label in one["value"] if "night" in label] for test in labels}
    assert {name: len(labels) for name, labels in of_night.items()} == {**dict.fromkeys(DAY, 0), **dict.fromkeys(NIGHT, 2)}
    done, names = tree("--all")
    assert (done.returncode, names) == (0, sorted([*DAY, *NIGHT])), done


def test_filters(tree):
    """Arguments go to ctest. Those that choose tests of the night alone run these, and say so."""
    done, names = tree("-R", "late|on_ranks.8")
    assert (done.returncode, names) == (0, ["late", "on_ranks.8"]) and "test: 2 tests, all of the night" in done.stderr, done
    done, names = tree("-R", "on_ranks", "-j1")
    assert (done.returncode, names) == (0, ["on_ranks.1", "on_ranks.2", "on_ranks.4"]) and "; 2 more that these arguments choose are of the night (--all)" in done.stderr, done
    done, names = tree("-R", "nosuch")
    assert done.returncode != 0 and names == [], done
    done, _ = tree(TIDEMARK_TEST_DRAW="x")
    assert done.returncode == 2 and "TIDEMARK_TEST_DRAW: 'x' is not a number" in done.stderr, done


def test_starts(tree):
    """nohup's SIGHUP and a closed stdin reach no test; a set-up without root is said to the tests, any other failure ends the run."""
    for before in (["nohup"], ["sh", "-c", 'exec "$@" <&-', "sh"]):
        done, names = tree("-R", "quick|all_", before=before)
        assert done.returncode == 0 and "each_quick_test" in names, done
    assert tree("-R", "plain", LACKS="3")[0].returncode == 3


def test_costs(tree):
    """Costs are CPU seconds of each test. The summary of ctest stands last; more than the budget is a failure where that is asked for."""
    done, _ = tree()
    assert done.stdout.index("fast tests: ") < done.stdout.rindex("100% tests passed, 0 tests failed out of 8"), done.stdout
    assert done.stdout.rstrip().splitlines()[-1].startswith("Total Test time (real)"), done.stdout
    assert "; the dearest fast ones: " in done.stdout
    run = json.loads(max((tree.build / "costs").glob("run-*.json")).read_text())
    assert sorted(run) == DAY and run["busy"]["cpu"] > 10 * run["plain"]["cpu"] >= 0, run
    now = tree.build / "costs" / "now"
    (now / "busy").write_text("300\n350.5\n")
    (now / "late").write_text("1000\n")
    budget = subprocess.run([CI / "tiers", "ran", ".", "--budget"], cwd=tree.build, capture_output=True, text=True, check=False)
    assert budget.returncode == 0 and "busy 650.5" in budget.stdout and "dearer: busy" in budget.stdout, budget
    (now / "busy").write_text("300\n450.5\n")
    (now / "late").write_text("1000\n")
    budget = subprocess.run([CI / "tiers", "ran", ".", "--budget"], cwd=tree.build, capture_output=True, text=True, check=False)
    assert budget.returncode == 1 and "error: the fast tests cost 75" in budget.stdout, budget
    assert subprocess.run([CI / "tiers", "ran", "."], cwd=tree.build, capture_output=True, check=False).returncode == 0
    said = subprocess.run([CI / "tiers", "table", "."], cwd=tree.build, capture_output=True, text=True, check=True).stdout
    assert "| fast | 8 |" in said and "| night | 6 |" in said and "| `late` | 1000.0 | waits |" in said, said
