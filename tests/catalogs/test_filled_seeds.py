"""A seed on each catalog: filled, filled again with other columns, known to be
unchanged, and dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakesql.catalog.seed_table import drop_seed_table
from lakesql.events import SeedFinished
from lakesql.run.seeds.seed import fill_seeds
from tests.catalogs.places import Place
from tests.spark.project import Project

pytestmark = pytest.mark.spark


def fill(project: Project) -> SeedFinished:
    events: list[Any] = []
    fill_seeds(project.manifest(), ["countries"], events.append, is_forced=False)
    (event,) = events
    assert isinstance(event, SeedFinished)
    return event


def test_a_seed_is_filled_on_every_catalog(place: Place, tmp_path: Path) -> None:
    project = Project(place.lake, tmp_path, "seeded")
    project.write("seeds/countries.csv", "code,area\nDE,357022\nFR,643801\n")
    assert fill(project).done == "filled" and fill(project).done == "unchanged"
    first = [{"code": "DE", "area": "357022"}, {"code": "FR", "area": "643801"}]
    assert project.rows("countries") == first == project.rows_without_spark("countries")
    project.write("seeds/countries.csv", "area,name,code\n1,Germany,DE\n")
    project.write(
        "seeds/s.yml",
        "seeds: [{name: countries, columns: {code: string, area: int, name: string}}]\n",
    )
    done = fill(project)
    # which take no other columns
    if place.lake.catalog.profile.name in ("hive", "nessie"):
        assert [problem.condition for problem in done.problems] == ["seed-not-filled"]
        assert project.rows("countries") == first
        drop_seed_table(place.lake.catalog, project.manifest().seeds["countries"].table)
        done = fill(project)
    assert (done.done, done.problems) == ("filled", ()) and fill(
        project
    ).done == "unchanged"
    second = [{"code": "DE", "area": 1, "name": "Germany"}]
    assert (
        project.rows("countries")
        == second
        == place.rows_by_duckdb("seeded", "countries")
    )
    drop_seed_table(place.lake.catalog, project.manifest().seeds["countries"].table)
    assert not project.has("countries") and fill(project).rows == 1
    assert project.rows("countries") == second
