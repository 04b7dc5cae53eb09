"""Which Avro schema a topic's records are read with: where the contract's columns are
in the schemas of the writers. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import types as T

from lakesql.registry.avro import Avro, parse_avro
from lakesql.registry.registered import Registered
from lakesql.registry.schema_error import NoColumnError, SchemaError
from lakesql.registry.schemas import StreamSchemas

Columns = Sequence[tuple[str, T.DataType]]
Resolves = Callable[[str, str], bool]
"""Whether records written with the second schema can be read with the first."""


@dataclass(frozen=True, slots=True)
class ReaderGroup:
    """The writers, by their ids, whose records are read with the same schema."""

    reader: str
    writers: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Readers:
    """How the records of each schema id are read. `unusable` has the ids whose records
    cannot be read, each with the reason. `absent` are the columns, and fields in them,
    that no schema has."""

    groups: tuple[ReaderGroup, ...] = ()
    unusable: tuple[tuple[int, str], ...] = ()
    absent: tuple[str, ...] = ()


def make_readers(
    schemas: StreamSchemas, columns: Columns, resolves: Resolves
) -> Readers:
    """The readers of a topic's records: one for all writers that are compatible with
    the newest schema, and one for each other writer.

    Avro fills in the reader's defaults, follows its aliases and promotes numbers, as
    its specification says. A writer with values that the common reader could not hold
    (a larger number type, a symbol or a field that was removed since) is read with its
    own schema, and its values are converted to the contract's types like those of any
    other type.
    """
    unusable = dict.fromkeys(schemas.missing, "is not in the registry")
    writers: dict[int, Avro] = {}
    for each in schemas.by_newness():
        found = _usable(each)
        if isinstance(found, str):
            unusable[each.id] = found
        else:
            writers[each.id] = found
    if not writers:
        return Readers((), tuple(sorted(unusable.items())))
    others = [*writers.values()]
    common = _make(others[0], others, columns, is_shared=True)
    shared: list[tuple[int, str]] = []
    alone: list[ReaderGroup] = []
    for id_, writer in writers.items():
        text = writer.text()
        if _is_held(writer, common, columns) and resolves(common.text, text):
            shared.append((id_, text))
        else:
            alone.append(
                ReaderGroup(
                    _make(writer, [writer, *others], columns).text, ((id_, text),)
                )
            )
    groups = [ReaderGroup(common.text, tuple(shared)), *alone] if shared else alone
    absent = set(common.absent).intersection(
        *(_make(each, [each], columns).absent for each in others)
    )
    return Readers(
        tuple(groups), tuple(sorted(unusable.items())), tuple(sorted(absent))
    )


@dataclass(slots=True)
class _MadeReader:
    """A reader under construction: its schema as JSON, the columns and fields that no
    schema has, and the names of each column in the schemas."""

    text: str = ""
    absent: list[str] = field(default_factory=list)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    count: int = 0


def _usable(each: Registered) -> Avro | str:
    """The parsed schema, or why records written with it cannot be read."""
    if each.kind != "AVRO":
        return f"is a schema of {each.kind}, not of Avro"
    try:
        schema = parse_avro(each.text)
    except (SchemaError, RecursionError) as error:
        return f"has a schema that cannot be read: {error}"
    return (
        schema
        if schema.record is not None
        else f"is the schema of a {schema.kind}, not of a record"
    )


def _is_held(writer: Avro, common: _MadeReader, columns: Columns) -> bool:
    """Whether the common reader has each wanted field of the writer, and the writer has
    each under one name only."""
    record = writer.record
    assert record is not None
    own = {each["name"] for each in record["fields"]}
    if any(len(own.intersection(names)) > 1 for names in common.names.values()):
        return False
    return set(common.absent) <= set(_make(writer, [writer], columns).absent)


def _make(
    base: Avro, others: Sequence[Avro], columns: Columns, is_shared: bool = False
) -> _MadeReader:
    """A reader of the columns as `base` declares them; a column that `base` lacks is
    declared as in the first of `others` that has it.

    If it `is_shared` by several writers, it knows all names of each column; else only
    the name in `base`.
    """
    made = _MadeReader()
    fields = []
    for name, wanted in columns:
        aliases = _aliases(name, others)
        found = next(
            (
                (it, schema)
                for schema in (base, *others)
                if (it := _find(name, aliases, schema))
            ),
            None,
        )
        if found is None:
            made.absent.append(name)
            fields.append(_nothing(name))
            continue
        (entry, schema) = found
        made.names[name] = (name, *_other_names(name, (entry["name"], *aliases)))
        called = aliases if is_shared else ()
        fields.append(
            _field(
                name,
                entry,
                _other_names(name, (entry["name"], *called)),
                wanted,
                schema,
                made,
                name,
            )
        )
    record = base.record
    assert record is not None
    made.text = json.dumps(
        {
            "type": "record",
            "name": record["name"],
            "namespace": record["namespace"],
            "fields": fields,
        },
        ensure_ascii=False,
    )
    return made


def _other_names(name: str, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(each for each in dict.fromkeys(names) if each != name)


def _aliases(name: str, schemas: Sequence[Avro]) -> tuple[str, ...]:
    """The other names that the schemas have for a column, by their aliases. In a schema
    that has a field of the column's own name, that field is the column, whatever other
    fields' aliases are."""
    found: list[str] = []
    for schema in schemas:
        record = schema.record
        assert record is not None
        exact = next((each for each in record["fields"] if each["name"] == name), None)
        if exact is not None:
            found += exact.get("aliases", ())
            continue
        for each in record["fields"]:
            if name in each.get("aliases", ()):
                found += [each["name"], *each["aliases"]]
    return _other_names(name, found)


