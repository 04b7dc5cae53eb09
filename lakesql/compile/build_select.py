"""The checked SELECT of a model: its template rendered, parsed, and checked against its
streams, its tables and its mode. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from lakesql.compile.checks import (
    check_of_text,
    checks_of,
    find_unacceptable,
    names_of,
)
from lakesql.compile.quote import identifier, table_name
from lakesql.compile.ruled_columns import ruled_views
from lakesql.compile.select import Select, output_columns
from lakesql.compile.storable import (
    find_misused,
    find_taken_names,
    find_unstorable,
    say_unstorable,
    takes,
)
from lakesql.compile.table import format_version, partition_text, terms_of
from lakesql.errors import (
    InternalError,
    LakesqlError,
    Place,
    Problem,
    ProjectError,
    did_you_mean,
)
from lakesql.graph.manifest import Manifest, is_stored, read_table, reads_model
from lakesql.model.maintenance_tasks import MaintenanceTask, own_tasks, said_at
from lakesql.model.model import Model
from lakesql.model.writing import Reads
from lakesql.modes.batches.all_batches import batches_of
from lakesql.project.procedures import (
    RECENT,
    RewriteDataFiles,
    RewritePositionDeleteFiles,
    find_disordered,
    sort_terms,
)
from lakesql.project.sort_order import ZORDER
from lakesql.select.file_filter import find_no_filter
from lakesql.select.query import Query, read_expression, read_query
from lakesql.select.relation import QueryColumn, StreamShape, typed_columns
from lakesql.select.selects_read import SelectsRead, read_selects
from lakesql.select.views_read import inline_views
from lakesql.select.watermarks import event_type, find_unfit
from lakesql.stream.stream import Column, Stream, change_fields, model_stream
from lakesql.stream.types import stored_type, type_at
from lakesql.template.evaluate import Names
from lakesql.template.template import Template, parse_template, render_template


def build_select(
    manifest: Manifest,
    name: str,
    built: dict[str, Select] | None = None,
    is_full_refresh: bool = False,
) -> Select:
    """The checked SELECT of the model `name`. `built` caches the SELECTs of the models
    whose tables others read.

    Raises `ProjectError` with all problems of the SELECT and of the options that name
    its columns.
    """
    built = {} if built is None else built
    if name not in built:
        model = manifest.models[name]
        try:
            built[name] = _build_select(manifest, model, built, is_full_refresh)
        except (LakesqlError, OSError, ImportError):
            raise
        except Exception as error:
            raise InternalError.of_defect(
                error, f"Model '{name}'", Place(model.path)
            ) from error
    return built[name]


def _build_select(
    manifest: Manifest, model: Model, built: dict[str, Select], is_full_refresh: bool
) -> Select:
    if model.config.reads == "tables" and (problems := [*_check_reads(model)]):
        raise ProjectError(problems)
    streams = {
        found.name: _stream_of(manifest, found.name, built)
        for found in model.facts.streams
    }
    if problems := [*_check_told_apart(manifest, model, streams)]:
        raise ProjectError(problems)
    if unknown := [
        it for it in streams.values() if (it.is_open or it.registry) and not it.columns
    ]:
        raise ProjectError(map(_no_columns, unknown))
    rendered = render_template(
        template_of(manifest, model),
        names_of_template(manifest, model, is_full_refresh),
    )
    if views := {**_views_of(manifest, model, built), **ruled_views(model, streams)}:
        rendered = rendered.edited(
            (edit.start, edit.end, edit.text)
            for edit in inline_views(rendered.text, views)
        )
    tables, is_plain = (
        _tables_of(manifest, model, built),
        not manifest.target.spark.adds_functions,
    )
    this, reads_from = model.table.folded, model.config.reads
    query = read_query(
        rendered.text,
        shapes_of(streams),
        rendered.place,
        tables,
        is_plain,
        this,
        reads_from,
    )
    read_tables = {
        found: read.table
        for found in streams
        if (read := reads_model(manifest, found)) is not None
    }
    checks = checks_of(model.properties)
    reads = Reads(
        query.stateful,
        _reads(query, streams, lambda stream: stream.is_feed),
        _reads(
            query,
            streams,
            lambda stream: stream.is_feed and stream.record_envelope.is_of_log,
        ),
        _key_columns(query, streams),
    )
    writing = model.config.writing(
        replace(reads, is_traced=bool(names_of(checks, "dead_letter")))
    )
    select = _with_feed_key(
        Select(
            model,
            query,
            streams,
            rendered,
            writing,
            read_tables,
            checks,
            _input_columns(tables),
        )
    )
    if _wants_valid_text(select):
        checks = (
            *checks,
            check_of_text(select.columns or (), select.text_of_bytes, model.place),
        )
        writing = model.config.writing(replace(reads, is_traced=True))
        select = _with_feed_key(replace(select, writing=writing, checks=checks))
    problems = [
        *_check_columns(select),
        *_check_sizes(select),
        *_check_query(select),
        *batches_of(select).check(),
        *_check_storable(select),
        *_check_open(select),
        *_check_registered(select),
        *_check_routed(select),
        *_check_expectations(select),
        *_check_text(select),
        *_check_table_changes(select),
        *_check_planned_files(select),
        *_check_watermark(select),
        *_check_event_times(select),
    ]
    if problems:
        raise ProjectError(problems)
    return select


def _check_reads(model: Model) -> Iterable[Problem]:
    """Problems of a model whose mode reads tables: its SELECT reads a stream, or the
    model's own table."""
    mode = model.config.mode
    for found in model.facts.streams:
        yield Problem(
            "stream-in-view",
            f"Model '{model.name}' has mode '{mode}', whose SELECT reads tables, and reads stream '{found.name}'.",
            "A stream brings what is new, and a table is all that is there: the two would not mean the same.",
            "Read the stream in a model of its own (mode append, upsert or cdc), and the table of that with ref().",
            found.place,
        )
    if "this" in model.facts.reads:
        what = f"Model '{model.name}' has mode '{mode}', and reads its own table."
        why = "Its rows are to be those of the SELECT, which must not depend on what they were."
        yield Problem(
            "cycle", what, why, "Read the tables that it is made of.", model.place
        )


