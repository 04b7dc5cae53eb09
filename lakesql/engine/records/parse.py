"""Which raw records of a stream are bad, and the typed columns of the good ones; change
events are in `changes.py`.

What counts as a value of a type is decided by Spark's own readers. Some errors they do
not report (`_lossy`, `_is_one_value`); these are checked for here, as cheaply as
possible for good records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.compile.quote import identifier
from lakesql.engine.records.avro_value import avro_columns
from lakesql.engine.records.cases import first_of
from lakesql.engine.records.csv_numbers import is_marked, is_too_large, plain_number
from lakesql.engine.records.csv_text import (
    CsvHeader,
    has_line_break,
    has_open_quote,
    has_several_lines,
    is_record,
    is_whole,
    problems_of,
    read_csv,
)
from lakesql.engine.records.decimals import (
    Decimals,
    has_digits,
    is_exact,
    is_literal_of_java,
    too_long,
    wider,
)
from lakesql.engine.records.encodings import decoded
from lakesql.engine.records.folded import any_of
from lakesql.engine.records.frame import without_frame
from lakesql.engine.records.json_text import (
    as_written,
    bound,
    has_name_twice,
    has_rewritten,
    holds_any,
    holds_float,
    holds_text,
    invalid_text,
    is_rewritten,
    members,
    missing_field,
    parts_of,
    value_of,
)
from lakesql.engine.records.record_key import (
    field_of,
    key_detail,
    key_reason,
    key_text,
    key_value,
    tombstone_columns,
    tombstone_key,
)
from lakesql.engine.records.registry_value import registry_columns
from lakesql.engine.records.times import (
    COMMON_DAYS,
    COMMON_TIMES,
    is_common_year,
    is_more_than_date,
    is_time_alone,
    time_of,
)
from lakesql.engine.records.unknown_fields import (
    find_unknown,
    is_untold,
    rescued_text,
    say_unknown,
)
from lakesql.names import (
    CORRUPT,
    FOLDERS,
    KEY,
    NO_VALUE,
    RAW,
    RECORD,
    RECORD_FIELDS,
    REJECTED,
    REQUIRED_MISSING,
    RESCUED,
    ROW,
    UNDECLARED_FIELD,
    UNKNOWN_FIELDS,
    UNPARSABLE,
)
from lakesql.names import TOMBSTONE as TOMBSTONE_KEY
from lakesql.records.formats.csv import Csv
from lakesql.registry.bare_values import as_records
from lakesql.registry.connection import Wire
from lakesql.registry.schemas import StreamSchemas
from lakesql.stream.stream import Encoding, Envelope, Infinity, Unit, UnknownFields
from lakesql.stream.text_encoding import UTF_8

RAW_FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value")
"""The fields of a raw record that its dead letter keeps."""


@dataclass(frozen=True, slots=True)
class ContractColumn:
    """A column of a stream. `required`: a record in which it is NULL or absent is a
    dead letter.

    `unit` is the unit of its times if they are numbers, `encoding` the encoding of
    bytes in a change feed. `decimals` decides whether a number with more digits than
    the decimal type is rounded or does not fit, `infinity` what becomes of a database's
    infinite date or timestamp.
    """

    name: str
    type: T.DataType
    required: bool = False
    unit: Unit | None = None
    encoding: Encoding | None = None
    decimals: Decimals = "exact"
    infinity: Infinity = "dead_letter"

    @property
    def is_counted(self) -> bool:
        """Whether the column is a timestamp with a `unit`, so that its values may be
        numbers. Such a column is read as text and converted afterwards."""
        return self.unit is not None and isinstance(
            self.type, T.TimestampType | T.TimestampNTZType
        )


@dataclass(frozen=True, slots=True)
class Contract:
    """What the records of a stream must look like, and what is read of them.

    Formats `string` and `bytes` have one column. `schema` is the Avro schema as JSON.
    `envelope` is that of a change feed, or `none`. `encoding` is the text encoding of
    the values. `is_replayed`: the records are replayed dead letters, whose order of
    arrival means nothing. `has_folders`: raw records have `_lakesql_folders`, whose
    values fill columns that the record lacks. `unknown_fields` is what becomes of
    fields that are no columns. `order` has the names of `columns` and `key_columns` in
    the order of the result.

    Keys: `key` are the columns of the stream's key, which are all that a change feed
    may send of a deleted row. `key_columns` are read from the record's key, each from
    the field of its name without the prefix `_lakesql_key_`. `tombstones`: whether a
    record without a value deletes the row of its key. `is_mirrored`: rows are found by
    their keys, so that a record whose own key has other columns is a dead letter; so is
    a record without a key, unless the stream `names_key`.

    Schemas of a registry: `schemas` are those that values name by an id, `key_schemas`
    those that keys name; None if they name none. `frame` and `key_frame` tell how an id
    precedes a value or a key that is JSON; None if none does.

    Change feeds: `sequence` are the columns or `_change` fields that order the changes
    of a row; each change must have them. `kept` are the columns that may be missing in
    an update, as the table has their values; `unused` those that may be missing in any
    change, as nothing reads them. `moves`: `_lakesql_half` and `_lakesql_move` are
    wanted. `schema_fields` are the known `FieldSchema` texts of the schemas beside the
    events; empty if the stream declares its columns. `source_table` are the database
    tables whose changes are read; empty for all. `has_one_table`:
    `_lakesql_source_table` is wanted. `add_fields_prefix` is the prefix of the metadata
    fields in a flat record; None if the stream does not configure it.

    Text formats: `headers` are those of CSV files with other columns, or in another
    order: each record of such a file begins with its header. `is_one_line`: a CSV
    record with a line break is a dead letter, even if the break is in quotes.
    `invalid_text`: whether a value of format `string` that is not UTF-8 is a dead
    letter.
    """

    columns: tuple[ContractColumn, ...]
    format: Literal["json", "csv", "avro", "protobuf", "string", "bytes"] = "json"
    csv: Csv = Csv()
    schema: str = ""
    key: tuple[str, ...] = ()
    envelope: Envelope = "none"
    sequence: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    moves: bool = False
    schema_fields: tuple[str, ...] = ()
    is_mirrored: bool = False
    names_key: bool = True
    source_table: tuple[str, ...] = ()
    has_one_table: bool = False
    tombstones: Literal["", "delete"] = ""
    unused: tuple[str, ...] = ()
    headers: tuple[CsvHeader, ...] = ()
    is_one_line: bool = False
    encoding: str = UTF_8
    invalid_text: Literal["replace", "dead_letter"] = "replace"
    is_replayed: bool = False
    add_fields_prefix: str | None = None
    schemas: StreamSchemas | None = None
    unknown_fields: UnknownFields = "ignore"
    has_folders: bool = False
    frame: Wire | None = None
    order: tuple[str, ...] = ()
    key_columns: tuple[ContractColumn, ...] = ()
    key_schemas: StreamSchemas | None = None
    key_frame: Wire | None = None

    @property
    def reads_keys(self) -> bool:
        """Whether anything is read from the keys of records: columns, or the keys of
        tombstones."""
        return bool(self.key_columns or self.tombstones)

    @property
    def has_schema(self) -> bool:
        """Whether values are encoded by a schema that gives them types (Avro,
        Protobuf)."""
        return self.format in ("avro", "protobuf")

    def has_marks(self, column: ContractColumn) -> bool:
        """Whether a column has CSV numbers with the stream's own decimal or thousands
        marks. Such a column is read as text and converted afterwards."""
        return self.format == "csv" and is_marked(column.type, self.csv)


def parse_records(
    raw: DataFrame,
    contract: Contract,
    keep: frozenset[str],
    keep_raw: bool = False,
    beside: Sequence[str] = (),
) -> DataFrame:
    """The columns of the contract, parsed from raw records, with `_record` (the fields
    in `keep`, if any) and `_lakesql_rejected`.

    `raw` has Kafka's shape: `key, value, topic, partition, offset, timestamp, headers`;
    batch or streaming. `_lakesql_rejected` is NULL on a good record; on a bad one it is
    a struct of `reason` and `RAW_FIELDS`, and the other columns are undefined. With
    `keep_raw` every record has its raw fields as `_lakesql_raw`. If the contract
    accepts tombstones, `_lakesql_tombstone` has the key of each; a tombstone whose key
    cannot be read is a bad record. The columns of `raw` that are named in `beside` are
    kept unchanged.
    """
    raw = _in_utf8(raw, contract)
    if contract.format == "csv":
        raw = _without_headers(raw, contract)
    reason = _reason(contract)
    if contract.reads_keys:
        raw = _with_key(raw, contract)
        reason = F.coalesce(reason, key_reason(contract))
    if contract.tombstones:
        raw = raw.withColumn(
            TOMBSTONE_KEY, F.when(F.col("value").isNull(), tombstone_key(contract))
        )
        unread = F.when(F.col(TOMBSTONE_KEY).isNull(), F.lit(NO_VALUE))
        reason = F.when(F.col("value").isNull(), unread).otherwise(reason)
    # In separate projections, which Spark does not merge, so that a record is parsed
    # once and checked once.
    read = _as_arrived(with_each(raw, {**_read(contract), _REASON: reason}), contract)
    return read.select(
        # Values are converted by try_cast: a plain cast of one that does not fit would
        # fail the batch, and such a record is rejected anyway.
        *_in_order(contract),
        *(
            [rescued_text(F.col(UNKNOWN_FIELDS)).alias(RESCUED)]
            if contract.unknown_fields == "rescue"
            else []
        ),
        *([record_struct(keep)] if keep else []),
        *([raw_struct()] if keep_raw else []),
        rejected_struct(F.col(_REASON), _detail_now(contract)),
        *([F.col(TOMBSTONE_KEY)] if contract.tombstones else []),
        *beside,
    )


def with_column_of(
    raw: DataFrame, contract: Contract, column: str, name: str
) -> DataFrame:
    """The raw records with the value of the contract's column `column` added as `name`;
    NULL if the record is bad whatever its other columns hold.

    In JSON no other column is read. In other formats the value is NULL if any column
    makes the record bad.
    """
    one = replace(contract, tombstones="", unknown_fields="ignore")
    if contract.format == "json":
        found = tuple(each for each in contract.columns if each.name == column)
        one = replace(
            one,
            columns=_optional(found or contract.columns),
            key_columns=_optional(contract.key_columns),
        )
    read = parse_records(
        raw.withColumn(_ARRIVED, F.struct("*")), one, frozenset(), beside=[_ARRIVED]
    )
    value = F.when(F.col(REJECTED).isNull(), F.col(identifier(column)))
    if contract.format == "json" and _holds(contract, T.DecimalType):
        value = F.when(
            ~F.col(f"{_ARRIVED}.value").cast("string").rlike(EXPONENT_BOMB), value
        )
    return read.select(f"{_ARRIVED}.*", value.alias(name))


_ARRIVED = "_lakesql_arrived"


def _optional(columns: Iterable[ContractColumn]) -> tuple[ContractColumn, ...]:
    """The same columns, none of them required."""
    return tuple(replace(column, required=False) for column in columns)


def _in_order(contract: Contract) -> list[Column]:
    """The columns of the contract, including those of keys, in the contract's
    `order`."""
    found = {column.name: landed(column) for column in contract.columns}
    found |= {column.name: key_value(column) for column in contract.key_columns}
    names = [name for name in contract.order if name in found] or found
    return [found[name].alias(name) for name in names]


def landed(column: ContractColumn) -> Column:
    """The value of a column in `_lakesql_row`, converted to the column's type; NULL if
    it does not fit."""
    value = F.col(ROW)[column.name]
    return _time(column, value) if column.is_counted else value.try_cast(column.type)


def _time(column: ContractColumn, text: Column) -> Column:
    return time_of(text, column.type, F.lit(column.unit))


def record_struct(keep: frozenset[str]) -> Column:
    """`_record`: a struct of the fields in `keep`."""
    return F.struct(*(F.col(name) for name in RECORD_FIELDS if name in keep)).alias(
        RECORD
    )


def raw_struct() -> Column:
    """`_lakesql_raw`: a struct of `RAW_FIELDS`."""
    return F.struct(*(F.col(name) for name in RAW_FIELDS)).alias(RAW)


def rejected_struct(reason: Column, detail: Column | None = None) -> Column:
    """`_lakesql_rejected`: a struct of the reason and the raw fields, NULL if `reason`
    is NULL. `detail` is added if it has to be computed now, as dead letters do not keep
    what it depends on."""
    details = [] if detail is None else [detail.alias("detail")]
    return F.when(
        reason.isNotNull(), F.struct(reason.alias("reason"), *RAW_FIELDS, *details)
    ).alias(REJECTED)


def with_detail(rejected: DataFrame, contract: Contract) -> DataFrame:
    """Rejected raw records with the column `detail`, a text about what is wrong that
    names the field if it is known. They are returned unchanged if values name schemas
    of a registry: the detail was computed earlier (`_detail_now`)."""
    if contract.schemas is not None:
        return rejected
    raw, said = _in_utf8(rejected, contract), None
    if contract.key_schemas is not None:
        said = F.col("detail")
    elif contract.key_columns:
        raw, said = _with_key(raw, contract, is_detailed=True), key_detail(contract)
    details = _detail(contract, said)
    if contract.format == "json":
        details = unless_of_registry(details)
    read = {
        **_read(contract),
        ROW: _with_folders(_row(contract), _text_type(contract), contract),
    }
    found = with_each(raw, read).withColumn("detail", details).drop(*read, KEY)
    return _as_arrived(found, contract)


def _detail_now(contract: Contract) -> Column | None:
    """The detail of a bad record, as far as it depends on record headers, which may
    name a schema and which dead letters do not keep. None if nothing depends on them:
    `with_detail` computes it later."""
    if contract.key_schemas is None:
        return None if contract.schemas is None else _detail(contract)
    of_key = F.when(F.col("value").isNull(), _say_tombstone(contract)).otherwise(
        key_detail(contract)
    )
    return of_key if contract.schemas is None else _detail(contract, of_key)


def _detail(contract: Contract, of_key: Column | None = None) -> Column:
    """The detail of a bad record: a text about its first fault. `of_key` is the detail
    of its key, which applies if the value has no fault, and to a record without a value
    if keys name schemas."""
    none = F.lit(None).cast("string") if of_key is None else of_key
    faults = [(fault.holds, fault.detail) for fault in _faults(contract)]
    if contract.key_schemas is not None and of_key is not None:
        faults[0] = (F.col("value").isNull(), lambda: of_key)
    return first_of(((holds, detail()) for holds, detail in faults), none)


def unless_of_registry(detail: Column) -> Column:
    """The detail of a bad JSON record, replaced by a hint at `format: json_schema` if
    its key or value begins with the five bytes of a schema registry before the JSON."""
    said = "begins with five bytes of a schema registry, which `format: json_schema` reads; or let the producer write"
    for name in ("key", "value"):
        is_prefixed = (F.substring(name, 1, 1) == F.lit(b"\0")) & F.substring(
            name, 6, 1
        ).isin(b"{", b"[", b'"')
        detail = F.when(
            detail.isNotNull() & is_prefixed, F.lit(f"the {name} {said} JSON alone")
        ).otherwise(detail)
    return detail


_BYTES = "_lakesql_bytes"
_FRAMED = "_lakesql_framed"


def _in_utf8(raw: DataFrame, contract: Contract) -> DataFrame:
    """The raw records with their values decoded to UTF-8, and keys and values without
    the schema id before their JSON. The bytes that arrived are kept in helper columns
    until `_as_arrived`."""
    if framed := _framed(contract):
        found = {name: without_frame(name, wire) for name, wire in framed.items()}
        raw = raw.withColumns({_FRAMED: F.struct("key", "value"), **found})
    if contract.encoding == UTF_8:
        return raw
    value = F.col("value")
    return raw.withColumns({_BYTES: value, "value": decoded(value, contract.encoding)})


def _as_arrived(records: DataFrame, contract: Contract) -> DataFrame:
    """The records with the bytes that arrived put back as key and value (the reverse of
    `_in_utf8`)."""
    if framed := _framed(contract):
        return records.withColumns(
            {name: F.col(_FRAMED)[name] for name in framed}
        ).drop(_FRAMED, _BYTES)
    if contract.encoding == UTF_8:
        return records
    return records.withColumn("value", F.col(_BYTES)).drop(_BYTES)


def _framed(contract: Contract) -> dict[str, Wire]:
    """How a schema id precedes the key and the value, by the name of the raw column;
    only for those that are JSON after such an id."""
    said = {"key": contract.key_frame, "value": contract.frame}
    return {name: wire for name, wire in said.items() if wire is not None}


_REASON = "_lakesql_reason"
_ELEMENTS = "_lakesql_elements"
_TEXTS = "_lakesql_texts"
_FINITE = "_lakesql_finite"
_WRITTEN = "_lakesql_written"
Reader = Callable[[Column, T.StructType], Column]
"""Parses a text into a struct whose last field is `CORRUPT`: the text if it does not
fit, else NULL."""


def with_each(frame: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """The frame with each column added by a projection of its own, so that a column can
    use those before it."""
    return with_stages(frame, ({name: column} for name, column in columns.items()))


def with_stages(
    frame: DataFrame,
    stages: Iterable[Mapping[str, Column]],
    where: Column | None = None,
) -> DataFrame:
    """The frame with the columns of each stage added by one projection, so that a stage
    can use the columns of those before it. On rows for which `where` does not hold the
    columns are NULL.

    A stage has a cost: its projection copies each row, and each task generates its code
    anew.
    """
    is_wanted = F.spark_partition_id() >= 0
    if where is not None:
        is_wanted &= where
    for stage in stages:
        frame = frame.withColumns(
            {name: F.when(is_wanted, column) for name, column in stage.items()}
        )
    return frame


def _with_key(
    raw: DataFrame, contract: Contract, is_detailed: bool = False
) -> DataFrame:
    """The raw records with `_lakesql_key`: the key, parsed and checked like a value of
    its columns.

    If the contract reads no columns from keys, only the keys of records without a value
    are parsed. The detail of a bad key that is JSON is included only if `is_detailed`.
    """
    key = _key_contract(contract)
    read_key = {**_read(key), ROW: _row(key)} if is_detailed else _read(key)
    written = F.col("key") if key.has_schema else key_text(key.columns).cast("binary")
    read = {
        _VALUE: F.col("value"),
        "value": written
        if contract.key_columns
        else F.when(F.col("value").isNull(), written),
        **read_key,
    }
    reason = F.when(F.col("value").isNotNull(), _reason(key))
    detail = F.lit(None).cast("string")
    if key.has_schema or is_detailed:
        detail = F.when(F.col("value").isNotNull(), _detail(key))
    row = F.struct(*(landed(column).alias(column.name) for column in key.columns))
    said = F.struct(row.alias("row"), reason.alias("reason"), detail.alias("detail"))
    found = with_each(raw, {**read, KEY: said})
    return found.withColumn("value", F.col(_VALUE)).drop(_VALUE, *read_key)


_VALUE = "_lakesql_value"


@cache
def _key_contract(contract: Contract) -> Contract:
    """The contract of the keys themselves: the columns that are read from keys, and
    those of a tombstone's key, named as the fields in keys are.

    No column is required here: of tombstones, `tombstone_key` checks that the key is
    complete, and of other records `key_reason` checks the required columns.
    """
    columns = {field_of(column): column for column in contract.key_columns}
    for column in tombstone_columns(contract):
        columns.setdefault(field_of(column), column)
    found = tuple(
        replace(column, name=name, required=False) for name, column in columns.items()
    )
    if contract.key_schemas is None:
        return Contract(found)
    kind: Literal["avro", "protobuf"] = (
        "avro" if contract.key_schemas.kind == "AVRO" else "protobuf"
    )
    return Contract(
        found,
        kind,
        schemas=as_records(contract.key_schemas, [column.name for column in found]),
    )


@cache
def _read(contract: Contract) -> dict[str, Column]:
    """The columns that parsing adds to a raw record, in order: `_lakesql_row`, and
    helper columns for checking it.

    - `_lakesql_texts`: the row with every value as text, on records where a value may
      have been misread (`_doubt`); else NULL.
    - `_lakesql_written`: the members of the JSON object as written, on records where
      Spark's text of a value may differ from the record's.
    - `_lakesql_finite`: the row parsed with 0 in place of words such as `Infinity`, on
      records that have an infinite number: one that is infinite here too was too large.
    - `_lakesql_unknown_fields`: the fields that are no columns, if the contract asks
      for them.

    JSON is parsed as the only element of an array in an object. So text after the first
    value is noticed. It also is cheaper: Spark's reader copies each field of the
    outermost object once more when it looks up its column by name, and here that object
    has only two.
    """
    if contract.has_schema:
        return _read_by_schema(contract)
    doubt = _doubt(contract)
    texts = {}
    if doubt is not None:
        read = _without_bombs(
            contract, _reader(contract)(_text(), _with_corrupt(contract, as_text))
        )
        texts[_TEXTS] = F.when(doubt, read)
    if contract.format != "json":
        return {ROW: _row(contract), **texts}
    columns = T.StructType(_text_type(contract).fields[:-1])
    schema = T.StructType(
        [
            T.StructField("v", T.ArrayType(columns)),
            T.StructField(CORRUPT, T.StringType()),
        ]
    )
    elements = from_json(F.concat(F.lit('{"v":['), _text(), F.lit("]}")), schema)
    row = F.get(F.col(_ELEMENTS)["v"], F.lit(0))
    is_asked = holds_any([*_rewritten(columns, row), *_long_decimals(contract)])
    found = {
        _ELEMENTS: _without_bombs(contract, elements),
        _WRITTEN: F.when(is_asked, members(_text())),
        ROW: _with_folders(_row_as_written(columns, row), columns, contract),
        **texts,
    }
    if contract.unknown_fields != "ignore":
        found[UNKNOWN_FIELDS] = F.when(
            F.col(ROW).isNotNull(), find_unknown(_text(), columns_of(contract))
        )
    if (is_infinite := _has_infinite(contract)) is None:
        return found
    without = from_json(
        F.regexp_replace(_text(), WORD_FOR_NUMBER, "0"), _text_type(contract)
    )

    def finite(read: Column) -> Column:
        own, taken = (
            F.struct(*(each[name].alias(name) for name in columns.names))
            for each in (F.col(ROW), read)
        )
        return F.when(read[CORRUPT].isNull(), taken).otherwise(own)

    return {**found, _FINITE: F.when(is_infinite, bound(without, finite))}


def columns_of(contract: Contract) -> T.StructType:
    """The columns of a contract as a struct type."""
    return T.StructType(
        [T.StructField(column.name, column.type) for column in contract.columns]
    )


def _read_by_schema(contract: Contract) -> dict[str, Column]:
    """The columns that parsing values of Avro or Protobuf adds, by the stream's own
    schema or by the schema that each value names."""
    wanted = [(column.name, column.type) for column in contract.columns]
    if contract.schemas is not None:
        return registry_columns(contract.schemas, tuple(wanted), ROW, CORRUPT)
    return avro_columns(F.col("value"), wanted, contract.schema, ROW, CORRUPT)


def _rewritten(columns: T.StructType, row: Column) -> list[Column]:
    """For each column with texts, whether a text that Spark read in it may differ from
    what the record has."""

    def leaf(text: Column, wanted: T.DataType, _path: str) -> Column | None:
        return text.rlike(r"^[-0-9\[{\"]") if isinstance(wanted, T.StringType) else None

    asked = []
    for field in columns.fields:
        value = row[field.name]
        if isinstance(field.dataType, T.StringType):
            asked.append(is_rewritten(value, _text(), field.name))
        elif (found := _anywhere(value, field.dataType, "", leaf)) is not None:
            asked.append(found & has_rewritten(_text()))
    return asked


def _row_as_written(columns: T.StructType, row: Column) -> Column:
    """A parsed row, with its texts replaced by the record's own spelling where
    `_lakesql_written` has it."""
    if not holds_text(columns):
        return row
    written = F.col(_WRITTEN)
    values = (
        as_written(
            row[field.name], value_of(written, F.lit(field.name)), field.dataType
        ).alias(field.name)
        for field in columns.fields
    )
    return F.when(written.isNull() | row.isNull(), row).otherwise(F.struct(*values))


def _with_folders(row: Column, columns: T.StructType, contract: Contract) -> Column:
    """A parsed row in which NULLs are filled with the values that the names of the
    file's folders give for these columns."""
    if not contract.has_folders:
        return row

    def value_of_row(read: Column, field: T.StructField) -> Column:
        if field.name == CORRUPT or not isinstance(field.dataType, T.AtomicType):
            return read[field.name].alias(field.name)
        said = F.col(FOLDERS)[field.name].cast(field.dataType)
        return F.coalesce(read[field.name], said).alias(field.name)

    def given(read: Column) -> Column:
        whole = F.struct(*(value_of_row(read, field) for field in columns.fields))
        return F.when(read.isNotNull() & F.col(FOLDERS).isNotNull(), whole).otherwise(
            read
        )

    return bound(row, given)


