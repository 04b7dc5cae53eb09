"""What is read from the keys of records: columns, and the key that a record without a
value deletes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.cases import first_of
from lakesql.engine.records.json_text import invalid_text
from lakesql.names import KEY, KEY_FIELD, REQUIRED_MISSING

if TYPE_CHECKING:
    from lakesql.engine.records.parse import Contract, ContractColumn


def field_of(column: ContractColumn) -> str:
    """The name of a column's field in keys."""
    return column.name.removeprefix(KEY_FIELD)


def key_value(column: ContractColumn) -> Column:
    """The value of a column in `_lakesql_key`; NULL if it does not fit."""
    return F.col(KEY)["row"][field_of(column)].try_cast(column.type)


def key_reason(contract: Contract) -> Column:
    """Why the key makes a record bad whose value is good: it cannot be read, or a
    required column is NULL. NULL if the key is good, or was not read."""
    missing = (
        (key_value(column).isNull(), F.lit(REQUIRED_MISSING))
        for column in contract.key_columns
        if column.required
    )
    return F.coalesce(
        F.col(KEY)["reason"], first_of(missing, F.lit(None).cast("string"))
    )


def key_detail(contract: Contract) -> Column:
    """The text about what is wrong with a record's key; NULL if nothing is."""
    missing = (
        (key_value(column).isNull(), F.lit(f"the key: {field_of(column)}"))
        for column in contract.key_columns
        if column.required
    )
    said = F.concat(F.lit("the key: "), F.col(KEY)["detail"])
    return F.when(F.col(KEY)["reason"].isNotNull(), said).otherwise(
        first_of(missing, F.lit(None).cast("string"))
    )


def tombstone_columns(contract: Contract) -> tuple[ContractColumn, ...]:
    """The columns of the key that a record without a value deletes; none if such
    records delete nothing."""
    if not contract.tombstones:
        return ()
    return tuple(
        each
        for each in (*contract.columns, *contract.key_columns)
        if each.name in contract.key
    )


def tombstone_key(contract: Contract) -> Column:
    """The key of a record without a value, as a struct; NULL if one of its columns is
    NULL, or the key cannot be read."""
    values = {column.name: key_value(column) for column in tombstone_columns(contract)}
    is_read = F.col(KEY)["reason"].isNull()
    for value in values.values():
        is_read &= value.isNotNull()
    return F.when(
        is_read, F.struct(*(value.alias(name) for name, value in values.items()))
    )


def key_text(columns: Sequence[ContractColumn]) -> Column:
    """The key of a record as a JSON object. A schema around it is removed, and a bare
    value becomes the value of the one column.

    A bare text may be with or without JSON's quotes. A key with text that no table can
    store stays as it is, so that it is found to be bad later.
    """
    whole = F.col("key").cast("string")
    is_wrapped = F.get_json_object(whole, "$.schema.type").isNotNull()
    is_judged = ~F.is_valid_utf8(whole) | (is_wrapped & invalid_text(whole).isNotNull())
    text = F.when(
        is_wrapped & ~is_judged, F.get_json_object(whole, "$.payload")
    ).otherwise(whole)
    if len(columns) > 1:
        return text
    (column,) = columns
    literal = r'(?s)^\s*".*"\s*$'
    if not isinstance(column.type, T.StringType):
        literal += r"|^\s*(-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?|true|false)\s*$"
    bare = F.concat(F.lit(f"{{{json.dumps(column.name)}:"), text, F.lit("}"))
    quoted = F.to_json(F.struct(text.alias(column.name)))
    return (
        F.when(is_judged | text.rlike(r"^\s*\{"), text)
        .when(text.rlike(literal), bare)
        .otherwise(quoted)
    )
