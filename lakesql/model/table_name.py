"""The name of a table, and the names of the tables beside it."""

from __future__ import annotations

from dataclasses import dataclass

from lakesql.names import DEAD_LETTER_SUFFIX, MEMORY_SUFFIXES, REBUILD_SUFFIX, Memory


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """`catalog.namespace.name`, as people and catalogs write it.

    All three are plain words (`names.check_name`), which may be words of SQL: in SQL it
    is `compile.quote.table_name`.
    """

    catalog: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.catalog}.{self.namespace}.{self.name}"

    @property
    def folded(self) -> tuple[str, ...]:
        """Its parts in small letters, by which names are compared: capitals make no
        difference."""
        return self.catalog.lower(), self.namespace.lower(), self.name.lower()

    @property
    def dead_letter(self) -> TableName:
        """The table of this one's dead letters."""
        return self._with_suffix(DEAD_LETTER_SUFFIX)

    def memory(self, kind: Memory) -> TableName:
        """The table of what batches of this one remember of a kind."""
        return self._with_suffix(MEMORY_SUFFIXES[kind])

    @property
    def tombstones(self) -> TableName:
        """The table of the keys that were deleted from this one."""
        return self.memory("tombstones")

    @property
    def moves(self) -> TableName:
        """The table of changes of keys that batches of this one have split."""
        return self.memory("moves")

    @property
    def beside(self) -> tuple[TableName, ...]:
        """All tables that a model may have beside its own, but for those of a
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
