"""The schemas that a batch's records name by their ids: fetched where one is not known,
and kept for good."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.records.frame import UNKNOWN_ID, written_id
from lakesql.engine.records.record_key import field_of
from lakesql.engine.records.registry_value import find_absent
from lakesql.engine.sources.binding import StreamBinding, contract_columns
from lakesql.engine.sources.parsed import unpack
from lakesql.errors import RunError, TransientError, did_you_mean
from lakesql.events import Noted
from lakesql.model.model import Model
from lakesql.registry.bare_values import as_records
from lakesql.registry.registered import Registered
from lakesql.registry.registry_client import fetch_newest, fetch_schema, fetch_versions
from lakesql.registry.schema_error import NoColumnError
from lakesql.registry.schema_kinds import SCHEMA_KINDS, is_same_schema
from lakesql.registry.schemas import StreamSchemas
from lakesql.stream.followed_columns import Followed, follow_schemas

if TYPE_CHECKING:
    from lakesql.engine.batch.sink import Sink
    from lakesql.engine.records.parse import ContractColumn

R = TypeVar("R")

ASKED_AGAIN_S = 60.0
"""How long an id that the registry does not have is not asked for again: a schema may
be registered after all."""

Bindings = tuple[StreamBinding, ...]


class KnownSchemas:
    """What a query knows of its streams' schemas. A query whose streams have no
    registry is never asked for any."""

    def __init__(self) -> None:
        self._bindings: Bindings | None = None
        self._made: tuple[Sink, Sink] | None = None
        self._asked_at = 0.0

    def write(self, sink: Sink, arrived: DataFrame, write: Callable[[Sink], R]) -> R:
        """What `write` does with a batch, over a sink that knows the schemas which its
        records name.

        A batch is written as if none were new, which costs nothing. A record with an id
        that nobody has looked up fails the first of its tasks that reads it, before
        anything was written: then the ids of the batch are looked up, and it is begun
        anew.
        """
        if not any(binding.registry for binding in sink.bindings):
            return write(sink)
        if self._bindings is None:
            self._bindings = with_kept(arrived.sparkSession, sink.bindings)
            check_followed(sink.model, self._bindings)
            self._tell_left_behind(sink)
        if (
            any(_knows_nothing(binding) for binding in self._bindings)
            or self._may_ask_again()
        ):
            self._learn(sink, arrived)
        check_contract(self._bindings)
        while True:
            try:
                return write(self._over(sink))
            except Exception as error:
                if UNKNOWN_ID not in str(error):
                    raise
                before = self._bindings
                self._learn(sink, arrived)
                if self._bindings == before:
                    raise
                check_contract(self._bindings)

    def _over(self, sink: Sink) -> Sink:
        """The sink with what is known: the same one for as long as nothing is new, as
        it keeps how it parses."""
        if (
            self._made is None
            or self._made[0] is not sink
            or self._made[1].bindings is not self._bindings
        ):
            assert self._bindings is not None, "what was kept is known"
            self._made = (sink, sink.over(self._bindings))
        return self._made[1]

    def _tell_left_behind(self, sink: Sink) -> None:
        """Say which fields of newer schemas a query does not follow: another one may
        have fetched these."""
        for binding in self._bindings or ():
            if binding.stream.pulled is None or binding.schemas is None:
                continue
            newer = binding.schemas.after(binding.stream.pulled)
            is_behind = newer is None or any(
                each.id == binding.schemas.newest for each in newer
            )
            for text in _unread_fields(binding, binding.schemas) if is_behind else ():
                sink.emit(Noted(text, sink.model.name))

    def _may_ask_again(self) -> bool:
        has_missing = any(
            each is not None and each.missing
            for binding in self._bindings or ()
            for each in (binding.schemas, binding.key_schemas)
        )
        return has_missing and time.monotonic() - self._asked_at > ASKED_AGAIN_S

    def _learn(self, sink: Sink, arrived: DataFrame) -> None:
        assert self._bindings is not None, "what was kept is known"
        self._asked_at = time.monotonic()
        before, self._bindings = self._bindings, with_schemas(arrived, self._bindings)
        check_followed(sink.model, self._bindings)
        for former, binding in zip(before, self._bindings, strict=True):
            if former.schemas is not None and binding.schemas is not None:
                is_new = former.schemas.newest != binding.schemas.newest
                for text in _unread_fields(binding, binding.schemas) if is_new else ():
                    sink.emit(Noted(text, sink.model.name))


def with_kept(session: SparkSession, bindings: Bindings) -> Bindings:
    """The streams with the schemas that earlier runs have fetched."""
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
    """The stream with what `change` makes of the schemas of its values, and of those of
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
    """The columns of a stream whose contract is pulled, by the schemas that earlier
    runs have fetched.

    The registry is asked where these do not say which of them are newer than the
    contract, or if it is wanted (`asks`). Raises what `fetch_versions` and
    `follow_schemas` raise.
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


def check_followed(model: Model, bindings: Sequence[StreamBinding]) -> None:
    """Raise `TransientError` (`contract-behind`) where a schema that is known now is
    newer than a pulled contract, and has other columns: the model is compiled again
    with these, its table altered, and the batch written again, with all that is in it.
    Raises what `follow_schemas` raises. With on_schema_change='ignore' the contract
    stays as it is."""
    if model.config.on_schema_change == "ignore":
        return
    for binding in bindings:
        stream, schemas = binding.stream, binding.schemas
        if stream.pulled is None or schemas is None:
            continue
        differences = follow_schemas(
            stream, schemas.after(stream.pulled) or ()
        ).differences
        if differences:
            raise TransientError.of(
                "contract-behind",
                f"Stream '{stream.name}' has newer schemas than its contract: {'; '.join(differences)}.",
                why="Nothing of this batch was written.",
                fix=f"Nothing is to be done: model '{model.name}' is compiled again, and the batch written with these "
                "columns.",
                place=stream.place,
            )


def _fetch_versions(binding: StreamBinding) -> tuple[Registered, ...]:
    """The versions of a stream's subject from that of its pulled contract; none where
    it has no such contract."""
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
    """The streams with the schemas of all ids that a batch of raw records has."""
    found = []
    for index, binding in enumerate(bindings):
        if binding.registry is not None:
            raw = unpack(arrived, index, len(bindings))
            binding = _with_each(binding, partial(_with_ids, raw, binding))
        found.append(binding)
    return tuple(found)


def preview_schemas(arrived: DataFrame, bindings: Bindings) -> Bindings:
    """The streams with the schemas of all ids that raw records have, where the records
    are only shown."""
    if not any(binding.registry for binding in bindings):
        return bindings
    found = with_schemas(arrived, with_kept(arrived.sparkSession, bindings))
    check_contract(found)
    return found


def _knows_nothing(binding: StreamBinding) -> bool:
    return binding.schemas is not None and not binding.schemas.ids


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


def check_contract(bindings: Sequence[StreamBinding]) -> None:
    """Raise `RunError` (`avro-schema`, `protobuf-schema`) where a column is in none of
    the schemas that are known, which are the subject's newest one and those that were
    seen, or is of a type that no column holds."""
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


def _unread_fields(binding: StreamBinding, schemas: StreamSchemas) -> Iterator[str]:
    """What is to be said of a subject's newest schema: which of its fields are no
    columns of the contract."""
    newest = next((each for each in schemas.known if each.id == schemas.newest), None)
    if newest is None or binding.has_changes:
        return
    columns = {column.field.lower() for column in binding.stream.columns}
    names = SCHEMA_KINDS[schemas.kind].field_names(newest, schemas.message)
    unread = [name for name in names if name.lower() not in columns]
    if unread:
        of = f"stream {binding.stream.name}: its newest schema, of id {newest.id}"
        yield f"{of}, has fields that the contract does not know, and that are not read: {', '.join(unread)}"


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
