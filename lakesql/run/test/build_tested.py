"""The model of a unit test, built as the test has it: with its variables, and with a
clock that can be stopped."""

from __future__ import annotations

from dataclasses import replace

from lakesql.compile.build_select import build_select
from lakesql.compile.select import Select
from lakesql.errors import ProjectError
from lakesql.graph.manifest import Manifest
from lakesql.model.unit_tests import UnitTest
from lakesql.unit.running_clock import find_running_clock


def build_tested(
    manifest: Manifest, test: UnitTest
) -> tuple[Manifest, Select, dict[str, Select]]:
    """The project with the test's variables, the model in it, and all SELECTs that were
    built for that."""
    built: dict[str, Select] = {}
    overrides = test.overrides.vars.plain() if test.overrides.vars else {}
    own = replace(manifest, vars={**manifest.vars, **overrides})
    select = build_select(own, test.model, built)
    if test.overrides.now is not None and (word := find_running_clock(_texts(select))):
        raise ProjectError.of(
            "clock-not-stopped",
            f"Test '{test.name}' sets the time, and model '{test.model}' asks for it by {word}.",
            fix="Write current_timestamp() or current_date(), with the brackets, or leave `now` out.",
            place=test.place,
        )
    return own, select, built


def _texts(select: Select) -> list[str]:
    """All SQL of the author's that a batch runs."""
    conditions = (
        *select.writing.conditions.values(),
        *select.writing.match_conditions.values(),
    )
    return [
        select.query.sql,
        *conditions,
        *(check.condition for check in select.checks),
    ]