def _doubt(contract: Contract) -> Column | None:
    """Whether a value of a record may have been misread, by a cheap test that may err
    on the side of doubt.

    None if no column has a type for which this can happen: see `_holds_comma`,
    `_time_alone`, `_more_than_date`, `_literal_of_java`, `_long_number`.
    """
    doubts: list[Column | None] = list(_long_decimals(contract))
    if contract.format == "csv":
        doubts.append(_has_infinite(contract))
        if any(holds_float(column.type) for column in contract.columns):
            doubts.append(_text().rlike(LITERAL_OF_JAVA))
    if _is_iso(contract, contract.csv.date_format) and _holds(contract, T.DateType):
        doubts.append(_text().rlike(MORE_THAN_DATE))
    if _is_iso(contract, contract.csv.timestamp_format):
        timed = [column for column in contract.columns if not column.is_counted]
        today = [
            _anywhere(F.col(ROW)[column.name], column.type, "", _is_today)
            for column in timed
        ]
        if (is_today := _any(today)) is not None:
            doubts.append(is_today & _text().rlike(TIME_ALONE))
    if contract.format == "json":
        listed = [
            column
            for column in contract.columns
            if not isinstance(column.type, T.AtomicType)
        ]
        odd = [
            _anywhere(F.col(ROW)[column.name], column.type, "", _is_odd_time)
            for column in listed
        ]
        if (is_odd := _any(odd)) is not None:
            doubts.append(is_odd & _text().rlike("[0-9]{13}"))
    return _any(doubts)


