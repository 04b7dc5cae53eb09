"""How a topic's Protobuf records are read: where the fields of the contract's columns
are in the messages of each writer's schema. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import types as T

from lakesql.engine.records.proto_decode import (
    MESSAGE,
    Many,
    Mapped,
    Plan,
    ReadAlike,
    Record,
    Shape,
    Symbol,
    Value,
    Wrapped,
    Writer,
    prefixes,
    reference,
)
from lakesql.registry.connection import Wire
from lakesql.registry.proto_schema import (
    NUMBERS,
    ProtoField,
    ProtoMessage,
    ProtoSchema,
    find_message,
    parse_proto,
)
from lakesql.registry.proto_types import DURATION, JSON, TIMESTAMP, WRAPPERS, check_held
from lakesql.registry.registered import Registered, say_schema
from lakesql.registry.schema_error import SchemaError
from lakesql.registry.schemas import StreamSchemas

Columns = Sequence[tuple[str, T.DataType]]


@dataclass(frozen=True, slots=True)
class ProtoReaders:
    """How the records of each schema id are read. `types` has, for each group of
    `plan`, the type that it reads. `unusable` has the ids whose records cannot be read,
    each with the reason. `absent` are the columns, and fields in them, that no schema
    has."""

    plan: Plan
    types: tuple[T.StructType, ...] = ()
    unusable: tuple[tuple[int, str], ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _KnownMessage:
    """A message with the schema that defines it."""

    schema: ProtoSchema
    message: ProtoMessage

    def within(self, found: ProtoField) -> _KnownMessage | None:
        """The message in a field of this one; None if the field holds no message."""
        message = self.schema.messages.get(found.of)
        return None if message is None else _KnownMessage(self.schema, message)


def make_proto_readers(schemas: StreamSchemas, columns: Columns) -> ProtoReaders:
    """The readers of a topic's records: one for each group of writers that encode the
    columns in the same way.

    A field is identified by its number: the same number with another name in the newest
    schema is the same field. It is read with the type in the writer's schema, which
    determines the encoding, and its values are converted to the contract's types like
    those of any other type. A field that the writer's schema lacks is read as the
    newest schema declares it, so that it has Protobuf's default.
    """
    unusable = dict.fromkeys(schemas.missing, "is not in the registry")
    usable: dict[int, ProtoSchema] = {}
    for each in schemas.by_newness():
        found = _usable(each)
        if isinstance(found, str):
            unusable[each.id] = found
        else:
            usable[each.id] = found
    reads = next(
        (
            name
            for each in usable.values()
            if (name := find_message(each, schemas.message))
        ),
        "",
    )
    path = next(
        (path for each in usable.values() if (path := each.path_of(reads)) is not None),
        (0,),
    )
    known: dict[int, _KnownMessage] = {}
    for id_, schema in usable.items():
        name = (
            reads if schema.path_of(reads) is not None else schema.paths.get(path, "")
        )
        if not name or (schemas.message and name != reads):
            unusable[id_] = f"has no message {schemas.message or reads or 'at all'}"
        else:
            known[id_] = _KnownMessage(schema, schema.messages[name])
    return _group(schemas.wire, reads, known, columns, unusable)


def _usable(each: Registered) -> ProtoSchema | str:
    """The parsed schema, or why records written with it cannot be read."""
    if each.kind != "PROTOBUF":
        return f"is a schema of {each.kind}, not of Protobuf"
    try:
        return parse_proto(each.text, each.files)
    except (SchemaError, RecursionError) as error:
        return f"has a schema that cannot be read: {error}"


def _group(
    wire: Wire,
    reads: str,
    known: dict[int, _KnownMessage],
    columns: Columns,
    unusable: dict[int, str],
) -> ProtoReaders:
    groups: dict[ReadAlike, T.StructType] = {}
    writers: dict[int, Writer] = {}
    absent: set[str] = set()
    bases = tuple(known.values())
    for id_, own in known.items():
        made = _MadeFile()
        record, kind = _read_record(columns, bases, own, made, (), "")[1:]
        group = ReadAlike(made.file(), record)
        groups.setdefault(group, kind)
        number = [*groups].index(group)
        writers[id_] = _writer(wire, number, say_schema(id_), own)
        absent = set(made.absent)
    plan = Plan(_SKIP[wire], reads, tuple(groups), writers)
    return ProtoReaders(
        plan,
        tuple(groups.values()),
        tuple(sorted(unusable.items())),
        tuple(sorted(absent)),
    )


_SKIP: dict[Wire, int] = {"confluent": 5, "apicurio": 9, "apicurio_headers": 0}
"""The number of bytes before those that name the message."""


def _writer(wire: Wire, group: int, schema: str, own: _KnownMessage) -> Writer:
    """A writer, with the bytes that may precede its messages: Confluent's serializers
    write the message's path, Apicurio's its name or nothing."""
    mine: list[bytes] = []
    others: list[tuple[bytes, str]] = []
    for path, name in own.schema.paths.items():
        before = [*(prefixes(path) if wire == "confluent" else ())]
        if len(path) == 1 and (said := reference(name.rpartition(".")[2])):
            before.insert(0, said)
        if name == own.message.name:
            mine += before
        else:
            others += ((each, name) for each in before)
    return Writer(
        group, schema, tuple(mine), tuple(others), may_be_bare=wire != "confluent"
    )


@dataclass(slots=True)
class _MadeFile:
    """The messages of a reader under construction, and the columns and fields that no
    schema has."""

    messages: list[Any] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)

    def message(self) -> Any:
        """A new message with a unique name, added to the file."""
        from google.protobuf.descriptor_pb2 import DescriptorProto

        made = DescriptorProto(name=f"{MESSAGE[0]}{len(self.messages)}")
        self.messages.append(made)
        return made

    def file(self) -> bytes:
        """The serialized descriptor of a file with all messages."""
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        made = FileDescriptorProto(
            name="lakesql_reader.proto", syntax="proto3", message_type=self.messages
        )
        return bytes(made.SerializeToString(deterministic=True))


def _read_record(
    columns: Iterable[tuple[str, T.DataType | None]],
    bases: tuple[_KnownMessage, ...],
    own: _KnownMessage | None,
    made: _MadeFile,
    inside: tuple[str, ...],
    path: str,
) -> tuple[str, Record, T.StructType]:
    """The name of a new message that reads these columns, its shape, and the type that
    it becomes.

    `bases` are the message in all schemas, the newest first, and `own` is the writer's.
    `inside` are the messages around it.
    """
    message = made.message()
    taken: set[int] = set()
    fields: list[tuple[str, str, Shape, Any]] = []
    types = []
    for name, wanted in columns:
        at = f"{path}.{name}" if path else name
        entry = next(
            (found for each in bases if (found := each.message.of_name(name))), None
        )
        if entry is None:
            made.absent.append(at)
        source = None if entry is None else _source(entry, bases, own)
        if entry is None or source is None or source.field.number in taken:
            fields.append((name, "", Value("nothing"), None))
            types.append(T.StructField(name, T.StringType()))
            continue
        reading = _ReadField(
            entry,
            source,
            _below(entry, bases),
            _names_of(entry, bases),
            made,
            inside,
            at,
        )
        taken.add(source.field.number)
        shape, kind = _read_field(message, reading, wanted)
        default = entry.default if source.field.kind == entry.kind else None
        fields.append((name, f"f{source.field.number}", shape, default))
        types.append(T.StructField(name, kind))
    return message.name, Record(tuple(fields)), T.StructType(types)


@dataclass(frozen=True, slots=True)
class _WrittenField:
    """The field that a column is read from, the schema that defines it, and the
    writer's version of the message in it (`below`), if any."""

    field: ProtoField
    schema: ProtoSchema
    below: _KnownMessage | None


