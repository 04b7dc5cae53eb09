"""CREATE TABLE and ALTER TABLE: the text of the statements for a model's table and for
its dead-letter table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from lakesql.compile.quote import field_path, identifier, table_name, text
from lakesql.compile.storable import can_be_ordered
from lakesql.model.config import PartitionField, SortField, TableConfig
from lakesql.model.model import Model
from lakesql.model.table_name import TableName
from lakesql.model.writing import Versions
from lakesql.names import CHANGE, CHANGE_FIELDS
from lakesql.table.terms import Terms, read_terms

DEFAULT_PROPERTIES: Mapping[str, str] = {
    "format-version": "2",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.distribution-mode": "none",
    "write.delete.distribution-mode": "none",
    "write.update.distribution-mode": "none",
    "write.merge.distribution-mode": "none",
    "write.target-file-size-bytes": "268435456",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "commit.manifest.min-count-to-merge": "8",
}
"""The table properties that micro-batches need and Iceberg's defaults do not give:
row-level changes write delete files (merge-on-read), small writes are not shuffled,
compression is cheap (files within a hundredth as small, for a tenth less work), and
neither metadata files nor manifests pile up, as each reader and each MERGE reads all
manifests first."""

MARKS = DEFAULT_PROPERTIES.keys() - {"commit.manifest.min-count-to-merge"}
"""The properties that every version of lakesql has set on its tables, by which a table
is recognized as lakesql's."""


def format_version(properties: Mapping[str, str]) -> int:
    """The format version of a table that is created with these properties; 0 if it is
    no number."""
    version = {**DEFAULT_PROPERTIES, **properties}["format-version"]
    return int(version) if version.isdecimal() else 0


UNKNOWN_TYPE = "/* its type in the SELECT */"
_UNKNOWN_COLUMNS = "/* the columns of the SELECT */"
"""The placeholders in a compiled statement for what only Spark's analyzer knows."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table. `type` is Spark's text of its type, None if only Spark's
    analyzer knows it."""

    name: str
    type: str | None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """Everything that a CREATE TABLE declares. `added` are the columns that the mode
    adds, by the option that adds them. `versions` is set if the rows are versions of
    keys."""

    name: TableName
    columns: tuple[TableColumn, ...]
    partition_by: tuple[PartitionField, ...] = ()
    order_by: tuple[SortField, ...] = ()
    properties: Mapping[str, str] = field(default_factory=lambda: DEFAULT_PROPERTIES)
    comment: str = ""
    added: Mapping[str, str] = field(default_factory=dict)
    versions: Versions | None = None


def build_table_spec(
    name: TableName, columns: tuple[TableColumn, ...], config: TableConfig, comment: str
) -> TableSpec:
    """The table that a model's configuration asks for, with these columns and those
    that its mode adds."""
    mode_adds = config.writing().added
    added = (
        TableColumn(it.name, it.type or _type_like(it.like, columns), it.comment)
        for it in mode_adds
    )
    columns = (*columns, *added)
    properties = {**DEFAULT_PROPERTIES, **config.default_properties}
    if config.properties.get("write.parquet.compression-codec", "zstd") != "zstd":
        # the level is of the default codec: other codecs have other levels
        del properties["write.parquet.compression-level"]
    order_by = config.order_by or tuple(
        field for field in config.default_order if _can_be_ordered(field, columns)
    )
    return TableSpec(
        name=name,
        columns=columns,
        partition_by=config.partition_by,
        order_by=tuple(_in_capitals_of(columns, field) for field in order_by),
        properties={**properties, **config.properties},
        comment=comment,
        added={it.option: it.name for it in mode_adds},
        versions=config.versions,
    )


def _type_like(word: str, columns: tuple[TableColumn, ...]) -> str | None:
    """The type of a name in `sequence_by`: of a column, or of a field of `_change`.
    None if it is not known."""
    field = word.lower().removeprefix(f"{CHANGE}.")
    if field != word.lower():
        return CHANGE_FIELDS.get(field)
    return next(
        (column.type for column in columns if column.name.lower() == field), None
    )


def _in_capitals_of(columns: tuple[TableColumn, ...], field: SortField) -> SortField:
    """The sort field with the column's own spelling, as Iceberg's rewrites compare
    names case-sensitively."""
    own = next(
        (
            column.name
            for column in columns
            if column.name.lower() == field.column.lower()
        ),
        field.column,
    )
    return replace(field, column=own)


def _can_be_ordered(field: SortField, columns: tuple[TableColumn, ...]) -> bool:
    kinds = [
        column.type for column in columns if column.name.lower() == field.column.lower()
    ]
    return all(can_be_ordered(kind or "") for kind in kinds)


