"""What models read: whether it exists, and the nodes of the graph for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from lakesql.errors import Problem, did_you_mean
from lakesql.graph.graph import GraphNode, node_id
from lakesql.model.model import Model
from lakesql.stream.stream import Stream

if TYPE_CHECKING:
    from lakesql.seed.seed import Seed


def check_references(
    models: Mapping[str, Model],
    streams: Mapping[str, Stream],
    seeds: Mapping[str, Seed],
    table_names: Collection[str],
    all_declared: bool,
) -> Iterable[Problem]:
    """Problems of references to models, seeds and streams that do not exist, or cannot
    be read in this way.

    `table_names` includes models and seeds that could not be parsed. If not
    `all_declared`, some streams could not be parsed: then an unknown name in
    `stream('…')` is no problem.
    """
    for model in models.values():
        for reference in model.facts.refs:
            if reference.name not in table_names:
                hint = did_you_mean(reference.name, table_names)
                if reference.name in streams:
                    hint = f"'{reference.name}' is a stream: read it with stream('{reference.name}')."
                what = f"ref('{reference.name}') names no model and no seed."
                yield Problem("unknown-ref", what, "", hint, reference.place)
        for reference in model.facts.streams:
            if reference.name in streams:
                continue
            read = models.get(reference.name)
            if read is None and reference.name in seeds:
                what = f"'{reference.name}' is a seed, and cannot be read as a stream."
                why = "Its rows are replaced as a whole when its file has changed; none arrives."
                fix = f"Join its table to a stream with ref('{reference.name}')."
                yield Problem("stream-of-seed", what, why, fix, reference.place)
            elif read is not None and not read.config.is_stored:
                what = f"'{reference.name}' is a view, and cannot be read as a stream."
                why = "It has no rows of its own; nothing arrives in it."
                fix = f"Read it with ref('{reference.name}'), or give it mode 'materialized_view'."
                yield Problem("stream-of-view", what, why, fix, reference.place)
            elif read is None and all_declared and reference.name not in table_names:
                hint = did_you_mean(reference.name, {*streams, *models})
                what = f"stream('{reference.name}') names no stream."
                yield Problem("unknown-stream", what, "", hint, reference.place)


def graph_nodes(
    project: str,
    streams: Mapping[str, Stream],
    models: Mapping[str, Model],
    seeds: Mapping[str, Seed],
) -> Iterable[GraphNode]:
    """The nodes for the seeds, streams and models, each with what it reads."""
    for seed in seeds.values():
        yield GraphNode(
            id=node_id("seed", seed.name),
            name=seed.name,
            resource_type="seed",
            path=seed.path,
            fqn=seed.fqn,
            tags=frozenset(seed.tags),
            config={
                "delimiter": seed.delimiter,
                "tags": list(seed.tags),
                "meta": seed.properties.meta.plain(),
            },
            depends_on=(),
            place=seed.place,
        )
    for stream in streams.values():
        yield GraphNode(
            id=node_id("stream", stream.name),
            name=stream.name,
            resource_type="stream",
            path=stream.place.path,
            fqn=(project, stream.name),
            tags=frozenset(),
            config={},
            depends_on=(),
            place=stream.place,
        )
    for model in models.values():
        references = {
            node_id("seed" if found.name in seeds else "model", found.name): found.place
            for found in model.facts.refs
        }
        for found in model.facts.streams:
            references[
                node_id("stream" if found.name in streams else "model", found.name)
            ] = found.place
        yield GraphNode(
            id=node_id("model", model.name),
            name=model.name,
            resource_type="model",
            path=model.path,
            fqn=model.fqn,
            tags=frozenset(model.config.tags),
            config={
                **model.options,
                "mode": model.config.mode,
                "tags": list(model.config.tags),
            },
            depends_on=tuple(references),
            place=model.place,
            references=references,
        )
