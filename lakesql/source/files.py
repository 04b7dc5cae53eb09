"""Plain files as a source: a folder or a bucket, below which each stream names its
files by a pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lakesql.decode import option
from lakesql.errors import Problem
from lakesql.location import local_folder
from lakesql.source.file_folder import FolderSource, read_folder
from lakesql.source.origin import Brings
from lakesql.source.source import AskedStream, Source
from lakesql.source.stream_state import BATCHES

if TYPE_CHECKING:
    from lakesql.source.stream_state import Position


@dataclass(frozen=True, slots=True)
class Files(FolderSource):
    """Plain files; a stream's `path` is relative to this one."""

    path: str = option(
        "Folder to which the streams' paths are relative; the project's folder if left out.",
        default=".",
        read=read_folder,
    )

    kind: ClassVar[str] = "files"
    label: ClassVar[str] = "plain files"
    brings: ClassVar[Brings] = "files"
    has_offsets: ClassVar[bool] = False

    def as_asked(self, stream: AskedStream, events: Source | None = None) -> Source:
        """This source, or one that finds the same files by the order of their names or
        by events, if the stream is configured so. Local folders send no events, so
        their files are listed."""
        if stream.ordered_by:
            from lakesql.source.files_by_name import FilesByName

            return FilesByName(self.path)
        if (
            stream.notifications is None
            or events is None
            or local_folder(self.path) is not None
        ):
            return self
        from lakesql.source.notified_files import NotifiedFiles

        return NotifiedFiles(self.path, events, stream.notifications.name)

    @classmethod
    def supposed_position(cls, names: Sequence[str]) -> Position:
        """A position at which one batch of files was read."""
        return {BATCHES: 0}

    @classmethod
    def explain_other_names(
        cls, stream: str, model: str, former: Sequence[str], names: Sequence[str]
    ) -> Problem | None:
        """The problem that the stream has another path now: only the operator knows
        whether the files are the same."""
        what = f"Stream '{stream}' reads {names[0]} now; model '{model}' has read {former[0]}."
        fix = f"If they are the same files: `lakesql rewind {model} --files same`. If they are others: "
        return Problem(
            "files-moved", what, fix=f"{fix}`lakesql rewind {model} --files new`"
        )
