"""OpenLineage's published schemas, and what an event breaks of them: of its own and of
each of its facets'."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

SCHEMAS = Path(__file__).parent / "schemas"
OWN = Path(__file__).parents[2] / "docs" / "lineage_facets.json"
SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json"


def problems_of(event: dict[str, Any]) -> list[str]:
    """What is wrong with an event; nothing of one that is valid."""
    found = [
        error.message
        for error in _validator(f"{SPEC}#/$defs/RunEvent").iter_errors(event)
    ]
    for path, facet in facets_of(event):
        schema = facet["_schemaURL"]
        if schema.partition("#")[0] not in _schemas():
            found.append(f"{path}: nothing is known of {schema}")
            continue
        found += [
            f"{path}: {error.message}"
            for error in _validator(schema).iter_errors(facet)
        ]
        name = path.rpartition(".")[2]
        known = _key_of(schema)
        if known is not None and known != name:
            found.append(f"{path}: its schema is that of a facet {known}")
    return found


def facets_of(event: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """All facets of an event, each with where it stands."""
    holders = {"run": event["run"], "job": event["job"]}
    for side in ("inputs", "outputs"):
        holders |= {
            f"{side}[{number}]": each for number, each in enumerate(event.get(side, ()))
        }
    for where, holder in holders.items():
        for kind in ("facets", "inputFacets", "outputFacets"):
            for name, facet in holder.get(kind, {}).items():
                yield f"{where}.{kind}.{name}", facet


def _key_of(schema: str) -> str | None:
    """The key under which a facet of a published schema stands; None of lakesql's
    own."""
    properties = _schemas()[schema.partition("#")[0]].get("properties", {})
    return next(iter(properties), None)


@cache
def _schemas() -> dict[str, dict[str, Any]]:
    paths = (SCHEMAS / "OpenLineage.json", *(SCHEMAS / "facets").glob("*.json"), OWN)
    return {
        found["$id"]: found
        for found in (json.loads(path.read_text()) for path in paths)
    }


@cache
def _validator(ref: str) -> Draft202012Validator:
    resources = [
        (id_, Resource.from_contents(schema)) for id_, schema in _schemas().items()
    ]
    registry: Registry[Any] = Registry().with_resources(resources)
    return Draft202012Validator(
        {"$ref": ref}, registry=registry, format_checker=FormatChecker()
    )
