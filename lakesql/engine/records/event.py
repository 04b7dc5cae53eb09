"""The events of change feeds, whichever envelope they have: which row changed, how, and
the fields of `_change`.

A new envelope needs a file for its events, and a case in each function here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Literal, assert_never

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.compile.log_positions import READ_BY_SNAPSHOT
from lakesql.engine.records.change_values import (
    has_nested,
    read_values,
    row_as_written,
    row_texts,
    shaped,
)
from lakesql.engine.records.debezium import (
    KINDS,
    Head,
    by_name,
    debezium_event,
    debezium_field,
    field_kind,
    is_of,
    place_of,
)
from lakesql.engine.records.debezium_flat import (
    flat_event,
    flat_text,
    has_schema,
    is_added,
)
from lakesql.engine.records.dms import dms_event, is_flat_op
from lakesql.engine.records.json_text import bound, members, value_of
from lakesql.engine.records.parse import Contract, columns_of, from_json
from lakesql.engine.records.record_key import key_text
from lakesql.engine.records.unknown_fields import (
    find_unknown,
    has_structs,
    untold_record,
)
from lakesql.names import CHANGE, ROW, UNKNOWN_FIELDS
from lakesql.stream.feed_schema import parse_field
from lakesql.stream.stream import Envelope

EVENT = "_lakesql_event"
"""The column with the parsed event: a struct of `op`, the rows `after` and `before` as
texts, `kinds` (what a schema beside the event declares for the columns), and the other
fields of its envelope. NULL if the record holds no event."""

TEXTS = "_lakesql_row_texts"
"""The column with the row as one text for each column, if a column is an array, a
struct or a map."""

ROW_KINDS = "_lakesql_kinds"
"""The column with what a schema declares for the columns of the row; if the row is read
from the key, the schema beside the key."""

BEFORE = "_lakesql_before"
"""The column with the row before the change, as texts."""

VALUES, BEFORE_VALUES = "_lakesql_values", "_lakesql_before_values"
"""The columns with the row after and the row before the change, as values of the
contract's types."""


def read_event(contract: Contract, has_before: bool) -> list[dict[str, Column]]:
    """The columns that parsing an event adds, in stages: the event, and the rows after
    and before the change, first as texts, then as values.

    `_lakesql_row` is the row after the change; for a delete it is the one before it, or
    the key. The values of the row before the change are read only if `has_before`.
    """
    texts = row_texts(contract)
    written = F.col("key").cast("string")
    key_schema = F.get_json_object(written, "$.schema.fields")
    key = F.when(key_schema.isNull(), _bare_key(contract)).otherwise(
        F.get_json_object(written, "$.payload")
    )
    if has_documents(contract):
        key = F.regexp_replace(key, r'^\s*\{\s*"id"\s*:', f'{{"{DOCUMENT_ID}":')
    before = F.col(EVENT)["before"]
    key_row = row_as_written(from_json(key, texts), key, key, contract)
    row = F.when(op_of().isin("c", "u", "r"), F.col(EVENT)["after"]).when(
        op_of() == "d", F.coalesce(before, key_row)
    )
    first, event = _event(texts, contract)
    key_kinds = by_name(F.from_json(key_schema, T.ArrayType(KINDS.valueType)))
    is_by_key = (op_of() == "d") & before.isNull()
    said = {
        ROW_KINDS: F.coalesce(
            F.when(is_by_key, key_kinds), F.col(EVENT)["kinds"], *_known_kinds(contract)
        )
    }
    of_tables = [{EVENT: _event_of_tables(contract)}] if contract.source_table else []
    stages = [
        *first,
        {EVENT: event},
        *of_tables,
        {EVENT: _event_as_written(contract)},
        said,
    ]
    if has_nested(contract):
        stages += [
            {TEXTS: row},
            {ROW: shaped(F.col(TEXTS), contract), BEFORE: shaped(before, contract)},
        ]
    else:
        stages.append({ROW: row, BEFORE: before})
    rows = {
        VALUES: (ROW, sent_texts(contract)),
        **({BEFORE_VALUES: (BEFORE, before)} if has_before else {}),
    }
    kinds = F.col(ROW_KINDS)
    values = [
        read_values(name, F.col(shape), sent, kinds, contract)
        for name, (shape, sent) in rows.items()
    ]
    return [*stages, *(reduce(or_, each) for each in zip(*values, strict=True))]


DOCUMENT_ID = "_id"
"""The name of the key in a document of MongoDB. The key of its record has the name `id`
instead."""


