"""The groups of a run whose tables change together: what their rounds read, and how a
round is committed. A round is one batch of each model that has one, all made visible by
one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lakesql.catalog.snapshot_list import SnapshotList, list_of
from lakesql.engine.ledger.commit import Publication, discard
from lakesql.engine.ledger.commit_together import commit_of, publish_together
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.planned_files import name_some
from lakesql.engine.sources.told_tables import table_of
from lakesql.engine.sources.topic_places import TopicPlaces
from lakesql.engine.sources.transactions import TransactionLog
from lakesql.engine.spark.internals import can_share_rows
from lakesql.engine.together.rounds import Rounds
from lakesql.engine.together.seat import Seat
from lakesql.engine.together.shared_topics import SharedTopics, TopicShare
from lakesql.engine.together.topic_batches import TopicBatches
from lakesql.engine.together.transaction_feed import GroupTopics, TransactionFeed
from lakesql.errors import Problem, RunError
from lakesql.events import Noted
from lakesql.graph.manifest import Manifest
from lakesql.model.config import Every
from lakesql.model.group import ModelGroup
from lakesql.model.model import Model
from lakesql.model.table_name import TableName
from lakesql.run.streams.found_columns import cluster_of
from lakesql.source.cluster import Offsets
from lakesql.source.origin import StreamOrigin
from lakesql.stream.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakesql.engine.batch.sink import Sink
    from lakesql.run.start.context import RunContext
    from lakesql.run.streams.bind import BoundSelect


def consistent_group(manifest: Manifest, model: str) -> ModelGroup | None:
    """The group of a model if its tables change together. None for other models, and
    for a group that no Kafka cluster serves: recorded topics are read table by
    table."""
    found = manifest.models.get(model)
    if found is None or found.member is None or not found.member.source_table:
        return None
    group = manifest.groups[found.member.group]
    if (
        not group.config.consistent
        or cluster_of(manifest.target, manifest.streams[group.stream]) is None
    ):
        return None
    return group


def seated_alone(
    sink: Sink,
    session: SparkSession,
    brokers: Brokers,
    ends_of: Callable[[Iterable[str]], Offsets] | None,
    sharing: Sharing,
) -> Sink:
    """The sink of a model of a group, with batches of its own that end where its topics
    end. The sink is returned unchanged if the model is stateful, is in no group, or
    does not read the topics of a single stream. `ends_of` gives the end offsets at
    which the model was woken, of the topics that have woken it."""
    if (
        sink.model.member is None
        or sink.select.query.stateful
        or len(sink.bindings) > 1
    ):
        return sink
    (binding,) = sink.bindings
    if binding.source.cluster is None:
        return sink
    places = TopicPlaces(session, brokers, binding, sink.model.name)
    topics = binding.stream.origin.given

    def look() -> Offsets:
        seen = {} if ends_of is None else ends_of(topics)
        return seen if topics and seen.keys() == set(topics) else places.find_ends()

    share = sharing.share_of(sink.model, binding, session)
    return replace(
        sink, seat=TopicBatches(places, look, binding.stream.max_per_batch, share)
    )


TopicsOfGroup = tuple[str, str, StreamOrigin]
"""Topics that models of a group read: the group, the connection, and the topics."""

TablesByTopics = Mapping[TopicsOfGroup, Mapping[str, str]]
"""The models that read topics, each with the source table whose records it takes of
them."""


class Sharing:
    """The topics that a run reads once for several models: models of one group that
    each take the records of one table from the same topics. `selects` are the models of
    the run, updated as it goes."""

    def __init__(self, selects: Mapping[str, BoundSelect]) -> None:
        self._selects = selects
        self._topics: dict[TopicsOfGroup, SharedTopics] = {}
        self._found: tuple[int, TablesByTopics] = (0, {})

    def share_of(
        self, model: Model, binding: StreamBinding, session: SparkSession
    ) -> TopicShare | None:
        """The model's share of topics that other models may read too; None if it reads
        alone."""
        if model.member is None or not table_of(binding.stream) or not can_share_rows():
            return None
        read = _topics_of(model.member.group, binding.stream)
        topics = self._topics.setdefault(
            read, SharedTopics(partial(self._find_tables, read))
        )
        return TopicShare(topics, model.name, binding, session)

    def clear(self, model: Model) -> None:
        """Drop what was read for the group of a model that starts anew."""
        if model.member is None:
            return
        for (group, *_), topics in self._topics.items():
            if group == model.member.group:
                topics.clear()

    def _find_tables(self, read: TopicsOfGroup) -> Mapping[str, str]:
        """The models that share these topics, each with its table. Computed again
        whenever the run has other models, as the table that a model takes never
        changes."""
        count, tables = self._found
        if count != len(self._selects):
            count, tables = len(self._selects), _tables_by_topics(self._selects)
            self._found = count, tables
        return tables.get(read, {})


def _tables_by_topics(selects: Mapping[str, BoundSelect]) -> TablesByTopics:
    """The models of groups that each take the records of one table, by the topics that
    they read."""
    found: dict[TopicsOfGroup, dict[str, str]] = {}
    for name, bound in [*selects.items()]:
        member = bound.select.model.member
        if member is None or bound.select.query.stateful or len(bound.bindings) != 1:
            continue
        stream = bound.bindings[0].stream
        if table := table_of(stream):
            found.setdefault(_topics_of(member.group, stream), {})[name] = table
    return found


def _topics_of(group: str, stream: Stream) -> TopicsOfGroup:
    return group, stream.connection, stream.origin


def check_whole(manifest: Manifest, models: Iterable[str]) -> None:
    """Raise `RunError` (`group-part`) if a run has some, but not all, of the tables of
    a group whose tables change together."""
    wanted = frozenset(models)
    groups = {
        group.name: group
        for name in wanted
        if (group := consistent_group(manifest, name)) is not None
    }
    problems = []
    for group in groups.values():
        missing = members_of(manifest, group).keys() - wanted
        if missing:
            what = f"The tables of group '{group.name}' change together, and {name_some(missing)} would be left out."
            fix = f"Run all of it: lakesql run --select {group.name}"
            problems.append(Problem("group-part", what, "", fix, group.place))
    if problems:
        raise RunError(problems)


def members_of(manifest: Manifest, group: ModelGroup) -> Mapping[str, Model]:
    """The models of a group that mirror a source table without a file of their own, by
    name."""
    return {
        model.name: model
        for model in manifest.models.values()
        if model.member is not None
        and model.member.group == group.name
        and model.member.source_table
    }


class GroupRounds:
    """The rounds of the groups of a run; those of a group begin with its first model.
    `manifest` returns the project as it is now."""

    def __init__(
        self,
        context: RunContext,
        manifest: Callable[[], Manifest],
        continuous: bool,
        check_lease: Callable[[str], None],
        sharing: Sharing,
    ) -> None:
        self._context, self._manifest, self._continuous = context, manifest, continuous
        self._check_lease, self._sharing = check_lease, sharing
        self._given_up: set[str] = set()
        self._rounds: dict[str, Rounds] = {}
        self._feeds: dict[str, TransactionFeed] = {}

    def seated(self, group: ModelGroup, sink: Sink, session: SparkSession) -> Sink:
        """The sink of a model of a group, with the model's place in the group's
        rounds."""
        rounds = self._rounds.get(group.name) or self._open(group)
        feed = self._feeds[group.name]
        (binding,) = sink.bindings
        places = TopicPlaces(session, self._context.brokers, binding, sink.model.name)
        share = self._sharing.share_of(sink.model, binding, session)
        return replace(
            sink, seat=Seat(sink.model.name, places, rounds, lambda: feed.latest, share)
        )

    def give_up(self, group: ModelGroup) -> None:
        """Begin no further round of a group of which a model has ended. Does nothing in
        a continuous run."""
        if self._continuous:
            return
        self._given_up.add(group.name)
        if group.name in self._rounds:
            self._rounds[group.name].close()

    def close(self) -> None:
        """Begin no further round."""
        for rounds in self._rounds.values():
            rounds.close()

    def _open(self, group: ModelGroup) -> Rounds:
        context = self._context
        target, session = context.manifest.target, context.session

        def say(text: str) -> None:
            context.emit(Noted(f"group {group.name}: {text}"))

        files = CheckpointFiles(session, target.checkpoint_of(group.name))
        look = partial(self._topics_of, group)
        cluster = cluster_of(
            context.manifest.target, context.manifest.streams[group.stream]
        )
        assert cluster is not None, "a group without a broker has no rounds"
        log = TransactionLog(session, context.brokers, cluster)
        feed = TransactionFeed(
            log,
            files,
            look,
            say,
            partial(self._check_lease, group.name),
            is_bounded=not self._continuous,
            accepts_loss=context.accept_data_loss,
        )
        catalog = commit_of(context.catalog, session)
        finished = _list_nothing
        if not catalog.is_atomic:
            name = list_of(target.catalog.name, target.namespace, group.name)
            say(
                f"its catalog commits one table at a time; {name} says which snapshots belong together"
            )
            finished = SnapshotList(
                context.catalog, name, partial(self._tables_of, group)
            ).note
        members = members_of(self._manifest(), group)
        triggers = [
            model.trigger.interval_ms
            for model in members.values()
            if isinstance(model.trigger, Every)
        ]
        every_ms = min(triggers, default=target.trigger.length_ms)
        interval_s = every_ms / 1000 if self._continuous else None
        publish = partial(publish_together, catalog=catalog)
        rounds = Rounds(
            members,
            feed.plan,
            publish,
            _discard,
            finished,
            interval_s,
            target.threads,
            say,
        )
        if group.name in self._given_up:
            rounds.close()
        own = sorted(set(group.members) - members.keys())
        if own:
            say(
                f"{name_some(own)} have files of their own, and are committed by themselves"
            )
        self._rounds[group.name] = rounds
        self._feeds[group.name] = feed
        return rounds

    def _tables_of(self, group: ModelGroup) -> Mapping[str, TableName]:
        """The tables of the group's models in the project as it is now."""
        return {
            name: model.table
            for name, model in members_of(self._manifest(), group).items()
        }

    def _topics_of(self, group: ModelGroup) -> GroupTopics:
        """What the group reads, in the project as it is now."""
        manifest = self._manifest()
        stream = manifest.streams[group.stream]
        members = members_of(manifest, group)
        streams = {
            name: manifest.streams[model.member.stream]
            for name, model in members.items()
            if model.member
        }
        topics = {name: tuple(each.origin.given) for name, each in streams.items()}
        return GroupTopics(
            topics,
            group.tables.transactions or _transaction_topic(members.values(), topics),
            stream.max_per_batch,
            partial(
                _name_of,
                manifest,
                group,
                {
                    model.member.source_table
                    for model in members.values()
                    if model.member
                },
            ),
        )


