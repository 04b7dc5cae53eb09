"""The models that a group stands for: one for each table of its feed that is declared,
or that a run has found. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from lakesql.decode import Node, collect
from lakesql.errors import Place, Problem, ProjectError, did_you_mean
from lakesql.graph.check_groups import feed_of
from lakesql.graph.check_routes import (
    check_declared,
    check_empty,
    check_one_route,
    check_values,
)
from lakesql.graph.member_names import is_wanted, names_of_tables, unfit
from lakesql.graph.member_options import (
    MemberOptions,
    check_group_options,
    options_of_member,
)
from lakesql.model.column_rules import GroupMember
from lakesql.model.config import trigger_of
from lakesql.model.group import GroupConfig, ModelGroup
from lakesql.model.model import MaintenanceModel, Model, TemplateFacts
from lakesql.model.properties import ModelProperties
from lakesql.model.table_name import TableName
from lakesql.project.files import SourceFile
from lakesql.project.profiles import Target
from lakesql.stream.route import Route
from lakesql.stream.source_table import SourceTable, stream_of_table, stream_of_value
from lakesql.stream.stream import Stream

AnyModel = Model | MaintenanceModel | ModelGroup
"""What a file of `models/` can define."""


MakeModel = Callable[[str, tuple[str, ...], MemberOptions, GroupMember], Model]
"""Makes the model of a member from its name, its fully qualified name, and its
options."""


DefaultsOf = Callable[[str, tuple[str, ...]], Node]
"""Returns the options that a model gets from elsewhere than its own file, by its name
and its fully qualified name."""


@dataclass(frozen=True, slots=True)
class Members:
    """What the groups stand for: their members' models and streams, and the groups
    themselves with the names of these models.

    `remarks` are problems of tables that were found and that no file declares. Such
    tables are left out, and do not fail the project.
    """

    models: tuple[Model, ...]
    streams: tuple[Stream, ...]
    groups: tuple[ModelGroup, ...]
    remarks: tuple[Problem, ...] = ()


def read_group(
    name: str,
    fqn: tuple[str, ...],
    file: SourceFile,
    config: GroupConfig,
    facts: TemplateFacts,
) -> ModelGroup:
    """The group that a file defines. Raises `ProjectError` (`group-stream`) if its
    SELECT does not read exactly one stream."""
    read = [*dict.fromkeys(found.name for found in facts.streams)]
    if len(read) != 1:
        what = f"Group '{name}' reads {len(read)} streams, and its tables are those of one."
        fix = "Read the feed by {{ stream('…') }}, and join other tables with ref()."
        raise ProjectError.of(
            "group-stream", what, fix=fix, place=Place(file.path, 1, 1)
        )
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
    """The models of the groups. `taken` are the models by name that have a file of
    their own.

    Problems of a group, and of a table that a file of the project declares, are added
    to `problems`. A table that was found in the feed and has a problem is left out, so
    that it does not stop the others; the problem is in `Members.remarks`.
    """
    groups = tuple(groups)
    problems.extend(check_one_route(groups))
    making = _Making(
        taken, tables, defaults_of, make, problems, _owners(taken.values())
    )
    for group in groups:
        feed = feed_of(group, streams, problems)
        if feed is not None:
            making.add_group(group, feed)
    return Members(
        tuple(making.models),
        tuple(making.streams),
        tuple(making.groups),
        tuple(making.remarks),
    )


@dataclass(slots=True)
class _Making:
    """Builds the members of groups, one group after another.

    `owners` maps the tables that are written, in lowercase, to the names of their
    models. The other fields are the arguments of `make_members`, and the results so
    far.
    """

    taken: Mapping[str, Model]
    tables: Sequence[SourceTable]
    defaults_of: DefaultsOf
    make: MakeModel
    problems: list[Problem]
    owners: dict[str, str]
    models: list[Model] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    groups: list[ModelGroup] = field(default_factory=list)
    remarks: list[Problem] = field(default_factory=list)

    def add_group(self, group: ModelGroup, feed: Stream) -> None:
        """Make the members of a group, and add the group with their names. Does nothing
        if the group's own options are wrong."""
        of_stream = [table for table in self.tables if table.stream == group.stream]
        known = self._known_tables(group, of_stream)
        wanted = [table for table in known if is_wanted(group, table, self.remarks)]
        names = names_of_tables(group, wanted, self.problems, self.remarks)
        before = len(self.problems)
        defaults = self.defaults_of(group.name, group.fqn)
        collect(self.problems, partial(check_group_options, group, feed, defaults))
        if self.problems[before:]:
            return
        places, first = _PlacesOfTables(group, feed, of_stream), len(self.streams)
        added = [
            name
            for name, table in names.items()
            if self._add_table(group, places, name, table)
        ]
        if not known:
            self.remarks += check_empty(group, feed)
        of_streams = {f"{group.stream}__{name}": table for name, table in names.items()}
        self.remarks += _idle_rules(group, self.streams[first:], of_streams)
        self.groups.append(
            replace(group, members=tuple(f"{group.name}.{name}" for name in added))
        )

    def _known_tables(
        self, group: ModelGroup, of_stream: Sequence[SourceTable]
    ) -> list[SourceTable]:
        """The tables of a stream that a group includes; only the declared ones if more
        were found than a group may have."""
        known = [table for table in of_stream if group.tables.takes(table.name)]
        too_many = [*check_values(group, known)]
        self.remarks += too_many
        return [table for table in known if table.is_declared] if too_many else known

    def _add_table(
        self, group: ModelGroup, places: _PlacesOfTables, name: str, table: SourceTable
    ) -> bool:
        """Make the model and the stream of a table. Returns whether it has no problem.
        The problem of a table that was found in the feed becomes a remark."""
        said = self.problems if table.is_declared else []
        before = len(said)
        found = _member_of(
            group, places, name, table, self.taken, self.defaults_of, self.make, said
        )
        if found is not None and found.model is not None and not table.is_declared:
            said += _taken_tables(found.model, self.owners)
        if found is None or said[before:]:
            if not table.is_declared:
                self.remarks.append(unfit(group, table, said[before]))
            return False
        self.streams.append(found.stream)
        if found.model is not None:
            self.models.append(found.model)
            self.owners |= _owners([found.model])
        return True


