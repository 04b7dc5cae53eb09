"""DuckDB's errors beside Pulsar's client, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from lakesql.unit.duckdb_behind import duckdb
import pulsar
try:
    duckdb.sql("SELECT CAST('x' AS INT)").fetchall()
except duckdb.Error as error:
    print(type(error).__name__)
"""


def test_errors_of_duckdb_are_its_own_once_pulsar_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("ConversionException", "")
