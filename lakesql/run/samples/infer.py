"""`lakesql infer`: infers the contract of a stream from samples, as a file for review.
A run never infers one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lakesql.counts import count
from lakesql.decode import Node
from lakesql.errors import Place, UsageError, did_you_mean
from lakesql.location import local_folder
from lakesql.names import check_name
from lakesql.project.files import ProjectFiles, SourceFile, write_atomically
from lakesql.project.profiles import Target
from lakesql.project.yaml import parse_yaml
from lakesql.run.samples.newest_records import read_newest
from lakesql.run.samples.sample_files import Samples, sample_files
from lakesql.run.samples.sample_topics import NamedRegistry, sample_records
from lakesql.run.streams.found_columns import newest_recorded
from lakesql.source.kinds import project_files
from lakesql.source.local_files import local_files
from lakesql.source.origin import ORIGIN_OPTIONS
from lakesql.source.pattern import named_folder
from lakesql.source.source import Source
from lakesql.stream.contract_text import Setting, render_entry
from lakesql.stream.found_contract import (
    FoundContract,
    TypedField,
    contract_of_fields,
    contract_of_rows,
    guess_key,
    guess_sequence,
)
from lakesql.stream.recording import RawRecord


@dataclass(frozen=True, slots=True)
class AskedContract:
    """What to infer a contract from: `place` is a path or a topic of `connection`,
    which is '' for files of the project; and what the user knows of it already. `maps`
    are the dotted paths of JSON objects whose fields are keys of a map."""

    place: str
    name: str = ""
    connection: str = ""
    format: str = ""
    registry: str = ""
    rows: int = 1_000
    maps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InferredContract:
    """The text of the contract's file, the name of its stream, and how many samples it
    was inferred from, in words."""

    text: str
    name: str
    samples: str


def infer_contract(
    files: ProjectFiles,
    target: Target,
    asked: AskedContract,
    say: Callable[[str], None] = lambda _: None,
) -> InferredContract:
    """Infer a stream's entry from samples. Nothing is written.

    Raises `UsageError` (`no-samples`, `unknown-connection`, `usage`), and what asking a
    broker or a registry raises.
    """
    source = _find_source(files, target, asked)
    name = asked.name or name_of(asked.place)
    check_name(Node(name, Place("--name")))
    if source.brings == "files":
        origin, samples = "path", _look_at_files(source, asked)
    else:
        origin, samples = "topic", _look_at_topic(source, target, asked, say)
    contract = _contract_of(samples, asked, name)
    looked_at = count(len(samples.rows) or samples.records, "sample")
    if not contract.columns:
        raise UsageError.of(
            "no-samples",
            f"Nothing can be said of '{asked.place}': {looked_at} have no field.",
        )
    settings: dict[str, Setting] = (
        {"connection": asked.connection} if asked.connection else {}
    )
    settings |= {origin: asked.place, **samples.settings}
    return InferredContract(
        render_entry(name, settings, contract, _head(asked, samples, looked_at)),
        name,
        looked_at,
    )


def _find_source(files: ProjectFiles, target: Target, asked: AskedContract) -> Source:
    if not asked.connection:
        return project_files(str(files.directory))
    if asked.connection not in target.connections:
        what = f"Target '{target.name}' has no connection '{asked.connection}'."
        fix = did_you_mean(asked.connection, target.connections)
        raise UsageError.of("unknown-connection", what, fix=fix)
    found = target.connections[asked.connection]
    if found.brings == "rows":
        what = f"Connection '{asked.connection}' has neither files nor topics."
        raise UsageError.of("usage", what, fix="Its streams need no contract.")
    return found


def name_of(place: str) -> str:
    """A stream name for a path or a topic, made of the last part of it that is no
    pattern."""
    folder = (
        named_folder(place) if "/" in place or re.search(r"[*?\[{]", place) else place
    )
    last = folder.rpartition("/")[2]
    last = re.sub(
        r"(?i)(\.(json|jsonl|ndjson|csv|tsv|tab|parquet|avro|gz|gzip|bz2))+$", "", last
    )
    words = (
        re.sub(r"[^A-Za-z0-9]+", "_", last.rpartition(".")[2] or last)
        .strip("_")
        .lower()
    )
    return words if words and not words[0].isdigit() else f"stream_{words}".rstrip("_")


def _look_at_files(source: Source, asked: AskedContract) -> Samples:
    origin = ORIGIN_OPTIONS["path"](asked.place, Place("PATH"))
    (base,) = source.places
    glob, folder = source.files(origin), local_folder(base)
    if folder is None or glob is None:
        what = f"The files of '{asked.place}' are at {base}, and samples are taken of files on this machine."
        raise UsageError.of(
            "no-samples",
            what,
            fix="Copy some of them into the project, and name these.",
        )
    found = [*local_files(str(local_folder(glob)))]
    if not any(each.stat().st_size for each in found):
        what = f"No file that has anything in it is '{asked.place}' below {folder}."
        fix = "Name a file, a folder or a pattern; files and topics of a target by --connection."
        raise UsageError.of("no-samples", what, fix=fix)
    return sample_files(found, folder, asked.format, asked.rows)


def _look_at_topic(
    source: Source, target: Target, asked: AskedContract, say: Callable[[str], None]
) -> Samples:
    ORIGIN_OPTIONS["topic"](asked.place, Place("TOPIC"))
    records = _read_topic(source, asked, say)
    if not any(each.value for each in records):
        raise UsageError.of(
            "no-samples", f"Topic '{asked.place}' has no record with a value."
        )
    return sample_records(records, asked.format, _find_registry(target, asked))


def _read_topic(
    source: Source, asked: AskedContract, say: Callable[[str], None]
) -> Sequence[RawRecord]:
    """The newest records of a topic, or of its recording, oldest first."""
    origin = ORIGIN_OPTIONS["topic"](asked.place, Place("TOPIC"))
    if source.recording is not None:
        return newest_recorded(origin, source.recording, asked.rows)[-asked.rows :]
    newest = read_newest(source, origin, asked.rows, say=say)
    if newest is None:
        what = f"Connection '{asked.connection}' makes its records up: there are none to look at."
        raise UsageError.of(
            "usage", what, fix="Name a connection that has files or topics."
        )
    return newest.records


def _find_registry(target: Target, asked: AskedContract) -> NamedRegistry | None:
    """The registry that was named, or the target's only one; None if it has none or
    several."""
    names = [asked.registry] if asked.registry else [*target.registries]
    if asked.registry and asked.registry not in target.registries:
        what = f"Target '{target.name}' has no connection '{asked.registry}' of type `registry`."
        raise UsageError.of(
            "unknown-connection",
            what,
            fix=did_you_mean(asked.registry, target.registries),
        )
    return (
        NamedRegistry(names[0], target.registries[names[0]])
        if len(names) == 1
        else None
    )


def _contract_of(samples: Samples, asked: AskedContract, name: str) -> FoundContract:
    maps = [tuple(path.split(".")) for path in asked.maps]
    if samples.fields is not None and maps:
        raise UsageError.of(
            "usage",
            f"--map is given, and the schema of '{asked.place}' says which fields are maps.",
            fix="Leave it out.",
        )
    if samples.fields is not None:
        found = contract_of_fields(samples.fields, samples.rows)
    else:
        found = contract_of_rows(samples.rows, maps)
    key = guess_key(found, samples.rows, name, samples.keys)
    sequence = guess_sequence(found, samples.rows)
    return replace(_with_folders(found, samples.folders), key=key, sequence=sequence)


def _with_folders(found: FoundContract, folders: Sequence[TypedField]) -> FoundContract:
    """The contract with the columns that folder names give and the files do not
    have."""
    there = {column.field.lower() for column in found.columns}
    added = contract_of_fields(
        [each for each in folders if each.name.lower() not in there]
    )
    columns = tuple(
        replace(column, note="from the names of folders") for column in added.columns
    )
    return replace(
        found,
        columns=(*found.columns, *columns),
        left_out=(*found.left_out, *added.left_out),
    )


def _head(asked: AskedContract, samples: Samples, looked_at: str) -> list[str]:
    lines = [
        f"Found by `lakesql infer {asked.place}` in {looked_at}. Read it before you rely on it:",
        "what no sample shows, such as a value that is larger or missing, is not in it.",
    ]
    if samples.bad:
        lines.append(
            f"{count(len(samples.bad), 'record')} could not be read: {'; '.join(samples.bad[:SHOWN])}."
        )
    return [*lines, *(f"{note[:1].upper()}{note[1:]}." for note in samples.notes)]


SHOWN = 3
"""How many bad samples are quoted."""


# --- writing


def write_contract(
    files: ProjectFiles, found: InferredContract, output: Path | None, force: bool
) -> Path:
    """Write the contract's file and return its path. An existing file, or an entry for
    the same stream, is never overwritten without `force`.

    With `force`, a file that declares this stream alone is replaced. Raises
    `UsageError` (`stream-exists`).
    """
    folder = files.directory / files.settings.paths.streams
    path = output.absolute() if output is not None else folder / f"{found.name}.yml"
    for file in files.streams:
        names = _stream_names(file)
        is_own = (files.directory / file.path).absolute() == path.absolute()
        if found.name in names and not is_own:
            raise _exists(
                found.name,
                file,
                names[found.name],
                "Remove it there, or give this one another --name.",
            )
        if is_own and (not force or names.keys() != {found.name}):
            place = names.get(found.name, Place(file.path))
            fix = (
                "Compare it with `--output -`, which prints; --force replaces the file."
            )
            if names.keys() != {found.name}:
                fix = "It has other streams: print with `--output -`, and put the entry there yourself."
            raise _exists(found.name, file, place, fix)
    if path.exists() and not force:
        raise UsageError.of(
            "stream-exists", f"{path} is there already.", fix="--force replaces it."
        )
    write_atomically(path, found.text)
    return path


def _exists(name: str, file: SourceFile, place: Place, fix: str) -> UsageError:
    what = f"{file.path} is there already: stream '{name}' would be written to it."
    if place != Place(file.path):
        what = f"Stream '{name}' is declared already."
    return UsageError.of("stream-exists", what, fix=fix, place=place)


def _stream_names(file: SourceFile) -> dict[str, Place]:
    """The names of the streams that a file declares, each with its place."""
    streams = parse_yaml(file.path, file.text).get("streams")
    if streams is None or not isinstance(streams.value, tuple):
        return {}
    names = (each.get("name") for each in streams.items())
    return {str(name.value): name.place for name in names if name is not None}
