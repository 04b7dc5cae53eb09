"""Reads the fields of files from their schemas: the footers of Parquet and ORC files,
and the headers of Avro files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakesql.errors import UsageError, explain_missing
from lakesql.registry.avro import parse_avro
from lakesql.registry.schema_error import SchemaError
from lakesql.stream.avro_columns import avro_fields
from lakesql.stream.found_contract import TypedField
from lakesql.stream.seen_values import common_type
from lakesql.stream.types import field_name, parse_type
from lakesql.varints import read_varint

if TYPE_CHECKING:
    import pyarrow as pa


class UnreadTypeError(ValueError):
    """Raised for a field that no Spark type can read; the message completes a sentence
    that begins with the field's name."""


def merge_fields_of(
    files: Iterable[tuple[str, Sequence[TypedField]]],
) -> list[TypedField]:
    """The fields of all files, each with the type that reads it in all of them; the
    type is '' if there is none. A field is required only if it is in all files."""
    found: dict[str, TypedField] = {}
    places: dict[str, str] = {}
    total = 0
    times: dict[str, int] = {}
    for path, fields in files:
        total += 1
        for each in fields:
            known = found.get(each.name)
            times[each.name] = times.get(each.name, 0) + 1
            found[each.name] = (
                each if known is None else _merge(known, each, places[each.name], path)
            )
            places.setdefault(each.name, path)
    return [
        TypedField(
            each.name, each.type, each.why, each.required and times[each.name] == total
        )
        for each in found.values()
    ]


def _merge(known: TypedField, other: TypedField, place: str, path: str) -> TypedField:
    if not known.type or not other.type:
        return known if not known.type else other
    old, new = parse_type(known.type), parse_type(other.type)
    merged = common_type(old, new) if old is not None and new is not None else None
    if merged is None:
        return TypedField(
            known.name, "", f"it is {known.type} in {place} and {other.type} in {path}"
        )
    return TypedField(known.name, merged.text, "", known.required and other.required)


# --- Parquet


def parquet_file_fields(files: Sequence[Path]) -> list[TypedField]:
    """The fields of Parquet files. Raises `UsageError` (`no-samples`) if one is not a
    Parquet file."""
    return merge_fields_of((path.name, _parquet_fields(path)) for path in files)


def parquet_rows(files: Sequence[Path], rows: int) -> list[Mapping[str, Any]]:
    """The first rows of each Parquet file, about `rows` in all, with the columns that
    Python can represent."""
    parquet = _parquet()
    share = max(1, rows // max(1, len(files)))
    found: list[Mapping[str, Any]] = []
    for path in files:
        file = parquet.ParquetFile(path)
        batches = file.iter_batches(batch_size=share, columns=_plain_columns(file))
        found += [row for batch in islice(batches, 1) for row in batch.to_pylist()]
    return found


def _plain_columns(file: Any) -> list[str]:
    """The columns that can be a key or sequence: not nested, and no timestamps in
    nanoseconds, which Python cannot represent."""
    import pyarrow.types as kinds

    return [
        each.name
        for each in file.schema_arrow
        if not kinds.is_nested(each.type)
        and not (kinds.is_timestamp(each.type) and each.type.unit == "ns")
    ]


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise explain_missing(error) or error from None
    return pyarrow.parquet


def _parquet_fields(path: Path) -> list[TypedField]:
    parquet = _parquet()
    import pyarrow as pa

    try:
        file = parquet.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise UsageError.of(
            "no-samples", f"{path} is no Parquet file: {error}."
        ) from None
    columns = [file.schema.column(number) for number in range(len(file.schema))]
    ancient = frozenset(
        column.path for column in columns if column.physical_type == "INT96"
    )
    return [_parquet_field(each, ancient) for each in file.schema_arrow]


def _parquet_field(each: pa.Field, ancient: frozenset[str]) -> TypedField:
    try:
        kind = _arrow_type(each.type, each.name, ancient)
    except UnreadTypeError as error:
        return TypedField(each.name, "", str(error))
    return TypedField(each.name, kind, required=not each.nullable)


def _arrow_type(kind: pa.DataType, path: str, ancient: frozenset[str]) -> str:
    """The Spark type, as text, with which a Parquet field is read; `ancient` are the
    paths of 96-bit timestamps. Raises `UnreadTypeError`."""
    import pyarrow.types as kinds

    if kinds.is_dictionary(kind):
        return _arrow_type(kind.value_type, path, ancient)
    if (
        kinds.is_list(kind)
        or kinds.is_large_list(kind)
        or kinds.is_fixed_size_list(kind)
    ):
        return f"array<{_arrow_type(kind.value_type, f'{path}.list.element', ancient)}>"
    if kinds.is_map(kind):
        key = _arrow_type(kind.key_type, f"{path}.key_value.key", ancient)
        return f"map<{key},{_arrow_type(kind.item_type, f'{path}.key_value.value', ancient)}>"
    if kinds.is_struct(kind):
        return _arrow_struct(kind, path, ancient)
    if kinds.is_timestamp(kind):
        return (
            "timestamp" if kind.tz is not None or path in ancient else "timestamp_ntz"
        )
    if kinds.is_decimal(kind) and kind.precision <= 38:
        return f"decimal({kind.precision},{kind.scale})"
    name = str(kind)
    if name not in _ARROW:
        raise UnreadTypeError(f"it is {name}, which Spark reads as no type")
    return _ARROW[name]


_ARROW: Mapping[str, str] = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "string",
    "binary": "binary",
    "large_binary": "binary",
    "date32[day]": "date",
    "date64[ms]": "date",
}
"""Arrow's types, and the type with which Spark reads the Parquet type behind each."""


