"""Change events: from the raw records of a topic to the columns of the row that changed, and `_change`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.avro_events import MISREAD, as_arrived, with_json_events
from lakesql.engine.records.change_values import SENT_BY, hint, is_nested, is_null_for_infinite, is_unavailable, misfits
from lakesql.engine.records.debezium import HEAD, OPS, kind_text
from lakesql.engine.records.event import (
    BEFORE,
    BEFORE_VALUES,
    EVENT,
    NO_EVENT,
    ROW_KINDS,
    VALUES,
    change_field,
    is_document,
    is_ignored,
    op_of,
    read_event,
    row_names,
    sent_texts,
    unknown_fields_of,
)
from lakesql.engine.records.folded import all_of, any_of
from lakesql.engine.records.json_text import bound, missing_field
from lakesql.engine.records.key_changes import half, is_half, move, no_key, splits_updates
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
from lakesql.engine.records.source_tables import full_name, table_of
from lakesql.engine.records.unknown_fields import rescued_text, say_unknown
from lakesql.names import (
    CHANGE,
    FROM,
    HALF,
    IGNORED,
    MOVE,
    MOVE_TYPE,
    NEW_FIELDS,
    REQUIRED_MISSING,
    RESCUED,
    ROW,
    SEQUENCE_MISSING,
    SOURCE_TABLE,
    UNDECLARED_FIELD,
    UNKNOWN_FIELDS,
    UNPARSABLE,
    UNSENT,
)
from lakesql.stream.stream import CHANGE_FIELDS

_REASON = "_lakesql_reason"
_DETAIL = "_lakesql_detail"
_IS_MOVED = "_lakesql_is_moved"
_KEY_NAMES = "_lakesql_key_names"
_CHANGES = "_lakesql_each"


def parse_changes(
    raw: DataFrame, contract: Contract, keep: frozenset[str], keep_change: frozenset[str], keep_raw: bool = False
) -> DataFrame:
    """The columns of each change's row, `_rescued` where it is asked for, `_record` and `_change` with the fields that
    are kept (if any), `_lakesql_rejected`, `_lakesql_ignored` and `_lakesql_new_fields`.

    The row is the one after the change; of a delete it is the one before it, of which a database may send no more than
    the key. A truncate has none: all columns are NULL. Messages (`pg_logical_emit_message`) are ignored, and tombstones
    are where they delete nothing by themselves. An update of DMS that changes the row's key is two changes, as in
    Debezium's feeds. Everything else is as `parse_records` has it.
    """
    if contract.schemas is not None:
        raw = with_json_events(raw, contract.schemas)
    has_before, is_not_plain = "before" in keep_change, None
    if contract.is_mirrored:
        raw = raw.withColumn(_KEY_NAMES, _key_names(contract))
    if can_be_plain(contract, has_before):
        raw, is_not_plain = with_plain(raw, contract, _is_key_right(contract)), ~F.col(PLAIN)["is_plain"]
    *stages, last = _read(contract, has_before)
    stages.append({**last, _IS_MOVED: is_half(contract, F.col(EVENT))})
    reason = _first(fault.reason for fault in _faults(contract, F.col(_IS_MOVED)))
    judged = with_stages(raw, [*stages, {_REASON: reason}], is_not_plain)
    found = _ReadChange(is_not_plain)
    if contract.unknown_fields != "ignore":
        judged = with_stages(
            judged, [*unknown_fields_of(found.head["op"], contract), {_REASON: _or_undeclared(contract)}]
        )
    if splits_updates(contract):
        judged = _with_former_keys(judged, contract)
    new_fields = _new_fields(contract) if contract.schema_fields else _absent(contract, found)
    detail = None
    if contract.schemas is not None:  # what is made of the JSON is made before the records are as they arrived
        said = _first(fault.detail for fault in _faults(contract, F.col(_IS_MOVED)))
        stage = {_DETAIL: F.when(F.col(_REASON).isNotNull(), said), NEW_FIELDS: new_fields}
        judged = as_arrived(with_stages(judged, [stage]))
        detail, new_fields = F.col(_DETAIL), F.col(NEW_FIELDS)
    change = [
        change_field(name, found.head, contract).alias(name)
        for name in (*CHANGE_FIELDS, "before")
        if name in keep_change
    ]
    return judged.select(
        *(found.value(column.name).alias(column.name) for column in contract.columns),
        *([_rescued(found).alias(RESCUED)] if contract.unknown_fields == "rescue" else []),
        *([record_struct(keep)] if keep else []),
        *([F.struct(*change).alias(CHANGE)] if change else []),
        *([raw_struct()] if keep_raw else []),
        rejected_struct(F.col(_REASON), detail),
        is_ignored(contract).alias(IGNORED),
        *([_source_table(found.head).alias(SOURCE_TABLE)] if contract.has_one_table else []),
        *([found.unsent(contract).alias(UNSENT), no_key(contract).alias(FROM)] if contract.kept else []),
        *([half(contract, found.head).alias(HALF), _move(contract).alias(MOVE)] if contract.moves else []),
        new_fields.alias(NEW_FIELDS),
    )


@dataclass(frozen=True, slots=True)
class _ReadChange:
    """What was read of a record, in whatever way that was. `is_not_plain`: None where no event is read as it stands."""

    is_not_plain: Column | None

    @property
    def head(self) -> Mapping[str, Column]:
        """What the event has besides its rows."""
        return {field.name: self._either(F.col(PLAIN)[field.name], F.col(EVENT)[field.name]) for field in HEAD}

    def value(self, name: str) -> Column:
        """The value of a column of the row."""
        return self._either(F.col(PLAIN)["values"][name], F.col(VALUES)[name])

    def is_null(self, name: str) -> Column:
        """Whether nothing stands in the record for a column of the row."""
        return self._either(F.col(PLAIN)["values"][name].isNull(), F.col(ROW)[name].isNull())

    def unsent(self, contract: Contract) -> Column:
        """The columns that an update has not sent."""
        return self._either(F.array().cast("array<string>"), _unsent(contract))

    def _either(self, plain: Column, other: Column) -> Column:
        return other if self.is_not_plain is None else F.when(self.is_not_plain, other).otherwise(plain)


def _read(contract: Contract, has_before: bool) -> list[dict[str, Column]]:
    """The columns that reading adds to the names of the record's key, in stages."""
    return read_event(contract, has_before or contract.envelope == "dms")


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
    if contract.schemas is not None:
        return rejected  # its header, which may name its schema, is gone
    stages = [*([{_KEY_NAMES: _key_names(contract)}] if contract.is_mirrored else []), *_read(contract, False)]
    faults = [fault.detail for is_moved in (True, False) for fault in _faults(contract, F.lit(is_moved))]
    if contract.unknown_fields != "ignore":
        stages += unknown_fields_of(op_of(), contract)
        faults.append(say_unknown(F.col(UNKNOWN_FIELDS)))
    found = with_stages(rejected, [*stages, {"detail": unless_of_registry(_first(iter(faults)))}])
    return found.drop(*(name for stage in stages for name in stage))


