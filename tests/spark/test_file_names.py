"""Names of files and folders: whatever characters they have, each file that a path
means is read once, or is said."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesql.engine.sources.globs import list_files
from lakesql.events import FilesLeftOut
from tests.spark.project import Project

ALPHABET = "[]{}?*,\\%#+&=:'\" _.éß日^!~$()ab1"
Writer = Callable[[Path, int], None]


def write_json(file: Path, id_: int) -> None:
    file.write_text(json.dumps({"id": id_}) + "\n")


def write_csv(file: Path, id_: int) -> None:
    line = io.StringIO()
    csv.writer(line).writerow([id_])
    file.write_text(line.getvalue())


def write_parquet(file: Path, id_: int) -> None:
    with file.open("wb") as sink:
        pq.write_table(pa.table({"id": pa.array([id_], pa.int64())}), sink)


def write_record(file: Path, id_: int) -> None:
    file.write_text(
        json.dumps(
            {"partition": 0, "offset": id_, "timestamp": 1, "value": {"id": id_}}
        )
        + "\n"
    )


FORMATS: dict[str, Writer] = {
    "json": write_json,
    "csv": write_csv,
    "parquet": write_parquet,
    "string": write_csv,
}


def random_name(choose: random.Random, alphabet: str = ALPHABET) -> str:
    """A name that a file may have; a colon is left out, as Hadoop does not list a local
    folder with one."""
    name = "".join(
        choose.choice(alphabet) for _ in range(choose.randint(1, 8))
    ).replace(":", "")
    return name if name.strip(".") else f"{name}x"


def is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def test_each_file_of_any_name_is_read_once(
    project: Project, feed_seed: int, tmp_path: Path
) -> None:
    """In a project whose own folder has such a name too, beside folders that a pattern
    of it would match."""
    choose = random.Random(feed_seed)
    own = tmp_path / "p[12]{a,b}?*" / random_name(choose)
    for beside in ("p1a__", "p2bxyz", "p"):
        landed = tmp_path / beside / own.name / "json"
        landed.mkdir(parents=True)
        write_json(landed / "foreign.json", -1)
    own.mkdir(parents=True)
    odd = Project(project.lake, own, project.namespace)
    for name in FORMATS:
        columns = {"value": "string"} if name == "string" else {"id": "bigint"}
        odd.stream(f"s_{name}", columns, path=f"in {name}/*/*.x", format=name)
        odd.model(
            f"m_{name}",
            f"SELECT CAST({next(iter(columns))} AS bigint) AS id FROM {{s_{name}}}",
            mode="append",
        )
    odd.stream("s_topic", {"id": "bigint"}, topic="t")
    odd.model("m_topic", "SELECT id FROM {s_topic}", mode="append")
    odd.stream("s_deep", {"id": "bigint"}, path="in json/**/*.x", format="json")
    odd.model("m_deep", "SELECT id FROM {s_deep}", mode="append")

    wanted: dict[str, list[int]] = {name: [] for name in (*FORMATS, "topic", "deep")}
    hidden: set[str] = set()
    folders = [random_name(choose) for _ in range(3)]
    number = 0
    for _ in range(3):
        for kind in (*FORMATS, "topic"):
            for _ in range(4):
                number += 1
                name = f"{random_name(choose)}{number}.{'jsonl' if kind == 'topic' else 'x'}"
                folder = (
                    own / "recorded" / "t"
                    if kind == "topic"
                    else own / f"in {kind}" / choose.choice(folders)
                )
                folder.mkdir(parents=True, exist_ok=True)
                (write_record if kind == "topic" else FORMATS[kind])(
                    folder / name, number
                )
                if is_hidden(name):
                    hidden.add(str(folder / name))
                    continue
                wanted[kind].append(number)
                if kind == "json" and not is_hidden(folder.name):
                    wanted["deep"].append(number)
        ran = odd.run().check()
        for kind, ids in wanted.items():
            assert [row["id"] for row in odd.rows(f"m_{kind}", "id")] == sorted(ids), (
                kind,
                own,
            )
        told = {event.stream for event in ran.of(FilesLeftOut)}
        assert {
            f"s_{kind}"
            for kind in wanted
            if any(f"/in {kind}/" in path for path in hidden)
        } <= told
    odd.forget("m_json")
    odd.run().check()
    assert [row["id"] for row in odd.rows("m_json", "id")] == sorted(wanted["json"])


def test_hidden_files_are_said_by_name_and_those_of_other_programs_are_not(
    project: Project,
) -> None:
    for name in (
        "a.json",
        "_b.json",
        ".c.json",
        "_SUCCESS",
        ".a.json.crc",
        "s/d.json",
        "_t=1/e.json",
    ):
        file = project.directory / "in" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, 1)
    project.stream("s", {"id": "bigint"}, path="in", format="json")
    project.model("m", "SELECT id FROM {s}", mode="append")
    for said in (
        project.run().check().of(FilesLeftOut),
        project.run().check().of(FilesLeftOut),
    ):
        (event,) = said
        assert (
            str(project.directory / "in/_b.json") in event.why
            and str(project.directory / "in/.c.json") in event.why
        )
        assert "2 files" in event.why
    assert len(project.rows("m")) == 2, (
        "a.json and _t=1/e.json; not s/d.json, whose folder is no column"
    )


def test_a_stream_of_one_file_is_read(project: Project) -> None:
    for name, file in (
        ("plain", "one.json"),
        ("odd", "o[1].json"),
        ("later", "later.json"),
    ):
        project.stream(
            name,
            {"id": "bigint"},
            path=file.replace("[", "\\[").replace("]", "\\]"),
            format="json",
        )
        project.model(f"m_{name}", f"SELECT id FROM {{{name}}}", mode="append")
    write_json(project.directory / "one.json", 1)
    write_json(project.directory / "o[1].json", 2)
    project.run().check()
    write_json(project.directory / "later.json", 3)
    project.run().check()
    assert [project.rows(f"m_{name}") for name in ("plain", "odd", "later")] == [
        [{"id": 1}],
        [{"id": 2}],
        [{"id": 3}],
    ]


def test_a_file_that_has_changed_once_it_was_read_is_said(project: Project) -> None:
    project.stream("s", {"id": "bigint"}, path="in/*.json", format="json")
    project.model("m", "SELECT id FROM {s}", mode="append")
    for name in ("a", "b", "c"):
        project.write(f"in/{name}.json", '{"id": 1}\n')
    assert project.run().check().of(FilesLeftOut) == []
    project.write("in/b.json", '{"id": 1}\n{"id": 2}\n')
    assert project.run_without_java() == []
    (event,) = project.run().check().of(FilesLeftOut)
    assert "1 file " in event.why and str(project.directory / "in/b.json") in event.why
    assert len(project.rows("m")) == 3


def test_recorded_files_that_lakesql_dates_have_not_changed(project: Project) -> None:
    project.stream("s", {"id": "bigint"})
    project.model("m", "SELECT id FROM {s}", mode="append")
    folder = project.directory / "recorded/s"
    folder.mkdir(parents=True)
    for number, name in ((2, "b.jsonl"), (1, "a.jsonl"), (3, "c.jsonl")):
        write_record(folder / name, number)
        assert project.run().check().of(FilesLeftOut) == []
    with (folder / "b.jsonl").open("a") as file:
        file.write(
            '{"partition": 0, "offset": 9, "timestamp": 1, "value": {"id": 9}}\n'
        )
    (event,) = project.run().check().of(FilesLeftOut)
    assert "b.jsonl" in event.why
    assert [row["id"] for row in project.rows("m", "id")] == [1, 2, 3]


def test_columns_come_from_folders_where_the_file_has_none(project: Project) -> None:
    """Of a folder and of a pattern, in JSON and in Parquet; a value is escaped as Hive
    does it."""
    columns = {"id": "bigint", "day": "date", "k": "string", "n": "decimal(6,2)"}
    for kind, path in (("json", "in json"), ("parquet", "in parquet/*/*/*")):
        project.stream(f"s_{kind}", columns, path=path, format=kind)
        project.model(f"m_{kind}", f"SELECT * FROM {{s_{kind}}}", mode="append")
        for id_, folder in enumerate(
            (
                "day=2026-03-01/k=a%2Fb%3D+é",
                "DAY=2026-03-02/k=__HIVE_DEFAULT_PARTITION__",
                "x/n=1.25",
            )
        ):
            file = project.directory / f"in {kind}" / folder / "f.x"
            file.parent.mkdir(parents=True)
            FORMATS[kind](file, id_)
    project.run().check()
    for kind in ("json", "parquet"):
        found = [
            (str(row["day"]), row["k"], str(row["n"]))
            for row in project.rows(f"m_{kind}", "id")
        ]
        assert found == [
            ("2026-03-01", "a/b=+é", "None"),
            ("2026-03-02", None, "None"),
            ("None", None, "1.25"),
        ], kind


def test_a_folder_whose_value_does_not_fit_stops_the_model(project: Project) -> None:
    project.stream("s", {"id": "bigint", "day": "date"}, path="in", format="json")
    project.model("m", "SELECT * FROM {s}", mode="append")
    project.write("in/day=soon/a.json", '{"id": 1}\n')
    ran = project.run()
    (problem,) = ran.finished("m").problems
    assert "day=soon" in problem.what and "date" in problem.what


def test_files_that_the_path_meant_only_later_are_read(project: Project) -> None:
    """Spark lists more than the path means: what it has listed, and was not meant, is
    new once it is."""
    project.stream("s", {"id": "bigint"}, path="in/*", format="json")
    project.model("m", "SELECT id FROM {s}", mode="append")
    project.write("in/d/a.json", '{"id": 1}\n')
    project.write("in/d/deep/b.json", '{"id": 2}\n')
    project.run().check()
    assert project.rows("m") == [{"id": 1}]
    project.stream("s", {"id": "bigint"}, path="in/**", format="json")
    project.run().check()
    assert project.rows("m", "id") == [{"id": 1}, {"id": 2}]
    project.stream("s", {"id": "bigint"}, path="in/*", format="json")
    project.run().check()
    assert project.rows("m", "id") == [{"id": 1}, {"id": 2}]
    assert len(list_files(project.lake.session, f"{project.directory}/in/*")) == 1


def test_a_colon_in_a_name_is_refused_by_name(project: Project) -> None:
    project.stream("s", {"id": "bigint"}, path="in/*.json", format="json")
    project.model("m", "SELECT id FROM {s}", mode="append")
    project.write("in/a.json", '{"id": 1}\n')
    odd = project.write("in/2026-03-01T10:00.json", '{"id": 2}\n')
    ran = project.run()
    (problem,) = ran.finished("m").problems
    assert problem.condition == "file-name" and str(odd) in problem.what
    odd.rename(odd.with_name("10.json"))
    project.run().check()
    assert project.rows("m", "id") == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize("kind", ["parquet", "avro", "json"])
def test_an_unreadable_file_is_refused_by_name(project: Project, kind: str) -> None:
    project.stream("s", {"id": "bigint"}, path="in/*", format=kind)
    project.model("m", "SELECT id FROM {s}", mode="append")
    name = {"json": "é b.json.gz"}.get(kind, f"é b.{kind}")
    odd = project.write(f"in/{name}", b"\x1f\x8bPAR1 nothing of the kind")
    ran = project.run()
    (problem,) = ran.finished("m").problems
    assert problem.condition == "file-unreadable" and str(odd) in problem.what
    odd.unlink()
    project.run().check()
    assert project.rows("m") == []
