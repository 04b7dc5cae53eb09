"""The target of unit tests on Spark: a catalog of its own, and recorded topics in place
of all streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lakesql.engine.sources.binding import StreamBinding
from lakesql.graph.manifest import Manifest
from lakesql.model.model import Model
from lakesql.project.profiles import Catalog, Spark
from lakesql.source.kinds import recorded_topics
from lakesql.stream.recording import RawRecord, render_record
from lakesql.unit.arrivals_given import Arrival, topic_stream


def embedded(manifest: Manifest, folder: Path) -> Manifest:
    """The project on a temporary target in this folder, with a catalog of its own and
    recorded topics in place of all streams' connections."""
    target = manifest.target
    conf = {
        name: value
        for name, value in target.spark.conf.items()
        if not name.startswith(_OF_THE_TARGET)
    }
    catalog = Catalog(
        target.catalog.name,
        "sql",
        f"sqlite:///{folder}/catalog.db",
        str(folder / "warehouse"),
    )
    own = replace(
        target,
        catalog=catalog,
        spark=Spark(conf=conf, warm=target.spark.warm, places=target.spark.places),
    )
    models = {name: _in_warehouse(model) for name, model in manifest.models.items()}
    return on_recordings(
        replace(manifest, target=own, models=models, deferred={}), folder
    )


def _in_warehouse(model: Model) -> Model:
    """The model without path properties, so that its tables' files are where the
    catalog places them."""
    properties = {
        name: value
        for name, value in model.config.properties.items()
        if not name.endswith(".path")
    }
    return replace(model, config=replace(model.config, properties=properties))


_OF_THE_TARGET = (
    "spark.sql.catalog.",
    "spark.sql.catalogImplementation",
    "spark.sql.defaultCatalog",
    "spark.hadoop.",
)
"""Prefixes of Spark settings through which a test could access the target's tables or
storage."""


def on_recordings(manifest: Manifest, folder: Path) -> Manifest:
    """The project with recorded topics in this folder in place of all streams'
    connections, and with its checkpoints there."""
    streams = {
        name: topic_stream(stream, f"unit_{name}")
        for name, stream in manifest.streams.items()
    }
    connections = {
        stream.connection: recorded_topics(str(folder / "recorded" / name))
        for name, stream in streams.items()
    }
    target = replace(
        manifest.target,
        connections=connections,
        checkpoints=str(folder / "checkpoints"),
    )
    return replace(manifest, target=target, streams=streams)


def topic_of(binding: StreamBinding) -> str:
    """The topic that `on_recordings` has given the stream."""
    return binding.stream.origin.given[0]


def record_topic(folder: Path, number: int, arrivals: Sequence[Arrival]) -> None:
    """Write the records of one batch as a file of a recorded topic."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = (render_record(_raw_record(folder.name, it), False) for it in arrivals)
    (folder / f"part-{number:05d}.jsonl").write_text(
        "".join(f"{line}\n" for line in lines), "utf-8"
    )


def _raw_record(topic: str, arrival: Arrival) -> RawRecord:
    key, value = (
        None if text is None else text.encode() for text in (arrival.key, arrival.value)
    )
    headers = tuple((name, text.encode()) for name, text in arrival.headers)
    return RawRecord(
        topic, 0, arrival.offset, arrival.timestamp_ms, key, value, headers
    )