def _or_undeclared(contract: Contract) -> Column:
    """Why a change is bad, of which it is last asked whether its row has fields that the contract does not know."""
    undeclared = F.when(is_undeclared(F.col(UNKNOWN_FIELDS), contract), F.lit(UNDECLARED_FIELD))
    return F.coalesce(F.col(_REASON), undeclared)


def _rescued(found: _ReadChange) -> Column:
    """The fields of the row after a change that the contract does not know, as JSON."""
    return F.when(found.head["op"].isin("c", "u", "r"), rescued_text(F.col(UNKNOWN_FIELDS)))


@dataclass(frozen=True, slots=True)
class _EventFault:
    """One thing that makes an event bad: the reason and the detail, both NULL where it does not hold."""

    reason: Column
    detail: Column


def _faults(contract: Contract, is_moved: Column) -> Iterator[_EventFault]:
    """All that may be wrong. A row that `is_moved` from another key may lack what that one's row has."""
    op, row, kinds = op_of(), F.col(ROW), F.col(ROW_KINDS)

    def fault(holds: Column, reason: str, detail: Column | str) -> _EventFault:
        said = F.lit(detail) if isinstance(detail, str) else detail
        return _EventFault(F.when(holds, F.lit(reason)), F.when(holds, said))

    is_record = ~is_ignored(contract)
    if contract.schemas is not None:
        yield fault(F.col(MISREAD).isNotNull(), UNPARSABLE, F.col(MISREAD))
    if contract.envelope == "debezium":
        yield fault(is_record & is_document(), UNPARSABLE, _DOCUMENT)
    no_event = is_record & (F.col(EVENT).isNull() | op.isNull())
    yield fault(no_event, UNPARSABLE, f"not a change event: {NO_EVENT[contract.envelope]}")
    unknown = is_record & ~op.isin(*OPS)
    yield fault(unknown, UNPARSABLE, F.concat(F.lit("unknown op: "), op))
    if contract.source_table and contract.envelope != "dms":
        names_none = op.isin(*OPS) & table_of(F.col(EVENT)["source"]).isNull()
        yield fault(names_none, UNPARSABLE, _NO_TABLE)
    yield fault(op.isin("c", "u", "r") & row.isNull(), UNPARSABLE, "the event has no `after`")
    yield fault((op == "d") & row.isNull(), UNPARSABLE, "the event has no `before`, and the record no key")
    if contract.is_mirrored:
        names = F.col(_KEY_NAMES)
        said = F.concat(F.lit("the record's key has "), F.array_join(F.array_sort(names), ", "))
        wanted = F.lit(f", and the stream's `key` says {', '.join(contract.key)}")
        is_other = ~_are_of_key(names, contract)
        yield fault(op.isin("c", "u", "r", "d") & is_other, UNPARSABLE, F.concat(said, wanted))
        if not contract.names_key:
            what = "the record has no key in JSON, and the stream declares no `key`"
            yield fault(op.isin("c", "u", "r", "d") & names.isNull(), UNPARSABLE, what)
    if contract.schema_fields:
        is_bare = F.col("value").isNotNull() & op.isin("c", "u", "r", "d") & F.col(EVENT)["kinds"].isNull()
        yield fault(is_bare, UNPARSABLE, "no schema beside the event, and the stream declares no columns")
    for name in contract.sequence:
        if name.startswith(f"{CHANGE}."):
            value = change_field(name.split(".")[1], F.col(EVENT), contract)
            is_missing = op.isin(*OPS) & value.isNull()
            yield fault(is_missing, SEQUENCE_MISSING, _without(name, contract))
            continue
        yield fault(op.isin("c", "u", "r", "d") & row[name].isNull(), SEQUENCE_MISSING, name)
        alone = f"{name}: the delete has the key alone, and nothing in the other columns. {SENT_BY}"
        yield fault((op == "d") & _is_key_alone(contract), SEQUENCE_MISSING, alone)
    for column in contract.columns:
        text, sent, kind = row[column.name], sent_texts(contract)[column.name], column.type.simpleString()
        unsent, is_kept, is_unused = is_unavailable(sent), column.name in contract.kept, column.name in contract.unused
        is_whole = (op == "r") | ((op == "c") & ~is_moved) if is_kept else op.isin("c", "u", "r")
        if not is_unused:
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
            misfit |= text.isNull() & sent.isNotNull()
        yield fault(op.isin(*asked) & (misfit & ~unsent if is_kept or is_unused else misfit), UNPARSABLE, what)
        if column.required or column.name in contract.key:
            is_null = sent.isNull() | is_null_for_infinite(text, column.type, column.infinity)
            said = missing_field(F.col("value").cast("string"), column.name)
            yield fault(op.isin(*asked) & is_null, REQUIRED_MISSING, said)
        if contract.envelope == "dms" and column.name in contract.key:
            before, value = F.col(BEFORE)[column.name], F.col(BEFORE_VALUES)[column.name]
            former = misfits(before, value, column.type, hint(column, kinds))
            yield fault((op == "u") & former, UNPARSABLE, f"{column.name}: the row's former key is not a {kind}")


