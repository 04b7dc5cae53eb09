from __future__ import annotations

from typing import Any

import pytest

from lakesql.decode import Node
from lakesql.errors import ProjectError
from lakesql.model.config import (
    AvailableNow,
    Every,
    MaintenanceConfig,
    PartitionField,
    SortField,
    TableConfig,
)
from lakesql.modes.append import Append
from lakesql.modes.read_config import (
    check_defaults,
    folder_defaults,
    merge_config,
    read_config,
)
from lakesql.modes.upsert import Upsert
from lakesql.project.settings import parse_settings
from lakesql.template.template import Macros, parse_template
from tests.cases import each_of

NO_DEFAULTS = Node({}, parse_settings("p", "[tool.lakesql]\nname = 'x'").models.place)


def call(options: str) -> Node:
    """What a model's `config(…)` says: the first option stands in column 11."""
    return parse_template(
        "m.sql", f"{{{{ config({options}) }}}} SELECT 1", Macros()
    ).config


def settings(text: str) -> Node:
    """`[tool.lakesql.models]`, whose first option stands in line 4."""
    return parse_settings(
        "pyproject.toml",
        f"[tool.lakesql]\nname = 'shop'\n[tool.lakesql.models]\n{text}",
    ).models


def read(options: str, defaults: Node = NO_DEFAULTS) -> TableConfig | MaintenanceConfig:
    return read_config(call(options), defaults)


def problems(options: str, defaults: Node = NO_DEFAULTS) -> list[tuple[str, str]]:
    with pytest.raises(ProjectError) as caught:
        read(options, defaults)
    return [
        (problem.condition, str(problem.place)) for problem in caught.value.problems
    ]


def test_a_mode_is_enough_for_append_and_keys_for_upsert() -> None:
    assert read("mode='append'") == Append()
    assert read("mode='upsert', keys='id'") == Upsert(keys=("id",))
    assert read("mode='upsert', keys=('a', 'b')") == Upsert(keys=("a", "b"))
    assert (Append.mode, Upsert.mode) == ("append", "upsert")


@each_of(
    ("said", "small_files"),
    [
        ("", 16),
        (", maintenance={}", 16),
        (", maintenance=True", 16),
        (", maintenance={'rewrite_data_files': True}", 16),
        (", maintenance={'rewrite_data_files': {'delete_files': 9}}", 16),
        (", maintenance={'rewrite_data_files': {'small_files': 32}}", 32),
        (", maintenance={'rewrite_data_files': False}", None),
        (", maintenance=False", None),
    ],
)
def test_fewer_small_files_make_a_rewrite_due_where_rows_are_changed(
    said: str, small_files: int | None
) -> None:
    rewrite = read(f"mode='upsert', keys='id'{said}").maintenance.rewrite_data_files
    assert (rewrite.small_files if rewrite else None) == small_files
    appended = read(f"mode='append'{said}").maintenance.rewrite_data_files
    assert (appended.small_files if appended else None) == (small_files and 32)


def test_every_option_of_a_model_is_read() -> None:
    options = """
        mode='upsert', keys=['id', 'größe'], sequence_by='at', delete_when="status = 'gone'",
        trigger='1 hour 30 minutes', namespace='other', table='t', partition_by=['days(at)', 'bucket(16, `order id`)'],
        order_by='at desc',
        properties={'a': 1, 'b': True, 'c': 'x', 'd': 1.5}, on_schema_change='fail', max_dead_letter_ratio=0,
        tags='one', meta={'owner': {'mail': ['a@b.c']}}
    """
    assert read(options) == Upsert(
        keys=("id", "größe"),
        sequence_by=("at",),
        delete_when="status = 'gone'",
        trigger=Every("1 hour 30 minutes", 5_400_000),
        namespace="other",
        table="t",
        partition_by=(
            PartitionField("days", "at"),
            PartitionField("bucket", "order id", 16),
        ),
        order_by=(SortField("at", descending=True, nulls_first=False),),
        properties={"a": "1", "b": "true", "c": "x", "d": "1.5"},
        on_schema_change="fail",
        max_dead_letter_ratio=0.0,
        tags=("one",),
        meta={"owner": {"mail": ["a@b.c"]}},
    )
    assert read("mode='append', trigger='available_now'").trigger == AvailableNow()