def _has_infinite(contract: Contract) -> Column | None:
    """Whether a number in the row is infinite; None if no column has floats or
    doubles."""
    row, read = (
        F.col(ROW),
        [column for column in contract.columns if not contract.has_marks(column)],
    )
    return _any(
        _anywhere(row[column.name], column.type, "", _is_infinite) for column in read
    )


def _long_decimals(contract: Contract) -> list[Column]:
    """Whether a JSON record may have a decimal with a comma, or one with more digits
    than are read: one condition, or none for other formats and contracts without
    decimals."""
    scales = _wide_scales(contract)
    if contract.format != "json" or not scales:
        return []
    return [_text().rlike(f"{DIGITS_WITH_COMMA}|{too_long(min(scales))}")]


def _wide_scales(contract: Contract) -> list[int]:
    """For each decimal in the contract, the number of digits after the point that are
    read."""
    parts = (part for column in contract.columns for part in parts_of(column.type))
    return [wider(part).scale for part in parts if isinstance(part, T.DecimalType)]


def _without_bombs(contract: Contract, read: Column) -> Column:
    """The parsed record `read`; NULL if the text has a number that would take Spark
    seconds to minutes to round to a decimal (`EXPONENT_BOMB`)."""
    if _holds(contract, T.DecimalType):
        return F.when(~_text().rlike(EXPONENT_BOMB), read)
    return read


