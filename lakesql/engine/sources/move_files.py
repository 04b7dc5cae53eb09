"""How a file that was read is archived or deleted: never a file that was changed since,
and never over another one."""

from __future__ import annotations

import errno
import filecmp
import os
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakesql.engine.spark.gateway import is_missing_file, java_class
from lakesql.location import local_folder
from lakesql.source.pattern import without_scheme
from lakesql.source.stream_state import SeenFile

S3_SYSTEM = "S3AFileSystem"
"""Hadoop's class for buckets of S3."""

_NO_LINKS = (
    errno.EXDEV,
    errno.EPERM,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EMLINK,
)
"""Why a file system cannot make a second name of a file: the two are on different
disks, or it has no such names."""


def archived_place(base: str, archive: str, path: str) -> str | None:
    """The path or URL to which the file at `path` is archived, below its connection's
    folder or URL; None if the file is not below that."""
    own = without_scheme(base).rstrip("/")
    if not path.startswith(f"{own}/"):
        return None
    return f"{base.rstrip('/')}/{archive}/{path.removeprefix(f'{own}/')}"


def delete_file(session: SparkSession, file: SeenFile) -> bool:
    """Delete a file if it has not changed since it was read; returns whether it was
    there unchanged. Raises `OSError`."""
    if local_folder(file.path) is not None:
        path = Path(file.decoded)
        if not _is_as_read(path, file):
            return False
        path.unlink(missing_ok=True)
        return True
    system, place = _in_hadoop(session, file.path)
    if not _is_as_read_there(system, place, file):
        return False
    if not _asked(
        lambda: system.delete(place, False), f"{file.path} cannot be deleted"
    ):
        raise OSError(f"{file.path} cannot be deleted")
    return True


def move_file(session: SparkSession, file: SeenFile, target: str) -> bool:
    """Move a file to the path or URL `target` if it has not changed since it was read;
    returns whether it was there unchanged. Raises `OSError`.

    If the target exists and has the same content, as after an interrupted move, the
    file is only removed. If it has other content, the file gets a name with the time of
    its last change.
    """
    if local_folder(file.path) is not None:
        found = local_folder(target)
        assert found is not None, "an archive is below the connection's own folder"
        return move_here(Path(file.decoded), file, found)
    return move_there(session, file, target)


def move_here(path: Path, file: SeenFile, target: Path) -> bool:
    """Move a local file; like `move_file`."""
    if not _is_as_read(path, file):
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    for name in _names(target.name, file.modified_ms):
        place = target.with_name(name)
        try:
            _put(path, place)
        except FileExistsError:
            if not filecmp.cmp(path, place, shallow=False):
                continue
        if _is_as_read(path, file):  # what has come in its place meanwhile was not read
            path.unlink(missing_ok=True)
        return True
    raise OSError(f"{target} is there, and holds something else")


def _put(path: Path, place: Path) -> None:
    """Give a file a second name, or make a copy that appears there complete. Raises
    `FileExistsError`."""
    try:
        os.link(path.resolve(), place)
        return
    except OSError as error:
        if isinstance(error, FileExistsError) or error.errno not in _NO_LINKS:
            raise
    if place.exists():
        raise FileExistsError(place)
    beside = place.with_name(f".{place.name}.{uuid4()}")
    try:
        shutil.copy2(path, beside)
        with beside.open("rb") as copied:
            os.fsync(copied.fileno())
        beside.rename(place)
    finally:
        beside.unlink(missing_ok=True)


def _names(name: str, modified_ms: int) -> tuple[str, str]:
    """The name of a file, and the one to use if that exists:
    `1.1772400000000.json.gz`."""
    stem, *endings = name.split(".")
    return name, ".".join([stem, str(modified_ms), *endings])


def _is_as_read(path: Path, file: SeenFile) -> bool:
    try:
        return path.stat().st_mtime_ns // 1_000_000 == file.modified_ms
    except (FileNotFoundError, NotADirectoryError):
        return False


def move_there(session: SparkSession, file: SeenFile, target: str) -> bool:
    """Move a file through Hadoop; like `move_file`. In an object store this is a copy,
    and then a delete."""
    system, place = _in_hadoop(session, file.path)
    if not _is_as_read_there(system, place, file):
        return False
    folder, _, last = target.rpartition("/")
    path, why = (
        java_class("org.apache.hadoop.fs.Path"),
        f"{file.path} cannot be moved to {target}",
    )
    if not _is_s3(system):  # where keys have no folders
        _asked(lambda: system.mkdirs(path(folder)), why)
    for name in _names(last, file.modified_ms):
        wanted = path(f"{folder}/{name}")
        if not _asked(lambda wanted=wanted: system.exists(wanted), why):
            if not _asked(lambda wanted=wanted: system.rename(place, wanted), why):
                raise OSError(why)
            return True
        if _asked(lambda wanted=wanted: _is_same(system, place, wanted), why):
            return bool(_asked(lambda: system.delete(place, False), why))
    raise OSError(f"{target} is there, and holds something else")


def _is_same(system: Any, one: Any, other: Any) -> bool:
    if system.getFileStatus(one).getLen() != system.getFileStatus(other).getLen():
        return False
    left, right = system.open(one), system.open(other)
    try:
        return bool(
            java_class("org.apache.commons.io.IOUtils").contentEquals(left, right)
        )
    finally:
        left.close()
        right.close()


def _is_as_read_there(system: Any, place: Any, file: SeenFile) -> bool:
    try:
        modified_ms = int(system.getFileStatus(place).getModificationTime())
    except Py4JJavaError as error:
        if is_missing_file(error):
            return False
        raise OSError(
            f"{file.path} cannot be looked at: {error.java_exception}"
        ) from None
    return modified_ms == file.modified_ms or (
        _is_s3(system) and is_same_second(modified_ms, file.modified_ms)
    )


def is_same_second(asked_ms: int, listed_ms: int) -> bool:
    """Whether two times of an S3 object are the same: some services, such as MinIO,
    list milliseconds, but all return whole seconds when asked for one object."""
    return asked_ms % 1000 == 0 and asked_ms == listed_ms // 1000 * 1000


def _is_s3(system: Any) -> bool:
    return str(system.getClass().getSimpleName()) == S3_SYSTEM


def _asked(ask: Any, why: str) -> Any:
    """The result of a call of Hadoop. Raises `OSError` with `why` if it fails."""
    try:
        return ask()
    except Py4JJavaError as error:
        raise OSError(f"{why}: {error.java_exception}") from None


def _in_hadoop(session: SparkSession, uri: str) -> tuple[Any, Any]:
    place = java_class("org.apache.hadoop.fs.Path")(java_class("java.net.URI")(uri))
    return place.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()), place