def create_table(
    spec: TableSpec, existing: Literal["", "IF NOT EXISTS", "OR REPLACE"] = ""
) -> tuple[str, ...]:
    """The statements that create the table: CREATE TABLE and, if it has a sort order,
    the ALTER TABLE that sets it.

    `existing` decides what happens if the table exists already.
    """
    create = {"": "CREATE TABLE", "OR REPLACE": "CREATE OR REPLACE TABLE"}.get(
        existing, f"CREATE TABLE {existing}"
    )
    columns = (
        ",\n".join(f"  {column_text(column)}" for column in spec.columns)
        or f"  {_UNKNOWN_COLUMNS}"
    )
    lines = [f"{create} {table_name(spec.name)} (", columns, ")", "USING iceberg"]
    statements = ["\n".join((*lines, *_table_clauses(spec)))]
    if spec.order_by:
        statements.append(alter_table(spec.name, order_text(spec.order_by)))
    return tuple(statements)


def create_table_as(spec: TableSpec, query: str, *, replaces: bool) -> str:
    """The statement that creates the table with the rows of a query in one commit, or
    that replaces an existing one (`replaces`)."""
    lines = [
        f"CREATE {'OR REPLACE ' if replaces else ''}TABLE {table_name(spec.name)}",
        "USING iceberg",
    ]
    return "\n".join((*lines, *_table_clauses(spec), f"AS {query}"))


def _table_clauses(spec: TableSpec) -> Iterator[str]:
    """The clauses of a CREATE TABLE after its columns."""
    if spec.partition_by:
        yield f"PARTITIONED BY ({', '.join(map(partition_text, spec.partition_by))})"
    if spec.comment:
        yield f"COMMENT {text(spec.comment)}"
    if spec.properties:
        yield properties_text(spec.properties)


def alter_table(table: TableName, change: str) -> str:
    """An ALTER TABLE statement with one change."""
    return f"ALTER TABLE {table_name(table)} {change}"


def dead_letter_spec(table: TableName) -> TableSpec:
    """The dead-letter table beside `table`."""
    return TableSpec(
        name=table.dead_letter,
        columns=DEAD_LETTER_COLUMNS,
        partition_by=(PartitionField("days", "rejected_at"),),
        properties=DEFAULT_PROPERTIES,
        comment=f"Dead letters of {table}: records that were rejected.",
    )


DEAD_LETTER_COLUMNS = (
    TableColumn("stream", "STRING", "The stream that the record arrived on."),
    TableColumn("topic", "STRING", "Its topic; for plain files the file's path."),
    TableColumn("partition", "INT", "Its partition."),
    TableColumn("offset", "BIGINT", "Its offset in the partition."),
    TableColumn("timestamp", "TIMESTAMP", "Its time, as the source says it."),
    TableColumn("key", "BINARY", "The raw key."),
    TableColumn("value", "BINARY", "The raw value."),
    TableColumn("reason", "STRING", "The name of the condition."),
    TableColumn("detail", "STRING", "What exactly was wrong."),
    TableColumn("model", "STRING", "The model that rejected it."),
    TableColumn("batch", "BIGINT", "The batch in which it was."),
    TableColumn("rejected_at", "TIMESTAMP", "When it was rejected."),
    TableColumn(
        "replay",
        "STRING",
        "The id of the `lakesql replay` that has taken it; NULL if none has.",
    ),
    TableColumn(
        "replayed_at",
        "TIMESTAMP",
        "When that was done with it; NULL while it is to be read again.",
    ),
)


def partition_text(field: PartitionField) -> str:
    """A partition field as PARTITIONED BY reads it."""
    if field.transform == "identity":
        return field_path(field.column)
    width = f"{field.width}, " if field.width is not None else ""
    return f"{field.transform}({width}{field_path(field.column)})"


def sort_text(field: SortField) -> str:
    """A sort field as ORDERED BY reads it, without defaults."""
    direction = " DESC" if field.descending else ""
    nulls = (
        ""
        if field.nulls_first != field.descending
        else f" NULLS {'FIRST' if field.nulls_first else 'LAST'}"
    )
    return f"{identifier(field.column)}{direction}{nulls}"


def order_text(order_by: tuple[SortField, ...]) -> str:
    """The change that sets a table's sort order, for rows written from then on."""
    return f"WRITE LOCALLY ORDERED BY {', '.join(map(sort_text, order_by))}"


def column_text(column: TableColumn) -> str:
    """A column as CREATE TABLE reads it."""
    comment = f" COMMENT {text(column.comment)}" if column.comment else ""
    return f"{identifier(column.name)} {column.type or UNKNOWN_TYPE}{comment}"


def properties_text(properties: Mapping[str, str]) -> str:
    """The properties of a table as CREATE TABLE reads them."""
    lines = ",\n".join(
        f"  {text(key)} = {text(value)}" for key, value in properties.items()
    )
    return f"TBLPROPERTIES (\n{lines}\n)"


def terms_of(model: Model) -> Terms:
    """The terms (properties as values) of the table that the model's configuration asks
    for."""
    said = {
        **DEFAULT_PROPERTIES,
        **model.config.default_properties,
        **model.config.properties,
    }
    return read_terms(said)
