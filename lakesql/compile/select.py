"""A model's SELECT: rendered once, read, and checked against the model's configuration. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakesql.compile.quote import identifier, table_name
from lakesql.compile.storable import find_taken_names, find_unstorable, partition_name, say_unstorable, takes
from lakesql.compile.table import format_version, partition_text
from lakesql.errors import Place, Problem, ProjectError, did_you_mean
from lakesql.graph.manifest import Manifest, reads_model
from lakesql.model.config import Append, Config, Upsert
from lakesql.model.model import Model
from lakesql.select.query import Query, carry_position, check_expression, read_query
from lakesql.select.relation import StreamShape
from lakesql.stream.stream import Column, Stream, model_stream
from lakesql.template.evaluate import Names
from lakesql.template.template import Rendered, parse_template, render_template


@dataclass(frozen=True, slots=True)
class Select:
    """A model with its SELECT. `streams` are what it reads: declared ones, and other models' tables as such."""

    model: Model
    query: Query
    streams: Mapping[str, Stream]
    rendered: Rendered

    @property
    def positioned(self) -> bool:
        """Whether each row carries the position of the record it comes from: where arrival decides between rows."""
        return isinstance(self.model.config, Upsert) and not self.query.stateful

    @property
    def text(self) -> str:
        """The SELECT that Spark runs: the author's text, with the position carried through it where it is needed."""
        return carry_position(self.query) if self.positioned else self.query.sql

    def place(self, offset: int) -> Place:
        """Where in the model's file the character at `offset` of `text` stands."""
        if self.positioned:
            for at, inserted in reversed(self.query.carry):
                start = at + sum(len(text) for before, text in self.query.carry if before < at)
                if offset >= start:
                    offset -= min(len(inserted), offset - start)
        return self.rendered.place(offset)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of the table; None where only Spark's analyzer knows them."""
        return tuple(output.name for output in self.query.outputs) if self.query.outputs is not None else None


def build_select(manifest: Manifest, name: str, built: dict[str, Select] | None = None) -> Select:
    """The SELECT of the model `name`. `built` keeps those of models that others read as streams.

    Raises `ProjectError` with everything that is wrong with the SELECT and with the options that name its columns.
    """
    built = {} if built is None else built
    if name in built:
        return built[name]
    model = manifest.models[name]
    streams = {found.name: _stream_of(manifest, found.name, built) for found in model.facts.streams}
    template = model.facts.template or parse_template(model.path, model.source, manifest.macros)
    rendered = render_template(template, _names(manifest, model))
    shapes = {
        key: StreamShape(stream.column_names or None, stream.watermark.column if stream.watermark else None)
        for key, stream in streams.items()
    }
    query = read_query(rendered.text, shapes, rendered.place)
    select = Select(model, query, streams, rendered)
    problems = [*_check_columns(model, query), *_check_mode(model, query), *_check_storable(select)]
    if problems:
        raise ProjectError(problems)
    built[name] = select
    return select


def output_columns(select: Select) -> tuple[Column, ...]:
    """The SELECT's columns with the types that are known without Spark; an unknown type is the empty text."""
    return tuple(
        Column(output.name, _known_type(select.streams, output.stream, output.column, output.cast))
        for output in select.query.outputs or ()
    )


def _known_type(streams: Mapping[str, Stream], stream: str | None, column: str | None, cast: str | None) -> str:
    if cast:
        return cast
    if stream and column:
        return next((item.type for item in streams[stream].columns if item.name.lower() == column.lower()), "")
    return ""


def _stream_of(manifest: Manifest, name: str, built: dict[str, Select]) -> Stream:
    read = reads_model(manifest, name)
    if read is None:
        return manifest.streams[name]
    return model_stream(name, output_columns(build_select(manifest, read.name, built)), read.place)


def _names(manifest: Manifest, model: Model) -> Names:
    target = manifest.target
    return Names(
        stream=identifier,
        ref=lambda name: table_name(manifest.models[name].table),
        this=table_name(model.table),
        vars=manifest.vars,
        target={"name": target.name, "namespace": target.namespace, "catalog": target.catalog.name},
        is_full_refresh=False,
    )


