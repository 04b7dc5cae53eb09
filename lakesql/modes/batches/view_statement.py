"""Mode `view`: what is refused in a SELECT, and the statement that creates the view."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lakesql.compile.batch import Step
from lakesql.compile.quote import identifier, table_name, text
from lakesql.errors import Problem
from lakesql.model.properties import NO_LIMITS
from lakesql.modes.batches.batches import StoredRows
from lakesql.modes.batches.refreshed_batches import RefreshedBatches
from lakesql.names import VIEW_MODEL

_COMMENTS = re.compile(r"\A(?:\s+|--[^\n]*\n|/\*.*?\*/)*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ViewStatement(RefreshedBatches):
    """A view of the catalog, whose SELECT is run by its readers."""

    def check(self) -> Iterator[Problem]:
        """The problems of a SELECT that reads no table, of expectations, and of limits
        of freshness, as no run writes the rows of a view."""
        yield from RefreshedBatches.check(self)
        for check in self.select.checks:
            yield Problem(
                "expectation-of-view",
                f"'{check.name}' is expected of the rows of view '{self.select.model.name}', which are never written.",
                "An expectation is looked at when rows are written.",
                "Say it as a data test, or use mode 'materialized_view' or 'table'.",
                check.place,
            )

        properties = self.select.model.properties
        if properties.freshness != NO_LIMITS:
            yield Problem(
                "contradictory-options",
                f"Model '{self.select.model.name}' has limits of freshness, and mode 'view' has no table.",
                "A view is as fresh as what it reads.",
                "Say the limits of the models that it reads.",
                properties.place,
            )

    @property
    def sql(self) -> str:
        """The SELECT as Spark stores it in the view, without the comments before its
        first word."""
        return _COMMENTS.sub("", self.select.text, count=1).rstrip()

    def statement(self) -> str:
        """The statement that creates or replaces the view."""
        model = self.select.model
        lines = [f"CREATE OR REPLACE VIEW {table_name(model.table)}{self._columns()}"]
        if model.properties.description:
            lines.append(f"COMMENT {text(model.properties.description)}")
        lines += [
            f"TBLPROPERTIES ({text(VIEW_MODEL)} = {text(model.name)})",
            f"AS\n{self.sql}",
        ]
        return "\n".join(lines)

    def steps(self, columns: tuple[str, ...] | None) -> tuple[Step, ...]:
        """None, as no batch writes a view."""
        return ()

    def rows(self) -> str:
        """The text on which rows the view has."""
        return "those of the SELECT, made when somebody reads them"

    def kept_by(self) -> str:
        """The text on when the view is replaced."""
        return "none is stored: the view is made anew when its SELECT has changed, or the columns of what it reads"

    def stored_rows(self) -> StoredRows:
        """What a changed SELECT means: the next run replaces the view."""
        return StoredRows(
            "next-batch",
            "The next run puts the view in the place of the former one.",
            "",
        )

    def _columns(self) -> str:
        """The list of the view's columns with their descriptions; '' if none has one,
        or if only Spark knows the columns."""
        said = self.select.model.properties.description_of
        columns = self.select.columns or ()
        if not any(map(said, columns)):
            return ""
        listed = (_described(column, said(column)) for column in columns)
        return " (\n  " + ",\n  ".join(listed) + "\n)"


def _described(column: str, description: str) -> str:
    if not description:
        return identifier(column)
    return f"{identifier(column)} COMMENT {text(description)}"
