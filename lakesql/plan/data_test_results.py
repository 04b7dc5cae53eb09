"""The results of data tests, and which status a number of failing rows is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from lakesql.errors import Problem
from lakesql.model.data_tests import DataTest

if TYPE_CHECKING:
    import pyarrow as pa

Status = Literal["pass", "no_rows", "warn", "fail", "error", "skipped"]
"""The status of a data test. `no_rows`: its `where` holds for no row, so that none was
tested; `fail`: there are failing rows, of severity error; `error`: the test could not
be run."""

STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, slots=True)
class Answer:
    """The failing rows of a test: their number, and the first ones. `all_rows` has all
    of them if they were asked for; else None."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    failures: int
    all_rows: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class ReadOf:
    """What a test read of a table: the number of rows. `snapshots` is the number of
    snapshots whose appended rows were read, since an earlier pass; None if the whole
    table was read."""

    model: str
    rows: int
    snapshots: int | None = None


@dataclass(frozen=True, slots=True)
class TestResult:
    """The result of a data test.

    `engine` is what ran its SELECT, '' if nothing did, and `why_spark` the reason if
    that was Spark. `failures` is the number of failing rows, of which `rows` are the
    first ones. `reads` is known for DuckDB alone. `compiled` is the path of its
    compiled SELECT, `stored` the table of its failing rows; '' if there is none.
    """

    __test__ = False

    test: DataTest
    status: Status
    failures: int = 0
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    engine: Literal["", "duckdb", "spark"] = ""
    why_spark: str = ""
    reads: tuple[ReadOf, ...] = ()
    duration_ms: int = 0
    compiled: str = ""
    stored: str = ""
    message: str = ""
    problems: tuple[Problem, ...] = ()


def judge_failures(
    test: DataTest, failures: int, looked_at: int | None = None
) -> Status:
    """The status of a test with this number of failing rows, by its severity and
    thresholds, as in dbt.

    `looked_at` is the number of rows for which its `where` holds; None if it has no
    `where`.
    """
    options = test.options
    if options.severity == "error" and options.error_if.holds(failures):
        return "fail"
    if options.warn_if.holds(failures):
        return "warn"
    return "no_rows" if looked_at == 0 else "pass"


def is_bad(results: Iterable[TestResult]) -> bool:
    """Whether the command ends with exit code 1: a test has failed or could not be run.
    Warnings and skipped tests do not count."""
    return any(result.status in ("fail", "error") for result in results)
