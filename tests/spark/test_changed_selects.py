"""SELECTs that Spark accepts, with one name, one count of arguments or the order
changed: what Spark refuses for its names is refused by lakesql as well, and what Spark
accepts is not."""

from __future__ import annotations

import random
import re

import pytest
from pyspark.sql import SparkSession

from lakesql.errors import Place, ProjectError
from lakesql.select.query import read_query
from tests.selects import accepted
from tests.selects.changed import Changed, changed
from tests.spark.test_selects import refusal, session  # noqa: F401
from tests.unit.test_selects import KNOWN, OF_MODELS

OF_NAMES = re.compile(
    r"\[(UNRESOLVED_COLUMN|UNRESOLVED_USING_COLUMN|FIELD_NOT_FOUND|AMBIGUOUS_|INVALID_EXTRACT_BASE_FIELD_TYPE"
    r"|CANNOT_RESOLVE_STAR_EXPAND|WRONG_NUM_ARGS|UNRESOLVED_ROUTINE)"
)
"""What Spark says of names and counts. Whatever else it refuses, types above all, is
for its analyzer to find."""

LEFT_TO_SPARK = {
    r"PIVOT": "the columns of a PIVOT are named after its values, and those of an UNPIVOT of a join are of many tables",
    r"\.snapshots|collations\(": "the columns of a catalog's own tables are known to the catalog",
    r"`count\(": "a name that Spark makes up from an expression",
    r"count\(\w+, NULL\)": "the same: it has another name with another argument",
    r"arrays_zip": "fields that are named after the arguments in whatever way",
    r"window\(n,": "an alias of an aggregate is no time to group by",
    r"\b(any|some|rlike|regexp|char)\(": "words that are operators or types too",
    r"date_add\(hired, 3, NULL\)|datediff\(hired, current_date, NULL\)": "the first argument may be the word of a unit",
    r"struct<a: int, a: ": "a type that names a field twice",
    r"try_mod|count_min_sketch": "sqlglot does not keep where they stand",
    r"VALUES|s\.end|colour\[|session_window": "fields of a value whose type is not known",
}
"""SELECTs in which lakesql finds less than Spark, and why."""

NOT_READ = r"hour\(|minute\(|second\(|shuffle\(|substr(ing)?\(.* FROM "
"""SELECTs that Spark accepts by chance and sqlglot does not read."""


@pytest.mark.long
def test_what_spark_refuses_for_its_names_is_refused(
    session: SparkSession,  # noqa: F811
    pytestconfig: pytest.Config,
) -> None:
    every = [one for select in accepted() for one in changed(select)]
    count = pytestconfig.getoption("--changed-selects")
    chosen = random.Random(pytestconfig.getoption("--seed")).sample(
        every, min(count, len(every))
    )
    differing = {
        one.select: said for one in chosen if (said := difference(session, one))
    }
    assert differing == {}


def difference(spark: SparkSession, one: Changed) -> str:
    """What Spark and lakesql do not agree upon; '' for nothing."""
    said, found = refusal(spark, one.select), find_conditions(one.select)
    if not said:
        return (
            f"refused: {found}" if found and not re.search(NOT_READ, one.select) else ""
        )
    is_left = any(re.search(text, one.select) for text in LEFT_TO_SPARK)
    return said if OF_NAMES.match(said) and not found and not is_left else ""


def find_conditions(select: str) -> list[str]:
    with pytest.raises(ProjectError) as caught:  # as none of them reads a stream
        read_query(select, {}, lambda offset: Place("m.sql", 1, offset + 1), KNOWN)
    return [
        problem.condition
        for problem in caught.value.problems
        if problem.condition not in OF_MODELS
    ]