_DOCUMENT = (
    "an event of Debezium's connector for MongoDB, whose rows are documents as text, which are not read; let the "
    "connector send them flat (ExtractNewDocumentState), and the stream say `envelope: debezium_flat`"
)


_NO_TABLE = (
    "the record names no table, and the stream says which it takes (`source_table`); a flat one needs `table` and "
    "`schema` or `db` in the connector's `add.fields`, and a delete with a value (`delete.tombstone.handling.mode`: "
    "`rewrite`)"
)


def _source_table(head: Mapping[str, Column]) -> Column:
    """The table whose change a record is; NULL where a router says that those of several tables are of one."""
    is_routed = F.coalesce(F.lower(F.col("key").cast("string")).contains(ROUTER_FIELD), F.lit(False))
    return F.when(~is_routed, full_name(head["source"]))


def _without(name: str, contract: Contract) -> Column | str:
    """What is said of a change that lacks a field of `_change` which orders it: its connector may have none."""
    if name != f"{CHANGE}.position" or contract.envelope == "dms":
        return name
    if contract.envelope == "debezium_flat":
        said = "no field says one; where `add.fields` have another prefix, let the stream's `add_fields_prefix` say it"
        return f"{name}: {said}"
    connector = F.coalesce(F.col(EVENT)["source"]["connector"], F.lit("which it does not name"))
    said = "; its source block has none of lsn, file and pos, commit_lsn and scn: leave it out of `sequence_by`"
    return F.concat(F.lit(f"{name}: the event of the connector "), connector, F.lit(f" says none{said}"))


