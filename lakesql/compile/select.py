"""A model's SELECT: rendered once, read, and checked against the model's configuration. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from lakesql.compile.checks import (
    INVALID_TEXT,
    Check,
    check_of_text,
    checks_of,
    find_unacceptable,
    is_unsteady,
    names_of,
)
from lakesql.compile.quote import identifier, table_name
from lakesql.compile.storable import (
    find_misused,
    find_taken_names,
    find_unstorable,
    partition_name,
    say_unstorable,
    takes,
)
from lakesql.compile.table import format_version, partition_text, terms_of
from lakesql.errors import InternalError, LakesqlError, Place, Problem, ProjectError, did_you_mean
from lakesql.graph.manifest import Manifest, read_table, reads_model
from lakesql.model.config import mode_of
from lakesql.model.model import Model
from lakesql.model.table_name import TableName
from lakesql.model.upkeep import MaintenanceTask, own_tasks, said_at
from lakesql.model.writing import Writing, build_writing
from lakesql.names import CHANGE
from lakesql.project.procedures import (
    RECENT,
    RewriteDataFiles,
    RewritePositionDeleteFiles,
    find_disordered,
    sort_terms,
)
from lakesql.project.profiles import adds_functions
from lakesql.project.sort_order import ZORDER
from lakesql.select.file_filter import find_no_filter
from lakesql.select.query import Query, carry_position, read_expression, read_query
from lakesql.select.relation import Column as QueryColumn
from lakesql.select.relation import StreamShape
from lakesql.stream.stream import CHANGE_FIELDS, Column, Stream, check_event_time, model_stream
from lakesql.stream.types import parse_type, type_at
from lakesql.template.evaluate import Names
from lakesql.template.template import Rendered, Template, parse_template, render_template

_CHANGE = f"{CHANGE}."


@dataclass(frozen=True, slots=True)
class Select:
    """A model with its SELECT, and how its batches are written.

    `streams` are what it reads: declared ones, and other models' tables as such, whose names are in `read_tables`.
    `checks` are what is expected of its rows.
    """

    model: Model
    query: Query
    streams: Mapping[str, Stream]
    rendered: Rendered
    writing: Writing
    read_tables: Mapping[str, TableName]
    checks: tuple[Check, ...] = ()

    @property
    def text(self) -> str:
        """The SELECT that Spark runs: the author's text, with the position carried through it where it is needed."""
        return carry_position(self.query) if self.writing.is_positioned else self.query.sql

    def place(self, offset: int) -> Place:
        """Where in the model's file the character at `offset` of `text` stands."""
        if self.writing.is_positioned:
            for at, inserted in reversed(self.query.carry):
                start = at + sum(len(text) for before, text in self.query.carry if before < at)
                if offset >= start:
                    offset -= min(len(inserted), offset - start)
        return self.rendered.place(offset)

    @property
    def change_fields(self) -> frozenset[str]:
        """The fields of `_change` that the SELECT, or the mode, uses."""
        needed = {"op", "position", "tx", *(each.removeprefix(_CHANGE) for each in self.order)}
        needed |= {"ts"} if self.writing.marks_deletes else set()
        return self.query.change_fields | (needed & CHANGE_FIELDS.keys() if self.writing.is_mirror else frozenset())

    @property
    def change_columns(self) -> tuple[str, ...]:
        """The same fields, in the order in which `_change` has them."""
        return tuple(name for name in (*CHANGE_FIELDS, "before") if name in self.change_fields)

    @property
    def feed_keys(self) -> Mapping[str, str]:
        """The columns of the feed's key, by the names that `keys` of a mirroring model has for them.

        Of a key that is no plain column of the stream there is none.
        """
        outputs = {output.name.lower(): output for output in self.query.outputs or ()}
        columns = {column.name.lower(): column.name for stream in self.streams.values() for column in stream.columns}
        found = {}
        for key in self.writing.keys:
            output = outputs.get(key.lower())
            # Where a table's columns are known to Spark alone, a column has the name that the stream gives it.
            made_of = output.column if output else None if self.query.outputs is not None else key
            if made_of and made_of.lower() in columns:
                found[key] = columns[made_of.lower()]
        return found

    @property
    def sequence(self) -> Mapping[str, str]:
        """What tells the newer of two changes in a mirrored feed, by the names that the model's columns have for it.

        It is a column of the stream, or a field of `_change`. Of what the SELECT has not, as it is, there is none.
        """
        words = self.writing.sequence_by if self.writing.is_mirror else ()
        return dict(found for word in words if (found := self.sequenced(word)))

    def sequenced(self, word: str) -> tuple[str, str] | None:
        """What a word of a mirror's `sequence_by` is: a column of the SELECT, and what that is in the feed."""
        columns = {column.name.lower(): column.name for stream in self.streams.values() for column in stream.columns}
        for output in self.query.outputs or ():
            field = f"{_CHANGE}{output.change}" if output.change in CHANGE_FIELDS else ""
            if word.lower() in (output.name.lower(), field):
                made_of = field or columns.get((output.column or "").lower(), "")
                return (output.name, made_of) if made_of else None
        return None

    @property
    def compared(self) -> Mapping[str, tuple[str, ...]]:
        """The table's columns that a batch compares its rows with, by the option that names them."""
        return {**self.writing.compared, **({"sequence_by": tuple(self.sequence)} if self.sequence else {})}

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns by which rows of the table are found to be changed; none where none is."""
        sequence = tuple(self.sequence) or self.writing.sequence_by
        if not self.writing.is_changing:
            return ()
        return (*self.writing.keys, *sequence) if self.writing.is_history else self.writing.keys

    @property
    def kept(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of a mirrored feed whose values the table keeps where a change does not send them.

        The SELECT does nothing with them but pass them on, by these names.
        """
        query = self.query
        if not self.writing.is_mirror or self.writing.is_history or "star-in-function" in query.noted:
            return {}
        found: dict[str, tuple[str, ...]] = {}
        needed = {*(name.lower() for name in (*self.feed_keys.values(), *self.sequence.values())), *query.used}
        for output in query.outputs or ():
            if output.column and output.stream and not {output.column.lower(), output.name.lower()} & needed:
                found[output.column] = (*found.get(output.column, ()), output.name)
        return found

    def unused_of(self, stream: Stream) -> tuple[str, ...]:
        """The columns of a feed that nothing reads: neither the SELECT, nor what finds and orders its rows."""
        words = self.query.words
        if words is None or stream.envelope == "none":
            return ()
        asked = {name.lower() for name in (*stream.key, *([stream.watermark.column] if stream.watermark else ()))}
        return tuple(it.name for it in stream.columns if it.name.lower() not in words | asked)

    @property
    def has_moves(self) -> bool:
        """Whether the changes of a row's key are told from deletes and inserts."""
        return "moves" in self.writing.memories

    @property
    def has_one_table(self) -> bool:
        """Whether all changes of its feed must be of one table of the database.

        Not where the stream reads several topics, or says which tables it takes as one. A SELECT that looks at the
        table tells rows apart by it; a mirror's has the newest change of each key alone, of whichever table that is.
        """
        feeds = [stream for stream in self.streams.values() if stream.envelope != "none"]
        looks = not self.writing.is_mirror and {"source_db", "source_schema", "source_table"} & self.query.change_fields
        if not self.writing.mixes_tables or looks or len(feeds) != 1:
            return False
        return not feeds[0].reads_several and not feeds[0].takes_several_tables

    @property
    def is_placed(self) -> bool:
        """Whether the changes of a mirrored feed, truncates too, are ordered by their places in the log alone."""
        return tuple(self.sequence.values()) == (f"{_CHANGE}position",)

    @property
    def order(self) -> tuple[str, ...]:
        """What orders the changes of a row in a batch before their arrival: columns of the feed, fields of `_change`.

        Where the mode leaves it to arrival, there is none between topics: what is known of a change orders them.
        """
        is_of_several = self.writing.is_mirror and any(stream.reads_several for stream in self.streams.values())
        if self.sequence or not is_of_several:
            return tuple(self.sequence.values())
        return f"{_CHANGE}position", f"{_CHANGE}ts"

    @property
    def orders_reads(self) -> bool:
        """Whether what a snapshot has read of a row has a place of its own in the order of a batch."""
        return self.order[:1] == (f"{_CHANGE}position",)

    @property
    def drops_late(self) -> bool:
        """Whether a watermark drops rows that come too late."""
        has_watermark = any(self.streams[name].watermark for name in self.query.streams_read)
        keeps_times = self.query.grouped_by_event_time or self.query.joins_streams
        return self.query.stateful and has_watermark and keeps_times

    @property
    def late_text(self) -> str:
        """The SELECT of the rows among which the late ones are looked for, by event time; '' where none is."""
        return self.query.ungrouped if self.drops_late and self.model.config.late == "dead_letter" else ""

    @property
    def judges_text(self) -> bool:
        """Whether a row with text that is not UTF-8 makes a dead letter."""
        return any(check.name == INVALID_TEXT for check in self.checks)

    @property
    def has_unsteady_checks(self) -> bool:
        """Whether a row that is looked at again, as its record becomes a dead letter, may fail something else."""
        conditions = (check.condition for check in self.checks)
        return bool(names_of(self.checks, "dead_letter")) and is_unsteady(self.query.sql, *conditions)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of the table; None where only Spark's analyzer knows them."""
        return tuple(output.name for output in self.query.outputs) if self.query.outputs is not None else None


