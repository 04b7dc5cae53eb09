"""Change events: from the raw records of a topic to the columns of the row that changed, and `_change`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.change_values import SENT_BY, hint, is_nested, is_unavailable, misfits
from lakesql.engine.records.debezium import compact, kind_text
from lakesql.engine.records.event import (
    BEFORE,
    BEFORE_VALUES,
    EVENT,
    NO_EVENT,
    TEXTS,
    VALUES,
    change_field,
    is_ignored,
    op_of,
    read_event,
    row_names,
)
from lakesql.engine.records.key_changes import half, is_half, move, no_key
from lakesql.engine.records.parse import (
    Contract,
    bound,
    raw_struct,
    record_struct,
    rejected_struct,
    with_each,
)
from lakesql.names import (
    CHANGE,
    FROM,
    HALF,
    IGNORED,
    MOVE,
    NEW_FIELDS,
    REQUIRED_MISSING,
    ROW,
    SEQUENCE_MISSING,
    UNPARSABLE,
    UNSENT,
)
from lakesql.stream.stream import CHANGE_FIELDS

_REASON = "_lakesql_reason"
_KEY_NAMES = "_lakesql_key_names"
_CHANGES = "_lakesql_each"


def parse_changes(
    raw: DataFrame, contract: Contract, keep: frozenset[str], keep_change: frozenset[str], keep_raw: bool = False
) -> DataFrame:
    """The columns of each change's row, `_record` and `_change` with the fields that are kept (if any),
    `_lakesql_rejected`, `_lakesql_ignored` and `_lakesql_new_fields`.

    The row is the one after the change; of a delete it is the one before it, of which a database may send no more than
    the key. A truncate has none: all columns are NULL. Tombstones, which follow a delete for the broker's sake, and
    messages (`pg_logical_emit_message`) are ignored. An update of DMS that changes the row's key is two changes, as
    in Debezium's feeds. Everything else is as `parse_records` has it.
    """
    read = with_each(raw, _read(contract, "before" in keep_change))
    judged = with_each(read, {_REASON: _first(fault.reason for fault in _faults(contract, is_half(contract)))})
    if contract.envelope == "dms" and contract.key:
        judged = _with_former_keys(judged, contract)
    change = [change_field(name, contract).alias(name) for name in (*CHANGE_FIELDS, "before") if name in keep_change]
    return judged.select(
        *(F.col(VALUES)[column.name].alias(column.name) for column in contract.columns),
        *([record_struct(keep)] if keep else []),
        *([F.struct(*change).alias(CHANGE)] if change else []),
        *([raw_struct()] if keep_raw else []),
        rejected_struct(F.col(_REASON)),
        is_ignored(contract).alias(IGNORED),
        *([_unsent(contract).alias(UNSENT), no_key(contract).alias(FROM)] if contract.kept else []),
        *([half(contract).alias(HALF), move(contract).alias(MOVE)] if contract.moves else []),
        (_new_fields(contract) if contract.schema_fields else _absent(contract)).alias(NEW_FIELDS),
    )


def _read(contract: Contract, has_before: bool) -> dict[str, Column]:
    """The columns that reading adds."""
    names = {_KEY_NAMES: _key_names()} if contract.is_mirrored else {}
    return {**read_event(contract, has_before or contract.envelope == "dms"), **names}


def _with_former_keys(judged: DataFrame, contract: Contract) -> DataFrame:
    """The changes, and before each update whose row had another key a delete of that: the update is an insert then.

    A dead letter stays one. What was not sent of the row before the update is as it is after it.
    """
    event, row, before = F.col(EVENT), F.col(ROW), F.col(BEFORE)
    is_other = reduce(or_, (F.coalesce(before[name] != row[name], F.lit(False)) for name in contract.key))
    is_moved = F.coalesce((op_of() == "u") & is_other & F.col(_REASON).isNull(), F.lit(False))
    values, former_values = F.col(VALUES), F.col(BEFORE_VALUES)

    def former(of_before: Column, of_row: Column) -> Column:
        each = ((it.name, before[it.name].isNotNull()) for it in contract.columns)
        return F.struct(*(F.when(has, of_before[it]).otherwise(of_row[it]).alias(it) for it, has in each))

    texts, read = former(before, row), former(former_values, values)
    parts = (EVENT, ROW, BEFORE, VALUES, BEFORE_VALUES)

    def change(*columns: Column) -> Column:
        return F.struct(*(column.alias(name) for name, column in zip(parts, columns, strict=True)))

    one = change(event, row, before, values, former_values)
    gone = change(event.withField("op", F.lit("d")), texts, texts, read, read)
    new = change(event.withField("op", F.lit("c")), row, before, values, former_values)
    found = judged.select("*", F.explode(F.when(is_moved, F.array(gone, new)).otherwise(F.array(one))).alias(_CHANGES))
    return found.withColumns({name: F.col(_CHANGES)[name] for name in parts}).drop(_CHANGES)


def with_change_detail(rejected: DataFrame, contract: Contract) -> DataFrame:
    """Rejected raw records with the column `detail`: what was wrong, with the column that it was in.

    They have no headers any more: a record that may be a half of a key change is first taken for one.
    """
    read = _read(contract, False)
    faults = (fault.detail for is_moved in (True, False) for fault in _faults(contract, F.lit(is_moved)))
    return with_each(rejected, {**read, "detail": _first(faults)}).drop(*read)


@dataclass(frozen=True, slots=True)
class _Fault:
    """One thing that makes an event bad: the reason and the detail, both NULL where it does not hold."""

    reason: Column
    detail: Column


def _faults(contract: Contract, is_moved: Column) -> Iterator[_Fault]:
    """All that may be wrong. A row that `is_moved` from another key may lack what that one's row has."""
    op, row, kinds = op_of(), F.col(ROW), F.col(EVENT)["kinds"]

    def fault(holds: Column, reason: str, detail: Column | str) -> _Fault:
        said = F.lit(detail) if isinstance(detail, str) else detail
        return _Fault(F.when(holds, F.lit(reason)), F.when(holds, said))

    is_record = ~is_ignored(contract)
    no_event = is_record & (F.col(EVENT).isNull() | op.isNull())
    yield fault(no_event, UNPARSABLE, f"not a change event: {NO_EVENT[contract.envelope]}")
    unknown = is_record & ~op.isin("c", "u", "r", "d", "t")
    yield fault(unknown, UNPARSABLE, F.concat(F.lit("unknown op: "), op))
    yield fault(op.isin("c", "u", "r") & row.isNull(), UNPARSABLE, "the event has no `after`")
    yield fault((op == "d") & row.isNull(), UNPARSABLE, "the event has no `before`, and the record no key")
    if contract.is_mirrored:
        names = F.col(_KEY_NAMES)
        is_other = names != F.array(*(F.lit(name) for name in sorted(name.lower() for name in contract.key)))
        said = F.concat(F.lit("the record's key has "), F.array_join(names, ", "))
        wanted = F.lit(f", and the stream's `key` says {', '.join(contract.key)}")
        yield fault(op.isin("c", "u", "r", "d") & is_other, UNPARSABLE, F.concat(said, wanted))
        if not contract.names_key:
            what = "the record has no key in JSON, and the stream declares no `key`"
            yield fault(op.isin("c", "u", "r", "d") & names.isNull(), UNPARSABLE, what)
    if contract.schema_fields:
        is_bare = op.isin("c", "u", "r", "d") & F.col(EVENT)["kinds"].isNull()
        yield fault(is_bare, UNPARSABLE, "no schema beside the event, and the stream declares no columns")
    for name in contract.sequence:
        if name.startswith(f"{CHANGE}."):
            is_missing = op.isin("c", "u", "r", "d", "t") & change_field(name.split(".")[1], contract).isNull()
            yield fault(is_missing, SEQUENCE_MISSING, name)
            continue
        yield fault(op.isin("c", "u", "r", "d") & row[name].isNull(), SEQUENCE_MISSING, name)
        alone = f"{name}: the delete has the key alone, and nothing in the other columns. {SENT_BY}"
        yield fault((op == "d") & _is_key_alone(contract), SEQUENCE_MISSING, alone)
    for column in contract.columns:
        text, kind = row[column.name], column.type.simpleString()
        unsent, is_kept = is_unavailable(text, column.type), column.name in contract.kept
        is_whole = (op == "r") | ((op == "c") & ~is_moved) if is_kept else op.isin("c", "u", "r")
        yield fault(
            is_whole & unsent,
            UNPARSABLE,
            f"{column.name}: not in the event, as the change did not touch it. {SENT_BY}",
        )
        # Of a row that is deleted a database may send the key alone, with anything in the place of the others.
        is_asked = column.name in (*contract.key, *contract.sequence)
        asked = ("c", "u", "r", "d") if is_asked else ("c", "u", "r")
        is_time = isinstance(column.type, T.TimestampType | T.TimestampNTZType) and column.unit is None
        what = f"{column.name}: not a {kind}{', or a number and the contract has no `unit` for it' if is_time else ''}"
        misfit = misfits(text, F.col(VALUES)[column.name], column.type, hint(column, kinds))
        if is_nested(column.type):
            misfit |= text.isNull() & F.col(TEXTS)[column.name].isNotNull()
        yield fault(op.isin(*asked) & (misfit & ~unsent if is_kept else misfit), UNPARSABLE, what)
        if column.required or column.name in contract.key:
            yield fault(op.isin(*asked) & text.isNull(), REQUIRED_MISSING, column.name)
        if contract.envelope == "dms" and column.name in contract.key:
            before, value = F.col(BEFORE)[column.name], F.col(BEFORE_VALUES)[column.name]
            former = misfits(before, value, column.type, hint(column, kinds))
            yield fault((op == "u") & former, UNPARSABLE, f"{column.name}: the row's former key is not a {kind}")