def _source(
    entry: ProtoField, bases: tuple[_KnownMessage, ...], own: _KnownMessage | None
) -> _WrittenField | None:
    """The field to read for `entry`, as the writer's schema has it; None if the writer
    uses its number for another field."""
    if own is None:
        return _newest_source(entry, bases)
    by_number = own.message.of_number(entry.number)
    if by_number is not None and _is_same(by_number, entry):
        return _WrittenField(by_number, own.schema, own.within(by_number))
    by_name = next(
        (each for each in own.message.fields if each.name == entry.name), None
    )
    if by_name is not None and not _is_taken(by_name, bases[0].message):
        return _WrittenField(by_name, own.schema, own.within(by_name))
    return None if by_number is not None else _newest_source(entry, bases)


def _newest_source(
    entry: ProtoField, bases: tuple[_KnownMessage, ...]
) -> _WrittenField:
    """The field as the newest schema that has it declares it."""
    base = next(each for each in bases if entry in each.message.fields)
    return _WrittenField(entry, base.schema, None)


def _is_same(written: ProtoField, entry: ProtoField) -> bool:
    """Whether two fields with the same number are the same field, perhaps renamed;
    otherwise the number was reused."""
    return written.name == entry.name or _family(written) == _family(entry)


def _is_taken(written: ProtoField, newest: ProtoMessage) -> bool:
    """Whether the newest schema has this field under another name."""
    found = newest.of_number(written.number)
    return found is not None and found.name != written.name and _is_same(written, found)


