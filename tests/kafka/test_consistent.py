"""A group whose tables change together: no reader sees a part of a transaction,
whatever comes between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from lakesql.engine.ledger import commit_together
from lakesql.errors import RunError
from lakesql.events import BatchCommitted, Noted
from lakesql.run.build import plan_build
from lakesql.run.together import check_whole
from tests.kafka.bank import TABLES, Bank, balances, mirror
from tests.servers.broker import Broker
from tests.spark.project import Project, Ran


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return (
        str(request.node.name).replace("_", "-").replace("[", "-").replace("]", "")[:60]
    )


@pytest.fixture
def project(new_project: Callable[[], Project], broker: Broker, prefix: str) -> Project:
    project = new_project()
    project.connections = {
        "broker": {"type": "kafka", "bootstrap_servers": broker.servers}
    }
    mirror(project, prefix)
    return project


@pytest.fixture
def bank(broker: Broker, prefix: str) -> Bank:
    bank = Bank(broker, prefix)
    bank.open_accounts()
    return bank


def said(ran: Ran) -> str:
    return "\n".join(event.text for event in ran.of(Noted))


def total(found: dict[str, dict[int, int]]) -> int:
    return sum(balance for table in found.values() for balance in table.values())


def test_a_batch_ends_with_a_transaction(project: Project, bank: Bank) -> None:
    bank.transfer(count=4)
    project.run(asks=True).check()
    assert balances(project) == bank.balances
    before = balances(project)
    name, changes = bank.begin()
    bank.send(*changes[0])  # the second half is on its way
    ran = project.run(asks=True).check()
    assert balances(project) == before and "not over yet" in said(ran)
    assert not ran.of(BatchCommitted)
    bank.end(name, [table for table, _ in changes])
    ran = project.run(asks=True).check()
    assert balances(project) == before and "is over, and the feed has 0 of 1" in said(
        ran
    )
    bank.send(*changes[1])
    bank.transfer(count=2)
    project.run(asks=True).check()
    assert balances(project) == bank.balances


def test_all_tables_of_a_round_are_committed_at_once(
    project: Project, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    publish = commit_together.move_metadata

    def look(catalog: Any, moves: Any) -> bool:
        moved = publish(catalog, moves)
        seen.append((len(list(moves)), total(balances(project))))
        return moved

    monkeypatch.setattr(commit_together, "move_metadata", look)
    for _ in range(3):
        bank.transfer(count=3)
        project.run(asks=True).check()
    assert seen == [(len(TABLES), bank.total)] * 3
    assert balances(project) == bank.balances


def test_tables_of_one_topic_are_committed_at_once(
    project: Project, broker: Broker, prefix: str, reads: Counter[str]
) -> None:
    bank = Bank(broker, prefix, has_one_topic=True)
    project.stream(
        "bank", envelope="debezium", connection="broker", topic=f"{prefix}.all"
    )
    bank.open_accounts()
    bank.transfer(count=2)
    project.run(asks=True).check()
    bank.transfer(count=3)
    begun = bank.begin()
    bank.send(*begun[1][0])
    before = {table: dict(found) for table, found in balances(project).items()}
    project.run(asks=True).check()
    assert balances(project) != before
    assert total(balances(project)) == bank.total
    bank.finish_rest(begun)
    project.run(asks=True).check()
    assert balances(project) == bank.balances
    assert {*reads.values()} == {1}


def test_a_part_of_the_group_is_not_run_nor_built(project: Project, bank: Bank) -> None:
    manifest = project.manifest(asks=True)
    check_whole(manifest, [f"bank.public_{table}" for table in TABLES])
    with pytest.raises(RunError) as caught:
        check_whole(manifest, ["bank.public_savings"])
    (problem,) = caught.value.problems
    assert (
        problem.condition == "group-part" and "lakesql run --select bank" in problem.fix
    )
    with pytest.raises(RunError) as caught:
        plan_build(manifest, [*manifest.models], (), (), "spark")
    assert [problem.condition for problem in caught.value.problems] == ["group-build"]
    # whoever runs a part all the same
    ran = project.run("bank.public_savings", asks=True)
    assert ran.conditions("bank.public_savings") == ["group-part"]
    assert not project.has("public_savings")


def test_a_model_that_cannot_start_holds_none_of_the_others_for_ever(
    project: Project, bank: Bank
) -> None:
    bank.transfer(count=2)
    project.run(asks=True).check()
    bank.transfer(count=2)
    blocked = project.directory / "checkpoints" / "bank.public_checking" / "metadata"
    text = blocked.read_bytes()
    blocked.write_bytes(b"")
    ran = project.run(asks=True, hangs_after_s=300)
    assert not ran.succeeded and not ran.of(BatchCommitted)
    blocked.write_bytes(text)
    project.run(asks=True).check()
    assert balances(project) == bank.balances


def test_a_table_that_is_rebuilt_comes_back_to_the_others(
    project: Project, bank: Bank
) -> None:
    bank.transfer(count=3)
    project.run(asks=True).check()
    bank.transfer(count=3)
    project.rebuild("bank.public_savings").check()
    project.run(asks=True).check()
    assert balances(project) == bank.balances


def test_a_feed_that_tells_of_no_transactions_is_refused(
    project: Project, broker: Broker, prefix: str
) -> None:
    bank = Bank(broker, prefix)
    bank.open_accounts()
    bank.send("savings", bank.event("savings", "u", 1, 70, None))
    ran = project.run(asks=True)
    assert not ran.succeeded
    assert {ran.conditions(f"bank.public_{table}")[0] for table in TABLES} == {
        "group-transactions"
    }


def test_tables_that_were_run_apart_are_brought_to_one_place(
    project: Project, bank: Bank, prefix: str
) -> None:
    mirror(project, prefix, consistent=False)
    bank.transfer(count=3)
    project.run("bank.public_savings", asks=True).check()
    bank.transfer(count=3)
    mirror(project, prefix)
    ran = project.run(asks=True).check()
    assert "stand at different places" in said(ran)
    assert balances(project) == bank.balances
    bank.transfer(count=3)
    ran = project.run(asks=True).check()
    assert balances(project) == bank.balances and "different places" not in said(ran)


@pytest.mark.parametrize("step", ["view", "stage", "dead-letter", "publish", "finish"])
def test_a_table_that_fails_holds_all_back_and_none_is_seen(
    project: Project, bank: Bank, step: str
) -> None:
    bank.transfer(count=2)
    project.run(asks=True).check()
    before = balances(project)
    bank.transfer(count=4)

    def fail(model: str, reached: str) -> None:
        if (model, reached) == ("bank.public_savings", step):
            raise RunError.of("mixed-source-tables", "It fails.")

    ran = project.run(asks=True, reached=fail)
    assert not ran.succeeded
    assert balances(project) == (bank.balances if step == "finish" else before)
    project.run(asks=True).check()
    assert balances(project) == bank.balances


def test_a_conflict_stages_one_table_again(project: Project, bank: Bank) -> None:
    bank.transfer(count=2)
    project.run(asks=True).check()
    bank.transfer(count=3)
    met = []

    def commit_between(model: str, reached: str) -> None:
        if (model, reached) == ("bank.public_savings", "publish") and not met:
            met.append(model)
            project.sql(f"DELETE FROM {project.table('public_savings')} WHERE id = 999")
            project.sql(
                f"INSERT INTO {project.table('public_savings')} (id, balance) VALUES (999, 0)"
            )

    project.run(asks=True, reached=commit_between).check()
    found = balances(project)
    assert found["savings"].pop(999) == 0
    assert met and found == bank.balances