_PLACEHOLDERS = ("", "0", "0.0", "false", "1970-01-01T00:00:00Z")
"""What stands in a column that may not be NULL where a database has sent the key alone."""


def _is_key_alone(contract: Contract) -> Column:
    """Whether no column of a row but its key has a value of its own: such a delete would be older than any change."""
    others = (it.name for it in contract.columns if it.name not in contract.key and not is_nested(it.type))
    has_none = (F.coalesce(F.col(ROW)[name].isin(*_PLACEHOLDERS), F.lit(True)) for name in others)
    return reduce(and_, has_none, F.lit(True))


def _key_names() -> Column:
    """The columns of a record's key, in small letters and in their order by name; NULL where it is no JSON object."""
    key = F.lower(F.col("key").cast("string"))
    is_wrapped = F.get_json_object(key, "$.schema").isNotNull()
    inner = F.when(key.contains('"payload"') & is_wrapped, F.get_json_object(key, "$.payload"))
    return F.array_sort(F.json_object_keys(F.coalesce(inner, key)))


def _unsent(contract: Contract) -> Column:
    """The columns that an update has not sent."""
    row = F.col(ROW)
    types = {column.name: column.type for column in contract.columns}
    names = (F.when(is_unavailable(row[name], types[name]), F.lit(name)) for name in contract.kept)
    return compact(*names)


