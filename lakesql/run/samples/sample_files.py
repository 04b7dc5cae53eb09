"""Takes samples of the local files that a pattern matches: rows, or the fields that
their schemas declare."""

from __future__ import annotations

import bz2
import codecs
import gzip
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BufferedIOBase
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lakesql.errors import UsageError
from lakesql.names import HIVE_NULL
from lakesql.run.samples.sample_schemas import (
    avro_file_fields,
    orc_file_fields,
    parquet_file_fields,
    parquet_rows,
)
from lakesql.stream.change_samples import DocumentRows, rows_of
from lakesql.stream.contract_text import Setting
from lakesql.stream.csv_dialect import CsvDialect, csv_value, find_dialect, read_rows
from lakesql.stream.found_contract import TypedField
from lakesql.stream.json_samples import JsonObject, parse_documents, parse_record
from lakesql.stream.seen_values import SeenValues, find_type

FILES = 20
"""How many files are read at most, spread evenly over all."""

WHOLE_BYTES = 256_000_000
"""How many bytes are read of a file whose records are not lines."""

SUFFIXES: Mapping[str, str] = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".parquet": "parquet",
    ".orc": "orc",
    ".avro": "avro",
}
"""The formats of files, by file name suffix."""

COMPRESSED = (".gz", ".gzip", ".bz2")
"""The suffixes of compressed files that can be decompressed here."""


@dataclass(frozen=True, slots=True)
class Samples:
    """A sample of a stream's records: rows as JSON values, or the fields of a schema
    with some rows; and the settings of the stream's entry found with them.

    `keys` are the parsed keys of a topic's records; `bad` describes the records that
    could not be read. `records` is how many were read if there are no rows because a
    schema declares everything. `folders` are the columns that folder names such as
    `day=2026-03-01` give.
    """

    settings: Mapping[str, Setting]
    rows: Sequence[JsonObject] = ()
    fields: Sequence[TypedField] | None = None
    keys: Sequence[Any] = ()
    bad: Sequence[str] = ()
    notes: Sequence[str] = ()
    records: int = 0
    folders: Sequence[TypedField] = ()


def sample_files(files: Sequence[Path], base: Path, format_: str, rows: int) -> Samples:
    """A sample of about `rows` rows, taken from some of the files, spread evenly.
    `base` is the folder below which folder names give columns; `format_` is '' if it is
    to be detected.

    Raises `UsageError` (`usage`, `no-samples`).
    """
    chosen = _spread(files)
    match format_ or find_format(chosen):
        case "json":
            found = _sample_json(chosen, rows)
        case "csv":
            found = _sample_csv(chosen, rows)
        case "parquet":
            fields = parquet_file_fields(chosen)
            found = Samples({"format": "parquet"}, parquet_rows(chosen, rows), fields)
        case "orc":
            found = Samples({"format": "orc"}, (), orc_file_fields(chosen), records=1)
        case "avro":
            found = Samples({"format": "avro"}, (), avro_file_fields(chosen), records=1)
        case other:
            raise UsageError.of(
                "usage",
                f"Files of format '{other}' have one column, which nothing need be found of.",
            )
    return replace(found, folders=folder_fields(files, base))


def folder_fields(files: Sequence[Path], base: Path) -> list[TypedField]:
    """The columns that folder names between `base` and the files give, such as
    `day=2026-03-01`."""
    seen: dict[str, SeenValues] = {}
    for path in files:
        for part in path.relative_to(base).parts[:-1]:
            name, equals, value = map(unquote, part.partition("="))
            if equals and name:
                null = CsvDialect(null_value=HIVE_NULL)
                seen.setdefault(name, SeenValues()).add(csv_value(value, null))
    return [TypedField(name, find_type(each).text) for name, each in seen.items()]


def _spread(files: Sequence[Path]) -> list[Path]:
    """At most `FILES` of the files that are not empty, evenly spread from the first to
    the last."""
    filled = [each for each in files if each.stat().st_size]
    if len(filled) <= FILES:
        return filled
    step = (len(filled) - 1) / (FILES - 1)
    return [filled[round(step * index)] for index in range(FILES)]


def find_format(files: Sequence[Path]) -> str:
    """The format of the files, by their names or their first bytes. Raises `UsageError`
    (`usage`) if it is unknown or they differ."""
    found = Counter(map(_format_of, files))
    if len(found) == 1 and "" not in found:
        return next(iter(found))
    if len(found) > 1:
        said = ", ".join(
            f"{times} {name or 'unknown'}" for name, times in found.most_common()
        )
        what, fix = (
            f"These files are of several formats: {said}.",
            "Name those of one: `landing/*.csv`, or --format.",
        )
    else:
        what, fix = (
            f"Nobody can tell what format {files[0].name} has.",
            "Say it: --format csv.",
        )
    raise UsageError.of("usage", what, fix=fix)


def _format_of(path: Path) -> str:
    suffixes = [
        each.lower() for each in path.suffixes if each.lower() not in COMPRESSED
    ]
    if suffixes and suffixes[-1] in SUFFIXES:
        return SUFFIXES[suffixes[-1]]
    with open_file(path) as file:
        start = file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()
    for magic, name in (
        (b"PAR1", "parquet"),
        (b"ORC", "orc"),
        (b"Obj\x01", "avro"),
        (b"{", "json"),
        (b"[", "json"),
    ):
        if start.startswith(magic):
            return name
    return ""