def _idle_rules(
    group: ModelGroup, streams: Sequence[Stream], tables: Mapping[str, SourceTable]
) -> Iterator[Problem]:
    """Problems of column rules that match no column of the tables: a rule may be meant
    to mask a column that has another name. None if the columns of any table are
    unknown."""
    if not streams or not all(stream.columns for stream in streams):
        return
    columns = [
        (tables[stream.name].name, column.name)
        for stream in streams
        for column in stream.columns
    ]
    for rule in group.tables.columns:
        if any(rule.is_for(*column) for column in columns):
            continue
        what = f"'{rule.pattern}', for which group '{group.name}' says {rule.action}, is no column of its tables."
        fix = did_you_mean(
            rule.pattern, {f"{table}.{column}" for table, column in columns}
        )
        yield Problem("unknown-column", what, "", fix, rule.place)


def _owners(models: Iterable[Model]) -> dict[str, str]:
    """The names of the models by the tables that they write, in lowercase;
    dead-letter tables and others beside a model's table included."""
    tables = (
        (table, model.name)
        for model in models
        for table in (model.table, *model.table.beside)
    )
    return {str(table).lower(): name for table, name in tables}


def _taken_tables(model: Model, owners: Mapping[str, str]) -> list[Problem]:
    """The problem that a model would write a table that another model writes; empty if
    it would not."""
    for table in (model.table, *model.table.beside):
        owner = owners.get(str(table).lower())
        if owner is not None:
            fix = f"Give it another name: tables={{'rename': {{{_source_name(model)!r}: '…'}}}}."
            return [
                Problem(
                    "duplicate-table",
                    f"'{owner}' writes {table} already.",
                    "",
                    fix,
                    model.place,
                )
            ]
    return []


def _source_name(model: Model) -> str:
    return model.member.source_table if model.member is not None else ""


@dataclass(frozen=True, slots=True)
class _MadeMember:
    """The stream and the model made of a table. The model is None if a file of the
    project defines it."""

    stream: Stream
    model: Model | None = None


