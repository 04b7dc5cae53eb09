"""Whether a stream's columns are in the schemas that its records name, and have types
that Spark's columns can have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakesql.engine.records.record_key import field_of
from lakesql.engine.records.registry_value import find_absent
from lakesql.engine.sources.binding import StreamBinding, contract_columns
from lakesql.errors import RunError, did_you_mean
from lakesql.registry.bare_values import as_records
from lakesql.registry.schema_error import NoColumnError
from lakesql.registry.schema_kinds import SCHEMA_KINDS
from lakesql.registry.schemas import StreamSchemas

if TYPE_CHECKING:
    from lakesql.engine.records.parse import ContractColumn


def check_contract(bindings: Sequence[StreamBinding]) -> None:
    """Raise `RunError` (`avro-schema`, `protobuf-schema`) if a column is in none of the
    known schemas, which are the subject's newest one and those that records have named,
    or has a type that no column can have."""
    for binding in bindings:
        if binding.schemas is not None and not binding.has_changes:
            _check_columns(binding, binding.schemas, contract_columns(binding.stream))
        if binding.key_schemas is not None and (
            of_key := contract_columns(binding.stream, in_key=True)
        ):
            named = [replace(column, name=field_of(column)) for column in of_key]
            _check_columns(
                binding,
                as_records(binding.key_schemas, [each.name for each in named]),
                named,
            )


def _check_columns(
    binding: StreamBinding, schemas: StreamSchemas, declared: Sequence[ContractColumn]
) -> None:
    stream = binding.stream
    columns = tuple((column.name, column.type) for column in declared)
    kind = SCHEMA_KINDS[schemas.kind]
    try:
        absent = find_absent(schemas, columns)
    except NoColumnError as error:
        raise RunError.of(
            kind.condition,
            f"'{error.path}' of stream '{stream.name}' {error.why}.",
            why="No type of Spark's is. Nothing of this batch was written.",
            fix="Declare the column as a struct, of as many levels and with those fields that are wanted.",
            place=stream.place,
        ) from None
    if absent and schemas.newest is not None:
        names = [
            name
            for each in schemas.known
            for name in kind.field_names(each, schemas.message)
        ]
        raise RunError.of(
            kind.condition,
            f"No schema that {schemas.side}s of stream '{stream.name}' name has {', '.join(absent)}.",
            why="Nothing of this batch was written.",
            fix=did_you_mean(absent[0], names),
            place=stream.place,
        )