_PLACEHOLDERS = ("", "0", "0.0", "false", "1970-01-01T00:00:00Z")
"""What stands in a column that may not be NULL where a database has sent the key alone."""


def _is_key_alone(contract: Contract) -> Column:
    """Whether no column of a row but its key has a value of its own: such a delete would be older than any change."""
    others = (it.name for it in contract.columns if it.name not in contract.key and not is_nested(it.type))
    has_none = (F.coalesce(F.col(ROW)[name].isin(*_PLACEHOLDERS), F.lit(True)) for name in others)
    return all_of(has_none)


ROUTER_FIELD = "__dbz__physicaltableidentifier"
"""What Debezium's ByLogicalTableRouter adds to the key of a record, in small letters: the table it came from."""


def _key_names(contract: Contract) -> Column:
    """The columns of a record's key, in small letters; NULL where it is no JSON object.

    What a router adds is no column, unless the stream says so.
    """
    key = F.lower(F.col("key").cast("string"))
    is_wrapped = F.get_json_object(key, "$.schema").isNotNull()
    inner = F.when(key.contains('"payload"') & is_wrapped, F.get_json_object(key, "$.payload"))
    names = F.json_object_keys(F.coalesce(inner, key))
    if ROUTER_FIELD in map(str.lower, contract.key):
        return names
    return F.array_remove(names, ROUTER_FIELD)


def _are_of_key(names: Column, contract: Contract) -> Column:
    """Whether these are the columns of the stream's key, in any order; NULL where there are none."""
    has_each = (F.array_contains(names, name.lower()) for name in contract.key)
    return reduce(and_, has_each, F.array_size(names) == len(contract.key))


def _is_key_right(contract: Contract) -> Column:
    """Whether nothing is wrong with the record's key."""
    if not contract.is_mirrored:
        return F.lit(True)
    return F.coalesce(_are_of_key(F.col(_KEY_NAMES), contract), F.lit(contract.names_key))


def _move(contract: Contract) -> Column:
    """`_lakesql_move`, where `with_moves` cannot make it of the record any more."""
    return move(contract) if splits_updates(contract) else F.lit(None).cast(MOVE_TYPE)


def _unsent(contract: Contract) -> Column:
    """The columns that an update has not sent."""
    texts = sent_texts(contract)
    return _names_where({name: is_unavailable(texts[name]) for name in contract.kept})


def _names_where(conditions: Mapping[str, Column]) -> Column:
    """An array of those names whose conditions hold."""
    names = F.array(*(F.when(holds, F.lit(name)) for name, holds in conditions.items()))
    return F.array_except(names.cast("array<string>"), F.array(F.lit(None).cast("string")))


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
        differs = (F.size(new) > 0) | (F.size(gone) > 0)
        return F.when((said != known) & differs, F.struct(new.alias("fields"), gone.alias("gone")))

    return bound(F.transform(F.map_values(kinds), kind_text), told)


def _absent(contract: Contract, found: _ReadChange) -> Column:
    """Which declared columns a change does not have (`gone`), and which it has beside them (`fields`).

    NULL where it has all of them. Only what is NULL is looked for, by its name in the whole text: a column of the row
    before the change is one of the row after it too.
    """
    text, op = F.col("value").cast("string"), found.head["op"]
    names = [column.name for column in contract.columns if json.dumps(column.name) == f'"{column.name}"']
    is_absent = {it: found.is_null(it) & ~text.contains(f'"{it}"') for it in names}
    columns = F.array(*(F.lit(column.name) for column in contract.columns))
    beside = F.coalesce(F.array_except(row_names(contract), columns), F.array().cast("array<string>"))
    is_change = op.isin("c", "u", "r") & F.col(_REASON).isNull()
    lacks_some = any_of(is_absent.values())
    return F.when(is_change & lacks_some, F.struct(beside.alias("fields"), _names_where(is_absent).alias("gone")))
