"""Where the changes of each transaction of a Debezium feed are, and how many changes a
finished transaction has.

With `provide.transaction.metadata` a connector writes into each change the transaction
that it belongs to, and into a separate topic the begin and the end of each transaction;
the end has the number of its changes by table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.engine.sources.broker import Broker, Brokers
from lakesql.engine.sources.kafka import read_between
from lakesql.progress.transaction_cut import Sizes, Stretch
from lakesql.source.cluster import Offsets
from lakesql.source.kafka import Kafka

_ENDED = "struct<status:string,id:string,data_collections:array<struct<data_collection:string,event_count:bigint>>>"
_CHANGE = (
    "struct<op:string,source:struct<db:string,schema:string,table:string,collection:string>,"
    "transaction:struct<id:string,total_order:string,data_collection_order:bigint>>"
)


@dataclass(frozen=True, slots=True)
class FoundChanges:
    """Where the changes of transactions are.

    `strays` is the number of changes without a transaction, by topic and partition, and
    `last_strays` are the offsets of the last of them.
    """

    stretches: list[Stretch]
    strays: Mapping[tuple[str, int], int]
    last_strays: Mapping[tuple[str, int], int] = field(default_factory=dict)


class TransactionLog:
    """The topics of a feed, and the topic with the begins and ends of its
    transactions."""

    def __init__(
        self, session: SparkSession, brokers: Brokers, connection: Kafka
    ) -> None:
        self._session, self._brokers, self._connection = session, brokers, connection

    def has_topic(self, topic: str) -> bool:
        """Whether a topic of this name exists."""
        return topic in self._broker().topic_names()

    def ends(
        self, topics: Collection[str]
    ) -> tuple[dict[str, dict[int, int]], Mapping[str, str]]:
        """The offset after the last record of each partition, and the ids of the
        topics."""
        broker = self._broker()
        found = broker.topics(topics)
        return broker.end_offsets(found.values()), {
            name: topic.id for name, topic in found.items()
        }

    def beginnings(self, topics: Collection[str]) -> dict[str, dict[int, int]]:
        """The first offset that each partition still holds."""
        broker = self._broker()
        return broker.beginning_offsets(broker.topics(topics).values())

    def find_changes(self, start: Offsets, end: Offsets) -> FoundChanges:
        """The changes between two positions of the topics of a feed.

        Rows that a snapshot reads belong to no transaction, and neither does the
        tombstone after a delete.
        """
        return _find_changes(
            read_between(
                self._session, self._connection, start, end, must_have_all=True
            )
        )

    def find_sizes(
        self, topic: str, start: Mapping[int, int], end: Mapping[int, int]
    ) -> dict[str, Sizes]:
        """The number of changes of each table, by transaction, of the transactions
        whose ends are between two positions of the transaction topic."""
        ended = _event(
            read_between(self._session, self._connection, {topic: start}, {topic: end}),
            _ENDED,
        )
        rows = (
            ended.where("event.status = 'END'")
            .select(_name("event.id").alias("id"), "event.data_collections")
            .collect()
        )
        return {
            row["id"]: {
                each["data_collection"]: each["event_count"]
                for each in row["data_collections"] or ()
            }
            for row in rows
        }

    def _broker(self) -> Broker:
        return self._brokers.of(self._session._jvm, self._connection)


def _find_changes(raw: DataFrame) -> FoundChanges:
    event = _event(raw, _CHANGE)
    source = F.col("event.source")
    outer, inner = (
        F.coalesce(source["schema"], source["db"]),
        F.coalesce(source["table"], source["collection"]),
    )
    table = F.concat_ws(".", outer, inner)
    changes = event.select(
        *("topic", "partition", "offset"),
        _name("event.transaction.id").alias("transaction"),
        F.col("event.transaction.total_order").alias("order"),
        F.col("event.transaction.data_collection_order").alias("order_in_table"),
        table.alias("table"),
        F.col("event.op").isin("c", "u", "d", "t").alias("is_change"),
    ).where("transaction IS NOT NULL OR is_change")
    counted = changes.groupBy("topic", "partition", "transaction", "table").agg(
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.countDistinct("order").alias("count"),
        F.max("order_in_table").alias("reached"),
        F.count_if("is_change").alias("changes"),
    )
    strays, last_strays = dict[tuple[str, int], int](), dict[tuple[str, int], int]()
    found: dict[tuple[str, int, str], Stretch] = {}
    for row in counted.collect():
        name = row["transaction"]
        if name is None:
            partition = (row["topic"], row["partition"])
            strays[partition] = strays.get(partition, 0) + row["changes"]
            last_strays[partition] = max(last_strays.get(partition, 0), row["last"])
            continue
        place = (row["topic"], row["partition"], name)
        table_name, reached = row["table"], row["reached"] or 0
        own = Stretch(
            *place,
            row["first"],
            row["last"],
            {table_name: row["count"]},
            {table_name: reached},
        )
        found[place] = _joined(found[place], own) if place in found else own
    return FoundChanges([*found.values()], strays, last_strays)


def _name(column: str) -> Column:
    """The name of a transaction. For Postgres it is a number, to which Debezium appends
    the log position of the change."""
    return F.regexp_replace(column, r"^(\d+):\d+$", "$1")


def _event(raw: DataFrame, type_text: str) -> DataFrame:
    """The records with the parsed value as `event`, which may have a schema around it
    or not."""
    text = F.col("value").cast("string")
    read = F.from_json(text, f"{type_text[:-1]},payload:{type_text}>")
    first = type_text.removeprefix("struct<").partition(":")[0]
    raw = raw.withColumn("read", read)
    is_bare = F.col(f"read.{first}").isNotNull()
    return raw.withColumn(
        "event",
        F.when(is_bare, F.col("read").dropFields("payload")).otherwise(
            F.col("read.payload")
        ),
    )


def _joined(first: Stretch, second: Stretch) -> Stretch:
    """The changes of one transaction in one partition, combined from those of different
    tables."""
    counts, reached = (
        {**first.counts, **second.counts},
        {**first.reached, **second.reached},
    )
    low, high = min(first.first, second.first), max(first.last, second.last)
    return Stretch(
        first.topic, first.partition, first.transaction, low, high, counts, reached
    )
