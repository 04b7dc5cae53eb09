"""The schemas of a registry that are known for a stream's records. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lakesql.registry.connection import Wire
from lakesql.registry.registered import Registered
from lakesql.registry.schema_kinds import is_same_schema


@dataclass(frozen=True, slots=True)
class StreamSchemas:
    """The schemas that the records of a stream may name, and the id of the subject's
    newest one.

    `versions` are the ids of the subject's versions in their order, as far back as they
    were requested: to the one that the project has as a file. `missing` are ids that
    the registry does not have. `kind` is the kind of the stream's schemas, `message`
    its Protobuf message if one is configured. `has_globals` is true if the registry
    resolves the global ids in headers (`of_global`). `side` is the part of a record
    that is read with the schemas.
    """

    wire: Wire
    known: tuple[Registered, ...] = ()
    newest: int | None = None
    missing: frozenset[int] = field(default_factory=frozenset)
    versions: tuple[int, ...] = ()
    kind: str = "AVRO"
    message: str = ""
    has_globals: bool = False
    side: Literal["value", "key"] = "value"

    @property
    def ids(self) -> frozenset[int]:
        """All ids that were looked up: those of known schemas, and the missing ones."""
        return frozenset(each.id for each in self.known) | self.missing

    def by_newness(self) -> list[Registered]:
        """The schemas from new to old: the subject's newest one first, then by
        descending ids."""
        return sorted(
            self.known, key=lambda each: (each.id != self.newest, -abs(each.id))
        )

    def after(self, pulled: Registered) -> tuple[Registered, ...] | None:
        """The schemas that are newer than the one in the project's file, in their
        order; None if the file's is not among the known ones.

        Ids do not give the order if the registry knows the versions: a schema that was
        first registered under another subject keeps its id.
        """
        by_id = {each.id: each for each in self.known}
        ordered = [
            by_id[id_]
            for id_ in self.versions or sorted(by_id, key=abs)
            if id_ in by_id
        ]
        same = [
            number
            for number, each in enumerate(ordered)
            if is_same_schema(each, pulled)
        ]
        return tuple(ordered[same[-1] + 1 :]) if same else None

    def with_more(
        self,
        found: Collection[Registered],
        newest: int | None,
        missing: Collection[int],
        versions: tuple[int, ...] = (),
    ) -> StreamSchemas:
        """The same with more schemas, and with `missing` in place of the former missing
        ids."""
        known = {each.id: each for each in (*self.known, *found)}
        at_last = self.newest if newest is None else newest
        return replace(
            self,
            known=tuple(sorted(known.values(), key=lambda each: each.id)),
            newest=at_last,
            missing=frozenset(missing).difference(known),
            versions=versions or self.versions,
        )

    def text(self) -> str:
        """The schemas as JSON, for a file. It stays valid, as an id always stands for
        the same schema."""
        schemas = [
            {
                "id": each.id,
                "kind": each.kind,
                "text": each.text,
                **({"files": dict(each.files)} if each.files else {}),
            }
            for each in self.known
        ]
        said = {"newest": self.newest, "versions": self.versions, "schemas": schemas}
        return json.dumps(said, ensure_ascii=False)

    def with_kept(self, text: str | None) -> StreamSchemas:
        """The same with the schemas in `text`, which `StreamSchemas.text` has returned
        before; with none if `text` is None or damaged, so that the registry is asked
        for them again."""
        try:
            said = json.loads(text or "{}")
            known = tuple(_read_registered(each) for each in said.get("schemas", ()))
            versions = tuple(int(id_) for id_ in said.get("versions", ()))
            newest = said.get("newest")
        except (ValueError, LookupError, TypeError, AttributeError):
            known = ()
        if not known:
            return replace(self, known=(), newest=None, versions=())
        return replace(self, known=known, newest=newest, versions=versions)


def _read_registered(entry: Mapping[str, Any]) -> Registered:
    files = tuple(
        (str(name), str(text)) for name, text in entry.get("files", {}).items()
    )
    return Registered(int(entry["id"]), str(entry["kind"]), str(entry["text"]), files)