@cache
def _row(contract: Contract) -> Column:
    """The record as a struct, as Spark parses it."""
    match contract.format:
        case "string":
            return F.struct(_text().alias(contract.columns[0].name))
        case "bytes":
            return F.struct(F.col("value").alias(contract.columns[0].name))
        case "avro" | "protobuf":
            return _read_by_schema(contract)[ROW]
        case "json" | "csv":
            return _without_bombs(contract, _with_plain_numbers(contract))


def _with_plain_numbers(contract: Contract) -> Column:
    """The record as Spark parses it, in which numbers with the stream's own marks are
    rewritten to Spark's notation."""
    row = _reader(contract)(_text(), _text_type(contract))
    marked = [column.name for column in contract.columns if contract.has_marks(column)]
    if not marked:
        return row

    def plain(read: Column) -> Column:
        for name in marked:
            read = read.withField(
                identifier(name), plain_number(read[name], contract.csv)
            )
        return read

    return bound(row, plain)


@dataclass(frozen=True, slots=True)
class _RecordFault:
    """One thing that can make a record bad; faults are checked in order. `detail` is a
    function, so that the costly text is built only where it is wanted."""

    holds: Column
    reason: str
    detail: Callable[[], Column]


@cache
def _reason(contract: Contract) -> Column:
    """Why the record is bad, over `value` and the columns of `_read`; NULL for a good
    record."""
    return _first_reason(_faults(contract))


