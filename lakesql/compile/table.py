"""CREATE TABLE and ALTER TABLE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesql.compile.quote import identifier, table_name, text
from lakesql.model.config import STAGING_PROPERTY, Config, PartitionField, SortField
from lakesql.model.table_name import TableName
from lakesql.model.writing import build_writing

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
}
"""What a table that is written in micro-batches needs and Iceberg's own defaults do not give: row-level changes
that write deletes beside the data, no shuffle before a small write, files that are as small (within a hundredth) for
a tenth less work, and metadata files that do not pile up."""


def format_version(properties: Mapping[str, str]) -> int:
    """The format version of a table that is given these properties."""
    version = {**DEFAULT_PROPERTIES, **properties}["format-version"]
    return int(version) if version.isdecimal() else 0


UNKNOWN_TYPE = "/* its type in the SELECT */"
_UNKNOWN_COLUMNS = "/* the columns of the SELECT */"
"""What stands in a compiled statement for what only Spark's analyzer will know."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table. `type` is Spark's text of it, None where only Spark's analyzer will know."""

    name: str
    type: str | None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """Everything that a CREATE TABLE says."""

    name: TableName
    columns: tuple[TableColumn, ...]
    partition_by: tuple[PartitionField, ...] = ()
    order_by: tuple[SortField, ...] = ()
    properties: Mapping[str, str] = field(default_factory=lambda: DEFAULT_PROPERTIES)
    comment: str = ""


def build_table_spec(name: TableName, columns: tuple[TableColumn, ...], config: Config, comment: str) -> TableSpec:
    """The table that a model's configuration asks for."""
    writing = build_writing(config)
    properties = {**DEFAULT_PROPERTIES, STAGING_PROPERTY: "true", **writing.properties}
    return TableSpec(
        name=name,
        columns=columns,
        partition_by=config.partition_by,
        order_by=config.order_by or writing.order_by,
        properties=_with_own(properties, config.properties),
        comment=comment,
    )


def _with_own(properties: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The default properties under an author's own. A level goes with its codec: others count differently."""
    codec, level = "write.parquet.compression-codec", "write.parquet.compression-level"
    left_out = {level} if own.get(codec, "zstd") != "zstd" else set()
    return {**{key: value for key, value in properties.items() if key not in left_out}, **own}


def create_namespace(catalog: str, namespace: str) -> str:
    """CREATE NAMESPACE."""
    return f"CREATE NAMESPACE IF NOT EXISTS {identifier(catalog)}.{identifier(namespace)}"


def create_table(spec: TableSpec, if_not_exists: bool = False) -> tuple[str, ...]:
    """The statements that make the table: CREATE TABLE, and where rows are to be ordered the ALTER that says so."""
    create = "CREATE TABLE IF NOT EXISTS" if if_not_exists else "CREATE TABLE"
    columns = ",\n".join(f"  {_column(column)}" for column in spec.columns) or f"  {_UNKNOWN_COLUMNS}"
    lines = [f"{create} {table_name(spec.name)} (", columns, ")"]
    lines.append("USING iceberg")
    if spec.partition_by:
        lines.append(f"PARTITIONED BY ({', '.join(partition_text(field) for field in spec.partition_by)})")
    if spec.comment:
        lines.append(f"COMMENT {text(spec.comment)}")
    lines.append(f"TBLPROPERTIES (\n{_properties(spec.properties)}\n)")
    statements = ["\n".join(lines)]
    if spec.order_by:
        statements.append(set_order(spec.name, spec.order_by))
    return tuple(statements)


def add_columns(table: TableName, columns: tuple[TableColumn, ...]) -> str:
    """ALTER TABLE … ADD COLUMNS."""
    return f"ALTER TABLE {table_name(table)} ADD COLUMNS ({', '.join(_column(column) for column in columns)})"


def drop_column(table: TableName, column: str) -> str:
    """ALTER TABLE … DROP COLUMN."""
    return f"ALTER TABLE {table_name(table)} DROP COLUMN {identifier(column)}"


def alter_type(table: TableName, column: str, wider: str) -> str:
    """ALTER TABLE … ALTER COLUMN … TYPE, for the widenings that Iceberg knows."""
    return f"ALTER TABLE {table_name(table)} ALTER COLUMN {identifier(column)} TYPE {wider}"


def drop_partition(table: TableName, field: PartitionField) -> str:
    """ALTER TABLE … DROP PARTITION FIELD."""
    return f"ALTER TABLE {table_name(table)} DROP PARTITION FIELD {partition_text(field)}"


def add_partition(table: TableName, field: PartitionField) -> str:
    """ALTER TABLE … ADD PARTITION FIELD."""
    return f"ALTER TABLE {table_name(table)} ADD PARTITION FIELD {partition_text(field)}"


def set_order(table: TableName, order_by: tuple[SortField, ...]) -> str:
    """ALTER TABLE … WRITE LOCALLY ORDERED BY."""
    order = ", ".join(sort_text(field) for field in order_by)
    return f"ALTER TABLE {table_name(table)} WRITE LOCALLY ORDERED BY {order}"


def set_properties(table: TableName, properties: Mapping[str, str]) -> str:
    """ALTER TABLE … SET TBLPROPERTIES."""
    return f"ALTER TABLE {table_name(table)} SET TBLPROPERTIES (\n{_properties(properties)}\n)"


def dead_letter_spec(table: TableName) -> TableSpec:
    """The dead-letter table beside `table`."""
    return TableSpec(
        name=table.dead_letter,
        columns=DEAD_LETTER_COLUMNS,
        partition_by=(PartitionField("days", "rejected_at"),),
        properties={**DEFAULT_PROPERTIES, STAGING_PROPERTY: "true"},
        comment=f"Records that were set aside on the way to {table}.",
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
    TableColumn("model", "STRING", "The model that set it aside."),
    TableColumn("batch", "BIGINT", "The batch in which it was."),
    TableColumn("rejected_at", "TIMESTAMP", "When it was set aside."),
)


def partition_text(field: PartitionField) -> str:
    """A partition field as PARTITIONED BY reads it."""
    if field.transform == "identity":
        return identifier(field.column)
    width = f"{field.width}, " if field.width is not None else ""
    return f"{field.transform}({width}{identifier(field.column)})"


def sort_text(field: SortField) -> str:
    """A sort field as ORDERED BY reads it; what is the default is left out."""
    direction = " DESC" if field.descending else ""
    nulls = "" if field.nulls_first != field.descending else f" NULLS {'FIRST' if field.nulls_first else 'LAST'}"
    return f"{identifier(field.column)}{direction}{nulls}"


def _column(column: TableColumn) -> str:
    comment = f" COMMENT {text(column.comment)}" if column.comment else ""
    return f"{identifier(column.name)} {column.type or UNKNOWN_TYPE}{comment}"


def _properties(properties: Mapping[str, str]) -> str:
    return ",\n".join(f"  {text(key)} = {text(value)}" for key, value in properties.items())
