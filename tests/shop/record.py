"""Records the shop's topics: `python -m tests.shop.record` writes
`streams/recorded/<topic>/*.jsonl`, byte for byte.

What the data holds on purpose:

- orders: changes that arrive hours after newer ones, resent records, two changes in the
  same second, `created_at` moved to another day by a later change, orders of customers
  that no record tells of, purged orders;
- records that cannot be read, lack a required column, or have no key or no sequence
  (`BAD_ORDERS` and its siblings);
- products as Debezium tells of them: a snapshot, then updates, deletes with their
  tombstones, and once the last events again, as a connector sends them that was killed;
- a record whose value is a text that holds JSON, columns that no contract names,
  headers, several partitions.

Nothing arrives for an order after its `purged`, and no page view arrives more than two
minutes late: so the tables do not depend on where one batch ends and the next begins.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
Value = dict[str, object] | str | None

RECORDED = Path(__file__).parents[2] / "streams" / "recorded"
OPENING = datetime(2026, 3, 2, tzinfo=UTC)
DAYS = 4

BAD_ORDERS: tuple[Value, ...] = (
    '{"order_id": 1017, "customer_id": 4, "amount": 18.',
    '{"order_id": 1101 "status": "paid"}',
    "ping",
    {"order_id": 1066, "customer_id": 12, "amount": "a lot", "status": "placed"},
    {
        "customer_id": 31,
        "amount": 75.5,
        "status": "placed",
        "updated_at": "2026-03-03T10:00:00Z",
    },
    {
        "order_id": None,
        "customer_id": 8,
        "amount": 20,
        "status": "paid",
        "updated_at": "2026-03-04T11:30:00Z",
    },
    {
        "order_id": 1009,
        "customer_id": 9,
        "amount": 64.2,
        "status": "shipped",
        "updated_at": None,
    },
    {"order_id": 1150, "customer_id": 22, "amount": 12.75, "status": "paid"},
)
BAD_CUSTOMERS: tuple[Value, ...] = (
    {
        "customer_id": None,
        "name": "Nobody",
        "email": "nobody@example.com",
        "changed_at": "2026-03-02T06:00:00Z",
    },
    '{"customer_id": 40, "name": "Ida',
    {"customer_id": 41, "name": "Undated"},
)
BAD_PAGE_VIEWS: tuple[Value, ...] = (
    '{"view_id": "v-',
    {
        "visitor": "u1",
        "url": "https://shop.example/",
        "viewed_at": "2026-03-02T12:00:00Z",
    },
    {"view_id": "v-no-time", "visitor": "u2", "url": "https://shop.example/cart"},
    {
        "view_id": "v-bad-time",
        "visitor": "u3",
        "url": "https://shop.example/",
        "viewed_at": "yesterday",
    },
)

FIRST_NAMES = (
    "Ada",
    "Björn",
    "Chloé",
    "Dmitri",
    "Elif",
    "Fatima",
    "Goran",
    "Hana",
    "Inès",
    "João",
)
LAST_NAMES = (
    "Almeida",
    "Berg",
    "Costa",
    "Dvořák",
    "Eriksen",
    "Fischer",
    "García",
    "Horváth",
    "Ivanova",
    "Jansen",
)
CITIES = (
    ("Lisbon", "PT"),
    ("Oslo", "NO"),
    ("Prague", "CZ"),
    ("Kraków", "PL"),
    ("Ghent", "BE"),
    ("Graz", "AT"),
)
PAGES = (
    "/",
    "/",
    "/search?q=lamp",
    "/p/lamp-12",
    "/p/chair-7#reviews",
    "/p/desk-3?ref=mail",
    "/cart",
    "/checkout",
)
REFERRERS = (None, None, "search", "search", "newsletter", "social")
MATERIALS = ("Oak", "Steel", "Linen", "Cork", "Glass")
PRODUCTS = ("lamp", "chair", "desk", "shelf", "vase")
CHANNELS = ("web", "app", "store")


def main() -> None:
    """Write the files of all topics."""
    for name, text in record().items():
        path = RECORDED / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="\n")


def record() -> dict[str, str]:
    """The text of every file, by its path under `streams/recorded`."""
    customers = _with_bad(_customers(Dice(1)), BAD_CUSTOMERS)
    orders = _with_bad(_orders(Dice(2)), BAD_ORDERS)
    page_views = _with_bad(_page_views(Dice(3)), BAD_PAGE_VIEWS)
    return {
        **_files("shop.customers", customers, partitions=2, files=2),
        **_files("shop.orders", orders, partitions=3, files=4),
        **_files("shop.public.products", _products(Dice(4)), partitions=2, files=3),
        **_files("shop.page_views", page_views, partitions=3, files=3),
    }


class Dice:
    """Seeded chance. Only `random()` of the standard library promises the same numbers
    in every Python."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, limit: int) -> int:
        return int(self._random.random() * limit)

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def one_of(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def chance(self, percent: int) -> bool:
        return self.below(100) < percent


@dataclass(frozen=True, slots=True)
class Sent:
    """A record before it has a partition and an offset; `key` decides the partition."""

    arrived: datetime
    key: str | None
    value: Value
    headers: tuple[tuple[str, str], ...] = ()


def _customers(dice: Dice) -> list[Sent]:
    sent = []
    for customer_id in range(1, 121):
        name = f"{dice.one_of(FIRST_NAMES)} {dice.one_of(LAST_NAMES)}"
        city, country = dice.one_of(CITIES)
        email = f"{name.split()[0]}.{customer_id}@Example.com"
        changed = OPENING - timedelta(
            days=dice.between(1, 300), seconds=dice.below(86_400)
        )
        for version in range(3 if dice.chance(10) else 2 if dice.chance(40) else 1):
            if version:
                changed = OPENING + timedelta(
                    days=version - 1, seconds=dice.below(86_400)
                )
                city, country = dice.one_of(CITIES)
                email = f" {email.strip()} " if dice.chance(30) else email
            value: Value = {
                "customer_id": customer_id,
                "name": name,
                "email": email,
                "address": None
                if dice.chance(3)
                else {"city": city, "country": country},
                "changed_at": _iso(changed),
            }
            late = (
                timedelta(days=1)
                if version == 1 and dice.chance(15)
                else timedelta(seconds=dice.between(1, 9))
            )
            sent.append(Sent(max(changed, OPENING) + late, str(customer_id), value))
    return _by_arrival(sent)


def _orders(dice: Dice) -> list[Sent]:
    sent = [
        change for order_id in range(1001, 1391) for change in _order(dice, order_id)
    ]
    closing = OPENING + timedelta(days=DAYS)
    return _by_arrival([change for change in sent if change.arrived < closing])


def _order(dice: Dice, order_id: int) -> list[Sent]:
    created = OPENING + timedelta(
        days=dice.below(DAYS), hours=7, seconds=dice.below(14 * 3600)
    )
    customer_id = dice.between(121, 125) if dice.chance(2) else dice.between(1, 120)
    amount = round(5 + dice.below(20_000) / 100 * dice.one_of((1, 1, 1, 4)), 2)
    headers = (
        (("channel", dice.one_of(CHANNELS)), ("trace", f"{order_id:08x}"))
        if dice.chance(25)
        else ()
    )
    is_purged = order_id % 29 == 0
    is_moved = order_id % 101 == 0
    sent = []
    for status, after in _states(dice, is_purged):
        told = (
            created - timedelta(days=1)
            if is_moved and status in ("delivered", "cancelled")
            else created
        )
        updated = created + after
        value: dict[str, object] = {
            "order_id": order_id,
            "customer_id": customer_id,
            "amount": amount,
            "status": status,
            "created_at": _iso(told),
            "updated_at": _iso(updated),
        }
        if dice.chance(3):
            value["note"] = "gift"
        is_late = not is_purged and dice.chance(5)
        arrived = updated + timedelta(
            seconds=dice.between(600, 100_000) if is_late else dice.between(1, 4)
        )
        sent.append(
            Sent(
                arrived,
                str(order_id),
                json.dumps(value) if dice.chance(1) else value,
                headers,
            )
        )
        if not is_purged and dice.chance(3):
            sent.append(
                Sent(
                    arrived + timedelta(seconds=dice.between(5, 4000)),
                    str(order_id),
                    value,
                    headers,
                )
            )
    return sent


def _states(dice: Dice, is_purged: bool) -> list[tuple[str, timedelta]]:
    """The states an order goes through, each with the time since it was created."""
    paid = timedelta(seconds=dice.between(20, 1800))
    if is_purged:
        return [
            ("placed", timedelta()),
            ("cancelled", paid),
            ("purged", timedelta(days=1)),
        ]
    if dice.chance(8):
        return [("placed", timedelta()), ("cancelled", paid)]
    shipped = (
        paid if dice.chance(3) else paid + timedelta(seconds=dice.between(3600, 72_000))
    )
    delivered = shipped + timedelta(seconds=dice.between(40_000, 170_000))
    return [
        ("placed", timedelta()),
        ("paid", paid),
        ("shipped", shipped),
        ("delivered", delivered),
    ]


def _page_views(dice: Dice) -> list[Sent]:
    sent = []
    for number in range(1000):
        viewed = OPENING + timedelta(
            seconds=number * 3 * 86_400 // 1000 + dice.below(120)
        )
        visitor = dice.below(400)
        value: Value = {
            "view_id": f"v-{number:05d}",
            "visitor": f"u{visitor}",
            "customer_id": visitor if 1 <= visitor <= 125 else None,
            "url": f"https://shop.example{dice.one_of(PAGES)}",
            "referrer": dice.one_of(REFERRERS),
            "viewed_at": _iso(viewed),
        }
        headers = (("agent", "app/4.1"),) if dice.chance(10) else ()
        key = None if dice.chance(5) else f"u{visitor}"
        arrived = viewed + timedelta(
            seconds=dice.between(1, 100 if dice.chance(10) else 5)
        )
        sent.append(Sent(arrived, key, value, headers))
        if dice.chance(1):
            sent.append(Sent(arrived + timedelta(seconds=3), key, value, headers))
    return _by_arrival(sent)


def _products(dice: Dice) -> list[Sent]:
    sent: list[Sent] = []
    known: dict[int, dict[str, object]] = {}
    lsn, at = 24_000_000, OPENING

    def send(op: str, product_id: int) -> None:
        nonlocal lsn
        lsn += dice.between(40, 900)
        row = known.pop(product_id) if op == "d" else known[product_id]
        source = {
            "connector": "postgresql",
            "table": "products",
            "snapshot": "first" if op == "r" else "false",
        }
        value: Value = {
            "before": {
                "product_id": product_id,
                "name": None,
                "price": None,
                "stock": None,
            }
            if op == "d"
            else None,
            "after": None if op == "d" else dict(row),
            "source": {**source, "ts_ms": int(at.timestamp() * 1000), "lsn": lsn},
            "op": op,
            "ts_ms": int(at.timestamp() * 1000) + dice.between(20, 400),
        }
        key = json.dumps({"product_id": product_id})
        sent.append(Sent(at, key, value))
        if op == "d":
            sent.append(Sent(at, key, None))

    for product_id in range(1, 31):
        name = f"{dice.one_of(MATERIALS)} {dice.one_of(PRODUCTS)}"
        price = f"{dice.between(5, 900)}.{dice.one_of(('00', '50', '90'))}"
        known[product_id] = {
            "product_id": product_id,
            "name": name,
            "price": price,
            "stock": dice.between(0, 60),
        }
        send("r", product_id)
    for number in range(260):
        at += timedelta(seconds=dice.between(60, 2400))
        product_id = dice.one_of(sorted(known))
        if number % 40 == 39:
            send("d", product_id)
            product_id = 31 + number // 40
            known[product_id] = {
                "product_id": product_id,
                "name": "New lamp",
                "price": "49.90",
                "stock": 20,
            }
            send("c", product_id)
            continue
        row = known[product_id]
        if dice.chance(15):
            row["price"] = f"{dice.between(5, 900)}.{dice.one_of(('00', '50', '90'))}"
        row["stock"] = max(0, dice.between(-9, 12) + int(str(row["stock"])))
        send("u", product_id)
        if number == 150:
            sent += sent[-25:]
    return sent


def _with_bad(sent: list[Sent], bad: Sequence[Value]) -> list[Sent]:
    """The records with the bad ones evenly among them, each arriving with the record
    before it."""
    mixed = list(sent)
    step = len(sent) // (len(bad) + 1)
    for number in range(len(bad), 0, -1):
        before = sent[number * step - 1]
        mixed.insert(
            number * step, Sent(before.arrived, f"bad-{number}", bad[number - 1])
        )
    return mixed


def _by_arrival(sent: list[Sent]) -> list[Sent]:
    return sorted(sent, key=lambda record: record.arrived)


def _files(
    topic: str, sent: list[Sent], *, partitions: int, files: int
) -> dict[str, str]:
    offsets = [0] * partitions
    lines = []
    for record in sent:
        partition = sum((record.key or "").encode()) % partitions
        fields: dict[str, object] = {
            "partition": partition,
            "offset": offsets[partition],
            "timestamp": int(record.arrived.timestamp() * 1000),
            "key": record.key,
            "value": record.value,
        }
        if record.headers:
            fields["headers"] = record.headers
        offsets[partition] += 1
        lines.append(
            json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n"
        )
    size = -(-len(lines) // files)
    return {
        f"{topic}/part-{number + 1:05d}.jsonl": "".join(
            lines[number * size : (number + 1) * size]
        )
        for number in range(files)
    }


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    main()
