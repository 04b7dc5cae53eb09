"""Writes `lakesql/schemas/*.json`: JSON Schemas of a project's YAML files and of
`[tool.lakesql]`, for editors.

They are made of the dataclasses that the files are decoded into. What a reader of its
own decides about a value, and no schema says, stands in `READ_AS`; a value that is
neither there nor plain is let through.
"""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from lakesql.decode import Field, fields_of
from lakesql.graph import named_selectors
from lakesql.lint.all_rules import MODULES
from lakesql.lint.lint_settings import LintSettings
from lakesql.model import data_tests, expectations, properties, unit_tests
from lakesql.modes.all_modes import all_modes, mode_words
from lakesql.project import profiles, settings
from lakesql.project.procedures import PROCEDURES, Maintenance
from lakesql.registry.connection import Registry
from lakesql.seed import seed_contract
from lakesql.source.kinds import CONNECTIONS
from lakesql.source.project import FOLDER
from lakesql.stream import source_table, stream

Schema = dict[str, Any]

FOLDER_OF_SCHEMAS = Path(__file__).parents[1] / "lakesql" / "schemas"

DRAFT = "http://json-schema.org/draft-07/schema#"
"""The draft that editors' servers for YAML and TOML know best."""


def render_schemas() -> dict[str, str]:
    """The text of each schema, by the name of its file."""
    made = {
        "properties.json": properties_schema(),
        "profiles.json": profiles_schema(),
        "selectors.json": selectors_schema(),
        "pyproject.json": pyproject_schema(),
    }
    return {
        name: json.dumps({"$schema": DRAFT, **schema}, indent=1) + "\n"
        for name, schema in made.items()
    }


def stale_schemas() -> dict[Path, str]:
    """The files whose text is not that of the schema, with what it is to be."""
    paths = {FOLDER_OF_SCHEMAS / name: text for name, text in render_schemas().items()}
    return {
        path: text
        for path, text in paths.items()
        if not path.exists() or path.read_text() != text
    }


# Files


def properties_schema() -> Schema:
    """A .yml file beside models, streams or seeds."""
    sections = {
        "models": object_of(properties.ModelProperties, leaves=("place",)),
        "streams": object_of(stream._StreamOptions),
        "unit_tests": object_of(unit_tests.UnitTest, leaves=("place",)),
        "seeds": object_of(seed_contract.SeedOptions, leaves=("place",)),
        "source_tables": object_of(source_table._SourceTableOptions),
    }
    found = _object(
        {
            name: {"type": ["array", "null"], "items": of}
            for name, of in sections.items()
        }
    )
    return {
        "title": "lakesql: models, streams, seeds and their tests",
        **found,
        "definitions": _definitions(),
    }


def profiles_schema() -> Schema:
    """profiles.yml, whose texts may be templates of `env_var`."""
    target = object_of(profiles.Target, leaves=("name", "registries"))
    outputs = {"type": "object", "additionalProperties": target}
    profile = _object(
        {"target": {"type": "string"}, "outputs": outputs}, required=["outputs"]
    )
    return {
        "title": "lakesql: targets",
        "type": "object",
        "additionalProperties": with_templates(profile),
    }


def selectors_schema() -> Schema:
    """selectors.yml."""
    entry = object_of(named_selectors._Definition, leaves=("place",))
    return {
        "title": "lakesql: selectors",
        **_object({"selectors": _array(entry)}, required=["selectors"]),
    }


def pyproject_schema() -> Schema:
    """pyproject.toml, of which `[tool.lakesql]` is described and all else let
    through."""
    lakesql = object_of(settings.Settings)
    lakesql["properties"]["models"] = {
        "type": "object",
        "description": _text(
            "Defaults of models: options, and folders or models with options of their own."
        ),
        "properties": model_defaults(),
    }
    lint = object_of(LintSettings)
    lakesql["properties"]["lint"] = lint
    return {
        "title": "pyproject.toml with [tool.lakesql]",
        "type": "object",
        "properties": {"tool": {"type": "object", "properties": {"lakesql": lakesql}}},
    }


def model_defaults() -> Schema:
    """The options of all modes. A folder may be called as one, so no value is
    refused."""
    found: Schema = {"mode": {"description": f"One of {', '.join(mode_words())}."}}
    for kind in all_modes():
        for field in fields_of(kind):
            found.setdefault(field.name, {"description": _text(field.doc)})
    return found


# Values


def object_of(kind: type, *, leaves: Collection[str] = ()) -> Schema:
    """The mapping that is decoded into a dataclass, but for the fields that it `leaves`
    to others."""
    made: Schema = {}
    required = []
    for field in fields_of(kind):
        if field.name in leaves or (
            not field.doc and field.name not in _own_readers(kind)
        ):
            continue
        made[field.name] = {**value_of(kind, field), "description": _text(field.doc)}
        required += [field.name] if field.required else []
    return _object(made, required=required)


