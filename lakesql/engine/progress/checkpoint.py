"""How Spark's checkpoint of a query is read, created and moved aside, wherever it is
stored. Spark's files are never changed in place.

`stored.py` describes the files and how they are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakesql.engine.spark.gateway import is_missing_file, java_class
from lakesql.progress.state import Checkpoint, Origin
from lakesql.progress.stored import ORIGIN_FILE, VOID, LocalFiles
from lakesql.project.files import write_atomically
from lakesql.source.kinds import SOURCES
from lakesql.source.known_files import dump_seeded
from lakesql.source.stream_state import SeededSource, SeenFile, spark_position


class CheckpointFiles:
    """The files of one checkpoint. A written file appears completely, or not at all."""

    def __init__(self, session: SparkSession, folder: str) -> None:
        self.folder = folder
        path = self._path("")
        self._conf = session._jsparkSession.sessionState().newHadoopConf()
        self._system = path.getFileSystem(self._conf)
        is_local = self._system.getScheme() == "file"
        self._local = Path(path.toUri().getPath()) if is_local else None
        """The folder on this machine, which is read without Java; None if it is
        elsewhere."""

    def read(self, name: str) -> str | None:
        """The text of a file; None if it does not exist."""
        if self._local is not None:
            return LocalFiles(self._local).read(name)
        try:
            stream = self._system.open(self._path(name))
        except Py4JJavaError as error:
            if is_missing_file(error):
                return None
            raise
        try:
            return str(
                java_class("org.apache.commons.io.IOUtils").toString(stream, "UTF-8")
            )
        finally:
            stream.close()

    def names(self, name: str = "") -> list[str]:
        """The names in a folder of the checkpoint, or in the checkpoint itself; none if
        it does not exist."""
        if self._local is not None:
            return LocalFiles(self._local).names(name)
        try:
            found = self._system.listStatus(self._path(name))
        except Py4JJavaError as error:
            if is_missing_file(error):
                return []
            raise
        return [str(status.getPath().getName()) for status in found]

    def write(self, name: str, text: str) -> None:
        """Write a file, replacing one of that name."""
        if self._local is not None:
            file = self._local / name
            file.parent.mkdir(parents=True, exist_ok=True)
            # Hadoop's checksum, which exists if Spark wrote the file
            (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
            write_atomically(file, text)
            return
        stream = self._create(self._path(name))
        try:
            stream.write(bytearray(text, "utf-8"))
        finally:
            stream.close()

    def create(self, name: str, text: str) -> bool:
        """Write a file unless one of that name exists, which the file system
        guarantees. Returns whether it was written.

        Local disks, HDFS and S3 can guarantee that. With other file systems two
        processes may both be told yes.
        """
        if self._local is not None:
            return _create_local(self._local / name, text)
        wanted = self._system.createFile(self._path(name)).recursive().overwrite(False)
        try:
            stream = wanted.opt("fs.option.create.conditional.overwrite", True).build()
            stream.write(bytearray(text, "utf-8"))
            stream.close()
        except Py4JJavaError as error:
            if any(
                word in str(error)
                for word in (
                    "FileAlreadyExists",
                    "RemoteFileChanged",
                    "PreconditionFailed",
                )
            ):
                return False
            raise
        return True

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._system.delete(self._path(name), False)

    def remove_all(self) -> None:
        """Remove the whole checkpoint, if it exists."""
        self._system.delete(self._path(""), True)

    def move_to(self, folder: str) -> None:
        """Rename the whole checkpoint. In object stores, which have no folders, its
        files are copied first.

        Then the file with its id is removed first, as a folder without it is no
        checkpoint: a move that was interrupted is made again, or was complete.
        """
        if self._system.getScheme() in _OBJECT_STORES:
            self._copy_to(folder)
            self.remove("metadata")
            self.remove_all()
            return
        if not self._system.rename(self._path(""), java_class(_PATH)(folder)):
            raise OSError(f"{self.folder} cannot be renamed to {folder}")

    def _copy_to(self, folder: str) -> None:
        path, copy = java_class(_PATH), java_class("org.apache.hadoop.fs.FileUtil").copy
        base, files = (
            self._path("").toUri().getPath().rstrip("/"),
            self._system.listFiles(self._path(""), True),
        )
        while files.hasNext():
            file = files.next().getPath()
            name = file.toUri().getPath().removeprefix(f"{base}/")
            copy(
                self._system,
                file,
                self._system,
                path(f"{folder}/{name}"),
                False,
                True,
                self._conf,
            )

    def _create(self, path: Any) -> Any:
        """A stream whose file appears when it is closed: object stores work like that;
        elsewhere Spark renames a temporary file."""
        if self._system.getScheme() in _OBJECT_STORES:
            return self._system.create(path, True)
        return java_class(_FILE_MANAGER)(path, self._conf).createAtomic(path, True)

    def _path(self, name: str) -> Any:
        return java_class(_PATH)(f"{self.folder}/{name}" if name else self.folder)


def _create_local(file: Path, text: str) -> bool:
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}.{uuid4()}")
    beside.write_text(text, "utf-8")
    try:
        file.hardlink_to(beside)  # unlike a rename, it fails where there is one
    except FileExistsError:
        return False
    finally:
        beside.unlink()
    return True


_PATH = "org.apache.hadoop.fs.Path"
_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"

_OBJECT_STORES = ("s3a", "s3", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "oss")


def create_checkpoint(
    files: CheckpointFiles, origin: Origin, seeded: Sequence[SeededSource] = ()
) -> str:
    """Create a checkpoint that Spark considers to have done its first batch, with the
    positions of `seeded`; returns its id.

    Without `seeded`, no batch is done in it. An existing checkpoint is moved aside. The
    id is written last: a checkpoint without one is created again.
    """
    move_aside(files)
    id_ = str(uuid4())
    save_origin(files, origin)
    if any(found.position is not None for found in seeded):
        for index, source in enumerate(seeded):
            if source.seen:
                lines = [
                    _dump({"path": f.path, "timestamp": f.modified_ms, "batchId": 0})
                    for f in source.seen
                ]
                files.write(f"sources/{index}/0", "\n".join(["v1", *lines]))
            if source.listed is not None:
                files.write(*dump_seeded(source.listed))
        metadata = _dump({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}})
        positions = [
            VOID if found.position is None else _dump(spark_position(found.position))
            for found in seeded
        ]
        files.write("offsets/0", "\n".join(["v1", metadata, *positions]))
        files.write("commits/0", 'v1\n{"nextBatchWatermarkMs":0}')
    files.write("metadata", _dump({"id": id_}))
    return id_


def forget_start(files: CheckpointFiles, checkpoint: Checkpoint) -> None:
    """Make sources that record in the checkpoint where they began, begin at its current
    position instead.

    What was at the old position may be gone by now.
    """
    for index, position in enumerate(
        checkpoint.positions.get(checkpoint.newest_committed, ())
    ):
        for start in filter(
            None, (kind.noted_start(position) for kind in SOURCES.values())
        ):
            name, text = f"sources/{index}/offsets/0", _dump(start)
            if files.read(name) not in (None, text):
                files.write(name, text)


def move_aside(files: CheckpointFiles) -> str | None:
    """Rename the checkpoint's folder if it has files; returns the new name, None if it
    has none."""
    if not files.names():
        return None
    aside = f"{files.folder}.{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    files.move_to(aside)
    return aside


def save_origin(files: CheckpointFiles, origin: Origin) -> None:
    """Write what lakesql records about the checkpoint."""
    files.write(ORIGIN_FILE, json.dumps(asdict(origin), indent=1))


def rename_seen(
    files: CheckpointFiles, source: int, rename: Callable[[str], str | None]
) -> None:
    """Replace the URIs of files that a source has read in all lists of the checkpoint;
    an entry for which `rename` returns None is removed.

    The lists are written one after the other; calling it again completes an interrupted
    call.
    """
    for name in files.names(f"sources/{source}"):
        if not name.removesuffix(".compact").isdecimal():
            continue
        version, *lines = (files.read(f"sources/{source}/{name}") or "").splitlines()
        entries = [json.loads(line) for line in lines]
        renamed = [
            {**entry, "path": path}
            for entry in entries
            if (path := rename(entry["path"])) is not None
        ]
        if renamed != entries:
            files.write(
                f"sources/{source}/{name}", "\n".join([version, *map(_dump, renamed)])
            )


def file_exists(session: SparkSession, file: SeenFile) -> bool:
    """Whether the file still exists."""
    path = java_class(_PATH)(java_class("java.net.URI")(file.path))
    return bool(
        path.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()).exists(path)
    )


def modified_ms(session: SparkSession, file: SeenFile) -> int | None:
    """The current modification time of the file; None if it does not exist."""
    path = java_class(_PATH)(java_class("java.net.URI")(file.path))
    system = path.getFileSystem(session.sparkContext._jsc.hadoopConfiguration())
    return (
        int(system.getFileStatus(path).getModificationTime())
        if system.exists(path)
        else None
    )


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