def build_select(
    manifest: Manifest, name: str, built: dict[str, Select] | None = None, is_full_refresh: bool = False
) -> Select:
    """The SELECT of the model `name`. `built` keeps those of models that others read as streams.

    Raises `ProjectError` with everything that is wrong with the SELECT and with the options that name its columns.
    """
    built = {} if built is None else built
    if name not in built:
        model = manifest.models[name]
        try:
            built[name] = _build_select(manifest, model, built, is_full_refresh)
        except (LakesqlError, OSError, ImportError):
            raise
        except Exception as error:
            raise InternalError.of_defect(error, f"Model '{name}'", Place(model.path)) from error
    return built[name]


def _build_select(manifest: Manifest, model: Model, built: dict[str, Select], is_full_refresh: bool) -> Select:
    streams = {found.name: _stream_of(manifest, found.name, built) for found in model.facts.streams}
    if unknown := [stream for stream in streams.values() if stream.is_open and not stream.columns]:
        raise ProjectError(map(_no_columns, unknown))
    rendered = render_template(template_of(manifest, model), names_of_template(manifest, model, is_full_refresh))
    tables, is_plain = _tables_of(manifest, model, built), not adds_functions(manifest.target.spark)
    this = (model.table.catalog.lower(), model.table.namespace.lower(), model.table.name.lower())
    query = read_query(rendered.text, shapes_of(streams), rendered.place, tables, is_plain, this)
    read_tables = {found: read.table for found in streams if (read := reads_model(manifest, found)) is not None}
    checks = checks_of(model.properties)
    write = partial(
        build_writing, model.config, query.stateful, _reads_feed(query, streams), _key_columns(query, streams)
    )
    writing = write(is_traced=bool(names_of(checks, "dead_letter")))
    select = _with_feed_key(Select(model, query, streams, rendered, writing, read_tables, checks))
    if _wants_valid_text(select):
        checks = (*checks, check_of_text(select.columns or (), model.place))
        writing = write(is_traced=True)
        select = _with_feed_key(Select(model, query, streams, rendered, writing, read_tables, checks))
    problems = [
        *_check_columns(select),
        *_check_sizes(select),
        *_check_mode(select),
        *_check_storable(select),
        *_check_open(select),
        *_check_expectations(select),
        *_check_text(select),
        *_check_watermark(select),
    ]
    if problems:
        raise ProjectError(problems)
    return select


