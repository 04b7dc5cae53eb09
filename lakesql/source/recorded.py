"""Recorded topics as a source: files with Kafka's records as JSON lines, in a folder
for each topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from lakesql.decode import option
from lakesql.location import local_folder
from lakesql.source.file_folder import FolderSource, read_folder
from lakesql.source.origin import Brings
from lakesql.source.stream_state import BATCHES

if TYPE_CHECKING:
    from lakesql.source.stream_state import Position, SeenFile


@dataclass(frozen=True, slots=True)
class Recorded(FolderSource):
    """The embedded substitute for a broker: a folder for each topic with JSON-lines
    files of Kafka records."""

    path: str = option(
        "Folder with a folder for each recorded topic.", read=read_folder
    )

    kind: ClassVar[str] = "recorded"
    label: ClassVar[str] = "recorded topics"
    brings: ClassVar[Brings] = "records"

    @classmethod
    def stand_in(cls) -> Self:
        """A source without a folder."""
        return cls("")

    @property
    def recording(self) -> Path | None:
        """Its folder if that is local, else None."""
        return local_folder(self.path)

    @classmethod
    def can_start_from(cls, position: Position) -> bool:
        """Whether the position has the last file of each topic, whose files are read in
        the order of their names."""
        from lakesql.source.stream_state import THROUGH

        return isinstance(position, dict) and THROUGH in position

    @classmethod
    def complete(
        cls,
        position: Position,
        before: Position,
        read: Callable[[int, int], Sequence[SeenFile]],
    ) -> Position:
        """The position with the last file of each topic added."""
        from lakesql.source.stream_state import THROUGH

        if not isinstance(position, dict) or not cls.is_position(position):
            return position
        known: Any = before or {}
        last = position[BATCHES]
        if known.get(BATCHES, -1) > last:
            known = {}
        through = dict(known.get(THROUGH, {}))
        first = known.get(BATCHES, -1) + 1
        for file in read(first, last) if first <= last else ():
            through[file.folder] = max(through.get(file.folder, ""), file.name)
        return {**position, THROUGH: through}

    @classmethod
    def compared_as(cls, other: str | None) -> str:
        """`kafka`, if the other version has recorded topics too or no stream: they
        represent a broker's topics, and changes of the topics are judged as Kafka's."""
        return "kafka" if other in (None, cls.kind) else cls.kind

    @classmethod
    def supposed_position(cls, names: Sequence[str]) -> Position:
        """A position at which one batch of files was read."""
        from lakesql.source.stream_state import THROUGH

        return {BATCHES: 0, THROUGH: {}}
