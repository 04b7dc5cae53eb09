"""What depends on offsets that records have not: it would be decided by NULL, and
nobody told."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.compile.build_select import build_select
from lakesql.errors import ProjectError
from lakesql.run.streams.bind import bind_select

PROFILES = """
p:
  target: dev
  outputs:
    dev:
      catalog: {name: lake, type: sql, uri: "sqlite:///lake.db", warehouse: lake}
      namespace: p
      connections:
        bus: {type: BUS}
        broker: {type: kafka, bootstrap_servers: 'h:1'}
"""
STREAMS = """
streams:
  - {name: s, topic: s, connection: bus, columns: {id: bigint, n: bigint}}
  - {name: k, topic: k, connection: broker, columns: {id: bigint, n: bigint}}
"""
APPEND = "{{ config(mode='append') }}\n"
UPSERT = "{{ config(mode='upsert', keys=['id'], sequence_by=['at']) }}\n"
S, K = "{{ stream('s') }}", "{{ stream('k') }}"


def conditions(directory: Path, model: str, bus: str = "kinesis") -> list[str]:
    """What a model is refused for on a target whose connection is of this type."""
    (directory / "pyproject.toml").write_text(
        '[tool.lakesql]\nname = "p"\nprofile = "p"\n'
    )
    (directory / "profiles.yml").write_text(PROFILES.replace("BUS", bus))
    for folder, file, text in (
        ("streams", "s.yml", STREAMS),
        ("models", "m.sql", model),
    ):
        (directory / folder).mkdir(exist_ok=True)
        (directory / folder / file).write_text(text)
    manifest = load_project(Options(project_dir=directory))
    try:
        bind_select(manifest, build_select(manifest, "m"))
    except ProjectError as error:
        return [problem.condition for problem in error.problems]
    return []


@pytest.mark.parametrize(
    "model",
    [
        APPEND + f"SELECT id FROM {S} WHERE _record.offset > 5",
        APPEND + f"SELECT id FROM {S} AS o WHERE o.`_Record`.Offset > 5",
        APPEND + f"SELECT id, _record.offset % 10 AS part FROM {S}",
        APPEND + f"SELECT id, _record['offset'] + 1 AS at FROM {S}",
        APPEND
        + f"WITH r AS (SELECT id, _record.offset AS at FROM {S}) SELECT id FROM r WHERE at > 5",
        UPSERT + f"SELECT id, n, _record.offset AS at FROM {S}",
        "{{ config(mode='upsert', keys=['id']) }}\n"
        + f"SELECT _record.offset AS id, n FROM {S}",
        APPEND
        + f"SELECT s.id FROM {S} AS s JOIN {K} AS k ON s.id = k.id WHERE s._record.offset > 5",
    ],
)
def test_rows_that_depend_on_an_offset_are_refused(tmp_path: Path, model: str) -> None:
    assert conditions(tmp_path, model) == ["no-offset"]
    assert conditions(tmp_path, model, "kafka, bootstrap_servers: 'h:1'") == []


@pytest.mark.parametrize(
    "model",
    [
        APPEND + f"SELECT id, _record.offset AS source_offset FROM {S}",
        APPEND
        + f"SELECT id, _record.partition AS p FROM {S} WHERE _record.partition > 5",
        APPEND
        + f"SELECT id, _record.offset FROM {S} UNION ALL SELECT id, _record.offset FROM {K}",
        APPEND
        + f"SELECT s.id FROM {S} AS s JOIN {K} AS k ON s.id = k.id WHERE k._record.offset > 5",
        UPSERT
        + "SELECT id, n, CAST(element_at(filter(_record.headers, h -> h.key = 'sequence_number'), 1).value AS string)"
        + f" AS at FROM {S}",
    ],
)
def test_what_does_not_is_not(tmp_path: Path, model: str) -> None:
    assert conditions(tmp_path, model) == []


@pytest.mark.parametrize("bus", ["pulsar, url: 'pulsar://h'", "mqtt, url: 'mqtt://h'"])
def test_messages_of_mqtt_have_a_number_and_those_of_pulsar_have_none(
    tmp_path: Path, bus: str
) -> None:
    expected = ["no-offset"] if bus.startswith("pulsar") else []
    assert (
        conditions(
            tmp_path, APPEND + f"SELECT id FROM {S} WHERE _record.offset > 5", bus
        )
        == expected
    )
