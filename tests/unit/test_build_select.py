"""What a SELECT keeps of the tables that it reads, whatever is asked of its rows
besides."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.compile.build_select import build_select
from lakesql.compile.checks import INVALID_TEXT

FILES = {
    "pyproject.toml": '[tool.lakesql]\nname = "shop"\n',
    "profiles.yml": "shop:\n  target: dev\n  outputs:\n    dev:\n      namespace: shop\n"
    "      catalog: {name: lake, type: sql, uri: 'sqlite:///lake.db', warehouse: lake}\n"
    "      connections: {kafka: {type: recorded, path: recorded}}\n",
    "seeds/regions.csv": "region,manager\nnorth,Ada\n",
    "seeds/regions.yml": "seeds:\n  - name: regions\n    columns: {region: string, manager: string}\n",
    "models/landed.sql": "{{ config(mode='upsert', keys=['key']) }}\n"
    "SELECT CAST(o._record.key AS string) AS key, r.manager\n"
    "FROM {{ stream('orders') }} AS o JOIN {{ ref('regions') }} AS r ON r.region = o.region\n",
}
STREAM = "streams:\n  - {name: orders, connection: kafka, topic: t, columns: {region: string}, invalid_text: %s}\n"


@pytest.mark.parametrize("invalid_text", ["replace", "dead_letter"])
def test_the_columns_of_joined_tables_are_known(
    invalid_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, text in {**FILES, "streams/orders.yml": STREAM % invalid_text}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.chdir(tmp_path)
    select = build_select(load_project(Options()), "landed")
    assert [*select.input_columns.values()] == [
        (("region", "manager"), ("string", "string"))
    ]
    assert (INVALID_TEXT in {check.name for check in select.checks}) == (
        invalid_text == "dead_letter"
    )