def build_selects(
    manifest: Manifest, names: Iterable[str], built: dict[str, Select] | None = None
) -> dict[str, Select]:
    """The SELECTs of the models, as `build_select` builds them."""
    built = {} if built is None else built
    return {name: build_select(manifest, name, built) for name in names}


def output_columns(select: Select) -> tuple[Column, ...]:
    """The SELECT's columns with the types that are known without Spark; an unknown type is the empty text."""
    columns = []
    for output in select.query.outputs or ():
        declared = select.streams[output.stream].columns if output.stream else ()
        plain = next((item.type for item in declared if item.name.lower() == (output.column or "").lower()), "")
        columns.append(
            Column(output.name, output.cast or plain or output.type or CHANGE_FIELDS.get(output.change or "", ""))
        )
    return tuple(columns)


def _stream_of(manifest: Manifest, name: str, built: dict[str, Select]) -> Stream:
    read = reads_model(manifest, name)
    if read is None:
        return manifest.streams[name]
    return model_stream(
        name, output_columns(build_select(manifest, read.name, built)), read.properties.watermark, read.place
    )


def shapes_of(streams: Mapping[str, Stream]) -> dict[str, StreamShape]:
    """What a SELECT is told of the streams that it reads."""
    return {
        name: StreamShape(
            stream.column_names or None,
            stream.watermark.column if stream.watermark else None,
            tuple(column.type for column in stream.columns),
        )
        for name, stream in streams.items()
    }


