"""The models that a group stands for: one for each table of its feed that is known, or that a run has found. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lakesql.decode import Node, collect, fields_of, node_of
from lakesql.errors import Place, Problem, ProjectError, did_you_mean
from lakesql.graph.check_routes import check_declared, check_empty, check_one_route, check_route, check_values
from lakesql.graph.member_names import is_wanted, names_of_tables, pattern_of, unfit
from lakesql.model.column_rules import GroupMember
from lakesql.model.config import MaintenanceConfig, TableConfig, trigger_of
from lakesql.model.group import GROUP_OPTIONS, GroupConfig, ModelGroup
from lakesql.model.model import MaintenanceModel, Model, TemplateFacts
from lakesql.model.properties import ModelProperties
from lakesql.model.table_name import TableName
from lakesql.modes.all_modes import find_mode
from lakesql.modes.read_config import merge_config, read_config
from lakesql.project.files import SourceFile
from lakesql.project.profiles import Target
from lakesql.stream.route import Route
from lakesql.stream.source_table import SourceTable, stream_of_table, stream_of_value
from lakesql.stream.stream import Stream

STANDS_FOR_KEY = node_of(["key"], Place(""))
"""The keys of a table of which nothing is known."""


AnyModel = Model | MaintenanceModel | ModelGroup
"""What a file of `models/` may be."""


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """What a member of a group is configured with: its options as values, and as they are written."""

    config: TableConfig
    said: Node


MakeModel = Callable[[str, tuple[str, ...], MemberOptions, GroupMember], Model]
"""Makes a model of its name, its fully qualified name, and its options."""


DefaultsOf = Callable[[str, tuple[str, ...]], Node]
"""Gives the options that are said of a model beside its file, by its name and its fully qualified name."""


@dataclass(frozen=True, slots=True)
class Members:
    """What groups stand for: models and their streams, and the groups with the names of these models.

    `remarks` are what is to be said of tables that no file declares, and that are left out.
    """

    models: tuple[Model, ...]
    streams: tuple[Stream, ...]
    groups: tuple[ModelGroup, ...]
    remarks: tuple[Problem, ...] = ()


def read_group(
    name: str, fqn: tuple[str, ...], file: SourceFile, config: GroupConfig, facts: TemplateFacts
) -> ModelGroup:
    """The group of a file. Raises `ProjectError` (`group-stream`) where its SELECT does not read one stream alone."""
    read = [*dict.fromkeys(found.name for found in facts.streams)]
    if len(read) != 1:
        what = f"Group '{name}' reads {len(read)} streams, and its tables are those of one."
        fix = "Read the feed by {{ stream('…') }}, and join other tables with ref()."
        raise ProjectError.of("group-stream", what, fix=fix, place=Place(file.path, 1, 1))
    return ModelGroup(name, file.path, fqn, file.text, config, facts, read[0])


def make_members(
    groups: Iterable[ModelGroup],
    taken: Mapping[str, Model],
    streams: Mapping[str, Stream],
    tables: Sequence[SourceTable],
    defaults_of: DefaultsOf,
    make: MakeModel,
    problems: list[Problem],
) -> Members:
    """The models of the groups. `taken` are those that have a file of their own, by their names.

    `defaults_of` gives what is said of a model beside its file. `problems` hears of what is wrong with a
    group, and with a table that a file of the project declares. One that was found in the feed is left out where
    something is wrong with it, so that it does not stop the others, and `Members.remarks` say so.
    """
    models: list[Model] = []
    made: list[Stream] = []
    finished: list[ModelGroup] = []
    remarks: list[Problem] = []
    groups = tuple(groups)
    problems.extend(check_one_route(groups))
    owners = _owners(taken.values())
    for group in groups:
        feed = streams.get(group.stream)
        wrong = [_unknown_stream(group, streams)] if feed is None else [*_check_feed(group, feed)]
        if feed is None or wrong:
            problems.extend(wrong)
            continue
        known = [table for table in tables if table.stream == group.stream and group.tables.takes(table.name)]
        if too_many := [*check_values(group, known)]:
            remarks += too_many
            known = [table for table in known if table.is_declared]
        wanted = [table for table in known if is_wanted(group, table, remarks)]
        names = names_of_tables(group, wanted, problems, remarks)
        before = len(problems)
        collect(problems, partial(_check_options, group, feed, defaults_of(group.name, group.fqn)))
        if problems[before:]:
            continue
        of_stream = [table for table in tables if table.stream == group.stream]
        places = _PlacesOfTables(group, feed, of_stream)
        members: list[str] = []
        for name, table in names.items():
            said = problems if table.is_declared else []
            before = len(said)
            found = _member_of(group, places, name, table, taken, defaults_of, make, said)
            if found is not None and found[0] is not None and not table.is_declared:
                said += _taken_tables(found[0], owners)
            if found is None or said[before:]:
                remarks += [] if table.is_declared else [unfit(group, table, said[before])]
                continue
            member, stream = found
            owners |= _owners([member] if member is not None else [])
            members.append(f"{group.name}.{name}")
            made.append(stream)
            models += [member] if member is not None else []
        remarks += check_empty(group) if not known else ()
        finished.append(replace(group, members=tuple(members)))
    return Members(tuple(models), tuple(made), tuple(finished), tuple(remarks))


def _owners(models: Iterable[Model]) -> dict[str, str]:
    """The models by the names of the tables that they write, in small letters."""
    tables = ((table, model.name) for model in models for table in (model.table, *model.table.beside))
    return {str(table).lower(): name for table, name in tables}


def _taken_tables(model: Model, owners: Mapping[str, str]) -> list[Problem]:
    """That a model would write a table that another one writes."""
    for table in (model.table, *model.table.beside):
        owner = owners.get(str(table).lower())
        if owner is not None:
            fix = f"Give it another name: tables={{'rename': {{{_source_name(model)!r}: '…'}}}}."
            return [Problem("duplicate-table", f"'{owner}' writes {table} already.", "", fix, model.place)]
    return []


def _source_name(model: Model) -> str:
    return model.member.source_table if model.member is not None else ""


class _PlacesOfTables:
    """Where the records of a group's tables are: in topics of their own, or told apart in those of others.

    `tables` are all that are known of the feed.
    """

    def __init__(self, group: ModelGroup, feed: Stream, tables: Sequence[SourceTable]) -> None:
        self._group, self._feed = group, feed
        self._shared = _shared_topics(tables)
        self._known = tuple(table.name for table in tables)

    def stream_of(self, table: SourceTable, name: str) -> Stream:
        """The stream of one table, which is called so. Raises `ProjectError` with what is wrong with the table."""
        said = self._group.tables
        if not said.route:
            return stream_of_table(self._feed, table, name, shares_topic=table.topic in self._shared)
        if problems := [*check_declared(self._group, table)]:
            raise ProjectError(problems)
        return stream_of_value(
            self._feed, table, name, Route(said.route, table.name, self._known, said.include, said.exclude)
        )


def _member_of(
    group: ModelGroup,
    places: _PlacesOfTables,
    name: str,
    table: SourceTable,
    taken: Mapping[str, Model],
    defaults_of: DefaultsOf,
    make: MakeModel,
    problems: list[Problem],
) -> tuple[Model | None, Stream] | None:
    """The model of a table, and its stream; no model where a file has it, and neither where something is wrong."""
    whole, fqn = f"{group.name}.{name}", (*group.fqn, name)
    member = GroupMember(group.name, table.name, group.stream, f"{group.stream}__{name}", group.tables.columns)
    stream = collect(problems, partial(places.stream_of, table, member.stream))
    if stream is None:
        return None
    if whole in taken:
        return None, stream
    options = collect(problems, partial(_member_options, group, table, stream.key, defaults_of(whole, fqn)))
    model = collect(problems, partial(make, whole, fqn, options, member)) if options is not None else None
    return None if model is None else (model, stream)


def _shared_topics(tables: Iterable[SourceTable]) -> set[str]:
    """The topics that have the changes of several tables, such as those whose names differ only by what no topic's name
    may have: Debezium writes `_` for it."""
    found: dict[str, set[str]] = {}
    for table in tables:
        found.setdefault(table.topic, set()).add(table.name)
    return {topic for topic, names in found.items() if len(names) > 1}


def make_member(
    target: Target,
    properties: Mapping[str, ModelProperties],
    groups: Mapping[str, ModelGroup],
    name: str,
    fqn: tuple[str, ...],
    options: MemberOptions,
    member: GroupMember,
) -> Model:
    """The model of one table of a group. Raises `ProjectError` where all would write one table."""
    group, config = groups[member.group], options.config
    if config.table:
        what = f"Group '{group.name}' gives all of its tables the name '{config.table}'."
        raise ProjectError.of("wrong-value", what, fix="Write tables={'name': '…{table}'}.", place=group.place)
    return Model(
        name=name,
        path=group.path,
        fqn=fqn,
        source=group.source,
        table=TableName(target.catalog.name, config.namespace or target.namespace, fqn[-1]),
        config=config,
        trigger=trigger_of(config, target.trigger),
        options=options.said.plain(),
        facts=_facts_of(group.facts, member),
        properties=properties.get(name) or ModelProperties(group.place, name),
        member=member,
    )


def with_members(every: Mapping[str, AnyModel], members: Members, problems: list[Problem]) -> dict[str, AnyModel]:
    """The models, with those of groups in the place of these. A file of a member's name reads the member's stream."""
    found: dict[str, AnyModel] = {}
    known = {name for group in members.groups for name in group.members}
    for name, model in every.items():
        if isinstance(model, ModelGroup):
            continue
        if "." in name and isinstance(model, Model):
            member = _own_member(name, members.groups)
            if member is None:
                what = f"'{name}' is not a name: it has a dot, and there is no group '{name.partition('.')[0]}'."
                problems.append(Problem("bad-name", what, place=Place(model.path)))
                continue
            if name not in known:
                problems.append(_unknown_table(name, member, known, model))
                continue
            model = replace(model, member=member, facts=_facts_of(model.facts, member))
        found[name] = model
    return found | {model.name: model for model in members.models}


def check_source_tables(tables: Iterable[SourceTable], streams: Mapping[str, Stream]) -> Iterable[Problem]:
    """Tables of streams that are not there."""
    for table in tables:
        if table.stream not in streams:
            what = f"Table '{table.name}' names stream '{table.stream}', which is not there."
            yield Problem("unknown-stream", what, "", did_you_mean(table.stream, streams), table.place)


def _own_member(name: str, groups: Iterable[ModelGroup]) -> GroupMember | None:
    """What a model's file means that has the name of a group's member, as `shop_mirror.public_orders.sql`."""
    group_name, _, own = name.partition(".")
    for group in groups:
        if own and group.name == group_name:
            return GroupMember(group.name, "", group.stream, f"{group.stream}__{own}")
    return None


def _facts_of(facts: TemplateFacts, member: GroupMember) -> TemplateFacts:
    """What a file says that reads a group's feed, for one of its tables."""
    names = {member.feed: member.stream}
    streams = (replace(found, name=names.get(found.name, found.name)) for found in facts.streams)
    return replace(facts, streams=tuple(streams))


