"""What the shop's tables and dead letters hold after every record was read once: plain
Python, nothing of lakesql.

Rows are dicts in the order of the model's SELECT, with the types that Spark and
pyiceberg give back: int, Decimal, str, bool, date, and datetime in UTC.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

Row = dict[str, Any]

UNREADABLE = "unreadable"
MISSING_REQUIRED = "missing-required"
NULL_KEY = "null-key"
NULL_SEQUENCE = "null-sequence"

RECORDED = Path(__file__).parents[2] / "streams" / "recorded"
BIG_ORDER = 500
"""The variable `big_order` in pyproject.toml."""
WATERMARK_DELAY = timedelta(hours=2)

READERS = {
    "orders": "shop.orders",
    "order_states": "shop.orders",
    "customers": "shop.customers",
    "clicks": "shop.page_views",
    "views_per_10_minutes": "shop.page_views",
    "visits_per_day": "shop.page_views",
}
"""Models that read a declared stream, and so have dead letters, and the stream's
topic."""


@dataclass(frozen=True, slots=True)
class Record:
    """One recorded line. `value` is a text, or the JSON value that stands in the
    line."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: Any


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that a model sets aside, and why, in this module's words."""

    record: Record
    reason: str


def expected_tables(recorded: Path = RECORDED) -> dict[str, list[Row]]:
    """The rows of each model's table, by the model's name, in no particular order."""
    customers = _upsert(
        map(_customer, accepted("customers", recorded)), ["customer_id"], "changed_at"
    )
    orders = [_order(row) for row in accepted("orders", recorded)]
    views = accepted("clicks", recorded)
    clicks = [_click(row) for row in views]
    return {
        "customers": customers,
        "orders": _upsert(
            orders, ["order_id"], "updated_at", lambda row: row["status"] == "purged"
        ),
        "order_states": [
            _order_state(row, customers) for row in accepted("order_states", recorded)
        ],
        "clicks": clicks,
        "checkouts": [_checkout(row) for row in clicks if row["page"] == "/checkout"],
        "views_per_10_minutes": _views_per_10_minutes(views),
        "visits_per_day": _visits_per_day(views),
        **_products(read_topic("shop.public.products", recorded)),
    }


def expected_dead_letters(recorded: Path = RECORDED) -> dict[str, list[DeadLetter]]:
    """What stands in each model's dead-letter table, in the order of the files. Models
    without any are left out."""
    read = {
        model: [read_record(model, record) for record in read_topic(topic, recorded)]
        for model, topic in READERS.items()
    }
    return {
        model: [item for item in items if isinstance(item, DeadLetter)]
        for model, items in read.items()
    }


def read_topic(topic: str, recorded: Path = RECORDED) -> list[Record]:
    """The records of a topic in the order of its files and their lines."""
    return [
        Record(
            topic,
            line["partition"],
            line["offset"],
            line["timestamp"],
            line.get("key"),
            line.get("value"),
        )
        for path in sorted((recorded / topic).glob("*.jsonl"))
        for line in map(_from_json, path.read_text("utf-8").splitlines())
    ]


# Reading a record by the stream's contract.


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(value)
    return value


def _decimal(value: Any) -> Decimal:
    if isinstance(value, str | bool):
        raise ValueError(value)
    return Decimal(value).quantize(Decimal("0.01"), ROUND_HALF_UP)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value


def _moment(value: Any) -> datetime:
    return datetime.strptime(_text(value), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def _address(value: Any) -> Row:
    return {"city": value.get("city"), "country": value.get("country")}


CONTRACTS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "shop.orders": {
        "order_id": _integer,
        "customer_id": _integer,
        "amount": _decimal,
        "status": _text,
        "created_at": _moment,
        "updated_at": _moment,
    },
    "shop.customers": {
        "customer_id": _integer,
        "name": _text,
        "email": _text,
        "address": _address,
        "changed_at": _moment,
    },
    "shop.page_views": {
        "view_id": _text,
        "visitor": _text,
        "customer_id": _integer,
        "url": _text,
        "referrer": _text,
        "viewed_at": _moment,
    },
}
REQUIRED = {
    "shop.orders": ["order_id"],
    "shop.customers": [],
    "shop.page_views": ["view_id", "viewed_at"],
}
KEYS = {"orders": ["order_id"], "customers": ["customer_id"]}
SEQUENCES = {"orders": "updated_at", "customers": "changed_at"}


def accepted(model: str, recorded: Path = RECORDED) -> list[Row]:
    """The records that a model takes, as rows of the stream's columns with `partition`
    and `offset`."""
    read = [
        read_record(model, record) for record in read_topic(READERS[model], recorded)
    ]
    return [item for item in read if not isinstance(item, DeadLetter)]


def read_record(model: str, record: Record) -> Row | DeadLetter:
    """A record by the contract of its stream, or why the model sets it aside."""
    contract = CONTRACTS[record.topic]
    try:
        value = (
            _from_json(record.value) if isinstance(record.value, str) else record.value
        )
        row = {
            name: None if value.get(name) is None else read(value[name])
            for name, read in contract.items()
        }
    except (ValueError, AttributeError):
        return DeadLetter(record, UNREADABLE)
    if any(row[name] is None for name in REQUIRED[record.topic]):
        return DeadLetter(record, MISSING_REQUIRED)
    if any(row[name] is None for name in KEYS.get(model, [])):
        return DeadLetter(record, NULL_KEY)
    if model in SEQUENCES and row[SEQUENCES[model]] is None:
        return DeadLetter(record, NULL_SEQUENCE)
    return {**row, "partition": record.partition, "offset": record.offset}