def build_selects(
    manifest: Manifest, names: Iterable[str], built: dict[str, Select] | None = None
) -> dict[str, Select]:
    """The SELECTs of the models, as `build_select` builds them."""
    built = {} if built is None else built
    return {name: build_select(manifest, name, built) for name in names}


def _stream_of(manifest: Manifest, name: str, built: dict[str, Select]) -> Stream:
    read = reads_model(manifest, name)
    if read is None:
        return manifest.streams[name]
    select = build_select(manifest, read.name, built)
    columns, keys = (
        output_columns(select),
        select.writing.keys or batches_of(select).unique_by,
    )
    if not read.config.changes_rows:
        return model_stream(name, columns, read.properties.watermark, read.place)
    types = {column.name: column.type for column in columns}
    added = [
        Column(each.name, each.type or types.get(each.like, ""))
        for each in select.writing.added
    ]
    if read.config.versions is not None:
        keys = (*keys, *(each.name for each in added[:1]))
    return model_stream(
        name, (*columns, *added), read.properties.watermark, read.place, keys
    )


def shapes_of(streams: Mapping[str, Stream]) -> dict[str, StreamShape]:
    """What the check of a SELECT needs to know of each stream, by the stream's name."""
    return {name: _shape_of(stream) for name, stream in streams.items()}


def selects_of(select: Select) -> SelectsRead:
    """The SELECTs in a model's text, subqueries too, read against the streams and
    tables that the model was built with."""
    inputs = select.input_columns.items()
    tables = {
        parts: typed_columns(zip(names, kinds, strict=True))
        for parts, (names, kinds) in inputs
    }
    return read_selects(select.query.sql, shapes_of(select.streams), tables)


def _shape_of(stream: Stream) -> StreamShape:
    names, types = (
        stream.column_names or None,
        tuple(column.type for column in stream.columns),
    )
    if stream.watermark is None:
        return StreamShape(names, None, types)
    time = stream.watermark.column
    if not stream.makes_event_time:
        return StreamShape(names, time, types)
    return StreamShape(names, None, types, time, event_type(time, stream.types))


