"""Takes samples of a topic's records: their rows, or the rows in their change events,
and the format of the values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lakesql.counts import count
from lakesql.errors import UsageError
from lakesql.registry.avro import Avro, parse_avro
from lakesql.registry.connect_schema import connect_schema
from lakesql.registry.connection import Registry, Wire
from lakesql.registry.registry_client import fetch_schema
from lakesql.registry.schema_error import SchemaError
from lakesql.run.samples.sample_files import Samples, csv_settings, samples_of
from lakesql.stream.avro_columns import avro_fields
from lakesql.stream.change_samples import fields_of_feed, rows_of
from lakesql.stream.contract_text import Setting
from lakesql.stream.csv_dialect import find_dialect, read_rows
from lakesql.stream.feed_schema import schema_fields
from lakesql.stream.json_samples import parse_value
from lakesql.stream.record_ids import body_of, written_id
from lakesql.stream.recording import RawRecord

WIRE: Wire = "confluent"
"""The framing with which schema ids are looked for in the values of an unknown
topic."""


@dataclass(frozen=True, slots=True)
class NamedRegistry:
    """A registry, and the name of its connection."""

    name: str
    registry: Registry


def sample_records(
    records: Sequence[RawRecord], format_: str, registry: NamedRegistry | None
) -> Samples:
    """A sample of a topic's records, given oldest first. Raises `UsageError`
    (`no-samples`) for values in a form that cannot be sampled, and what asking a
    registry raises."""
    valued = [each for each in records if each.value]
    notes = []
    if len(valued) < len(records):
        notes.append(f"{count(len(records) - len(valued), 'record')} had no value")
    if format_ == "csv":
        found = _sample_lines(valued)
    elif sum(map(_is_framed, valued)) * 2 > len(valued):
        found = _sample_framed([each for each in valued if _is_framed(each)], registry)
    else:
        found = _sample_documents(valued, {})
    return replace(found, notes=(*notes, *found.notes))


def _is_framed(record: RawRecord) -> bool:
    return written_id(WIRE, "value", record) is not None and bool(
        body_of(WIRE, "value", record)
    )


def _sample_documents(
    records: Sequence[RawRecord], settings: Mapping[str, Setting]
) -> Samples:
    """A sample of JSON values: documents, or Debezium's change events if most of them
    are."""
    parsed = [(record, parse_value(record.value)) for record in records]
    documents = [
        (parse_value(record.key), value)
        for record, value in parsed
        if isinstance(value, dict)
    ]
    bad = [
        f"offset {record.offset} of partition {record.partition} is no JSON object"
        for record, value in parsed
        if not isinstance(value, dict)
    ]
    if records and not documents:
        what = "The values of these records are no JSON objects."
        fix = "If they are CSV, say --format csv. Text and bytes are one column: `format: string`, or `bytes`."
        raise UsageError.of("no-samples", what, fix=fix)
    return samples_of(rows_of(documents), settings, bad)


# --- values that begin with a schema id


def _sample_framed(
    records: Sequence[RawRecord], registry: NamedRegistry | None
) -> Samples:
    bodies = [replace(each, value=body_of(WIRE, "value", each)) for each in records]
    if all((each.value or b"").lstrip()[:1] == b"{" for each in bodies):
        return _sample_documents(bodies, {"format": "json_schema"})
    if registry is None:
        what = "The values name schemas of a registry, and the target has no connection of type `registry`, or several."
        fix = "Add one to `connections`: `schemas: {type: registry, url: …}`; of several say which: --registry schemas."
        raise UsageError.of("no-samples", what, fix=fix)
    newest = max(written_id(WIRE, "value", each) or 0 for each in records)
    schema = _fetch(registry, newest)
    settings: dict[str, Setting] = {"format": "avro", "registry": registry.name}
    notes = (f"the columns are those of the schema {newest} of the registry",)
    if fields := schema_fields({"schema": json.loads(connect_schema(schema))}):
        settings["envelope"] = "debezium"
        return Samples(
            settings,
            (),
            fields_of_feed(fields),
            keys=[],
            notes=notes,
            records=len(records),
        )
    return Samples(settings, (), avro_fields(schema), notes=notes, records=len(records))


def _fetch(registry: NamedRegistry, id_: int) -> Avro:
    found = fetch_schema(registry.registry, id_)
    if found is None:
        what = f"The registry {registry.registry.name} has no schema {id_}, which the newest values name."
        raise UsageError.of(
            "no-samples",
            what,
            fix="Name the registry that the producer writes to: --registry.",
        )
    try:
        schema = parse_avro(found.text)
    except (SchemaError, RecursionError) as error:
        raise UsageError.of(
            "no-samples", f"Schema {id_} of the registry is none of Avro: {error}."
        ) from None
    if schema.record is None:
        raise UsageError.of(
            "no-samples",
            f"Schema {id_} of the registry is that of a {schema.kind}, not of a record.",
        )
    return schema


# --- CSV


def _sample_lines(records: Sequence[RawRecord]) -> Samples:
    texts = [(each.value or b"").decode("utf-8", "replace") for each in records]
    dialect = replace(find_dialect(["\n".join(texts)]), has_header=False, names={})
    rows, wrong = read_rows("\n".join(texts), dialect, len(texts))
    bad = [f"record {at} has {values} values" for at, values in wrong]
    return Samples(
        {"format": "csv", **csv_settings(dialect)}, rows, bad=bad, notes=dialect.notes
    )