def _family(field: ProtoField) -> str:
    if field.kind in ("string", "bytes"):
        return "text"
    return field.kind if field.kind in ("message", "group") else "number"


def _below(
    entry: ProtoField, bases: tuple[_KnownMessage, ...]
) -> tuple[_KnownMessage, ...]:
    """The message in a field, as each schema that has the field declares it."""
    found = ((each, each.message.of_number(entry.number)) for each in bases)
    below = (
        known.within(field)
        for known, field in found
        if field is not None and _is_same(field, entry)
    )
    return tuple(each for each in below if each is not None)


@dataclass(frozen=True, slots=True)
class _ReadField:
    """A field to be read: `entry` as the newest schema has it, `source` as the writer
    has it. `bases` are the versions of the message in it, `names` the names of its
    enum's numbers, `inside` the messages around it, and `path` is its place in the
    record."""

    entry: ProtoField
    source: _WrittenField
    bases: tuple[_KnownMessage, ...]
    names: Mapping[int, str]
    made: _MadeFile
    inside: tuple[str, ...]
    path: str


def _read_field(
    message: Any, reading: _ReadField, wanted: T.DataType | None
) -> tuple[Shape, T.DataType]:
    """The shape of a field and the type that it becomes. Adds the field to the reader's
    message."""
    source, entry = reading.source.field, reading.entry
    below = reading.source.schema.messages.get(source.of)
    is_repeated = (
        source.is_repeated or entry.is_repeated or isinstance(wanted, T.ArrayType)
    )
    added = message.field.add(
        name=f"f{source.number}", number=source.number, label=3 if is_repeated else 1
    )
    if below is not None and below.is_entry:
        return _read_map(message, added, below, reading, wanted)
    element = wanted.elementType if isinstance(wanted, T.ArrayType) else wanted
    shape, kind = _read_single(
        added, reading, source, None if is_repeated and element is wanted else element
    )
    if is_repeated:
        return _many(shape), T.ArrayType(kind)
    if entry.has_presence and added.type != _MESSAGE:
        added.proto3_optional = True
        added.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_f{source.number}")
    return shape, kind


_MESSAGE = NUMBERS["message"]


def _many(shape: Shape) -> Shape:
    return shape if shape == Value() else Many(shape)


def _read_map(
    message: Any,
    added: Any,
    entry: ProtoMessage,
    reading: _ReadField,
    wanted: T.DataType | None,
) -> tuple[Shape, T.DataType]:
    """The shape of a map and the type that it becomes. Adds its entry as a message
    nested in the reader's message."""
    made = message.nested_type.add(name=f"F{added.number}Entry")
    made.options.map_entry = True
    added.type, added.type_name = _MESSAGE, f".{message.name}.{made.name}"
    wanted_value = wanted.valueType if isinstance(wanted, T.MapType) else None
    shapes, types = [], []
    for each, type_of in zip(entry.fields, (None, wanted_value), strict=True):
        part = made.field.add(name=each.name, number=each.number, label=1)
        below = reading.source.schema.messages.get(each.of)
        known = None if below is None else _KnownMessage(reading.source.schema, below)
        bases = tuple(
            found
            for base in reading.bases
            if (found := _value_of(base, each.number)) is not None
        )
        at = f"{reading.path}.{each.name}"
        source, names = (
            _WrittenField(each, reading.source.schema, known),
            _names_of(each, reading.bases),
        )
        single = _ReadField(
            each, source, bases, names, reading.made, reading.inside, at
        )
        shape, kind = _read_single(part, single, each, type_of)
        shapes.append(shape)
        types.append(kind)
    key_type: Any = ""
    if isinstance(wanted, T.MapType) and wanted.keyType != types[0]:
        key_type = _KEY_TYPES.get(wanted.keyType.simpleString(), "")
        types[0] = wanted.keyType if key_type else types[0]
    return Mapped(shapes[0], shapes[1], key_type), T.MapType(types[0], types[1])


_KEY_TYPES = {"string": "string", "bigint": "int64"}
"""The types to which the keys of a map can be converted, with Arrow's names."""