def _views_of(
    manifest: Manifest, model: Model, built: dict[str, Select]
) -> dict[tuple[str, ...], str]:
    """The SELECTs of the views that a model reads, by the parts of the views' names in
    lower case."""
    views: dict[tuple[str, ...], str] = {}
    for name in _refs_of(model):
        if not is_stored(manifest, name):
            views[read_table(manifest, name).folded] = build_select(
                manifest, name, built
            ).query.sql
    return views


def _refs_of(model: Model) -> Iterable[str]:
    """The names of the models and seeds that a model reads by `ref`, without
    duplicates."""
    return dict.fromkeys(found.name for found in model.facts.refs)


def _tables_of(
    manifest: Manifest, model: Model, built: dict[str, Select]
) -> dict[tuple[str, ...], tuple[QueryColumn, ...]]:
    """The columns of the tables that a model joins, by the parts of the tables' names.
    A table is missing if its columns are not known from its model's SELECT."""
    tables: dict[tuple[str, ...], tuple[QueryColumn, ...]] = {}
    for name in _refs_of(model):
        if name in manifest.deferred:
            continue  # it may have been written by another version of that model
        if name in manifest.seeds:
            seed = manifest.seeds[name]
            tables[seed.table.folded] = typed_columns(
                (it.name, stored_type(it.type)) for it in seed.columns
            )
            continue
        if not is_stored(manifest, name):
            tables |= _tables_of(manifest, manifest.models[name], built)
            continue
        try:
            read = build_select(manifest, name, built)
        except ProjectError:
            continue  # that model is refused by itself
        if read.query.offered is not None:
            added = (QueryColumn(column.name, 0) for column in read.writing.added)
            tables[read.model.table.folded] = (*read.query.offered, *added)
    return tables


def _input_columns(
    tables: Mapping[tuple[str, ...], tuple[QueryColumn, ...]],
) -> dict[tuple[str, ...], tuple[tuple[str, ...], tuple[str, ...]]]:
    """The names of the columns of tables, and their types; '' for a name or a type that
    is not known."""
    return {
        parts: (
            tuple(column.name or "" for column in columns),
            tuple(column.type.text if column.type else "" for column in columns),
        )
        for parts, columns in tables.items()
    }


def template_of(manifest: Manifest, model: Model) -> Template:
    """The model's file as a template."""
    return model.facts.template or parse_template(
        model.path, model.source, manifest.macros
    )


def names_of_template(
    manifest: Manifest, model: Model, is_full_refresh: bool = False
) -> Names:
    """The values of the names that a template may use, for a model of this project and
    target."""
    target, member = manifest.target, model.member
    renamed = {member.feed: member.stream} if member is not None else {}
    return Names(
        stream=lambda name: identifier(renamed.get(name, name)),
        ref=lambda name: table_name(read_table(manifest, name)),
        this=table_name(model.table),
        vars=manifest.vars,
        target={
            "name": target.name,
            "namespace": target.namespace,
            "catalog": target.catalog.name,
        },
        is_full_refresh=is_full_refresh,
    )


def _with_feed_key(select: Select) -> Select:
    """The SELECT with the model's keys as the key of the mirrored feed's records, if
    the feed declares no key and the model's keys are plain columns of it."""
    key = tuple(select.feed_keys.values())
    if select.feed is None or len(key) < len(select.writing.keys):
        return select
    streams = {
        name: replace(stream, key=key) if stream.is_feed and not stream.key else stream
        for name, stream in select.streams.items()
    }
    return replace(select, streams=streams)


def _reads(
    query: Query, streams: Mapping[str, Stream], is_such: Callable[[Stream], bool]
) -> bool:
    return any(is_such(streams[name]) for name in query.streams_read)


def _key_columns(query: Query, streams: Mapping[str, Stream]) -> Mapping[str, str]:
    """The key columns of the topic that the SELECT passes on unchanged: for each output
    name in lower case, the column's name in the stream in lower case.

    Empty if a key column is missing, if several streams are read, or if the stream is a
    change feed or not read from topics.
    """
    read = [streams[name] for name in query.streams_read]
    if len(read) != 1 or read[0].is_feed or read[0].origin.brings != "records":
        return {}
    wanted = {name.lower() for name in read[0].key}
    plain = {
        it.name.lower(): it.column.lower()
        for it in query.outputs or ()
        if it.column and it.stream
    }
    found = {name: column for name, column in plain.items() if column in wanted}
    return found if {*found.values()} == wanted else {}


