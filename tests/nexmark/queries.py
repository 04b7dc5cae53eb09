"""Nexmark's queries, each as one would write it first for a stream, and as DuckDB
answers it over all events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

APPEND: Mapping[str, Any] = {"mode": "append"}


@dataclass(frozen=True, slots=True)
class Answered:
    """A query whose table is to equal DuckDB's answer over all events, but for rows of
    the closing ones.

    `select` is Spark's, with `{bid}` for a stream; `oracle` is DuckDB's, over tables of
    these names. A row is one of the closing events' where its column `by` is negative.
    """

    config: Mapping[str, Any]
    select: str
    oracle: str
    by: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A query that is refused before anything runs, by these conditions."""

    config: Mapping[str, Any]
    select: str
    conditions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A query that a view over tables of the events answers: `select` is Spark's, with
    `{bid!r}` for a table, and `keys` are what tells its rows apart where its GROUP BY
    does not."""

    select: str
    oracle: str
    keys: tuple[str, ...] = ()


_SESSIONS = """
SELECT bidder, count(*) AS bids, min(dateTime) AS start
FROM (
  SELECT bidder, dateTime, sum(is_first) OVER (PARTITION BY bidder ORDER BY dateTime) AS session
  FROM (
    SELECT bidder, dateTime, CASE WHEN dateTime <= lag(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime)
      + INTERVAL '3 seconds' THEN 0 ELSE 1 END AS is_first
    FROM bid
  )
) GROUP BY bidder, session
"""

QUERIES: Mapping[str, Answered | Refused] = {
    "q0": Answered(
        APPEND,
        "SELECT auction, bidder, price, dateTime FROM {bid}",
        "SELECT auction, bidder, price, dateTime FROM bid",
        "auction",
    ),
    "q1": Answered(
        APPEND,
        "SELECT auction, bidder, CAST(0.908 * price AS decimal(20, 3)) AS price, dateTime FROM {bid}",
        "SELECT auction, bidder, CAST(0.908 * price AS decimal(20, 3)) AS price, dateTime FROM bid",
        "auction",
    ),
    "q2": Answered(
        APPEND,
        "SELECT auction, price FROM {bid} WHERE auction % 7 = 0",
        "SELECT auction, price FROM bid WHERE auction % 7 = 0",
        "auction",
    ),
    "q3": Answered(
        APPEND,
        """
        SELECT p.name, p.city, p.state, a.id
        FROM {auction} AS a JOIN {person} AS p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
        """,
        """
        SELECT p.name, p.city, p.state, a.id
        FROM auction AS a JOIN person AS p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
        """,
        "id",
    ),
    "q4": Refused(
        {"mode": "upsert", "keys": ["category"]},
        """
        SELECT category, avg(final) AS final FROM (
          SELECT a.id, a.category, max(b.price) AS final
          FROM {auction} AS a JOIN {bid} AS b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
          GROUP BY a.id, a.category
        ) GROUP BY category
        """,
        ("join-range",),
    ),
    "q5": Refused(
        APPEND,
        """
        SELECT ab.auction, ab.num
        FROM (
          SELECT auction, count(*) AS num, window(dateTime, '10 seconds', '2 seconds') AS w
          FROM {bid} GROUP BY auction, window(dateTime, '10 seconds', '2 seconds')
        ) AS ab
        JOIN (
          SELECT max(num) AS most, w FROM (
            SELECT auction, count(*) AS num, window(dateTime, '10 seconds', '2 seconds') AS w
            FROM {bid} GROUP BY auction, window(dateTime, '10 seconds', '2 seconds')
          ) GROUP BY w
        ) AS mb ON ab.w = mb.w AND ab.num >= mb.most
        """,
        ("nested-aggregate",),
    ),
    "q7": Answered(
        APPEND,
        """
        SELECT b.auction, b.price, b.bidder, b.dateTime
        FROM {bid} AS b
        JOIN (
          SELECT max(price) AS most, window(dateTime, '10 seconds') AS w
          FROM {bid} GROUP BY window(dateTime, '10 seconds')
        ) AS m ON b.price = m.most AND b.dateTime >= m.w.start AND b.dateTime < m.w.end
        """,
        """
        SELECT b.auction, b.price, b.bidder, b.dateTime
        FROM bid AS b
        JOIN (
          SELECT max(price) AS most, time_bucket(INTERVAL '10 seconds', dateTime) AS w
          FROM bid GROUP BY time_bucket(INTERVAL '10 seconds', dateTime)
        ) AS m ON b.price = m.most AND time_bucket(INTERVAL '10 seconds', b.dateTime) = m.w
        """,
        "auction",
    ),
    "q7 by windows of both sides": Refused(
        APPEND,
        """
        SELECT b.auction, b.price, b.bidder, b.dateTime
        FROM {bid} AS b
        JOIN (
          SELECT max(price) AS most, window(dateTime, '10 seconds') AS w
          FROM {bid} GROUP BY window(dateTime, '10 seconds')
        ) AS m ON b.price = m.most AND window(b.dateTime, '10 seconds') = m.w
        """,
        ("window-in-join",),
    ),
    "q7 by equal windows": Refused(
        APPEND,
        """
        SELECT b.auction, b.price, b.bidder, b.dateTime
        FROM (SELECT *, window(dateTime, '10 seconds') AS w FROM {bid}) AS b
        JOIN (
          SELECT max(price) AS most, window(dateTime, '10 seconds') AS w
          FROM {bid} GROUP BY window(dateTime, '10 seconds')
        ) AS m ON b.price = m.most AND b.w = m.w
        """,
        ("join-range",),
    ),
    "q7 by equal ends": Answered(
        APPEND,
        """
        SELECT b.auction, b.price, b.bidder, b.dateTime
        FROM (SELECT *, window(dateTime, '10 seconds') AS w FROM {bid}) AS b
        JOIN (
          SELECT max(price) AS most, window(dateTime, '10 seconds') AS w
          FROM {bid} GROUP BY window(dateTime, '10 seconds')
        ) AS m ON b.price = m.most AND b.w.end = m.w.end
        """,
        """
        SELECT b.auction, b.price, b.bidder, b.dateTime
        FROM bid AS b
        JOIN (
          SELECT max(price) AS most, time_bucket(INTERVAL '10 seconds', dateTime) AS w
          FROM bid GROUP BY time_bucket(INTERVAL '10 seconds', dateTime)
        ) AS m ON b.price = m.most AND time_bucket(INTERVAL '10 seconds', b.dateTime) = m.w
        """,
        "auction",
    ),
    "q8": Answered(
        APPEND,
        """
        SELECT p.id, p.name, p.start
        FROM (
          SELECT id, name, window.start AS start FROM {person} GROUP BY id, name, window(dateTime, '10 seconds')
        ) AS p
        JOIN (
          SELECT seller, window.start AS start FROM {auction} GROUP BY seller, window(dateTime, '10 seconds')
        ) AS a ON p.id = a.seller AND p.start = a.start
        """,
        """
        SELECT DISTINCT p.id, p.name, time_bucket(INTERVAL '10 seconds', p.dateTime) AS start
        FROM person AS p JOIN auction AS a
          ON p.id = a.seller
          AND time_bucket(INTERVAL '10 seconds', p.dateTime) = time_bucket(INTERVAL '10 seconds', a.dateTime)
        """,
        "id",
    ),
    "q9": Refused(
        APPEND,
        """
        SELECT id, itemName, auction, bidder, price FROM (
          SELECT a.*, b.auction, b.bidder, b.price,
            row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime ASC) AS place
          FROM {auction} AS a JOIN {bid} AS b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
        ) WHERE place = 1
        """,
        ("join-range", "window-over-stream"),
    ),
    "q10": Answered(
        APPEND,
        "SELECT auction, bidder, price, date_format(dateTime, 'yyyy-MM-dd') AS dt FROM {bid}",
        "SELECT auction, bidder, price, strftime(dateTime, '%Y-%m-%d') AS dt FROM bid",
        "auction",
    ),
    "q11": Answered(
        APPEND,
        """
        SELECT bidder, count(*) AS bids, session_window.start AS start
        FROM {bid} GROUP BY bidder, session_window(dateTime, '3 seconds')
        """,
        _SESSIONS,
        "bidder",
    ),
    "q14": Answered(
        APPEND,
        """
        SELECT auction, bidder, CAST(0.908 * price AS decimal(20, 3)) AS price,
          CASE
            WHEN second(dateTime) BETWEEN 8 AND 18 THEN 'day' WHEN second(dateTime) <= 6 THEN 'night' ELSE 'other'
          END AS part
        FROM {bid} WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
        """,
        """
        SELECT auction, bidder, CAST(0.908 * price AS decimal(20, 3)) AS price,
          CASE
            WHEN second(dateTime) BETWEEN 8 AND 18 THEN 'day' WHEN second(dateTime) <= 6 THEN 'night' ELSE 'other'
          END AS part
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
        """,
        "auction",
    ),
    "q15": Refused(
        {"mode": "upsert", "keys": ["day"]},
        """
        SELECT CAST(dateTime AS date) AS day, count(*) AS bids, count(DISTINCT bidder) AS bidders
        FROM {bid} GROUP BY CAST(dateTime AS date)
        """,
        ("distinct-aggregate",),
    ),
    "q16": Refused(
        {"mode": "upsert", "keys": ["channel", "day"]},
        """
        SELECT channel, CAST(dateTime AS date) AS day, count(*) AS bids, count(DISTINCT auction) AS auctions
        FROM {bid} GROUP BY channel, CAST(dateTime AS date)
        """,
        ("distinct-aggregate",),
    ),
    "q17": Answered(
        {"mode": "upsert", "keys": ["auction", "start"]},
        """
        SELECT auction, window.start AS start, count(*) AS bids, count_if(price < 10000) AS low,
          min(price) AS least, max(price) AS most, sum(price) AS total
        FROM {bid} GROUP BY auction, window(dateTime, '1 minute')
        """,
        """
        SELECT auction, time_bucket(INTERVAL '1 minute', dateTime) AS start, count(*) AS bids,
          count(*) FILTER (price < 10000) AS low, min(price) AS least, max(price) AS most,
          CAST(sum(price) AS bigint) AS total
        FROM bid GROUP BY auction, time_bucket(INTERVAL '1 minute', dateTime)
        """,
        "auction",
    ),
    "q18": Answered(
        {
            "mode": "upsert",
            "keys": ["bidder", "auction"],
            "sequence_by": ["dateTime", "price"],
        },
        "SELECT bidder, auction, price, dateTime FROM {bid}",
        """
        SELECT bidder, auction, price, dateTime FROM bid
        QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC, price DESC) = 1
        """,
        "auction",
    ),
    "q19": Refused(
        APPEND,
        """
        SELECT auction, price, place FROM (
          SELECT auction, price, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM {bid}
        ) WHERE place <= 10
        """,
        ("window-over-stream",),
    ),
    "q20": Answered(
        APPEND,
        """
        SELECT b.auction, b.bidder, b.price, a.itemName, a.seller, a.category
        FROM {bid} AS b JOIN {auction} AS a ON b.auction = a.id WHERE a.category = 10
        """,
        """
        SELECT b.auction, b.bidder, b.price, a.itemName, a.seller, a.category
        FROM bid AS b JOIN auction AS a ON b.auction = a.id WHERE a.category = 10
        """,
        "auction",
    ),
    "q21": Answered(
        APPEND,
        """
        SELECT auction, bidder, price, channel,
          CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
            WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
            ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
        FROM {bid}
        """,
        """
        SELECT auction, bidder, price, channel,
          CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
            WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
            ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
        FROM bid
        """,
        "auction",
    ),
    "q22": Answered(
        APPEND,
        "SELECT auction, bidder, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2 FROM {bid}",
        "SELECT auction, bidder, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2 FROM bid",
        "auction",
    ),
    "a bid before its auction expires": Refused(
        APPEND,
        """
        SELECT a.id, b.price FROM {auction} AS a
        JOIN {bid} AS b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
        """,
        ("join-range",),
    ),
    "the same with the line that the refusal asks for": Answered(
        APPEND,
        """
        SELECT a.id, b.price FROM {auction} AS a
        JOIN {bid} AS b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
          AND b.dateTime BETWEEN a.dateTime AND a.dateTime + INTERVAL 20 SECONDS
        """,
        """
        SELECT a.id, b.price FROM auction AS a
        JOIN bid AS b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
        """,
        "id",
    ),
    "auctions without a bid in time": Answered(
        APPEND,
        """
        SELECT a.id, b.price FROM {auction} AS a
        LEFT JOIN {bid} AS b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
          AND b.dateTime BETWEEN a.dateTime AND a.dateTime + INTERVAL 20 SECONDS
        """,
        """
        SELECT a.id, b.price FROM auction AS a
        LEFT JOIN bid AS b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
        """,
        "id",
    ),
}
"""By the name of the query. Not among them: q6 (as q9), q12 (its answer depends on the
clock), q13 (a join of a stream with a table, which `tests/spark/test_sql.py` has)."""

_IN_TIME = "a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires"

_PER_WINDOW = """
SELECT auction, count(*) AS num, window(dateTime, '10 seconds', '2 seconds') AS w
FROM {bid!r} GROUP BY auction, window(dateTime, '10 seconds', '2 seconds')
"""

_PER_DAY = """
count(*) AS bids, count_if(price < 10000) AS low, count_if(price >= 1000000) AS high,
count(DISTINCT bidder) AS bidders, count(DISTINCT auction) AS auctions
"""


def _as_it_is(select: str, *keys: str) -> View:
    """A view whose SELECT is DuckDB's, too."""
    return View(
        select,
        select.replace("!r}", "}").format(
            auction="auction", bid="bid", person="person"
        ),
        keys,
    )


