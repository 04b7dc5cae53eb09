"""Which registry schemas a query knows, by the ids in its records: a new id is looked
up, and its batch is begun again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import DataFrame

from lakesql.engine.batch.contract_schemas import check_contract
from lakesql.engine.batch.kept_schemas import Bindings, with_kept, with_schemas
from lakesql.engine.records.frame import UNKNOWN_ID
from lakesql.engine.sources.binding import StreamBinding
from lakesql.errors import TransientError
from lakesql.events import Noted
from lakesql.model.model import Model
from lakesql.registry.schema_kinds import SCHEMA_KINDS
from lakesql.registry.schemas import StreamSchemas
from lakesql.stream.followed_columns import follow_schemas

if TYPE_CHECKING:
    from lakesql.engine.batch.sink import Sink

R = TypeVar("R")

ASKED_AGAIN_S = 60.0
"""After how many seconds an id that the registry did not have is asked for again: the
schema may have been registered meanwhile."""


class KnownSchemas:
    """The schemas that a query knows for its streams. For a query whose streams have no
    registry it does nothing."""

    def __init__(self) -> None:
        self._bindings: Bindings | None = None
        self._made: tuple[Sink, Sink] | None = None
        self._asked_at = 0.0

    def write(self, sink: Sink, arrived: DataFrame, write: Callable[[Sink], R]) -> R:
        """The result of `write` for a batch, called with a sink that knows the schemas
        of the batch's records.

        A batch is written as if no schema were new, which costs nothing. A record with
        an unknown id fails the first task that reads it, before anything was written:
        then the ids of the batch are looked up, and it is begun again.
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
        """The sink with the known schemas. It is the same object until a schema is new,
        because it caches its parsing."""
        if (
            self._made is None
            or self._made[0] is not sink
            or self._made[1].bindings is not self._bindings
        ):
            assert self._bindings is not None, "what was kept is known"
            self._made = (sink, sink.over(self._bindings))
        return self._made[1]

    def _tell_left_behind(self, sink: Sink) -> None:
        """Report which fields of newer schemas are not read although these schemas are
        known: another query may have fetched them."""
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


def check_followed(model: Model, bindings: Sequence[StreamBinding]) -> None:
    """Raise `TransientError` (`contract-behind`) if a known schema is newer than a
    pulled contract and has other columns: then the model is compiled again with these
    columns, its table altered, and the batch written again with all of its values.
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


def preview_schemas(arrived: DataFrame, bindings: Bindings) -> Bindings:
    """The bindings with the schemas of all ids in the raw records, for records that are
    only shown."""
    if not any(binding.registry for binding in bindings):
        return bindings
    found = with_schemas(arrived, with_kept(arrived.sparkSession, bindings))
    check_contract(found)
    return found


def _knows_nothing(binding: StreamBinding) -> bool:
    return binding.schemas is not None and not binding.schemas.ids


def _unread_fields(binding: StreamBinding, schemas: StreamSchemas) -> Iterator[str]:
    """Messages about fields of a subject's newest schema that are no columns of the
    contract."""
    newest = next((each for each in schemas.known if each.id == schemas.newest), None)
    if newest is None or binding.has_changes:
        return
    columns = {column.field.lower() for column in binding.stream.columns}
    names = SCHEMA_KINDS[schemas.kind].field_names(newest, schemas.message)
    unread = [name for name in names if name.lower() not in columns]
    if unread:
        of = f"stream {binding.stream.name}: its newest schema, of id {newest.id}"
        yield f"{of}, has fields that the contract does not know, and that are not read: {', '.join(unread)}"
