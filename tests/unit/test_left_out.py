"""What `* EXCEPT (…)` leaves out is the same for all that reads a star: columns with
and without a qualifier, and fields of columns that stay."""

from __future__ import annotations

from collections.abc import Mapping

from lakesql.errors import Place
from lakesql.select.column_order import find_ordered_columns
from lakesql.select.left_out import LeftOut, left_out_of
from lakesql.select.lineage import read_lineage
from lakesql.select.query import Query, parse_query, read_query
from lakesql.select.relation import StreamShape
from lakesql.select.same_state import is_same_state
from lakesql.select.selects_read import read_selects
from lakesql.select.sqltext import findings_by_offset, read_text
from lakesql.views.plan_view import plan_view
from lakesql.views.view_tree import ViewInput
from tests.cases import each_of

NAMES = ("a", "b", "s")
TYPES = {"a": "int", "b": "int", "s": "struct<a: int, b: int>"}
JOIN = "FROM events AS e JOIN others AS o ON e.a = o.a"
AT = "lake.ns.events"
PATH = ("lake", "ns", "events")


def read(sql: str, types: Mapping[str, str] = TYPES) -> Query:
    streams = {
        "events": StreamShape(tuple(types), None, tuple(types.values())),
        "others": StreamShape(("a", "at"), "at", ("int", "timestamp")),
        "timed": StreamShape(
            ("k", "s"),
            None,
            ("int", "struct<ts: timestamp, v: int>"),
            "s.ts",
            "timestamp",
        ),
    }
    return read_query(sql, streams, lambda offset: Place("m.sql", 1, offset + 1))


@each_of(
    ("sql", "columns", "fields"),
    [
        ("SELECT * EXCEPT (A, `b`) FROM e", {"a", "b"}, set()),
        ("SELECT * EXCEPT (e.a, E.s.b) FROM e", {"a"}, {("s", "b")}),
        ("SELECT e.* EXCEPT (s.a) FROM e", set(), {("s", "a")}),
        ("SELECT * EXCEPT (lake.ns.e.a) FROM e", {"a"}, set()),
        ("SELECT * EXCEPT (s.a.b.c.d) FROM e", set(), {("s", "a", "b", "c", "d")}),
        ("SELECT struct(* EXCEPT (a)) AS x FROM e", {"a"}, set()),
        ("SELECT * EXCEPT (o.a, o.s.b, b) FROM e", {"b"}, set()),
        ("SELECT * FROM e", set(), set()),
    ],
)
def test_names_are_read_as_spark_reads_them(
    sql: str, columns: set[str], fields: set[tuple[str, ...]]
) -> None:
    findings = findings_by_offset()
    tree = parse_query(read_text(sql, findings), sql, findings)
    inner = tree.expressions[0].unalias()
    star = inner.expressions[0] if "struct" in sql else inner
    own = ("e", ("lake", "ns", "e"))
    found = left_out_of(star, [own], [own, ("o", ())])
    assert found == LeftOut(frozenset(columns), frozenset(fields))


@each_of(
    ("sql", "names"),
    [
        ("SELECT * EXCEPT (e.a) FROM events AS e", "b s"),
        ("SELECT * EXCEPT (events.a, s.b) FROM events", "b s"),
        ("SELECT e.* EXCEPT (e.s.a, b) FROM events AS e", "a s"),
        ("SELECT * EXCEPT (s) FROM events", "a b"),
    ],
)
def test_lineage_has_the_columns_that_the_select_has(sql: str, names: str) -> None:
    outputs = read(sql).outputs or ()
    assert [output.name for output in outputs] == names.split()
    assert [*read_lineage(sql, {"events": NAMES}).columns] == names.split()


def test_a_qualified_column_is_left_out_of_its_own_side_of_a_join_alone() -> None:
    sql = f"SELECT * EXCEPT (o.a, e.s) {JOIN}"
    outputs = read(sql).outputs or ()
    names = ["a", "b", "at"]
    assert [output.name for output in outputs] == names
    assert outputs[0].stream == "events"
    known = {"events": NAMES, "others": ("a", "at")}
    lineage = read_lineage(sql, known)
    assert [*lineage.columns] == names
    assert lineage.made_of["a"] == {("events", "a")}


def test_a_view_has_the_column_of_the_other_side_of_a_join() -> None:
    sql = (
        f"SELECT * EXCEPT (o.a, s) FROM {AT} AS e JOIN lake.ns.others AS o ON e.a = o.a"
    )
    inputs = [ViewInput(PATH, NAMES), ViewInput(("lake", "ns", "others"), ("a", "c"))]
    for keys in (("a", "c"), ("a", "b")):
        assert plan_view(sql, inputs, keys).problems == ()
    (problem,) = plan_view(sql, inputs, ("s",)).problems
    assert problem.kind == "not-an-output"


def test_a_key_that_a_star_leaves_out_tells_no_groups_apart() -> None:
    inner = "SELECT a, max(b) AS m FROM events GROUP BY a"
    for select, told_by in (
        (f"SELECT * FROM ({inner})", {"a"}),
        (f"SELECT * EXCEPT (m) FROM ({inner})", {"a"}),
        (f"SELECT * EXCEPT (a), m AS a FROM ({inner})", set()),
    ):
        (group,) = read(select).groups or ()
        assert group.told_by == told_by


def test_lineage_knows_a_table_by_its_whole_name() -> None:
    sql = f"SELECT * EXCEPT ({AT}.a, ns.events.s.b) FROM {AT}"
    assert [*read_lineage(sql, {AT: NAMES}).columns] == ["b", "s"]


