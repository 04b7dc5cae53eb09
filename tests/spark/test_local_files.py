"""Tables in folders of this machine: the file system that writes them, and links on the
way."""

from __future__ import annotations

import os
from pathlib import Path

from lakesql.engine.ledger import snapshots
from lakesql.engine.spark.gateway import java_class
from lakesql.model.table_name import TableName
from tests.spark.project import Project

LONG_AGO_S = 1_700_000_000


def test_tables_are_written_by_a_file_system_that_starts_no_processes(
    project: Project,
) -> None:
    project.stream("s", {"id": "int"})
    project.model("m", "SELECT * FROM {s}", mode="append")
    project.record("s", [{"id": 1}])
    project.run().check()

    session = project.lake.session
    table = snapshots.load_table(session, TableName("lake", project.namespace, "m"))
    place = java_class("org.apache.hadoop.fs.Path")(table.location())
    of_tables = place.getFileSystem(table.io().conf())
    of_others = place.getFileSystem(
        session._jsparkSession.sessionState().newHadoopConf()
    )
    assert of_tables.getClass().getSimpleName() == "BareLocalFileSystem"
    assert of_others.getClass().getSimpleName() != "BareLocalFileSystem", (
        "it would list linked folders without end"
    )

    umask = os.umask(0)
    os.umask(umask)
    files = list(Path(table.location()).rglob("*.parquet"))
    assert files and {path.stat().st_mode & 0o777 for path in files} == {0o666 & ~umask}


def test_the_folder_of_a_table_may_be_a_link(project: Project, tmp_path: Path) -> None:
    """As where one large table lies on a disk of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    folder = Path(project.lake.catalog.profile.warehouse) / project.namespace / "m"
    folder.parent.mkdir()
    folder.symlink_to(disk)
    project.stream("s", {"id": "int", "v": "string"})
    project.model("m", "SELECT * FROM {s}", mode="upsert", keys="id")
    for value in ("a", "b"):
        project.record("s", [{"id": 1, "v": value}])
        project.run().check()
    assert project.rows("m") == [{"id": 1, "v": "b"}]

    orphan = disk / "data" / "orphan.parquet"
    orphan.write_text("")
    os.utime(orphan, (LONG_AGO_S, LONG_AGO_S))
    project.lake.session.sql(
        f"CALL lake.system.remove_orphan_files(table => '{project.namespace}.m')"
    )
    assert not orphan.exists()
    assert project.rows("m") == [{"id": 1, "v": "b"}]
