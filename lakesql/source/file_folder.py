"""What all sources that are files below a folder have in common, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from lakesql.decode import Node, read_filled
from lakesql.errors import ProfileError, ProjectError
from lakesql.location import absolute, local_folder
from lakesql.source.dataset import Dataset, dataset_at, folder_before
from lakesql.source.origin import StreamOrigin
from lakesql.source.source import AskedStream, Now, Source, has_mark
from lakesql.source.stream_state import BATCHES

if TYPE_CHECKING:
    from lakesql.source.stream_state import Position, SourceState, StoredFiles


def read_folder(node: Node) -> str:
    """The path of a connection. Raises `ProjectError` for a `*` in it, which would be a
    plain character there."""
    path = read_filled(node)
    if "*" not in path:
        return path
    folder = path[: path.index("*")].rpartition("/")[0] or (
        "/" if path.startswith("/") else "."
    )
    what = f"The path '{path}' of a connection is no pattern: a '*' in it would stand for itself."
    fix = f"Write `path: {folder}` here, and the rest in the `path` of each stream, where `*` is a pattern."
    raise ProjectError.of("wrong-value", what, fix=fix, place=node.place)


class FolderSource(Source):
    """Files below a folder, or below the URL of a bucket."""

    path: str

    keeps_lists: ClassVar[bool] = True

    def resolved(self, directory: Path) -> Self:
        """This source with the absolute path of its folder."""
        return replace(self, path=absolute(self.path, directory))  # type: ignore[type-var]  # each kind is a dataclass

    @property
    def places(self) -> tuple[str, ...]:
        """The one folder."""
        return (self.path,)

    def files(self, origin: StreamOrigin) -> str | None:
        """The pattern of the origin's files below the folder; None if the origin has
        none."""
        from lakesql.source.pattern import files_below

        return (
            files_below(self.path, origin.files) if origin.files is not None else None
        )

    def datasets(
        self, stream: AskedStream, topics: Sequence[str]
    ) -> tuple[Dataset, ...]:
        """The folders of the stream's files as datasets."""
        folders = dict.fromkeys(
            folder_before(folder) for folder in stream.origin.folders
        )
        return tuple(
            dataset_at("/".join(filter(None, (self.path.rstrip("/"), folder))))
            for folder in folders
        )

    def check(self) -> str:
        """The folder. Raises `ProfileError` (`connection-unreachable`) if it is local
        and does not exist."""
        if (folder := local_folder(self.path)) is None:
            return f"{self.path}, which the first run will try"
        if not folder.is_dir():
            fix = "Create it, or correct the connection's `path` in profiles.yml."
            raise ProfileError.of(
                "connection-unreachable", f"There is no folder {self.path}.", fix=fix
            )
        return self.path

    def can_be_seen(self) -> bool:
        """Whether the folder is on the local disk."""
        return local_folder(self.path) is not None

    def state_now(self, stream: AskedStream, now: Now) -> SourceState | None:
        """The state with a sentence on the files that are skipped."""
        from lakesql.source.listed import hidden_below
        from lakesql.source.stream_state import SourceState

        return SourceState(
            stream.name, self.kind, left_out=hidden_below(self.files(stream.origin))
        )

    def is_read(
        self,
        stream: AskedStream,
        number: int,
        position: Position,
        files: StoredFiles,
        now: Now,
    ) -> bool:
        """Whether the checkpoint's lists contain all files."""
        from lakesql.source.listed import are_files_read

        return are_files_read(
            self.files(stream.origin),
            number,
            position,
            files,
            are_taken=stream.after != "leave",
        )

    @classmethod
    def is_position(cls, position: Position) -> bool:
        """Whether the position is one of Spark's file source, or none."""
        return not isinstance(position, dict) or has_mark(position, BATCHES)