def _unknown_table(name: str, member: GroupMember, known: Collection[str], model: Model) -> Problem:
    return Problem(
        "unknown-source-table",
        f"Group '{member.group}' has no table for '{name}'.",
        f"Neither a file nor a run knows such a table of stream '{member.feed}'.",
        f"{did_you_mean(name, known)} Bring its tables into the project: lakesql schema pull {member.feed}.".strip(),
        model.place,
    )


def _unknown_stream(group: ModelGroup, streams: Mapping[str, Stream]) -> Problem:
    reference = next((found for found in group.facts.streams if found.name == group.stream), None)
    place = reference.place if reference is not None else group.place
    what = f"stream('{group.stream}') names no stream."
    return Problem("unknown-stream", what, "", did_you_mean(group.stream, streams), place)


def _check_feed(group: ModelGroup, feed: Stream) -> Iterator[Problem]:
    """What must hold for a stream whose tables are to be told apart."""
    if group.tables.route:
        yield from check_route(group, feed)
        return
    if "{value}" in group.tables.name:
        what = f"`name` of group '{group.name}' has {{value}} in it, and the group has no route."
        yield Problem("group-route", what, "", "Write {table}, or name the `route`.", group.place)
    if not feed.is_feed:
        yield Problem(
            "group-stream",
            f"Stream '{feed.name}', of whose tables '{group.name}' makes models, is no change feed.",
            "Which table a record belongs to, and which columns that has, stand in the records of a change feed.",
            "Give the stream an `envelope`; or name the column each of whose values is to have a table: "
            "tables={'route': 'event_type'}.",
            group.place,
        )
    if feed.origin.brings != "records":
        yield Problem(
            "group-stream",
            f"Stream '{feed.name}', of whose tables '{group.name}' makes models, reads files.",
            fix="Name the topics of the feed: `pattern`, `topics` or `topic`.",
            place=feed.place,
        )
    tells_transactions = feed.record_envelope.tells_transactions and not feed.registry and not feed.schema
    if group.config.consistent and feed.is_feed and not tells_transactions:
        yield Problem(
            "group-transactions",
            f"Group '{group.name}' says consistent=True, and stream '{feed.name}' tells of no transactions.",
            "Debezium's own events in JSON do, where the connector says provide.transaction.metadata=true.",
            "Leave `consistent` out, or read the connector's events as they are: envelope: debezium.",
            feed.place,
        )
    if feed.is_feed and not feed.record_format.is_document:
        yield Problem(
            "group-stream",
            f"Stream '{feed.name}', of whose tables '{group.name}' makes models, has format '{feed.format}'.",
            "Which tables a feed has, and which columns they have, is read of events in JSON.",
            "Let the connector write JSON with its schemas: JsonConverter, schemas.enable=true. Or write a model for "
            "each table, without `tables`.",
            feed.place,
        )
    elif feed.columns or feed.key:
        yield Problem(
            "group-stream",
            f"Stream '{feed.name}' declares `columns` or a `key`, which each of its tables has by itself.",
            fix="Leave them out there; `source_tables` has those of each table.",
            place=feed.place,
        )


