"""The results of data tests, as text for a terminal and as the JSON of
`target/test_results.json`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from lakesql import __version__
from lakesql.cli.rows import render_rows
from lakesql.counts import count
from lakesql.json_values import plain
from lakesql.observe.text import duration, iso_time
from lakesql.plan.data_test_results import STATUSES, ReadOf, TestResult

WIDTH = 110
"""The maximal width of the table of failing rows, in characters."""

_WORDS = {
    "pass": "pass",
    "no_rows": "none",
    "warn": "WARN",
    "fail": "FAIL",
    "error": "ERROR",
    "skipped": "skip",
}


def result_lines(result: TestResult) -> Iterator[str]:
    """A line for a test, and, unless it has passed or was skipped, lines with its
    places, its problems and its failing rows."""
    test, word = result.test, _WORDS[result.status]
    of = test.model or ", ".join(test.depends_on)
    facts = [count(result.failures, "failing row")] if result.failures else []
    facts += [_read(result.reads)] if result.reads else []
    facts += [f"on Spark: {result.why_spark}"] if result.why_spark else []
    facts += [duration(result.duration_ms)] if result.engine else []
    yield f"{word:<5}  {of}: {test.name}" + (f"  ({'; '.join(facts)})" if facts else "")
    if result.status in ("pass", "skipped"):
        return
    if result.status == "no_rows" and test.where is not None:
        yield f"       {test.where.place}: no row was looked at, as none fits where: {test.where.value}"
        return
    yield f"       {test.place}"
    if result.compiled:
        yield f"       {result.compiled}"
    if result.stored:
        yield f"       all of them are in {result.stored}"
    for problem in result.problems:
        yield from (
            f"       {text}"
            for text in (problem.what, problem.why, problem.fix)
            if text
        )
    if result.rows:
        yield ""
        yield from (
            f"    {line}"
            for line in render_rows(result.columns, result.rows, WIDTH).splitlines()
        )
        if result.failures > len(result.rows):
            yield f"    and {count(result.failures - len(result.rows), 'row')} more"
        yield ""


def count_statuses(results: Sequence[TestResult]) -> dict[str, int]:
    """The number of tests by status, with every status."""
    found = Counter(result.status for result in results)
    return {status: found[status] for status in STATUSES}


def summary_line(results: Sequence[TestResult]) -> str:
    """The number of tests by status, as a sentence."""
    found = count_statuses(results)
    words = {
        "pass": "passed",
        "no_rows": "looked at no row",
        "warn": "warned",
        "fail": "failed",
        "error": "could not be run",
        "skipped": "skipped",
    }
    told = [
        f"{found[status]} {words[status]}"
        for status in STATUSES
        if found[status] or status in ("pass", "fail")
    ]
    return f"Data tests: {', '.join(told)}."


def render_results(
    results: Sequence[TestResult], *, command: str, target: str, at_ms: int
) -> str:
    """The text of `target/test_results.json`, in the shape of `run_results.json`."""
    metadata = {
        "lakesql_version": __version__,
        "generated_at": iso_time(at_ms),
        "command": command,
        "target": target,
    }
    return (
        json.dumps(
            {"metadata": metadata, "results": plain_results(results)},
            indent=2,
            ensure_ascii=False,
        )
        + "\n"
    )


def plain_results(results: Sequence[TestResult]) -> list[dict[str, Any]]:
    """The results as JSON objects."""
    return [
        {
            "unique_id": result.test.id,
            "name": result.test.name,
            "test": result.test.word,
            "models": list(result.test.depends_on),
            "column": result.test.column or None,
            "severity": result.test.options.severity,
            "place": str(result.test.place),
            "status": result.status,
            "failures": result.failures if result.engine else None,
            "message": result.message,
            "engine": result.engine or None,
            "needs_spark": result.why_spark or None,
            "read": [asdict(each) for each in result.reads],
            "rows": [
                dict(zip(result.columns, map(plain, row), strict=True))
                for row in result.rows
            ],
            "execution_time_ms": result.duration_ms,
            "compiled_path": result.compiled or None,
            "failures_table": result.stored or None,
            "problems": [asdict(problem) for problem in result.problems],
        }
        for result in results
    ]


def _read(reads: Sequence[ReadOf]) -> str:
    told = []
    for each in reads:
        of = f" of {each.model}" if len(reads) > 1 else ""
        since = (
            ""
            if each.snapshots is None
            else f" of {count(each.snapshots, 'new snapshot')}"
        )
        told.append(f"{count(each.rows, 'row')}{of}{since}")
    return "read " + ", ".join(told)
