"""In CI nothing is skipped or left out unseen."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench import smoke
from docs.readme import README
from tests.conftest import MARKERS, TIERS

ROOT = README.parent
RUN = (ROOT / ".ci" / "run").read_text("utf-8")
NIGHTLY = (ROOT / ".ci" / "nightly").read_text("utf-8")
TEST = "def test_it(): pass\n"
LONG = "import pytest\n@pytest.mark.long\ndef test_it(): pass\n"
PROMISE = "import pytest\n@pytest.mark.promise\ndef test_it(): pass\n"
SKIPS = {
    "while it runs": "import pytest\ndef test_it(): pytest.skip('no broker')\n",
    "by a mark": "import pytest\n@pytest.mark.skip\ndef test_it(): pass\n",
    "on import": "import pytest\npytest.importorskip('no_such_module')\ndef test_it(): pass\n",
}
EXPECTED_TO_FAIL = "import pytest\n@pytest.mark.xfail\ndef test_it(): assert False\n"


def run(directory: Path, source: str, ci: str) -> int:
    shutil.copy(ROOT / "tests" / "conftest.py", directory)
    (directory / "test_it.py").write_text(source)
    (directory / "test_another.py").write_text("def test_another(): pass\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(directory),
    ]
    environment = {**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, check=False
    ).returncode


@pytest.mark.parametrize("source", SKIPS.values(), ids=SKIPS)
def test_a_skip_is_a_failure_in_ci_alone(source: str, tmp_path: Path) -> None:
    assert run(tmp_path, source, ci="") == 0
    assert run(tmp_path, source, ci="true") in (1, 2)


def test_what_is_expected_to_fail_is_no_skip(tmp_path: Path) -> None:
    assert run(tmp_path, EXPECTED_TO_FAIL, ci="true") == 0


def test_a_plain_pytest_leaves_out_what_has_a_tier(tmp_path: Path) -> None:
    """And a tier, a folder or a file runs what it has."""
    quick = {"unit", "golden", "promised"}
    tiers = {
        tier: {folder for folder, markers in MARKERS.items() if tier in markers}
        for tier in TIERS
    }
    tiers["long"] |= {"marked"}
    tiers["checks"] -= {"test_architecture.py"}
    assert all(tiers.values()) and not quick & set().union(*tiers.values())

    lines = [
        "[pytest]",
        "testpaths = tests",
        "markers = spark",
        "  promise",
        *(f"  {tier}" for tier in TIERS),
    ]
    (tmp_path / "pytest.ini").write_text("\n".join(lines))
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "tests")
    for folder in quick.union(*tiers.values()):
        (tmp_path / "tests" / folder).mkdir()
        (tmp_path / "tests" / folder / f"test_{folder}.py").write_text(
            LONG if folder == "marked" else TEST
        )
    (tmp_path / "tests" / "promised" / "test_promised.py").write_text(PROMISE)
    assert collect(tmp_path) == quick
    assert (
        collect(tmp_path, "-m", "long or services") == tiers["long"] | tiers["services"]
    )
    assert collect(tmp_path, "tests/crash", "tests/kafka/test_kafka.py") == {
        "crash",
        "kafka",
    }


def collect(directory: Path, *arguments: str) -> set[str]:
    """The folders of which tests would run."""
    return {test.split("/")[1] for test in collect_tests(directory, *arguments)}


def collect_tests(directory: Path, *arguments: str) -> list[str]:
    """The tests that would run."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--collect-only",
        "-p",
        "no:cacheprovider",
        *arguments,
    ]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=directory, env=environ, capture_output=True, text=True, check=True
    )
    return re.findall(r"^tests/\S+::\S+", done.stdout, re.MULTILINE)


def test_a_share_is_of_a_folder_and_has_all_that_is_whole(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\ntestpaths = tests\nmarkers =\n  spark\n  services\n  whole\n"
    )
    (tmp_path / "tests" / "kafka").mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "tests")
    for number in range(6):
        (tmp_path / "tests" / "kafka" / f"test_{number}.py").write_text(TEST)
    whole = "import pytest\n@pytest.mark.whole\ndef test_whole(): pass\n"
    (tmp_path / "tests" / "kafka" / "test_7.py").write_text(whole)
    for share, count in (("1/3", 2), ("1/100", 1), ("1/1", 6)):
        found = collect_tests(tmp_path, "-m", "services", "--share", share)
        assert "tests/kafka/test_7.py::test_whole" in found and len(found) == count + 1


PASSED = "echo '=== 3 passed, 2 deselected in 1.00s ==='"
FAILED = "echo '=== 1 failed, 2 passed in 1.00s ==='; false"


