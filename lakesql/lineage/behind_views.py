"""How the lineage of a model leads past views, which have no rows of their own: to the
columns that a view is made of. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakesql.compile.compiled import CompiledFiles
from lakesql.compile.made_columns import MadeColumn, ModelLineage, SourceColumn
from lakesql.graph.manifest import Manifest
from lakesql.select.lineage_edges import through


def without_views(
    manifest: Manifest, compiled: CompiledFiles, lineage: ModelLineage
) -> ModelLineage:
    """The lineage with the columns that a view is made of in the place of the view's
    columns."""

    def resolved(sources: Iterable[SourceColumn]) -> tuple[SourceColumn, ...]:
        return tuple(
            dict.fromkeys(
                each
                for source in sources
                for each in _behind(manifest, compiled, source)
            )
        )

    columns = tuple(
        MadeColumn(column.name, resolved(column.sources)) for column in lineage.columns
    )
    return ModelLineage(columns, resolved(lineage.rows))


def _behind(
    manifest: Manifest, compiled: CompiledFiles, source: SourceColumn
) -> Iterator[SourceColumn]:
    type_, _, name = source.node.partition(".")
    model = manifest.models.get(name) if type_ == "model" else None
    if model is None or model.config.is_stored or name in manifest.deferred:
        yield source
        return
    known = compiled.known(name)
    columns = known.lineage.columns if known is not None else ()
    of_column = (
        column for column in columns if column.name.lower() == source.column.lower()
    )
    for each in (each for column in of_column for each in column.sources):
        for node, column, kind in through(
            frozenset({(each.node, each.column, each.kind)}), source.kind
        ):
            yield from _behind(manifest, compiled, SourceColumn(node, column, kind))
