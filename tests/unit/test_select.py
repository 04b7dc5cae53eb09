from __future__ import annotations

from dataclasses import replace

import pytest

from lakesql.compile.build_select import build_select
from lakesql.compile.select import Select, output_columns
from lakesql.compile.statements import compiled_text
from lakesql.compile.table import UNKNOWN_TYPE
from lakesql.errors import Place, ProjectError
from lakesql.project.profiles import Spark
from lakesql.stream.stream import Column
from tests.cases import each_of
from tests.unit.test_manifest import load

STREAMS = """\
streams:
  - name: orders
    topic: t
    columns: {id: bigint, Status: string, amount: "decimal(12,2)", at: timestamp, "order day": date}
    watermark: {column: at, delay: 1 hour}
  - {name: values, topic: v, columns: {a: int}}
  - name: changes
    topic: c
    envelope: debezium
    key: [id]
    columns: {id: bigint, v: int, Body: string, tags: array<string>}
"""


def build(config: str, select: str, **models: str) -> Select:
    """The model `m`; its SELECT starts in line 2."""
    files = {f"models/{name}.sql": text for name, text in models.items()}
    files |= {
        "streams/s.yml": STREAMS,
        "models/m.sql": f"{{{{ config({config}) }}}}\n{select}",
    }
    return build_select(load(files), "m")


def problems(config: str, select: str, **models: str) -> list[tuple[str, str]]:
    with pytest.raises(ProjectError) as caught:
        build(config, select, **models)
    return [
        (problem.condition, str(problem.place)) for problem in caught.value.problems
    ]


def test_columns_have_the_types_of_the_contract_and_of_casts() -> None:
    select = build(
        "mode='append'",
        "SELECT ID, status AS s, amount + 1 AS more, CAST(id AS char(3)) AS c, `order day` FROM {{ stream('orders') }}",
    )
    assert select.columns == ("ID", "s", "more", "c", "order day")
    assert output_columns(select) == (
        Column("ID", "bigint"),
        Column("s", "string"),
        Column("more", ""),
        Column("c", "char(3)"),
        Column("order day", "date"),
    )


def test_a_model_read_as_a_stream_hands_its_columns_on() -> None:
    first = "{{ config(mode='append') }} SELECT id, amount AS eur FROM {{ stream('orders') }}"
    select = build("mode='append'", "SELECT * FROM {{ stream('first') }}", first=first)
    assert output_columns(select) == (
        Column("id", "bigint"),
        Column("eur", "decimal(12,2)"),
    )


def test_columns_of_a_table_are_for_spark_to_say() -> None:
    other = (
        "{{ config(mode='upsert', keys='id') }} SELECT id FROM {{ stream('orders') }}"
    )
    select = build(
        "mode='upsert', keys=['anything']",
        "SELECT r.* FROM {{ stream('orders') }} AS o JOIN {{ ref('other') }} AS r ON r.id = o.id",
        other=other,
    )
    assert select.columns is None and output_columns(select) == ()
    assert "  /* the columns of the SELECT */\n" in compiled_text(select)


@each_of(
    ("option", "refused"),
    [
        ("update_columns='x'", True),
        ("update_columns=[]", True),
        ("exclude_columns='x'", True),
        ("ignore_null_updates=true", True),
        ("ignore_null_updates=false", False),
        ("when_matched='source.x > target.x'", False),
    ],
)
def test_options_by_column_need_a_select_that_names_them(
    option: str, refused: bool
) -> None:
    other = (
        "{{ config(mode='upsert', keys='id') }} SELECT id FROM {{ stream('orders') }}"
    )
    text = "SELECT r.* FROM {{ stream('orders') }} AS o JOIN {{ ref('other') }} AS r ON r.id = o.id"
    config = f"mode='upsert', keys='id', {option}"
    if refused:
        assert problems(config, text, other=other) == [
            ("columns-unknown", f"models/m.sql:1:{option.index('=') + 38}")
        ]
    else:
        assert build(config, text, other=other).columns is None


@each_of(
    ("select", "unused"),
    [
        ("SELECT id, v FROM {s}", ("Body", "tags")),
        ("SELECT id, v, upper(BODY) AS b FROM {s}", ("tags",)),
        ("SELECT id FROM {s} WHERE size(tags) > 0 AND `body` IS NOT NULL", ("v",)),
        ("SELECT id, b FROM (SELECT id, body AS b FROM {s})", ("v", "tags")),
        (
            "SELECT id, v * 2 AS w FROM {s} WHERE v > (SELECT count(*) FROM lake.shop.other)",
            ("Body", "tags"),
        ),
        ("SELECT v FROM {s}", ("Body", "tags")),
        ("SELECT * FROM {s}", ()),
        ("SELECT * EXCEPT (tags) FROM {s}", ()),
        ("SELECT id, to_json(struct(*)) AS all FROM {s}", ()),
        ("SELECT id FROM {s} NATURAL JOIN lake.shop.other", ()),
        ("SELECT id FROM {s} JOIN lake.shop.other AS o (v, body) ON id = o.v", ()),
    ],
)
def test_a_column_is_unused_that_no_word_of_the_select_may_mean(
    select: str, unused: tuple[str, ...]
) -> None:
    found = build("mode='append'", select.replace("{s}", "{{ stream('changes') }}"))
    assert found.unused_of(found.streams["changes"]) == unused


def test_the_position_is_carried_where_arrival_decides() -> None:
    text = "SELECT id, Status FROM {{ stream('orders') }}"
    assert not build("mode='append'", text).writing.is_positioned
    upsert = build("mode='upsert', keys='id'", text)
    assert (
        upsert.writing.is_positioned
        and upsert.text.strip() == "SELECT _lakesql_position, id, Status FROM orders"
    )
    assert not build(
        "mode='upsert', keys='Status'",
        "SELECT Status, count(*) AS n FROM orders GROUP BY ALL".replace(
            "orders", "{{ stream('orders') }}"
        ),
    ).writing.is_positioned


