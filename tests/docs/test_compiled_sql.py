"""What `lakesql compile` shows is what Spark is given."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from docs.readme import README
from lakesql.compile.batch import BOUNDS_PLACE
from lakesql.compile.build_select import build_selects
from lakesql.compile.select import output_columns
from lakesql.compile.statements import compiled_text
from lakesql.compile.table import UNKNOWN_TYPE

if TYPE_CHECKING:
    from tests.spark.project import Fields, Project

COLUMNS = {
    "id": {"type": "bigint", "required": True},
    "status": "string",
    "at": "timestamp",
}
RECORDS = [
    {"id": 1, "status": "new", "at": "2026-03-01T10:00:00Z"},
    {"id": 1, "status": "new", "at": "2026-03-01T11:00:00Z"},
    {"id": 2, "status": "gone", "at": "2026-03-01T12:30:00Z"},
]
PLAIN = "SELECT id, status, at FROM {orders}"
JOINED = (
    "SELECT o.id, o.status, k.at FROM {orders} AS o JOIN {known!r} AS k ON k.id = o.id"
)
COUNTED = "SELECT window(at, '1 hour').start AS hour, count(*) AS orders FROM {orders} GROUP BY window(at, '1 hour')"
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "appended": (PLAIN, {"mode": "append", "partition_by": ["days(at)"]}),
    "kept": (
        PLAIN,
        {
            "mode": "upsert",
            "keys": ["id"],
            "sequence_by": "at",
            "delete_when": "status = 'gone'",
        },
    ),
}
LONG: dict[str, tuple[str, dict[str, Any]]] = {
    "as_told": (
        PLAIN,
        {"mode": "append", "properties": {"format-version": "3", "purpose": "a trial"}},
    ),
    "kept_by_arrival": (PLAIN, {"mode": "upsert", "keys": ["id"]}),
    "joined": (JOINED, {"mode": "append"}),
    "history": (PLAIN, {"mode": "scd2", "keys": ["id"], "sequence_by": "at"}),
    "counted": (COUNTED, {"mode": "append"}),
    "emptied": (PLAIN, {"mode": "upsert", "keys": ["id"], "sequence_by": "at"}),
    "joined_kept": (JOINED, {"mode": "upsert", "keys": ["id"]}),
    "counted_kept": (COUNTED, {"mode": "upsert", "keys": ["hour"]}),
    "first_kept": (PLAIN, {"mode": "append", "keys": ["id"]}),
    "mirrored": (PLAIN, {"mode": "cdc", "keys": ["id"]}),
    "mirrored_in_sequence": (
        "SELECT id, status, at, _change.position AS position FROM {orders}",
        {"mode": "cdc", "keys": ["id"], "sequence_by": "_change.position"},
    ),
    "mirrored_history": (PLAIN, {"mode": "scd2", "keys": ["id"], "sequence_by": "at"}),
}
"""Those that are left to the tier of tests that take long."""

NOT_SHOWN = "CREATE NAMESPACE"
"""What is no statement of the model's own."""


