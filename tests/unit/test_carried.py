"""The ledger entries that a table carries in a property, where its catalog shows the
newest snapshot alone."""

from __future__ import annotations

import json
from typing import Any

from lakesql.ledger.carried import carried_facts, carried_in, carry
from lakesql.ledger.entry import Entry, newest_entry, summary_of
from lakesql.names import CARRIED_PROPERTY
from tests.cases import each_of

NESSIE = {"nessie.commit.id": "c", "gc.enabled": "false"}


def facts(sequence: int, model: str, batch: int) -> dict[str, Any]:
    summary = {"operation": "append", "added-records": "3"} | summary_of(
        Entry(model, "c", batch, "{}", "q")
    )
    return {
        "snapshot-id": 100 + sequence,
        "sequence-number": sequence,
        "timestamp-ms": sequence,
        "manifest-list": "s3://lake/list.avro",
        "summary": summary,
    }


def carrying(*commits: dict[str, Any]) -> dict[str, str]:
    properties = dict(NESSIE)
    for commit in commits:
        properties |= carry(properties, commit)
    return properties


def test_the_newest_entry_of_each_model_is_carried() -> None:
    properties = carrying(facts(1, "a", 0), facts(2, "b", 7), facts(3, "a", 1))
    found = list(carried_facts(properties, 9))
    assert [each["snapshot-id"] for each in found] == [103, 102]
    assert all(
        set(each) == {"snapshot-id", "sequence-number", "timestamp-ms", "summary"}
        for each in found
    )


def test_nothing_is_carried_where_all_snapshots_are_shown() -> None:
    assert carry({"write.format.default": "parquet"}, facts(1, "a", 0)) == {}
    assert (
        carry(
            NESSIE,
            {"snapshot-id": 1, "timestamp-ms": 1, "summary": {"operation": "replace"}},
        )
        == {}
    )


def test_a_snapshot_behind_which_the_table_was_rolled_back_is_not_believed() -> None:
    properties = carrying(facts(1, "a", 0), facts(2, "b", 0), facts(5, "a", 1))
    assert [each["sequence-number"] for each in carried_facts(properties, 4)] == [2]


@each_of(
    "text",
    ["", "{", "[]", '{"a": 1}', '{"a": {"snapshot-id": "x"}}', "null", '{"a": {}}'],
)
def test_a_property_that_is_none_of_lakesqls_says_nothing(text: str) -> None:
    assert list(carried_facts({**NESSIE, CARRIED_PROPERTY: text}, 9)) == []


def test_metadata_says_the_entry_that_its_head_hides() -> None:
    head = {
        "snapshot-id": 200,
        "sequence-number": 4,
        "summary": {"operation": "replace"},
    }
    metadata = {
        "current-snapshot-id": 200,
        "snapshots": [head],
        "properties": carrying(facts(3, "a", 5)),
    }
    entry = newest_entry(
        carried_in(json.loads(json.dumps(metadata))), "a", lambda _: None
    )
    assert entry is not None
    assert (entry.checkpoint, entry.batch) == ("c", 5)
    assert carried_in({**metadata, "current-snapshot-id": None}) == ()
