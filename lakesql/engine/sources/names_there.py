"""How the files of a stream are listed in the order of their names, after a given name,
wherever they are stored.

S3 is asked only for names after the given one, so that those before cost nothing.
Elsewhere folders are listed one by one, and only those that may contain such names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakesql.clock import epoch_ms
from lakesql.engine.spark.gateway import is_missing_file, java_class
from lakesql.location import local_folder
from lakesql.source.name_order import Folders, FoundFile, LocalFolders, NameOrder


class NamesThere(Protocol):
    """Lists a stream's files."""

    def files(self, after: str, until: str | None = None) -> Iterator[FoundFile]:
        """The files with names larger than `after` and not larger than `until`, in
        order; hidden ones included."""
        ...

    def find(self, name: str) -> FoundFile | None:
        """The file with this name; None if it does not exist."""
        ...


def names_there(session: SparkSession, order: NameOrder) -> NamesThere:
    """The listing of a stream's files, in the way that suits their storage."""
    if local_folder(order.base) is not None:
        return _InFolders(order, LocalFolders())
    place = java_class("org.apache.hadoop.fs.Path")(order.base)
    system = place.getFileSystem(session.sparkContext._jsc.hadoopConfiguration())
    if system.getClass().getSimpleName() == "S3AFileSystem":
        return _InBucket(order, system.getS3AInternals().getAmazonS3Client("lakesql"))
    return _InFolders(order, _HadoopFolders(system))


class _InFolders:
    """The files of a file system with folders."""

    def __init__(self, order: NameOrder, folders: Folders) -> None:
        self._order, self._folders = order, folders

    def files(self, after: str, until: str | None = None) -> Iterator[FoundFile]:
        """The files, listed folder by folder; like `NamesThere.files`."""
        return self._order.files(self._folders, after, until)

    def find(self, name: str) -> FoundFile | None:
        """The file with this name, which alone is looked up."""
        folder, _, own = self._order.path_of(name).rpartition("/")
        try:
            return FoundFile(
                name, *self._folders.look_up(folder, own), self._order.is_hidden(name)
            )
        except FileNotFoundError:
            return None


class _HadoopFolders:
    """Folders as Hadoop lists them."""

    def __init__(self, system: Any) -> None:
        self._system = system
        self._stats: dict[str, tuple[int, int]] = {}

    def children(self, folder: str, after: str) -> list[str]:
        """The names in a folder that are not smaller than `after`, in order. Their
        sizes and times are kept for `stat`."""
        try:
            found = self._system.listStatus(
                java_class("org.apache.hadoop.fs.Path")(folder)
            )
        except Py4JJavaError as error:
            if is_missing_file(error):
                return []
            raise
        self._stats = {}
        names = list[str]()
        for status in found:
            name = str(status.getPath().getName())
            if status.isDirectory():
                names.append(f"{name}/")
                continue
            names.append(name)
            self._stats[name] = int(status.getLen()), int(status.getModificationTime())
        return sorted(name for name in names if name >= after)

    def stat(self, folder: str, name: str) -> tuple[int, int]:
        """The size and the time of a file in the folder that `children` listed last."""
        return self._stats[name]

    def look_up(self, folder: str, name: str) -> tuple[int, int]:
        """The present size and time of a file in any folder. Raises
        `FileNotFoundError`."""
        try:
            found = self._system.getFileStatus(
                java_class("org.apache.hadoop.fs.Path")(f"{folder}/{name}")
            )
        except Py4JJavaError as error:
            if is_missing_file(error):
                raise FileNotFoundError(name) from None
            raise
        return int(found.getLen()), int(found.getModificationTime())


PAGE = 1000
"""How many names S3 returns in one answer at most."""


class _InBucket:
    """Objects of a bucket, which S3 lists in the order of their keys."""

    def __init__(self, order: NameOrder, client: Any) -> None:
        self._order, self._client = order, client
        place = urlsplit(order.base)
        self._bucket = place.netloc
        base = place.path.strip("/")
        self._base = f"{base}/" if base else ""

    def files(self, after: str, until: str | None = None) -> Iterator[FoundFile]:
        """The files, listed page by page; like `NamesThere.files`."""
        root = f"{self._base}{self._order.root}/" if self._order.root else self._base
        for key, size_bytes, modified_ms in self._objects(
            root, f"{self._base}{after}" if after else ""
        ):
            name = key.removeprefix(self._base)
            if until is not None and name > until:
                return
            if not key.endswith("/") and self._order.means(name):
                yield FoundFile(
                    name, size_bytes, modified_ms, self._order.is_hidden(name)
                )

    def find(self, name: str) -> FoundFile | None:
        """The object with this name; only the first key with it as prefix is
        requested."""
        key = f"{self._base}{name}"
        for found, size_bytes, modified_ms in self._objects(key, "", 1):
            if found == key:
                return FoundFile(
                    name, size_bytes, modified_ms, self._order.is_hidden(name)
                )
        return None

    def _objects(
        self, prefix: str, after: str, most: int = PAGE
    ) -> Iterator[tuple[str, int, int]]:
        request = java_class(
            "software.amazon.awssdk.services.s3.model.ListObjectsV2Request"
        )
        token = None
        while True:
            asked = request.builder().bucket(self._bucket).prefix(prefix).maxKeys(most)
            asked = asked.startAfter(after) if after and token is None else asked
            asked = asked.continuationToken(token) if token is not None else asked
            page = self._client.listObjectsV2(asked.build())
            yield from _read_page(page)
            token = page.nextContinuationToken()
            if most == 1 or token is None or not page.isTruncated():
                return


_OBJECT = re.compile(
    r"S3Object\(Key=(.*?), LastModified=([^,]+), .*?Size=(\d+)", re.DOTALL
)
"""An object in the SDK's text."""


def _read_page(page: Any) -> Iterator[tuple[str, int, int]]:
    """The key, size and time of each object, parsed from one text, as a call of Java
    takes as long as parsing a hundred objects. If a key contains what separates the
    parts of the text, each object is asked instead."""
    contents = page.contents()
    text, size = str(contents.toString()), int(contents.size())
    found = [*_OBJECT.finditer(text)]
    if (
        len(found)
        == size
        == text.count(", LastModified=")
        == text.count("S3Object(Key=")
    ):
        for each in found:
            yield each[1], int(each[3]), epoch_ms(datetime.fromisoformat(each[2]))
        return
    for index in range(size):
        one = contents.get(index)
        yield str(one.key()), int(one.size()), int(one.lastModified().toEpochMilli())
