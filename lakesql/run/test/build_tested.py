"""Builds the model of a unit test as the test sets it up: with its variables, and with
a fixed clock if it sets one."""

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
    """The project with the test's variables, the model's SELECT in it, and all SELECTs
    built for it. Raises `ProjectError` (`clock-not-stopped`) if the test sets the time
    and the SELECT asks for it in a way that cannot be fixed."""
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
    """All SQL texts of the author that a batch runs."""
    conditions = (
        *select.writing.conditions.values(),
        *select.writing.match_conditions.values(),
    )
    return [
        select.query.sql,
        *conditions,
        *(check.condition for check in select.checks),
    ]
