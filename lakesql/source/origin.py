"""What a stream's own entry says of where its records are: topics, a pattern of topics,
a path of files, or nothing.

On each target a connection says where that is looked for. An origin answers what is
asked of it: nobody else asks which one it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from lakesql.errors import Place, Problem, ProjectError

Brings = Literal["records", "files", "rows"]
"""What is found at an origin: single records, as a broker keeps them; files of them; or
rows that need no parsing."""


class StreamOrigin(Protocol):
    """Where a stream's records are, as its own entry says it."""

    brings: ClassVar[Brings]

    @property
    def option(self) -> str:
        """The stream's option that says it; `name` where none does."""

    @property
    def given(self) -> tuple[str, ...]:
        """What that option says: names of topics, a pattern, or a path."""

    def describe(self, quote: Callable[[str], str]) -> str:
        """What it is, in words; `quote` writes what may be any text."""

    def manifest(self) -> dict[str, Any]:
        """Its keys in manifest.json."""

    @property
    def may_be_several(self) -> bool:
        """Whether several topics may be read."""
        return False

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns of its rows with their types, where they are the same for every
        stream."""
        return {}

    @property
    def folders(self) -> tuple[str, ...]:
        """Where files of it are, by paths or patterns below the connection's path; ''
        for anywhere below it."""
        return ("",)

    @property
    def files(self) -> str | None:
        """The pattern of its files, below the connection's path; None where it names
        none."""
        return None

    def problems(self, place: Place) -> Iterator[Problem]:
        """What is wrong with what the option says, which stands at `place`."""
        return iter(())

    def find_topics(self, there: Callable[[], Collection[str]]) -> Sequence[str]:
        """The topics that it means, of those that are `there`; none where it means no
        topics."""
        return ()

    @property
    def topic_regex(self) -> str | None:
        """The regular expression, from the first character to the last, of its topics'
        names; None where it names them."""
        return None

    def explain_none(self) -> str:
        """Why `find_topics` has found none, in words."""
        return "no topic is named"

    def recorded(self, stream: str) -> Topics:
        """The topics whose recording stands for it where a test gives the records of
        the stream."""
        return Topics((stream,))

    def one_topic(self, topic: str) -> Topics:
        """One of its topics alone."""
        return Topics((topic,))


_NAME = re.compile(r"[^\s,]+\Z")
"""What may be the name of a topic in some log: `persistent://tenant/space/topic`,
`plant/+/temperature`."""


def recorded_folder(topic: str) -> str:
    """The name of the folder that has the recording of a topic: what no name of a file
    may have is escaped in it."""
    from urllib.parse import quote  # only here: most commands look at no recording

    return quote(topic, safe="")


@dataclass(frozen=True, slots=True)
class Topics(StreamOrigin):
    """Topics by name. In a recording each has a folder."""

    names: tuple[str, ...]

    brings: ClassVar[Brings] = "records"

    @property
    def option(self) -> str:
        """`topic` or `topics`."""
        return "topic" if len(self.names) == 1 else "topics"

    @property
    def given(self) -> tuple[str, ...]:
        """The names."""
        return self.names

    def describe(self, quote: Callable[[str], str]) -> str:
        """`topic a`, or `topics a, b`."""
        return f"{self.option} {', '.join(self.names)}"

    def manifest(self) -> dict[str, Any]:
        """The names."""
        return {"topics": list(self.names)}

    @property
    def may_be_several(self) -> bool:
        """Whether it names several."""
        return len(self.names) > 1

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of the topics."""
        return tuple(map(recorded_folder, self.names))

    @property
    def files(self) -> str | None:
        """The files in these folders."""
        # only here: whoever reads a stream's entry lists no files
        from lakesql.source.pattern import escape_glob

        return f"{{{','.join(escape_glob(name) for name in self.folders)}}}/*.jsonl"

    def problems(self, place: Place) -> Iterator[Problem]:
        """Each name that no topic can have, wherever it is."""
        for name in self.names:
            parts = name.split("/")
            if not _NAME.match(name) or not {".", ".."}.isdisjoint(parts):
                what = f"'{name}' is not the name of a topic."
                why = "The name of a topic has no spaces and no commas, and is not `.` or `..`."
                yield Problem("bad-topic", what, why, place=place)

    def find_topics(self, there: Callable[[], Collection[str]]) -> Sequence[str]:
        """Its topics, whether they are there or not."""
        return self.names

    def recorded(self, stream: str) -> Topics:
        """These topics."""
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
        """All files of a recording: which of them are meant, the name of their folder
        says."""
        return "*/*.jsonl"

    def find_topics(self, there: Callable[[], Collection[str]]) -> Sequence[str]:
        """Those of a name that matches, in order."""
        return sorted(name for name in there() if re.fullmatch(self.pattern, name))

    @property
    def topic_regex(self) -> str:
        """The pattern within bounds: without these, Spark looks for it within a
        name."""
        return f"^(?:{self.pattern})$"

    def explain_none(self) -> str:
        """That no name matches."""
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
    """Rows that the connection makes by itself, or that a table has: nothing is said of
    where they are."""

    brings: ClassVar[Brings] = "rows"

    @property
    def option(self) -> str:
        """`name`, as no option says it."""
        return "name"

    @property
    def given(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def describe(self, quote: Callable[[str], str]) -> str:
        """`a generator`."""
        return "a generator"

    def manifest(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    @property
    def columns(self) -> Mapping[str, str]:
        """Those of Spark's generator of rows."""
        return {"timestamp": "timestamp", "value": "bigint"}


UNSAID: StreamOrigin = Generated()
"""The origin of a stream that does not say any."""

ORIGINS: tuple[type[StreamOrigin], ...] = (Topics, TopicPattern, FilePath, Generated)
"""All of them: what a cache may hold."""


def read_path(path: str, place: Place) -> FilePath:
    """The path of a stream's files. Raises `ProjectError` for one that leaves its
    connection's folder (`outside-project`), or that Hadoop does not read as a pattern
    (`wrong-value`)."""
    _check_relative(path, place)
    _check_pattern(path, place)
    return FilePath(path)


ORIGIN_OPTIONS: Mapping[str, Callable[[Any, Place], StreamOrigin]] = {
    "topic": lambda topic, _: Topics((topic,)),
    "topics": lambda topics, _: Topics(topics),
    "pattern": lambda pattern, _: TopicPattern(pattern),
    "path": read_path,
}
"""The options of a stream that say its origin, each with what reads its value."""


def archive_problems(archive: str, path: str, place: Place) -> Iterator[Problem]:
    """What is wrong with a folder that files of this path are moved to, below the same
    connection's folder."""
    # only here: most projects have no archive
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
    # A dot by itself may become two: `{.,a/b}.` is `..` among others, and so is `\.\.`.
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
"""What of a pattern is none of its braces, brackets and stars: an escaped character,
and a class."""


def _check_pattern(path: str, place: Place) -> None:
    """Refuse what Hadoop does not read as a pattern, or reads otherwise than everybody
    else."""
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
