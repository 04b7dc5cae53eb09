"""The tools that change something, which an assistant has if the server was started
with `--allow`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lakesql.cli.assistant.answers import Answer, Question

if TYPE_CHECKING:
    from lakesql.plan.data_test_results import TestResult


def do_test(question: Question) -> Answer:
    """Run tests as `lakesql test` does. Returns the JSON document of the results, with
    the exit code."""
    from lakesql.cli import project, selection
    from lakesql.cli.test import (
        exit_code,
        render_document,
        run_tests_of_data,
        run_unit_tests,
    )
    from lakesql.compile.compiled import compiled_files

    options, kind = question.options, question.text("kind")
    manifest = project.load_project(options)
    names, data_tests = selection.select_tests(
        manifest, question.texts("select"), question.texts("exclude"), options
    )
    data_tests = () if kind == "unit" else data_tests
    unit_tests = (
        ()
        if kind == "data"
        else [test for test in manifest.unit_tests if test.model in names]
    )
    if data_tests:
        project.check_tests(manifest, compiled_files(manifest))
    units = run_unit_tests(manifest, unit_tests, "duckdb", options)
    results: list[TestResult] = []
    if data_tests:
        results = run_tests_of_data(
            manifest, data_tests, "duckdb", False, options, shows=False
        )
    return {
        "exit_code": exit_code(units, results, None),
        **json.loads(render_document(units, results)),
    }


def do_run(question: Question) -> Answer:
    """Run models as `lakesql run --once` does. Returns the exit code and the content of
    `run_results.json`, None if the run has not written it."""
    from lakesql.cli import selection
    from lakesql.cli.run import run_selected
    from lakesql.run.job import RunOptions

    options = question.options
    work = selection.load_work(
        options, question.texts("select"), question.texts("exclude"), asks=True
    )
    path = work.manifest.outputs.target / "run_results.json"
    before = _content(path)
    code = run_selected(options, work, RunOptions(continuous=False))
    after = _content(path)
    results = json.loads(after) if after and after != before else None
    return {"exit_code": code, "models": list(work.names), "run_results": results}


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


CHANGES: Mapping[str, Callable[[Question], Answer]] = {"test": do_test, "run": do_run}
