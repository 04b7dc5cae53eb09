"""Fields that a record spells in other capitals than the contract: their names are made the contract's.

Spark's reader of JSON finds a field by its very name, and its readers of Parquet, Avro and CSV's headers regardless of
capitals. So that one rule holds for all, a record of JSON is asked, as cheaply as that can be, whether it has a name in
other capitals. Then its text is written anew, with the names of its rows as the contract has them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from operator import and_
from typing import assert_never

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakesql.engine.records.json_text import bound, holds_any, members
from lakesql.stream.stream import Envelope

Change = Callable[[Column], Column]
"""What becomes of the text of a member: a struct of `text` and `clash`."""

SPELLED = "_lakesql_spelled"
"""What `spelled_record` makes of a record that is spelled otherwise; NULL of any other."""

ARRIVED = "_lakesql_arrived"
"""The value of a record as it has arrived, where `value` has the contract's names."""

ENVELOPE_WORDS = frozenset(
    {"after", "before", "change_lsn", "commit_lsn", "commit_scn", "connector", "data", "db", "default", "field"}
    | {"event_serial_no", "fields", "file", "gtid", "id", "items", "keys", "lcr_position", "lsn", "metadata", "name"}
    | {
        "op",
        "operation",
        "optional",
        "parameters",
        "payload",
        "pos",
        "query",
        "rs_id",
        "row",
        "row_id",
        "schema",
        "scn",
    }
    | {"sequence", "server_id", "snapshot", "source", "ssn", "table", "thread", "timestamp", "total_order", "ts_ms"}
    | {"transaction", "ts_ns", "ts_us", "txid", "type", "user_name", "values", "version", "xmin"}
)
"""Names, in small letters, that an envelope has itself: that one of them stands in a record says nothing of its row."""


def is_spelled_otherwise(text: Column, nulls: Mapping[str, Column]) -> Column:
    """Whether a text of JSON may have a field in other capitals than a name of which NULL was read, asked cheaply."""
    plain = [name for name in nulls if name.lower() not in ENVELOPE_WORDS]
    lacks_one = holds_any(nulls[name] & ~text.contains(_quoted(name)) for name in plain)
    has_word = holds_any(nulls[name] & _has_other(text, [name]) for name in nulls if name not in plain)
    return F.coalesce((lacks_one & _has_other(text, plain)) | has_word, F.lit(False))


def may_be_spelled_otherwise(text: Column, names: Sequence[str], sure: Sequence[str], envelope: Envelope) -> Column:
    """Whether a text of JSON of which nothing was read may have fields in other capitals than the names, asked cheaply.

    It has none where it has all of those that are `sure` to be there by their very names, or if none is sure, any.
    """
    words = frozenset[str]() if envelope == "none" else ENVELOPE_WORDS
    lacks = {name: ~text.contains(_quoted(name)) for name in sure or names if name.lower() not in words}
    if not sure:
        return F.coalesce(reduce(and_, lacks.values(), _has_other(text, names)), F.lit(False))
    return holds_any(lacks.get(name, F.lit(True)) & _has_other(text, [name]) for name in sure)


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _has_other(text: Column, names: Sequence[str]) -> Column:
    """Whether a text has the name of a field that is one of these, in other capitals."""
    lettered = [re.escape(_quoted(name)[1:-1]) for name in names if name.lower() != name.upper()]
    if not lettered:
        return F.lit(False)
    any_of = "|".join(lettered)
    return text.rlike(rf'"(?!(?:{any_of})")(?iu:{any_of})"\s*+:')


def respelled(asked: Column, names: Sequence[str], envelope: Envelope) -> list[dict[str, Column]]:
    """The columns that are added, in stages, so that `value` has the contract's names where that is `asked`."""
    text, value = F.col("value").cast("string"), F.col("value")
    spelled = F.coalesce(F.col(SPELLED)["text"].cast("binary"), value)
    return [{SPELLED: F.when(asked, spelled_record(text, names, envelope))}, {ARRIVED: value, "value": spelled}]


def key_as_declared(text: Column, names: Sequence[str]) -> Column:
    """The text of a record's key, with the contract's names; NULL where two of its fields clash."""
    spelled = spelled_record(text, names, "none")
    text_alone = bound(spelled, lambda found: F.when(found["clash"].isNull(), found["text"]))
    return F.when(_has_other(text, names), text_alone).otherwise(text)


