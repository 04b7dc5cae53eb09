"""Event times that streams make of fields and expressions: the SELECT that Spark runs,
and what is refused."""

from __future__ import annotations

import pytest

from lakesql.errors import Place, ProjectError
from lakesql.names import event_column, timed_view
from lakesql.select.query import Query, read_query
from lakesql.select.relation import StreamShape
from lakesql.select.watermarks import event_type, find_unfit
from tests.cases import each_of

BIDS = ("int", "struct<auction:bigint,price:bigint,dateTime:timestamp>")
STREAMS = {
    "n": StreamShape(("kind", "bid"), None, BIDS, "bid.dateTime", "timestamp"),
    "e": StreamShape(
        ("id", "ts", "v"),
        None,
        ("bigint", "string", "int"),
        "to_timestamp(ts, 'HH')",
        "timestamp",
    ),
    "p": StreamShape(("id", "at"), "at", ("bigint", "timestamp")),
}
N, E = event_column("n"), event_column("e")
VIEW_N, VIEW_E = f"{timed_view('n')} AS n", f"{timed_view('e')} AS e"


def read(sql: str) -> Query:
    return read_query(sql, STREAMS, lambda offset: Place("m.sql", 1, offset + 1))


TIMED = {
    "SELECT bid.auction AS a, count(*) AS c FROM n GROUP BY bid.auction, window(BID.`datetime`, '1 day')": (
        f"SELECT bid.auction AS a, count(*) AS c FROM {VIEW_N} GROUP BY bid.auction, window(`n`.{N}, '1 day')"
    ),
    "SELECT bid.dateTime, count(*) AS c FROM n GROUP BY 1": (
        f"SELECT `n`.{N} AS dateTime, count(*) AS c FROM {VIEW_N} GROUP BY 1"
    ),
    "SELECT DISTINCT n.bid.dateTime FROM n": f"SELECT DISTINCT `n`.{N} AS dateTime FROM {VIEW_N}",
    "SELECT count(*) AS c FROM (SELECT * FROM n) GROUP BY window(bid.dateTime, '1 day')": (
        f"SELECT count(*) AS c FROM (SELECT `n`.{N}, * EXCEPT (`n`.{N}) FROM {VIEW_N}) GROUP BY window({N}, '1 day')"
    ),
    "WITH b AS (SELECT x.bid FROM n AS x) SELECT count(*) AS c FROM b GROUP BY window(b.bid.dateTime, '1 day')": (
        f"WITH b AS (SELECT `x`.{N}, x.bid FROM {timed_view('n')} AS x) "
        f"SELECT count(*) AS c FROM b GROUP BY window(`b`.{N}, '1 day')"
    ),
    "WITH b AS (SELECT bid.* FROM n) SELECT count(*) AS c FROM b GROUP BY window(dateTime, '1 day')": (
        "WITH b AS (SELECT bid.`auction` AS `auction`, bid.`price` AS `price`, "
        f"`n`.{N} AS `dateTime` FROM {VIEW_N}) SELECT count(*) AS c FROM b GROUP BY window(dateTime, '1 day')"
    ),
    "SELECT sum(v) AS v FROM e GROUP BY ts, session_window( TO_TIMESTAMP(e.ts,'HH'), '1 day')": (
        f"SELECT sum(v) AS v FROM {VIEW_E} GROUP BY ts, session_window( `e`.{E}, '1 day')"
    ),
    "SELECT e.*, p.at FROM e JOIN p ON p.id = v AND p.at BETWEEN to_timestamp(ts, 'HH') AND to_timestamp(e.ts,'HH')": (
        f"SELECT e.* EXCEPT (`e`.{E}), p.at FROM {VIEW_E} JOIN p ON p.id = v AND p.at BETWEEN `e`.{E} AND `e`.{E}"
    ),
}


