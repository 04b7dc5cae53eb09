"""What an update of a stored row sets, against a replay in plain Python that takes one
row after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, given, settings

from lakesql.events import BatchCommitted
from tests.spark.project import Project, Row, sorted_rows

KEYS = ("a", "b")


def replayed(
    rows: Iterable[Row],
    sequence: Sequence[str] = (),
    is_deleted: Callable[[Row], bool] = lambda row: False,
    kept: Sequence[str] = (),
    keeps_on_null: bool = False,
) -> list[Row]:
    """What stands after the rows, one by one in the order of arrival. An update leaves
    the columns `kept` alone.

    A row older than the stored one is passed over, and so is one older than the last
    delete of its key.
    """
    table: dict[tuple[Any, ...], Row] = {}
    deleted: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def age(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in sequence)

    for row in rows:
        key = tuple(row[name] for name in KEYS)
        stored = table.get(key)
        if (stored is not None and age(row) < age(stored)) or age(row) < deleted.get(
            key, ()
        ):
            continue
        if is_deleted(row):
            table.pop(key, None)
            deleted[key] = age(row)
        elif stored is None:
            table[key] = dict(row)
        else:
            changed = {
                name: v
                for name, v in row.items()
                if name not in kept and not (keeps_on_null and v is None)
            }
            table[key] = {**stored, **changed}
    return sorted_rows(table.values())


def is_gone(row: Row) -> bool:
    return bool(row["gone"])


COLUMNS = {
    "a": "int",
    "b": "string",
    "seq": "int",
    "sub": "int",
    "gone": "boolean",
    "v": "int",
    "w x": "string",
}
RECORDS = st.fixed_dictionaries(
    {
        "a": st.integers(0, 2),
        "b": st.sampled_from(["", "ü'"]),
        "seq": st.integers(0, 6),
        "sub": st.integers(0, 2),
        "gone": st.sampled_from([None, False, False, True]),
        "v": st.integers(0, 99) | st.none(),
        "w x": st.sampled_from(["p", "q", None, None]),
    }
)


@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(
    batches=st.lists(
        st.lists(RECORDS, min_size=10, max_size=40), min_size=3, max_size=3
    )
)
def test_any_cut_into_batches_gives_the_rows_of_a_replay_row_by_row(
    new_project: Callable[[], Project], batches: list[list[Row]]
) -> None:
    """The same records are read a file at a time and all at once."""
    project = new_project()
    project.stream("cut", COLUMNS, max_per_batch=1)
    project.stream("whole", COLUMNS)
    options: dict[str, dict[str, Any]] = {
        "sequenced": {
            "sequence_by": "seq",
            "delete_when": "gone",
            "ignore_null_updates": True,
        },
        "arrived": {"delete_when": "gone", "ignore_null_updates": True},
        "pairs": {"sequence_by": ["seq", "sub"], "ignore_null_updates": True},
        "some": {
            "sequence_by": "seq",
            "delete_when": "gone",
            "update_columns": ["SEQ", "v"],
        },
        "others": {"exclude_columns": ["V"]},
        "both": {
            "sequence_by": "seq",
            "delete_when": "gone",
            "exclude_columns": "v",
            "ignore_null_updates": True,
        },
        "none": {"update_columns": []},
    }
    for stream in ("cut", "whole"):
        for name, given_ in options.items():
            project.model(
                f"{name}_{stream}",
                f"SELECT * FROM {{{stream}}}",
                mode="upsert",
                keys=list(KEYS),
                **given_,
            )
        for batch in batches:
            project.record(stream, batch)

    project.run().check()

    rows = [row for batch in batches for row in batch]
    expected = {
        "sequenced": replayed(rows, ["seq"], is_gone, keeps_on_null=True),
        "arrived": replayed(rows, (), is_gone, keeps_on_null=True),
        "pairs": replayed(rows, ["seq", "sub"], keeps_on_null=True),
        "some": replayed(rows, ["seq"], is_gone, kept=["sub", "gone", "w x"]),
        "others": replayed(rows, kept=["v"]),
        "both": replayed(rows, ["seq"], is_gone, kept=["v"], keeps_on_null=True),
        "none": replayed(rows, kept=list(COLUMNS)),
    }
    for stream in ("cut", "whole"):
        assert {name: project.rows(f"{name}_{stream}") for name in options} == expected


def test_a_row_is_updated_where_when_matched_holds_and_deleted_where_it_does_not(
    project: Project,
) -> None:
    def row(id_: int, v: int | None, gone: bool = False) -> Row:
        return {"id": id_, "v": v, "gone": gone}

    project.stream("s", {"id": "int", "v": "int", "gone": "boolean"}, max_per_batch=1)
    project.model(
        "m",
        "SELECT * FROM {s}",
        mode="upsert",
        keys="id",
        delete_when="gone",
        when_matched="SOURCE.v > target.`v`",
    )
    project.record("s", [row(1, 5), row(2, 5), row(3, 5), row(4, 5), row(5, 5)])
    project.record(
        "s",
        [
            row(1, 4),  # stays
            row(2, 6),  # is updated
            row(3, 0, gone=True),  # goes
            row(4, 9, gone=True),  # goes, and comes back
            row(4, 1),
            row(5, None),  # neither holds nor does not
            row(6, 1),  # is new
        ],
    )

    ran = project.run().check()

    assert len(ran.of(BatchCommitted)) == 2
    assert {found["id"]: found["v"] for found in project.rows("m")} == {
        1: 5,
        2: 6,
        4: 1,
        5: 5,
        6: 1,
    }
