from __future__ import annotations

from decimal import Decimal

import pytest
from sqlglot import exp, parse_one

from lakesql.compile.batch import BOUNDS_PLACE, Bounded, KeyRange, Write
from lakesql.compile.quote import EpochDay, Instant
from lakesql.model.table_name import TableName
from lakesql.modes.batches.merge import merge_parts, newest_rows
from lakesql.modes.batches.upsert_batches import merge_of
from lakesql.modes.upsert import Upsert
from tests.cases import each_of

NAME = TableName("lake", "shop", "orders")


def merge_statement(
    table: TableName,
    config: Upsert,
    columns: tuple[str, ...] | None,
    bounds: tuple[KeyRange, ...] | None,
) -> str:
    return Write(
        "", Bounded(merge_parts(merge_of(table, config), columns), ("target",))
    ).text(bounds)


def test_the_newest_row_is_by_sequence_and_then_by_arrival() -> None:
    config = Upsert(
        keys=("id", "a b"), sequence_by=("at", "no"), delete_when="status = 'gone' OR x"
    )
    assert (
        newest_rows(merge_of(NAME, config), positioned=True)
        == """\
SELECT *
FROM (
  SELECT *,
    coalesce((status = 'gone' OR x), false) AS _lakesql_delete,
    row_number() OVER (PARTITION BY id, `a b` ORDER BY at DESC, no DESC, _lakesql_position DESC) AS _lakesql_rank
  FROM _lakesql_rows
  WHERE id IS NOT NULL AND `a b` IS NOT NULL AND at IS NOT NULL AND no IS NOT NULL
)
WHERE _lakesql_rank = 1"""
    )


@each_of(
    ("sequence", "positioned", "order"),
    [
        ((), True, "_lakesql_position DESC"),
        (("at",), True, "at DESC, _lakesql_position DESC"),
        (("at",), False, "at DESC"),
        ((), False, "id DESC"),
    ],
)
def test_rows_are_ordered_by_what_is_known(
    sequence: tuple[str, ...], positioned: bool, order: str
) -> None:
    found = newest_rows(
        merge_of(NAME, Upsert(keys=("id",), sequence_by=sequence)), positioned
    )
    assert f"ORDER BY {order})" in found
    assert "_lakesql_delete" not in found


def test_a_condition_is_pasted_as_it_is() -> None:
    condition = "a = '{b}' AND c = '%s {0}'"
    merge = merge_of(NAME, Upsert(keys=("id",), delete_when=condition))
    assert f"coalesce(({condition}), false)" in newest_rows(merge, True)


def test_a_merge_without_sequence_takes_what_arrives() -> None:
    assert (
        merge_statement(NAME, Upsert(keys=("id",)), ("id", "a b", "true"), None)
        == f"""\
MERGE INTO lake.shop.orders AS target
USING _lakesql_batch AS source
ON target.id = source.id
  AND {BOUNDS_PLACE}
WHEN MATCHED THEN UPDATE SET
  `a b` = source.`a b`,
  `true` = source.`true`
WHEN NOT MATCHED THEN INSERT (id, `a b`, `true`)
  VALUES (source.id, source.`a b`, source.`true`)"""
    )


def test_a_merge_with_sequence_and_deletes_leaves_newer_rows_alone() -> None:
    config = Upsert(keys=("id", "k"), sequence_by=("at",), delete_when="gone")
    assert (
        merge_statement(NAME, config, ("at", "id", "k"), ())
        == """\
MERGE INTO lake.shop.orders AS target
USING _lakesql_batch AS source
ON target.id = source.id
  AND target.k = source.k
  AND true
WHEN MATCHED AND source._lakesql_delete AND (target.at IS NULL OR source.at >= target.at) THEN DELETE
WHEN MATCHED AND (target.at IS NULL OR source.at >= target.at) THEN UPDATE SET
  at = source.at
WHEN NOT MATCHED AND NOT source._lakesql_delete THEN INSERT (at, id, k)
  VALUES (source.at, source.id, source.k)"""
    )


def test_several_sequence_columns_are_compared_as_one() -> None:
    merge = merge_statement(
        NAME, Upsert(keys=("id",), sequence_by=("at", "a b")), ("id", "at", "a b"), None
    )
    assert (
        "WHEN MATCHED AND struct(source.at, source.`a b`) >= struct(target.at, target.`a b`) THEN UPDATE"
        in merge
    )


@pytest.mark.parametrize("keys", [("id", "k"), ("ID", "K")])
def test_a_table_of_keys_alone_is_never_updated(keys: tuple[str, ...]) -> None:
    merge = merge_statement(NAME, Upsert(keys=keys), ("id", "k"), None)
    assert "UPDATE" not in merge and "WHEN NOT MATCHED THEN INSERT (id, k)" in merge


def test_keys_are_not_set_whatever_their_capitals() -> None:
    merge = merge_statement(NAME, Upsert(keys=("Order_ID",)), ("order_id", "a"), None)
    assert "UPDATE SET\n  a = source.a\nWHEN NOT" in merge


def test_columns_that_only_spark_knows_are_matched_by_name() -> None:
    merge = merge_statement(NAME, Upsert(keys=("id",), delete_when="gone"), None, None)
    assert merge.endswith(
        "WHEN MATCHED AND source._lakesql_delete THEN DELETE\nWHEN MATCHED THEN UPDATE SET *\n"
        "WHEN NOT MATCHED AND NOT source._lakesql_delete THEN INSERT *"
    )


