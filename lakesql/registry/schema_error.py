"""The errors of invalid schemas, and of fields that no column can hold."""

from __future__ import annotations


class SchemaError(ValueError):
    """A text that is no valid schema of its kind."""


class NoColumnError(ValueError):
    """A field of a type that no column can hold: its path, and why."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} {why}")
        self.path, self.why = path, why
