"""What compiling refuses is what Iceberg refuses when a table is made, and a variant;
nothing else."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, product

import pytest

from lakesql.compile.storable import find_taken_names, find_unstorable, takes
from lakesql.compile.table import TableColumn, TableSpec, create_table
from lakesql.decode import node_of
from lakesql.errors import Place, ProjectError
from lakesql.model.config import PartitionField
from lakesql.model.table_name import TableName
from lakesql.modes.append import Append
from lakesql.modes.read_config import read_config
from tests.spark.project import Lake, Project

TYPES = (
    *(
        "boolean",
        "tinyint",
        "int",
        "bigint",
        "float",
        "double",
        "decimal(12,2)",
        "date",
        "timestamp",
        "timestamp_ntz",
    ),
    *(
        "string",
        "char(3)",
        "varchar(5)",
        "binary",
        "void",
        "interval",
        "interval day",
        "time",
        "time(3)",
    ),
    *(
        "interval year to month",
        "array<void>",
        "map<string,interval hour>",
        "struct<`a b`:int>",
    ),
)
TRANSFORMS = ("identity", "years", "months", "days", "hours", "bucket", "truncate")

Makes = Callable[[TableSpec], bool]


@pytest.fixture(scope="module")
def makes(lake: Lake) -> Makes:
    """Whether Iceberg makes a table."""
    lake.session.sql("CREATE NAMESPACE lake.storable")
    numbers = count()

    def make(spec: TableSpec) -> bool:
        name = TableName("lake", "storable", f"t{next(numbers)}")
        statement = create_table(
            TableSpec(name, spec.columns, spec.partition_by, properties=spec.properties)
        )[0]
        try:
            lake.session.sql(statement)
        except Exception:  # Spark, Iceberg and Java each have their own
            return False
        return True

    return make


def spec_of(
    columns: dict[str, str], *fields: PartitionField, version: int = 2
) -> TableSpec:
    made = tuple(TableColumn(name, kind) for name, kind in columns.items())
    return TableSpec(
        TableName("lake", "storable", ""),
        made,
        fields,
        properties={"format-version": str(version)},
    )


@pytest.mark.parametrize("version", [2, 3])
def test_types_that_are_refused_are_those_that_iceberg_cannot_store(
    makes: Makes, version: int
) -> None:
    found = {kind: not find_unstorable(kind, version) for kind in TYPES}
    assert found == {
        kind: makes(spec_of({"c": kind}, version=version)) for kind in TYPES
    }


@pytest.mark.parametrize("kind", ["variant", "struct<a:variant>"])
def test_a_variant_is_refused_though_iceberg_holds_it(makes: Makes, kind: str) -> None:
    # pyiceberg cannot read such a table's metadata (tests/unit/test_catalog.py).
    assert makes(spec_of({"c": kind}, version=3))
    assert find_unstorable(kind, 3) == "variant"


def test_transforms_that_are_refused_are_those_that_iceberg_refuses_for_the_type(
    makes: Makes,
) -> None:
    kinds = [kind for kind in TYPES if not find_unstorable(kind, 2)]
    cases = [(kind, field_of(word, "c")) for kind, word in product(kinds, TRANSFORMS)]
    found = {case: takes(case[1], case[0]) for case in cases}
    assert found == {case: makes(spec_of({"c": case[0]}, case[1])) for case in cases}


def test_pairs_of_partitions_that_are_refused_are_those_that_iceberg_refuses(
    makes: Makes,
) -> None:
    columns = {"d": "timestamp", "s": "string"}
    times = [("identity", "d"), *((word, "d") for word in TRANSFORMS[1:5])]
    texts = [("identity", "s"), ("bucket", "s"), ("truncate", "s")]
    cases = [
        (field_of(*one), field_of(*two))
        for group in (times, texts)
        for one, two in product(group, group)
    ]
    assert {pair: is_accepted(*pair) for pair in cases} == {
        pair: makes(spec_of(columns, *pair)) for pair in cases
    }


def test_partition_names_that_are_refused_are_those_that_iceberg_refuses(
    makes: Makes,
) -> None:
    suffixes = ("_year", "_month", "_day", "_hour", "_bucket", "_trunc", "_bucket_4")
    for word, suffix in product(TRANSFORMS, suffixes):
        kind = "string" if word == "truncate" else "timestamp"
        columns, field = {"c": kind, f"c{suffix}": "int"}, field_of(word, "c")
        assert makes(spec_of(columns, field)) == (
            not find_taken_names([field], columns)
        ), (word, suffix)


def test_a_type_that_only_spark_knows_ends_the_run_before_anything_is_made(
    project: Project,
) -> None:
    project.stream("s", {"id": "int", "deep": "struct<`a b`:int>"})
    project.model(
        "never", "SELECT id, make_interval(id) AS later FROM {s}", mode="append"
    )
    project.model("deep", "SELECT id, deep FROM {s}", mode="append")
    project.record("s", [{"id": 1, "deep": {"a b": 2}}])
    for _ in range(2):  # the second time the column is compared with the table's
        ran = project.run()
        assert [problem.condition for problem in ran.finished("never").problems] == [
            "unstorable-type"
        ]
        assert ran.finished("deep").status == "success"
    assert not project.has("never")
    assert project.rows("deep") == [{"id": 1, "deep": {"a b": 2}}]


def field_of(word: str, column: str) -> PartitionField:
    return PartitionField(word, column, 4 if word in ("bucket", "truncate") else None)


def is_accepted(*fields: PartitionField) -> bool:
    texts = [f"{f.transform}({'4, ' if f.width else ''}{f.column})" for f in fields]
    place = Place("m.sql", 1, 1)
    try:
        config = read_config(
            node_of({"mode": "append", "partition_by": tuple(texts)}, place),
            node_of({}, place),
        )
    except ProjectError:
        return False
    assert isinstance(config, Append) and config.partition_by == fields
    return True