def _check_columns(select: Select) -> Iterable[Problem]:
    """Problems of options that name columns which the SELECT does not have, and of
    columns that the mode adds under a name that the SELECT or another added column
    already has."""
    model, known = select.model, select.columns
    if known is None:
        if option := batches_of(select).needs_columns:
            what = f"{option} needs the columns of the SELECT, and a * in it stands for those of a table."
            yield Problem("columns-unknown", what, place=model.option_place(option))
        return
    lowered = {name.lower() for name in known}
    for index, it in enumerate(select.writing.added):
        fix = "Give one of them another name: the mode's by its option."
        if it.name.lower() in lowered:
            what = f"The SELECT has a column '{it.name}', and mode '{model.config.mode}' adds one of that name."
            yield Problem("duplicate-column", what, "", fix, model.option_place("mode"))
        elif it.name.lower() in (
            earlier.name.lower() for earlier in select.writing.added[:index]
        ):
            what = f"Mode '{model.config.mode}' adds two columns '{it.name}'."
            yield Problem("duplicate-column", what, "", fix, model.option_place("mode"))
    placed = {
        "partition_by": tuple(field.column for field in model.config.partition_by),
        "order_by": tuple(field.column for field in model.config.order_by),
    }
    added = {it.name.lower() for it in select.writing.added}
    for option, words in {**placed, **select.writing.compared}.items():
        for word in words:
            column = word.split(".")[0] if option == "partition_by" else word
            if column.lower() not in (lowered | added if option in placed else lowered):
                condition = "key-not-selected" if option == "keys" else "unknown-column"
                what = f"'{word}' in {option} is not a column of the SELECT."
                yield Problem(
                    condition,
                    what,
                    "",
                    did_you_mean(word, known),
                    model.option_place(option),
                )
    names = {*known, *(it.name for it in select.writing.added)}
    for task in own_tasks(model):
        yield from _check_task(select, task, names)
    for option, columns in batches_of(select).updated.items():
        for index, column in enumerate(columns):
            if column.lower() not in lowered:
                what = f"'{column}' in {option} is not a column of the SELECT."
                place = model.option_place(option, index)
                yield Problem(
                    "unknown-column", what, "", did_you_mean(column, known), place
                )


def _check_task(
    select: Select, task: MaintenanceTask, names: Collection[str]
) -> Iterable[Problem]:
    """Problems of a maintenance task that Iceberg would refuse: columns that the table
    does not have, and filters that Iceberg cannot evaluate. `names` are the table's
    columns."""
    place, options = said_at(select.model, task), task.options
    lowered = {name.lower() for name in names}
    if isinstance(options, RewriteDataFiles):
        for term in sort_terms(options):
            for column in term.columns:
                word = column.partition(".")[0]
                # Iceberg compares these names case-sensitively, except in a zorder.
                if word not in names and not (
                    term.transform == ZORDER and word.lower() in lowered
                ):
                    what = f"'{word}' in sort_order of {task.name} is not a column of the table."
                    yield Problem(
                        "unknown-column", what, "", did_you_mean(word, names), place
                    )
    if isinstance(
        options, RewriteDataFiles | RewritePositionDeleteFiles
    ) and options.where not in ("", RECENT):
        found = read_expression(options.where, names, use="filter")
        if isinstance(found, Problem):
            what = f"`where` of {task.name}: {found.what}"
            yield replace(found, what=what, place=place)
        elif part := find_no_filter(options.where):
            what = f"`where` of {task.name}: Iceberg cannot look for files by {part}."
            why = "It compares columns, as they are or in its own transforms, with values."
            fix = f"Write each column by itself, or as `{task.table.catalog}.system.truncate(1, city) = 'R'`."
            yield Problem("bad-expression", what, why, fix, place)


