"""How the registry schemas of streams are fetched, and kept beside the checkpoints for
later runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.records.frame import written_id
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.parsed import unpack
from lakesql.registry.registered import Registered
from lakesql.registry.registry_client import fetch_newest, fetch_schema, fetch_versions
from lakesql.registry.schema_kinds import is_same_schema
from lakesql.registry.schemas import StreamSchemas
from lakesql.stream.followed_columns import Followed, follow_schemas

Bindings = tuple[StreamBinding, ...]


def with_kept(session: SparkSession, bindings: Bindings) -> Bindings:
    """The bindings with the schemas that earlier runs have fetched."""
    return tuple(_with_kept(session, binding) for binding in bindings)


def _with_kept(session: SparkSession, binding: StreamBinding) -> StreamBinding:
    return _with_each(
        binding,
        lambda schemas: schemas.with_kept(_read_kept(session, binding, schemas)),
    )


def _read_kept(
    session: SparkSession, binding: StreamBinding, schemas: StreamSchemas
) -> str | None:
    return CheckpointFiles(session, binding.schemas_folder).read(
        _file_of(binding, schemas)
    )


def _with_each(
    binding: StreamBinding, change: Callable[[StreamSchemas], StreamSchemas]
) -> StreamBinding:
    """The binding with `change` applied to the schemas of its values, and to those of
    its keys."""
    of_values, of_keys = binding.schemas, binding.key_schemas
    return replace(
        binding,
        schemas=None if of_values is None else change(of_values),
        key_schemas=None if of_keys is None else change(of_keys),
    )


def follow_kept(
    session: SparkSession, binding: StreamBinding, *, asks: bool = False
) -> Followed:
    """The columns of a stream with a pulled contract, by the schemas that earlier runs
    have fetched.

    The registry is asked if these do not tell which of them are newer than the
    contract, or if `asks`. Raises what `fetch_versions` and `follow_schemas` raise.
    """
    binding = _with_kept(session, binding)
    stream, schemas = binding.stream, binding.schemas
    assert stream.pulled is not None and schemas is not None, (
        "a pulled contract is that of a registry's stream"
    )
    newer = schemas.after(stream.pulled)
    if asks or newer is None or not schemas.versions:
        versions = _fetch_versions(binding)
        newest = versions[-1].id if versions else None
        more = schemas.with_more(
            versions, newest, schemas.missing, tuple(each.id for each in versions)
        )
        _keep(session, binding, schemas, more)
        newer = more.after(stream.pulled)
    return follow_schemas(stream, newer or ())


def _fetch_versions(binding: StreamBinding) -> tuple[Registered, ...]:
    """The versions of a stream's subject from that of its pulled contract on; none if
    it has no pulled contract."""
    registry, pulled = binding.registry, binding.stream.pulled
    if registry is None or pulled is None:
        return ()
    return fetch_versions(
        registry,
        binding.stream.value_subject,
        lambda each: is_same_schema(each, pulled),
    )


def _keep(
    session: SparkSession,
    binding: StreamBinding,
    former: StreamSchemas,
    schemas: StreamSchemas,
) -> None:
    if schemas.text() != former.text():
        CheckpointFiles(session, binding.schemas_folder).write(
            _file_of(binding, schemas), schemas.text()
        )


def with_schemas(arrived: DataFrame, bindings: Bindings) -> Bindings:
    """The bindings with the schemas of all ids in a batch of raw records."""
    found = []
    for index, binding in enumerate(bindings):
        if binding.registry is not None:
            raw = unpack(arrived, index, len(bindings))
            binding = _with_each(binding, partial(_with_ids, raw, binding))
        found.append(binding)
    return tuple(found)


def _file_of(binding: StreamBinding, schemas: StreamSchemas) -> str:
    return f"{binding.stream.name}{'' if schemas.side == 'value' else '.key'}.json"


def _with_ids(
    raw: DataFrame, binding: StreamBinding, schemas: StreamSchemas
) -> StreamSchemas:
    registry = binding.registry
    assert registry is not None, "a stream with schemas has a registry"
    sides = ("key", "value") if binding.has_changes else (schemas.side,)
    ids = F.explode(F.array(*(written_id(schemas, side) for side in sides))).alias("id")
    named = raw.select(ids).where(F.col("id").isNotNull()).distinct().collect()
    known = {each.id for each in schemas.known}
    asked = sorted({int(row["id"]) for row in named} - known)
    answers = {id_: fetch_schema(registry, id_) for id_ in asked}
    newest: Registered | None = None
    versions: tuple[Registered, ...] = ()
    subject = (
        binding.stream.key_subject
        if schemas.side == "key"
        else binding.stream.value_subject
    )
    if subject and (asked or not known):
        versions = _fetch_versions(binding) if schemas.side == "value" else ()
        newest = versions[-1] if versions else fetch_newest(registry, subject)
    fetched = [
        each for each in (*answers.values(), *versions, newest) if each is not None
    ]
    missing = [id_ for id_, each in answers.items() if each is None]
    more = schemas.with_more(
        fetched,
        newest.id if newest else None,
        missing,
        tuple(each.id for each in versions),
    )
    _keep(raw.sparkSession, binding, schemas, more)
    return more
