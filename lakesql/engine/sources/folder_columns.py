"""How columns are read from the names of a file's folders, as in
`day=2026-03-01/1.json`."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.compile.quote import identifier
from lakesql.engine.sources.binding import StreamBinding, contract_columns
from lakesql.engine.sources.read_files import file_path
from lakesql.names import CORRUPT, FOLDERS, HIVE_NULL
from lakesql.source.pattern import without_scheme


def with_folder_columns(rows: DataFrame, kind: T.StructType, base: str) -> DataFrame:
    """The rows, with columns that are NULL filled from the names of their file's
    folders (`day=3`).

    Only folders below the connection's own count. A value in a name is escaped as in a
    URL, as Hive does it. One that does not fit the column's type fails the batch.
    """
    uri = F.col("_metadata.file_path")
    fields = (
        field
        for field in kind.fields
        if field.name != CORRUPT and isinstance(field.dataType, T.AtomicType)
    )
    read = {field.name: F.col(identifier(field.name)) for field in fields}
    return rows.withColumns(
        {
            name: F.when(
                column.isNull() & uri.contains("="),
                _folder_value(uri, kind[name], base),
            ).otherwise(column)
            for name, column in read.items()
        }
    )


def with_folders(raw: DataFrame, binding: StreamBinding) -> DataFrame:
    """The raw records; those that are JSON in files also get `_lakesql_folders`: the
    values of columns in the names of the file's folders."""
    if not binding.may_have_folders:
        return raw
    columns = [
        column
        for column in contract_columns(binding.stream)
        if isinstance(column.type, T.AtomicType)
    ]
    uri = F.col("topic")
    fields = (
        T.StructField(it.name, T.StringType() if it.is_counted else it.type)
        for it in columns
    )
    values = (
        _folder_value(uri, field, binding.source.places[0]).alias(field.name)
        for field in fields
    )
    return raw.withColumn(FOLDERS, F.when(uri.contains("="), F.struct(*values)))


def _folder_value(uri: Column, field: T.StructField, base: str) -> Column:
    """The value of a column in the names of a file's folders; NULL if none has it. A
    value that does not fit the type fails the batch."""
    text = folder_text(uri, field.name, base)
    value = text.try_cast(field.dataType)
    path = file_path(uri)
    said = F.concat(
        path,
        F.lit(
            f": the folder's value of {field.name} is no {field.dataType.simpleString()}: "
        ),
        text,
    )
    checked = F.when(
        value.isNull(), F.raise_error(said).cast(field.dataType)
    ).otherwise(value)
    return F.when(text.isNotNull(), checked)


def folder_text(uri: Column, name: str, base: str) -> Column:
    """The text of a column in the names of a file's folders; NULL if none names the
    column, or it has Hive's name for NULL."""
    above = len([*filter(None, without_scheme(base).split("/"))])
    named = rf"\A(?:[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?)?(?:/+[^/]+){{{above}}}/(?:.*/)?(?i:{re.escape(name)})="
    path = file_path(uri)
    written = F.regexp_extract(path, f"{named}([^/]*)/", 1)
    text = F.coalesce(
        F.try_url_decode(F.replace(written, F.lit("+"), F.lit("%2B"))), written
    )
    return F.when(path.rlike(f"{named}[^/]*/") & (written != HIVE_NULL), text)


def columns_of_folders(uri: str, names: Collection[str], base: str) -> tuple[str, ...]:
    """The columns that a file's folders name, in the order of `names`."""
    above = len([*filter(None, without_scheme(base).split("/"))])
    *folders, _ = filter(None, without_scheme(unquote(uri)).split("/"))
    said = {
        folder.partition("=")[0].lower() for folder in folders[above:] if "=" in folder
    }
    return tuple(name for name in names if name.lower() in said)