def _tables_of(
    manifest: Manifest, model: Model, built: dict[str, Select]
) -> dict[tuple[str, ...], tuple[QueryColumn, ...]]:
    """The columns of the tables of the models that a model joins, as far as their SELECTs tell."""
    tables: dict[tuple[str, ...], tuple[QueryColumn, ...]] = {}
    for name in {found.name: None for found in model.facts.refs}:
        if name in manifest.deferred:
            continue  # it may have been written by another version of that model
        try:
            read = build_select(manifest, name, built)
        except ProjectError:
            continue  # that model is refused by itself
        if read.query.offered is not None:
            table, added = read.model.table, (QueryColumn(column.name, 0) for column in read.writing.added)
            tables[table.catalog.lower(), table.namespace.lower(), table.name.lower()] = (*read.query.offered, *added)
    return tables


def template_of(manifest: Manifest, model: Model) -> Template:
    """The model's file as a template."""
    return model.facts.template or parse_template(model.path, model.source, manifest.macros)


def names_of_template(manifest: Manifest, model: Model, is_full_refresh: bool = False) -> Names:
    """What the names of a template mean for a model of this project and target."""
    target = manifest.target
    return Names(
        stream=identifier,
        ref=lambda name: table_name(read_table(manifest, name)),
        this=table_name(model.table),
        vars=manifest.vars,
        target={"name": target.name, "namespace": target.namespace, "catalog": target.catalog.name},
        is_full_refresh=is_full_refresh,
    )


def _with_feed_key(select: Select) -> Select:
    """Where a mirrored feed declares no key, the model's keys say which of its columns are the key of its records."""
    key = tuple(select.feed_keys.values())
    if not select.writing.is_mirror or len(key) < len(select.writing.keys):
        return select
    streams = {
        name: replace(stream, key=key) if stream.envelope != "none" and not stream.key else stream
        for name, stream in select.streams.items()
    }
    return replace(select, streams=streams)


def _reads_feed(query: Query, streams: Mapping[str, Stream]) -> bool:
    return any(streams[name].envelope != "none" for name in query.streams_read)


def _key_columns(query: Query, streams: Mapping[str, Stream]) -> Mapping[str, str]:
    """The columns of the SELECT, in small letters, that are plainly columns of the key of the one topic that it reads.

    None where it has not all of these, or its records are no rows by themselves.
    """
    read = [streams[name] for name in query.streams_read]
    if len(read) != 1 or read[0].envelope != "none" or read[0].origin.brings != "records":
        return {}
    wanted = {name.lower() for name in read[0].key}
    plain = {it.name.lower(): it.column.lower() for it in query.outputs or () if it.column and it.stream}
    found = {name: column for name, column in plain.items() if column in wanted}
    return found if {*found.values()} == wanted else {}


def _check_columns(select: Select) -> Iterable[Problem]:
    """Options that name columns of the SELECT."""
    model, known = select.model, select.columns
    if known is None:
        if option := select.writing.needs_columns:
            what = f"{option} needs the columns of the SELECT, and a * in it stands for those of a table."
            yield Problem("columns-unknown", what, place=model.option_place(option))
        return
    lowered = {name.lower() for name in known}
    for index, it in enumerate(select.writing.added):
        fix = "Give one of them another name: the mode's by its option."
        if it.name.lower() in lowered:
            what = f"The SELECT has a column '{it.name}', and mode '{mode_of(model.config)}' adds one of that name."
            yield Problem("duplicate-column", what, "", fix, model.option_place("mode"))
        elif it.name.lower() in (earlier.name.lower() for earlier in select.writing.added[:index]):
            what = f"Mode '{mode_of(model.config)}' adds two columns '{it.name}'."
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
                yield Problem(condition, what, "", did_you_mean(word, known), model.option_place(option))
    names = {*known, *(it.name for it in select.writing.added)}
    for task in own_tasks(model):
        yield from _check_task(select, task, names)
    for option, columns in select.writing.updated.items():
        for index, column in enumerate(columns):
            if column.lower() not in lowered:
                what = f"'{column}' in {option} is not a column of the SELECT."
                place = model.option_place(option, index)
                yield Problem("unknown-column", what, "", did_you_mean(column, known), place)