def test_places_are_those_of_the_authors_text() -> None:
    select = build(
        "mode='upsert', keys='id'", "SELECT id,\n  Status FROM {{ stream('orders') }}"
    )
    found = [
        select.place(select.text.index(word))
        for word in ("SELECT", "_lakesql", "id", "Status", "FROM")
    ]
    assert found == [
        Place("models/m.sql", 2, 1),
        Place("models/m.sql", 2, 7),
        Place("models/m.sql", 2, 8),
        Place("models/m.sql", 3, 3),
        Place("models/m.sql", 3, 10),
    ]


@each_of(
    ("config", "condition", "place"),
    [
        ("mode='upsert', keys=['id', 'nr']", "key-not-selected", "1:31"),
        ("mode='upsert', keys='id', sequence_by='changed'", "unknown-column", "1:49"),
        ("mode='append', partition_by=['days(created)']", "unknown-column", "1:39"),
        ("mode='append', order_by='amount'", "unknown-column", "1:35"),
        ("mode='upsert', keys='id', delete_when='gone'", "bad-expression", "1:49"),
        (
            "mode='upsert', keys='id', delete_when='id = 1 -- x'",
            "bad-expression",
            "1:49",
        ),
        ("mode='upsert', keys='id', delete_when='id = 1;'", "bad-expression", "1:49"),
        (
            "mode='upsert', keys='id', when_matched='source.id = 1 -- x'",
            "bad-expression",
            "1:50",
        ),
        (
            "mode='upsert', keys='id', when_matched='status = 1'",
            "bad-expression",
            "1:50",
        ),
        (
            "mode='upsert', keys='id', when_matched='source.id = other.id'",
            "bad-expression",
            "1:50",
        ),
        (
            "mode='upsert', keys='id', when_matched='source._lakesql_rank = 1'",
            "bad-expression",
            "1:50",
        ),
        (
            "mode='upsert', keys='id', update_columns=['at', 'gone']",
            "unknown-column",
            "1:59",
        ),
        ("mode='upsert', keys='id', exclude_columns='gone'", "unknown-column", "1:53"),
        (
            "mode='upsert', keys='id', update_columns='ID'",
            "contradictory-options",
            "1:52",
        ),
        (
            "mode='upsert', keys='id', update_columns=[], exclude_columns='at'",
            "contradictory-options",
            "1:72",
        ),
        (
            "mode='upsert', keys=['at', 'id'], sequence_by=['AT', 'status']",
            "contradictory-options",
            "1:57",
        ),
        (
            "mode='upsert', keys='id', sequence_by='at', update_columns=[]",
            "contradictory-options",
            "1:70",
        ),
        (
            "mode='upsert', keys='id', sequence_by='at', update_columns='Status'",
            "contradictory-options",
            "1:70",
        ),
        (
            "mode='upsert', keys='id', sequence_by='at', exclude_columns='AT'",
            "contradictory-options",
            "1:71",
        ),
    ],
)
def test_an_option_that_does_not_fit_the_select_is_refused_at_its_place(
    config: str, condition: str, place: str
) -> None:
    found = problems(config, "SELECT id, Status, at FROM {{ stream('orders') }}")
    assert found == [(condition, f"models/m.sql:{place}")]


@each_of(
    "config",
    [
        "mode='upsert', keys='ID', sequence_by='AT', delete_when='STATUS = 1', partition_by='days(At)', order_by='iD'",
        "mode='upsert', keys='id', sequence_by='at', update_columns=['AT'], when_matched='SOURCE.AT > target.aT'",
        "mode='upsert', keys='id', sequence_by='AT', update_columns='At', ignore_null_updates=true",
        "mode='append', max_dead_letter_ratio=1",
        "mode='append', max_dead_letter_ratio=0",
    ],
)
def test_capitals_make_no_difference(config: str) -> None:
    assert build(
        config, "SELECT id, Status, at FROM {{ stream('orders') }}"
    ).columns == ("id", "Status", "at")


@each_of(
    ("config", "select", "condition"),
    [
        (
            "mode='append'",
            "SELECT count(*) AS n FROM {{ stream('orders') }}",
            "watermark-missing",
        ),
        (
            "mode='append'",
            "SELECT id, count(*) AS n FROM {{ stream('orders') }} GROUP BY id",
            "watermark-missing",
        ),
        (
            "mode='append'",
            "SELECT a, count(*) AS n FROM {{ stream('values') }} GROUP BY a",
            "watermark-missing",
        ),
        (
            "mode='append'",
            "SELECT window.start AS s, count(*) AS n FROM {{ stream('orders') }} GROUP BY window(at, '1 hour')",
            None,
        ),
        (
            "mode='upsert', keys='id'",
            "SELECT id, count(*) AS n FROM {{ stream('orders') }} GROUP BY id",
            None,
        ),
    ],
)
def test_an_appended_aggregate_needs_event_time(
    config: str, select: str, condition: str | None
) -> None:
    if condition is None:
        assert build(config, select).query.stateful
    else:
        assert [name for name, _ in problems(config, select)] == [condition]


GROUPED = "(SELECT id, Status, count(*) AS n FROM orders GROUP BY ALL) AS g"