@each_of(
    ("text", "field"),
    [
        ("at", PartitionField("identity", "at")),
        (" at ", PartitionField("identity", "at")),
        ("`a b`", PartitionField("identity", "a b")),
        ("größe", PartitionField("identity", "größe")),
        ("identity(a)", PartitionField("identity", "a")),
        ("years(a)", PartitionField("years", "a")),
        ("MONTHS( a )", PartitionField("months", "a")),
        ("days (`a b`)", PartitionField("days", "a b")),
        ("hours(`a, (b)`)", PartitionField("hours", "a, (b)")),
        ("bucket(16,a)", PartitionField("bucket", "a", 16)),
        ("truncate( 4 , `it's` )", PartitionField("truncate", "it's", 4)),
        ("days(s.t)", PartitionField("days", "s.t")),
        ("bucket(2, `a b`.`c d`)", PartitionField("bucket", "a b.c d", 2)),
        ("s.inner.k", PartitionField("identity", "s.inner.k")),
    ],
)
def test_partitions_are_transforms_of_columns(text: str, field: PartitionField) -> None:
    assert read(f"mode='append', partition_by=[{text!r}]").partition_by == (field,)


@each_of(
    "value",
    [
        *(
            "''",
            "'a b'",
            "'days(a'",
            "'a)'",
            "'days()'",
            "'day(a)'",
            "'days(a, b)'",
            "'days(2, a)'",
            "'bucket(a)'",
        ),
        *(
            "'bucket(0, a)'",
            "'bucket(16)'",
            "'bucket(-1, a)'",
            "'bucket(9999999999, a)'",
            "'void(a)'",
        ),
        *(
            "'days(days(a))'",
            "'a; DROP TABLE x'",
            "'``'",
            "'a`b'",
            "'days(s.)'",
            "'days(.t)'",
            "'days(s..t)'",
            "3",
            "none",
            "['a']",
            "{'days': 'a'}",
        ),
    ],
)
def test_a_text_that_is_no_partition_transform_is_refused(value: str) -> None:
    assert problems(f"partition_by=['a', {value}], mode='append'") == [
        ("bad-partition", "m.sql:1:30")
    ]


@each_of(
    ("text", "field"),
    [
        ("a", SortField("a", False, True)),
        ("a asc", SortField("a", False, True)),
        ("a  DESC", SortField("a", True, False)),
        ("`a b` desc nulls first", SortField("a b", True, True)),
        ("a nulls last", SortField("a", False, False)),
        ("a ASC  NULLS  LAST", SortField("a", False, False)),
    ],
)
def test_an_order_is_columns_with_directions(text: str, field: SortField) -> None:
    assert read(f"mode='append', order_by={text!r}").order_by == (field,)


@each_of(
    "value",
    ["''", "'a b'", "'a down'", "'a nulls'", "'days(a)'", "'a, b'", "3", "none", "{}"],
)
def test_a_text_that_is_no_sort_order_is_refused(value: str) -> None:
    assert problems(f"order_by=[{value}], mode='append'") == [
        ("bad-order", "m.sql:1:21")
    ]


