"""A Hive metastore is asked by several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lakesql.catalog.tables import load_table_state
from lakesql.model.table_name import TableName
from tests.catalogs.command import Command
from tests.catalogs.places import Place
from tests.servers.hive import HiveMetastore
from tests.spark.project import Project

MODELS = 6
ASKED = 60


def test_threads_do_not_get_each_others_answers(
    hive_in_folder: Place, tmp_path: Path
) -> None:
    project = Project(hive_in_folder.lake, tmp_path, "threads")
    project.stream("s", {"id": "bigint"})
    for number in range(MODELS):
        project.model(
            f"m{number}", f"SELECT id, id AS c{number} FROM {{s}}", mode="append"
        )
    project.record("s", [{"id": 1}])
    project.run().check()

    def columns(number: int) -> list[str]:
        name = TableName("hive", "threads", f"m{number % MODELS}")
        state = load_table_state(project.lake.catalog, name)
        assert state is not None
        return [column.name for column in state.columns]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(columns, range(ASKED), timeout=120))
    assert found == [["id", f"c{number % MODELS}"] for number in range(ASKED)]


def test_status_answers_each_time(
    hive_metastore: HiveMetastore, tmp_path: Path
) -> None:
    command = Command(tmp_path)
    catalog = {
        "name": "hive",
        "type": "hive",
        "uri": hive_metastore.uri,
        "warehouse": hive_metastore.warehouse,
    }
    command.write({"catalog": catalog, "namespace": "status"})
    for number in range(5):
        select = "{{ config(mode='append') }}\nSELECT id, state FROM {{ stream('orders') }}\n"
        (tmp_path / f"models/m{number}.sql").write_text(select)
    assert command.run("run", "--select", "orders").code == 0
    for _ in range(3):
        done = command.run("status")
        assert done.code == 0, done.out + done.err
        assert "catalog-unreachable" not in done.out + done.err