@each_of(
    ("keys", "select", "missing"),
    [
        ("id", "SELECT id, count(*) AS n FROM orders GROUP BY id", ""),
        ("N", "SELECT O.ID AS n, count(*) AS c FROM orders AS o GROUP BY o.id", ""),
        ("n", "SELECT id AS n, count(*) AS c FROM orders GROUP BY n", ""),
        ("id", "SELECT id, count(*) AS n FROM orders GROUP BY 1", ""),
        ("id", "SELECT id, Status, count(*) AS n FROM orders GROUP BY 1, 2", "Status"),
        (
            "id",
            "SELECT id, Status, count(*) AS n FROM orders GROUP BY id, Status",
            "Status",
        ),
        ("id", "SELECT id, count(*) AS n FROM orders GROUP BY id, Status", "Status"),
        ("id", "SELECT id, max(Status) AS s FROM orders GROUP BY id, Status", "Status"),
        (
            "k",
            "SELECT concat_ws('-', id, Status) AS k, count(*) AS n FROM orders GROUP BY id, Status",
            "",
        ),
        ("k", "SELECT date(at) AS k, count(*) AS n FROM orders GROUP BY date(at)", ""),
        (
            "id",
            "SELECT id, count(*) AS n FROM orders GROUP BY id, date(at)",
            "CAST(at AS DATE)",
        ),
        (
            "k",
            "SELECT window.start AS k, count(*) AS n FROM orders GROUP BY window(at, '1 hour')",
            "",
        ),
        (
            "id",
            "SELECT id, count(*) AS n FROM orders GROUP BY id, window(at, '1 hour')",
            "window(at, '1 hour')",
        ),
        ("id", "SELECT id, Status, count(*) AS n FROM orders GROUP BY ALL", "Status"),
        ("n", "SELECT count(*) AS n FROM orders", ""),
        ("id", "SELECT id, count(*) AS n FROM orders GROUP BY id, 'x' || 'y'", ""),
        ("id", "SELECT DISTINCT id, Status FROM orders", "Status"),
        ("id', 'Status", "SELECT DISTINCT id, Status FROM orders", ""),
        (
            "id",
            "SELECT * FROM (SELECT id, Status, count(*) AS n FROM orders GROUP BY id, Status)",
            "Status",
        ),
        (
            "k",
            "WITH c AS (SELECT id, Status, count(*) AS n FROM orders GROUP BY ALL) SELECT id AS k, n FROM c",
            "Status",
        ),
        (
            "k",
            "SELECT hash(id, Status) AS k, n FROM (SELECT id, Status, count(*) AS n FROM orders GROUP BY ALL)",
            "",
        ),
        (
            "at",
            "SELECT at, date(at) AS day, count(*) AS n FROM orders GROUP BY at, day",
            "",
        ),
        (
            "at",
            "SELECT at, date(at) AS day, count(*) AS n FROM orders GROUP BY 1, 2",
            "",
        ),
        (
            "at",
            "SELECT at, date(at) AS day, count(*) AS n FROM orders GROUP BY ALL",
            "",
        ),
        (
            "s",
            "SELECT window(at, '1 hour').start AS s, window(at, '1 hour').end AS e, 1 AS n FROM orders GROUP BY 1, 2",
            "",
        ),
        (
            "k",
            "SELECT 'x' AS src, id AS k, count(*) AS n FROM orders GROUP BY src, k",
            "",
        ),
        (
            "k",
            "SELECT CAST(NULL AS string) AS src, id AS k, count(*) AS n FROM orders GROUP BY ALL",
            "",
        ),
        ("k", "SELECT DISTINCT id AS k, id % 10 AS shard FROM orders", ""),
        (
            "id",
            "SELECT (id), n FROM (SELECT id, count(*) AS n FROM orders GROUP BY id)",
            "",
        ),
        ("id", "SELECT count(*) AS n, id FROM orders GROUP BY id, '1'", ""),
        (
            "k",
            "WITH c AS (SELECT hash(id, Status) AS k, id, Status FROM orders) "
            "SELECT k, id, Status, count(*) AS n FROM c GROUP BY ALL",
            "",
        ),
        (
            "k",
            "SELECT window.start AS k, id, count(*) AS n FROM orders GROUP BY window(at, '1 hour'), id",
            "id",
        ),
        (
            "k",
            "SELECT w.start AS k, count(*) AS n FROM (SELECT window(at, '1 hour') AS w FROM orders) GROUP BY w",
            "",
        ),
        (
            "k",
            "SELECT CAST(window.end AS date) AS k, 1 AS n FROM orders GROUP BY window(at, '1 day')",
            "",
        ),
        ("k", "SELECT date(at) AS k, count(*) AS n FROM orders GROUP BY at", "at"),
        ("at", "SELECT date(at) AS at, count(*) AS n FROM orders GROUP BY at", "at"),
        (
            "k",
            "SELECT upper(Status) AS k, count(*) AS n FROM orders GROUP BY Status",
            "Status",
        ),
        (
            "k",
            "SELECT UPPER(status) AS k, count(*) AS n FROM orders GROUP BY upper(Status)",
            "",
        ),
        (
            "k",
            "SELECT md5(upper(Status) || '-' || id) AS k, 1 AS n FROM orders GROUP BY upper(Status), id",
            "",
        ),
        (
            "k",
            "SELECT sha2(concat_ws('|', cast(id as string), Status), 256) AS k, 1 AS n FROM orders GROUP BY ALL",
            "",
        ),
        (
            "k",
            "SELECT xxhash64(struct(id, Status)) AS k, 1 AS n FROM orders GROUP BY id, Status",
            "",
        ),
        (
            "k",
            "SELECT to_json(struct(id, Status)) AS k, 1 AS n FROM orders GROUP BY id, Status",
            "",
        ),
        ("shard", "SELECT DISTINCT id, id % 10 AS shard FROM orders", "id"),
        (
            "day",
            "SELECT date(at) AS day, n FROM (SELECT at, count(*) AS n FROM orders GROUP BY at)",
            "at",
        ),
        (
            "k",
            "SELECT coalesce(Status, 'none') AS k, count(*) AS n FROM orders GROUP BY Status",
            "",
        ),
        (
            "k', 'id",
            "SELECT coalesce(Status, 'x', id) AS k, id, 1 AS n FROM orders GROUP BY Status, id",
            "Status",
        ),
        (
            "k",
            "SELECT cast(at AS bigint) AS k, count(*) AS n FROM orders GROUP BY at",
            "at",
        ),
        (
            "k",
            "SELECT bigint(amount) AS k, count(*) AS n FROM orders GROUP BY amount",
            "amount",
        ),
        (
            "k",
            "SELECT cast(Status AS bigint) AS k, count(*) AS n FROM orders GROUP BY Status",
            "Status",
        ),
        (
            "k",
            "SELECT cast(id AS bigint) AS k, count(*) AS n FROM orders GROUP BY id",
            "",
        ),
        (
            "k",
            "SELECT cast(a AS bigint) AS k, count(*) AS n FROM {{ stream('values') }} GROUP BY a",
            "",
        ),
        (
            "k",
            "SELECT cast(hash(at, Status) AS bigint) AS k, 1 AS n FROM orders GROUP BY at, Status",
            "",
        ),
        (
            "k",
            "SELECT cast(xxhash64(at) AS bigint) AS k, 1 AS n FROM orders GROUP BY at",
            "",
        ),
        (
            "k",
            "SELECT cast(amount AS decimal(14,2)) AS k, 1 AS n FROM orders GROUP BY amount",
            "",
        ),
        (
            "k",
            "SELECT cast(amount AS decimal(14,1)) AS k, 1 AS n FROM orders GROUP BY amount",
            "amount",
        ),
        (
            "k",
            "WITH c AS (SELECT cast(at AS bigint) AS k, at, id AS other FROM orders) "
            "SELECT k, at, count(*) AS n FROM c GROUP BY ALL",
            "at",
        ),
        (
            "id",
            f"SELECT g.id, g.n, t.name FROM {GROUPED} JOIN lake.shop.codes AS t ON t.code = g.Status",
            "Status",
        ),
        (
            "code",
            f"SELECT id, t.code FROM {GROUPED} LEFT JOIN lake.shop.codes AS t ON t.code <=> Status",
            "id",
        ),
        (
            "id', 'code",
            f"SELECT id, t.code FROM {GROUPED} JOIN lake.shop.codes t ON t.code = g.Status AND t.x > n",
            "",
        ),
        (
            "id', 'code",
            f"SELECT id, code FROM {GROUPED} JOIN lake.shop.codes ON code = Status",
            "",
        ),
        (
            "id', 'code",
            f"SELECT id, t.code FROM {GROUPED} JOIN lake.shop.codes t ON t.code = upper(g.Status)",
            "Status",
        ),
        (
            "id', 'code",
            f"SELECT id, t.code FROM {GROUPED} JOIN lake.shop.codes t ON t.code = Status OR n > 1",
            "Status",
        ),
        (
            "id', 'status",
            f"SELECT id, t.status FROM {GROUPED} JOIN lake.shop.codes t ON t.code = g.Status",
            "Status",
        ),
        (
            "id', 'c",
            f"SELECT *, 1 AS m FROM {GROUPED} JOIN (SELECT c FROM lake.shop.codes) AS t ON (t.c = Status)",
            "",
        ),
        (
            "id', 'c",
            f"SELECT id, t.* FROM {GROUPED} JOIN (SELECT c FROM lake.shop.codes) AS t ON (t.c = Status)",
            "",
        ),
        (
            "id', 'c",
            f"SELECT id, t.* FROM {GROUPED} JOIN (SELECT c FROM lake.shop.codes) AS t ON t.c > Status",
            "Status",
        ),
        (
            "id', 'status",
            f"SELECT id, t.status FROM lake.shop.codes AS t JOIN {GROUPED} USING (status)",
            "",
        ),
        (
            "id', 'status",
            f"SELECT g.*, t.name FROM {GROUPED} JOIN lake.shop.codes AS t ON t.code = g.Status",
            "",
        ),
        (
            "id",
            f"SELECT g.*, t.name FROM {GROUPED} JOIN lake.shop.codes AS t ON t.code = g.Status",
            "Status",
        ),
        (
            "id', 'x",
            f"SELECT g.*, x FROM {GROUPED} LATERAL VIEW explode(array(1, 2)) e AS x",
            "Status",
        ),
        (
            "s",
            "SELECT coalesce(Status, 'all') AS s, count(*) AS n FROM orders GROUP BY ROLLUP (Status, id)",
            "id",
        ),
        (
            "s",
            "SELECT coalesce(Status, 'all') AS s, 1 AS n FROM orders GROUP BY Status, id WITH CUBE",
            "id",
        ),
        (
            "s",
            "SELECT concat(Status, 'x') AS s, 1 AS n FROM orders GROUP BY GROUPING SETS ((Status, id), (1), ())",
            "id",
        ),
        (
            "s', 'i",
            "SELECT coalesce(Status, 'all') AS s, coalesce(id, 0) AS i FROM orders GROUP BY CUBE (Status, (id))",
            "",
        ),
        (
            "id",
            "SELECT *, count(*) AS n FROM (SELECT id, Status FROM orders) GROUP BY ALL",
            "Status",
        ),
        (
            "id', 'status",
            "SELECT count(*) AS n, * FROM (SELECT id, Status FROM orders) GROUP BY ALL",
            "",
        ),
        (
            "id', 'w",
            "SELECT *, upper(status) AS w, 1 AS n FROM (SELECT id, Status FROM orders) GROUP BY 1, 2",
            "Status",
        ),
        (
            "k",
            "SELECT Status || 1 + 1 AS k, count(*) AS n FROM orders GROUP BY Status",
            "Status",
        ),
        (
            "k",
            "SELECT Status || (1 + 1) AS k, count(*) AS n FROM orders GROUP BY Status",
            "",
        ),
    ],
)
def test_the_keys_of_an_aggregate_tell_its_groups_apart(
    keys: str, select: str, missing: str
) -> None:
    text = select.replace("orders", "{{ stream('orders') }}")
    if missing:
        with pytest.raises(ProjectError) as caught:
            build(f"mode='upsert', keys=['{keys}']", text)
        (problem,) = caught.value.problems
        assert (
            problem.condition == "group-not-in-keys"
            and f"a row for each {missing}," in problem.what
        )
    else:
        build(f"mode='upsert', keys=['{keys}']", text)