def _member_options(group: ModelGroup, table: SourceTable, key: Sequence[str], defaults: Node) -> MemberOptions:
    if not key and not group.tables.route and _asks_for_keys(group, defaults):
        raise ProjectError.of(
            "group-key",
            f"Table '{table.name}' of stream '{group.stream}' has no primary key, and '{group.name}' needs one.",
            fix="Give it one in the database, or its records one by the connector's message.key.columns; leave it out: "
            f"tables={{'exclude': [{pattern_of(table)!r}]}}; or give it a model of its own, in mode "
            f"'append', in {group.path.removesuffix('.sql')}.{group.tables.member_name(table)}.sql.",
            place=table.place,
        )
    return _options(group, defaults, node_of(list(key), table.place))


def _check_options(group: ModelGroup, feed: Stream, defaults: Node) -> None:
    """Raise `ProjectError` with what is wrong with the options of all tables, whatever they are."""
    config = _options(group, defaults, STANDS_FOR_KEY).config
    if group.tables.route and config.needs_changes:
        raise ProjectError.of(
            "group-route",
            f"Group '{group.name}' has a route, and mode '{config.mode}' is given the rows that changes leave.",
            why="Only a change feed has those, and its changes say which table they are of.",
            fix="Take mode 'append' or 'upsert', or 'scd2'.",
            place=group.said.key_place("mode"),
        )
    says_keys = "keys" in merge_config(defaults, group.said).entries()
    if group.tables.route and not feed.key and not says_keys and _asks_for_keys(group, defaults):
        raise ProjectError.of(
            "group-key",
            f"Stream '{group.stream}' declares no `key`, and '{group.name}' needs one.",
            fix="Say it in the group's config, `keys=['id']`, or give the stream a `key`.",
            place=group.place,
        )


def _options(group: ModelGroup, defaults: Node, keys: Node) -> MemberOptions:
    """What the file says over the defaults, with the keys of a table where the mode needs some and none are given."""
    said = group.said
    own = {name: node for name, node in said.entries().items() if name not in GROUP_OPTIONS}
    says_keys = "keys" in (merge_config(defaults, said).entries() if group.tables.route else own)
    if not says_keys and _asks_for_keys(group, defaults):
        own["keys"] = keys
    node = Node(own, said.place, said.keys)
    config = read_config(node, defaults, "streams")
    if isinstance(config, MaintenanceConfig):
        what = "A file with `tables` makes tables, and mode 'maintenance' makes none."
        raise ProjectError.of("wrong-value", what, place=said.place)
    return MemberOptions(config, merge_config(defaults, node))


def _asks_for_keys(group: ModelGroup, defaults: Node) -> bool:
    """Whether the mode cannot do without keys."""
    mode = merge_config(defaults, group.said).get("mode")
    kind = find_mode(str(mode.value), "streams") if mode is not None else None
    return kind is not None and any(field.name == "keys" and field.required for field in fields_of(kind))
