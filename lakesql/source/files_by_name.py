"""Plain files with ascending names: they are read in that order, and new ones are found
by listing after the last name read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from lakesql.source.file_folder import FolderSource
from lakesql.source.origin import Brings
from lakesql.source.source import AskedStream, Now, has_mark

if TYPE_CHECKING:
    from lakesql.source.name_order import FoundFile
    from lakesql.source.stream_state import Position, SourceState, StoredFiles

LAST_NAME = "last_name"
"""The key in a position for the last name read. Smaller names count as read, except
files that arrived late."""


@dataclass(frozen=True, slots=True)
class TakenNames:
    """What has been read of a folder: the last name, the number of files, and a digest
    of their names.

    The digest is a sum, which does not depend on the order in which files were read.
    """

    last: str = ""
    files: int = 0
    digest: int = 0

    def plus(self, found: Iterable[FoundFile]) -> TakenNames:
        """The value after these files were read too."""
        taken = [*found]
        last = max((self.last, *(file.name for file in taken)))
        digest = (self.digest + sum(file.digest for file in taken)) % 2**64
        return TakenNames(last, self.files + len(taken), digest)

    @property
    def position(self) -> Position:
        """The position with this value."""
        return {
            LAST_NAME: self.last,
            "files": self.files,
            "digest": f"{self.digest:016x}",
        }


def names_taken(position: Position) -> TakenNames:
    """What has been read by a position; nothing if it is of another kind."""
    if not has_mark(position, LAST_NAME):
        return TakenNames()
    return TakenNames(
        str(position[LAST_NAME]), int(position["files"]), int(position["digest"], 16)
    )


@dataclass(frozen=True, slots=True)
class FilesByName(FolderSource):
    """Plain files of a stream with `ordered_by: name`."""

    path: str

    kind: ClassVar[str] = "files_by_name"
    label: ClassVar[str] = "plain files in the order of their names"
    brings: ClassVar[Brings] = "files"
    has_offsets: ClassVar[bool] = False
    is_planned: ClassVar[bool] = True
    is_in_name_order: ClassVar[bool] = True

    @classmethod
    def stand_in(cls) -> Self:
        """A source without a folder."""
        return cls("")

    def state_now(self, stream: AskedStream, now: Now) -> SourceState | None:
        """A state without facts: each listing tells which files are skipped."""
        from lakesql.source.stream_state import SourceState

        return SourceState(stream.name, self.kind)

    def is_read(
        self,
        stream: AskedStream,
        number: int,
        position: Position,
        files: StoredFiles,
        now: Now,
    ) -> bool:
        """Whether no local file has a larger name than the last one read, and listing
        the whole folder is not due yet. False if the files are not local."""
        from lakesql.clock import now_ms
        from lakesql.location import local_folder
        from lakesql.source.known_files import is_listing_due, read_index
        from lakesql.source.name_order import LocalFolders, NameOrder

        glob = self.files(stream.origin)
        index = read_index(files)
        if (
            glob is None
            or local_folder(glob) is None
            or index is None
            or not has_mark(position, LAST_NAME)
        ):
            return False
        if is_listing_due(index, stream.list_all_every_ms, now_ms()):
            return False
        order = NameOrder(self.path, glob)
        return (
            next(order.files(LocalFolders(), names_taken(position).last), None) is None
        )

    @classmethod
    def is_position(cls, position: Position) -> bool:
        """Whether the position names the last file read, or is none."""
        return not isinstance(position, dict) or has_mark(position, LAST_NAME)

    @classmethod
    def can_start_from(cls, position: Position) -> bool:
        """Whether there is a position: the last name says what has been read."""
        return isinstance(position, dict)

    @classmethod
    def supposed_position(cls, names: Sequence[str]) -> Position:
        """A position at which one file was read."""
        return TakenNames("a", 1).position