TIMED = "SELECT * FROM orders WHERE _record.timestamp >= '2026-01-01'"


@each_of(
    ("select", "star"),
    [
        (
            "SELECT DISTINCT * FROM orders WHERE _record.timestamp >= '2026-01-01'",
            "DISTINCT",
        ),
        ("SELECT *, max(_record.timestamp) AS t FROM orders GROUP BY ALL", "*"),
        (
            "SELECT max(_record.timestamp) AS t, o.* FROM orders AS o GROUP BY ALL",
            "o.*",
        ),
        (f"SELECT DISTINCT x.* FROM ({TIMED}) AS x", "DISTINCT"),
        (
            f"WITH c AS ({TIMED}) SELECT *, count(*) AS n FROM c GROUP BY ALL",
            "*, count",
        ),
        (f"{TIMED} UNION SELECT * FROM orders", "SELECT * FROM"),
        (
            f"SELECT DISTINCT * EXCEPT (Status) FROM ({TIMED} UNION ALL SELECT * FROM orders)",
            "DISTINCT",
        ),
        (
            f"SELECT DISTINCT o.*, t.x FROM ({TIMED}) AS o JOIN lake.shop.t AS t ON t.id = o.id",
            "DISTINCT",
        ),
        (
            "SELECT DISTINCT * FROM (SELECT id, Status, at, _record FROM orders)",
            "DISTINCT",
        ),
        ("SELECT DISTINCT * FROM orders", ""),
        (
            "SELECT DISTINCT * EXCEPT (_record) FROM orders WHERE _record.timestamp >= '2026-01-01'",
            "",
        ),
        (
            "SELECT DISTINCT * EXCEPT (o._record) FROM orders AS o WHERE _record.offset > 1",
            "",
        ),
        (f"SELECT DISTINCT id, Status, at FROM ({TIMED})", ""),
        (
            f"SELECT DISTINCT * FROM (SELECT id, Status, at, _record.offset AS o FROM ({TIMED}))",
            "",
        ),
        (
            f"SELECT id, Status, max(at) AS at, count(*) AS n FROM ({TIMED}) GROUP BY ALL",
            "",
        ),
        (
            "SELECT DISTINCT t.*, at FROM orders JOIN lake.shop.t AS t ON t.id = orders.id WHERE _record.offset > 1",
            "",
        ),
    ],
)
def test_a_star_takes_nothing_of_a_record_into_what_tells_rows_apart(
    select: str, star: str
) -> None:
    text = select.replace("orders", "{{ stream('orders') }}")
    config = "mode='upsert', keys=['id', 'Status'], sequence_by='at'"
    if star:
        place = f"models/m.sql:2:{text.index(star) + 1}"
        assert ("star-with-record", place) in problems(config, text)
    else:
        build(config, text)


