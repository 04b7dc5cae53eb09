"""Watches the feeds of groups for new records, so that a group's many models rest until
there is something for them.

One thread asks each feed's broker once per trigger where its topics end, however many
models read them. A model is woken if its topic has grown since it was last woken. A new
topic may belong to a new table: the project is then read again, and its new models are
woken too.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from lakesql.engine.sources.broker import Broker, Brokers
from lakesql.errors import LakesqlError, first_line
from lakesql.events import Emit, Noted
from lakesql.graph.manifest import Manifest
from lakesql.model.config import Every
from lakesql.run.streams.found_columns import cluster_of
from lakesql.run.streams.found_values import FoundValues
from lakesql.source.origin import StreamOrigin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

SHORTEST_MS = 100
"""The shortest interval at which a feed is polled, whatever the trigger."""

DESCRIBES_EVERY_S = 60.0
"""How often partitions are looked up again, so that partitions added to a topic are
seen."""

Ends = Mapping[str, Mapping[int, int]]
"""The end offset of each partition, one after its last record, by topic."""


@dataclass(slots=True)
class WatchedFeed:
    """A feed whose topics are polled every `every_s` seconds. `models` are the models
    that read each topic, and `ends` where the topics ended when their models were last
    woken. `looked` has the number of records that each topic of no known table had when
    the project was last read again for it. `ask` returns where the topics end now."""

    ask: Callable[[], Ends]
    every_s: float
    models: dict[str, list[str]]
    ends: dict[str, Mapping[int, int]] = field(default_factory=dict)
    looked: dict[str, int] = field(default_factory=dict)
    due: float = 0.0


class GroupWatch:
    """The thread that watches the named `feeds`, from its start until it is closed.

    `ends` are the end offsets of topics that have been read completely.
    """

    def __init__(
        self,
        session: SparkSession,
        brokers: Brokers,
        manifest: Manifest,
        feeds: Iterable[str],
        reload: Callable[[], Manifest] | None,
        emit: Emit,
        ends: Ends,
        values: FoundValues,
    ) -> None:
        self._manifest = manifest
        self._find = partial(_watched, session, brokers)
        self._reload = reload
        self._emit = emit
        self._values = values
        self._clock = time.monotonic
        found = {name: self._find(manifest, name) for name in feeds}
        self._feeds = {name: feed for name, feed in found.items() if feed is not None}
        for feed in self._feeds.values():
            feed.ends.update(
                (topic, ends[topic]) for topic in feed.models if topic in ends
            )
        self._woken: list[str] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._is_away = False
        self._thread = threading.Thread(
            target=self._watch, name="lakesql-groups", daemon=True
        )

    @property
    def manifest(self) -> Manifest:
        """The project, including tables that have appeared in feeds since the run
        began."""
        return self._manifest

    def watches(self, model: str) -> bool:
        """Whether the model is woken when records have arrived for it."""
        found = self._manifest.models.get(model)
        return (
            found is not None
            and found.member is not None
            and found.member.feed in self._feeds
        )

    def start(self) -> None:
        """Start the thread, if there is a feed to watch."""
        if self._feeds:
            self._thread.start()

    def take_woken(self) -> list[str]:
        """The models woken since the last call."""
        if not self._woken:
            return []
        with self._lock:
            woken, self._woken = self._woken, []
        return woken

    def ends_of(self, topics: Iterable[str]) -> Ends:
        """The end offsets at which models were last woken, of those of the topics that
        have woken any."""
        known = ChainMap(*(feed.ends for feed in self._feeds.values()))
        return {topic: known[topic] for topic in topics if topic in known}

    def close(self) -> None:
        """Ask the thread to end."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.is_set():
            for name, feed in list(self._feeds.items()):
                if self._clock() >= feed.due:
                    feed.due = self._clock() + feed.every_s
                    self._look(name, feed)
            next_due = min(feed.due for feed in self._feeds.values())
            self._closed.wait(max(0.1, next_due - self._clock()))

    def _look(self, name: str, feed: WatchedFeed) -> None:
        """Wake the models whose topics have grown. A broker that does not answer is
        asked again at the next trigger."""
        try:
            ends = feed.ask()
        except LakesqlError as error:
            if not self._is_away:
                self._say(
                    f"the feed {name} cannot be looked at, and is asked again: {error.problems[0].what}"
                )
            self._is_away = True
            return
        # such as a client that is closed as the run ends
        except Exception as error:
            _log.warning("The feed %s was not looked at: %s", name, first_line(error))
            return
        self._is_away = False
        sizes = {
            topic: sum(each.values())
            for topic, each in ends.items()
            if topic not in feed.models
        }
        is_larger = any(
            size >= max(1, 2 * feed.looked.get(topic, 0))
            for topic, size in sizes.items()
        )
        if self._values.take(name) or is_larger:
            self._add_new(name, feed, sizes)
        grown = [
            topic
            for topic in feed.models
            if topic in ends and feed.ends.get(topic) != ends[topic]
        ]
        feed.ends.update((topic, ends[topic]) for topic in grown)
        with self._lock:
            self._woken += [model for topic in grown for model in feed.models[topic]]

    def _add_new(self, name: str, feed: WatchedFeed, sizes: Mapping[str, int]) -> None:
        """Read the project again, because its feed has new topics or new values of its
        route. A new model on a topic that others already read is woken at once.

        A topic is created before its first record arrives, and that may not name a
        table, as a truncate does not. So a topic of no known table is read again once
        it has twice as many records.
        """
        if self._reload is None:
            return
        try:
            manifest = self._reload()
        except LakesqlError as error:
            self._say(
                f"the feed {name} has new tables, and the project cannot be read again: {error.problems[0].what}"
            )
            return
        before = {
            (warning.condition, warning.what) for warning in self._manifest.warnings
        }
        for warning in manifest.warnings:
            if (warning.condition, warning.what) not in before:
                self._say(f"{warning.what} {warning.fix}".strip())
        found = self._find(manifest, name)
        known = {model for models in feed.models.values() for model in models}
        self._manifest = manifest
        for topic, models in found.models.items() if found is not None else ():
            feed.models.setdefault(topic, [])
            new = [model for model in models if model not in known]
            feed.models[topic] += new
            with self._lock:
                self._woken += new if topic in feed.ends else []
        feed.looked.update(sizes)

    def _say(self, text: str) -> None:
        self._emit(Noted(text))


