"""A table's state and a model's spec in, steps and their SQL out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from lakesql.compile.table import DEFAULT_PROPERTIES, MARKS, TableColumn, TableSpec
from lakesql.errors import Problem, RunError
from lakesql.model.config import PartitionField, SchemaChange, SortField
from lakesql.model.table_name import TableName
from lakesql.model.writing import Versions
from lakesql.plan.steps import (
    Step,
    add_columns,
    adopt_table,
    change_partitions,
    create_namespace,
    create_table,
    drop_column,
    plan_table,
    replace_table,
    set_order,
    set_properties,
    widen_column,
)
from lakesql.table.table_state import StateColumn, TableState
from tests.cases import each_of

ORDERS = TableName("lake", "shop", "orders")
SPEC = TableSpec(
    ORDERS, (TableColumn("order_id", "bigint"), TableColumn("amount", "decimal(12,2)"))
)
STATE = TableState(
    name=ORDERS,
    columns=(StateColumn("order_id", "bigint"), StateColumn("amount", "decimal(12,2)")),
    partition_by=(),
    order_by=(),
    properties=DEFAULT_PROPERTIES,
    ledger_models=frozenset({"orders"}),
)
POLICIES: tuple[SchemaChange, ...] = (
    "ignore",
    "fail",
    "append_new_columns",
    "sync_all_columns",
)
EVOLVING: tuple[SchemaChange, ...] = ("append_new_columns", "sync_all_columns")


def plan(
    spec: TableSpec = SPEC,
    state: TableState | None = STATE,
    policy: SchemaChange = "append_new_columns",
    read: Mapping[str, tuple[str, ...]] = {},
) -> tuple[Step, ...]:
    return plan_table("orders", spec, policy, state, frozenset({"shop"}), read)


def problems(
    spec: TableSpec,
    state: TableState,
    policy: SchemaChange,
    read: Mapping[str, tuple[str, ...]] = {},
) -> tuple[Problem, ...]:
    with pytest.raises(RunError) as caught:
        plan(spec, state, policy, read)
    return caught.value.problems


def conditions(spec: TableSpec, state: TableState, policy: SchemaChange) -> list[str]:
    return [problem.condition for problem in problems(spec, state, policy)]


def with_columns(**types: str) -> TableSpec:
    return replace(
        SPEC, columns=tuple(TableColumn(name, kind) for name, kind in types.items())
    )


def having(*columns: StateColumn) -> TableState:
    return replace(STATE, columns=columns)


def test_a_table_that_is_not_there_is_created() -> None:
    assert plan(state=None) == (create_table(SPEC),)


@each_of("policy", POLICIES)
def test_a_table_in_which_no_row_ever_stood_follows_its_model(
    policy: SchemaChange,
) -> None:
    spec = replace(
        with_columns(order_id="string", day="date"),
        partition_by=(PartitionField("identity", "day"),),
    )
    unwritten = replace(STATE, ledger_models=frozenset(), is_unwritten=True)
    assert plan(spec, unwritten, policy) == (replace_table(spec),)
    assert plan(SPEC, unwritten, policy) == ()
    theirs = replace(unwritten, properties={"format-version": "2"})
    with pytest.raises(RunError):
        plan(with_columns(order_id="date"), theirs, policy)


def test_a_namespace_that_is_not_there_is_created_first() -> None:
    assert plan_table("orders", SPEC, "fail", None, frozenset({"other"}), {}) == (
        create_namespace(ORDERS),
        create_table(SPEC),
    )


@each_of("policy", POLICIES)
def test_a_table_that_fits_needs_nothing(policy: SchemaChange) -> None:
    assert plan(policy=policy) == ()


@each_of("policy", POLICIES)
def test_case_and_spelling_are_no_difference(policy: SchemaChange) -> None:
    assert (
        plan(with_columns(ORDER_ID="LONG", Amount="Decimal(12, 2)"), policy=policy)
        == ()
    )


@each_of("policy", POLICIES)
@each_of(
    ("wide", "narrow"),
    [
        ("bigint", "int"),
        ("double", "float"),
        ("decimal(12,2)", "decimal(9,2)"),
        ("struct<a:int>", "void"),
    ],
)
def test_a_column_that_holds_more_fits(
    policy: SchemaChange, wide: str, narrow: str
) -> None:
    assert plan(with_columns(c=narrow), having(StateColumn("c", wide)), policy) == ()


@pytest.mark.parametrize(
    ("kind", "version", "stored"),
    [("void", "2", False), ("void", "3", True), ("variant", "3", False)],
)
def test_a_type_that_the_format_version_lacks_is_refused(
    kind: str, version: str, stored: bool
) -> None:
    spec = with_columns(order_id="bigint", amount="decimal(12,2)", more=kind)
    spec = replace(spec, properties={**DEFAULT_PROPERTIES, "format-version": version})
    for state in (None, STATE):
        if not stored:
            with pytest.raises(RunError) as caught:
                plan(spec, state)
            assert [problem.condition for problem in caught.value.problems] == [
                "unstorable-type"
            ]
        else:
            assert plan(spec, state)
    assert plan(spec, replace(STATE, properties=spec.properties), "ignore") == ()


class TestColumns:
    grown = with_columns(
        order_id="bigint", amount="decimal(12,2)", note="string", city="string"
    )
    shrunk = with_columns(order_id="bigint")

    @pytest.mark.parametrize("policy", EVOLVING)
    def test_new_ones_are_added_in_one_step(self, policy: SchemaChange) -> None:
        assert plan(self.grown, policy=policy) == (
            add_columns(ORDERS, self.grown.columns[2:]),
        )

    def test_new_ones_are_ignored(self) -> None:
        assert plan(self.grown, policy="ignore") == ()

    @pytest.mark.parametrize("policy", ["ignore", "append_new_columns"])
    def test_missing_columns_are_kept_unless_synchronized(
        self, policy: SchemaChange
    ) -> None:
        assert plan(self.shrunk, policy=policy) == ()

    def test_new_columns_that_an_option_names_are_refused_under_ignore(self) -> None:
        ordered = replace(
            self.grown, order_by=(SortField("NOTE"), SortField("order_id"))
        )
        read = {"keys": ("city",), "sequence_by": ("City", "order_id")}
        for spec, said in [
            (replace(self.grown, order_by=(SortField("city"),)), [("city", "keys")]),
            (ordered, [("city", "keys"), ("note", "order_by")]),
        ]:
            found = problems(spec, STATE, "ignore", read)
            assert [problem.condition for problem in found] == ["schema-change"] * len(
                said
            )
            assert all(
                f"'{name}', which {option} " in found[at].what
                for at, (name, option) in enumerate(said)
            )
            assert plan(spec, read=read)

    def test_missing_columns_are_dropped_under_sync(self) -> None:
        assert plan(self.shrunk, policy="sync_all_columns") == (
            drop_column(ORDERS, "amount"),
        )

    @pytest.mark.parametrize(
        "spec",
        [grown, shrunk, with_columns(order_id="string", amount="decimal(14,2)")],
        ids=["new", "lost", "types"],
    )
    def test_any_difference_fails_under_fail(self, spec: TableSpec) -> None:
        assert conditions(spec, STATE, "fail") == ["schema-change"]

    def test_the_failure_names_every_difference(self) -> None:
        with pytest.raises(RunError) as caught:
            plan(with_columns(order_id="string", note="date"), policy="fail")
        (problem,) = caught.value.problems
        assert all(
            name in problem.what
            for name in ("order_id", "note", "amount", "string", "bigint", "date")
        )

    @pytest.mark.parametrize(
        "policy", ["ignore", "append_new_columns", "sync_all_columns"]
    )
    def test_a_missing_required_column_is_refused(self, policy: SchemaChange) -> None:
        state = having(
            StateColumn("order_id", "bigint"),
            StateColumn("amount", "decimal(12,2)", required=True),
        )
        assert conditions(self.shrunk, state, policy) == ["column-required"]

    def test_a_missing_column_that_partitions_is_refused(self) -> None:
        by_partition = replace(
            STATE, partition_by=(PartitionField("bucket", "AMOUNT", 4),)
        )
        assert conditions(self.shrunk, by_partition, "sync_all_columns") == [
            "column-required"
        ]

    def test_a_missing_column_that_orders_or_has_partitioned_the_table_is_kept(
        self,
    ) -> None:
        by_order = replace(STATE, order_by=(SortField("amount"),))
        once = replace(STATE, was_partitioned_by=("AMOUNT",))
        now = replace(STATE, partition_by=(PartitionField("identity", "amount"),))
        elsewhere = replace(
            self.shrunk, partition_by=(PartitionField("bucket", "order_id", 2),)
        )
        for spec, state in (
            (self.shrunk, by_order),
            (self.shrunk, once),
            (elsewhere, now),
        ):
            steps = plan(spec, state, "sync_all_columns")
            assert [
                statement
                for step in steps
                for statement in step.statements
                if "DROP COLUMN" in statement
            ] == []
            assert steps[-1].text.startswith("keep column amount")
        assert plan(self.shrunk, by_order) == ()

    def test_a_missing_column_is_dropped_after_the_sort_order_changes(self) -> None:
        spec = replace(self.shrunk, order_by=(SortField("order_id"),))
        assert plan(
            spec, replace(STATE, order_by=(SortField("amount"),)), "sync_all_columns"
        ) == (
            set_order(ORDERS, (SortField("order_id"),)),
            drop_column(ORDERS, "amount"),
        )


def test_a_new_partition_field_is_spelled_as_the_table_has_it() -> None:
    columns = {
        "Doc": "struct<At: timestamp, Inner: struct<No: bigint>>",
        "id": "bigint",
    }
    stored = [
        StateColumn("Doc", "struct<At: timestamp, Inner: struct<No: bigint>>"),
        StateColumn("id", "bigint"),
    ]
    wanted = (
        PartitionField("days", "doc.AT"),
        PartitionField("bucket", "DOC.inner.no", 4),
    )
    spelled = (
        PartitionField("days", "Doc.At"),
        PartitionField("bucket", "Doc.Inner.No", 4),
    )
    steps = plan(replace(with_columns(**columns), partition_by=wanted), having(*stored))
    assert steps == (change_partitions(ORDERS, (), spelled),)
    there = replace(having(*stored), partition_by=spelled)
    assert plan(replace(with_columns(**columns), partition_by=wanted), there) == ()


@each_of("policy", EVOLVING)
@each_of(
    ("stored", "made", "lost"),
    [
        ("struct<a: int, b: int>", "struct<a: int>", ["c.b"]),
        ("struct<A: int, b: int>", "struct<a: int, n: int>", ["c.b"]),
        (
            "array<struct<a: int, b: struct<x: int, y: int>>>",
            "array<struct<b: struct<y: int>>>",
            ["c.element.a", "c.element.b.x"],
        ),
        (
            "map<string, struct<a: int, b: int>>",
            "map<string, struct<b: int>>",
            ["c.value.a"],
        ),
    ],
)
def test_a_field_that_is_gone_from_a_struct_is_named(
    policy: SchemaChange, stored: str, made: str, lost: list[str]
) -> None:
    (problem,) = problems(
        with_columns(c=made), having(StateColumn("c", stored)), policy
    )
    assert problem.condition == "type-change"
    assert all(f"'{path}'" in problem.what for path in lost)
    assert "CAST" not in problem.fix, "Spark casts no struct to one of more fields"


class TestTypes:
    @each_of("policy", EVOLVING)
    @each_of(
        ("old", "new"),
        [("int", "bigint"), ("float", "double"), ("decimal(9,2)", "decimal(12,2)")],
    )
    def test_widenings_that_iceberg_knows_are_done(
        self, policy: SchemaChange, old: str, new: str
    ) -> None:
        state = having(StateColumn("C", old))
        assert plan(with_columns(c=new), state, policy) == (
            widen_column(ORDERS, "C", old, new),
        )
        (problem,) = problems(with_columns(c=new), state, "ignore")
        assert problem.condition == "type-change"
        assert f"CAST(C AS {old})" in problem.fix

    @pytest.mark.parametrize("policy", EVOLVING)
    def test_nested_fields_are_added_and_widened_where_they_stand(
        self, policy: SchemaChange
    ) -> None:
        state = having(
            StateColumn(
                "c", "struct<a:int,`x y`:array<struct<n:int>>,m:map<string,float>>"
            )
        )
        new = "struct<new:string,a:bigint,`x y`:array<struct<n:int,more:date>>,m:map<string,double>>"
        steps = plan(with_columns(c=new), state, policy)
        assert [step.statements for step in steps] == [
            ("ALTER TABLE lake.shop.orders ADD COLUMNS (c.new string)",),
            ("ALTER TABLE lake.shop.orders ALTER COLUMN c.a TYPE bigint",),
            ("ALTER TABLE lake.shop.orders ADD COLUMNS (c.`x y`.element.more date)",),
            ("ALTER TABLE lake.shop.orders ALTER COLUMN c.m.value TYPE double",),
        ]
        assert [step.text for step in steps][:2] == [
            "add field c.new string to lake.shop.orders",
            "widen field c.a of lake.shop.orders to bigint",
        ]
        (problem,) = problems(with_columns(c=new), state, "ignore")
        assert "'c.new', 'c.x y.element.more'" in problem.fix

    @each_of("policy", ["ignore", "append_new_columns", "sync_all_columns"])
    @each_of(
        ("old", "new"),
        [
            ("string", "int"),
            ("int", "string"),
            ("int", "double"),
            ("decimal(12,2)", "decimal(14,3)"),
            ("timestamp", "timestamp_ntz"),
            ("struct<a:int,b:int>", "struct<a:int>"),
            ("struct<a:int>", "struct<a:string>"),
            ("array<int>", "array<string>"),
            ("array<int>", "map<string,int>"),
        ],
    )
    def test_other_changes_are_errors(
        self, policy: SchemaChange, old: str, new: str
    ) -> None:
        assert conditions(
            with_columns(c=new), having(StateColumn("c", old)), policy
        ) == ["type-change"]

    def test_all_problems_of_a_table_are_reported_together(self) -> None:
        state = having(
            StateColumn("a", "string"),
            StateColumn("b", "date"),
            StateColumn("c", "int", required=True),
        )
        found = conditions(with_columns(a="int", b="int"), state, "append_new_columns")
        assert found == ["type-change", "type-change", "column-required"]


class TestShape:
    by_day = PartitionField("days", "created_at")
    by_hour = PartitionField("hours", "created_at")

    @pytest.mark.parametrize("policy", EVOLVING)
    def test_partitions_follow_the_configuration(self, policy: SchemaChange) -> None:
        state = replace(STATE, partition_by=(self.by_day,))
        change = change_partitions(ORDERS, (self.by_day,), (self.by_hour,))
        assert plan(replace(SPEC, partition_by=(self.by_hour,)), state, policy) == (
            change,
        )

    def test_partitions_stay_under_ignore_and_fail(self) -> None:
        spec = replace(SPEC, partition_by=(self.by_hour,))
        assert plan(spec, policy="ignore") == ()
        assert conditions(spec, STATE, "fail") == ["schema-change"]

    def test_what_the_configuration_does_not_mention_stays(self) -> None:
        state = replace(
            STATE,
            partition_by=(self.by_day,),
            order_by=(SortField("amount"),),
            properties={**DEFAULT_PROPERTIES, "owner": "somebody"},
        )
        assert plan(state=state, policy="fail") == ()

    @each_of("policy", POLICIES)
    def test_order_follows_the_configuration(self, policy: SchemaChange) -> None:
        newest_first = (SortField("Order_Id", descending=True, nulls_first=False),)
        assert plan(replace(SPEC, order_by=newest_first), policy=policy) == (
            set_order(ORDERS, newest_first),
        )
        state = replace(
            STATE, order_by=(SortField("order_id", descending=True, nulls_first=False),)
        )
        assert plan(replace(SPEC, order_by=newest_first), state, policy) == ()

    @each_of("policy", POLICIES)
    def test_properties_follow_the_configuration(self, policy: SchemaChange) -> None:
        spec = replace(
            SPEC,
            properties={**DEFAULT_PROPERTIES, "write.object-storage.enabled": "true"},
        )
        assert plan(spec, policy=policy) == (
            set_properties(ORDERS, {"write.object-storage.enabled": "true"}),
        )

    @each_of("policy", POLICIES)
    def test_versions_are_not_told_apart_by_fewer_columns_unless_that_is_said(
        self, policy: SchemaChange
    ) -> None:
        fewer = replace(SPEC, columns=SPEC.columns[:1], versions=Versions())
        if policy == "sync_all_columns":
            assert plan(fewer, policy=policy) == (drop_column(ORDERS, "amount"),)
        else:
            assert conditions(fewer, STATE, policy) == ["schema-change"]

    @each_of("policy", POLICIES)
    def test_versions_are_not_left_without_what_says_when_they_are_valid(
        self, policy: SchemaChange
    ) -> None:
        added = {"valid_from": "since", "is_current": "current"}
        history = replace(
            with_columns(order_id="bigint", since="date", current="boolean"),
            added=added,
        )
        history = replace(history, versions=Versions(("order_id",)))
        former = having(
            StateColumn("order_id", "bigint"),
            StateColumn("since", "date"),
            StateColumn("is_now", "boolean"),
        )
        (problem,) = problems(history, former, policy)
        assert problem.condition == "schema-change"
        assert "current" in problem.what and "since" not in problem.what
        if policy != "fail":
            assert "lakesql rebuild orders" in problem.fix
            theirs = replace(
                former, ledger_models=frozenset(), properties={}, is_unwritten=True
            )
            assert policy != "append_new_columns" or plan(history, theirs, policy)

    def test_a_column_that_the_mode_adds_is_needed_under_ignore(self) -> None:
        marking = with_columns(
            order_id="bigint", amount="decimal(12,2)", gone="timestamp"
        )
        marking = replace(marking, added={"apply_deletes": "gone"})
        (problem,) = problems(marking, STATE, "ignore")
        assert problem.condition == "schema-change"
        assert "'gone', which apply_deletes " in problem.what
        assert plan(marking, policy="append_new_columns") == (
            add_columns(ORDERS, marking.columns[2:]),
        )

    @pytest.mark.parametrize(
        ("version", "changed"), [("1", {"format-version": "2"}), ("2", {}), ("3", {})]
    )
    def test_the_format_version_only_goes_up(
        self, version: str, changed: dict[str, str]
    ) -> None:
        state = replace(
            STATE, properties={**DEFAULT_PROPERTIES, "format-version": version}
        )
        assert plan(state=state) == (
            (set_properties(ORDERS, changed),) if changed else ()
        )

    def test_a_table_of_an_earlier_version_gets_the_properties_that_have_come_since(
        self,
    ) -> None:
        """One that no batch has reached, such as of dead letters, is known as lakesql's
        all the same."""
        earlier = {
            key: value for key, value in DEFAULT_PROPERTIES.items() if key in MARKS
        }
        state = replace(STATE, properties=earlier, ledger_models=frozenset())
        since = {"commit.manifest.min-count-to-merge": "8"}
        assert plan(state=state) == (set_properties(ORDERS, since),)


class TestAdoption:
    foreign = replace(
        STATE,
        properties={"format-version": "2", "owner": "somebody"},
        ledger_models=frozenset(),
    )

    def test_a_foreign_table_is_adopted_with_the_properties_it_lacks(self) -> None:
        lacking = {
            key: value
            for key, value in DEFAULT_PROPERTIES.items()
            if key != "format-version"
        }
        assert plan(state=self.foreign) == (adopt_table(self.foreign, lacking),)

    def test_an_adopted_table_is_not_adopted_again(self) -> None:
        state = replace(
            self.foreign, properties={**self.foreign.properties, **DEFAULT_PROPERTIES}
        )
        assert plan(state=state) == ()

    def test_a_foreign_table_that_does_not_fit_is_refused(self) -> None:
        assert conditions(
            with_columns(order_id="date"), self.foreign, "append_new_columns"
        ) == ["type-change"]

    def test_the_table_of_another_model_is_adopted(self) -> None:
        state = replace(STATE, ledger_models=frozenset({"purchases"}))
        assert plan(state=state) == (adopt_table(state, {}),)
        assert adopt_table(state, {}).statements == ()

    @pytest.mark.parametrize(
        "state", [foreign, replace(STATE, ledger_models=frozenset({"purchases"}))]
    )
    def test_a_foreign_table_loses_no_column(self, state: TableState) -> None:
        (problem,) = problems(
            with_columns(order_id="bigint"), state, "sync_all_columns"
        )
        assert problem.condition == "schema-change"
        assert "amount" in problem.what and "order_id" not in problem.what
        assert plan(SPEC, state, "sync_all_columns")[0].is_takeover
        assert plan(with_columns(order_id="bigint"), state)[0].is_takeover

    def test_a_changed_property_before_the_first_batch_is_no_adoption(self) -> None:
        spec = replace(
            SPEC,
            properties={
                **DEFAULT_PROPERTIES,
                "history.expire.min-snapshots-to-keep": "3",
            },
        )
        state = replace(STATE, ledger_models=frozenset())
        assert plan(spec, state) == (
            set_properties(ORDERS, {"history.expire.min-snapshots-to-keep": "3"}),
        )


@each_of(
    ("step", "expected"),
    [
        (create_namespace(ORDERS), ("CREATE NAMESPACE IF NOT EXISTS lake.shop",)),
        (
            add_columns(
                ORDERS,
                (TableColumn("note", "string"), TableColumn("a b", "int", "it's")),
            ),
            (
                r"ALTER TABLE lake.shop.orders ADD COLUMNS (note string, `a b` int COMMENT 'it\'s')",
            ),
        ),
        (
            drop_column(ORDERS, "note"),
            ("ALTER TABLE lake.shop.orders DROP COLUMN note",),
        ),
        (
            drop_column(ORDERS, "a b"),
            ("ALTER TABLE lake.shop.orders DROP COLUMN `a b`",),
        ),
        (
            widen_column(ORDERS, "a b", "int", "bigint"),
            ("ALTER TABLE lake.shop.orders ALTER COLUMN `a b` TYPE bigint",),
        ),
        (
            widen_column(ORDERS, "amount", "decimal(9,2)", "decimal(12,2)"),
            ("ALTER TABLE lake.shop.orders ALTER COLUMN amount TYPE decimal(12,2)",),
        ),
        (
            change_partitions(
                ORDERS,
                (PartitionField("days", "ts"),),
                (PartitionField("bucket", "id", 8),),
            ),
            (
                "ALTER TABLE lake.shop.orders DROP PARTITION FIELD days(ts)",
                "ALTER TABLE lake.shop.orders ADD PARTITION FIELD bucket(8, id)",
            ),
        ),
        (
            set_order(
                ORDERS,
                (SortField("id"), SortField("ts", descending=True, nulls_first=False)),
            ),
            ("ALTER TABLE lake.shop.orders WRITE LOCALLY ORDERED BY id, ts DESC",),
        ),
        (
            set_properties(ORDERS, {"write.object-storage.enabled": "true"}),
            (
                "ALTER TABLE lake.shop.orders SET TBLPROPERTIES (\n  'write.object-storage.enabled' = 'true'\n)",
            ),
        ),
    ],
)
def test_each_step_has_its_sql_statements(
    step: Step, expected: tuple[str, ...]
) -> None:
    assert tuple(text.replace("`note`", "note") for text in step.statements) == expected


def test_creating_a_table_orders_it_in_a_second_statement() -> None:
    create, order = create_table(
        replace(SPEC, order_by=(SortField("order_id"),))
    ).statements
    assert create.startswith("CREATE TABLE lake.shop.orders (")
    assert order.endswith("WRITE LOCALLY ORDERED BY order_id")


@each_of(
    ("step", "facts"),
    [
        (create_namespace(ORDERS), ["lake.shop"]),
        (
            create_table(
                replace(
                    SPEC,
                    partition_by=(TestShape.by_day,),
                    order_by=(SortField("order_id"),),
                )
            ),
            ["lake.shop.orders", "2 columns", "days(created_at)", "order_id"],
        ),
        (
            adopt_table(
                replace(STATE, ledger_models=frozenset({"purchases"})), {"a": "b"}
            ),
            ["lake.shop.orders", "purchases", "a=b"],
        ),
        (
            add_columns(ORDERS, (TableColumn("note", "string"),)),
            [
                "lake.shop.orders",
                "note string",
                "1 column",
                "NULL in the rows that are there",
            ],
        ),
        (drop_column(ORDERS, "note"), ["lake.shop.orders", "note"]),
        (
            widen_column(ORDERS, "c", "int", "bigint"),
            ["lake.shop.orders", "c", "int", "bigint"],
        ),
        (
            change_partitions(ORDERS, (TestShape.by_day,), (TestShape.by_hour,)),
            ["days(", "hours("],
        ),
        (
            set_order(ORDERS, (SortField("ts", descending=True, nulls_first=False),)),
            ["lake.shop.orders", "ts DESC"],
        ),
        (set_properties(ORDERS, {"a": "b"}), ["lake.shop.orders", "a=b"]),
    ],
)
def test_a_step_says_its_facts_in_one_line(step: Step, facts: list[str]) -> None:
    assert [fact for fact in facts if fact not in step.text] == []
    assert "\n" not in step.text