def value_of(kind: type, field: Field) -> Schema:
    """The value of a field."""
    reader = _own_readers(kind).get(field.name)
    if reader is None:
        return typed(field.kind)
    special = READ_AS.get((kind.__name__.lstrip("_"), field.name))
    if special is not None:
        return special()
    return BY_READER.get(getattr(reader, "__name__", ""), dict)()


def _own_readers(kind: type) -> Mapping[str, Callable[..., Any] | None]:
    return {
        each.name.removesuffix("_"): each.metadata.get("read")
        for each in dataclasses.fields(kind)
    }


SCALARS: Mapping[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
}


def typed(kind: Any) -> Schema:
    """A value of an annotation, as `read_value` reads it."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in SCALARS:
        return {"type": SCALARS[kind]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        inner = next(each for each in arguments if each is not type(None))
        return (
            {"anyOf": [typed(inner), {"type": "null"}]}
            if type(None) in arguments
            else typed(inner)
        )
    if origin is tuple:
        return _one_or_more(typed(arguments[0]))
    if origin in (dict, Mapping, typing.get_origin(Mapping[str, str])):
        return {"type": "object", "additionalProperties": typed(arguments[1])}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return object_of(kind)
    return {}


def _object(made: Schema, *, required: Collection[str] = ()) -> Schema:
    found: Schema = {
        "type": "object",
        "properties": made,
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
    }
    return {**found, "required": sorted(required)} if required else found


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _one_or_more(items: Schema) -> Schema:
    return {"anyOf": [items, _array(items)]}


def _text(doc: str) -> str:
    """What the docs say, without links and marks of code."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", doc)


