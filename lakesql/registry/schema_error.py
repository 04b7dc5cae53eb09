"""What is wrong with a schema, and with a field of one."""

from __future__ import annotations


class SchemaError(ValueError):
    """A text is no schema of its kind."""


class NoColumnError(ValueError):
    """A field is of a type that no column holds: its path, and why."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} {why}")
        self.path, self.why = path, why