def test_a_star_takes_nothing_of_a_change_into_what_tells_rows_apart() -> None:
    text = "SELECT DISTINCT {star} FROM {{ stream('changes') }} WHERE _change.op <> 'd' AND _record.offset > 1"
    found = [
        problems("mode='upsert', keys='id'", text.replace("{star}", star))
        for star in ("*", "* EXCEPT (_record)")
    ]
    assert [[name for name, _ in each] for each in found] == [
        ["star-with-record"],
        ["star-with-record"],
    ]


@pytest.mark.parametrize(
    "select",
    [
        "SELECT id, Status, max(at) AS at FROM {{ stream('orders') }} GROUP BY id, Status",
        "SELECT DISTINCT id, Status, at FROM {{ stream('orders') }}",
    ],
)
def test_groups_of_one_key_are_told_apart_by_sequence_by(select: str) -> None:
    assert {name for name, _ in problems("mode='upsert', keys='id'", select)} == {
        "group-not-in-keys"
    }
    assert build("mode='upsert', keys='id', sequence_by='at'", select).query.groups


@each_of(
    ("select", "filters"),
    [
        (
            "SELECT Status, count(*) AS n FROM orders GROUP BY Status HAVING count(*) < 3",
            "HAVING",
        ),
        (
            "SELECT Status, count(*) AS n FROM orders GROUP BY Status HAVING n < 3",
            "HAVING",
        ),
        (
            "SELECT Status, count(*) AS n, n * 2 AS m, m + 1 AS o FROM orders GROUP BY Status HAVING o > 3",
            "HAVING",
        ),
        (
            "SELECT Status, count(*) AS n, upper(Status) AS u FROM orders GROUP BY Status HAVING u > 'a'",
            "",
        ),
        (
            "SELECT Status, count(*) AS n FROM orders GROUP BY Status HAVING some(id > 3)",
            "HAVING",
        ),
        (
            "SELECT Status, count(*) AS n FROM orders GROUP BY Status HAVING try_sum(id) < 3",
            "HAVING",
        ),
        (
            "SELECT Status, every(id > 3) AS n FROM orders GROUP BY Status HAVING n",
            "HAVING",
        ),
        (
            "SELECT Status, count(*) AS n FROM orders GROUP BY Status HAVING Status <> 'x'",
            "",
        ),
        (
            "SELECT * FROM (SELECT Status, count(*) AS n FROM orders GROUP BY Status) WHERE n < 3",
            "WHERE",
        ),
        (
            "SELECT * FROM (SELECT Status, count(*) AS n FROM orders GROUP BY Status) WHERE Status LIKE 'a%'",
            "",
        ),
        (
            "WITH g AS (SELECT Status, max(id) AS m FROM orders GROUP BY 1) SELECT Status FROM g WHERE m > 1",
            "WHERE",
        ),
        ("SELECT Status, count(*) AS n FROM orders WHERE id > 3 GROUP BY Status", ""),
    ],
)
def test_groups_are_not_filtered_by_what_may_change(select: str, filters: str) -> None:
    text = select.replace("orders", "{{ stream('orders') }}")
    if filters:
        place = f"models/m.sql:2:{text.index(filters) + 1}"
        assert problems("mode='upsert', keys='Status'", text) == [
            ("filtered-groups", place)
        ]
    else:
        build("mode='upsert', keys='Status'", text)


