"""What Spark, Java or Python raised while a model ran, as an error that its author or operator can act on."""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException

from lakesql.compile.select import Select
from lakesql.errors import LakesqlError, Place, RunError

_IN_SQL = re.compile(r"== SQL(?: of [^(]*)? \(line (\d+), position (\d+)\) ==")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] (.+?)(?: SQLSTATE: \w+)?(?:\n|$)")
_CAUSE = re.compile(r"^Caused by: (?:[\w$]+\.)*([\w$]+): (.+)$", re.MULTILINE)
_CAST = ("CAST_INVALID_INPUT", "CAST_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE", "DIVIDE_BY_ZERO", "ARITHMETIC_OVERFLOW")


def explain(error: Exception, select: Select) -> LakesqlError:
    """The error of a model's run: lakesql's own as it is, Spark's with the line of the model that it speaks of."""
    if isinstance(error, LakesqlError):
        return error
    message = str(error)  # of Spark's errors, with the causes in it: the last one is at the bottom of it
    found = [*_CONDITION.finditer(message)][-1:] or [*_CAUSE.finditer(message)][-1:]
    name, what = (found[0][1], found[0][2]) if found else ("", message.strip().split("\n")[0])
    place = _place(message, select)
    if any(condition in name for condition in _CAST):
        return RunError.of(
            "expression-failed",
            what,
            why="Under ANSI rules a value that does not fit fails the batch; nothing of it was written.",
            fix="Where such values are to become NULL, use try_cast, try_divide and the like.",
            place=place,
        )
    if isinstance(error, AnalysisException):
        return RunError.of("analysis-failed", what or str(error), fix="Correct the SELECT.", place=place)
    return RunError.of(
        "batch-failed",
        f"{name + ': ' if name else ''}{what}",
        why="Nothing of the batch is visible to readers; the next run takes it up again.",
        fix="logs/ holds what Spark says of it.",
        place=place,
    )


def _place(message: str, select: Select) -> Place:
    """Where the model's file says what Spark complains of; the model's file where Spark names no line."""
    found = [*_IN_SQL.finditer(message)]
    if not found:
        return Place(select.model.path)
    line, column = int(found[-1][1]), int(found[-1][2])
    offset = sum(len(text) for text in select.text.splitlines(keepends=True)[: line - 1]) + column - 1
    return select.place(offset)
