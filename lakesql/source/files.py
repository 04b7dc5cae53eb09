"""Plain files: a folder, or a bucket, below which each stream names its own by a pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from lakesql.decode import option
from lakesql.errors import Problem
from lakesql.location import absolute, local_folder
from lakesql.source.file_folder import BATCHES, check_folder, is_position_of_files, read_folder
from lakesql.source.origin import Brings, StreamOrigin
from lakesql.source.source import AskedStream, Now, Source

if TYPE_CHECKING:
    from lakesql.source.seen_files import StoredFiles
    from lakesql.source.stream_state import Position, SourceState


@dataclass(frozen=True, slots=True)
class Files(Source):
    """Plain files; a stream's `path` is relative to this one."""

    path: str = option(
        "Base of the streams' paths; the project's directory if left out.", default=".", read=read_folder
    )

    kind: ClassVar[str] = "files"
    label: ClassVar[str] = "plain files"
    brings: ClassVar[Brings] = "files"
    has_offsets: ClassVar[bool] = False
    keeps_lists: ClassVar[bool] = True

    def resolved(self, directory: Path) -> Self:
        """The same folder by its absolute path."""
        return replace(self, path=absolute(self.path, directory))

    @property
    def places(self) -> tuple[str, ...]:
        """Its folder."""
        return (self.path,)

    def files(self, origin: StreamOrigin) -> str | None:
        """What the stream's path means below its own."""
        from lakesql.source.pattern import files_below

        return files_below(self.path, origin.files) if origin.files is not None else None

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
    def supposed_position(cls, names: Sequence[str]) -> Position:
        """One batch of files was read."""
        return {BATCHES: 0}

    @classmethod
    def explain_other_names(
        cls, stream: str, model: str, former: Sequence[str], names: Sequence[str]
    ) -> Problem | None:
        """Nobody but the operator knows whether the files of another path are the same."""
        what = f"Stream '{stream}' reads {names[0]} now; model '{model}' has read {former[0]}."
        fix = f"If they are the same files: `lakesql rewind {model} --files same`. If they are others: "
        return Problem("files-moved", what, fix=f"{fix}`lakesql rewind {model} --files new`")
