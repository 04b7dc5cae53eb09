"""A group over a real broker: tables that come while it runs, fail, and go on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from lakesql.engine.progress.lease import Leases
from lakesql.errors import ProjectError
from lakesql.events import BatchCommitted, Event, Noted
from lakesql.run.model_jobs import NOT_KEPT_FRESH
from lakesql.run.samples.pull_schemas import pull_schemas
from lakesql.run.start.prepare_model import prepare_model
from tests.servers.broker import Broker, Message
from tests.spark.project import Project, Row
from tests.spark.test_groups import KINDS, change, rows
from tests.spark.test_open_feed import LONG, TEXT


@pytest.fixture
def project(
    new_project: Callable[[], Project], broker: Broker, request: pytest.FixtureRequest
) -> Project:
    """A project whose group mirrors the topics of the test's own."""
    project = new_project()
    project.connections = {
        "broker": {"type": "kafka", "bootstrap_servers": broker.servers}
    }
    prefix = prefix_of(request)
    project.stream(
        "shop",
        envelope="debezium",
        connection="broker",
        pattern=rf"{prefix}\.public\..*",
    )
    project.model(
        "mirror",
        "SELECT * FROM {shop}",
        mode="cdc",
        trigger="1 second",
        tables={"exclude": ["public.no"]},
    )
    return project