def _check_sizes(select: Select) -> Iterable[Problem]:
    """Problems of a maintenance task's file sizes that contradict one another or the
    table's target size."""
    model = select.model
    terms = terms_of(model)
    for task in own_tasks(model):
        match task.options:
            case RewriteDataFiles() as options:
                found = find_disordered(options, terms.target_bytes)
            case RewritePositionDeleteFiles() as options:
                found = find_disordered(options, terms.deletes_target_bytes)
            case _:
                continue
        place = said_at(model, task)
        yield from (
            Problem("wrong-value", f"{task.name}: {what}.", place=place)
            for what in found
        )


def _no_columns(stream: Stream) -> Problem:
    if not stream.is_open:
        what = f"Stream '{stream.name}' declares no columns, and the project has no schema of its subject."
        fix = f"`lakesql schema pull {stream.name}` fetches it from the registry; or declare the stream's `columns`."
        return Problem("no-columns", what, fix=fix, place=stream.place)
    what = f"Stream '{stream.name}' declares no columns, and none of its records has been seen on this target."
    fix = "Run a model that reads it, which asks the topic; or record a sample; or declare its `columns`."
    return Problem("no-columns", what, fix=fix, place=stream.place)


def _check_open(select: Select) -> Iterable[Problem]:
    """Problems of a stateful SELECT over a stream without declared columns: the state
    keeps the columns that it began with, while the stream's follow its schema."""
    for stream in select.streams.values():
        if select.query.stateful and stream.is_open:
            what = f"Stream '{stream.name}' declares no columns, and '{select.model.name}' keeps state of its rows."
            why = "State is of the columns that it began with, and those of the stream follow its schema."
            yield Problem(
                "no-columns", what, why, "Declare the stream's `columns`.", stream.place
            )


def _check_registered(select: Select) -> Iterable[Problem]:
    """Problems of a stateful SELECT over a stream with a registry: new schemas are
    registered while the query runs, and its state could not follow them."""
    for stream in select.streams.values():
        if select.query.stateful and stream.registry:
            what = f"Model '{select.model.name}' keeps state, and values of its stream '{stream.name}' name schemas of "
            found = next(
                (
                    each
                    for each in select.model.facts.streams
                    if each.name == stream.name
                ),
                None,
            )
            place = select.model.place if found is None else found.place
            yield Problem("registry-stateful", f"{what}a registry.", place=place)


def _check_routed(select: Select) -> Iterable[Problem]:
    """Problems of a stateful SELECT over a stream that is one value of a group's route:
    values without a table could not be reported."""
    for stream in select.streams.values():
        if select.query.stateful and stream.route is not None:
            what = f"'{select.model.name}' keeps state of its rows, and reads the records of one value of a route."
            why = "A query with state is not asked which values its records have that no table stands for."
            fix = "Leave the rows as they are, and aggregate the table in a model of its own: {{ stream('…') }}."
            yield Problem("group-route", what, why, fix, select.model.place)


def _check_storable(select: Select) -> Iterable[Problem]:
    """Problems of columns and partition fields that Iceberg would refuse when it
    creates the table. Columns of unknown type are not checked."""
    model, types = (
        select.model,
        {column.name.lower(): column.type for column in output_columns(select)},
    )
    version = format_version(model.config.properties)
    for output in select.query.outputs or ():
        kind = types[output.name.lower()]
        if kind and (part := find_unstorable(kind, version)):
            what = f"Column '{output.name}' is of a type that no table can hold."
            yield Problem(
                "unstorable-type",
                what,
                *say_unstorable(kind, part),
                select.rendered.place(output.offset),
            )
    taken = find_taken_names(
        model.config.partition_by,
        [output.name for output in select.query.outputs or ()],
    )
    yield from find_misused(
        model.name, types, model.config.order_by, select.compared, model.option_place
    )
    for index, field in enumerate(model.config.partition_by):
        place = model.option_place("partition_by", index)
        kind = type_at(types, field.column)
        if (
            "." in field.column
            and not kind
            and types.get(field.column.split(".")[0].lower())
        ):
            what = f"'{field.column}' in partition_by is no field of a struct of the SELECT."
            yield Problem("unknown-column", what, place=place)
        if field in taken:
            what = f"{partition_text(field)} makes a partition '{field.name}', and the SELECT has a column "
            why = "Iceberg wants names that differ."
            yield Problem(
                "partition-name-taken", f"{what}'{taken[field]}'.", why, place=place
            )
        if kind and not takes(field, kind):
            what = f"'{field.column}' is of type {kind}, which cannot be partitioned by {partition_text(field)}."
            yield Problem("partition-type", what, place=place)


