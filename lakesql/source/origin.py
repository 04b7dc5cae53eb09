"""The origin of a stream: where its records are, as the stream's entry names them
(topics, a pattern of topics, a path of files, or nothing).

On each target a connection determines where that is looked for. An origin answers all
questions about itself; no other module asks which kind it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from lakesql.errors import Place, Problem, ProjectError

Brings = Literal["records", "files", "rows"]
"""What is found at an origin: single records, as a broker has them; files of records;
or rows that need no parsing."""


class StreamOrigin(Protocol):
    """Where a stream's records are, as its own entry names it."""

    brings: ClassVar[Brings]

    @property
    def option(self) -> str:
        """The stream's option that names the origin; `name` if none does."""

    @property
    def given(self) -> tuple[str, ...]:
        """The value of that option: names of topics, a pattern, or a path."""

    def describe(self, quote: Callable[[str], str]) -> str:
        """The origin in words; `quote` quotes texts that may contain anything."""

    def manifest(self) -> dict[str, Any]:
        """Its entries in manifest.json."""

    @property
    def may_be_several(self) -> bool:
        """Whether it may be several topics."""
        return False

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns of its rows with their types, if they are the same for every
        stream, else empty."""
        return {}

    @property
    def folders(self) -> tuple[str, ...]:
        """The paths or patterns of its files below the connection's path; '' for
        anywhere below it."""
        return ("",)

    @property
    def files(self) -> str | None:
        """The pattern of its files, below the connection's path; None if it names
        none."""
        return None

    def problems(self, place: Place) -> Iterator[Problem]:
        """Problems of the option's value, which is at `place` in the file."""
        return iter(())

    def find_topics(self, there: Callable[[], Collection[str]]) -> Sequence[str]:
        """The topics that it means, among those that `there` returns; empty if it means
        no topics."""
        return ()

    @property
    def topic_regex(self) -> str | None:
        """The regular expression that matches its topics' whole names; None if it names
        them."""
        return None

    def explain_none(self) -> str:
        """The reason why `find_topics` has found none, in words."""
        return "no topic is named"

    def recorded(self, stream: str) -> Topics:
        """The topics whose recording replaces it in a test that provides the stream's
        records."""
        return Topics((stream,))

    def one_topic(self, topic: str) -> Topics:
        """The origin of one of its topics alone."""
        return Topics((topic,))


_NAME = re.compile(r"[^\s,]+\Z")
"""What some log accepts as the name of a topic: `persistent://tenant/space/topic`,
`plant/+/temperature`."""


def recorded_folder(topic: str) -> str:
    """The name of the folder with the recording of a topic; characters that a file name
    cannot have are escaped."""
    from urllib.parse import quote  # only here: most commands look at no recording

    return quote(topic, safe="")


@dataclass(frozen=True, slots=True)
class Topics(StreamOrigin):
    """Topics by name. In a recording each topic has a folder."""

    names: tuple[str, ...]

    brings: ClassVar[Brings] = "records"

    @property
    def option(self) -> str:
        """`topic` or `topics`."""
        return "topic" if len(self.names) == 1 else "topics"

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the topics."""
        return self.names

    def describe(self, quote: Callable[[str], str]) -> str:
        """`topic a`, or `topics a, b`."""
        return f"{self.option} {', '.join(self.names)}"

    def manifest(self) -> dict[str, Any]:
        """The names of the topics."""
        return {"topics": list(self.names)}

    @property
    def may_be_several(self) -> bool:
        """Whether it names several topics."""
        return len(self.names) > 1

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of the topics in a recording."""
        return tuple(map(recorded_folder, self.names))

    @property
    def files(self) -> str | None:
        """The pattern of the files in these folders."""
        # imported here: reading a stream's entry lists no files
        from lakesql.source.pattern import escape_glob

        return f"{{{','.join(escape_glob(name) for name in self.folders)}}}/*.jsonl"

    def problems(self, place: Place) -> Iterator[Problem]:
        """A problem for each name that no topic of any log can have."""
        for name in self.names:
            parts = name.split("/")
            if not _NAME.match(name) or not {".", ".."}.isdisjoint(parts):
                what = f"'{name}' is not the name of a topic."
                why = "The name of a topic has no spaces and no commas, and is not `.` or `..`."
                yield Problem("bad-topic", what, why, place=place)

    def find_topics(self, there: Callable[[], Collection[str]]) -> Sequence[str]:
        """The named topics, whether they exist or not."""
        return self.names

    def recorded(self, stream: str) -> Topics:
        """These topics themselves."""
        return self


@dataclass(frozen=True, slots=True)
class TopicPattern(StreamOrigin):
    """Topics whose whole name matches a regular expression."""

    pattern: str

    brings: ClassVar[Brings] = "records"

    @property
    def option(self) -> str:
        """`pattern`."""
        return "pattern"

    @property
    def given(self) -> tuple[str, ...]:
        """The pattern."""
        return (self.pattern,)

    def describe(self, quote: Callable[[str], str]) -> str:
        """`topics that match '…'`."""
        return f"topics that match {quote(self.pattern)}"

    def manifest(self) -> dict[str, Any]:
        """The pattern."""
        return {"pattern": self.pattern}

    @property
    def may_be_several(self) -> bool:
        """Always."""
        return True

    @property
    def files(self) -> str | None:
        """The pattern of all files of a recording; the names of their folders decide
        which are read."""
        return "*/*.jsonl"

    def find_topics(self, there: Callable[[], Collection[str]]) -> Sequence[str]:
        """The existing topics whose names match, sorted."""
        return sorted(name for name in there() if re.fullmatch(self.pattern, name))

    @property
    def topic_regex(self) -> str:
        """The pattern with anchors: without them Spark also matches a part of a
        name."""
        return f"^(?:{self.pattern})$"

    def explain_none(self) -> str:
        """The reason: no name matches."""
        return f"no topic matches {self.pattern}"