def missing_reason(required: Iterable[str]) -> Column:
    """Why a record is bad that arrived as the typed row `_lakesql_row`: a required
    column is NULL. NULL for a good record."""
    return _first_reason(map(_missing, required))


def _first_reason(faults: Iterable[_RecordFault]) -> Column:
    return first_of(
        ((fault.holds, F.lit(fault.reason)) for fault in faults),
        F.lit(None).cast("string"),
    )


@cache
def _faults(contract: Contract) -> tuple[_RecordFault, ...]:
    faults = [
        _RecordFault(
            F.col("value").isNull(), NO_VALUE, lambda: _say_tombstone(contract)
        )
    ]
    if contract.format == "csv" or (
        contract.format == "string" and contract.invalid_text == "dead_letter"
    ):
        faults.append(
            _RecordFault(
                ~F.is_valid_utf8(_text()), UNPARSABLE, lambda: F.lit("not UTF-8")
            )
        )
    if contract.format == "json":
        invalid = invalid_text(_text())
        faults.append(_RecordFault(invalid.isNotNull(), UNPARSABLE, lambda: invalid))
        faults.append(
            _RecordFault(~_is_one_value(), UNPARSABLE, lambda: _json_detail(contract))
        )
    elif contract.format == "csv" or contract.has_schema:
        faults += _header_faults(contract)
        faults.append(_unread(contract))
    faults += _column_faults(contract)
    if contract.unknown_fields != "ignore":
        unknown = F.col(UNKNOWN_FIELDS)
        faults.append(
            _RecordFault(
                is_undeclared(unknown, contract),
                UNDECLARED_FIELD,
                lambda: say_unknown(unknown),
            )
        )
    return tuple(faults)


def is_undeclared(unknown: Column, contract: Contract) -> Column:
    """Whether the fields that are no columns make a record bad: any such field if
    `unknown_fields` is `dead_letter`; else, if they are to be kept, only an object
    whose fields cannot be determined."""
    return (
        unknown.isNotNull()
        if contract.unknown_fields == "dead_letter"
        else is_untold(unknown)
    )


def _header_faults(contract: Contract) -> list[_RecordFault]:
    """The faults of records in CSV files whose header cannot be used."""
    return [
        _RecordFault(
            _text().startswith(header.prefix),
            UNPARSABLE,
            partial(F.lit, header.problem),
        )
        for header in problems_of(contract.headers)
    ]


def _say_tombstone(contract: Contract) -> Column:
    if not contract.tombstones:
        return F.lit("the record has no value")
    if contract.key_schemas is not None:
        why = F.coalesce(
            key_detail(contract),
            F.lit("the key has not all columns of the stream's `key`"),
        )
        return F.concat(F.lit("the record has no value, and "), why)
    columns = ", ".join(
        f"{column.name} {column.type.simpleString()}"
        for column in tombstone_columns(contract)
    )
    return F.lit(f"the record has no value, and its key is not JSON of {columns}")


def _unread(contract: Contract) -> _RecordFault:
    row = F.col(ROW)
    if contract.has_schema:  # what does not fit is said there, in words
        return _RecordFault(row[CORRUPT].isNotNull(), UNPARSABLE, lambda: row[CORRUPT])
    unread = row.isNull() | row[CORRUPT].isNotNull()
    if contract.format == "csv":
        unread |= ~is_whole(row) | has_several_lines(_body(contract), contract.csv)
        if contract.is_one_line:
            unread |= has_open_quote(_text(), contract.csv) | has_line_break(
                _body(contract)
            )
        return _RecordFault(unread, UNPARSABLE, lambda: _csv_detail(contract))
    return _RecordFault(
        unread,
        UNPARSABLE,
        lambda: F.coalesce(_misfit(contract), F.lit("not a JSON object")),
    )