@each_of(
    ("sql", "names"),
    [
        ("SELECT struct(* EXCEPT (s.a)) AS x FROM events", ("a", "b", "s")),
        ("SELECT struct(* EXCEPT (e.a)) AS x FROM events AS e", ("b", "s")),
        ("SELECT struct(e.* EXCEPT (b, e.s.b)) AS x FROM events AS e", ("a", "s")),
    ],
)
def test_the_order_that_counts_is_that_of_the_columns_that_stay(
    sql: str, names: tuple[str, ...]
) -> None:
    streams = {"events": StreamShape(NAMES, None)}
    (found,) = find_ordered_columns(read_selects(sql, streams, {}))
    assert found.names == names


@each_of(
    ("sql", "changed", "is_same"),
    [
        ("SELECT DISTINCT * EXCEPT (b) FROM events", "b", True),
        ("SELECT DISTINCT * EXCEPT (e.b) FROM events AS e", "b", True),
        ("SELECT DISTINCT * EXCEPT (b) FROM events", "a", False),
        ("SELECT DISTINCT e.* EXCEPT (s.b) FROM events AS e", "s", False),
        ("SELECT DISTINCT s.* FROM events", "s", False),
        ("SELECT DISTINCT s.* FROM events", "b", True),
        (f"SELECT e.* EXCEPT (b) {JOIN}", "b", True),
        (f"SELECT e.* EXCEPT (e.b) {JOIN}", "b", True),
        (f"SELECT e.* EXCEPT (b), e.b + 1 AS c {JOIN}", "b", False),
        (f"SELECT e.* EXCEPT (a) {JOIN}", "b", False),
        (f"SELECT e.* EXCEPT (a) {JOIN}", "a", False),
        (f"SELECT e.* EXCEPT (s.b) {JOIN}", "s", False),
    ],
)
def test_state_has_the_types_of_what_spark_keeps(
    sql: str, changed: str, is_same: bool
) -> None:
    other = {"a": "bigint", "b": "bigint", "s": "struct<a: int, b: bigint>"}
    now = read(sql).state
    after = read(sql, {**TYPES, changed: other[changed]}).state
    assert is_same_state(now, after) is is_same


@each_of(
    ("inner", "is_passed"),
    [
        ("* EXCEPT (s.ts)", False),
        ("* EXCEPT (timed.s.ts)", False),
        ("timed.* EXCEPT (s.ts, k)", False),
        ("* EXCEPT (s.v)", True),
        ("* EXCEPT (timed.k)", True),
    ],
)
def test_an_event_time_that_is_left_out_is_none_of_the_outer_query(
    inner: str, is_passed: bool
) -> None:
    sql = (
        f"SELECT count(*) AS n FROM (SELECT {inner} FROM timed) "
        "GROUP BY window(s.ts, '1 day')"
    )
    query = read(sql)
    assert (query.timed is not None) is is_passed
    assert query.grouped_by_event_time is is_passed


def test_an_event_time_that_is_used_and_left_out_stays_left_out() -> None:
    join = "JOIN others AS o ON o.a = k AND o.at = s.ts"
    query = read(f"SELECT timed.* EXCEPT (s.ts), o.at FROM timed {join}")
    assert query.timed is not None
    assert "(`timed`._lakesql_event_time_timed, s.ts)" in query.timed.sql


OVER = "row_number() OVER (PARTITION BY"


@each_of(
    ("sql", "unit"),
    [
        (f"SELECT *, {OVER} a ORDER BY b) AS n FROM {AT}", ("a",)),
        (f"SELECT * EXCEPT (s), {OVER} e.a ORDER BY b) AS n FROM {AT} AS e", ("a",)),
        (f"SELECT * EXCEPT (a), {OVER} a ORDER BY b) AS n FROM {AT}", ()),
        (f"SELECT * EXCEPT ({AT}.a), {OVER} a ORDER BY b) AS n FROM {AT}", ()),
        (f"SELECT e.* EXCEPT (e.a), {OVER} a ORDER BY b) AS n FROM {AT} AS e", ()),
        (f"SELECT * EXCEPT (s.a), {OVER} s ORDER BY b) AS n FROM {AT}", ()),
        (f"SELECT * EXCEPT (s.a), {OVER} a ORDER BY b) AS n FROM {AT}", ("a",)),
        # a field is no column, in a star of a struct or in the PARTITION BY
        (f"SELECT s.*, {OVER} a ORDER BY b) AS n FROM {AT}", ()),
        (f"SELECT *, {OVER} s.a ORDER BY b) AS n FROM {AT}", ()),
    ],
)
def test_the_unit_of_a_view_is_of_columns_that_it_has(
    sql: str, unit: tuple[str, ...]
) -> None:
    for columns in (NAMES, None):
        found = plan_view(sql, [ViewInput(PATH, columns)], ("b",))
        assert found.unit == unit, columns


@each_of(
    ("star", "keys"),
    [
        ("*", ("a",)),
        ("* EXCEPT (n)", ("a",)),
        ("* EXCEPT (a)", ()),
        ("g.* EXCEPT (g.a)", ()),
    ],
)
def test_keys_are_passed_on_by_a_star_that_has_them(
    star: str, keys: tuple[str, ...]
) -> None:
    group = f"SELECT a, count(*) AS n FROM {AT} GROUP BY a"
    for inner in (group, f"SELECT * FROM ({group})"):
        found = plan_view(
            f"SELECT {star} FROM ({inner}) AS g WHERE n > 0", [ViewInput(PATH, NAMES)]
        )
        assert found.keys == keys
        assert bool(found.problems) is not bool(keys)
