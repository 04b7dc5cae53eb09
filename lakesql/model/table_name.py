"""The name of a table, and the names of the tables beside it."""

from __future__ import annotations

from dataclasses import dataclass

from lakesql.names import DEAD_LETTER_SUFFIX, MEMORY_SUFFIXES, REBUILD_SUFFIX, Memory


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """The name of a table, `catalog.namespace.name`.

    The parts are plain words (`names.check_name`), but may be keywords of SQL: for SQL
    use `compile.quote.table_name`.
    """

    catalog: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.catalog}.{self.namespace}.{self.name}"

    @property
    def folded(self) -> tuple[str, ...]:
        """Its parts in lower case, as names are compared case-insensitively."""
        return self.catalog.lower(), self.namespace.lower(), self.name.lower()

    @property
    def dead_letter(self) -> TableName:
        """The dead-letter table of this one."""
        return self._with_suffix(DEAD_LETTER_SUFFIX)

    def memory(self, kind: Memory) -> TableName:
        """The table of what batches remember for later ones: deleted keys, or key
        changes."""
        return self._with_suffix(MEMORY_SUFFIXES[kind])

    @property
    def tombstones(self) -> TableName:
        """The table of the keys that were deleted from this one."""
        return self.memory("tombstones")

    @property
    def moves(self) -> TableName:
        """The table of key changes whose transaction may continue in a later batch."""
        return self.memory("moves")

    @property
    def beside(self) -> tuple[TableName, ...]:
        """All tables that a model may have beside its own, except those of a
        rebuild."""
        return self.dead_letter, *map(self.memory, MEMORY_SUFFIXES)

    @property
    def rebuild(self) -> TableName:
        """The table that a rebuild fills beside this one."""
        return self._with_suffix(REBUILD_SUFFIX)

    @property
    def family(self) -> tuple[TableName, ...]:
        """All tables that a model may have: its own, those beside it, and those of a
        rebuild."""
        return (self, *self.beside, self.rebuild, *self.rebuild.beside)

    def _with_suffix(self, suffix: str) -> TableName:
        return TableName(self.catalog, self.namespace, self.name + suffix)