def schema_as_declared(text: Column, names: Sequence[str]) -> Column:
    """The text of a schema's fields, with the contract's names."""
    return _schema(text, names)["text"]


def spelled_record(text: Column, names: Sequence[str], envelope: Envelope) -> Column:
    """A record's value with the fields of its rows as the contract spells them: `text`, and what `clash` says of fields
    that differ in capitals alone, of which none is spelled so."""
    row = partial(_object, names=names)
    schema = partial(_schema, names=names)
    match envelope:
        case "none":
            return row(text)
        case "debezium":
            rows: dict[str, Change] = {"after": row, "before": row}
            return _changed(text, {**rows, "payload": lambda inner: _changed(inner, rows), "schema": schema})
        case "debezium_flat":
            is_wrapped = F.get_json_object(text, "$.schema.fields").isNotNull()
            return F.when(is_wrapped, _changed(text, {"payload": row, "schema": schema})).otherwise(row(text))
        case "dms":
            is_native = F.get_json_object(text, "$.metadata").isNotNull()
            return F.when(is_native, _changed(text, {"data": row, "before-image": row})).otherwise(row(text))
        case _:
            assert_never(envelope)


def _object(text: Column, names: Sequence[str]) -> Column:
    """An object, and `clash`, as `spelled_record` has them; what is none stays as it is."""
    known = F.create_map(*(F.lit(word) for name in names for word in (name.lower(), name)))

    def spelled(found: Column) -> Column:
        def as_declared(name: Column) -> Column:
            wanted = F.try_element_at(known, F.lower(name))
            is_other = wanted.isNotNull() & ~F.array_contains(found["names"], wanted)
            return F.when(is_other, wanted).otherwise(name)

        def own(name: Column) -> Column:
            return F.array_distinct(F.filter(found["names"], lambda other: F.lower(other) == F.lower(name)))

        def is_clashing(name: Column) -> Column:
            return (F.size(own(name)) > 1) & ~F.array_contains(found["names"], name)

        clash = F.get(F.filter(F.array(*map(F.lit, names)), is_clashing), F.lit(0))
        said = F.concat(clash, F.lit(": the record has "), F.array_join(F.array_sort(own(clash)), " and "))
        return _result(_joined(F.transform(found["names"], as_declared), found["values"]), said)

    is_object = F.ltrim(text).startswith("{")
    return F.when(is_object, bound(members(text), spelled)).otherwise(_result(text))


def _changed(text: Column, changes: Mapping[str, Change]) -> Column:
    """An object with some of its members changed: the text of all, and the first `clash` among them."""

    def changed(found: Column) -> Column:
        def of_member(name: Column, value: Column) -> Column:
            part = _result(value)
            for member, change in changes.items():
                part = F.when(name == member, change(value)).otherwise(part)
            return part

        parts = F.zip_with(found["names"], found["values"], of_member)

        def joined(each: Column) -> Column:
            clashes = F.filter(each["clash"], lambda clash: clash.isNotNull())
            return _result(_joined(found["names"], each["text"]), F.get(clashes, F.lit(0)))

        return bound(parts, joined)

    is_object = F.ltrim(text).startswith("{")
    return F.when(is_object, bound(members(text), changed)).otherwise(_result(text))


def _schema(text: Column, names: Sequence[str]) -> Column:
    """The schema beside an event, with its fields as the contract spells them."""
    for name in names:
        written = json.dumps(name, ensure_ascii=False)
        replacement = re.sub(r"([\\$])", r"\\\1", written)
        text = F.regexp_replace(text, rf'("field"\s*+:\s*+)(?iu:{re.escape(written)})', f"$1{replacement}")
    return _result(text)


def _result(text: Column, clash: Column | None = None) -> Column:
    return F.struct(text.alias("text"), (F.lit(None) if clash is None else clash).cast("string").alias("clash"))


def _joined(names: Column, values: Column) -> Column:
    """The text of an object, of its names and values, the last one first."""

    def member(name: Column, value: Column) -> Column:
        quoted = F.to_json(F.struct(name.alias("n")))  # {"n":"its name"}
        return F.concat(F.substr(quoted, F.lit(6), F.length(quoted) - 6), F.lit(":"), value)

    return F.concat(F.lit("{"), F.array_join(F.reverse(F.zip_with(names, values, member)), ","), F.lit("}"))