def has_documents(contract: Contract) -> bool:
    """Whether the rows are MongoDB documents, flattened by ExtractNewDocumentState."""
    return contract.envelope == "debezium_flat" and [*contract.key] == [DOCUMENT_ID]


def _bare_key(contract: Contract) -> Column:
    """The text of a key without a schema beside it, as a JSON object. A key that is no
    object, as `ExtractField` leaves it, becomes the value of the one column of the
    stream's key; except an array, and a `Struct` that was written as a text."""
    key, columns = (
        F.col("key").cast("string"),
        [each for each in contract.columns if each.name in contract.key],
    )
    if len(columns) != 1 or contract.envelope == "dms":
        return key
    return F.when(key.rlike(r"^\s*\[|^Struct\{"), key).otherwise(key_text(columns))


def _known_kinds(contract: Contract) -> list[Column]:
    """`kinds` as the stream knows them, for a key without a schema beside it; at most
    one column. A table column that is known in several encodings is left out, as it is
    unknown which one the key has."""
    written = {
        (it.field, it.name, it.scale): it
        for it in map(parse_field, contract.schema_fields)
    }
    ways = Counter(field.field for field in written.values())
    kinds = [field_kind(field) for field in written.values() if ways[field.field] == 1]
    if not kinds:
        return []
    return [
        by_name(F.from_json(F.lit(json.dumps(kinds)), T.ArrayType(KINDS.valueType)))
    ]


def _event(
    row: T.StructType, contract: Contract
) -> tuple[list[dict[str, Column]], Column]:
    match contract.envelope:
        case "debezium":
            return debezium_event(row, takes_tombstones(contract))
        case "debezium_flat":
            return flat_event(row, contract.add_fields_prefix)
        case "dms":
            return dms_event(row, takes_tombstones(contract))
        case "none":
            raise AssertionError("no change feed")
        case _:
            assert_never(contract.envelope)


def _event_of_tables(contract: Contract) -> Column:
    """The event, with the op `m` (a message, which is ignored) if it is of a table that
    the stream does not read."""
    event = F.col(EVENT)
    is_other = F.coalesce(~is_of(event["source"], contract.source_table), F.lit(False))
    return event.withField("op", F.when(is_other, F.lit("m")).otherwise(event["op"]))


def _event_as_written(contract: Contract) -> Column:
    """The event, with the record's own spelling of the values in its rows."""
    event, record = F.col(EVENT), F.col("value").cast("string")
    for side in ("after", "before"):
        written = row_as_written(
            F.col(EVENT)[side], record, _side_text(contract.envelope, side), contract
        )
        event = event.withField(side, written)
    return event


def _side_text(envelope: Envelope, side: Literal["after", "before"]) -> Column:
    """The JSON text of the row after a change, or of the one before it."""
    text = F.col("value").cast("string")
    match envelope:
        case "debezium":

            def of_event(outer: Column) -> Column:
                return F.coalesce(
                    value_of(outer, F.lit(side)),
                    value_of(members(value_of(outer, F.lit("payload"))), F.lit(side)),
                )

            return bound(members(text), of_event)
        case "dms":
            is_data = (op_of() == "d") | F.lit(side == "after")

            def of_record(outer: Column) -> Column:
                data, image = (
                    value_of(outer, F.lit(name)) for name in ("data", "before-image")
                )
                native = F.when(is_data, data).otherwise(image)
                return F.when(
                    value_of(outer, F.lit("metadata")).isNotNull(), native
                ).otherwise(text)

            return bound(members(text), of_record)
        case "debezium_flat":
            found = value_of(members(text), F.lit("payload"))
            return F.when(has_schema(), found).otherwise(text)
        case "none":
            raise AssertionError("no change feed")
        case _:
            assert_never(envelope)


NO_EVENT: Mapping[Envelope, str] = {
    "debezium": "no JSON object with an `op`",
    "debezium_flat": "no JSON object",
    "dms": "no JSON object with DMS's `metadata` or an `Op`",
}
"""The text about a record that holds no event, by envelope."""


def sent_texts(contract: Contract) -> Column:
    """The row as the record has it: one text for each column."""
    return F.col(TEXTS if has_nested(contract) else ROW)


def op_of() -> Column:
    """The operation of the event: `c`, `u`, `d`, `r` or `t`; anything else is no
    change."""
    return F.col(EVENT)["op"]


