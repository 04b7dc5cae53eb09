"""Keys of the catalog's block that Spark does not take."""

from __future__ import annotations

import pytest

from lakesql.engine.spark.failure import explain
from lakesql.engine.spark.session import catalog_conf, new_session
from lakesql.errors import ProfileError
from lakesql.project.profiles import Catalog
from tests.spark.project import Lake
from tests.unit.test_select import build


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("io-impl", "com.example.Missing"),
        ("cache.expiration-interval-ms", "soon"),
        ("clients", "x"),
    ],
)
def test_a_catalog_that_spark_cannot_open_is_the_profiles_fault(
    lake: Lake, key: str, value: str
) -> None:
    known = lake.catalog.profile
    session = new_session(lake.session)
    for name, setting in catalog_conf(
        Catalog("bad", known.type, known.uri, known.warehouse, {key: value})
    ).items():
        session.conf.set(name, setting)
    with pytest.raises(Exception, match=value) as caught:
        session.sql("SHOW TABLES IN bad.nowhere").collect()
    found = explain(
        caught.value, build("mode='append'", "SELECT id FROM {{ stream('orders') }}")
    )
    assert isinstance(found, ProfileError)
    assert [problem.condition for problem in found.problems] == ["catalog-options"]
