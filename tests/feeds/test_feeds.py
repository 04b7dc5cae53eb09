"""Random feeds of many seeds, through every mode, against plain Python; and that a rule
that is switched off shows."""

from __future__ import annotations

import pytest

from lakesql.engine.batch.memories import KeysOfBatch, Moves, Tombstones
from lakesql.engine.progress.progress import QueryProgress
from lakesql.engine.records.debezium import debezium_field
from lakesql.modes.batches import scd2_batches, upsert_batches
from lakesql.modes.batches.merge import newest_rows
from lakesql.modes.batches.newest import Newest
from lakesql.names import RANK
from tests.feeds.delivery import make_feeds
from tests.feeds.suite import MODELS, Kill, Suite, random_kills
from tests.spark.project import Project


@pytest.mark.whole
def test_every_table_is_what_plain_python_says(
    project: Project, feed_seeds: range
) -> None:
    suite = Suite(project, make_feeds(feed_seeds), random_kills(feed_seeds[0], MODELS))
    suite.run()
    faults = suite.faults()
    assert not faults, suite.report(faults)


def test_a_seed_alone_has_the_feed_that_it_has_in_its_group() -> None:
    whole, alone = make_feeds(range(40)), make_feeds([17])
    for topic, records in whole.topics.items():
        of_seed = [record for record in records if record.sent.seed in (17, -1)]
        assert [(each.batch, each.sent) for each in of_seed] == [
            (each.batch, each.sent) for each in alone.topics[topic]
        ]


def find_damaged(
    project: Project, *models: str, seeds: range, batches: int, kill: Kill | None = None
) -> set[str]:
    """The tables in which the suite finds something wrong."""
    feeds, kills = (
        make_feeds(seeds, batches),
        dict.fromkeys(models, kill) if kill else {},
    )
    suite = Suite(project, feeds, kills, {name: MODELS[name] for name in models})
    suite.run()
    return {fault.model for fault in suite.faults()}


def test_without_the_ledger_it_finds_duplicate_rows(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QueryProgress, "holds", lambda *_: False)
    assert find_damaged(
        project, "each", seeds=range(5), batches=3, kill=Kill("finish", 2, False)
    ) == {"each"}


def test_without_tombstones_it_finds_rows_that_come_back(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = ("newest", "versions", "sequenced", "history")
    monkeypatch.setattr(Tombstones, "remember", lambda *_: 0)
    assert find_damaged(project, *models, seeds=range(100), batches=4) == set(models)


@pytest.mark.parametrize("rule", ["telling apart", "remembering"])
def test_without_a_rule_of_key_changes_it_finds_rows_that_are_missing(
    project: Project, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    """Rows that swap their keys in one transaction, which a batch may cut."""
    if rule == "telling apart":
        monkeypatch.setattr(Moves, "begin", lambda *_: KeysOfBatch())
    else:
        monkeypatch.setattr(Moves, "remember", lambda *_: None)
    models = ("mirror", "placed")
    assert find_damaged(project, *models, seeds=range(2, 200, 3), batches=6) == set(
        models
    )


def test_with_the_oldest_change_of_each_key_it_finds_former_rows(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = ("last", "newest", "versions", "mirror", "sequenced")
    reductions = (
        *((upsert_batches, "newest_rows"), (scd2_batches, "newest_rows")),
        *((Newest, "changes"), (Newest, "changes_known")),
    )
    for module, reduction in reductions:
        newest = getattr(module, reduction)
        monkeypatch.setattr(
            module,
            reduction,
            lambda *args, newest=newest: newest(*args).replace(" DESC", ""),
        )
    assert find_damaged(project, *models, seeds=range(20), batches=2) >= set(models)


def test_without_the_reduction_it_finds_keys_that_stand_twice(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_rows = lambda *args: newest_rows(*args).replace(f"WHERE {RANK} = 1", "")  # noqa: E731
    monkeypatch.setattr(upsert_batches, "newest_rows", all_rows)
    assert find_damaged(project, "last", "newest", seeds=range(5), batches=1) == {
        "last",
        "newest",
    }


def test_without_the_places_of_snapshots_it_finds_former_rows(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "lakesql.engine.records.event.place_of",
        lambda event, _: debezium_field(event, "position"),
    )
    assert find_damaged(project, "placed", "sequenced", seeds=range(40), batches=2) >= {
        "placed",
        "sequenced",
    }