@each_of(
    ("bounds", "written"),
    [
        ((), "true"),
        ((KeyRange("id", values=(1, 2**40)),), "target.id IN (1, 1099511627776L)"),
        ((KeyRange("id", low=-5, high=7),), "target.id BETWEEN -5 AND 7"),
        ((KeyRange("id", low=0, high=0),), "target.id BETWEEN 0 AND 0"),
        (
            (KeyRange("id", (1, 9), 1, 9),),
            "target.id BETWEEN 1 AND 9\n  AND target.id IN (1, 9)",
        ),
        ((KeyRange("k", values=("",)),), "target.k IN ('')"),
        ((KeyRange("k", has_null=True),), "target.k IS NULL"),
        (
            (KeyRange("k", low=1, high=2, has_null=True),),
            "(target.k BETWEEN 1 AND 2 OR target.k IS NULL)",
        ),
        ((KeyRange("a b", values=("it's", "x ")),), r"target.`a b` IN ('it\'s', 'x ')"),
        (
            (KeyRange("d", low=Decimal("-1.50"), high=Decimal("2E+2")),),
            "target.d BETWEEN -1.50BD AND 200BD",
        ),
        (
            (
                KeyRange("t", low=Instant(-1), high=Instant(1)),
                KeyRange("d", values=(EpochDay(0),)),
            ),
            "target.t BETWEEN timestamp_micros(-1) AND timestamp_micros(1)\n  AND target.d IN (date_from_unix_date(0))",
        ),
    ],
)
def test_bounds_narrow_the_target(bounds: tuple[KeyRange, ...], written: str) -> None:
    merge = merge_statement(NAME, Upsert(keys=("id",)), ("id", "a"), bounds)
    assert f"ON target.id = source.id\n  AND {written}\nWHEN" in merge
    assert isinstance(parse_one(merge, dialect="spark"), exp.Merge)


def test_a_merge_that_updates_nothing_only_inserts() -> None:
    for columns, options, expected in (
        (("ID",), {}, True),
        (("id", "n"), {}, False),
        (("id",), {"delete_when": "id > 1"}, False),
        (("id", "n"), {"update_columns": ()}, True),
        (("id", "n"), {"update_columns": ("elsewhere",)}, True),
        (("id", "N"), {"update_columns": ("n",)}, False),
        (("id", "N"), {"exclude_columns": ("n",)}, True),
        (("id", "n"), {"exclude_columns": ("n",), "delete_when": "id > 1"}, False),
        (("id", "n"), {"ignore_null_updates": True}, False),
        (("id",), {"ignore_null_updates": True, "when_matched": "source.id = 1"}, True),
    ):
        config = Upsert(keys=("id",), **options)  # type: ignore[arg-type]
        assert (
            "WHEN MATCHED" not in merge_statement(NAME, config, columns, ())
        ) is expected


def test_updates_of_all_columns_need_no_more_than_the_newest_row() -> None:
    plain = newest_rows(merge_of(NAME, Upsert(keys=("id",), sequence_by=("at",))), True)
    for config in (
        Upsert(keys=("id",), sequence_by=("at",), update_columns=("AT", "a")),
        Upsert(keys=("id",), sequence_by=("at",), exclude_columns=("id",)),
        Upsert(keys=("id",), sequence_by=("at",), when_matched="source.a = 1"),
    ):
        assert newest_rows(merge_of(NAME, config), True, ("id", "at", "a")) == plain


def test_names_with_braces_and_blanks_stay_as_they_are() -> None:
    config = Upsert(
        keys=("{0}",),
        sequence_by=("{at}",),
        ignore_null_updates=True,
        exclude_columns=("a b",),
    )
    columns = ("{0}", "{at}", "a b", "{v}")
    found = newest_rows(merge_of(NAME, config), True, columns)
    assert "PARTITION BY `{0}` ORDER BY `{at}` DESC, _lakesql_position DESC" in found
    assert "max_by(struct(`a b`), _lakesql_rank)" in found
    assert "struct(`{v}` AS value, struct(`{at}`) AS at)" in found
    assert (
        "source._lakesql_first.`a b`, source._lakesql_last.`{v}`.value)"
        in merge_statement(NAME, config, columns, ())
    )


def test_rows_without_a_position_are_never_outdated() -> None:
    config = Upsert(keys=("id",), sequence_by=("at",), exclude_columns=("a",))
    assert "_lakesql_outdated" not in newest_rows(
        merge_of(NAME, config), False, ("id", "at", "a")
    )
    assert "_lakesql_outdated" in newest_rows(
        merge_of(NAME, config), True, ("id", "at", "a")
    )


def test_a_null_leaves_the_stored_value_where_nothing_orders_rows() -> None:
    config = Upsert(keys=("id",), ignore_null_updates=True)
    merge = merge_statement(NAME, config, ("id", "a b"), ())
    assert "`a b` = coalesce(source._lakesql_last.`a b`.value, target.`a b`)" in merge


def test_when_matched_bounds_updates_and_nothing_else() -> None:
    config = Upsert(
        keys=("id",), delete_when="gone", when_matched="source.a > 1 OR target.a = 1"
    )
    merge = merge_statement(NAME, config, ("id", "a"), ())
    assert "WHEN MATCHED AND source._lakesql_delete THEN DELETE" in merge
    assert "WHEN MATCHED AND source._lakesql_deleted THEN UPDATE SET" in merge
    assert "WHEN MATCHED AND (source.a > 1 OR target.a = 1) THEN UPDATE SET" in merge
    assert "WHEN NOT MATCHED AND NOT source._lakesql_delete THEN INSERT" in merge
    assert isinstance(parse_one(merge, dialect="spark"), exp.Merge)