def _csv_detail(contract: Contract) -> Column:
    """The detail of a text that is not one CSV record that fits the contract."""
    shape = F.when(
        has_open_quote(_text(), contract.csv), F.lit("a quote in it is not closed")
    )
    is_long = has_several_lines(_body(contract), contract.csv)
    if contract.is_one_line:
        is_long |= has_line_break(_body(contract))
    shape = shape.when(is_long, F.lit("more than one line"))
    return F.coalesce(
        shape, _misfit(contract), F.lit("not a line of the contract's columns")
    )


def _body(contract: Contract) -> Column:
    """The text of a record, without the file's header before it."""
    text = _text()
    for header in contract.headers:
        body = F.substring(_text(), len(header.prefix) + 1, 2**31 - 1)
        text = F.when(_text().startswith(header.prefix), body).otherwise(text)
    return text


def _json_detail(contract: Contract) -> Column:
    """The detail of a text that is not one JSON value that fits: the fault of its first
    value, or that more values follow it."""
    unread = _unread(contract)
    return F.when(unread.holds, unread.detail()).otherwise(
        F.lit("more than one JSON value")
    )


def _column_faults(contract: Contract) -> list[_RecordFault]:
    """The faults that are checked column by column, of a row that Spark has parsed:
    values that were misread, and required columns that are missing."""
    row, faults = F.col(ROW), []
    is_json = contract.format == "json"
    times, dates = (
        _is_iso(contract, contract.csv.timestamp_format),
        _is_iso(contract, contract.csv.date_format),
    )
    for column in contract.columns:
        if column.is_counted:
            faults.append(_no_time(column))
            if column.required:
                faults.append(_missing(column.name))
            continue
        if contract.has_marks(column):
            faults.append(_no_number(contract, column))
            if column.required:
                faults.append(_missing(column.name))
            continue
        path = f"$['{column.name}']" if is_json and "'" not in column.name else ""
        texts = F.col(_TEXTS)
        found = [
            _anywhere(row[column.name], column.type, path, _lossy),
            _too_large(contract, column),
            _anywhere(
                row[column.name], column.type, path, _decimal_test(contract, column)
            ),
            _anywhere(texts[column.name], column.type, "", _time_alone)
            if times
            else None,
            _anywhere(texts[column.name], column.type, "", _more_than_date)
            if dates
            else None,
            _anywhere(texts[column.name], column.type, "", _literal_of_java)
            if contract.format == "csv"
            else None,
        ]
        if is_json:
            found.append(_anywhere(texts[column.name], column.type, "", _long_number))
            found.append(_anywhere(texts[column.name], column.type, "", _holds_comma))
            if column.decimals == "exact":
                found.append(_anywhere(_as_written(column), column.type, "", _is_long))
        lossy = _any(found)
        if lossy is not None and not contract.has_schema:
            what = f"{column.name}: not a {column.type.simpleString()}, or out of its range"
            faults.append(_RecordFault(lossy, UNPARSABLE, partial(F.lit, what)))
        if column.required:
            faults.append(
                _missing_in_json(column.name) if is_json else _missing(column.name)
            )
    return faults


def _no_time(column: ContractColumn) -> _RecordFault:
    what = f"{column.name}: not a {column.type.simpleString()}, or out of its range"
    value = F.col(ROW)[column.name]
    return _RecordFault(
        value.isNotNull() & _time(column, value).isNull(),
        UNPARSABLE,
        lambda: F.lit(what),
    )


def _no_number(contract: Contract, column: ContractColumn) -> _RecordFault:
    """The fault of a number with the stream's marks: its text is no such number, or it
    does not fit the type."""
    what = f"{column.name}: not a {column.type.simpleString()} with '{contract.csv.decimal}' before its fraction"
    what += (
        f" and '{contract.csv.thousands}' in thousands"
        if contract.csv.thousands
        else ""
    )
    text = F.col(ROW)[column.name]
    wrong = text.try_cast(column.type).isNull() | is_too_large(text, column.type)
    if (is_long := _decimal_test(contract, column)(text, column.type, "")) is not None:
        wrong |= is_long
    holds = F.coalesce(text.isNotNull() & wrong, F.lit(False))
    return _RecordFault(
        holds, UNPARSABLE, lambda: F.lit(f"{what}, or out of its range")
    )


def _missing(required: str) -> _RecordFault:
    return _RecordFault(
        F.col(ROW)[required].isNull(), REQUIRED_MISSING, lambda: F.lit(required)
    )


def _missing_in_json(required: str) -> _RecordFault:
    return replace(_missing(required), detail=lambda: missing_field(_text(), required))


Test = Callable[[Column, T.DataType, str], Column | None]
"""Whether a value of a type is wrong; returns None if there is nothing to check for the
type. The last argument is the JSON path of the value in the record's text: '' if it has
none (in an array, a map, a line of CSV)."""


def _anywhere(
    value: Column, wanted: T.DataType, path: str, test: Test
) -> Column | None:
    """Whether the test holds for a value or for one nested in it; None if there is
    nothing to check for any of their types."""
    match wanted:
        case T.StructType(fields=fields):
            below = [
                _anywhere(
                    value[f.name], f.dataType, path and f"{path}['{f.name}']", test
                )
                for f in fields
            ]
            found = _any(below)
        case T.ArrayType(elementType=element):
            found = _exists(value, lambda item: _anywhere(item, element, "", test))
        case T.MapType(valueType=element):
            below = [
                _exists(
                    F.map_values(value), lambda item: _anywhere(item, element, "", test)
                )
            ]
            found = _any([test(value, wanted, path), *below])
        case _:
            found = test(value, wanted, path)
    return None if found is None else F.coalesce(found, F.lit(False))


def _lossy(value: Column, wanted: T.DataType, path: str) -> Column | None:
    """Whether a value is a distorted one: the original did not fit the type, and
    Spark's readers did not report that.

    - A text of digits becomes a date in a year of as many digits: dates outside the
      years 1 to 9999 are refused.
    - A tinyint from 128 to 255 becomes negative: it is read as an int and compared.
    - A timestamp given as a number of 13 digits and more, which Spark takes for
      seconds, becomes some other time: outside the years 1 to 9999, with a fraction
      that no number of seconds has, or at the epoch (2^63 - 1 and multiples of 2^58).
    - An object with a name twice becomes a map that has a key twice.
    """
    match wanted:
        case T.ByteType():
            return ~value.between(-128, 127)
        case T.TimestampType():
            found = ~F.unix_micros(value).between(*COMMON_TIMES)
            if path:
                is_long = F.get_json_object(_text(), path).rlike(r"^-?[0-9]{13,}$")
                found |= _is_odd(value) & is_long
            return found
        case T.TimestampNTZType():
            return ~is_common_year(value)
        case T.MapType():
            return has_name_twice(value)
        case T.DateType():
            return ~F.unix_date(value).between(*COMMON_DAYS)
        case _:
            return None