def with_templates(schema: Any) -> Any:
    """The schema in which a template may stand for whatever is no mapping and no
    list."""
    if isinstance(schema, list):
        return [with_templates(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: with_templates(value) if key != "enum" else value
        for key, value in schema.items()
    }
    is_leaf = "enum" in found or found.get("type") in ("integer", "number", "boolean")
    if not is_leaf:
        return found
    described = {key: found.pop(key) for key in ("description",) if key in found}
    return {"anyOf": [found, {"type": "string", "pattern": r"\{"}], **described}


def _text_value() -> Schema:
    return {"type": "string"}


def _scalar() -> Schema:
    return {"type": ["string", "number", "boolean"]}


def _options() -> Schema:
    return {"type": "object", "additionalProperties": _scalar()}


def _columns_of_stream() -> Schema:
    column = {"anyOf": [{"type": "string"}, object_of(stream._ColumnOptions)]}
    return {"type": "object", "additionalProperties": column}


def _columns_of_seed() -> Schema:
    column = {"anyOf": [{"type": "string"}, object_of(seed_contract.SeedColumnOptions)]}
    return {"type": "object", "additionalProperties": column}


def _columns_of_model() -> Schema:
    return _one_or_more({"$ref": "#/definitions/column"})


def _tests() -> Schema:
    return _one_or_more({"$ref": "#/definitions/test"})


def _definitions() -> Schema:
    """What several sections have."""
    beside = _object(
        _fields(data_tests.TestOptions) | _fields(data_tests.EntryOptions)
    )["properties"]
    beside |= {"arguments": {"type": "object"}, "config": {"type": "object"}}
    words: Schema = {}
    for word, kind in data_tests.TEST_KINDS:
        own = _object({**_fields(kind), **beside})
        shortened = (
            []
            if word not in data_tests._SHORT
            else [{"type": ["string", "array", "number", "boolean"]}]
        )
        words[word] = {
            "anyOf": [own, {"type": "null"}, *shortened],
            "description": _text(" ".join((kind.__doc__ or "").split())),
        }
    named = [word for word, _ in data_tests.TEST_KINDS]
    test = {
        "anyOf": [
            {"enum": named},
            {**_object({**words, **_beside_word(beside)}), "minProperties": 1},
        ]
    }
    return {"test": test, "column": object_of(properties.ColumnProperties)}


def _beside_word(beside: Schema) -> Schema:
    """What may stand beside the word of a test: its options, and as in dbt what it
    takes."""
    return {
        **{
            name: field
            for _, kind in data_tests.TEST_KINDS
            for name, field in _fields(kind).items()
        },
        **beside,
    }


def _fields(kind: type) -> Schema:
    properties_: Schema = object_of(kind)["properties"]
    return properties_


def _expected_of_model() -> Schema:
    return _one_or_more(object_of(expectations.ExpectThat, leaves=("place",)))


def _expected_of_column() -> Schema:
    not_null = object_of(expectations.ExpectNotNull, leaves=("place",))
    accepted = object_of(expectations.ExpectAcceptedValues, leaves=("place",))
    kinds = [
        {"const": "not_null"},
        _object(
            {"not_null": {"anyOf": [not_null, {"type": "null"}]}}, required=["not_null"]
        ),
        _object(
            {"accepted_values": {"anyOf": [accepted, {"type": "array"}]}},
            required=["accepted_values"],
        ),
        object_of(expectations.ExpectThat, leaves=("place",)),
    ]
    return _one_or_more({"anyOf": kinds})


def _given() -> Schema:
    kinds = (unit_tests.GivenTable, unit_tests.GivenStream, unit_tests.GivenRef)
    return _array({"anyOf": [object_of(kind, leaves=("place",)) for kind in kinds]})


def _rows() -> Schema:
    return {"type": ["array", "string"]}


def _maintenance() -> Schema:
    made = {
        name: value
        for name, value in _fields(Maintenance).items()
        if name not in PROCEDURES
    }
    for name, kind in PROCEDURES.items():
        of_procedure = _object(
            {field.name: {"description": _text(field.doc)} for field in fields_of(kind)}
        )
        made[name] = {"anyOf": [{"const": False}, of_procedure]}
    return {"anyOf": [{"const": False}, _object(made)]}


def _catalog() -> Schema:
    made = object_of(profiles.Catalog, leaves=("properties", "place"))
    return {**made, "additionalProperties": _scalar()}


def _connections() -> Schema:
    kinds = []
    for word, kind in (*CONNECTIONS.items(), (Registry.kind, Registry)):
        made = object_of(kind)
        made["properties"] = {"type": {"const": word}, **made["properties"]}
        made["required"] = sorted({*made.get("required", ()), "type"})
        kinds.append(made)
    own = {
        "type": "object",
        "properties": {"type": {"type": "string", "pattern": f"^{FOLDER}"}},
        "required": ["type"],
    }
    return {"type": "object", "additionalProperties": {"anyOf": [*kinds, own]}}


def _codes() -> Schema:
    return _one_or_more({"enum": sorted(MODULES)})


READ_AS: Mapping[tuple[str, str], Callable[[], Schema]] = {
    ("ModelProperties", "columns"): _columns_of_model,
    ("ModelProperties", "freshness"): lambda: object_of(properties.Freshness),
    ("ModelProperties", "watermark"): lambda: object_of(stream.Watermark),
    ("StreamOptions", "columns"): _columns_of_stream,
    ("StreamOptions", "max_per_batch"): lambda: {
        "anyOf": [{"type": "integer", "minimum": 1}, {"const": "unlimited"}]
    },
    ("SourceTableOptions", "columns"): _columns_of_stream,
    ("SourceTableOptions", "fields"): lambda: _array(
        object_of(source_table._FieldOptions)
    ),
    ("SeedOptions", "columns"): _columns_of_seed,
    ("UnitTest", "given"): _given,
    ("UnitTest", "expect"): lambda: object_of(unit_tests.Expect, leaves=("place",)),
    ("Overrides", "vars"): lambda: {"type": "object"},
    ("GivenStream", "batches"): lambda: {"type": "array"},
    ("GivenRef", "batches"): lambda: {"type": "array"},
    ("Expect", "batches"): lambda: _array(_rows()),
    ("TestOptions", "meta"): lambda: {"type": "object"},
    ("ModelProperties", "meta"): lambda: {"type": "object"},
    ("SeedOptions", "meta"): lambda: {"type": "object"},
    ("Target", "catalog"): _catalog,
    ("Target", "connections"): _connections,
    ("Target", "maintenance"): _maintenance,
    ("Target", "spark"): lambda: object_of(profiles.Spark, leaves=("places",)),
    ("Spark", "conf"): _options,
    ("Settings", "vars"): lambda: {"type": "object"},
    ("LintSettings", "select"): _codes,
    ("LintSettings", "ignore"): _codes,
    ("LintSettings", "ignore_in"): lambda: {
        "type": "object",
        "additionalProperties": _codes(),
    },
    ("Definition", "definition"): lambda: {"type": ["string", "object"]},
}
"""The values that a reader of their own reads, by the dataclass and the field."""

BY_READER: Mapping[str, Callable[[], Schema]] = {
    **dict.fromkeys(
        (
            "check_name",
            "check_model_name",
            "read_filled",
            "read_folder",
            "_read_folder",
        ),
        _text_value,
    ),
    **dict.fromkeys(
        ("parse_duration", "_read_interval", "_read_line", "_read_that", "_read_to"),
        _text_value,
    ),
    **dict.fromkeys(
        ("_read_condition", "_read_threshold", "_read_name", "_read_url"), _text_value
    ),
    **dict.fromkeys(("read_option_texts", "read_client_options"), _options),
    "read_positive": lambda: {"type": "integer", "minimum": 1},
    "read_tests": _tests,
    "read_model_expectations": _expected_of_model,
    "read_column_expectations": _expected_of_column,
    "_read_rows": _rows,
}
"""The same, by the reader's name, where many fields have it."""
