"""Where a target's lineage is sent: the key `lineage` of a target in profiles.yml.
Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from lakesql.decode import Node, decode, option, read_filled
from lakesql.errors import Problem, ProjectError, did_you_mean
from lakesql.location import absolute, is_url
from lakesql.project.duration import Duration, parse_duration
from lakesql.source.dataset import without_login
from lakesql.source.source import Source

BATCH = Duration("batch", 0)
"""The value of `every` by which each batch is a lineage run of its own."""


def _read_every(node: Node) -> Duration:
    return BATCH if node.value == "batch" else parse_duration(node)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageTarget:
    """The options of every kind of destination for lineage."""

    namespace: str = option(
        "Namespace of the jobs in OpenLineage; project and target, such as `shop.prod`, if left out.",
        default="",
        read=read_filled,
    )
    every: Duration | None = option(
        "How many batches one OpenLineage run covers: `batch` for one, or an interval such as `1 hour` for those of "
        "that time. If left out, one batch in a continuous run whose trigger is a minute or longer, else those of an "
        "hour.",
        default=None,
        read=_read_every,
    )

    kind: ClassVar[str]

    @property
    def shown(self) -> str:
        """The destination, for messages."""
        raise NotImplementedError

    def resolved(self, directory: Path) -> LineageTarget:
        """The same, with local paths made absolute by a directory."""
        return self

    def problems(
        self, node: Node, connections: Mapping[str, Source]
    ) -> Iterator[Problem]:
        """The problems of the options. `connections` are those of the target."""
        return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageFile(LineageTarget):
    """A file, to which each event is appended as a line of JSON."""

    path: str = option(
        "File to which each event is appended as a line of JSON.", read=read_filled
    )

    kind: ClassVar[str] = "file"

    @property
    def shown(self) -> str:
        """The file's path."""
        return self.path

    def resolved(self, directory: Path) -> LineageFile:
        """The same, with the file's path absolute."""
        return replace(self, path=absolute(self.path, directory))

    def problems(
        self, node: Node, connections: Mapping[str, Source]
    ) -> Iterator[Problem]:
        """A problem if the path is a URL."""
        if is_url(self.path):
            what = f"'{self.path}' is a URL, and lineage of type `file` goes to a file of this machine."
            yield Problem("lineage-options", what, place=node.key_place("path"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageHttp(LineageTarget):
    """A server that takes OpenLineage's events by HTTP, as Marquez and DataHub do."""

    url: str = option(
        "URL of the server, such as `http://marquez:5000`, without login or query.",
        read=read_filled,
    )
    endpoint: str = option(
        "Path below the URL to which events are sent.", default="api/v1/lineage"
    )
    token: str = option("Bearer token that is sent to the server.", default="")
    ca: str = option(
        "PEM file with the trusted certificates; those of the machine if left out.",
        default="",
    )

    kind: ClassVar[str] = "http"

    @property
    def shown(self) -> str:
        """The URL."""
        return self.url

    def resolved(self, directory: Path) -> LineageHttp:
        """The same, with the path of the certificates absolute."""
        return replace(self, ca=absolute(self.ca, directory))

    def problems(
        self, node: Node, connections: Mapping[str, Source]
    ) -> Iterator[Problem]:
        """A problem if the URL is not one of HTTP, or has a login, a query or a
        fragment."""
        shown, place = without_login(self.url), node.key_place("url")
        try:
            parts = urlsplit(self.url)
            is_http = (
                parts.scheme in ("http", "https")
                and bool(parts.hostname)
                and parts.port != 0
            )
        except ValueError:  # of a port that is no number
            is_http = False
        if not is_http:
            yield Problem(
                "lineage-options",
                f"'{shown}' is not a URL of HTTP: `http://host:port`.",
                place=place,
            )
        elif shown != self.url:
            fix = "Write it without, and a `token`."
            yield Problem(
                "lineage-options",
                f"The URL of {shown} has a login in it.",
                fix=fix,
                place=place,
            )
        elif parts.query or parts.fragment:
            fix = "Write the path in `endpoint`, and a key as `token`."
            what = "The URL of `lineage` has a query in it, which would be shown where it does not answer."
            yield Problem("lineage-options", what, fix=fix, place=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageKafka(LineageTarget):
    """A topic of Kafka, to which each event is sent as JSON."""

    connection: str = option(
        "Connection of the target, of type `kafka`, whose cluster has the topic."
    )
    topic: str = option("Topic to which events are written.", read=read_filled)

    kind: ClassVar[str] = "kafka"

    @property
    def shown(self) -> str:
        """The topic and its connection."""
        return f"topic {self.topic} of connection {self.connection}"

    def problems(
        self, node: Node, connections: Mapping[str, Source]
    ) -> Iterator[Problem]:
        """A problem if the connection does not exist, or is not of type `kafka`."""
        place = node.key_place("connection")
        clusters = [
            name for name, found in connections.items() if found.cluster is not None
        ]
        if self.connection not in connections:
            what = f"The target has no connection '{self.connection}', by which its lineage is sent."
            yield Problem(
                "unknown-connection",
                what,
                fix=did_you_mean(self.connection, clusters),
                place=place,
            )
        elif self.connection not in clusters:
            what = f"Connection '{self.connection}', by which lineage is sent, is not of type `kafka`."
            fix = (
                f"Name one that is: {', '.join(clusters)}."
                if clusters
                else "Add a connection of type `kafka`."
            )
            yield Problem("lineage-options", what, fix=fix, place=place)


LINEAGE_TARGETS: Mapping[str, type[LineageTarget]] = {
    kind.kind: kind for kind in (LineageFile, LineageHttp, LineageKafka)
}
"""The kinds of destinations, by their `type` in profiles.yml."""


def read_lineage_target(node: Node) -> LineageTarget:
    """The value of a target's `lineage`. Raises `ProjectError` (`lineage-options`, and
    what decoding finds)."""
    given = node.get("type")
    word = given.value if given is not None and isinstance(given.value, str) else ""
    kind = LINEAGE_TARGETS.get(word)
    if kind is None:
        what = (
            "`lineage` has no `type` that lakesql knows."
            if given is None
            else f"Lineage has no type '{word}'."
        )
        place = given.place if given is not None else node.place
        raise ProjectError.of(
            "lineage-options",
            what,
            fix=did_you_mean(word, LINEAGE_TARGETS),
            place=place,
        )
    return decode(
        node, kind, what=f"lineage of type '{word}'", ignore=frozenset({"type"})
    )
