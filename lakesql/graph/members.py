"""The models that a group stands for: one for each table of its feed that is known, or that a run has found. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lakesql.decode import Node, collect, fields_of, node_of
from lakesql.errors import Place, Problem, ProjectError, did_you_mean
from lakesql.model.column_rules import GroupMember
from lakesql.model.config import MaintenanceConfig, TableConfig, trigger_of
from lakesql.model.group import GROUP_OPTIONS, GroupConfig, ModelGroup
from lakesql.model.model import MaintenanceModel, Model, TemplateFacts
from lakesql.model.properties import ModelProperties
from lakesql.model.table_name import TableName
from lakesql.modes.all_modes import find_mode
from lakesql.modes.read_config import merge_config, read_config
from lakesql.names import LONGEST_NAME
from lakesql.project.files import SourceFile
from lakesql.project.profiles import Target
from lakesql.stream.source_table import SourceTable, stream_of_table
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
    for group in groups:
        feed = streams.get(group.stream)
        wrong = [_unknown_stream(group, streams)] if feed is None else [*_check_feed(group, feed)]
        if feed is None or wrong:
            problems.extend(wrong)
            continue
        known = [table for table in tables if table.stream == group.stream and group.tables.takes(table.name)]
        wanted = [table for table in known if _is_wanted(group, table, remarks)]
        names = _names_of(group, wanted, problems, remarks)
        if collect(problems, partial(_options, group, defaults_of(group.name, group.fqn), STANDS_FOR_KEY)) is None:
            continue
        shared = _shared_topics(table for table in tables if table.stream == group.stream)
        members: list[str] = []
        for name, table in names.items():
            said = problems if table.is_declared else []
            before = len(said)
            found = _member_of(group, feed, name, table, table.topic in shared, taken, defaults_of, make, said)
            if found is None:
                remarks += [] if table.is_declared else [_unfit(group, table, said[before])]
                continue
            member, stream = found
            members.append(f"{group.name}.{name}")
            made.append(stream)
            models += [member] if member is not None else []
        finished.append(replace(group, members=tuple(members)))
    return Members(tuple(models), tuple(made), tuple(finished), tuple(remarks))


def _member_of(
    group: ModelGroup,
    feed: Stream,
    name: str,
    table: SourceTable,
    shares_topic: bool,
    taken: Mapping[str, Model],
    defaults_of: DefaultsOf,
    make: MakeModel,
    problems: list[Problem],
) -> tuple[Model | None, Stream] | None:
    """The model of a table, and its stream; no model where a file has it, and neither where something is wrong."""
    whole, fqn = f"{group.name}.{name}", (*group.fqn, name)
    member = GroupMember(group.name, table.name, group.stream, f"{group.stream}__{name}", group.tables.columns)
    stream = collect(problems, partial(stream_of_table, feed, table, member.stream, shares_topic=shares_topic))
    if stream is None:
        return None
    if whole in taken:
        return None, stream
    options = collect(problems, partial(_member_options, group, table, defaults_of(whole, fqn)))
    model = collect(problems, partial(make, whole, fqn, options, member)) if options is not None else None
    return None if model is None else (model, stream)


def _shared_topics(tables: Iterable[SourceTable]) -> set[str]:
    """The topics that have the changes of several tables, such as those whose names differ only by what no topic's name
    may have: Debezium writes `_` for it."""
    found: dict[str, set[str]] = {}
    for table in tables:
        found.setdefault(table.topic, set()).add(table.name)
    return {topic for topic, names in found.items() if len(names) > 1}


def _is_wanted(group: ModelGroup, table: SourceTable, remarks: list[Problem]) -> bool:
    """Whether a table gets a model; of one that no file declares `new_tables` says it, and `remarks` hears of it."""
    if table.is_declared or group.tables.new_tables == "create":
        return True
    what = f"Table '{table.name}' has come into stream '{group.stream}', and is not in the project."
    pull = f"To have it in the project: lakesql schema pull {group.stream}."
    if group.tables.new_tables == "refuse":
        fix = f"{pull} To leave it out: tables={{'exclude': ['{table.name}']}}."
        why = f"Group '{group.name}' says new_tables='refuse'; its other tables go on."
        remarks.append(Problem("new-table", what, why, fix, group.place))
    else:
        why = f"Group '{group.name}' says new_tables='ignore': its records stay where they are."
        remarks.append(Problem("table-left-out", what, why, pull, group.place))
    return False


def _unfit(group: ModelGroup, table: SourceTable, problem: Problem) -> Problem:
    """The problem of a table that was found in a feed and cannot be mirrored; `problem` is the first reason."""
    return Problem(
        "table-unfit",
        f"Table '{table.name}' of stream '{group.stream}' gets no model in group '{group.name}': {problem.what}",
        problem.why,
        f"{problem.fix} To leave it out: tables={{'exclude': ['{table.name}']}}.".strip(),
        group.place,
    )


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
    if not feed.is_feed:
        yield Problem(
            "group-stream",
            f"Stream '{feed.name}', of whose tables '{group.name}' makes models, is no change feed.",
            "Which table a record belongs to, and which columns that has, stand in the records of a change feed.",
            "Give the stream an `envelope`, or write a model for it without `tables`.",
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
    if feed.columns or feed.key:
        yield Problem(
            "group-stream",
            f"Stream '{feed.name}' declares `columns` or a `key`, which each of its tables has by itself.",
            fix="Leave them out there; `source_tables` has those of each table.",
            place=feed.place,
        )


def _names_of(
    group: ModelGroup, tables: Sequence[SourceTable], problems: list[Problem], remarks: list[Problem]
) -> dict[str, SourceTable]:
    """The tables by what their models are called. `problems` hears of two of one name, and of names without a table;
    `remarks` where the second of the two is not declared."""
    names: dict[str, SourceTable] = {}
    folded: dict[str, SourceTable] = {}
    for table in sorted(tables, key=lambda each: not each.is_declared):
        name = group.tables.member_name(table)
        first = folded.setdefault(name.lower(), table)
        if first.name == table.name and first is not table:
            continue  # it is declared twice, which is said elsewhere
        if first is not table:
            same = Problem(
                "duplicate-name",
                f"Tables '{first.name}' and '{table.name}' would both be '{group.name}.{name}'.",
                "Capitals make no difference, and what no name may have becomes `_`.",
                f"Give one another name: tables={{'rename': {{'{table.name}': '{name}_2'}}}}.",
                group.place,
            )
            _refuse(group, table, same, problems, remarks)
        elif len(f"{group.name}.{name}") > LONGEST_NAME:
            what = f"The name of table '{table.name}' is too long for a model: {len(name)} characters."
            fix = f"Give it another one: tables={{'rename': {{'{table.name}': '…'}}}}."
            _refuse(group, table, Problem("bad-name", what, "", fix, group.place), problems, remarks)
        else:
            names[name] = table
    there = {table.name for table in tables}
    for missing in group.tables.rename.keys() - there if tables else ():
        what = f"'{missing}', which '{group.name}' renames, is no table of stream '{group.stream}'."
        problems.append(Problem("unknown-source-table", what, "", did_you_mean(missing, there), group.place))
    return names


def _refuse(
    group: ModelGroup, table: SourceTable, problem: Problem, problems: list[Problem], remarks: list[Problem]
) -> None:
    """Say that a table cannot be a model: of one that a file declares it is an error of the project."""
    if table.is_declared:
        problems.append(problem)
    else:
        remarks.append(_unfit(group, table, problem))


def _member_options(group: ModelGroup, table: SourceTable, defaults: Node) -> MemberOptions:
    if not table.key and _asks_for_keys(group, defaults):
        raise ProjectError.of(
            "group-key",
            f"Table '{table.name}' of stream '{group.stream}' has no primary key, and '{group.name}' needs one.",
            fix="Give it one in the database, or its records one by the connector's message.key.columns; leave it out: "
            f"tables={{'exclude': ['{table.name}']}}; or give it a model of its own, in mode "
            f"'append', in {group.path.removesuffix('.sql')}.{group.tables.member_name(table)}.sql.",
            place=table.place,
        )
    return _options(group, defaults, node_of(list(table.key), table.place))


def _options(group: ModelGroup, defaults: Node, keys: Node) -> MemberOptions:
    """What the file says over the defaults, with the keys of a table where the mode needs some and none are given."""
    said = group.said
    own = {name: node for name, node in said.entries().items() if name not in GROUP_OPTIONS}
    if "keys" not in own and _asks_for_keys(group, defaults):
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
