"""`lakesql test --record`: writes a unit test from the first records of recorded
streams and the rows that the model makes of them now."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from lakesql.errors import ProjectError, UsageError
from lakesql.graph.manifest import Manifest
from lakesql.graph.read_file import parse_declarations
from lakesql.project.files import SourceFile, write_atomically
from lakesql.run.streams.found_columns import first_recorded
from lakesql.stream.recording import Digits, RawRecord
from lakesql.stream.stream import Stream
from lakesql.unit.duck_types import NeedsSparkError
from lakesql.unit.fixture_values import read_raw
from lakesql.unit.fixtures import Row, read_written
from lakesql.unit.outcomes import Failed, NeedsSpark, Outcome, Passed, plain_row
from lakesql.unit.run import run_tests

_HEAD = "# Written by `lakesql test --record`: the rows that the model makes now. Check them before you commit this file.\n"


@dataclass(frozen=True, slots=True)
class RecordedTest:
    """The unit test that was written: its file, and how many records, rows and dead
    letters it has.

    `left_out` has the reason for each record that is not in it: only Spark can parse
    it.
    """

    path: str
    records: int
    rows: int
    dead_letters: int
    left_out: Sequence[str]


def record_test(manifest: Manifest, model: str, name: str, number: int) -> RecordedTest:
    """Write `unit_tests_<name>.yml` beside the models: a test of the first `number`
    records of each stream.

    Each stream's records are in a batch of their own; joined tables are empty. Raises
    `UsageError` (`test-not-recorded`) before anything is written.
    """
    path = f"{manifest.settings.paths.models}/unit_tests_{re.sub(r'[^a-z0-9]+', '_', name.lower()).strip('_')}.yml"
    if (manifest.directory / path).exists():
        raise _refusal(
            f"There is a file {path} already.",
            "Choose another name, or remove the file.",
        )
    if any(test.name == name and test.model == model for test in manifest.unit_tests):
        raise _refusal(
            f"Model '{model}' has a unit test '{name}' already.", "Choose another name."
        )
    streams = [
        manifest.streams[it.name]
        for it in manifest.models[model].facts.streams
        if it.name in manifest.streams
    ]
    records = {
        stream: _first_records(manifest, stream, number)
        for stream in dict.fromkeys(streams)
    }
    if not any(records.values()):
        raise _refusal(
            f"Model '{model}' reads no stream of which something is recorded.",
            "Record one by hand.",
        )
    left_out: list[str] = []
    given = {
        stream.name: list(_items(stream, found, left_out))
        for stream, found in records.items()
    }
    if not any(given.values()):
        raise _refusal(
            "All of these records are known to Spark alone.",
            "With more of them it may not be: --records.",
        )
    draft = _Draft(path, name, model, given)
    outcome = _run(manifest, draft)
    if isinstance(outcome, NeedsSpark):  # perhaps of the clock, which stands still then
        newest = max(
            record.timestamp_ms for found in records.values() for record in found
        )
        draft = replace(
            draft,
            now=datetime.fromtimestamp(newest / 1000, UTC)
            .isoformat()
            .replace("+00:00", "Z"),
        )
        outcome = _run(manifest, draft)
    match outcome:
        case NeedsSpark(reason):
            raise _refusal(
                f"What the model makes of these records is known to Spark alone: {reason}."
            )
        case Failed(what=what) if what:
            raise _refusal(what, "With other records it may not: --records.")
        case Failed(differences):
            made = {each.what: [odd.row for odd in each.rows] for each in differences}
            draft = replace(
                draft,
                rows=made.get("rows", []),
                dead_letters=made.get("dead letters", []),
            )
        case Passed():
            pass
    if not isinstance(_run(manifest, draft), Passed):
        raise _refusal(
            "A row that the model makes has a value that cannot be written into a test."
        )
    write_atomically(manifest.directory / path, draft.text)
    return RecordedTest(
        path,
        sum(map(len, given.values())),
        len(draft.rows),
        len(draft.dead_letters),
        left_out,
    )


def _refusal(
    what: str, fix: str = "Write the test by hand (docs/unit-tests.md)."
) -> UsageError:
    return UsageError.of("test-not-recorded", what, fix=fix)


@dataclass(frozen=True, slots=True)
class _Draft:
    """The test that is to be written. `given` has the YAML text of each record, by
    stream."""

    path: str
    name: str
    model: str
    given: Mapping[str, Sequence[str]]
    now: str = ""
    rows: Sequence[Row] = ()
    dead_letters: Sequence[Row] = ()

    @property
    def text(self) -> str:
        lines = [
            "unit_tests:",
            f"  - name: {_flow(self.name)}",
            f"    model: {self.model}",
        ]
        lines += [f"    overrides: {{now: {self.now}}}"] if self.now else []
        lines.append("    given:")
        for before, (stream, items) in enumerate(self.given.items()):
            lines += [
                f"      - stream: {stream}",
                "        batches:",
                *["          - []"] * before,
            ]
            lines += [
                f"          {'-' if at == 0 else ' '} - {item}"
                for at, item in enumerate(items)
            ]
            lines += [] if items else ["          - []"]
        lines += ["    expect:", *_listed("rows", self.rows)]
        lines += _listed("dead_letters", self.dead_letters) if self.dead_letters else []
        return _HEAD + "\n".join(lines) + "\n"


def _listed(what: str, rows: Sequence[Row]) -> list[str]:
    if not rows:
        return [f"      {what}: []"]
    return [
        f"      {what}:",
        *sorted(f"        - {_flow(plain_row(row))}" for row in rows),
    ]


def _run(manifest: Manifest, draft: _Draft) -> Outcome:
    try:
        declared = parse_declarations(SourceFile(draft.path, draft.text))
        if declared.problems:
            raise ProjectError(declared.problems)
        (result,) = run_tests(manifest, declared.unit_tests)
    except ProjectError as error:
        found = [
            problem.what
            for problem in error.problems
            if problem.place and problem.place.path == draft.path
        ]
        if not found:
            raise
        raise _refusal(f"The test cannot be written: {' '.join(found)}") from error
    return result.outcome


def _first_records(manifest: Manifest, stream: Stream, number: int) -> list[RawRecord]:
    connection = manifest.target.connections.get(stream.connection)
    folder = connection.recording if connection is not None else None
    if folder is None:
        fix = "Choose a target whose connection is of type recorded: -t. `lakesql record` fills its folder."
        raise _refusal(
            f"Stream '{stream.name}' is not recorded on target '{manifest.target.name}'.",
            fix,
        )
    return first_recorded(stream, folder, number)


def _items(
    stream: Stream, records: Iterable[RawRecord], left_out: list[str]
) -> Iterator[str]:
    """The YAML texts of the records: a mapping of columns if it parses to the same
    values as the record, else the record's text. The reasons of records that are left
    out are added to `left_out`."""
    for record in records:
        try:
            yield _item(stream, record.value)
        except NeedsSparkError as error:
            left_out.append(str(error))


def _item(stream: Stream, value: bytes | None) -> str:
    if value is None:
        return "null"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise NeedsSparkError("a record that is no text in UTF-8") from None
    if not stream.record_format.is_document:
        return json.dumps(text, ensure_ascii=False)
    read = read_raw(text, stream)
    try:
        found = json.loads(text, parse_float=Digits)
        names = {column.field: column.name for column in stream.columns}
        mapping = _flow(
            {names[key]: each for key, each in found.items() if key in names}
        )
        if read_written(f"[{mapping}]", stream) == [read]:
            return mapping
    except (NeedsSparkError, ProjectError, ValueError, AttributeError):
        pass
    return json.dumps(text, ensure_ascii=False)  # a text is a record as it is


def _flow(value: object) -> str:
    """A value as YAML in one line. A number with an exponent gets a dot, as YAML reads
    it as a string without one."""
    match value:
        case Digits():
            return str(value)
        case float():
            number, is_long, exponent = repr(value).partition("e")
            return (
                f"{number}{'' if '.' in number else '.0'}e{exponent}"
                if is_long
                else number
            )
        case dict():
            return (
                "{"
                + ", ".join(
                    f"{_key(str(key))}: {_flow(each)}" for key, each in value.items()
                )
                + "}"
            )
        case list():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case str() if (
            re.fullmatch(r"[A-Za-z][A-Za-z_]*( [A-Za-z_]+)*", value)
            and value.lower() not in _WORDS
        ):
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return (
        name
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in _WORDS
        else json.dumps(name)
    )


_WORDS = frozenset(
    {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"}
)
"""Texts that YAML reads as other values than strings."""
