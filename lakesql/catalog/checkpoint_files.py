"""How files of checkpoints are read without Spark: those on this machine, and those in
a bucket of S3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from lakesql.catalog.connect import open_s3
from lakesql.location import local_folder
from lakesql.progress.stored import LocalFiles
from lakesql.project.catalog import is_s3
from lakesql.project.profiles import Catalog
from lakesql.source.stream_state import StoredFiles


def open_stored(catalog: Catalog, folder: str) -> StoredFiles | None:
    """A reader of the files of a checkpoint; None if only Spark can reach them. S3 is
    accessed by the catalog's settings.

    The reader raises `OSError` if a file cannot be read.
    """
    if is_s3(folder):
        parts = urlsplit(folder)
        return _S3Files(open_s3(catalog, parts.netloc), f"{parts.netloc}{parts.path}")
    local = local_folder(folder)
    return LocalFiles(local) if local is not None else None


@dataclass(frozen=True, slots=True)
class _S3Files:
    """A reader of a checkpoint's files in S3. `storage` is pyarrow's file system;
    `folder` begins with the bucket."""

    storage: Any
    folder: str

    def read(self, name: str) -> str | None:
        """The text of a file, None if there is none."""
        try:
            with self.storage.open_input_stream(f"{self.folder}/{name}") as file:
                return str(file.read(), "utf-8")
        except FileNotFoundError:
            return None

    def names(self, name: str = "") -> list[str]:
        """The names in a folder of the checkpoint, by default in the checkpoint itself;
        empty if it does not exist."""
        from pyarrow.fs import FileSelector

        within = f"{self.folder}/{name}" if name else self.folder
        return [
            found.base_name
            for found in self.storage.get_file_info(
                FileSelector(within, allow_not_found=True)
            )
        ]