@pytest.mark.parametrize(
    ("first", "second", "failed"),
    [
        (PASSED, PASSED, []),
        (f"false; {PASSED}", PASSED, ["Lane 1"]),
        (PASSED, f"false | cat; {PASSED}", ["Lane 2"]),
        (PASSED, FAILED, ["Lane 2"]),
        (FAILED, FAILED, ["Lane 1", "Lane 2"]),
    ],
)
def test_a_lane_that_fails_fails_all(
    first: str, second: str, failed: list[str]
) -> None:
    """And the last that is said is what pytest said last."""
    done = run_lanes(first, second)
    assert (done.returncode != 0) == bool(failed), done.stdout + done.stderr
    assert re.findall(r"^(Lane \d) has failed", done.stdout, re.MULTILINE) == failed
    assert ("All is well" in done.stdout) == (not failed)
    assert done.stdout.endswith("in 1.00s ===\n")


def test_lanes_in_which_no_test_has_run_fail() -> None:
    assert run_lanes("true", "true").returncode != 0


def run_lanes(first: str, second: str) -> subprocess.CompletedProcess[str]:
    """The end of .ci/run, with other lanes."""
    script = f'set -euo pipefail\nstep() {{ echo "$@"; }}\nfirst_lane() {{ {first}; }}\nsecond_lane() {{ {second}; }}\n'
    script += RUN[RUN.index("# Side by side") :]
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", ["prepare", "run", "nightly"])
def test_the_scripts_can_be_read_by_bash(name: str) -> None:
    script = ROOT / ".ci" / name
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    assert name == "prepare" or os.access(script, os.X_OK)


def test_ci_runs_every_tier_and_nightly_runs_the_rest() -> None:
    """What is left of a tier's tests after the share that the seed chooses, and what is
    tried more often."""
    assert "line=$(.venv/bin/python docs/readme.py 2)" in RUN
    calls = [call.rsplit(" ", 1) for call in sorted(calls_of_pytest(RUN))]
    assert [call for call, _ in calls] == [
        "-m checks --share 1/3 -n auto --dist loadfile",
        "-m crash --share 1/40",
        "-m long --share 1/150 --feed-seeds 20",
        "-m services --share 1/20",
    ]
    folders = re.findall(r'--basetemp="?(\S+?)"$', RUN, re.MULTILINE)
    assert len({*folders}) == len(calls) + 1, (
        "no two calls share a folder, the README's line has one too"
    )
    assert {call.split()[1] for call in calls_of_pytest(RUN)} == set(TIERS)
    assert calls_of_pytest(NIGHTLY) == {
        "-m checks",
        "-m long",
        "-m services",
        "tests/kafka/test_flights.py tests/catalogs/test_flights.py --all-flights",
        "tests/unit --hypothesis-profile night",
        "tests/unit/test_kinesis_log.py tests/unit/test_pulsar_log.py --log-seeds 200",
        "tests/feeds --feed-seeds 10000",
        "tests/cdc/test_database.py --database-tables 60 --database-rounds 40 --database-kills 20 "
        "--database-seed $RANDOM",
        "tests/cdc/test_maria_group.py --database-tables 50 --database-rounds 40 --database-kills 20 "
        "--database-seed $RANDOM",
        "tests/views/test_random_selects.py --view-seeds 10000",
        "tests/spark/test_view_rounds.py --lake-seeds 100",
        "tests/crash/test_day.py --day-commits 1440",
        "tests/spark/test_cdc.py tests/spark/test_unsent.py --mirror-seeds 50",
        "tests/spark/test_file_names.py --mirror-seeds 50",
        "tests/spark/test_orphans.py --mirror-seeds 25",
        "tests/spark/test_changed_selects.py --changed-selects 100000",
        "-m crash --crash-rounds 20",
    }


def calls_of_pytest(script: str) -> set[str]:
    """What a script gives pytest, call by call."""
    return set(re.findall(r"^ *\.venv/bin/pytest(?: (.+))?$", script, re.MULTILINE))


def test_ci_runs_the_smoke_of_every_benchmark_in_time() -> None:
    assert "bench/smoke.py --share 1/3\n" in RUN and "bench/smoke.py\n" in NIGHTLY
    run = {*smoke.PROGRAMS, *smoke.SHARED}
    shares = [smoke.choose("1/3", seed) for seed in range(40)]
    sizes = {(len(shared), shared[0]) for shared, _ in shares}
    assert sizes == {(6, smoke.SHARED[0])} and {
        len(programs) for _, programs in shares
    } <= {3, 4}
    assert {name for shared, programs in shares for name in (*shared, *programs)} == run
    assert run == {
        path.stem
        for path in (ROOT / "bench").glob("*.py")
        if re.search(r'add_argument\(\s*"--smoke"', path.read_text("utf-8"))
    }