def _check_task(select: Select, task: MaintenanceTask, names: Collection[str]) -> Iterable[Problem]:
    """What a procedure is told of the columns `names` of the table, and Iceberg would refuse."""
    place, options = said_at(select.model, task), task.options
    lowered = {name.lower() for name in names}
    if isinstance(options, RewriteDataFiles):
        for term in sort_terms(options):
            for column in term.columns:
                word = column.partition(".")[0]
                # Iceberg asks for the capitals too, but in a zorder.
                if word not in names and not (term.transform == ZORDER and word.lower() in lowered):
                    what = f"'{word}' in sort_order of {task.name} is not a column of the table."
                    yield Problem("unknown-column", what, "", did_you_mean(word, names), place)
    if isinstance(options, RewriteDataFiles | RewritePositionDeleteFiles) and options.where not in ("", RECENT):
        found = read_expression(options.where, names)
        if isinstance(found, Problem):
            what = f"`where` of {task.name}: {found.what}"
            yield replace(found, what=what, place=place)
        elif part := find_no_filter(options.where):
            what = f"`where` of {task.name}: Iceberg cannot look for files by {part}."
            why = "It compares columns, as they are or in its own transforms, with values."
            fix = f"Write each column by itself, or as `{task.table.catalog}.system.truncate(1, city) = 'R'`."
            yield Problem("bad-expression", what, why, fix, place)


def _check_sizes(select: Select) -> Iterable[Problem]:
    """Sizes of files that Iceberg does not rewrite files by."""
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
        yield from (Problem("wrong-value", f"{task.name}: {what}.", place=place) for what in found)


def _no_columns(stream: Stream) -> Problem:
    what = f"Stream '{stream.name}' declares no columns, and none of its records has been seen on this target."
    fix = "Run a model that reads it, which asks the topic; or record a sample; or declare its `columns`."
    return Problem("no-columns", what, fix=fix, place=stream.place)


def _check_open(select: Select) -> Iterable[Problem]:
    """A SELECT whose state is of other columns as soon as its stream's schema changes."""
    for stream in select.streams.values():
        if select.query.stateful and stream.is_open:
            what = f"Stream '{stream.name}' declares no columns, and '{select.model.name}' keeps state of its rows."
            why = "State is of the columns that it began with, and those of the stream follow its schema."
            yield Problem("no-columns", what, why, "Declare the stream's `columns`.", stream.place)


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
    yield from find_misused(model.name, types, model.config.order_by, select.compared, model.option_place)
    for index, field in enumerate(model.config.partition_by):
        place = model.option_place("partition_by", index)
        kind = type_at(types, field.column)
        if "." in field.column and not kind and types.get(field.column.split(".")[0].lower()):
            what = f"'{field.column}' in partition_by is no field of a struct of the SELECT."
            yield Problem("unknown-column", what, place=place)
        if field in taken:
            what = f"{partition_text(field)} makes a partition '{partition_name(field)}', and the SELECT has a column "
            why = "Iceberg wants names that differ."
            yield Problem("partition-name-taken", f"{what}'{taken[field]}'.", why, place=place)
        if kind and not takes(field, kind):
            what = f"'{field.column}' is of type {kind}, which cannot be partitioned by {partition_text(field)}."
            yield Problem("partition-type", what, place=place)