def test_a_filter_of_groups_by_a_column_that_an_alias_hides_is_allowed() -> None:
    text = "SELECT max(at) AS at, date(at) AS day FROM {{ stream('orders') }} GROUP BY date(at) HAVING day > '2026-01-01'"
    assert build("mode='upsert', keys='day'", text).query.filters


@each_of(
    ("select", "config", "condition"),
    [
        ("SELECT DISTINCT Status FROM orders", "mode='append'", "watermark-missing"),
        (
            "SELECT Status FROM orders UNION SELECT Status FROM orders",
            "mode='append'",
            "watermark-missing",
        ),
        ("SELECT DISTINCT Status FROM orders", "mode='upsert', keys='Status'", ""),
        (
            "SELECT n, count(*) AS c FROM (SELECT Status, count(*) AS n FROM orders GROUP BY Status) GROUP BY n",
            "mode='upsert', keys='n'",
            "nested-aggregate",
        ),
        (
            "SELECT Status, id, count(*) AS n FROM orders GROUP BY ROLLUP (Status, id)",
            "mode='upsert', keys=['Status']",
            "group-not-in-keys",
        ),
        (
            "SELECT coalesce(Status, 'all') AS s, grouping_id() AS g, 1 AS n FROM orders GROUP BY CUBE (Status)",
            "mode='upsert', keys=['s', 'g']",
            "",
        ),
        ("SELECT struct(*) AS s FROM orders", "mode='append'", ""),
        (
            "SELECT struct(*) AS s, _record.topic AS t FROM orders",
            "mode='append'",
            "star-in-function",
        ),
        (
            "SELECT id, hash(*) AS h FROM orders",
            "mode='upsert', keys='id'",
            "star-in-function",
        ),
        (
            "SELECT a.id FROM orders AS a LEFT JOIN orders AS b ON a.id = b.id",
            "mode='append'",
            "outer-join",
        ),
        ("SELECT id FROM orders;;", "mode='append'", ""),
    ],
)
def test_what_spark_or_a_mode_cannot_keep_is_refused(
    select: str, config: str, condition: str
) -> None:
    text = select.replace("orders", "{{ stream('orders') }}")
    if condition:
        assert {name for name, _ in problems(config, text)} == {condition}
    else:
        build(config, text)


@pytest.mark.parametrize(
    "select",
    [
        "SELECT a.id FROM orders AS a JOIN orders AS b ON a.id = b.id",
        "SELECT id, n FROM (SELECT a.id, 1 AS n FROM orders AS a, orders AS b)",
        "SELECT id FROM orders UNION ALL SELECT a.id FROM (orders AS a JOIN orders AS b ON a.id = b.id)",
    ],
)
def test_streams_are_joined_in_mode_append_only(select: str) -> None:
    text = select.replace("orders", "{{ stream('orders') }}")
    assert problems("mode='upsert', keys='id'", text) == [
        ("upsert-over-join", "models/m.sql:1:16")
    ]
    assert build("mode='append'", text).query.stateful


def test_a_stream_may_be_called_as_a_word_of_sql() -> None:
    select = build("mode='append'", "SELECT a FROM {{ stream('values') }}")
    assert select.text.strip() == "SELECT a FROM `values`"
    assert output_columns(select) == (Column("a", "int"),)


def test_a_compiled_file_ends_each_statement_and_is_stable() -> None:
    config = "mode='upsert', keys='id', delete_when=\"Status = 'x'\", partition_by='days(at)'"
    text = (
        "-- first\nSELECT id, Status, at /* c */ FROM {{ stream('orders') }} -- last;\n"
    )
    compiled = compiled_text(build(config, text))
    assert compiled == compiled_text(build(config, text))
    assert compiled.endswith(";\n") and compiled.startswith(
        "-- shop.m: mode upsert, table lake.main.m; "
    )
    assert all(
        line.startswith("-- ") for line in compiled.split("\n\n")[0].splitlines()
    )
    statements = [
        line
        for line in compiled.splitlines()
        if line.split(" ")[0] in ("CREATE", "ALTER", "MERGE", "INSERT")
    ]
    calls = [line for line in compiled.splitlines() if line.startswith("CALL ")]
    assert len(statements) == 6 and len(calls) == 10
    assert compiled.count(";\n") == 16 and "last" not in compiled.replace(
        "retain_last", ""
    )


