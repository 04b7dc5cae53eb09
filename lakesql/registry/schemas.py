"""What is known of the schemas that a stream's records were written with. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakesql.registry.connection import Wire
from lakesql.registry.registered import Registered


@dataclass(frozen=True, slots=True)
class StreamSchemas:
    """The schemas that records of a stream may name, by their ids, and the id of the subject's newest one.

    `missing` are ids that the registry does not have. `kind` is what the stream's schemas are, `message` the one of
    Protobuf that its records are, where it says so.
    """

    wire: Wire
    known: tuple[Registered, ...] = ()
    newest: int | None = None
    missing: frozenset[int] = field(default_factory=frozenset)
    kind: str = "AVRO"
    message: str = ""

    @property
    def ids(self) -> frozenset[int]:
        """All ids of which it is known what they stand for, or that they stand for nothing."""
        return frozenset(each.id for each in self.known) | self.missing

    def by_newness(self) -> list[Registered]:
        """The schemas, the subject's newest one first, then by falling ids."""
        return sorted(self.known, key=lambda each: (each.id != self.newest, -each.id))

    def with_more(self, found: Collection[Registered], newest: int | None, missing: Collection[int]) -> StreamSchemas:
        """The same with others, and with these ids in place of those that were missing."""
        known = {each.id: each for each in (*self.known, *found)}
        at_last = self.newest if newest is None else newest
        return replace(
            self,
            known=tuple(sorted(known.values(), key=lambda each: each.id)),
            newest=at_last,
            missing=frozenset(missing).difference(known),
        )

    def text(self) -> str:
        """What is kept of it for good: ids stand for the same schema for ever."""
        schemas = [
            {"id": each.id, "kind": each.kind, "text": each.text, **({"files": dict(each.files)} if each.files else {})}
            for each in self.known
        ]
        return json.dumps({"newest": self.newest, "schemas": schemas}, ensure_ascii=False)

    def with_kept(self, text: str | None) -> StreamSchemas:
        """The same with what `text` has written; nothing known of a text that is none."""
        try:
            said = json.loads(text or "{}")
        except ValueError:
            return self
        known = tuple(map(_read_registered, said.get("schemas", ()) if isinstance(said, Mapping) else ()))
        return replace(self, known=known, newest=said.get("newest") if known else None)


def _read_registered(entry: Mapping[str, Any]) -> Registered:
    files = tuple((str(name), str(text)) for name, text in entry.get("files", {}).items())
    return Registered(int(entry["id"]), str(entry["kind"]), str(entry["text"]), files)
