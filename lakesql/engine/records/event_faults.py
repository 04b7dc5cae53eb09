"""What can be wrong with a change event: each fault as the reason and the detail of a
dead letter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.avro_events import MISREAD
from lakesql.engine.records.change_values import (
    SENT_BY,
    hint,
    is_nested,
    is_null_for_infinite,
    is_of_other_kind,
    is_unavailable,
    misfits,
)
from lakesql.engine.records.debezium import OPS, table_of
from lakesql.engine.records.event import (
    BEFORE,
    BEFORE_VALUES,
    DOCUMENT_ID,
    EVENT,
    NO_EVENT,
    ROW_KINDS,
    VALUES,
    change_field,
    has_documents,
    is_document,
    is_ignored,
    op_of,
    sent_texts,
)
from lakesql.engine.records.folded import all_of
from lakesql.engine.records.json_text import invalid_text, missing_field
from lakesql.engine.records.parse import Contract, ContractColumn
from lakesql.engine.records.times import infinite
from lakesql.names import CHANGE, REQUIRED_MISSING, ROW, SEQUENCE_MISSING, UNPARSABLE

KEY_NAMES = "_lakesql_key_names"
"""The column with the result of `key_names`, if the feed is mirrored."""

_WITH_ROW = ("c", "u", "r")
"""The operations after which the row exists."""

_OF_ROW = (*_WITH_ROW, "d")
"""The operations that concern one row."""


@dataclass(frozen=True, slots=True)
class EventFault:
    """One thing that can make an event bad: the reason and the detail, both NULL if it
    does not."""

    reason: Column
    detail: Column


def find_faults(contract: Contract, is_moved: Column) -> Iterator[EventFault]:
    """All faults that an event can have, in the order in which they are checked: the
    first that applies gives the reason.

    `is_moved` tells whether the record is part of a key change: its insert may lack the
    values that the row of the old key has.
    """
    yield from _event_faults(contract)
    yield from _row_faults()
    if contract.is_mirrored:
        yield from _key_faults(contract)
    if contract.schema_fields:
        is_bare = (
            F.col("value").isNotNull()
            & op_of().isin(*_OF_ROW)
            & F.col(EVENT)["kinds"].isNull()
        )
        yield _fault(
            is_bare,
            UNPARSABLE,
            "no schema beside the event, and the stream declares no columns",
        )
    for name in contract.sequence:
        yield from _sequence_faults(contract, name)
    for column in contract.columns:
        yield from _value_faults(contract, column, is_moved)


def _fault(holds: Column, reason: str, detail: Column | str) -> EventFault:
    said = F.lit(detail) if isinstance(detail, str) else detail
    return EventFault(F.when(holds, F.lit(reason)), F.when(holds, said))


# --- the event and its row


def _event_faults(contract: Contract) -> Iterator[EventFault]:
    """The faults of the record as a whole: that it is no change event, or does not name
    its table although the stream reads only some."""
    op, is_record = op_of(), ~is_ignored(contract)
    if contract.schemas is not None:
        yield _fault(F.col(MISREAD).isNotNull(), UNPARSABLE, F.col(MISREAD))
    is_by_key = (op == "d") & F.col(EVENT)["before"].isNull()
    for side, is_read in {"value": is_record, "key": is_by_key}.items():
        invalid = invalid_text(F.col(side).cast("string"))
        yield _fault(
            is_read & invalid.isNotNull(),
            UNPARSABLE,
            F.concat(F.lit(f"the {side}: "), invalid),
        )
    if contract.envelope == "debezium":
        yield _fault(is_record & is_document(), UNPARSABLE, _DOCUMENT)
    no_event = is_record & (F.col(EVENT).isNull() | op.isNull())
    yield _fault(
        no_event, UNPARSABLE, f"not a change event: {NO_EVENT[contract.envelope]}"
    )
    unknown = is_record & ~op.isin(*OPS)
    yield _fault(unknown, UNPARSABLE, F.concat(F.lit("unknown op: "), op))
    if contract.source_table and contract.envelope != "dms":
        names_none = op.isin(*OPS) & table_of(F.col(EVENT)["source"]).isNull()
        yield _fault(names_none, UNPARSABLE, _NO_TABLE)


_DOCUMENT = (
    "an event of Debezium's connector for MongoDB, whose rows are documents as text, which are not read; let the "
    "connector send them flat (ExtractNewDocumentState), and the stream say `envelope: debezium_flat`"
)

_NO_TABLE = (
    "the record names no table, and the stream says which it takes (`source_table`); a flat one needs `table` and "
    "`schema` or `db` in the connector's `add.fields`, and a delete with a value (`delete.tombstone.handling.mode`: "
    "`rewrite`)"
)


def _row_faults() -> Iterator[EventFault]:
    op, has_no_row = op_of(), F.col(ROW).isNull()
    yield _fault(
        op.isin(*_WITH_ROW) & has_no_row, UNPARSABLE, "the event has no `after`"
    )
    yield _fault(
        (op == "d") & has_no_row,
        UNPARSABLE,
        "the event has no `before`, and the record no key",
    )


# --- the record's key


def _key_faults(contract: Contract) -> Iterator[EventFault]:
    """The faults of the record's key: it has other columns than the stream's key, or it
    is missing and the stream needs it."""
    is_of_row, names = op_of().isin(*_OF_ROW), F.col(KEY_NAMES)
    said = F.concat(
        F.lit("the record's key has "), F.array_join(F.array_sort(names), ", ")
    )
    wanted = F.lit(f", and the stream's `key` says {', '.join(contract.key)}")
    yield _fault(
        is_of_row & ~are_of_key(names, contract), UNPARSABLE, F.concat(said, wanted)
    )
    if not contract.names_key:
        what = "the record has no key in JSON, and the stream declares no `key`"
        yield _fault(is_of_row & names.isNull(), UNPARSABLE, what)


ROUTER_FIELD = "__dbz__physicaltableidentifier"
"""The field, in lower case, that Debezium's ByLogicalTableRouter adds to the key of a
record: the table that it came from."""


def key_names(contract: Contract) -> Column:
    """The columns of a record's key, in lower case; NULL if the key is no JSON object.

    The field that a router adds does not count, unless the stream's key has it. Keys as
    Debezium writes them, with plain values in the order of the stream's `key`, are
    recognized by a pattern, as parsing their names takes ten times as long.
    """
    text = F.col("key").cast("string")
    own_names = F.array(*(F.lit(name.lower()) for name in contract.key))
    names = _names_read(text, contract)
    if has_documents(contract):
        names = F.transform(
            names, lambda name: F.when(name == "id", F.lit(DOCUMENT_ID)).otherwise(name)
        )
    return F.when(text.rlike(_as_declared(contract)), own_names).otherwise(names)


_PLAIN_VALUE = r'(?:-?(?:0|[1-9][0-9]*+)|"[^"\\\x00-\x1f]*+"|true|false)'
"""The pattern of a value in a JSON key that has no escapes or nested values."""


def _as_declared(contract: Contract) -> str:
    """The pattern of a key that is an object of exactly the columns of the stream's
    key, in their order."""
    members = (
        f"{re.escape(json.dumps(name, ensure_ascii=False))}:{_PLAIN_VALUE}"
        for name in contract.key
    )
    return rf"\A\{{{','.join(members)}\}}\z"


def _names_read(text: Column, contract: Contract) -> Column:
    """The names in the text of a key, with or without a schema beside it."""
    key = F.lower(text)
    is_wrapped = F.get_json_object(key, "$.schema").isNotNull()
    inner = F.when(
        key.contains('"payload"') & is_wrapped, F.get_json_object(key, "$.payload")
    )
    names = F.json_object_keys(F.coalesce(inner, key))
    if ROUTER_FIELD in map(str.lower, contract.key):
        return names
    return F.array_remove(names, ROUTER_FIELD)


def are_of_key(names: Column, contract: Contract) -> Column:
    """Whether these are the columns of the stream's key, in any order; NULL if there
    are none."""
    has_each = (F.array_contains(names, name.lower()) for name in contract.key)
    return reduce(and_, has_each, F.array_size(names) == len(contract.key))


# --- what orders the changes of a row


def _sequence_faults(contract: Contract, name: str) -> Iterator[EventFault]:
    """The fault that a change lacks the column of its row, or the field of `_change`,
    that orders it."""
    op = op_of()
    if name.startswith(f"{CHANGE}."):
        value = change_field(name.split(".")[1], F.col(EVENT), contract)
        yield _fault(
            op.isin(*OPS) & value.isNull(), SEQUENCE_MISSING, _without(name, contract)
        )
        return
    yield _fault(op.isin(*_OF_ROW) & F.col(ROW)[name].isNull(), SEQUENCE_MISSING, name)
    alone = f"{name}: the delete has the key alone, and nothing in the other columns. {SENT_BY}"
    yield _fault((op == "d") & _is_key_alone(contract), SEQUENCE_MISSING, alone)


def _without(name: str, contract: Contract) -> Column | str:
    """The detail of a change that lacks the field of `_change` that orders it; some
    connectors have no position."""
    if name != f"{CHANGE}.position" or contract.envelope == "dms":
        return name
    if contract.envelope == "debezium_flat":
        said = "no field says one; where `add.fields` have another prefix, let the stream's `add_fields_prefix` say it"
        return f"{name}: {said}"
    connector = F.coalesce(
        F.col(EVENT)["source"]["connector"], F.lit("which it does not name")
    )
    said = "; its source block has none of lsn, file and pos, commit_lsn and scn: leave it out of `sequence_by`"
    return F.concat(
        F.lit(f"{name}: the event of the connector "),
        connector,
        F.lit(f" says none{said}"),
    )


_PLACEHOLDERS = ("", "0", "0.0", "false", "1970-01-01T00:00:00Z")
"""The values that a column that may not be NULL can have in a delete for which the
database sent only the key."""


def _is_key_alone(contract: Contract) -> Column:
    """Whether no column of the row except its key has a real value. Ordered by its
    placeholders, such a delete would be older than any change."""
    others = (
        it.name
        for it in contract.columns
        if it.name not in contract.key and not is_nested(it.type)
    )
    has_none = (
        F.coalesce(F.col(ROW)[name].isin(*_PLACEHOLDERS), F.lit(True))
        for name in others
    )
    return all_of(has_none)


# --- the values of the row


def _value_faults(
    contract: Contract, column: ContractColumn, is_moved: Column
) -> Iterator[EventFault]:
    """The faults of a column's value: it is missing in the event, does not fit its
    type, or is NULL and required."""
    name = column.name
    sent = sent_texts(contract)[name]
    is_key = name in contract.key
    # For a deleted row a database may send only the key, with arbitrary values in the
    # other columns.
    is_sent_with_deletes = is_key or name in contract.sequence
    is_asked = op_of().isin(*(_OF_ROW if is_sent_with_deletes else _WITH_ROW))
    if name not in contract.unused:
        yield _unsent_fault(contract, column, sent, is_moved)
    yield _misfit_fault(contract, column, sent, is_asked)
    if column.required or is_key:
        is_null = sent.isNull()
        if name not in contract.unused:
            is_null |= is_null_for_infinite(
                F.col(ROW)[name], column.type, column.infinity
            )
        yield _fault(
            is_asked & is_null,
            REQUIRED_MISSING,
            missing_field(F.col("value").cast("string"), name),
        )
    if is_key and contract.envelope == "dms":
        before, value = F.col(BEFORE)[name], F.col(BEFORE_VALUES)[name]
        former = misfits(before, value, column.type, hint(column, F.col(ROW_KINDS)))
        what = f"{name}: the row's former key is not a {column.type.simpleString()}"
        yield _fault((op_of() == "u") & former, UNPARSABLE, what)


def _unsent_fault(
    contract: Contract, column: ContractColumn, sent: Column, is_moved: Column
) -> EventFault:
    """The fault of a value that is missing in the event. It is none for an update whose
    missing values are kept, as the table has them."""
    op = op_of()
    has_whole_row = op.isin(*_WITH_ROW)
    if column.name in contract.kept:
        has_whole_row = (op == "r") | ((op == "c") & ~is_moved)
    what = f"{column.name}: not in the event, as the change did not touch it. {SENT_BY}"
    return _fault(has_whole_row & is_unavailable(sent), UNPARSABLE, what)


def _misfit_fault(
    contract: Contract, column: ContractColumn, sent: Column, is_asked: Column
) -> EventFault:
    """The fault of a value that does not fit the column's type."""
    name, text = column.name, F.col(ROW)[column.name]
    misfit = misfits(
        text, F.col(VALUES)[name], column.type, hint(column, F.col(ROW_KINDS))
    )
    if is_nested(column.type):
        misfit |= text.isNull() & sent.isNotNull()
    if contract.schema_fields:
        misfit |= sent.isNotNull() & is_of_other_kind(column, F.col(ROW_KINDS))
    if name in contract.kept or name in contract.unused:
        misfit &= ~is_unavailable(sent)
    if name in contract.unused and not is_nested(column.type):
        misfit &= infinite(text, column.type).isNull()
    what = f"{name}: not a {column.type.simpleString()}"
    is_time = isinstance(column.type, T.TimestampType | T.TimestampNTZType)
    if is_time and column.unit is None:
        what += ", or a number and the contract has no `unit` for it"
    return _fault(is_asked & misfit, UNPARSABLE, what)