KEYED = "{{ config(mode='upsert', keys='id') }} SELECT id, status AS s, amount FROM {{ stream('orders') }}"
IMPORTED = (
    "WITH r AS (SELECT * FROM {{ ref('other') }}) "
    "SELECT o.id, r.%s AS x FROM {{ stream('orders') }} o JOIN r ON r.id = o.id"
)


def test_the_columns_of_a_joined_model_are_those_of_its_select() -> None:
    assert build("mode='append'", IMPORTED % "s", other=KEYED).columns == ("id", "x")
    assert problems("mode='append'", IMPORTED % "status", other=KEYED) == [
        ("unknown-column", "models/m.sql:2:61")
    ]


def test_the_columns_of_a_model_read_as_a_stream_are_those_of_its_select() -> None:
    first = "{{ config(mode='append') }} SELECT id, amount AS eur FROM {{ stream('orders') }}"
    select = "SELECT id, amount FROM {{ stream('first') }}"
    assert problems("mode='append'", select, first=first) == [
        ("unknown-column", "models/m.sql:2:12")
    ]


def test_the_columns_of_a_joined_model_that_is_wrong_are_not_known() -> None:
    wrong = KEYED.replace("status", "state")
    assert build("mode='append'", IMPORTED % "anything", other=wrong).columns == (
        "id",
        "x",
    )


@pytest.mark.parametrize("table", ["{{ this }}", "lake.elsewhere.t"])
def test_the_columns_of_other_tables_are_not_known(table: str) -> None:
    select = f"SELECT o.id, t.anything, unknown FROM {{{{ stream('orders') }}}} o JOIN {table} t ON t.x = o.id"
    assert build("mode='append'", select).columns == ("id", "anything", "unknown")


def test_the_columns_of_a_joined_model_may_be_known_in_part_only() -> None:
    """A star over a table of somebody else's may have any."""
    other = "{{ config(mode='append') }} SELECT f.*, o.id AS k FROM {{ stream('orders') }} o JOIN lake.else.f ON f.x = o.id"
    assert build("mode='append'", IMPORTED % "anything", other=other).columns == (
        "id",
        "x",
    )


@pytest.mark.parametrize("name", ["_record.partition", "o._record.offset", "_RECORD"])
def test_the_columns_that_lakesql_adds_to_a_stream_are_known(name: str) -> None:
    assert build(
        "mode='append'", f"SELECT {name} AS x FROM {{{{ stream('orders') }}}} o"
    ).columns == ("x",)


@pytest.mark.parametrize(
    ("conf", "found"),
    [
        ({}, [("unknown-function", "models/m.sql:2:8")]),
        ({"spark.sql.extensions": "org.example.Functions"}, []),
        ({"spark.sql.catalogImplementation": "hive"}, []),
    ],
)
def test_functions_that_a_setting_may_add_are_not_known(
    conf: dict[str, str], found: list[tuple[str, str]]
) -> None:
    select = "{{ config(mode='append') }}\nSELECT st_area(id) AS x FROM {{ stream('orders') }}"
    manifest = load({"streams/s.yml": STREAMS, "models/m.sql": select})
    target = replace(manifest.target, spark=Spark(conf=conf))
    try:
        build_select(replace(manifest, target=target), "m")
    except ProjectError as error:
        assert [
            (problem.condition, str(problem.place)) for problem in error.problems
        ] == found
    else:
        assert found == []


@each_of(
    ("expression", "expected"),
    [
        ("id + 1", "bigint"),
        ("count(*)", "bigint"),
        ("sum(amount)", "decimal(22,2)"),
        ("max(at)", "timestamp"),
        ("upper(Status)", "string"),
        ("amount > 1", "boolean"),
        ("CASE WHEN id > 1 THEN status ELSE 'none' END", "string"),
        ("coalesce(status, 'none')", "string"),
        ("coalesce(id, 'none')", ""),
        ("amount * 2", ""),
        ("reverse(status)", ""),
    ],
)
def test_types_follow_from_those_of_the_columns_as_far_as_they_surely_do(
    expression: str, expected: str
) -> None:
    group = " GROUP BY at" if expression.startswith(("count", "sum", "max")) else ""
    select = build(
        "mode='append'",
        f"SELECT at, {expression} AS y FROM {{{{ stream('orders') }}}}{group}",
    )
    assert output_columns(select) == (Column("at", "timestamp"), Column("y", expected))


def test_a_compiled_table_with_known_types_runs_as_it_stands() -> None:
    first = "{{ config(mode='upsert', keys='id') }} SELECT id, upper(status) AS s FROM {{ stream('orders') }}"
    select = "SELECT o.id, r.s, r.s = 'X' AS is_x FROM {{ stream('orders') }} o JOIN {{ ref('first') }} r ON r.id = o.id"
    text = compiled_text(build("mode='append'", select, first=first))
    assert "  id bigint,\n  s string,\n  is_x boolean\n" in text
    assert UNKNOWN_TYPE not in text