@each_of("sql", TIMED)
def test_an_event_time_is_read_as_a_column(sql: str) -> None:
    query = read(sql)
    assert query.timed is not None
    assert query.timed.sql == TIMED[sql]
    assert query.sql == sql
    assert not any(
        name.startswith("_lakesql")
        for output in query.outputs or ()
        for name in [output.name]
    )
    for output in query.outputs or ():
        assert sql[output.offset :][:1].strip(), (
            "the place of a column is one of the author's text"
        )


@each_of(
    "sql",
    [
        "SELECT id, to_timestamp(ts, 'HH') AS at FROM e",  # keeps no state
        # of another pattern
        "SELECT to_timestamp(ts, 'hh') AS at, count(*) AS c FROM e GROUP BY 1",
        "SELECT date(bid.dateTime) AS day, count(*) AS c FROM n GROUP BY 1",
        # it would be no key
        "SELECT bid, bid.dateTime AS at, count(*) AS c FROM n GROUP BY bid",
        "SELECT count(*) AS c FROM (SELECT DISTINCT bid FROM n) GROUP BY window(bid.dateTime, '1 day')",
        "SELECT count(*) AS c FROM (SELECT struct(at AS t) AS bid FROM p) GROUP BY window(bid.t, '1 day')",
    ],
)
def test_other_selects_are_left_as_they_are(sql: str) -> None:
    try:
        query = read(sql)
    except ProjectError as error:
        assert "_lakesql" not in str(error)
        return
    assert query.timed is None


def test_problems_are_in_the_words_and_places_of_the_author() -> None:
    sql = "SELECT nope FROM (SELECT * FROM n) AS n GROUP BY nope, window(bid.dateTime, '1 day')"
    with pytest.raises(ProjectError) as raised:
        read(sql)
    assert {problem.condition for problem in raised.value.problems} == {
        "unknown-column"
    }
    for problem in raised.value.problems:
        assert problem.place is not None and problem.place.column is not None
        assert sql[problem.place.column - 1 :].startswith("nope")
        assert "_lakesql" not in f"{problem.what}{problem.why}{problem.fix}"


def test_names_of_lakesql_are_not_the_authors() -> None:
    with pytest.raises(ProjectError) as raised:
        read(f"SELECT {N} AS x, count(*) AS c FROM n GROUP BY 1")
    assert "reserved-column" in [problem.condition for problem in raised.value.problems]


TYPES = {
    "id": "bigint",
    "at": "timestamp",
    "a b": "timestamp",
    "ts": "string",
    "s": "struct<t: timestamp, u: int, n: timestamp_ntz>",
    "local": "timestamp_ntz",
}


GOOD = (
    "at",
    "A B",
    "s.t",
    "S.T",
    "to_timestamp(ts)",
    "timestamp_millis(id)",
    "date(at)::timestamp",
    "CAST(local AS timestamp)",
    "CAST(s.n AS timestamp)",
)


@each_of("column", GOOD)
def test_what_a_watermark_may_be_on(column: str) -> None:
    assert not list(find_unfit(column, TYPES, "stream 'x'", None))
    assert event_type(column, TYPES) in ("timestamp", "")


@each_of(
    ("column", "condition"),
    [
        ("att", "unknown-column"),
        ("s.v", "unknown-column"),
        ("s.t.x", "unknown-column"),
        ("x.t", "unknown-column"),
        ("s.u", "wrong-type"),
        ("ts", "wrong-type"),
        ("local", "wrong-type"),
        ("s.n", "wrong-type"),
        ("id + 1", "wrong-type"),
        ("to_timestamp(tss)", "bad-expression"),
        ("now()", "bad-expression"),
        ("greatest(at, current_timestamp())", "bad-expression"),
        ("to_timestamp(", "bad-expression"),
        ("max(at)", "bad-expression"),
        ("(SELECT 1)", "bad-expression"),
        ("to_timstamp(ts)", "bad-expression"),
    ],
)
def test_what_it_may_not_be_on(column: str, condition: str) -> None:
    assert [
        problem.condition for problem in find_unfit(column, TYPES, "stream 'x'", None)
    ] == [condition]