def _check_mode(select: Select) -> Iterable[Problem]:
    """A SELECT whose rows the mode cannot write."""
    model, query, writing = select.model, select.query, select.writing
    kept = query.aggregated or "distinct" in query.noted
    if writing.output_mode == "append" and kept and not query.grouped_by_event_time:
        what = "an aggregate must be grouped by" if query.aggregated else "DISTINCT must have a column that is the"
        yield Problem(
            "watermark-missing",
            f"In mode '{mode_of(model.config)}' {what} event time of a stream that has a watermark.",
            "A group's row is appended once it can no longer change; without a watermark that never happens.",
            _fix_watermark(select),
            select.rendered.place(query.noted["watermark-missing" if query.aggregated else "distinct"]),
        )
    if writing.output_mode == "update" and "filtered-groups" in query.noted:
        yield Problem(
            "filtered-groups",
            f"A group that stops passing this filter would keep its last row in the table, as mode "
            f"'{mode_of(model.config)}' only writes the rows that the SELECT gives.",
            place=select.rendered.place(query.noted["filtered-groups"]),
        )
    if writing.output_mode == "update" and "nested-aggregate" in query.noted:
        yield Problem(
            "nested-aggregate",
            f"Mode '{mode_of(model.config)}' cannot aggregate the rows of an aggregate.",
            "Spark would have to take back a row that the outer aggregate has counted already.",
            place=select.rendered.place(query.noted["nested-aggregate"]),
        )
    if writing.output_mode == "update" and "session-in-upsert" in query.noted:
        yield Problem(
            "session-in-upsert",
            f"Mode '{mode_of(model.config)}' cannot group by session_window.",
            "A session that grows has another start or end, and its former row would stay.",
            place=select.rendered.place(query.noted["session-in-upsert"]),
        )
    if "grouping-sets" in query.noted:
        plain = {output.name.lower() for output in query.outputs or () if output.column}
        for key in (key for key in writing.keys if key.lower() in plain):
            yield Problem(
                "group-not-in-keys",
                f"In the rows that ROLLUP, CUBE and GROUPING SETS add, the key '{key}' is NULL, for all of its values.",
                "A row without a key is a dead letter.",
                f"Give it a value, coalesce({key}, 'all') AS {key}. If 'all' may be one of its own, add grouping_id() "
                "to the SELECT and to keys.",
                model.option_place("keys"),
            )
    if select.drops_late and model.config.late == "dead_letter" and not query.ungrouped:
        yield Problem(
            "late-unknown",
            "Which records of this SELECT came too late cannot be told.",
            "Spark says how many, and lakesql finds them by the event time in the GROUP BY, or the SELECT DISTINCT, of "
            "the outermost SELECT, if it is no session_window and no streams are joined.",
            "Group in the outermost SELECT, or leave it at late='count'.",
            model.option_place("late"),
        )
    adds_columns = writing.is_positioned or query.record_fields or query.change_fields or select.late_text
    if "star-in-function" in query.noted and adds_columns:
        yield Problem(
            "star-in-function",
            "* inside a function takes in the columns that lakesql adds to a stream.",
            place=select.rendered.place(query.noted["star-in-function"]),
        )
    is_changed_by_source = writing.is_mirror or writing.is_history
    if writing.output_mode == "update" and query.joins_streams and not is_changed_by_source:
        yield Problem(
            "upsert-over-join",
            f"Mode '{mode_of(model.config)}' cannot take the rows of a join of two streams.",
            "Spark joins streams with each other in mode 'append' only.",
            place=model.option_place("mode"),
        )
    if writing.keys and not writing.sequence_by and not is_changed_by_source:
        keys = {key.lower() for key in writing.keys}
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
    if query.change_fields and all(stream.envelope == "none" for stream in select.streams.values()):
        yield Problem(
            "envelope-missing",
            f"Model '{model.name}' uses _change, and none of its streams is a change feed.",
            fix="Say `envelope: debezium`, `debezium_flat` or `dms` in the stream that is one.",
            place=model.place,
        )
    if query.stateful and is_changed_by_source:
        yield Problem(
            "cdc-stateful",
            f"Mode '{mode_of(model.config)}' cannot aggregate, take DISTINCT rows or join streams: its table has a row "
            f"for each {'version of a row' if writing.is_history else 'row'} of the source.",
            fix="Read one stream, and join what a model makes of the other: {{ ref('…') }}."
            if query.joins_streams
            else "Leave that out: the table keeps the rows, and they are aggregated where it is queried.",
            place=model.option_place("mode"),
        )
    if writing.is_mirror:
        yield from _check_mirror(select)
    if ignored := _feed_of_ignored_deletes(select):
        yield Problem(
            "upsert-over-feed",
            f"Mode 'upsert' would write a row for each delete of the change feed '{ignored}'.",
            "Nothing of the model tells a delete from an update: the deleted row would stay, with NULLs where the "
            "feed sends no more than the key.",
            "Use mode 'cdc', whose table has the rows of the source. Or select `_change.op AS op`, and say "
            "`delete_when=\"op = 'd'\"`; or leave deletes out: `WHERE _change.op <> 'd'`.",
            model.option_place("mode"),
        )
    for option, condition in writing.conditions.items():
        if isinstance(problem := read_expression(condition, select.columns), Problem):
            yield problem.at(model.option_place(option))
    for option, condition in writing.match_conditions.items():
        if isinstance(problem := read_expression(condition, select.columns, ("source", "target")), Problem):
            yield problem.at(model.option_place(option))
    is_asked = "tombstone_retention" in model.options and model.said.get("tombstone_retention")
    if is_asked and not writing.memories:
        yield Problem(
            "contradictory-options",
            "tombstone_retention is given, and deleted keys are not remembered.",
            "Without sequence_by nothing says which row is older; in mode 'upsert' delete_when says what is deleted.",
            place=model.option_place("tombstone_retention"),
        )
    for found in writing.contradictions:
        yield Problem("contradictory-options", found.what, found.why, place=model.option_place(found.option))