class _PlacesOfTables:
    """Where the records of a group's tables are: each table in a topic of its own, or
    several in one topic.

    `tables` are all known tables of the feed.
    """

    def __init__(
        self, group: ModelGroup, feed: Stream, tables: Sequence[SourceTable]
    ) -> None:
        self._group, self._feed = group, feed
        self._shared = _shared_topics(tables)
        self._known = tuple(table.name for table in tables)

    def stream_of(self, table: SourceTable, name: str) -> Stream:
        """The stream of one table, named `name`. Raises `ProjectError` with the
        problems of the table."""
        said = self._group.tables
        if not said.route:
            return stream_of_table(
                self._feed, table, name, shares_topic=table.topic in self._shared
            )
        if problems := [*check_declared(self._group, table)]:
            raise ProjectError(problems)
        return stream_of_value(
            self._feed,
            table,
            name,
            Route(said.route, table.name, self._known, said.include, said.exclude),
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
) -> _MadeMember | None:
    """The stream and the model of a table; None if something is wrong with it, which is
    added to `problems`."""
    whole, fqn = f"{group.name}.{name}", (*group.fqn, name)
    member = GroupMember(
        group.name,
        table.name,
        group.stream,
        f"{group.stream}__{name}",
        group.tables.columns,
    )
    stream = collect(problems, partial(places.stream_of, table, member.stream))
    if stream is None:
        return None
    if whole in taken:
        return _MadeMember(stream)
    options = collect(
        problems,
        partial(options_of_member, group, table, stream.key, defaults_of(whole, fqn)),
    )
    model = (
        collect(problems, partial(make, whole, fqn, options, member))
        if options is not None
        else None
    )
    return None if model is None else _MadeMember(stream, model)


def _shared_topics(tables: Iterable[SourceTable]) -> set[str]:
    """The topics that hold the changes of several tables. Tables share a topic, for
    example, if their names differ only in characters that a topic's name may not have:
    Debezium writes `_` for each."""
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
    """The model of one table of a group. Raises `ProjectError` if the group's `table`
    option would give all of its models the same table."""
    group, config = groups[member.group], options.config
    if config.table:
        what = (
            f"Group '{group.name}' gives all of its tables the name '{config.table}'."
        )
        raise ProjectError.of(
            "wrong-value",
            what,
            fix="Write tables={'name': '…{table}'}.",
            place=group.place,
        )
    return Model(
        name=name,
        path=group.path,
        fqn=fqn,
        source=group.source,
        table=TableName(
            target.catalog.name, config.namespace or target.namespace, fqn[-1]
        ),
        config=config,
        trigger=trigger_of(config, target.trigger),
        options=options.said.plain(),
        facts=_facts_of(group.facts, member),
        properties=properties.get(name) or ModelProperties(group.place, name),
        member=member,
    )


def with_members(
    every: Mapping[str, AnyModel], members: Members, problems: list[Problem]
) -> dict[str, AnyModel]:
    """The models by name, in which each group is replaced by its members. A model with
    its own file, named as a member, reads the member's stream."""
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


def check_source_tables(
    tables: Iterable[SourceTable], streams: Mapping[str, Stream]
) -> Iterable[Problem]:
    """Problems of declared tables whose stream does not exist."""
    for table in tables:
        if table.stream not in streams:
            what = f"Table '{table.name}' names stream '{table.stream}', which is not there."
            yield Problem(
                "unknown-stream",
                what,
                "",
                did_you_mean(table.stream, streams),
                table.place,
            )


def _own_member(name: str, groups: Iterable[ModelGroup]) -> GroupMember | None:
    """The member that a model's own file stands for, by a name such as
    `shop_mirror.public_orders`; None if there is no such group."""
    group_name, _, own = name.partition(".")
    for group in groups:
        if own and group.name == group_name:
            return GroupMember(group.name, "", group.stream, f"{group.stream}__{own}")
    return None


def _facts_of(facts: TemplateFacts, member: GroupMember) -> TemplateFacts:
    """The facts of a template that reads a group's feed, with the feed replaced by the
    member's stream."""
    names = {member.feed: member.stream}
    streams = (
        replace(found, name=names.get(found.name, found.name))
        for found in facts.streams
    )
    return replace(facts, streams=tuple(streams))


def _unknown_table(
    name: str, member: GroupMember, known: Collection[str], model: Model
) -> Problem:
    return Problem(
        "unknown-source-table",
        f"Group '{member.group}' has no table for '{name}'.",
        f"Neither a file nor a run knows such a table of stream '{member.feed}'.",
        f"{did_you_mean(name, known)} Bring its tables into the project: lakesql schema pull {member.feed}.".strip(),
        model.place,
    )