def _list_nothing() -> None:
    """Do nothing: the catalog commits several tables atomically, so their newest
    snapshots belong together."""


def _discard(publication: Publication) -> None:
    discard(publication.staged)


def _transaction_topic(
    members: Iterable[Model], topics: Mapping[str, tuple[str, ...]]
) -> str:
    """The default topic in which a connector reports transactions, derived from the
    topics of its tables: for `shop.eu.public.orders` it is `shop.eu.transaction`."""
    for model in members:
        assert model.member is not None
        for topic in topics[model.name]:
            prefix = topic.removesuffix(f".{model.member.source_table}")
            if prefix != topic:
                return f"{prefix}.transaction"
    first = next((topic for each in topics.values() for topic in each), "")
    return f"{first.partition('.')[0]}.transaction"


def _name_of(
    manifest: Manifest, group: ModelGroup, members: Iterable[str], said: str
) -> str:
    """The name in the project of a source table that a transaction names; '' if no
    model of the group has its changes or will have them."""
    for name in members:
        if said == name or said.endswith(f".{name}"):
            return name
    known = {
        table.name for table in manifest.source_tables if table.stream == group.stream
    }
    is_known = said in known or any(said.endswith(f".{name}") for name in known)
    short = ".".join(said.split(".")[-2:])  # some connectors say the database too
    comes = group.tables.new_tables == "create" and (
        group.tables.takes(said) or group.tables.takes(short)
    )
    return said if comes and not is_known else ""