class _Ends:
    """The end offsets of a feed's topics, as the `broker` gives them. Partitions are
    looked up again when the topics have changed, and every `DESCRIBES_EVERY_S`."""

    def __init__(self, broker: Callable[[], Broker], origin: StreamOrigin) -> None:
        self._broker, self._origin = broker, origin
        self._names: frozenset[str] = frozenset()
        self._ask: Callable[[], Ends] | None = None
        self._described_at = 0.0

    def ask(self) -> Ends:
        """Where the topics end now. Raises what a broker raises that does not answer or
        does not have a topic that the feed names."""
        broker = self._broker()
        names = frozenset(self._origin.find_topics(broker.topic_names))
        is_old = time.monotonic() - self._described_at > DESCRIBES_EVERY_S
        if self._ask is None or names != self._names or is_old:
            self._ask = broker.asking_ends(broker.find_topics(self._origin).values())
            self._names, self._described_at = names, time.monotonic()
        try:
            return self._ask()
        except Exception:
            # its topics may have been recreated since it was made
            self._ask = None
            raise


def _watched(
    session: SparkSession, brokers: Brokers, manifest: Manifest, name: str
) -> WatchedFeed | None:
    """The feed as it is to be watched; None if it is not read from a Kafka cluster."""
    stream = manifest.streams[name]
    cluster = cluster_of(manifest.target, stream)
    if cluster is None:
        return None
    members = [
        model
        for model in manifest.models.values()
        if model.member is not None and model.member.feed == name
    ]
    models: dict[str, list[str]] = {}
    for model in members:
        assert model.member is not None
        for topic in manifest.streams[model.member.stream].origin.given:
            models.setdefault(topic, []).append(model.name)
    triggers = [
        model.trigger.interval_ms
        for model in members
        if isinstance(model.trigger, Every)
    ]
    every_ms = min(triggers, default=manifest.target.trigger.length_ms)
    ask = _Ends(lambda: brokers.of(session._jvm, cluster), stream.origin).ask
    return WatchedFeed(ask, max(every_ms, SHORTEST_MS) / 1000, models)