@pytest.mark.spark
@pytest.mark.parametrize(
    "name", [*MODELS, *(pytest.param(name, marks=pytest.mark.long) for name in LONG)]
)
def test_spark_is_given_the_compiled_statements_and_no_other(
    name: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    select, config = (MODELS | LONG)[name]
    from tests.spark.project import Fields

    takes_tombstones, is_feed = name == "emptied", name.startswith("mirrored")
    own = {"key": ["id"]} if takes_tombstones or is_feed else {}
    own |= (
        {"envelope": "debezium"}
        if is_feed
        else {"watermark": {"column": "at", "delay": "1 minute"}}
    )
    project.stream("orders", COLUMNS, **own)
    records = [change(record) for record in RECORDS] if is_feed else RECORDS
    tombstones = [Fields(key={"id": 2}, value=None)] if takes_tombstones else []
    project.record("orders", [*records, *tombstones])
    if "{known!r}" in select:
        project.model("known", PLAIN, mode="append")
        project.run("known").check()
    project.model(name, select, maintenance=False, **config)
    (built,) = build_selects(project.manifest(), [name]).values()
    untyped = [column.name for column in output_columns(built) if not column.type]

    given = record_statements(monkeypatch)
    project.run(name).check()
    # The second time as well: after their first batch no deleted key is old yet, and
    # none is forgotten.
    project.record("orders", [*records, *tombstones])
    project.run(name).check()

    given = [
        with_place_for_types(text, untyped)
        for text in given
        if not text.startswith(NOT_SHOWN)
    ]
    given = [without_default_properties(text) for text in given]
    ran, shown = (
        {with_place_for_bounds(text) for text in given},
        statements(compiled_text(built)),
    )
    # Of a mirror, batches run further ones where they have a truncate, or rows that get
    # other keys.
    assert ran == shown or (
        config["mode"] == "cdc"
        and ran < shown
        and any(text.startswith("MERGE") for text in ran)
    )
    assert project.rows(name)


def change(row: dict[str, Any]) -> Fields:
    """The event of a change feed that makes it the row of its key."""
    from tests.spark.project import Fields

    lsn = RECORDS.index(row)
    return Fields(
        key={"id": row["id"]},
        value={"op": "c", "before": None, "after": row, "source": {"lsn": lsn}},
    )


def record_statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that goes to Spark from now on."""
    from pyspark.sql import SparkSession

    from lakesql.engine.ledger import commit

    given: list[str] = []
    for owner, name in ((SparkSession, "sql"), (commit, "write_to")):
        run = getattr(owner, name)

        def recorded(
            session: SparkSession,
            text: str,
            *arguments: Any,
            run: Any = run,
            **options: Any,
        ) -> Any:
            given.append(text.strip())
            return run(session, text, *arguments, **options)

        monkeypatch.setattr(owner, name, recorded)
    return given


def statements(compiled: str) -> set[str]:
    """The statements of a compiled file; of a view, which the engine makes by itself,
    the query."""
    without_comments = re.sub(r"^--.*\n", "", compiled, flags=re.MULTILINE)
    found = (text.strip() for text in without_comments.split(";\n"))
    return {
        re.sub(r"^CREATE OR REPLACE TEMPORARY VIEW \w+ AS\n", "", text)
        for text in found
        if text
    }


def with_place_for_types(text: str, untyped: list[str]) -> str:
    """A CREATE TABLE as the compiled file shows it, with a mark for each type that
    Spark alone knew."""
    for name in untyped if text.startswith("CREATE TABLE") else ():
        text, times = re.subn(
            rf"^(  {name}) \S+?(,?)$",
            rf"\1 {UNKNOWN_TYPE}\2",
            text,
            count=1,
            flags=re.MULTILINE,
        )
        assert times == 1
    return text


def without_default_properties(text: str) -> str:
    """A CREATE TABLE as the compiled file shows it: without the defaults, each of which
    it gives or overrides."""
    found = (
        re.search(r"\nTBLPROPERTIES \(\n(.+)\n\)\Z", text, re.DOTALL)
        if text.startswith("CREATE TABLE")
        else None
    )
    if found is None:
        assert not text.startswith("CREATE TABLE")
        return text
    given = dict(re.findall(r"^  '(.+)' = '(.+)',?$", found[1], re.MULTILINE))
    documented = documented_properties()
    assert given.keys() >= documented.keys()
    shown = [
        f"  '{key}' = '{value}'"
        for key, value in given.items()
        if documented.get(key) != value
    ]
    return text[: found.start()] + (
        "\nTBLPROPERTIES (\n" + ",\n".join(shown) + "\n)" if shown else ""
    )


def documented_properties() -> dict[str, str]:
    """The default properties as docs/models.md tells them, to which the compiled file
    refers."""
    page = (README.parent / "docs" / "models.md").read_text("utf-8")
    table = page.split("<!-- generated: table-properties -->")[1].split("<!-- end -->")[
        0
    ]
    found = dict(re.findall(r"^\| `(\S+)` \| `(.+)` \|$", table, re.MULTILINE))
    assert len(found) > 10
    return found


def with_place_for_bounds(text: str) -> str:
    """A statement of a batch as the compiled file shows it, with a mark where the
    batch's keys stand."""
    tables = "target|deleted|stored|remembered"
    bounds = (
        rf"(?<=  AND )((?:_lakesql_)?(?:{tables})\.\w+ (IN \(.+\)|BETWEEN .+)|true)$"
    )
    return re.sub(bounds, lambda _: BOUNDS_PLACE, text, flags=re.MULTILINE)