def is_ignored(contract: Contract) -> Column:
    """Whether a record is no change: a message, a record of DMS about a table, or a
    tombstone that deletes nothing."""
    is_message = F.coalesce(op_of() == "m", F.lit(False))
    if contract.envelope != "debezium" or takes_tombstones(contract):
        return is_message
    return F.col("value").isNull() | is_message


def takes_tombstones(contract: Contract) -> bool:
    """Whether a record without a value deletes the row of its key, unless it follows a
    delete of that row.

    Such a record has nothing but the key: a column of the row cannot order it, and it
    does not name its table, if the stream reads those of some tables. For a replayed
    dead letter it is unknown what it follows.
    """
    if contract.source_table and contract.envelope != "dms":
        return False
    is_ordered = all(name.startswith(f"{CHANGE}.") for name in contract.sequence)
    return contract.is_mirrored and is_ordered and not contract.is_replayed


def is_document() -> Column:
    """Whether an event is one of Debezium's MongoDB connector, which has the row as the
    text of a document."""
    text = F.col("value").cast("string")
    paths = ("$.source.connector", "$.payload.source.connector")
    said = (F.get_json_object(text, path) for path in paths)
    # the text of most feeds is not parsed for it
    return F.coalesce(
        F.when(text.contains('"mongodb"'), F.coalesce(*said) == "mongodb"), F.lit(False)
    )


def change_field(name: str, event: Head, contract: Contract) -> Column:
    """A field of `_change`. If rows are mirrored, `position` also orders what snapshots
    have read, and tombstones."""
    match name:
        case "position" if takes_tombstones(contract):
            # A tombstone sorts before each change that follows it, and after all that
            # precede it.
            behind_all = F.array(F.lit(READ_BY_SNAPSHOT).cast("bigint"))
            return F.when(F.col("value").isNull(), behind_all).otherwise(
                place_of(event, False)
            )
        case "position" if contract.is_mirrored:
            return place_of(event, contract.is_replayed)
        case "ts" if takes_tombstones(contract):
            return F.when(F.col("value").isNull(), F.col("timestamp")).otherwise(
                debezium_field(event, name)
            )
        case "op":
            return event["op"]
        case "before":
            return F.col(BEFORE_VALUES)
        case _:
            return debezium_field(event, name)


def row_names(contract: Contract) -> Column:
    """The names of all columns that the row after a change has in the record, declared
    or not."""
    text = F.col("value").cast("string")
    match contract.envelope:
        case "debezium":
            rows = (
                F.get_json_object(text, path) for path in ("$.payload.after", "$.after")
            )
            return F.json_object_keys(F.coalesce(*rows))
        case "debezium_flat":
            return F.json_object_keys(flat_text())
        case _:
            return F.json_object_keys(
                F.coalesce(F.get_json_object(text, "$.data"), text)
            )


_ROW_TEXT = "_lakesql_row_text"


def unknown_fields_of(op: Column, contract: Contract) -> list[dict[str, Column]]:
    """The stages that add `_lakesql_unknown_fields`: the fields of the row after a
    change that are no columns and no metadata of the envelope; NULL if there are none,
    or the change has no such row.

    The row's text is extracted from the record only if a cheaper look at its names
    finds other ones.
    """
    known = columns_of(contract)
    names = F.array(*(F.lit(name) for name in known.names)).cast("array<string>")
    others = F.filter(
        F.array_except(row_names(contract), names),
        lambda name: ~_says_what_happened(name, contract),
    )
    may_have = (
        F.lit(True)
        if has_structs(known)
        else F.coalesce(F.size(others) > 0, F.lit(True))
    )
    is_asked = op.isin("c", "u", "r") & may_have
    own_text = F.coalesce(_side_text(contract.envelope, "after"), F.lit(""))
    text = F.col(_ROW_TEXT)
    found = F.filter(
        find_unknown(text, known),
        lambda field: ~_says_what_happened(field["path"], contract),
    )
    unknown = F.when(text == "", untold_record()).when(F.size(found) > 0, found)
    return [
        {_ROW_TEXT: F.when(is_asked, own_text)},
        {UNKNOWN_FIELDS: F.when(text.isNotNull(), unknown)},
    ]


def _says_what_happened(name: Column, contract: Contract) -> Column:
    """Whether a field beside those of the row is metadata of the envelope."""
    match contract.envelope:
        case "debezium_flat":
            return is_added(name, contract.add_fields_prefix)
        case "dms":
            return is_flat_op(name)
        case "debezium" | "none":
            return F.lit(False)
        case _:
            assert_never(contract.envelope)
