"""The CPU that 200 unit tests take without Spark: `python bench/unit_tests.py [--tests
200] [--smoke]`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SELECT = "SELECT id, at, upper(status) AS status, amount * 2 AS amount FROM {{ stream('orders') }} WHERE at > 0"
CONFIGS = (
    "mode='append'",
    "mode='append', keys='id'",
    """mode='upsert', keys='id', sequence_by='at', delete_when="status = 'GONE'" """,
    "mode='scd2', keys='id', sequence_by='at'",
)
COLUMNS = {
    "id": {"type": "bigint", "required": True},
    "at": "int",
    "status": "string",
    "amount": "decimal(12,2)",
}


def main() -> None:
    """Print one figure, and fail where a test is not answered or not as expected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=int, default=200)
    parser.add_argument(
        "--smoke", action="store_true", help="eight tests, to see that it works"
    )
    options = parser.parse_args()
    count = 8 if options.smoke else options.tests
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_project(folder, count)
        command = [
            sys.executable,
            "-m",
            "lakesql",
            "test",
            "--unit",
            "--output",
            "json",
            "--project-dir",
            name,
        ]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        spent = os.times()
        passed = json.loads(ran.stdout)["summary"]["passed"]
        assert passed == count, f"{passed} of {count} tests passed"
        print(
            f"{count} unit tests: {spent.children_user + spent.children_system:.1f} s of CPU"
        )


def write_project(folder: Path, count: int) -> None:
    """A project of four models, each of another mode, and so many tests of three
    batches, in turn."""
    stream = {
        "name": "orders",
        "topic": "orders",
        "connection": "broker",
        "columns": COLUMNS,
    }
    tests = [
        {
            "name": f"test {number}",
            "model": f"model_{number % len(CONFIGS)}",
            "given": [
                {"stream": "orders", "batches": [[row(number, at)] for at in (1, 2, 3)]}
            ],
            "expect": {"rows": EXPECTED[number % len(CONFIGS)]},
        }
        for number in range(count)
    ]
    catalog = {
        "name": "lake",
        "type": "sql",
        "uri": "sqlite:///lake.db",
        "warehouse": "lake",
    }
    profile = {
        "p": {
            "target": "dev",
            "outputs": {"dev": {"namespace": "p", "catalog": catalog}},
        }
    }
    files = {
        "pyproject.toml": '[tool.lakesql]\nname = "p"\nprofile = "p"\n',
        "profiles.yml": json.dumps(profile),
        "streams/orders.yml": json.dumps({"streams": [stream]}),
        "models/tests.yml": json.dumps({"unit_tests": tests}),
        **{
            f"models/model_{at}.sql": f"{{{{ config({it}) }}}}\n{SELECT}\n"
            for at, it in enumerate(CONFIGS)
        },
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")


def row(number: int, at: int) -> dict[str, object]:
    """A record of the one key of a test."""
    return {"id": number, "at": at, "status": f"s{at}", "amount": f"{at}.50"}


EXPECTED: tuple[list[dict[str, object]], ...] = (
    [
        {"at": 1, "amount": "3.00"},
        {"at": 2, "amount": "5.00"},
        {"at": 3, "amount": "7.00"},
    ],
    [{"at": 1, "status": "S1"}],
    [{"at": 3, "status": "S3"}],
    [
        {"at": 1, "valid_to": 2},
        {"at": 2, "valid_to": 3},
        {"at": 3, "valid_to": None, "is_current": True},
    ],
)
"""The rows of each model, by its place in `CONFIGS`."""


if __name__ == "__main__":
    main()