def _from_json(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


# The models.


def _order(row: Row) -> Row:
    return {name: row[name] for name in CONTRACTS["shop.orders"]}


def _customer(row: Row) -> Row:
    address = row["address"] or {"city": None, "country": None}
    email = row["email"] and row["email"].strip(" ").lower()
    return {
        "customer_id": row["customer_id"],
        "name": row["name"],
        "email": email,
        **address,
        "changed_at": row["changed_at"],
    }


def _order_state(row: Row, customers: Sequence[Row]) -> Row:
    customer = next(
        (known for known in customers if known["customer_id"] == row["customer_id"]), {}
    )
    return {
        "order_id": row["order_id"],
        "status": row["status"],
        "amount": row["amount"],
        "is_big": None if row["amount"] is None else row["amount"] >= BIG_ORDER,
        "updated_at": row["updated_at"],
        "customer": customer.get("name"),
        "country": customer.get("country"),
        "source_partition": row["partition"],
        "source_offset": row["offset"],
    }


def _page(url: str) -> str:
    found = re.search(r"^https?://[^/]+(/[^?#]*)", url)
    return found[1] if found else ""


def _click(row: Row) -> Row:
    return {
        "view_id": row["view_id"],
        "visitor": row["visitor"],
        "customer_id": row["customer_id"],
        "page": _page(row["url"]),
        "referrer": row["referrer"],
        "viewed_at": row["viewed_at"],
    }


def _checkout(click: Row) -> Row:
    return {
        name: click[name] for name in ("view_id", "visitor", "customer_id", "viewed_at")
    }


def _products(records: Sequence[Record]) -> dict[str, list[Row]]:
    """The rows of the database's table in the end, and its prices, by the changes in
    the order of the log."""
    events = {
        record.value["source"]["lsn"]: record.value
        for record in records
        if record.value is not None
    }
    products: dict[int, Row] = {}
    prices: list[Row] = []
    for lsn, event in sorted(events.items()):
        key = (event["after"] or event["before"])["product_id"]
        at = datetime.fromtimestamp(event["source"]["ts_ms"] / 1000, UTC)
        current = next(
            (row for row in prices if row["product_id"] == key and row["is_current"]),
            None,
        )
        # a snapshot's row is older than each change
        position = [-1, lsn] if event["op"] == "r" else [lsn]
        row = event["after"] and {
            **event["after"],
            "price": Decimal(event["after"]["price"]),
            "position": position,
        }
        if current and (row is None or row["price"] != current["price"]):
            current.update(valid_to=at, is_current=False)
            current = None
        if row is None:
            del products[key]
            continue
        products[key] = {
            name: row[name]
            for name in ("product_id", "name", "price", "stock", "position")
        }
        if current is None:
            version = {
                "product_id": key,
                "name": row["name"],
                "price": row["price"],
                "changed_at": at,
            }
            valid = {"valid_from": at, "valid_to": None, "is_current": True}
            prices.append({**version, "position": position, **valid})
    return {
        "products": [row for row in products.values() if row["stock"] > 0],
        "prices": prices,
    }


def _views_per_10_minutes(views: Sequence[Row]) -> list[Row]:
    """The windows that the watermark has passed: Spark drops a window's state once its
    end is at or before it."""
    watermark = max(row["viewed_at"] for row in views) - WATERMARK_DELAY
    start_of = [
        (_floor_10_minutes(row["viewed_at"]), _page(row["url"]) == "/checkout")
        for row in views
    ]
    counts = Counter(start for start, _ in start_of)
    checkouts = Counter(start for start, is_checkout in start_of if is_checkout)
    length = timedelta(minutes=10)
    return [
        {
            "window_start": start,
            "window_end": start + length,
            "views": count,
            "checkouts": checkouts[start],
        }
        for start, count in counts.items()
        if start + length <= watermark
    ]


def _floor_10_minutes(moment: datetime) -> datetime:
    return moment.replace(minute=moment.minute // 10 * 10, second=0, microsecond=0)


def _visits_per_day(views: Sequence[Row]) -> list[Row]:
    days: Counter[tuple[date, str]] = Counter(
        (row["viewed_at"].date(), row["referrer"] or "direct") for row in views
    )
    return [
        {"day": day, "referrer": referrer, "views": count}
        for (day, referrer), count in days.items()
    ]


# The keyed write.


def _upsert(
    rows: Iterable[Row],
    keys: Sequence[str],
    sequence: str,
    is_deleted: Callable[[Row], bool] = lambda row: False,
) -> list[Row]:
    return replay(list(rows), keys, sequence, is_deleted, batch=1)


def replay(
    rows: Sequence[Row],
    keys: Sequence[str],
    sequence: str,
    is_deleted: Callable[[Row], bool] = lambda row: False,
    *,
    batch: int,
) -> list[Row]:
    """The rows that stand after writing `rows` in batches of `batch`: of each batch the
    last row per key (by `sequence`, then arrival) is written, unless a newer one
    stands. A row that `is_deleted` takes its key away."""
    table: dict[tuple[Any, ...], Row] = {}
    for start in range(0, len(rows), batch):
        newest: dict[tuple[Any, ...], Row] = {}
        for row in rows[start : start + batch]:
            key = tuple(row[name] for name in keys)
            if key not in newest or row[sequence] >= newest[key][sequence]:
                newest[key] = row
        for key, row in newest.items():
            if key in table and row[sequence] < table[key][sequence]:
                continue
            table.pop(key, None)
            if not is_deleted(row):
                table[key] = row
    return list(table.values())
