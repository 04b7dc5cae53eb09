"""What is known of the schemas that a stream's records were written with. Pure."""

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
    """The schemas that records of a stream may name, by their ids, and the id of the
    subject's newest one.

    `versions` are the ids of the subject's versions in their order, as far back as they
    were asked for: to the one that the project keeps. `missing` are ids that the
    registry does not have. `kind` is what the stream's schemas are, `message` the one
    of Protobuf that its records are, where it says so. `has_globals`: the registry says
    what the global ids stand for that headers have (`of_global`). `side` is what of a
    record is read by them.
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
        """All ids of which it is known what they stand for, or that they stand for
        nothing."""
        return frozenset(each.id for each in self.known) | self.missing

    def by_newness(self) -> list[Registered]:
        """The schemas, the subject's newest one first, then by falling ids."""
        return sorted(
            self.known, key=lambda each: (each.id != self.newest, -abs(each.id))
        )

    def after(self, pulled: Registered) -> tuple[Registered, ...] | None:
        """The schemas that are newer than that of a file, in their order; None where
        the file's is not among them.

        Ids tell nothing of their order where the registry knows the versions: a schema
        that another subject has had before keeps its id.
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
        """The same with others, and with these ids in place of those that were
        missing."""
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
        """What is kept of it for good: ids stand for the same schema for ever."""
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
        """The same with what `text` has written; nothing known of a text that is
        none."""
        try:
            said = json.loads(text or "{}")
        except ValueError:
            return self
        known = tuple(
            map(
                _read_registered,
                said.get("schemas", ()) if isinstance(said, Mapping) else (),
            )
        )
        if not known:
            return replace(self, known=(), newest=None)
        versions = tuple(int(id_) for id_ in said.get("versions", ()))
        return replace(self, known=known, newest=said.get("newest"), versions=versions)


def _read_registered(entry: Mapping[str, Any]) -> Registered:
    files = tuple(
        (str(name), str(text)) for name, text in entry.get("files", {}).items()
    )
    return Registered(int(entry["id"]), str(entry["kind"]), str(entry["text"]), files)