@dataclass(frozen=True, slots=True)
class FilePath(StreamOrigin):
    """Plain files: a path with globs, relative to the connection's."""

    path: str

    brings: ClassVar[Brings] = "files"

    @property
    def option(self) -> str:
        """`path`."""
        return "path"

    @property
    def given(self) -> tuple[str, ...]:
        """The path."""
        return (self.path,)

    def describe(self, quote: Callable[[str], str]) -> str:
        """`files '…'`."""
        return f"files {quote(self.path)}"

    def manifest(self) -> dict[str, Any]:
        """The path."""
        return {"path_of_files": self.path}

    @property
    def folders(self) -> tuple[str, ...]:
        """The path."""
        return (self.path,)

    @property
    def files(self) -> str | None:
        """The path."""
        return self.path


@dataclass(frozen=True, slots=True)
class Generated(StreamOrigin):
    """Rows that the connection generates, or that a table has: no option says where
    they are."""

    brings: ClassVar[Brings] = "rows"

    @property
    def option(self) -> str:
        """`name`, as no option names the origin."""
        return "name"

    @property
    def given(self) -> tuple[str, ...]:
        """Empty."""
        return ()

    def describe(self, quote: Callable[[str], str]) -> str:
        """`a generator`."""
        return "a generator"

    def manifest(self) -> dict[str, Any]:
        """Empty."""
        return {}

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns of Spark's row generator."""
        return {"timestamp": "timestamp", "value": "bigint"}


UNSAID: StreamOrigin = Generated()
"""The origin of a stream that names none."""

ORIGINS: tuple[type[StreamOrigin], ...] = (Topics, TopicPattern, FilePath, Generated)
"""All classes of origins, for reading them from a cache."""


def read_path(path: str, place: Place) -> FilePath:
    """The origin for the path of a stream's files. Raises `ProjectError` if the path
    leaves its connection's folder (`outside-project`), or is no valid pattern for
    Hadoop (`wrong-value`)."""
    _check_relative(path, place)
    _check_pattern(path, place)
    return FilePath(path)


ORIGIN_OPTIONS: Mapping[str, Callable[[Any, Place], StreamOrigin]] = {
    "topic": lambda topic, _: Topics((topic,)),
    "topics": lambda topics, _: Topics(topics),
    "pattern": lambda pattern, _: TopicPattern(pattern),
    "path": read_path,
}
"""The options of a stream that name its origin, each with the function that reads its
value."""


def archive_problems(archive: str, path: str, place: Place) -> Iterator[Problem]:
    """Problems of a folder to which files of this path are moved; both are below the
    connection's folder."""
    # imported here: most projects have no archive
    from lakesql.source.pattern import named_folder, split_path

    try:
        _check_relative(archive, place)
    except ProjectError as error:
        yield from error.problems
        return
    wrong = sorted(set(archive) & set("*?[]{}\\"))
    if wrong:
        what = f"The archive '{archive}' is no pattern: a '{wrong[0]}' in it would stand for itself."
        yield Problem("wrong-value", what, place=place)
        return
    read = [*filter(None, split_path(named_folder(path)))]
    parts = [part for part in archive.split("/") if part not in ("", ".")]
    if parts[: len(read)] == read:
        where = (
            f"'{'/'.join(read)}'"
            if read
            else "the connection's folder, all of which is read"
        )
        yield Problem(
            "archive-read",
            f"The archive '{archive}' lies in {where}.",
            "The files in it would be found, and perhaps read, again.",
            "Name a folder beside the one that is read: `path: landing/*.json`, `archive: done`. Where the path has no "
            "folder of its own, let the connection's `path` be the folder above.",
            place,
        )


def _check_relative(path: str, place: Place) -> None:
    # A single dot may become two: one expansion of `{.,a/b}.` is `..`, and so is
    # `\.\.`.
    dots = any(
        set(part) == {"."} for part in re.split(r"[/{},\\]", path.removeprefix("./"))
    )
    if path.startswith(("/", "~")) or re.match(r"[^/]*:", path) or dots:
        raise ProjectError.of(
            "outside-project",
            f"The path '{path}' leaves its connection's folder.",
            place=place,
        )


_ESCAPED = re.compile(r"\\.|\[(?:\\.|[^\]/\\])+\]", re.DOTALL)
"""The parts of a pattern in which braces, brackets and stars have no meaning: escaped
characters and character classes."""


def _check_pattern(path: str, place: Place) -> None:
    """Raise `ProjectError` for what Hadoop does not read as a pattern, or reads
    differently than other tools."""
    plain = _ESCAPED.sub("_", path)
    if any("**" in part and part != "**" for part in plain.split("/")) or re.search(
        r"\{[^}]*\*\*[^{]*\}", plain
    ):
        what = f"In the path '{path}', `**` is not a whole part of the path."
        why = "It stands for folders at any depth, or for none, as in `landing/**/*.json`."
        raise ProjectError.of(
            "wrong-value",
            what,
            why=why,
            fix="Write `*` for a part of a name.",
            place=place,
        )
    for opening, closing in ("[]", "{}"):
        if opening in plain and (
            opening == "[" or plain.count(opening) != plain.count(closing)
        ):
            what = f"In the path '{path}', nothing closes a '{opening}'."
            fix = f"Write `\\{opening}` for the character itself."
            raise ProjectError.of("wrong-value", what, fix=fix, place=place)