def _feed_of_ignored_deletes(select: Select) -> str:
    """The change feed whose deletes an upsert would take for rows; '' where there is none, or the model looks at `op`.

    A model that keeps state may count changes, deletes among them.
    """
    query, writing = select.query, select.writing
    if writing.mode != "upsert" or query.stateful or "delete_when" in writing.conditions or "op" in query.change_fields:
        return ""
    return next((name for name in query.streams_read if select.streams[name].envelope != "none"), "")


def _fix_watermark(select: Select) -> str:
    """How the groups of a SELECT over the table of a model can be finished, or be written before they are."""
    read = [name for name in select.query.streams_read if name in select.read_tables]
    if not read:
        return ""
    return (
        f"Group by a time of the table of '{read[0]}' that has a watermark in the properties of '{read[0]}': "
        "`watermark: {column: …, delay: 10 minutes}`. Or use mode 'upsert', with the columns of the groups as keys."
    )


def _check_watermark(select: Select) -> Iterable[Problem]:
    """A watermark on the model's table that no model can read it with."""
    watermark, place = select.model.properties.watermark, select.model.properties.place
    if watermark is None:
        return
    if select.writing.is_changing:
        yield Problem(
            "contradictory-options",
            f"The table of model '{select.model.name}' has a watermark, and mode '{select.writing.mode}' changes rows.",
            "Models read a table as a stream, with its watermark, where rows are only added to it.",
            "Leave `watermark` out, or use mode 'append'.",
            place,
        )
    types = {column.name.lower(): column.type for column in output_columns(select)}
    if select.columns is None:
        return
    if watermark.column.lower() not in types:
        what = f"'{watermark.column}' in 'watermark' is not a column of the SELECT."
        yield Problem("unknown-column", what, fix=did_you_mean(watermark.column, select.columns), place=place)
        return
    yield from check_event_time(watermark.column, types[watermark.column.lower()], place)


def _check_expectations(select: Select) -> Iterable[Problem]:
    """Expectations of columns that the SELECT has not, that are no conditions, or that a dead letter cannot answer."""
    known = select.columns
    outputs = output_columns(select)
    typed = tuple(QueryColumn(it.name, 0, type=parse_type(it.type) if it.type else None) for it in outputs)
    for check in select.checks:
        if check.column and known is not None and check.column.lower() not in {name.lower() for name in known}:
            what = f"Something is expected of column '{check.column}', which is not one of the SELECT."
            yield Problem("unknown-column", what, "", did_you_mean(check.column, known), check.place)
        found = read_expression(check.condition, known, typed=typed) if check.is_written else None
        if isinstance(found, Problem):
            yield found.at(check.place)
        if (kind := next((it.type for it in typed if it.folded == check.column.lower()), None)) is not None:
            yield from find_unacceptable(check, kind)
        if check.on_fail == "dead_letter" and (why := _untraceable(select)):
            yield Problem(
                "expectation-untraceable",
                f"'{check.name}' cannot make dead letters of the records of model '{select.model.name}'.",
                why,
                "Say `on_fail: stop`, or `on_fail: warn`; or leave such rows out by a WHERE.",
                check.place,
            )