@each_of(
    ("options", "condition", "column"),
    [
        ("modes='append'", "missing-option", 4),
        ("mode='apend'", "unknown-mode", 16),
        ("mode=3", "unknown-mode", 16),
        ("mode=['append']", "unknown-mode", 16),
        ("mode=none", "unknown-mode", 16),
        ("keyz=['a'], mode='append'", "unknown-option", 11),
        ("delete_when='a', mode='append'", "unknown-option", 11),
        ("mode='upsert'", "missing-option", 4),
        ("keys=[], mode='upsert'", "wrong-value", 16),
        ("keys=[''], mode='upsert'", "wrong-type", 17),
        ("keys=['a', 3], mode='upsert'", "wrong-type", 22),
        ("keys=none, mode='upsert'", "wrong-type", 16),
        ("keys={'a': 1}, mode='upsert'", "wrong-type", 16),
        ("keys=['a', 'b', 'A'], mode='upsert'", "duplicate-key", 27),
        ("sequence_by=['at', 'n', 'AT'], keys='a', mode='upsert'", "duplicate-key", 35),
        ("sequence_by=['at', 'AT'], keys='a', mode='cdc'", "duplicate-key", 30),
        ("sequence_by=['at', 'AT'], keys='a', mode='scd2'", "duplicate-key", 30),
        ("sequence_by=[], keys='a', mode='scd2'", "wrong-value", 23),
        ("trigger='sometimes', mode='append'", "bad-trigger", 19),
        ("trigger='1 month', mode='append'", "bad-trigger", 19),
        ("trigger=30, mode='append'", "bad-trigger", 19),
        ("trigger=none, mode='append'", "bad-trigger", 19),
        ("namespace='a.b', mode='append'", "bad-name", 21),
        ("namespace=['a'], mode='append'", "bad-name", 21),
        ("table='', mode='append'", "bad-name", 17),
        ("table='_lakesql_x', mode='append'", "bad-name", 17),
        ("properties=['a'], mode='append'", "wrong-type", 22),
        ("properties={'a': [1]}, mode='append'", "wrong-type", 28),
        ("properties={'a': none}, mode='append'", "wrong-type", 28),
        ("properties={'format-version': 'v3'}, mode='append'", "wrong-value", 41),
        ("properties={'format-version': 3.0}, mode='append'", "wrong-value", 41),
        (
            "properties={'format-version': 1}, keys='a', mode='upsert'",
            "wrong-value",
            41,
        ),
        ("properties={'format-version': '4'}, mode='append'", "wrong-value", 41),
        ("on_schema_change='sync', mode='append'", "wrong-value", 28),
        ("max_dead_letter_ratio=1.5, mode='append'", "wrong-value", 33),
        ("max_dead_letter_ratio=-0.1, mode='append'", "wrong-value", 33),
        ("max_dead_letter_ratio=true, mode='append'", "wrong-value", 33),
        ("max_dead_letter_ratio='5%', mode='append'", "wrong-value", 33),
        ("fence='commit', mode='append'", "removed-option", 11),
        ("tags=['a', 1], mode='append'", "wrong-type", 22),
        ("meta='x', mode='append'", "wrong-type", 16),
        ("delete_when=['a'], keys='a', mode='upsert'", "wrong-type", 23),
        ("sequence_by=3, keys='a', mode='upsert'", "wrong-type", 23),
    ],
)
def test_each_mistake_has_a_condition_and_a_place(
    options: str, condition: str, column: int
) -> None:
    found = problems(options)
    assert found == [(condition, f"m.sql:1:{column}")]


def test_all_problems_of_a_config_call_are_reported_together() -> None:
    assert problems(
        "mode='upsert', partition_by=['x(', 'y('], properties={'a': [], 'b': {}}, nope=1"
    ) == [
        ("unknown-option", "m.sql:1:84"),
        ("bad-partition", "m.sql:1:40"),
        ("bad-partition", "m.sql:1:46"),
        ("wrong-type", "m.sql:1:70"),
        ("wrong-type", "m.sql:1:79"),
        ("missing-option", "m.sql:1:4"),
    ]


DEFAULTS = """\
mode = "append"
tags = "all"
meta = {owner = "us", team = "a"}
[tool.lakesql.models.staging]
trigger = "1 minute"
tags = ["staging", "raw"]
keys = ["id"]
properties = {a = 1, b = "x"}
[tool.lakesql.models.staging.orders]
mode = "upsert"
tags = "orders"
meta.team = "b"
[tool.lakesql.models.staging.deep.staging]
trigger = "2 minutes"
[tool.lakesql.models.table]
table = "t"
"""