def open_file(path: Path) -> BufferedIOBase:
    """Open a file for reading bytes, decompressed if its suffix says so."""
    match path.suffix.lower():
        case ".gz" | ".gzip":
            return gzip.GzipFile(path)
        case ".bz2":
            return bz2.BZ2File(path)
        case _:
            return path.open("rb")


# --- JSON


def _sample_json(files: Sequence[Path], rows: int) -> Samples:
    """A sample of JSON lines; or of whole-file documents and arrays (`multiline`) if
    most lines are not JSON objects."""
    found, bad = _read_lines(files, rows)
    settings: dict[str, Setting] = {}
    if not found or len(bad) > len(found):
        whole, bad_files = _read_whole(files, rows)
        if whole:
            found, bad, settings = whole, bad_files, {"multiline": True}
    return samples_of(rows_of([(None, row) for row in found]), settings, bad)


def samples_of(
    found: DocumentRows, settings: Mapping[str, Setting], bad: Sequence[str]
) -> Samples:
    """The sample of parsed JSON documents; their envelope is `debezium` if they are
    change events."""
    said = {**settings, "envelope": "debezium"} if found.are_changes else settings
    return Samples(said, found.rows, found.fields, found.keys, bad)


def _read_lines(files: Sequence[Path], rows: int) -> tuple[list[JsonObject], list[str]]:
    found: list[JsonObject] = []
    bad: list[str] = []
    for path, share in _shares(files, rows):
        with open_file(path) as file:
            lines = (line for line in file if line.strip())
            for at, line in enumerate(islice(lines, share), 1):
                records = parse_record(line)
                found += records or ()
                bad += (
                    []
                    if records is not None
                    else [f"record {at} of {path.name} is no JSON object"]
                )
    return found, bad


def _read_whole(files: Sequence[Path], rows: int) -> tuple[list[JsonObject], list[str]]:
    found: list[JsonObject] = []
    bad: list[str] = []
    for path, share in _shares(files, rows):
        with open_file(path) as file:
            documents = parse_documents(file.read(WHOLE_BYTES))
        if documents is None:
            bad.append(f"{path.name} holds something else than JSON objects")
        found += (documents or [])[:share]
    return found, bad


def _shares(files: Sequence[Path], rows: int) -> Iterator[tuple[Path, int]]:
    """How many rows to read of each file."""
    for index, path in enumerate(files):
        yield path, max(1, rows // len(files) + (index < rows % len(files)))


# --- CSV


def _sample_csv(files: Sequence[Path], rows: int) -> Samples:
    """A sample of CSV files, with the delimiter, header, encoding and NULL text that
    fit best."""
    texts, encoding = _decode_all(files)
    dialect = find_dialect(texts)
    found: list[JsonObject] = []
    bad: list[str] = []
    for (path, share), text in zip(_shares(files, rows), texts, strict=True):
        records, wrong = read_rows(text, dialect, share)
        found += records
        bad += [
            f"record {at} of {path.name} has {values} values" for at, values in wrong
        ]
    settings: dict[str, Setting] = {"format": "csv", **csv_settings(dialect)}
    if encoding != "utf-8":
        settings["encoding"] = encoding
    return Samples(settings, found, bad=bad, notes=dialect.notes)


def csv_settings(dialect: CsvDialect) -> dict[str, Setting]:
    """The `csv` settings of a stream's entry, without those that are at their defaults;
    empty if all are."""
    said: dict[str, str | bool] = {}
    if dialect.has_header:
        said["header"] = True
    if dialect.delimiter != ",":
        said["delimiter"] = dialect.delimiter
    if dialect.decimal != ".":
        said["decimal"] = dialect.decimal
    if dialect.thousands:
        said["thousands"] = dialect.thousands
    if dialect.null_value:
        said["null_value"] = dialect.null_value
    return {"csv": said} if said else {}


CSV_BYTES = 16_000_000
"""How many bytes are read of each CSV file."""

ENCODINGS = ("utf-8", "windows-1252", "latin-1")
"""The text encodings that are tried, in this order; any bytes are valid latin-1."""


def _decode_all(files: Sequence[Path]) -> tuple[list[str], str]:
    """The texts of the files, without byte order marks, and the first encoding in which
    all of them can be read."""
    contents = []
    for path in files:
        with open_file(path) as file:
            contents.append(file.read(CSV_BYTES + 1))
    wide = [
        each.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) for each in contents
    ]
    if all(wide) and wide:
        return [_decode(each, "utf-16") for each in contents], "utf-16"
    if any(wide):
        raise UsageError.of(
            "usage",
            f"{files[wide.index(True)].name} is UTF-16, and {files[wide.index(False)].name} is not.",
            why="A stream has one `encoding`.",
            fix="Convert the files to one encoding, or infer them by themselves.",
        )
    for encoding in ENCODINGS:
        try:
            return [_decode(each, encoding) for each in contents], encoding
        except UnicodeDecodeError:
            continue
    raise AssertionError("any bytes are latin-1")


def _decode(content: bytes, encoding: str) -> str:
    """The text of a file; without its last, incomplete record if the sample ends before
    the file does."""
    is_incomplete = len(content) > CSV_BYTES
    text = (
        codecs.getincrementaldecoder(encoding)()
        .decode(content[:CSV_BYTES], final=not is_incomplete)
        .removeprefix("\ufeff")
    )
    return text[: text.rfind("\n") + 1] if is_incomplete else text
