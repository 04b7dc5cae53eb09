"""What every kind of source asks of the streams that are read from it with Spark."""

from __future__ import annotations

import pytest

from lakesql.decode import node_of
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.spark_source import check_origin
from lakesql.errors import Place, ProjectError
from lakesql.source.files import Files
from lakesql.source.kafka import Kafka
from lakesql.source.source import Source
from lakesql.stream.stream import Stream, read_stream
from tests.cases import each_of


def stream(**origin: str) -> Stream:
    entry = {"name": "s", "connection": "c", "columns": {"id": "int"}, **origin}
    return read_stream(node_of(entry, Place("streams/s.yml", 1, 1)))


@each_of(
    ("source", "wanted", "origin"),
    [
        (Files("in"), "path", {"topic": "t"}),
        (Files("in"), "path", {}),
        (Kafka("h:1"), "topic", {"path": "in/*"}),
        (Kafka("h:1"), "topic", {}),
    ],
)
def test_a_stream_says_where_its_records_are_in_its_kind_of_source(
    source: Source, wanted: str, origin: dict[str, str]
) -> None:
    with pytest.raises(ProjectError) as raised:
        check_origin(StreamBinding(stream(**origin), source))
    (problem,) = raised.value.problems
    assert (problem.condition, problem.place and problem.place.path) == (
        "stream-origin",
        "streams/s.yml",
    )
    assert f"of type {source.kind}, which needs a {wanted}" in problem.what


def test_a_stream_that_says_it_is_read() -> None:
    check_origin(StreamBinding(stream(topic="t"), Kafka("h:1")))
    check_origin(StreamBinding(stream(pattern="t.*"), Kafka("h:1")))
    check_origin(StreamBinding(stream(path="in/*"), Files("in")))