WORD_FOR_NUMBER = r"""(?<=[:\[,\s])(?:"[-+]?(?:NaN|Infinity|INF)"|[-+]?(?:NaN|Infinity|INF))(?=[\s,\]}])"""
"""The words for a double, such as `NaN`, that Spark accepts in JSON beyond the
standard. One within a string matches too."""


def _too_large(contract: Contract, column: ContractColumn) -> Column | None:
    """Whether a number in a column became infinite because it is too large for its
    type. None if the column has no floats or doubles.

    A number that the record itself calls infinite (`Infinity`) is fine.
    """
    if contract.format == "json":
        return _anywhere(F.col(_FINITE)[column.name], column.type, "", _is_infinite)
    if contract.format == "csv":
        return _anywhere(
            F.col(_TEXTS)[column.name], column.type, "", _is_infinite_number
        )
    return _anywhere(F.col(ROW)[column.name], column.type, "", _is_infinite)


def _is_infinite(value: Column, wanted: T.DataType, _path: str) -> Column | None:
    return (
        F.abs(value) == F.lit(float("inf"))
        if isinstance(wanted, T.DoubleType | T.FloatType)
        else None
    )


def _is_infinite_number(text: Column, wanted: T.DataType, path: str) -> Column | None:
    """Whether a text of digits is read as an infinite number; a word for infinity does
    not count."""
    is_infinite = _is_infinite(text.try_cast(wanted), wanted, path)
    return None if is_infinite is None else is_infinite & text.rlike("[0-9]")


def _holds_comma(text: Column, wanted: T.DataType, _path: str) -> Column | None:
    """Whether the text of a decimal has commas. Spark's readers ignore them: 12,50
    would be 1250.

    Spark reports everything else that is wrong with a decimal, and the text that it
    makes of a JSON number is not the record's own.
    """
    return F.contains(text, F.lit(",")) if isinstance(wanted, T.DecimalType) else None


def _as_written(column: ContractColumn) -> Column:
    """The texts of a column, in which a number that is a member of the JSON object
    itself has all of its digits; NULL on records without doubt (`_doubt`)."""
    texts = F.col(_TEXTS)[column.name]
    if not isinstance(column.type, T.DecimalType):
        return texts
    written = F.regexp_replace(
        value_of(F.col(_WRITTEN), F.lit(column.name)), '^"|"$', ""
    )
    return F.when(texts.isNotNull(), F.coalesce(F.nullif(written, F.lit("")), texts))


def _is_long(text: Column, wanted: T.DataType, _path: str) -> Column | None:
    """Whether a number has more digits after the point than were read.

    In arrays and structs Spark makes the text of a number by way of a double, so that
    digits beyond a double's precision are not seen.
    """
    return ~is_exact(text, wanted.scale) if isinstance(wanted, T.DecimalType) else None


def _decimal_test(contract: Contract, column: ContractColumn) -> Test:
    """A test whether a decimal does not fit. It is applied to what was read in place of
    the decimal: a wider decimal in JSON, a text in other formats."""
    is_wide = contract.format == "json"
    is_rounded = column.decimals == "round"

    def test(value: Column, wanted: T.DataType, _path: str) -> Column | None:
        if not isinstance(wanted, T.DecimalType):
            return None
        cast = value.try_cast(wanted)
        if is_wide:
            fits = (
                cast.isNotNull()
                if is_rounded
                else F.coalesce(cast == value, F.lit(False))
            )
        else:
            # A cast ignores white space, which is not allowed in a number.
            fits = cast.isNotNull() & (
                has_digits(value) if is_rounded else is_exact(value, wanted.scale)
            )
        return value.isNotNull() & ~fits

    return test


def _time_alone(text: Column, wanted: T.DataType, _path: str) -> Column | None:
    return is_time_alone(text) if isinstance(wanted, T.TimestampType) else None


def _more_than_date(text: Column, wanted: T.DataType, _path: str) -> Column | None:
    return is_more_than_date(text) if isinstance(wanted, T.DateType) else None


def _literal_of_java(text: Column, wanted: T.DataType, _path: str) -> Column | None:
    return (
        is_literal_of_java(text)
        if isinstance(wanted, T.DoubleType | T.FloatType)
        else None
    )


def _long_number(text: Column, wanted: T.DataType, _path: str) -> Column | None:
    """Whether a timestamp in an array, which has no JSON path for `_lossy` to use, was
    given as a number of 13 digits and more."""
    return (
        text.rlike(r"\A-?[0-9]{13,}") if isinstance(wanted, T.TimestampType) else None
    )


def _is_odd_time(value: Column, wanted: T.DataType, _path: str) -> Column | None:
    """Whether a timestamp looks like the distorted result of a number of seconds that
    was too large (`_lossy`)."""
    return _is_odd(value) if isinstance(wanted, T.TimestampType) else None


def _is_odd(time: Column) -> Column:
    micros = F.unix_micros(time)
    return (micros % 1_000_000 != 0) | micros.isin(-1_000_000, 0)


def _is_iso(contract: Contract, pattern: str) -> bool:
    """Whether times, or dates, are read in the format of ISO 8601: in JSON, and in CSV
    without a configured `pattern`."""
    return contract.format == "json" or (contract.format == "csv" and not pattern)


def _is_today(value: Column, wanted: T.DataType, _path: str) -> Column | None:
    """Whether a timestamp lies within a day or two of today, as Spark puts a time
    without a date on the current day."""
    if not isinstance(wanted, T.TimestampType):
        return None
    return value.between(
        F.date_sub(F.current_date(), 1), F.date_add(F.current_date(), 2)
    )


EXPONENT_BOMB = r"[:\[,]\s*\"?[-+]?[0-9.]+[eE][-+]?[0-9]{6,}[\"\s,}\]]"
"""A number in a dozen bytes that has a hundred thousand digits and more: Spark writes
them out to round it to a decimal, which takes 13 s for 1e10000000."""

DIGITS_WITH_COMMA = (
    r"""["'](?=[-+.,eE]*\p{Nd})[-+.eE\p{Nd}]*,[-+.,eE\p{Nd}]*["']|\\[uU]002[cC]"""
)
"""A cheap pattern for a decimal with a comma in JSON. It also matches other text, so
that a match is only a reason to look closer."""

TIME_ALONE = r"(?<![0-9:+-])(?<![0-9][ T])T?[0-9]{1,2}:[0-9]"
"""A cheap pattern for a time without a date; as with `DIGITS_WITH_COMMA`, a match is
only a reason to look closer."""


MORE_THAN_DATE = (
    r"[0-9][ T](?!(?:[01]?[0-9]|2[0-3])(?::[0-5]?[0-9]){1,2}(?:\.[0-9]*)?\s*(?:Z|[-+][0-9:]+)?(?:[^0-9A-Za-z:. ]|$))"
    r"|\\[uU]00(?:20|54)"
)
"""A cheap pattern for a date that is followed by something other than a time; a match
is only a reason to look closer."""