def _check_text(select: Select) -> Iterable[Problem]:
    """A stream whose text makes dead letters, in a model that makes rows of many records and text of their bytes."""
    asking = next((stream for stream in select.streams.values() if stream.invalid_text == "dead_letter"), None)
    if asking is None or not select.query.stateful:
        return
    has_bytes = any("binary" in column.type for stream in select.streams.values() for column in stream.columns)
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
    """Whether a record becomes a dead letter by text of its row that is not UTF-8."""
    is_asked = any(stream.invalid_text == "dead_letter" for stream in select.streams.values())
    return is_asked and bool(select.columns) and not _untraceable(select)


def _untraceable(select: Select) -> str:
    """Why a row of the SELECT is not one record that could be set aside and read again; '' where it is."""
    if select.query.stateful:
        return "It keeps state between batches: a row is made of many records."
    if select.writing.is_mirror:
        return (
            f"Mode '{mode_of(select.model.config)}' mirrors a feed: without the change the table would keep a version "
            "of the row that the source has no more."
        )
    if select.query.multiplies and not select.writing.is_idempotent:
        return (
            "It may make several rows of a record, by a join, explode or the like: `lakesql replay` would add those "
            "again that were written. With keys it would not."
        )
    return ""


def _check_mirror(select: Select) -> Iterable[Problem]:
    """Whether the SELECT is over one change feed whose key it keeps."""
    model, query = select.model, select.query
    mode = mode_of(model.config)
    streams = [select.streams[name] for name in query.streams_read]
    feeds = [stream for stream in streams if stream.envelope != "none"]
    if len(streams) != 1 or not feeds:
        yield Problem(
            "cdc-stream",
            f"Mode '{mode}' mirrors one change feed, and model '{model.name}' reads "
            f"{', '.join(stream.name for stream in streams) or 'none'}.",
            fix="Read one stream with `envelope: debezium`, `debezium_flat` or `dms`.",
            place=model.option_place("mode"),
        )
        return
    (feed,) = feeds
    wanted = {name.lower() for name in feed.key}
    found = [column.lower() for column in select.feed_keys.values()]
    if others := [key for key in select.writing.keys if key not in select.feed_keys]:
        yield Problem(
            "cdc-keys",
            f"'{others[0]}' in keys is no column of stream '{feed.name}' as the feed brings it.",
            "A row of the source is found in the table by the feed's key alone: another value may change with the row, "
            "and a delete does not bring it.",
            "Name the columns of the feed's key in keys, and no other. Rows of several sources that have the same keys "
            "are mirrored by a model for each, which a view puts together; or the connector adds to the key of each "
            "record what tells the sources apart.",
            model.option_place("keys"),
        )
    elif not wanted or len(found) != len(wanted) or set(found) != wanted:
        yield Problem(
            "cdc-keys",
            f"The keys of a mirror are those of its feed, and stream '{feed.name}' has "
            f"{'the key ' + ', '.join(feed.key) if feed.key else 'no such columns'}.",
            "A row of the source is found in the table by them.",
            "Select these columns as they are, renamed at most, and name them in keys.",
            model.option_place("keys"),
        )
    for index, word in enumerate(select.writing.sequence_by):
        if select.sequenced(word):
            continue
        is_field = word.lower() in (f"{_CHANGE}{name}" for name in CHANGE_FIELDS)
        suggested = f"Add `{word} AS {word.removeprefix(_CHANGE)}` to the SELECT." if is_field else ""
        columns = [f"{_CHANGE}position", *(column.name for column in feed.columns)]
        yield Problem(
            "sequence-not-selected",
            f"'{word}' in sequence_by is not a column of the SELECT that it has as the feed brings it.",
            "The table keeps it, to tell an older change from a newer one.",
            suggested or did_you_mean(word, columns),
            model.option_place("sequence_by", index),
        )