def _find(name: str, aliases: Sequence[str], schema: Avro) -> Mapping[str, Any] | None:
    """The field of a record for a column: by the column's name, by one of its aliases,
    or by its name in another case. None if there is none."""
    record = schema.record
    assert record is not None
    by_name = {each["name"]: each for each in record["fields"]}
    for known in (name, *aliases):
        if known in by_name:
            return by_name[known]  # type: ignore[no-any-return]
    return _in_other_capitals(name, record["fields"])


def _in_other_capitals(
    name: str, fields: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    found = [each for each in fields if each["name"].lower() == name.lower()]
    return found[0] if len(found) == 1 else None


def _nothing(name: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", "string"], "default": None}


def _field(
    name: str,
    entry: Mapping[str, Any],
    aliases: Sequence[str],
    wanted: T.DataType | None,
    schema: Avro,
    made: _MadeReader,
    path: str,
) -> dict[str, Any]:
    """A field of the reader. If a writer lacks it, it has its declared default, or
    NULL."""
    kind = _type(entry["type"], wanted, schema, made, path)
    named = {"name": name, "aliases": list(aliases)} if aliases else {"name": name}
    if "default" in entry and entry["default"] is not None:
        return {**named, "type": kind, "default": entry["default"]}
    branches = kind if isinstance(kind, list) else [kind]
    return {
        **named,
        "type": ["null", *(each for each in branches if each != "null")],
        "default": None,
    }


def _type(
    node: Any,
    wanted: T.DataType | None,
    schema: Avro,
    made: _MadeReader,
    path: str,
    inside: tuple[str, ...] = (),
) -> Any:
    """The type of a node for the reader. Its records have only the wanted fields if
    `wanted` is a struct; else all.

    Each record gets a new definition at each place, as other places may want other
    fields of it.
    """
    if isinstance(node, list):
        return [_type(each, wanted, schema, made, path, inside) for each in node]
    if not isinstance(node, dict):
        return node
    if "ref" in node:
        return _named(node["ref"], wanted, schema, made, path, inside)
    if node["type"] == "array":
        element = wanted.elementType if isinstance(wanted, T.ArrayType) else None
        return {
            "type": "array",
            "items": _type(node["items"], element, schema, made, path, inside),
        }
    if node["type"] == "map":
        value = wanted.valueType if isinstance(wanted, T.MapType) else None
        return {
            "type": "map",
            "values": _type(node["values"], value, schema, made, path, inside),
        }
    return node


def _named(
    full: str,
    wanted: T.DataType | None,
    schema: Avro,
    made: _MadeReader,
    path: str,
    inside: tuple[str, ...],
) -> Any:
    found = schema.names[full]
    if found["type"] in ("enum", "fixed"):
        if full in made.defined:
            return full
        made.defined.add(full)
        # without its default, which would replace a symbol that the reader does not
        # know
        return {key: value for key, value in found.items() if key != "default"}
    if full in inside:
        raise NoColumnError(path, f"is of type {full}, which holds itself")
    made.count += 1
    own = {
        "type": "record",
        "name": found["name"],
        "namespace": f"_lakesql.r{made.count}",
    }
    if not isinstance(wanted, T.StructType):
        below = [
            {
                **each,
                "type": _type(
                    each["type"],
                    None,
                    schema,
                    made,
                    f"{path}.{each['name']}",
                    (*inside, full),
                ),
            }
            for each in found["fields"]
        ]
        return {**own, "fields": below}
    fields = []
    for each in wanted.fields:
        entry = _find(each.name, (), Avro({"ref": full}, schema.names))
        at = f"{path}.{each.name}"
        if entry is None:
            made.absent.append(at)
            fields.append(_nothing(each.name))
            continue
        aliases = [
            it for it in (entry["name"], *entry.get("aliases", ())) if it != each.name
        ]
        fields.append(
            _field(each.name, entry, aliases, each.dataType, schema, made, at)
        )
    return {**own, "fields": fields}