@pytest.fixture
def send(broker: Broker, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Sends changes of a table, whose topic is made with the first."""
    prefix, made = prefix_of(request), set[str]()

    def send(
        table: str, op: str, *sent: Row, kinds: dict[str, Any] | None = None
    ) -> None:
        topic = f"{prefix}.public.{table}"
        if topic not in made:
            broker.create_topic(topic, 1)
            made.add(topic)
        changes = [change(f"public.{table}", op, row, kinds) for row in sent]
        broker.produce(
            topic,
            [
                Message(
                    json.dumps(it["value"]).encode(), json.dumps(it["key"]).encode()
                )
                for it in changes
            ],
        )

    return send


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def prefix_of(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).replace("_", "-")[:60]


def run_through(
    project: Project,
    steps: list[tuple[Callable[[], bool], Callable[[], object]]],
    events: list[Event],
    *names: str,
) -> None:
    """Run continuously: each step is taken once what it waits for is so, and the run
    ends with the last."""
    left, deadline = list(steps), time.monotonic() + 150

    def take_next() -> bool:
        assert time.monotonic() < deadline, f"{len(left)} steps are left"
        if left and left[0][0]():
            left.pop(0)[1]()
        return not left

    def until() -> bool:
        try:
            return take_next()
        except AssertionError:
            return True

    project.run(
        *names,
        continuous=True,
        asks=True,
        until=until,
        meet=events.append,
        hangs_after_s=240,
    )
    assert not left, f"{len(left)} of {len(steps)} steps were not reached"


def has(project: Project, table: str, wanted: list[Row]) -> Callable[[], bool]:
    def look() -> bool:
        return (
            project.has(table)
            and sorted_by_id(project.rows_without_spark(table)) == wanted
        )

    return look


def sorted_by_id(found: list[Row]) -> list[Row]:
    return sorted(found, key=lambda row: row["id"])


def test_tables_are_found_made_and_kept_in_one_run(
    project: Project, send: Callable[..., None]
) -> None:
    events: list[Event] = []
    send("orders", "c", *rows(1, 2))
    send("no", "c", *rows(1))
    steps = [
        (
            has(project, "public_orders", rows(1, 2)),
            lambda: send("users", "c", *rows(7)),
        ),
        (has(project, "public_users", rows(7)), lambda: send("orders", "d", *rows(1))),
        (has(project, "public_orders", rows(2)), lambda: send("users", "c", *rows(8))),
        (has(project, "public_users", rows(7, 8)), lambda: None),
    ]
    run_through(project, steps, events)
    assert not project.has("public_no")
    assert not [
        event
        for event in events
        if isinstance(event, Noted) and event.text == NOT_KEPT_FRESH
    ]
    batches = [
        (event.model, event.batch)
        for event in events
        if isinstance(event, BatchCommitted)
    ]
    assert sorted(batches) == [
        (f"mirror.public_{name}", batch)
        for name in ("orders", "users")
        for batch in (0, 1)
    ]


def test_a_topic_that_says_nothing_of_its_table_at_first_is_looked_at_again(
    project: Project,
    broker: Broker,
    send: Callable[..., None],
    request: pytest.FixtureRequest,
) -> None:
    """A connector makes a topic before it writes to it, and a truncate has no key."""
    events: list[Event] = []
    send("orders", "c", *rows(1))
    prefix = prefix_of(request)

    def truncate() -> None:
        event = change("public.cleared", "t", rows(1)[0])["value"]
        event["payload"]["after"] = None
        broker.produce(f"{prefix}.public.cleared", [Message(_json(event))])

    def make_topics() -> None:
        for table in ("empty", "cleared"):
            broker.create_topic(f"{prefix}.public.{table}", 1)
        truncate()
        time.sleep(4)

    def fill() -> None:
        for table in ("empty", "cleared"):
            it = change(f"public.{table}", "c", rows(7)[0])
            broker.produce(
                f"{prefix}.public.{table}",
                [Message(_json(it["value"]), _json(it["key"]))],
            )

    steps = [
        (has(project, "public_orders", rows(1)), make_topics),
        (lambda: True, fill),
        (has(project, "public_empty", rows(7)), lambda: None),
        (has(project, "public_cleared", rows(7)), lambda: None),
    ]
    run_through(project, steps, events)
    assert not project.manifest().lacks_tables(project.manifest().models)


def test_a_table_keeps_its_name_when_another_comes_that_would_have_it(
    project: Project, send: Callable[..., None]
) -> None:
    send("orders", "c", *rows(1))
    project.run(asks=True).check()
    send("Orders", "c", *rows(5))
    send("orders", "c", *rows(2))
    project.run(asks=True).check()
    assert [warning.condition for warning in project.manifest().warnings] == [
        "table-unfit"
    ]
    assert project.rows("public_orders", "id") == rows(1, 2)
    tables = {"rename": {"public.Orders": "public_orders_2"}}
    project.model("mirror", "SELECT * FROM {shop}", mode="cdc", tables=tables)
    project.run(asks=True).check()
    assert project.rows("public_orders_2", "id") == rows(5)


def test_a_table_that_comes_into_the_topic_of_another_is_pulled(
    project: Project, broker: Broker, request: pytest.FixtureRequest
) -> None:
    topic = f"{prefix_of(request)}.public.gr__e"
    broker.create_topic(topic, 1)

    def produce(table: str, number: int) -> None:
        it = change(f"public.{table}", "c", rows(number)[0])
        broker.produce(topic, [Message(_json(it["value"]), _json(it["key"]))])

    produce("größe", 1)
    project.run(asks=True).check()
    produce("gräße", 2)
    produce("größe", 3)
    (problem,) = project.run(asks=True).finished("mirror.public_gr__e").problems
    assert problem.condition == "mixed-source-tables" and problem.fix.endswith(
        "lakesql schema pull shop"
    )
    pull_schemas(project.manifest(asks=True), ["shop"])
    with pytest.raises(ProjectError) as caught:
        project.manifest()
    assert [each.condition for each in caught.value.problems] == ["duplicate-name"]
    project.model(
        "mirror",
        "SELECT * FROM {shop}",
        mode="cdc",
        tables={"rename": {"public.gräße": "other"}},
    )
    project.run(asks=True).check()
    assert project.rows("public_gr__e", "id") == rows(1, 3)
    assert project.rows("other", "id") == rows(2)


def test_a_table_that_gets_a_key_later_is_mirrored(
    project: Project,
    broker: Broker,
    send: Callable[..., None],
    request: pytest.FixtureRequest,
) -> None:
    send("orders", "c", *rows(1))
    topic = f"{prefix_of(request)}.public.keyless"
    broker.create_topic(topic, 1)
    it = change("public.keyless", "c", rows(7)[0])
    broker.produce(topic, [Message(_json(it["value"]))])
    project.run(asks=True)
    assert [warning.condition for warning in project.manifest().warnings] == [
        "table-unfit"
    ]
    broker.produce(topic, [Message(_json(it["value"]), _json(it["key"]))])
    project.run(asks=True).check()
    assert project.manifest().warnings == () and project.rows("public_keyless") == rows(
        7
    )


def test_a_table_that_comes_is_not_added_to_a_run_of_some_of_the_group(
    project: Project, send: Callable[..., None]
) -> None:
    send("orders", "c", *rows(1))
    send("users", "c", *rows(1))
    events: list[Event] = []
    steps = [
        (has(project, "public_orders", rows(1)), lambda: send("late", "c", *rows(5))),
        (lambda: True, lambda: send("orders", "c", *rows(2))),
        (has(project, "public_orders", rows(1, 2)), lambda: time.sleep(3)),
    ]
    run_through(project, steps, events, "mirror.public_orders")
    assert not project.has("public_late") and not project.has("public_users")


def test_a_run_of_what_is_there_looks_at_no_table_that_has_nothing_new(
    project: Project, send: Callable[..., None]
) -> None:
    send("orders", "c", *rows(1))
    send("users", "c", *rows(1))
    project.run(asks=True).check()
    send("users", "c", *rows(2))
    ran = project.run(asks=True).check()
    assert [event.model for event in ran.of(BatchCommitted)] == ["mirror.public_users"]
    assert ran.finished("mirror.public_orders").status == "success"


def test_a_table_that_cannot_be_followed_is_set_aside_and_goes_on_once_it_can(
    project: Project, send: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Event] = []
    monkeypatch.setattr("lakesql.run.supervise.SET_ASIDE_MS", 2_000)
    send("orders", "c", *rows(1))
    send("users", "c", *rows(1))
    project.run(asks=True).check()
    blocked = project.directory / "checkpoints" / "mirror.public_orders" / "metadata"
    text = blocked.read_bytes()

    def break_orders() -> None:
        blocked.write_bytes(b"")
        send("orders", "c", *rows(2))
        send("users", "c", *rows(2))

    steps = [
        (lambda: True, break_orders),
        (has(project, "public_users", rows(1, 2)), lambda: time.sleep(5)),
        (lambda: True, lambda: blocked.write_bytes(text)),
        (has(project, "public_orders", rows(1, 2)), lambda: None),
        (lambda: "goes on" in said_of(events), lambda: None),
    ]
    run_through(project, steps, events)
    assert "set aside" in said_of(events)


def test_a_model_that_rests_is_prepared_once_unless_another_runner_has_had_it(
    project: Project, send: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[str] = []

    def prepare(context: Any, session: Any, bound: Any, *others: Any) -> Any:
        prepared.append(bound.select.model.name)
        return prepare_model(context, session, bound, *others)

    monkeypatch.setattr("lakesql.run.model_jobs.prepare_model", prepare)
    send("orders", "c", *rows(1))
    send("users", "c", *rows(1))
    names = ["mirror.public_orders", "mirror.public_users"]

    def have_the_lease_of_orders() -> None:
        assert sorted(prepared) == names
        other = Leases(project.lake.session)
        checkpoint = project.manifest().target.checkpoint_of(names[0])
        while not other.claim(names[0], checkpoint, lambda text: None):
            time.sleep(0.1)
        other.close()
        send("orders", "d", *rows(1))

    steps = [
        (has(project, "public_orders", rows(1)), lambda: send("orders", "c", *rows(2))),
        (
            has(project, "public_orders", rows(1, 2)),
            lambda: send("orders", "c", *rows(3)),
        ),
        (
            has(project, "public_orders", rows(1, 2, 3)),
            lambda: send("users", "c", *rows(2)),
        ),
        (has(project, "public_users", rows(1, 2)), have_the_lease_of_orders),
        (
            has(project, "public_orders", rows(2, 3)),
            lambda: send("orders", "c", *rows(4)),
        ),
        (has(project, "public_orders", rows(2, 3, 4)), lambda: None),
    ]
    run_through(project, steps, [])
    assert sorted(prepared) == [names[0], *names]


def test_a_topic_that_is_made_again_while_its_model_rests_is_told(
    project: Project,
    send: Callable[..., None],
    broker: Broker,
    request: pytest.FixtureRequest,
) -> None:
    events: list[Event] = []
    send("orders", "c", *rows(1, 2, 3))
    send("users", "c", *rows(1))

    def make_again() -> None:
        topic = f"{prefix_of(request)}.public.orders"
        broker.delete_topic(topic)
        broker.create_topic(topic, 1)
        send("orders", "c", *rows(9))
        send("users", "c", *rows(2))

    steps = [
        (has(project, "public_orders", rows(1, 2, 3)), make_again),
        (has(project, "public_users", rows(1, 2)), lambda: None),
        (lambda: "topic-recreated" in said_of(events), lambda: None),
    ]
    run_through(project, steps, events)
    assert sorted_by_id(project.rows("public_orders")) == rows(1, 2, 3)


def said_of(events: list[Event]) -> str:
    """What was said of the orders."""
    said = [
        event.text
        for event in events
        if isinstance(event, Noted) and event.model == "mirror.public_orders"
    ]
    return "\n".join(said)


def test_a_pull_declares_the_tables_and_what_comes_later_is_followed(
    project: Project, send: Callable[..., None]
) -> None:
    send("orders", "c", *rows(1))
    manifest = project.manifest(asks=True)
    (pulled,) = pull_schemas(manifest, ["shop"])
    assert (
        pulled.is_changed
        and "public.orders" in (project.directory / pulled.path).read_text()
    )
    assert sorted(project.manifest().models) == ["mirror.public_orders"]
    project.run().check()
    send("orders", "c", {"id": 2, "note": "x"}, kinds={"id": LONG, "note": TEXT})
    project.run().check()
    assert [
        (row["id"], row["note"]) for row in project.rows("public_orders", "id")
    ] == [(1, None), (2, "x")]
    assert set(KINDS) < set(project.rows("public_orders")[0])
    (again,) = pull_schemas(project.manifest(asks=True), ["shop"])
    assert again.is_changed and "note" in (project.directory / again.path).read_text()
