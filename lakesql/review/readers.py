"""Which models read the changed columns of a model, directly or through other models,
by `ref`, `stream` and `*`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lakesql.compile.select import Select
from lakesql.graph.manifest import Manifest, own_table, reads_model, ref_id
from lakesql.review.table_changes import table_columns
from lakesql.review.verdicts import ColumnChanges, ColumnReader
from lakesql.review.version import Version
from lakesql.select.lineage import Lineage, read_lineage


@dataclass(slots=True)
class ReadersOf:
    """Finds the models that read columns, in both versions of a project. The lineage of
    each model is computed only once."""

    new: Version
    old: Version | None
    lineages: dict[tuple[int, str], Lineage] = field(default_factory=dict)

    def find(self, name: str, columns: ColumnChanges) -> tuple[ColumnReader, ...]:
        """The models that read the changed columns of a model, directly or through
        columns that other models make of them.

        Readers of dropped columns are looked up in the former version.
        """
        found: dict[str, ColumnReader] = {}
        for number, names in enumerate(
            (columns.names, [column.name for column in columns.dropped])
        ):
            version = (self.new, self.old)[number]
            if version is not None and _has_table(version.manifest, name) and names:
                for reader in self._walk(
                    number, name, {column.lower() for column in names}
                ):
                    former = found.get(reader.name)
                    names = (*(former.columns if former else ()), *reader.columns)
                    found[reader.name] = ColumnReader(
                        reader.name, tuple(dict.fromkeys(names)), reader.through
                    )
        return tuple(found.values())

    def _walk(
        self, number: int, name: str, columns: set[str]
    ) -> Iterator[ColumnReader]:
        version = self._version(number)
        changed, graph = {name: columns}, version.manifest.graph
        below = graph.downstream([ref_id(version.manifest, name)])
        for id_ in (id_ for id_ in graph.nodes if id_ in below) if below else ():
            reader = id_.partition(".")[2]
            for upstream, relation in _relations(version.manifest, reader):
                lineage = (
                    self._lineage(number, reader) if changed.get(upstream) else None
                )
                if lineage is None:
                    continue
                touched = {(relation, column) for column in changed[upstream]}
                used = sorted(column for _, column in lineage.read & touched)
                if used:
                    yield ColumnReader(reader, tuple(used), upstream)
                    made = {
                        output
                        for output, made_of in lineage.made_of.items()
                        if made_of & touched
                    }
                    changed[reader] = changed.get(reader, set()) | made

    def _version(self, number: int) -> Version:
        version = (self.new, self.old)[number]
        assert version is not None
        return version

    def _lineage(self, number: int, name: str) -> Lineage | None:
        if (number, name) not in self.lineages:
            version = self._version(number)
            select = version.select(name)
            if not isinstance(select, Select):
                return None
            self.lineages[number, name] = read_lineage(
                select.query.sql, _columns(version, name)
            )
        return self.lineages[number, name]


def _relations(manifest: Manifest, name: str) -> Iterator[tuple[str, str]]:
    """The models and seeds that a model reads, each with the name of the relation in
    its SELECT."""
    for reference in manifest.models[name].facts.refs:
        if _has_table(manifest, reference.name):
            yield reference.name, str(own_table(manifest, reference.name)).lower()
    for reference in manifest.models[name].facts.streams:
        if reads_model(manifest, reference.name) is not None:
            yield reference.name, reference.name.lower()


def _has_table(manifest: Manifest, name: str) -> bool:
    return name in manifest.models or name in manifest.seeds


def _columns(version: Version, name: str) -> Mapping[str, tuple[str, ...] | None]:
    """The columns of each relation that a model reads; None if they are not known."""
    manifest, columns = version.manifest, dict[str, tuple[str, ...] | None]()
    for upstream, relation in _relations(manifest, name):
        if upstream in manifest.seeds:
            columns[relation] = tuple(
                column.name.lower() for column in manifest.seeds[upstream].columns
            )
            continue
        read = version.select(upstream)
        known = table_columns(read) if isinstance(read, Select) else ()
        columns[relation] = tuple(column.name.lower() for column in known) or None
    for reference in manifest.models[name].facts.streams:
        stream = manifest.streams.get(reference.name)
        if stream is not None:
            columns[reference.name.lower()] = (
                tuple(it.lower() for it in stream.column_names) or None
            )
    return columns
