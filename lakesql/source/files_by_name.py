"""Plain files whose names grow: they are read in that order, and found by listing from
the last one on."""

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
"""In a position: the last name that was taken. Smaller ones count as read, but for
files that came late."""


@dataclass(frozen=True, slots=True)
class TakenNames:
    """What has been read of a folder: up to which name, how many files in all, and a
    digest of their names.

    The digest is a sum, which is the same in whatever order files were read.
    """

    last: str = ""
    files: int = 0
    digest: int = 0

    def plus(self, found: Iterable[FoundFile]) -> TakenNames:
        """With files that are read next."""
        taken = [*found]
        last = max((self.last, *(file.name for file in taken)))
        digest = (self.digest + sum(file.digest for file in taken)) % 2**64
        return TakenNames(last, self.files + len(taken), digest)

    @property
    def position(self) -> Position:
        """It as a position."""
        return {
            LAST_NAME: self.last,
            "files": self.files,
            "digest": f"{self.digest:016x}",
        }


def names_taken(position: Position) -> TakenNames:
    """What a position says was read; nothing for none."""
    if not has_mark(position, LAST_NAME):
        return TakenNames()
    return TakenNames(
        str(position[LAST_NAME]), int(position["files"]), int(position["digest"], 16)
    )


@dataclass(frozen=True, slots=True)
class FilesByName(FolderSource):
    """Plain files of a stream that says `ordered_by: name`."""

    path: str

    kind: ClassVar[str] = "files_by_name"
    label: ClassVar[str] = "plain files in the order of their names"
    brings: ClassVar[Brings] = "files"
    has_offsets: ClassVar[bool] = False
    is_planned: ClassVar[bool] = True
    is_in_name_order: ClassVar[bool] = True

    @classmethod
    def stand_in(cls) -> Self:
        """Files in no folder."""
        return cls("")

    def state_now(self, stream: AskedStream, now: Now) -> SourceState | None:
        """Nothing more than that it is there: which files are passed over, each listing
        says."""
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
        """Whether no file of this machine has a larger name, and all of the folder need
        not be listed yet."""
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
        """Whether it names the last file."""
        return not isinstance(position, dict) or has_mark(position, LAST_NAME)

    @classmethod
    def can_start_from(cls, position: Position) -> bool:
        """The last name says what has been read."""
        return isinstance(position, dict)

    @classmethod
    def supposed_position(cls, names: Sequence[str]) -> Position:
        """One file was read."""
        return TakenNames("a", 1).position