def _check_query(select: Select) -> Iterable[Problem]:
    """Problems of a SELECT that are the same in every mode, such as `_change` of a
    stream that is no change feed."""
    model, query = select.model, select.query
    if select.drops_late and model.config.late == "dead_letter" and not query.ungrouped:
        yield Problem(
            "late-unknown",
            "Which records of this SELECT came too late cannot be told.",
            "Spark says how many, and lakesql finds them by the event time in the GROUP BY, or the SELECT DISTINCT, of "
            "the outermost SELECT, if it is no session_window and no streams are joined.",
            "Group in the outermost SELECT, or leave it at late='count'.",
            model.option_place("late"),
        )
    if "star-in-function" in query.noted and select.adds_columns:
        yield Problem(
            "star-in-function",
            "* inside a function takes in the columns that lakesql adds to a stream.",
            place=select.rendered.place(query.noted["star-in-function"]),
        )
    if query.change_fields and all(
        not stream.is_feed for stream in select.streams.values()
    ):
        yield Problem(
            "envelope-missing",
            f"Model '{model.name}' uses _change, and none of its streams is a change feed.",
            fix="Say `envelope: debezium`, `debezium_flat` or `dms` in the stream that is one.",
            place=model.place,
        )


def _check_told_apart(
    manifest: Manifest, model: Model, streams: Mapping[str, Stream]
) -> Iterable[Problem]:
    """Problems of tables that are read as streams of changes although their rows have
    no key."""
    for found in model.facts.streams:
        read = reads_model(manifest, found.name)
        if (
            read is None
            or not read.config.changes_rows
            or streams[found.name].has_table_changes
        ):
            continue
        yield Problem(
            "stream-of-keyed-model",
            f"Nothing tells the rows of '{read.name}' apart, whose mode '{read.config.mode}' changes them.",
            "Which row has become which other one could not be said.",
            f"Join its table with ref('{read.name}'), or give it keys: mode 'materialized_view'.",
            found.place,
        )


def _check_table_changes(select: Select) -> Iterable[Problem]:
    """Problems of a SELECT over the changes of a table that keeps state, reads a second
    stream or uses unknown fields of `_change`: such changes are not streamed by
    Spark."""
    for name in select.query.streams_read:
        stream = select.streams[name]
        if not stream.has_table_changes:
            continue
        place = next(
            found.place for found in select.model.facts.streams if found.name == name
        )
        fix = "Log its changes in a model of their own, in mode 'append', and read that one: {{ stream('…') }}."
        why = "They are read commit by commit, and not streamed by Spark."
        if select.query.stateful:
            what = f"'{select.model.name}' keeps state between batches, of changes of the rows of '{name}'."
            yield Problem("stream-of-keyed-model", what, why, fix, place)
        elif len(select.query.streams_read) > 1:
            what = f"'{select.model.name}' reads the changes of the rows of '{name}' and another stream."
            yield Problem("stream-of-keyed-model", what, why, fix, place)
        known = change_fields(stream)
        if unknown := sorted(select.query.change_fields - known.keys()):
            what = (
                f"_change.{unknown[0]} is not known of the changes of table '{name}'."
            )
            yield Problem(
                "unknown-column",
                what,
                f"They have the fields {', '.join(known)}.",
                place=place,
            )


def _check_planned_files(select: Select) -> Iterable[Problem]:
    """Problems of a SELECT that keeps state or reads a second stream, over files whose
    batches lakesql plans itself (`ordered_by`, `notifications`) instead of Spark."""
    for name in select.query.streams_read:
        stream = select.streams[name]
        said = "`ordered_by: name`" if stream.ordered_by else "`notifications`"
        if not (stream.ordered_by or stream.notifications):
            continue
        is_alone = len(select.query.streams_read) == 1
        if is_alone and not select.query.stateful:
            continue
        does = (
            "reads another stream beside"
            if not is_alone
            else "keeps state between batches of"
        )
        yield Problem(
            "contradictory-options",
            f"Model '{select.model.name}' {does} '{name}', which says {said}.",
            "Such files are planned by lakesql, batch by batch, and not streamed by Spark.",
            "Read them into a table of their own in mode 'append', and read that one: {{ stream('…') }}.",
            next(
                found.place
                for found in select.model.facts.streams
                if found.name == name
            ),
        )


