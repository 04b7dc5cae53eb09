"""A source of the project's own: a file `sources/<kind>.py`, which profiles.yml names
as the `type` of a connection.

It is code, while a model is text. So only what reads records runs it: `parse`,
`compile`, `plan` and `ls` know only its name and its options as written.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from lakesql.decode import Node, decode
from lakesql.errors import LakesqlError, Place, ProfileError, explain_missing
from lakesql.source.log import (
    Log,
    LogExpiredError,
    LogPage,
    LogPlace,
    LogPlaces,
    LogSource,
)
from lakesql.source.source import AskedStream, Looked, Start

if TYPE_CHECKING:
    from lakesql.source.stream_state import SourceState

FOLDER = "sources/"
"""The prefix of such a connection's `type`: the folder of the project with its file."""


@dataclass(frozen=True, slots=True)
class ProjectSource(LogSource):
    """A connection whose source is a file of the project. `options` are its keys,
    decoded by the class in the file."""

    file: str = ""
    options: Node | None = field(default=None, compare=False, hash=False)
    directory: Path = Path()

    kind: ClassVar[str] = "project"
    label: ClassVar[str] = "a source of the project"
    tells_ends: ClassVar[bool] = False
    may_lack_offsets: ClassVar[bool] = True

    def resolved(self, directory: Path) -> Self:
        """The source with the project's folder, which contains its file."""
        return replace(self, directory=directory)

    def check(self) -> str:
        """The file, in words. Raises `ProfileError` (`source-missing`) if it does not
        exist."""
        self._path()
        return f"{self.file}, whose code runs when records are read"

    def loaded(self) -> LogSource:
        """The source that the file's class makes of the options. Raises `ProfileError`
        (`source-missing`, `bad-source`)."""
        kind = _load(self._path(), self.file)
        options = self.options or Node({}, Place(self.file))
        return decode(
            options,
            kind,
            what=f"a connection of {self.file}",
            ignore=frozenset({"type"}),
        )

    def open(self, topic: str, owner: str) -> Log:
        """The topic's log, opened by the class in the file. Unexpected exceptions of
        its code become errors of the file."""
        with _explained(self.file):
            return _ProjectLog(self.loaded().open(topic, owner), self.file)

    def state_of(self, stream: AskedStream) -> SourceState:
        """The state of the stream, found by the class in the file."""
        with _explained(self.file):
            return self.loaded().state_of(stream)

    def reach(self, streams: Sequence[AskedStream]) -> str:
        """The file, in words; its code is not run."""
        return self.check()

    def look(self, name: str, streams: Sequence[AskedStream]) -> Looked:
        """No state, as looking would run the project's code."""
        return Looked(
            {},
            (
                f"Topics of connection '{name}' are not looked at: that would run {self.file}.",
            ),
        )

    def can_be_seen(self) -> bool:
        """False, as looking would run the project's code."""
        return False

    def _path(self) -> Path:
        path = self.directory / self.file
        if not path.is_file():
            raise ProfileError.of(
                "source-missing", f"There is no file {self.file} in the project."
            )
        return path


class _ProjectLog(Log):
    """A topic of a project's source; its errors name the file."""

    def __init__(self, log: Log, file: str) -> None:
        self._log, self._file = log, file

    @property
    def id(self) -> str:
        with _explained(self._file):
            return self._log.id

    def starts(self, start: Start) -> LogPlaces:
        with _explained(self._file):
            return self._log.starts(start)

    def partitions(self, places: LogPlaces) -> LogPlaces:
        with _explained(self._file):
            return self._log.partitions(places)

    def ends(self, places: LogPlaces) -> LogPlaces:
        with _explained(self._file):
            return self._log.ends(places)

    def read(
        self, partition: str, place: LogPlace, until: LogPlace, limit: int
    ) -> Iterator[LogPage]:
        with _explained(self._file):
            yield from self._log.read(partition, place, until, limit)

    def is_at_end(self, places: LogPlaces) -> bool:
        with _explained(self._file):
            return self._log.is_at_end(places)

    def check(self, partition: str, place: LogPlace) -> None:
        with _explained(self._file):
            self._log.check(partition, place)

    def settle(self) -> None:
        with _explained(self._file):
            self._log.settle()

    def release(self, places: LogPlaces) -> None:
        with _explained(self._file):
            self._log.release(places)

    def gone(self) -> Sequence[str]:
        with _explained(self._file):
            return self._log.gone()

    def close(self) -> None:
        with _explained(self._file):
            self._log.close()


@contextmanager
def _explained(file: str) -> Iterator[None]:
    """Turn unexpected exceptions of a file's code into an error that names the file;
    errors of lakesql pass through."""
    try:
        yield
    except (LakesqlError, LogExpiredError):
        raise
    except (Exception, SystemExit) as error:
        frames = [
            each
            for each in traceback.extract_tb(error.__traceback__)
            if each.filename.endswith(file)
        ]
        place = Place(file, frames[-1].lineno if frames else None)
        what = f"The code of {file} has failed: {type(error).__name__}: {error}"
        why = "It says of no other error whether a next try may succeed: `TransientError` is one of which it may."
        raise ProfileError.of("bad-source", what, why=why, place=place) from None


@cache
def _load(path: Path, shown: str) -> type[LogSource]:
    """The one class below `LogSource` in a file. Raises `ProfileError`
    (`bad-source`)."""
    spec = spec_from_file_location(f"lakesql_sources.{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    # dataclasses look up the names in textual annotations there
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[spec.name]
        if missing := explain_missing(error):
            raise missing from None
        what = f"{shown} cannot be loaded: {type(error).__name__}: {error}"
        raise ProfileError.of("bad-source", what, place=Place(shown)) from None
    found = [
        each
        for each in vars(module).values()
        if isinstance(each, type)
        and issubclass(each, LogSource)
        and each.__module__ == module.__name__
    ]
    if len(found) != 1:
        what = f"{shown} has {len(found)} classes below LogSource, and a source is one."
        raise ProfileError.of("bad-source", what, place=Place(shown))
    return found[0]