def _first(each: Iterator[Column]) -> Column:
    return F.coalesce(*each, F.lit(None).cast("string"))


def _new_fields(contract: Contract) -> Column:
    """What the event's schema says of columns and the stream does not know (`fields`), and which of its columns the
    schema does not have (`gone`). NULL where the stream knows all of it."""

    kinds = F.col(EVENT)["kinds"]
    known = F.array(*map(F.lit, contract.schema_fields))
    gone = F.array_except(F.array(*(F.lit(column.name) for column in contract.columns)), F.map_keys(kinds))

    def told(said: Column) -> Column:
        new = F.array_except(said, known)
        return F.when((said != known) & (F.size(new) > 0), F.struct(new.alias("fields"), gone.alias("gone")))

    return bound(F.transform(F.map_values(kinds), kind_text), told)


def _absent(contract: Contract) -> Column:
    """Which declared columns a change does not have (`gone`), and which it has beside them (`fields`).

    NULL where it has all of them. Only what is NULL is looked for, by its name in the whole text: a column of the row
    before the change is one of the row after it too.
    """
    row, text = F.col(ROW), F.col("value").cast("string")
    names = [column.name for column in contract.columns if json.dumps(column.name) == f'"{column.name}"']
    is_absent = {it: row[it].isNull() & ~text.contains(f'"{it}"') for it in names}
    gone = compact(F.lit(None).cast("string"), *(F.when(holds, F.lit(it)) for it, holds in is_absent.items()))
    columns = F.array(*(F.lit(column.name) for column in contract.columns))
    beside = F.coalesce(F.array_except(row_names(contract), columns), F.array().cast("array<string>"))
    is_change = op_of().isin("c", "u", "r") & F.col(_REASON).isNull()
    lacks_some = reduce(or_, is_absent.values(), F.lit(False))
    return F.when(is_change & lacks_some, F.struct(beside.alias("fields"), gone.alias("gone")))
