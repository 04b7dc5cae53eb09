from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lakesql.events import RescuedFields
from lakesql.ledger.entry import Entry, Snapshot, newest_entry, rows_written, summary_of
from tests.cases import each_of

TIME = "2026-01-31T00:00:00+00:00"
ENTRY = Entry(
    "orders",
    "c-1",
    7,
    '{"orders":{"p":1}}',
    "hash",
    "state",
    TIME,
    {"o": "id-1"},
    "o-0: 3 to 4",
)
FAILING = replace(ENTRY, violations=(("paid: é", 3), ("amount >= 0", 1)))


def entry(batch: int, model: str = "orders") -> Entry:
    return Entry(model, "c-1", batch, "{}", "hash")


def history(*summaries: dict[str, str]) -> list[Snapshot]:
    """Snapshots from the head to the root."""
    count = len(summaries)
    return [Snapshot(count - index, summary) for index, summary in enumerate(summaries)]


def never(snapshot_id: int) -> Snapshot | None:
    raise AssertionError(f"nobody asked for {snapshot_id}")


def test_an_entry_survives_its_summary() -> None:
    assert summary_of(ENTRY) == {
        "lakesql.model": "orders",
        "lakesql.checkpoint": "c-1",
        "lakesql.batch": "7",
        "lakesql.offsets": '{"orders":{"p":1}}',
        "lakesql.query": "hash",
        "lakesql.state": "state",
        "lakesql.event-time": TIME,
        "lakesql.topics": '{"o":"id-1"}',
        "lakesql.accepted-loss": "o-0: 3 to 4",
    }
    assert newest_entry(history(summary_of(ENTRY)), "orders", never) == ENTRY
    assert (
        summary_of(FAILING)["lakesql.violations"] == '{"paid: é": 3, "amount >= 0": 1}'
    )
    assert newest_entry(history(summary_of(FAILING)), "orders", never) == FAILING
    rescuing = replace(
        ENTRY, rescued=(RescuedFields("s", 3, ("é", "n.q")), RescuedFields("t", 1, ()))
    )
    text = '{"s":{"records":3,"fields":["é","n.q"]},"t":{"records":1,"fields":[]}}'
    assert summary_of(rescuing)["lakesql.rescued"] == text
    assert newest_entry(history(summary_of(rescuing)), "orders", never) == rescuing


def test_the_newest_entry_of_a_given_checkpoint_is_found() -> None:
    other = summary_of(Entry("orders", "c-2", 0, "{}", "hash"))
    assert (
        newest_entry(history(other, summary_of(ENTRY)), "orders", never, "c-1") == ENTRY
    )
    assert newest_entry(history(other), "orders", never, "c-1") is None


def test_a_summary_omits_empty_fields_and_keeps_batch_zero() -> None:
    summary = summary_of(entry(0))
    assert summary["lakesql.batch"] == "0"
    assert "lakesql.state" not in summary and "lakesql.event-time" not in summary
    assert newest_entry(history(summary), "orders", never) == entry(0)


def test_the_newest_entry_of_whichever_model_is_found() -> None:
    assert newest_entry(
        history({}, {**summary_of(ENTRY), "lakesql.model": "other"}), None, never
    ) == replace(ENTRY, model="other")
    assert newest_entry(history({}), None, never) is None


def test_the_newest_entry_of_the_model_counts() -> None:
    snapshots = history(
        {"operation": "replace"},
        summary_of(entry(9, "other")),
        summary_of(entry(3)),
        summary_of(entry(4)),
    )
    assert newest_entry(snapshots, "orders", never) == entry(3)
    assert newest_entry(snapshots, "nobody", never) is None
    assert newest_entry([], "orders", never) is None


def test_the_walk_ends_at_the_entry() -> None:
    def endless() -> Iterator[Snapshot]:
        yield Snapshot(2, summary_of(entry(1)))
        raise AssertionError("the walk went on")

    assert newest_entry(endless(), "orders", never) == entry(1)


def test_a_snapshot_that_was_replayed_has_the_entry_of_its_source() -> None:
    staged = {5: Snapshot(5, summary_of(entry(2))), 6: Snapshot(6, {})}
    replayed = {"source-snapshot-id": "5", "published-wap-id": "c-1:2"}
    assert newest_entry(
        history(replayed, summary_of(entry(1))), "orders", staged.get
    ) == entry(2)
    foreign = {"source-snapshot-id": "6"}
    gone = {"source-snapshot-id": "7"}
    assert newest_entry(
        history(foreign, gone, summary_of(entry(1))), "orders", staged.get
    ) == entry(1)
    own = {**summary_of(entry(3)), "source-snapshot-id": "5"}
    assert newest_entry(history(own), "orders", never) == entry(3)


@each_of(
    ("summary", "rows"),
    [
        ({"added-records": "5"}, 5),
        ({}, 0),
        # a MERGE says what it has carried over
        ({"added-records": "240", "spark.merge-into.num-target-rows-copied": "0"}, 240),
        (
            {
                "added-records": "1000000",
                "deleted-data-files": "1",
                "deleted-records": "999990",
                "spark.merge-into.num-target-rows-copied": "999900",
            },
            100,
        ),
        # nobody says it: what the table has more
        (
            {
                "added-records": "1000000",
                "deleted-data-files": "1",
                "deleted-records": "999990",
            },
            10,
        ),
        (
            {
                "added-records": "90",
                "deleted-data-files": "1",
                "deleted-records": "100",
            },
            0,
        ),
    ],
)
def test_rows_that_a_commit_carries_over_are_not_written(
    summary: dict[str, str], rows: int
) -> None:
    assert rows_written(summary) == rows
