"""Recorded topics: files that hold Kafka's records as JSON lines, a folder for each topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from lakesql.decode import option
from lakesql.location import absolute, local_folder
from lakesql.source.file_folder import BATCHES, check_folder, is_position_of_files, read_folder
from lakesql.source.origin import Brings, StreamOrigin
from lakesql.source.source import AskedStream, Now, Source

if TYPE_CHECKING:
    from lakesql.source.seen_files import SeenFile, StoredFiles
    from lakesql.source.stream_state import Position, SourceState


@dataclass(frozen=True, slots=True)
class Recorded(Source):
    """The embedded stand-in for a broker: a folder per topic that holds JSON-lines files of Kafka records."""

    path: str = option("Folder of the topics' folders.", read=read_folder)

    kind: ClassVar[str] = "recorded"
    label: ClassVar[str] = "recorded topics"
    brings: ClassVar[Brings] = "records"
    keeps_lists: ClassVar[bool] = True

    @classmethod
    def stand_in(cls) -> Self:
        """Topics in no folder."""
        return cls("")

    def resolved(self, directory: Path) -> Self:
        """The same folder by its absolute path."""
        return replace(self, path=absolute(self.path, directory))

    @property
    def places(self) -> tuple[str, ...]:
        """Its folder."""
        return (self.path,)

    def files(self, origin: StreamOrigin) -> str | None:
        """The files in the folders of the topics."""
        from lakesql.source.pattern import files_below

        return files_below(self.path, origin.files) if origin.files is not None else None

    @property
    def recording(self) -> Path | None:
        """Its folder, if that is on this machine."""
        return local_folder(self.path)

    def check(self) -> str:
        """Its folder, which must be there."""
        return check_folder(self.path)

    def can_be_seen(self) -> bool:
        """Whether its folder is on this machine."""
        return local_folder(self.path) is not None

    def state_now(self, stream: AskedStream, now: Now) -> SourceState | None:
        """Which files are passed over."""
        from lakesql.source.listed import hidden_below
        from lakesql.source.stream_state import SourceState

        return SourceState(stream.name, self.kind, left_out=hidden_below(self.files(stream.origin)))

    def is_read(self, stream: AskedStream, number: int, position: Position, files: StoredFiles, now: Now) -> bool:
        """Whether the checkpoint's lists have all files."""
        from lakesql.source.listed import are_files_read

        return are_files_read(self.files(stream.origin), number, position, files)

    @classmethod
    def is_position(cls, position: Position) -> bool:
        """Whether it is one of files."""
        return is_position_of_files(position)

    @classmethod
    def can_start_from(cls, position: Position) -> bool:
        """Whether it names the last file of each topic: a topic is read in the order of its files' names."""
        from lakesql.source.stream_state import THROUGH

        return isinstance(position, dict) and THROUGH in position

    @classmethod
    def complete(cls, position: Position, before: Position, read: Callable[[int, int], Sequence[SeenFile]]) -> Position:
        """The position with the last file of each topic."""
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
        """Recorded topics stand for those of a broker: what another topic does is asked as of one."""
        return "kafka" if other in (None, cls.kind) else cls.kind

    @classmethod
    def supposed_position(cls, names: Sequence[str]) -> Position:
        """One batch of files was read."""
        from lakesql.source.stream_state import THROUGH

        return {BATCHES: 0, THROUGH: {}}