def _check_watermark(select: Select) -> Iterable[Problem]:
    """Problems of the watermark that the model declares on its own table for models
    that read the table as a stream."""
    watermark, place = select.model.properties.watermark, select.model.properties.place
    if watermark is None:
        return
    if select.model.config.changes_rows:
        yield Problem(
            "contradictory-options",
            f"The table of model '{select.model.name}' has a watermark, and mode '{select.writing.mode}' changes rows.",
            "Models read a table as a stream, with its watermark, where rows are only added to it.",
            "Leave `watermark` out, or use mode 'append'.",
            place,
        )
    if select.columns is not None:
        types = {column.name: column.type for column in output_columns(select)}
        yield from find_unfit(watermark.column, types, "the SELECT", place)


def _check_event_times(select: Select) -> Iterable[Problem]:
    """Problems of watermarks on streams without declared columns, which could not be
    checked before the columns were found."""
    for stream in select.streams.values():
        if stream.is_open and stream.watermark is not None:
            yield from find_unfit(
                stream.watermark.column,
                stream.types,
                f"stream '{stream.name}'",
                stream.place,
            )


def _check_expectations(select: Select) -> Iterable[Problem]:
    """Problems of expectations: on columns that the SELECT does not have, with
    conditions that are no boolean expressions, and with `dead_letter` where the records
    of a row cannot be found."""
    known = select.columns
    outputs = output_columns(select)
    typed = typed_columns((it.name, it.type) for it in outputs)
    for check in select.checks:
        if (
            check.column
            and known is not None
            and check.column.lower() not in {name.lower() for name in known}
        ):
            what = f"Something is expected of column '{check.column}', which is not one of the SELECT."
            yield Problem(
                "unknown-column",
                what,
                "",
                did_you_mean(check.column, known),
                check.place,
            )
        found = (
            read_expression(check.condition, known, typed=typed, use="test")
            if check.is_written
            else None
        )
        if isinstance(found, Problem):
            yield found.at(check.place)
        if (
            kind := next(
                (it.type for it in typed if it.folded == check.column.lower()), None
            )
        ) is not None:
            yield from find_unacceptable(check, kind)
        if check.on_fail == "dead_letter" and (why := batches_of(select).untraceable()):
            yield Problem(
                "expectation-untraceable",
                f"'{check.name}' cannot make dead letters of the records of model '{select.model.name}'.",
                why,
                "Say `on_fail: stop`, or `on_fail: warn`; or leave such rows out by a WHERE.",
                check.place,
            )


def _check_text(select: Select) -> Iterable[Problem]:
    """Problems of `invalid_text: dead_letter` in a stateful model that may turn bytes
    into text: its rows are made of many records, so no single record could be the dead
    letter."""
    asking = next(
        (
            stream
            for stream in select.streams.values()
            if stream.invalid_text == "dead_letter"
        ),
        None,
    )
    if asking is None or not select.query.stateful:
        return
    has_bytes = any(
        "binary" in column.type
        for stream in select.streams.values()
        for column in stream.columns
    )
    if has_bytes or select.query.record_fields & {"key", "headers"}:
        yield Problem(
            "text-untraceable",
            f"Stream '{asking.name}' says `invalid_text: dead_letter`, and model '{select.model.name}' keeps state.",
            "It may make text of bytes, and a row of it is made of many records: none could be set aside.",
            f"Declare another stream of what '{asking.name}' reads, without `invalid_text`, and read that: U+FFFD "
            "stands for such bytes then, and is counted.",
            select.model.place,
        )


def _wants_valid_text(select: Select) -> bool:
    """Whether a record becomes a dead letter if its row has text that is not UTF-8."""
    is_asked = any(
        stream.invalid_text == "dead_letter" for stream in select.streams.values()
    )
    return is_asked and bool(select.columns) and not batches_of(select).untraceable()