@each_of(
    ("fqn", "options"),
    [
        (
            ("shop", "clicks"),
            {"mode": "append", "tags": "all", "meta": {"owner": "us", "team": "a"}},
        ),
        (
            ("shop", "staging", "orders"),
            {
                "mode": "upsert",
                "tags": ["all", "staging", "raw", "orders"],
                "meta": {"owner": "us", "team": "b"},
                "trigger": "1 minute",
                "keys": ["id"],
                "properties": {"a": 1, "b": "x"},
            },
        ),
        (
            ("shop", "staging", "deep", "staging", "x"),
            {
                "mode": "append",
                "tags": ["all", "staging", "raw"],
                "meta": {"owner": "us", "team": "a"},
                "trigger": "2 minutes",
                "keys": ["id"],
                "properties": {"a": 1, "b": "x"},
            },
        ),
        (
            ("shop", "table", "x"),
            {
                "mode": "append",
                "tags": "all",
                "meta": {"owner": "us", "team": "a"},
                "table": "t",
            },
        ),
        (
            ("shop", "meta", "x"),
            {"mode": "append", "tags": "all", "meta": {"owner": "us", "team": "a"}},
        ),
    ],
)
def test_defaults_come_from_the_outer_folder_to_the_model(
    fqn: tuple[str, ...], options: dict[str, Any]
) -> None:
    assert folder_defaults(settings(DEFAULTS), fqn).plain() == options


def test_options_of_a_model_override_those_of_its_folders() -> None:
    defaults = folder_defaults(settings(DEFAULTS), ("shop", "staging", "clicks"))
    found = read(
        "trigger='5 minutes', tags=['own'], properties={'b': 'y'}, meta={'owner': 'me'}",
        defaults,
    )
    assert found == Append(
        trigger=Every("5 minutes", 300_000),
        tags=("all", "staging", "raw", "own"),
        properties={"a": "1", "b": "y"},
        meta={"owner": "me", "team": "a"},
    )


def test_an_option_of_another_mode_is_ignored_in_defaults_and_refused_in_a_model() -> (
    None
):
    defaults = settings("keys = ['id']\ndelete_when = 'gone'\n")
    assert read("mode='append'", defaults) == Append()
    assert read("mode='upsert'", defaults) == Upsert(keys=("id",), delete_when="gone")
    assert problems("mode='append', delete_when='id'", defaults) == [
        ("unknown-option", "m.sql:1:26")
    ]
    assert read("mode='append', keys='id'", defaults) == Append(keys=("id",))


def test_a_wrong_default_is_placed_where_it_stands() -> None:
    defaults = settings(
        "trigger = 'never'\nproperties = {a = []}\nmode = 'append'\ntags = 3\n"
    )
    assert problems("max_dead_letter_ratio=2", defaults) == [
        ("bad-trigger", "pyproject.toml:4:11"),
        ("wrong-type", "pyproject.toml:5:14"),
        ("wrong-value", "m.sql:1:33"),
        ("wrong-type", "pyproject.toml:7:8"),
    ]
    assert problems(
        "mode='append', properties={'b': {}}", settings("properties = {a = []}")
    ) == [
        ("wrong-type", "pyproject.toml:4:14"),
        ("wrong-type", "m.sql:1:43"),
    ]


def test_every_default_that_no_mode_has_is_refused() -> None:
    check_defaults(settings(DEFAULTS))
    with pytest.raises(ProjectError) as caught:
        check_defaults(
            settings(
                "trigr = 'x'\n[tool.lakesql.models.a.b]\nkeyz = 'x'\ntags = 'y'\nowner = 'z'\n"
            )
        )
    assert [
        (problem.condition, str(problem.place)) for problem in caught.value.problems
    ] == [
        ("unknown-option", "pyproject.toml:4:1"),
        ("unknown-option", "pyproject.toml:6:1"),
        ("unknown-option", "pyproject.toml:8:1"),
    ]


@pytest.mark.parametrize("text", ["meta = 3", "properties = ['a']"])
def test_meta_and_properties_that_are_no_mapping_are_refused(text: str) -> None:
    with pytest.raises(ProjectError) as caught:
        merge_config(settings(text), call("meta={}, properties={}"))
    assert [problem.condition for problem in caught.value.problems] == ["wrong-type"]