LITERAL_OF_JAVA = r"(?i)0x[0-9a-f.]|[0-9.][df](?![0-9a-z])"
"""A cheap pattern for a double in the notation of Java's source code; a match is only a
reason to look closer."""


def _is_one_value() -> Column:
    """Whether `value` is one JSON object that fits, and nothing else.

    The text was parsed as the element of an array in an object. If it has no `]`, it
    cannot have closed that array, so it is one element. If it has one, it must also
    parse as the one member of an object: no text can close both an array and an object.
    Words that only Spark accepts as numbers are replaced first.
    """
    text, read = _text(), F.col(_ELEMENTS)
    words = r"[-+]?(NaN|Infinity|INF)"
    strict = F.when(text.rlike(words), F.regexp_replace(text, words, "0")).otherwise(
        text
    )
    members = F.size(F.json_object_keys(F.concat(F.lit('{"v":'), strict, F.lit("}"))))
    is_read = read[CORRUPT].isNull() & (F.size(read["v"]) == 1) & F.col(ROW).isNotNull()
    # As a CASE, whose branches are evaluated only if needed. On bytes, which are
    # searched faster than text.
    is_one = F.when(
        F.contains(F.col("value"), F.lit(b"]")), is_read & (members == 1)
    ).otherwise(is_read)
    return F.coalesce(is_one, F.lit(False))


def _misfit(contract: Contract) -> Column:
    """A text about the first field whose value does not fit its type; NULL if there is
    none that can be named.

    The record is parsed once more with text in place of every other type: a field that
    has a text there and is NULL in the row did not fit.
    """
    mirror = _reader(contract)(_text(), _with_corrupt(contract, as_text))

    def first(seen: Column) -> Column:
        return F.coalesce(
            *(
                F.when(wrong, F.lit(f"{path}: not a {kind}, or out of its range"))
                for column in contract.columns
                for path, kind, wrong in _misfits(
                    F.col(ROW)[column.name], seen[column.name], column.type, column.name
                )
            ),
            F.lit(None).cast("string"),
        )

    return F.when(F.col(ROW).isNotNull(), bound(mirror, first))


def _misfits(
    value: Column, seen: Column, wanted: T.DataType, path: str
) -> list[tuple[str, str, Column]]:
    """For each field at and below `path`: its path, the name of its type, and whether
    its value does not fit. `seen` is the value as texts."""
    if isinstance(wanted, T.StructType):
        fields = [
            _misfits(value[f.name], seen[f.name], f.dataType, f"{path}.{f.name}")
            for f in wanted.fields
        ]
        return [each for field in fields for each in field]
    return [(path, wanted.simpleString(), value.isNull() & seen.isNotNull())]


def _reader(contract: Contract) -> Reader:
    if contract.format == "json":
        return from_json
    return partial(read_csv, options=contract.csv, headers=contract.headers)


JSON_OPTIONS = {"enableDateTimeParsingFallback": "false"}
"""Options for both of Spark's JSON readers. By default they take the text of a number,
such as 20260131, for a number of days since 1970 where a date is wanted."""


def from_json(text: Column, schema: T.StructType) -> Column:
    """A JSON text parsed to a struct of this schema. What does not fit is NULL, and
    then the field `CORRUPT` has the text."""
    return F.from_json(
        text,
        schema,
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, **JSON_OPTIONS},
    )


def _without_headers(source: DataFrame, contract: Contract) -> DataFrame:
    """Only the lines that are records: without headers and blank lines of CSV."""
    names = [column.name for column in contract.columns]
    return source.where(
        F.col("value").isNull() | is_record(_text(), names, contract.csv)
    )


def _holds(contract: Contract, kind: type[T.DataType]) -> bool:
    """Whether a column is of this type, or has values of it nested within."""
    return any(
        isinstance(part, kind)
        for column in contract.columns
        for part in parts_of(column.type)
    )


def _text_type(contract: Contract) -> T.StructType:
    """The schema that Spark's text parsers are given.

    Its JSON parser makes the text of a number by way of a double, so a decimal is
    requested as a (wider) decimal there, and as text in other formats.
    """
    return _with_corrupt(
        contract, partial(_widened, decimal_as_text=contract.format != "json")
    )


def _with_corrupt(
    contract: Contract, change: Callable[[T.DataType], T.DataType]
) -> T.StructType:

    def is_text(column: ContractColumn) -> bool:
        return column.is_counted or contract.has_marks(column)

    fields = [
        T.StructField(
            column.name, T.StringType() if is_text(column) else change(column.type)
        )
        for column in contract.columns
    ]
    return T.StructType([*fields, T.StructField(CORRUPT, T.StringType())])


def as_text(wanted: T.DataType) -> T.DataType:
    """The type with text in place of every leaf type."""
    match wanted:
        case T.StructType(fields=fields):
            return T.StructType(
                [T.StructField(field.name, as_text(field.dataType)) for field in fields]
            )
        case T.ArrayType(elementType=element):
            return T.ArrayType(as_text(element))
        case T.MapType(valueType=element):
            return T.MapType(T.StringType(), as_text(element))
        case _:
            return T.StringType()


def _widened(wanted: T.DataType, decimal_as_text: bool) -> T.DataType:
    """The type to parse in place of a wanted one: an int for a tinyint, whose overflow
    Spark does not report, and a wider decimal, as Spark rounds off digits that do not
    fit."""
    match wanted:
        case T.ByteType():
            return T.IntegerType()
        case T.DecimalType():
            return T.StringType() if decimal_as_text else wider(wanted)
        case T.StructType(fields=fields):
            return T.StructType(
                [
                    T.StructField(f.name, _widened(f.dataType, decimal_as_text))
                    for f in fields
                ]
            )
        case T.ArrayType(elementType=element):
            return T.ArrayType(_widened(element, decimal_as_text))
        case T.MapType(keyType=key, valueType=element):
            return T.MapType(key, _widened(element, decimal_as_text))
        case _:
            return wanted


def _text() -> Column:
    return F.col("value").cast("string")


def _exists(items: Column, test: Callable[[Column], Column | None]) -> Column | None:
    """Whether the test holds for an item of the array; None if there is nothing to
    check for its type."""
    if test(F.lit(None)) is None:
        return None

    def holds(item: Column) -> Column:
        found = test(item)
        assert found is not None
        return F.coalesce(found, F.lit(False))

    return F.exists(items, holds)


def _any(conditions: Iterable[Column | None]) -> Column | None:
    known = [condition for condition in conditions if condition is not None]
    return any_of(known) if known else None
