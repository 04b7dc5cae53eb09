"""`lakesql record`: copies a sample of a real topic into a recorded folder, which is
read without a broker."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakesql.engine.spark.jars import user_cache
from lakesql.errors import LakesqlError, ProfileError, UsageError, did_you_mean, quoted
from lakesql.graph.manifest import Manifest
from lakesql.project.files import write_atomically
from lakesql.run.samples.newest_records import read_newest
from lakesql.run.samples.record_schemas import record_schemas
from lakesql.source.origin import recorded_folder
from lakesql.source.source import Source
from lakesql.stream.recording import (
    MASKABLE,
    Masking,
    find_masked,
    mask_records,
    render_record,
    unmasked_columns,
)
from lakesql.stream.stream import Stream
from lakesql.stream.types import SparkType

SECRET_FILE = "mask.key"
SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Recording:
    """The result of `record_stream`: how many records of each topic were written, the
    files, how many records were left out because they could not be masked, and the
    files of the schemas that the records name."""

    records: dict[str, int]
    files: tuple[Path, ...]
    left_out: int
    schemas: tuple[Path, ...] = ()


def record_stream(
    manifest: Manifest,
    name: str,
    rows: int,
    masks: Sequence[str],
    folder: Path,
    replace: bool,
    say: Callable[[str], None] = lambda _: None,
    schemas: Path | None = None,
) -> Recording:
    """Write the newest `rows` records of the stream's topics to `folder`, a subfolder
    per topic, oldest first.

    Columns in `masks` are masked; records that cannot be masked are left out. The
    schemas that the records name are written to the folder `schemas` first. With
    `replace` a former recording of a topic is removed. Raises `UsageError` if the
    stream has no topics that can be read (`not-a-topic`), a mask is not a column
    (`unknown-column`) or cannot be masked (`usage`, `wrong-type`), or there is a
    recording and `replace` is not set (`recording-exists`); and what asking the broker
    and the registry raises.
    """
    stream, connection = _find_stream(manifest, name)
    home = user_cache(os.environ)
    masking = (
        Masking(_masked_types(stream, masks), _read_secret(home), stream.is_feed)
        if masks
        else None
    )

    if names := unmasked_columns(stream, masks):
        options = " ".join(f"--mask {name}" for name in names)
        are = "are" if len(names) > 1 else "is"
        say(
            f"{quoted(names)} of stream {name} {are} sensitive, and recorded as read: {options} masks that."
        )

    def check(topics: Sequence[str]) -> None:
        if not replace:
            _check_empty(folder / recorded_folder(topic) for topic in topics)

    newest = read_newest(connection, stream.origin, rows, stream.place, check, say)
    if newest is None:
        raise _no_topic(manifest, stream)
    found = newest.records
    folders = {topic: folder / recorded_folder(topic) for topic in newest.topics}
    lines: dict[str, list[str]] = {topic: [] for topic in newest.topics}
    counts: Counter[str] = Counter()
    for record in mask_records(found, masking) if masking else found:
        lines[record.topic].append(
            render_record(record, stream.record_format.is_document) + "\n"
        )
        counts[record.topic] += 1
    taken = (
        tuple(record_schemas(manifest, stream, found, schemas))
        if stream.registry and schemas
        else ()
    )
    file = time.strftime("recorded-%Y%m%dT%H%M%SZ.jsonl", time.gmtime())
    written = tuple(
        _write(folders[topic], file, each) for topic, each in lines.items() if each
    )
    if replace:
        for topic in (topic for topic, each in lines.items() if not each):
            _remove_but(folders[topic], None)
    return Recording(dict(counts), written, len(found) - counts.total(), taken)


def _find_stream(manifest: Manifest, name: str) -> tuple[Stream, Source]:
    if name not in manifest.streams:
        fix = did_you_mean(name, manifest.streams)
        raise UsageError.of("unknown-stream", f"There is no stream '{name}'.", fix=fix)
    stream = manifest.streams[name]
    connection = manifest.target.connections.get(stream.connection)
    if connection is None:
        raise _no_topic(manifest, stream)
    return stream, connection


def _no_topic(manifest: Manifest, stream: Stream) -> LakesqlError:
    connection = f"{stream.connection!r} " if stream.connection else ""
    return UsageError.of(
        "not-a-topic",
        f"On target '{manifest.target.name}' the stream '{stream.name}' is not read from a broker or a queue.",
        fix=f"Name a target whose connection {connection}is one, such as of type kafka: --target prod.",
        place=stream.place,
    )


def _masked_types(
    stream: Stream, masks: Sequence[str]
) -> dict[tuple[str, ...], SparkType]:
    if not stream.record_format.is_document:
        raise UsageError.of(
            "usage",
            f"Only columns of JSON can be masked; '{stream.name}' has {stream.format}.",
        )
    types = {}
    for mask in masks:
        found = find_masked(stream, mask)
        if found is None:
            fix = did_you_mean(mask, stream.column_names)
            raise UsageError.of(
                "unknown-column",
                f"'{mask}' is no column of stream '{stream.name}'.",
                fix=fix,
            )
        if any(
            column.is_in_key and column.name.lower() == mask.partition(".")[0].lower()
            for column in stream.columns
        ):
            what = f"'{mask}' stands in the keys of records, and columns of values are masked."
            fix = "A key is masked too where it holds the value of a masked column."
            raise UsageError.of("wrong-type", what, fix=fix)
        place, kind = found
        if kind.name not in MASKABLE:
            what = f"'{mask}' is {kind.text}, which cannot be masked."
            raise UsageError.of(
                "wrong-type",
                what,
                fix=f"Types that can: {', '.join(sorted(MASKABLE))}.",
            )
        types[place] = kind
    return types


def _read_secret(home: Path) -> bytes:
    """The key of this user's masks, created at first use. It is kept so that equal
    values have equal masks in all recordings.

    Raises `ProfileError` (`not-accessible`) if the file has another length, such as
    after a partial write.
    """
    path = home / SECRET_FILE
    if not path.exists():
        home.mkdir(parents=True, exist_ok=True)
        _write_secret(path)
    secret = path.read_bytes()
    if len(secret) != SECRET_BYTES:
        raise ProfileError.of(
            "not-accessible",
            f"{path} does not hold the key that masks are made with.",
            why=f"It has {len(secret)} bytes, not {SECRET_BYTES}.",
            fix="Put it back from a copy, or remove it: masks made from then on differ from earlier ones.",
        )
    return secret


def _write_secret(path: Path) -> None:
    """Create the key's file, readable by this user alone. It appears whole; if two
    processes create it at once, the first one's stays."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-") as file:
        file.write(secret := secrets.token_bytes(SECRET_BYTES))
        file.flush()
        os.fsync(file.fileno())
        try:
            os.link(file.name, path)
        except FileExistsError:
            return
        except OSError:  # a file system without links
            with (
                contextlib.suppress(FileExistsError),
                os.fdopen(
                    os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
                ) as copy,
            ):
                copy.write(secret)


def _check_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        if any(folder.glob("*.jsonl")):
            raise UsageError.of(
                "recording-exists", f"{folder} holds a recording already."
            )


def _write(folder: Path, name: str, lines: Sequence[str]) -> Path:
    """Write the folder's only file and remove the others. Its name is new each time, so
    that a checkpoint that has read an earlier one reads it too."""
    write_atomically(folder / name, "".join(lines))
    _remove_but(folder, name)
    return folder / name


def _remove_but(folder: Path, name: str | None) -> None:
    for older in folder.glob("*.jsonl"):
        if older.name != name:
            older.unlink()