def _value_of(base: _KnownMessage, number: int) -> _KnownMessage | None:
    """The message in this field of a map's entry; None if `base` is no entry, or the
    field holds no message."""
    found = base.message.of_number(number) if base.message.is_entry else None
    return None if found is None else base.within(found)


_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)

_TYPES = {
    "double": T.DoubleType(),
    "float": T.FloatType(),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), T.IntegerType()),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), T.LongType()),
    "bool": T.BooleanType(),
    "string": T.StringType(),
    "bytes": T.BinaryType(),
}
"""The types of values that need no conversion."""


def _read_single(
    added: Any, reading: _ReadField, source: ProtoField, wanted: T.DataType | None
) -> tuple[Shape, T.DataType]:
    """The shape of one value of a field and the type that it becomes. Sets the type of
    `added`, the reader's field."""
    if source.kind in ("message", "group"):
        return _read_message(added, reading, source, wanted)
    if source.kind != "enum":
        added.type = NUMBERS[source.kind]
        return _read_scalar(source.kind, reading.path, wanted)
    added.type = NUMBERS["int32"]  # whose numbers are seen that no name stands for
    if isinstance(wanted, _INTEGERS):
        return Value(), T.IntegerType()
    names = {**reading.source.schema.enums[source.of], **reading.names}
    return Symbol(reading.path, source.of, tuple(sorted(names.items()))), T.StringType()


def _read_scalar(
    kind: str, path: str, wanted: T.DataType | None
) -> tuple[Shape, T.DataType]:
    if kind in _TYPES:
        return Value(), _TYPES[kind]
    if kind in ("uint32", "fixed32") or isinstance(wanted, T.LongType):
        return Value("int64", path), T.LongType()
    return Value("decimal", path), T.DecimalType(20, 0)


def _names_of(entry: ProtoField, bases: Iterable[_KnownMessage]) -> dict[int, str]:
    """The names of an enum's numbers in all schemas; of several names for a number, the
    newest. `bases` are the messages with the field."""
    names: dict[int, str] = {}
    for each in bases:
        found = each.message.of_number(entry.number)
        for number, name in (
            each.schema.enums.get(found.of, {}).items() if found is not None else ()
        ):
            names.setdefault(number, name)
    return names


def _read_message(
    added: Any, reading: _ReadField, source: ProtoField, wanted: T.DataType | None
) -> tuple[Shape, T.DataType]:
    own = reading.source.schema.messages[source.of]
    if source.kind == "message" and not isinstance(wanted, T.StructType):
        if source.of in JSON:
            added.type = NUMBERS["bytes"]
            return Value("json", reading.path, source.of), T.StringType()
        if (known := _read_known(added, reading, source)) is not None:
            return known
    bases = reading.bases or (_KnownMessage(reading.source.schema, own),)
    if isinstance(wanted, T.StructType):
        check_held(source, None, (), reading.path)
        columns: list[tuple[str, T.DataType | None]] = [
            (each.name, each.dataType) for each in wanted.fields
        ]
        inside = reading.inside
    else:
        check_held(source, bases[0].message, reading.inside, reading.path)
        columns = [(each.name, None) for each in bases[0].message.fields]
        inside = (*reading.inside, bases[0].message.name)
    name, record, kind = _read_record(
        columns, bases, reading.source.below, reading.made, inside, reading.path
    )
    added.type, added.type_name = _MESSAGE, f".{name}"
    return record, kind


def _read_known(
    added: Any, reading: _ReadField, source: ProtoField
) -> tuple[Shape, T.DataType] | None:
    """The shape and type of one of Protobuf's well-known messages; None if the message
    is none."""
    fields: tuple[tuple[str, str], ...]
    if source.of in (TIMESTAMP, DURATION):
        fields = (("seconds", "int64"), ("nanos", "int32"))
    elif source.of in WRAPPERS:
        fields = (("value", WRAPPERS[source.of]),)
    else:
        return None
    message = reading.made.message()
    for number, (name, kind) in enumerate(fields, 1):
        message.field.add(name=name, number=number, label=1, type=NUMBERS[kind])
    added.type, added.type_name = _MESSAGE, f".{message.name}"
    if source.of == TIMESTAMP:
        return Value("time", reading.path), T.TimestampType()
    if source.of == DURATION:
        return Value("seconds", reading.path), T.DecimalType(21, 9)
    inner, type_of = _read_scalar(WRAPPERS[source.of], reading.path, None)
    return Wrapped(inner), type_of