def _check_columns(model: Model, query: Query) -> Iterable[Problem]:
    """Options that name columns of the SELECT."""
    if query.outputs is None:
        return
    known = [output.name for output in query.outputs]
    lowered = {name.lower() for name in known}
    for option, columns in _named_columns(model.config):
        for column in columns:
            if column.lower() not in lowered:
                condition = "key-not-selected" if option == "keys" else "unknown-column"
                what = f"'{column}' in {option} is not a column of the SELECT."
                yield Problem(condition, what, "", did_you_mean(column, known), model.option_place(option))


def _named_columns(config: Config) -> Iterable[tuple[str, tuple[str, ...]]]:
    yield "partition_by", tuple(field.column for field in config.partition_by)
    yield "order_by", tuple(field.column for field in config.order_by)
    if isinstance(config, Upsert):
        yield "keys", config.keys
        yield "sequence_by", config.sequence_by


def _check_storable(select: Select) -> Iterable[Problem]:
    """Columns and partitions that Iceberg would refuse when the table is made, as far as types are known."""
    model, types = select.model, {column.name.lower(): column.type for column in output_columns(select)}
    version = format_version(model.config.properties)
    for output in select.query.outputs or ():
        kind = types[output.name.lower()]
        if kind and (part := find_unstorable(kind, version)):
            what = f"Column '{output.name}' is of a type that no table can hold."
            yield Problem("unstorable-type", what, *say_unstorable(kind, part), select.rendered.place(output.offset))
    taken = find_taken_names(model.config.partition_by, [output.name for output in select.query.outputs or ()])
    for index, field in enumerate(model.config.partition_by):
        place = model.option_place("partition_by", index)
        kind = types.get(field.column.lower(), "")
        if field in taken:
            what = f"{partition_text(field)} makes a partition '{partition_name(field)}', and the SELECT has a column "
            why = "Iceberg wants names that differ."
            yield Problem("partition-name-taken", f"{what}'{taken[field]}'.", why, "Rename the column with AS.", place)
        if kind and not takes(field, kind):
            what = f"'{field.column}' is of type {kind}, which cannot be partitioned by {partition_text(field)}."
            yield Problem("partition-type", what, "", "Take another transform, or cast the column.", place)


def _check_mode(model: Model, query: Query) -> Iterable[Problem]:
    config = model.config
    if isinstance(config, Append) and query.aggregated and not query.grouped_by_event_time:
        yield Problem(
            "watermark-missing",
            "In mode 'append' an aggregate must be grouped by event time of a stream that has a watermark.",
            "A group's row is appended once it can no longer change; without a watermark that never happens.",
            "Declare `watermark:` on the stream and group by window(<its column>, …), or use mode='upsert'.",
            model.place,
        )
    if isinstance(config, Upsert):
        yield from _check_upsert(model, config, query)
    if not config.is_staged and config.max_dead_letter_ratio < 1:
        yield Problem(
            "dead-letter-ratio-needs-fence",
            "max_dead_letter_ratio needs fence='commit'.",
            "With fence='lease' a batch is in the table before its dead letters are counted.",
            place=model.option_place("max_dead_letter_ratio"),
        )


def _check_upsert(model: Model, config: Upsert, query: Query) -> Iterable[Problem]:
    if query.joins_streams:
        yield Problem(
            "upsert-over-join",
            "Mode 'upsert' cannot take the rows of a join of two streams.",
            "Spark joins streams with each other in mode 'append' only.",
            "Write the join as a model in mode 'append', and read its table here: stream('its_name').",
            model.option_place("mode"),
        )
    if not config.sequence_by:
        keys = {key.lower() for key in config.keys}
        for group in query.groups or ():
            if not group.told_by & keys:
                yield Problem(
                    "group-not-in-keys",
                    f"The SELECT has a row for each {group.text}, which no key tells apart.",
                    "Of several rows with one key, any one would stay.",
                    f"Select {group.text} and add it to keys, take any_value({group.text}) instead of grouping by it, "
                    "or say by sequence_by which row is to stay.",
                    model.option_place("keys"),
                )
    if config.delete_when:
        place: Place = model.option_place("delete_when")
        columns = [output.name for output in query.outputs] if query.outputs is not None else None
        problem = check_expression(config.delete_when, columns)
        if problem:
            yield problem.at(place)