@each_of(
    ("key", "window", "is_key"),
    [
        ("CAST(window.start AS date)", "'1 hour'", False),
        ("CAST(window.start AS date)", "'1 day'", True),
        ("CAST(window.end AS date)", "'1 week'", True),
        ("to_date(window.start)", "'1 day'", True),
        ("date(window.start)", "'1 day'", True),
        ("to_date(window.start)", "'1 day', '1 hour'", False),
        ("to_date(window.start)", "'36 hours', '12 hours'", False),
        ("date_trunc('DAY', window.start)", "'1 day'", True),
        ("date_trunc('HOUR', window.start)", "'90 minutes'", False),
        ("CAST(window.start AS string)", "'1 hour'", True),
        ("CAST(window.start AS bigint)", "'1 hour'", True),
        ("CAST(window.start AS bigint)", "'100 milliseconds'", False),
        ("CAST(window.start AS tinyint)", "'1 day'", False),
        ("CAST(window AS string)", "'1 hour'", True),
    ],
)
@each_of(
    "select",
    [
        "SELECT {key} AS k, count(*) AS n FROM {stream} GROUP BY window(at, {window})",
        "SELECT {key} AS k, count(*) AS n FROM (SELECT window(at, {window}) AS window FROM {stream}) GROUP BY window",
        "SELECT {key} AS k, n FROM (SELECT window(at, {window}) AS window, count(*) AS n FROM {stream} GROUP BY 1)",
    ],
)
def test_what_rounds_the_start_of_a_window_is_a_key_where_no_two_become_one(
    key: str, window: str, is_key: bool, select: str
) -> None:
    text = select.format(key=key, window=window, stream="{{ stream('orders') }}")
    if is_key:
        assert build("mode='upsert', keys='k'", text).query.groups
    else:
        assert {name for name, _ in problems("mode='upsert', keys='k'", text)} == {
            "group-not-in-keys"
        }


@each_of(
    "cast",
    [
        "CAST(at AS date)",
        "CAST(amount AS int)",
        "CAST(id AS int)",
        "CAST(Status AS boolean)",
    ],
)
def test_a_cast_that_maps_several_values_to_one_is_no_key(cast: str) -> None:
    column = cast.removeprefix("CAST(").split(" ")[0]
    select = f"SELECT {cast} AS k, count(*) AS n FROM {{{{ stream('orders') }}}} GROUP BY {column}"
    assert {name for name, _ in problems("mode='upsert', keys='k'", select)} == {
        "group-not-in-keys"
    }


@each_of(
    "select",
    [
        "SELECT session_window.start AS s, count(*) AS n FROM {s} GROUP BY session_window(at, '1 minute')",
        "SELECT session_window(at, '1 minute') AS s, count(*) AS n FROM {s} GROUP BY 1",
        "SELECT session_window(at, '1 minute') AS s, count(*) AS n FROM {s} GROUP BY s",
        "SELECT session_window(at, '1 minute') AS s, count(*) AS n FROM {s} GROUP BY ALL",
        "SELECT s, count(*) AS n FROM (SELECT Session_Window(at, '1 minute') AS s FROM {s}) GROUP BY s",
        "SELECT count(*) AS n FROM {s} GROUP BY 'a', session_window(at, '1 minute')",
        "SELECT DISTINCT session_window(at, '1 minute') AS s FROM {s}",
    ],
)
def test_a_session_is_one_of_a_key(select: str) -> None:
    """Spark: Global aggregation with session window in streaming query is not
    supported."""
    session, stream = "session_window(at, '1 minute')", "{{ stream('orders') }}"
    found = problems("mode='append'", select.replace("{s}", stream))
    assert {name for name, _ in found} == {"session-without-key"}
    for keyed in (
        f"SELECT count(*) AS n FROM {stream} GROUP BY id, {session}",
        f"SELECT count(*) AS n FROM (SELECT at, 'all' AS of FROM {stream}) GROUP BY of, {session}",
        f"SELECT id, {session} AS s, count(*) AS n FROM {stream} GROUP BY ALL",
        f"SELECT DISTINCT id, {session} AS s FROM {stream}",
    ):
        assert build("mode='append'", keyed).query.stateful


def test_sessions_are_appended_and_not_merged() -> None:
    select = "SELECT id, session_window.start AS s, count(*) AS n FROM {{ stream('orders') }} GROUP BY id, {by}"
    select = select.replace("{by}", "session_window(at, '10 seconds')")
    assert {
        name for name, _ in problems("mode='upsert', keys=['id', 's']", select)
    } == {"session-in-upsert"}
    assert build("mode='append'", select).query.aggregated


@each_of(
    ("where", "begins"),
    [
        ("at > (SELECT max(at) FROM {{ this }})", False),
        ("at > (SELECT max(at) - INTERVAL 1 DAY FROM {{ this }})", False),
        ("id > 3 AND (SELECT max(at) FROM {{ this }}) < at", False),
        ("at > (SELECT max(at) FROM {{ this }}) + INTERVAL 1 HOUR", False),
        ("id IN (SELECT id FROM {{ this }})", False),
        ("EXISTS (SELECT 1 FROM {{ this }})", False),
        (
            "at > coalesce((SELECT max(at) FROM {{ this }}), TIMESTAMP '1970-01-01')",
            True,
        ),
        (
            "at > (SELECT coalesce(max(at), TIMESTAMP '1970-01-01') FROM {{ this }})",
            True,
        ),
        ("id > (SELECT count(*) FROM {{ this }})", True),
        ("id NOT IN (SELECT id FROM {{ this }})", True),
        ("NOT EXISTS (SELECT 1 FROM {{ this }})", True),
        (
            "(SELECT max(at) FROM {{ this }}) IS NULL OR at > (SELECT max(at) FROM {{ this }})",
            True,
        ),
    ],
)
def test_a_where_that_no_row_passes_while_the_table_is_empty_is_refused(
    where: str, begins: bool
) -> None:
    select = f"SELECT id, at FROM {{{{ stream('orders') }}}} WHERE {where}"
    if begins:
        assert build("mode='append'", select).query.filters
    else:
        assert {name for name, _ in problems("mode='append'", select)} == {
            "never-begins"
        }