VIEWS: Mapping[str, View] = {
    "q4": _as_it_is(
        f"""
        SELECT category, avg(final) AS final FROM (
          SELECT a.id, a.category, max(b.price) AS final
          FROM {{auction!r}} AS a JOIN {{bid!r}} AS b ON {_IN_TIME} GROUP BY a.id, a.category
        ) AS finals GROUP BY category
        """
    ),
    "q5": View(
        f"""
        SELECT ab.w.start AS start, ab.auction, ab.num
        FROM ({_PER_WINDOW}) AS ab
        JOIN (SELECT max(num) AS most, w FROM ({_PER_WINDOW}) GROUP BY w) AS mb ON ab.w = mb.w AND ab.num >= mb.most
        """,
        """
        WITH hops AS (
          SELECT auction, unnest([time_bucket(INTERVAL '2 seconds', dateTime) - i * INTERVAL '2 seconds'
            FOR i IN range(5)]) AS start FROM bid
        ), per_window AS (SELECT auction, start, count(*) AS num FROM hops GROUP BY ALL)
        SELECT start, auction, num FROM per_window
        QUALIFY num = max(num) OVER (PARTITION BY start)
        """,
        ("start", "auction"),
    ),
    "q6": _as_it_is(
        f"""
        SELECT seller, avg(final) AS final FROM (
          SELECT seller, final, row_number() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) AS place FROM (
            SELECT a.id, a.seller, a.expires, max(b.price) AS final
            FROM {{auction!r}} AS a JOIN {{bid!r}} AS b ON {_IN_TIME} GROUP BY a.id, a.seller, a.expires
          ) AS finals
        ) AS placed WHERE place <= 10 GROUP BY seller
        """
    ),
    "q9": _as_it_is(
        f"""
        SELECT id, itemName, bidder, price FROM (
          SELECT a.id, a.itemName, b.bidder, b.price,
            row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime, b.bidder) AS place
          FROM {{auction!r}} AS a JOIN {{bid!r}} AS b ON {_IN_TIME}
        ) AS placed WHERE place = 1
        """,
        "id",
    ),
    "q11": View(
        """
        SELECT bidder, count(*) AS bids, session_window.start AS start
        FROM {bid!r} GROUP BY bidder, session_window(dateTime, '3 seconds')
        """,
        _SESSIONS,
    ),
    "q17": View(
        """
        SELECT auction, window.start AS start, count(*) AS bids, min(price) AS least, sum(price) AS total
        FROM {bid!r} GROUP BY auction, window(dateTime, '1 minute')
        """,
        """
        SELECT auction, time_bucket(INTERVAL '1 minute', dateTime) AS start, count(*) AS bids, min(price) AS least,
          CAST(sum(price) AS bigint) AS total
        FROM bid GROUP BY ALL
        """,
    ),
    "q15": _as_it_is(
        f"SELECT CAST(dateTime AS date) AS day, {_PER_DAY} FROM {{bid!r}} GROUP BY CAST(dateTime AS date)"
    ),
    "q16": _as_it_is(
        f"SELECT channel, CAST(dateTime AS date) AS day, {_PER_DAY} FROM {{bid!r}}"
        " GROUP BY channel, CAST(dateTime AS date)"
    ),
    "q19": _as_it_is(
        """
        SELECT auction, place, bidder, price FROM (
          SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, dateTime, bidder) AS place FROM {bid!r}
        ) AS placed WHERE place <= 10
        """,
        "auction",
        "place",
    ),
}
"""Those that no stream answers, as views over tables of the events; and of those with
windows some that one does."""
