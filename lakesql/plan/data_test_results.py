"""How data tests ended, and from where an incremental one goes on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from lakesql.errors import Problem
from lakesql.model.data_tests import DataTest

if TYPE_CHECKING:
    import pyarrow as pa

Status = Literal["pass", "no_rows", "warn", "fail", "error", "skipped"]
"""`no_rows`: its `where` holds for no row, so that it has looked at none; `fail`: there
are failing rows, of severity error; `error`: it could not be told."""

STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, slots=True)
class Answer:
    """The failing rows: how many, and the first ones. `all_rows` is all of them, where
    they were asked for."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    failures: int
    all_rows: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class ReadOf:
    """What was read of one table: so many rows, of all snapshots or only of the
    `snapshots` since an earlier pass."""

    model: str
    rows: int
    snapshots: int | None = None


@dataclass(frozen=True, slots=True)
class TestResult:
    """A test and how it ended.

    `engine` is where its SELECT has run, '' if nowhere, and `why_spark` why that was
    Spark. `failures` are the failing rows, of which `rows` are the first ones. `reads`
    is known of DuckDB alone: what Spark reads is its own affair. `compiled` is the path
    of its compiled SELECT, `stored` the table of its failing rows, '' where there is
    none.
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
    """What so many failing rows are, by the test's severity and thresholds, as in dbt.

    `looked_at` is how many rows its `where` has let through, where it has one.
    """
    options = test.options
    if options.severity == "error" and options.error_if.holds(failures):
        return "fail"
    if options.warn_if.holds(failures):
        return "warn"
    return "no_rows" if looked_at == 0 else "pass"


def is_bad(results: Iterable[TestResult]) -> bool:
    """Whether the command ends with exit code 1: warnings do not, nor does what is
    skipped by itself."""
    return any(result.status in ("fail", "error") for result in results)
