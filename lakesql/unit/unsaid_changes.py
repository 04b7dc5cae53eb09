"""Models that no unit test is of, as its rows do not say what became of them."""

from __future__ import annotations

from lakesql.compile.select import Select
from lakesql.errors import ProjectError
from lakesql.model.unit_tests import UnitTest


def refuse_table_changes(select: Select, test: UnitTest) -> None:
    """Raise `ProjectError` (`bad-fixture`) where a model reads by `_change` what became of the rows of a table."""
    changing = [name for name in select.query.streams_read if select.streams[name].has_table_changes]
    if changing and select.query.change_fields:
        raise ProjectError.of(
            "bad-fixture",
            f"Test '{test.name}' is of model '{test.model}', which reads by _change what became of the rows of "
            f"'{changing[0]}', and the rows of a test say nothing of that.",
            fix=f"Test model '{changing[0]}', and a model that reads '{test.model}'.",
            place=test.place,
        )