def _arrow_struct(kind: pa.DataType, path: str, ancient: frozenset[str]) -> str:
    parts = [
        f"{field_name(each.name)}:{_arrow_type(each.type, f'{path}.{each.name}', ancient)}"
        for each in (kind.field(number) for number in range(kind.num_fields))
    ]
    found = f"struct<{','.join(parts)}>"
    if not parts or parse_type(found) is None:
        raise UnreadTypeError("it is a struct with fields that no type can have")
    return found


# --- ORC


def orc_file_fields(files: Sequence[Path]) -> list[TypedField]:
    """The fields of ORC files. Raises `UsageError` (`no-samples`) if one is not an ORC
    file."""
    return merge_fields_of((path.name, _orc_fields(path)) for path in files)


def _orc_fields(path: Path) -> list[TypedField]:
    _parquet()
    import pyarrow as pa
    import pyarrow.orc

    try:
        schema = pyarrow.orc.ORCFile(path).schema
    except (pa.ArrowException, OSError) as error:
        raise UsageError.of("no-samples", f"{path} is no ORC file: {error}.") from None
    return [_orc_field(each) for each in schema]


def _orc_field(each: pa.Field) -> TypedField:
    """A field of an ORC file. ORC timestamps have no zone, and are read as UTC."""
    import pyarrow.types as kinds

    if kinds.is_timestamp(each.type):
        why = (
            ""
            if each.type.tz is None
            else "it has times of a local zone, which Spark does not read"
        )
        return TypedField(each.name, "" if why else "timestamp", why)
    return _parquet_field(each, frozenset())


# --- Avro


MAGIC = b"Obj\x01"
HEAD_BYTES = 4_000_000
"""How many bytes of a file are searched for its schema."""


def avro_file_fields(files: Sequence[Path]) -> list[TypedField]:
    """The fields of Avro files. Raises `UsageError` (`no-samples`) if one is not an
    Avro file of records."""
    return merge_fields_of((path.name, _avro_fields(path)) for path in files)


def _avro_fields(path: Path) -> list[TypedField]:
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    try:
        schema = parse_avro(_read_head(head)["avro.schema"].decode())
    except (SchemaError, RecursionError, ValueError, KeyError, IndexError):
        raise UsageError.of(
            "no-samples", f"{path} is no Avro file whose schema can be read."
        ) from None
    if schema.record is None:
        raise UsageError.of(
            "no-samples", f"{path} has values of type {schema.kind}, and no records."
        )
    return avro_fields(schema)


def _read_head(head: bytes) -> dict[str, bytes]:
    """The metadata in the header of an Avro file: a map in Avro's binary encoding
    (Avro's specification, object container files). Raises `ValueError` for other
    files."""
    if not head.startswith(MAGIC):
        raise ValueError("no Avro file")
    found: dict[str, bytes] = {}
    at = len(MAGIC)
    blocks, at = _read_long(head, at)
    while blocks:
        # a negative count is followed by the size of the block in bytes
        if blocks < 0:
            _, at = _read_long(head, at)
        for _ in range(abs(blocks)):
            key, at = _read_bytes(head, at)
            found[key.decode()], at = _read_bytes(head, at)
        blocks, at = _read_long(head, at)
    return found


def _read_bytes(head: bytes, at: int) -> tuple[bytes, int]:
    length, at = _read_long(head, at)
    if length < 0 or at + length > len(head):
        raise ValueError("cut short")
    return head[at : at + length], at + length


def _read_long(head: bytes, at: int) -> tuple[int, int]:
    """A zigzag-encoded integer of variable length, and the offset after it."""
    value, at = read_varint(head, at)
    return (value >> 1) ^ -(value & 1), at
