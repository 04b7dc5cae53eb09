"""The schema that a topic's records are read with: the contract's columns, found in the
writers' schemas. Pure."""

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
"""Whether what the second schema has written can be read by the first."""


@dataclass(frozen=True, slots=True)
class ReaderGroup:
    """Writers, by their ids, whose records are read with one schema."""

    reader: str
    writers: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Readers:
    """How the records of each id are read, and why those of some ids are not; `absent`
    are columns, and fields in them, that no schema has."""

    groups: tuple[ReaderGroup, ...] = ()
    unusable: tuple[tuple[int, str], ...] = ()
    absent: tuple[str, ...] = ()


def make_readers(
    schemas: StreamSchemas, columns: Columns, resolves: Resolves
) -> Readers:
    """A reader for all writers that go with the newest schema, and one each for those
    that do not.

    Avro fills in the reader's defaults, follows its aliases and promotes numbers, as
    its specification says. A writer whose records the reader could not hold (a number
    that has become smaller, a symbol or a field that was removed) is read as itself,
    and its values become the contract's as those of any other type do.
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
    """A reader, the columns and fields that it could not find, and the names that each
    column has in schemas."""

    text: str = ""
    absent: list[str] = field(default_factory=list)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    count: int = 0


def _usable(each: Registered) -> Avro | str:
    """The schema, or why records written with it cannot be read."""
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
    """Whether the common reader has each field that the writer has, and each by one
    name."""
    record = writer.record
    assert record is not None
    own = {each["name"] for each in record["fields"]}
    if any(len(own.intersection(names)) > 1 for names in common.names.values()):
        return False
    return set(common.absent) <= set(_make(writer, [writer], columns).absent)


def _make(
    base: Avro, others: Sequence[Avro], columns: Columns, is_shared: bool = False
) -> _MadeReader:
    """A reader of the columns, as `base` has them; one that it lacks is as the first of
    `others` has it.

    Where it `is_shared` by writers, it knows each column by all of its names; else by
    the one that `base` has for it.
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
    """What the schemas call a column otherwise. A field that has its name is the
    column, whatever aliases say."""
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
    """The field of a record that is the column: by its name, by another one of it, by
    its name in other capitals."""
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
    """A field of the reader; one that a writer lacks has its default, or is NULL."""
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
    """The type of a node, with those fields of its records alone that are wanted; all
    where that is no struct.

    Each record is defined anew where it stands, as others may want other fields of it.
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
        # Not with its default, which would stand for a symbol that the reader does not
        # know.
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
