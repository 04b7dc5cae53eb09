"""Which raw records of a change feed are bad, ignored or changes, and the typed columns
and `_change` of the changed rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakesql.engine.records.avro_events import as_arrived, with_json_events
from lakesql.engine.records.change_values import is_unavailable
from lakesql.engine.records.debezium import HEAD, full_name, kind_text
from lakesql.engine.records.event import (
    BEFORE,
    BEFORE_VALUES,
    EVENT,
    VALUES,
    change_field,
    is_ignored,
    op_of,
    read_event,
    row_names,
    sent_texts,
    unknown_fields_of,
)
from lakesql.engine.records.event_faults import (
    KEY_NAMES,
    ROUTER_FIELD,
    are_of_key,
    find_faults,
    key_names,
)
from lakesql.engine.records.folded import any_of
from lakesql.engine.records.json_text import bound
from lakesql.engine.records.key_changes import (
    half,
    is_half,
    move,
    no_key,
    splits_updates,
)
from lakesql.engine.records.parse import (
    Contract,
    is_undeclared,
    raw_struct,
    record_struct,
    rejected_struct,
    unless_of_registry,
    with_stages,
)
from lakesql.engine.records.plain_event import PLAIN, can_be_plain, with_plain
from lakesql.engine.records.unknown_fields import rescued_text, say_unknown
from lakesql.names import (
    CHANGE,
    CHANGE_FIELDS,
    FROM,
    HALF,
    IGNORED,
    MOVE,
    MOVE_TYPE,
    NEW_FIELDS,
    RESCUED,
    ROW,
    SOURCE_TABLE,
    UNDECLARED_FIELD,
    UNKNOWN_FIELDS,
    UNSENT,
)

_REASON = "_lakesql_reason"
_DETAIL = "_lakesql_detail"
_IS_MOVED = "_lakesql_is_moved"
_CHANGES = "_lakesql_each"


def parse_changes(
    raw: DataFrame,
    contract: Contract,
    keep: frozenset[str],
    keep_change: frozenset[str],
    keep_raw: bool = False,
) -> DataFrame:
    """The columns of each change's row, parsed from raw records, with `_rescued` if the
    contract asks for it, `_record` and `_change` with the fields to keep (if any),
    `_lakesql_rejected`, `_lakesql_ignored` and `_lakesql_new_fields`.

    The row is the one after the change; for a delete the one before it, of which a
    database may send only the key. A truncate has no row: all columns are NULL.
    Messages (`pg_logical_emit_message`) are ignored, and so are tombstones, unless they
    are deletes themselves. A DMS update that changes the row's key becomes two changes,
    as in Debezium's feeds. Everything else is as in `parse_records`.
    """
    if contract.schemas is not None:
        raw = with_json_events(raw, contract.schemas)
    has_before, is_not_plain = "before" in keep_change, None
    if contract.is_mirrored:
        raw = raw.withColumn(KEY_NAMES, key_names(contract))
    if can_be_plain(contract, has_before):
        raw, is_not_plain = (
            with_plain(raw, contract, _is_key_right(contract)),
            ~F.col(PLAIN)["is_plain"],
        )
    *stages, last = _read(contract, has_before)
    stages.append({**last, _IS_MOVED: is_half(contract, F.col(EVENT))})
    reason = _first(fault.reason for fault in find_faults(contract, F.col(_IS_MOVED)))
    judged = with_stages(raw, [*stages, {_REASON: reason}], is_not_plain)
    found = _ReadChange(is_not_plain)
    if contract.unknown_fields != "ignore":
        judged = with_stages(
            judged,
            [
                *unknown_fields_of(found.head["op"], contract),
                {_REASON: _or_undeclared(contract)},
            ],
        )
    if splits_updates(contract):
        judged = _with_former_keys(judged, contract)
    new_fields = (
        _new_fields(contract) if contract.schema_fields else _absent(contract, found)
    )
    detail = None
    # what depends on the JSON is computed before `as_arrived` restores the bytes
    if contract.schemas is not None:
        said = _first(fault.detail for fault in find_faults(contract, F.col(_IS_MOVED)))
        stage = {
            _DETAIL: F.when(F.col(_REASON).isNotNull(), said),
            NEW_FIELDS: new_fields,
        }
        judged = as_arrived(with_stages(judged, [stage]))
        detail, new_fields = F.col(_DETAIL), F.col(NEW_FIELDS)
    change = [
        change_field(name, found.head, contract).alias(name)
        for name in (*CHANGE_FIELDS, "before")
        if name in keep_change
    ]
    return judged.select(
        *(found.value(column.name).alias(column.name) for column in contract.columns),
        *(
            [_rescued(found).alias(RESCUED)]
            if contract.unknown_fields == "rescue"
            else []
        ),
        *([record_struct(keep)] if keep else []),
        *([F.struct(*change).alias(CHANGE)] if change else []),
        *([raw_struct()] if keep_raw else []),
        rejected_struct(F.col(_REASON), detail),
        is_ignored(contract).alias(IGNORED),
        *(
            [_source_table(found.head).alias(SOURCE_TABLE)]
            if contract.has_one_table
            else []
        ),
        *(
            [found.unsent(contract).alias(UNSENT), no_key(contract).alias(FROM)]
            if contract.kept
            else []
        ),
        *(
            [half(contract, found.head).alias(HALF), _move(contract).alias(MOVE)]
            if contract.moves
            else []
        ),
        new_fields.alias(NEW_FIELDS),
    )


@dataclass(frozen=True, slots=True)
class _ReadChange:
    """Access to what was parsed of a record, whether by the fast way (`plain_event.py`)
    or in full. `is_not_plain` is true for records parsed in full; it is None if all
    are."""

    is_not_plain: Column | None

    @property
    def head(self) -> Mapping[str, Column]:
        """The fields of the event besides its rows, by name."""
        return {
            field.name: self._either(F.col(PLAIN)[field.name], F.col(EVENT)[field.name])
            for field in HEAD
        }

    def value(self, name: str) -> Column:
        """The value of a column of the row."""
        return self._either(F.col(PLAIN)["values"][name], F.col(VALUES)[name])

    def is_null(self, name: str) -> Column:
        """Whether a column of the row is NULL or absent in the record."""
        return self._either(
            F.col(PLAIN)["values"][name].isNull(), F.col(ROW)[name].isNull()
        )

    def unsent(self, contract: Contract) -> Column:
        """An array of the columns that are missing in an update."""
        return self._either(F.array().cast("array<string>"), _unsent(contract))

    def _either(self, plain: Column, other: Column) -> Column:
        return (
            other
            if self.is_not_plain is None
            else F.when(self.is_not_plain, other).otherwise(plain)
        )


def _read(contract: Contract, has_before: bool) -> list[dict[str, Column]]:
    """The columns that parsing adds, besides the names of the record's key, in
    stages."""
    return read_event(contract, has_before or contract.envelope == "dms")


def _with_former_keys(judged: DataFrame, contract: Contract) -> DataFrame:
    """The changes, in which an update that changes the row's key is replaced by a
    delete of the old key and an insert of the new one.

    Bad records stay as they are. Values that the event lacks in the row before the
    update are taken from the row after it.
    """
    event, row, before = F.col(EVENT), F.col(ROW), F.col(BEFORE)
    is_other = reduce(
        or_,
        (F.coalesce(before[name] != row[name], F.lit(False)) for name in contract.key),
    )
    is_moved = F.coalesce(
        (op_of() == "u") & is_other & F.col(_REASON).isNull(), F.lit(False)
    )
    values, former_values = F.col(VALUES), F.col(BEFORE_VALUES)

    def former(of_before: Column, of_row: Column) -> Column:
        each = ((it.name, before[it.name].isNotNull()) for it in contract.columns)
        return F.struct(
            *(
                F.when(has, of_before[it]).otherwise(of_row[it]).alias(it)
                for it, has in each
            )
        )

    texts, read = former(before, row), former(former_values, values)
    parts = (EVENT, ROW, BEFORE, VALUES, BEFORE_VALUES)

    def change(*columns: Column) -> Column:
        return F.struct(
            *(column.alias(name) for name, column in zip(parts, columns, strict=True))
        )

    one = change(event, row, before, values, former_values)
    gone = change(event.withField("op", F.lit("d")), texts, texts, read, read)
    new = change(event.withField("op", F.lit("c")), row, before, values, former_values)
    found = judged.select(
        "*",
        F.explode(F.when(is_moved, F.array(gone, new)).otherwise(F.array(one))).alias(
            _CHANGES
        ),
    )
    return found.withColumns({name: F.col(_CHANGES)[name] for name in parts}).drop(
        _CHANGES
    )


def with_change_detail(rejected: DataFrame, contract: Contract) -> DataFrame:
    """Rejected raw records with the column `detail`, a text about what is wrong that
    names the column. They are returned unchanged if records name schemas of a registry:
    the detail was computed earlier.

    Dead letters have no headers, which mark the records of a key change. So a record is
    first checked as if it was part of one.
    """
    if contract.schemas is not None:
        return rejected  # its header, which may name its schema, is gone
    stages = [
        *([{KEY_NAMES: key_names(contract)}] if contract.is_mirrored else []),
        *_read(contract, False),
    ]
    faults = [
        fault.detail
        for is_moved in (True, False)
        for fault in find_faults(contract, F.lit(is_moved))
    ]
    if contract.unknown_fields != "ignore":
        stages += unknown_fields_of(op_of(), contract)
        faults.append(say_unknown(F.col(UNKNOWN_FIELDS)))
    found = with_stages(
        rejected, [*stages, {"detail": unless_of_registry(_first(iter(faults)))}]
    )
    return found.drop(*(name for stage in stages for name in stage))


def _or_undeclared(contract: Contract) -> Column:
    """Why a change is bad; the last check is whether its row has fields that the
    contract does not know."""
    undeclared = F.when(
        is_undeclared(F.col(UNKNOWN_FIELDS), contract), F.lit(UNDECLARED_FIELD)
    )
    return F.coalesce(F.col(_REASON), undeclared)


def _rescued(found: _ReadChange) -> Column:
    """The fields of the row after a change that the contract does not know, as JSON."""
    return F.when(
        found.head["op"].isin("c", "u", "r"), rescued_text(F.col(UNKNOWN_FIELDS))
    )


def _source_table(head: Mapping[str, Column]) -> Column:
    """The full name of the table that a change is of; NULL if a router has merged the
    changes of several tables."""
    is_routed = F.coalesce(
        F.lower(F.col("key").cast("string")).contains(ROUTER_FIELD), F.lit(False)
    )
    return F.when(~is_routed, full_name(head["source"]))


def _is_key_right(contract: Contract) -> Column:
    """Whether the record's key has the columns of the stream's key; always true if the
    stream is not mirrored."""
    if not contract.is_mirrored:
        return F.lit(True)
    return F.coalesce(are_of_key(F.col(KEY_NAMES), contract), F.lit(contract.names_key))


def _move(contract: Contract) -> Column:
    """`_lakesql_move` for a feed in which one record becomes two changes, as
    `with_moves` could not compute it from the record later; for others NULL."""
    return move(contract) if splits_updates(contract) else F.lit(None).cast(MOVE_TYPE)


def _unsent(contract: Contract) -> Column:
    """An array of the columns in `kept` that are missing in a change event."""
    texts = sent_texts(contract)
    return _names_where({name: is_unavailable(texts[name]) for name in contract.kept})


def _names_where(conditions: Mapping[str, Column]) -> Column:
    """An array of those names whose conditions hold."""
    names = F.array(*(F.when(holds, F.lit(name)) for name, holds in conditions.items()))
    return F.array_except(
        names.cast("array<string>"), F.array(F.lit(None).cast("string"))
    )


def _first(each: Iterator[Column]) -> Column:
    return F.coalesce(*each, F.lit(None).cast("string"))


def _new_fields(contract: Contract) -> Column:
    """`_lakesql_new_fields` of a stream without declared columns: the columns that are
    new or changed in the event's schema (`fields`), and the stream's columns that the
    schema lacks (`gone`). NULL if the schema has nothing new."""

    kinds = F.col(EVENT)["kinds"]
    known = F.array(*map(F.lit, contract.schema_fields))
    gone = F.array_except(
        F.array(*(F.lit(column.name) for column in contract.columns)), F.map_keys(kinds)
    )

    def told(said: Column) -> Column:
        new = F.array_except(said, known)
        differs = (F.size(new) > 0) | (F.size(gone) > 0)
        return F.when(
            (said != known) & differs, F.struct(new.alias("fields"), gone.alias("gone"))
        )

    return bound(F.transform(F.map_values(kinds), kind_text), told)


def _absent(contract: Contract, found: _ReadChange) -> Column:
    """`_lakesql_new_fields` of a stream with declared columns: those that the record
    lacks (`gone`), and the columns that it has besides the declared ones (`fields`).

    NULL if it has all of them. Only columns that are NULL are searched for, by name in
    the whole text, as a column in the row before the change is in the row after it too.
    """
    text, op = F.col("value").cast("string"), found.head["op"]
    names = [
        column.name
        for column in contract.columns
        if json.dumps(column.name) == f'"{column.name}"'
    ]
    is_absent = {it: found.is_null(it) & ~text.contains(f'"{it}"') for it in names}
    columns = F.array(*(F.lit(column.name) for column in contract.columns))
    beside = F.coalesce(
        F.array_except(row_names(contract), columns), F.array().cast("array<string>")
    )
    is_change = op.isin("c", "u", "r") & F.col(_REASON).isNull()
    lacks_some = any_of(is_absent.values())
    return F.when(
        is_change & lacks_some,
        F.struct(beside.alias("fields"), _names_where(is_absent).alias("gone")),
    )
