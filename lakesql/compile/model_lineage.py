"""The lineage of a model: from which columns of which nodes of the project the columns
of its table come. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from lakesql.compile.made_columns import MadeColumn, ModelLineage, SourceColumn
from lakesql.compile.select import Select
from lakesql.errors import ProjectError
from lakesql.graph.graph import node_id
from lakesql.graph.manifest import Manifest, is_stored, read_table, reads_model, ref_id
from lakesql.model.writing import Writing
from lakesql.names import CHANGE, RECORD
from lakesql.select.lineage import Lineage, read_lineage
from lakesql.select.lineage_edges import NOTHING, Kind, Made, as_rows, through


def model_lineage(
    manifest: Manifest, select: Select, read: Mapping[str, tuple[str, ...]]
) -> ModelLineage:
    """The lineage of a model with a checked SELECT.

    `read` are the columns of the models that it reads, by the models' names, as far as
    they are known.
    """
    relations = {
        relation: (id_, names)
        for relation, id_, names in _relations(manifest, select, read)
    }
    known = {relation: _folded(names) for relation, (_, names) in relations.items()}
    found = read_lineage(_sql(manifest, select), known)
    columns, rows = _written(select, found)
    spelled = {
        id_: {name.lower(): name for name in names or ()}
        for id_, names in relations.values()
    }

    def sources(made: Made) -> tuple[SourceColumn, ...]:
        listed = []
        for relation, column, kind in made:
            id_ = (
                relations[relation][0] if relation in relations else f"table.{relation}"
            )
            listed.append(
                SourceColumn(id_, spelled.get(id_, {}).get(column, column), kind)
            )
        return tuple(sorted(listed, key=lambda it: (it.node, it.column, it.kind)))

    return ModelLineage(
        tuple(MadeColumn(name, sources(made)) for name, made in columns.items()),
        sources(rows),
    )


def _relations(
    manifest: Manifest, select: Select, read: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, str, tuple[str, ...] | None]]:
    """What a model reads: for each, its name in the SELECT, the id of its node, and its
    columns or None if they are unknown."""
    model = select.model
    for name, stream in select.streams.items():
        of_model = reads_model(manifest, name)
        id_ = (
            node_id("stream", name)
            if of_model is None
            else node_id("model", of_model.name)
        )
        yield name.lower(), id_, tuple(column.name for column in stream.columns) or None
    for name in dict.fromkeys(found.name for found in model.facts.refs):
        seed = manifest.seeds.get(name)
        columns = (
            read.get(name)
            if seed is None
            else tuple(column.name for column in seed.columns)
        )
        if name in manifest.deferred:
            columns = None  # it may have been written by another version of that model
        yield (
            ".".join(read_table(manifest, name).folded),
            ref_id(manifest, name),
            columns or None,
        )
    yield ".".join(model.table.folded), node_id("model", model.name), select.columns


def _folded(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return (
        None if names is None else (*(name.lower() for name in names), RECORD, CHANGE)
    )


def _sql(manifest: Manifest, select: Select) -> str:
    """The SELECT of the model's file, with views by their names instead of their
    queries."""
    if all(is_stored(manifest, found.name) for found in select.model.facts.refs):
        return select.query.sql
    from lakesql.compile.build_select import names_of_template, template_of
    from lakesql.template.template import render_template

    return render_template(
        template_of(manifest, select.model), names_of_template(manifest, select.model)
    ).text


def _written(select: Select, found: Lineage) -> tuple[dict[str, Made], Made]:
    """The columns of the table, including those that the mode adds, and the columns
    that decide which rows it has, including those in conditions of the mode and of
    expectations."""
    writing, names = select.writing, select.columns
    columns = {name: found.columns.get(name.lower(), NOTHING) for name in names or ()}
    if names is None:
        columns = dict(found.columns)
    folded = {name.lower(): made for name, made in columns.items()}
    for added in writing.added:
        columns[added.name] = through(
            folded.get(added.like.lower(), NOTHING), "transformation"
        )
    decides: list[tuple[Iterable[str], Kind]] = [
        (writing.keys, "group_by"),
        (writing.sequence_by, "sort"),
        (writing.not_null, "filter"),
        (_named(_conditions(select), tuple(folded)), "filter"),
    ]
    rows = found.rows
    for words, kind in decides:
        for word in words:
            rows |= as_rows(folded.get(word.lower(), NOTHING), kind)
    return columns, rows


def _conditions(select: Select) -> Iterator[str]:
    """The conditions that decide whether a row of the SELECT gets into the table."""
    writing: Writing = select.writing
    yield from writing.conditions.values()
    yield from writing.match_conditions.values()
    yield from (
        check.condition
        for check in select.checks
        if check.on_fail == "dead_letter" and check.condition
    )


def _named(conditions: Iterator[str], columns: tuple[str, ...]) -> Iterator[str]:
    """The columns of the model in these conditions, unqualified or qualified by the
    source or the target of a MERGE."""
    for condition in conditions:
        yield from _named_in(condition, columns)


@lru_cache(maxsize=256)  # many models have one condition, such as `op = 'd'`
def _named_in(condition: str, columns: tuple[str, ...]) -> frozenset[str]:
    sql = f"SELECT {condition} AS found FROM _lakesql_row AS source CROSS JOIN _lakesql_row AS target"
    try:
        return frozenset(
            column for _, column in read_lineage(sql, {"_lakesql_row": columns}).read
        )
    except ProjectError:
        return frozenset()  # a condition that is refused is refused by itself
