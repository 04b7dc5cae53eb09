"""Streams that have nothing to read: folders and files that are not there, topics
without records."""

from __future__ import annotations

import pytest

from lakesql.events import BatchCommitted, ModelFinished, QueryStarted, StreamEmpty
from tests.spark.project import Project

COLUMNS = {"id": "int"}


@pytest.fixture
def empty(project: Project) -> Project:
    project.write("landing/1.txt", "1\n")
    project.stream("no_folder", COLUMNS, path="missing/*.csv", format="csv")
    project.stream("no_such_folder", COLUMNS, path="missing", format="json")
    project.stream("no_match", COLUMNS, path="landing/*.csv", format="csv")
    project.stream("no_topic", COLUMNS)
    project.stream("there", path="landing/*.txt", format="string")
    for name in ("no_folder", "no_such_folder", "no_match", "no_topic"):
        project.model(f"of_{name}", f"SELECT id FROM {{{name}}}", mode="append")
    project.model("downstream", "SELECT id FROM {of_no_match}", mode="append")
    both = (
        "SELECT value FROM {there} UNION ALL SELECT CAST(id AS string) FROM {no_match}"
    )
    project.model("of_both", both, mode="append")
    return project


def test_a_run_says_which_streams_have_nothing_to_read_and_succeeds(
    empty: Project,
) -> None:
    ran = empty.run().check()
    told = {
        (event.model, event.stream): (event.why, event.others_have)
        for event in ran.of(StreamEmpty)
    }
    root = empty.directory
    no_match = f"no file matches {root}/landing/*.csv"
    assert told == {
        ("of_no_folder", "no_folder"): (
            f"no file matches {root}/missing/*.csv: there is no folder {root}/missing",
            False,
        ),
        ("of_no_such_folder", "no_such_folder"): (
            f"no file matches {root}/missing: there is no file or folder of this name",
            False,
        ),
        ("of_no_match", "no_match"): (no_match, False),
        ("of_no_topic", "no_topic"): (
            f"no file matches {root}/recorded/no_topic/*.jsonl: there is no folder {root}/recorded/no_topic",
            False,
        ),
        ("downstream", "of_no_match"): (
            f"there is no row in {empty.table('of_no_match')} yet",
            False,
        ),
        ("of_both", "no_match"): (no_match, True),
    }
    assert ran.finished("of_both").warnings == (f"stream no_match: {no_match}",)
    assert len(empty.rows("of_both")) == 1

    empty.write("landing/1.csv", "7\n")
    empty.record("no_topic", [{"id": 8}])
    empty.write("missing/1.json", '{"id": 9}\n')
    wanted = {
        "of_no_match": 7,
        "downstream": 7,
        "of_no_topic": 8,
        "of_no_such_folder": 9,
    }
    ran = empty.run(*wanted).check()
    assert ran.of(StreamEmpty) == []
    assert {name: empty.rows(name) for name in wanted} == {
        name: [{"id": id_}] for name, id_ in wanted.items()
    }


@pytest.mark.parametrize("folder", ["missing", "missing/day=3"])
def test_a_folder_that_appears_during_a_run_is_read(
    empty: Project, folder: str
) -> None:
    seen: list[int] = []

    def meet(event: object) -> None:
        if isinstance(event, QueryStarted):
            empty.write(f"{folder}/1.json", '{"id": 9}\n')
        if isinstance(event, BatchCommitted):
            seen.append(event.records)

    empty.stream(
        "no_such_folder", {"id": "int", "day": "int"}, path="missing", format="json"
    )
    empty.model(
        "of_no_such_folder",
        "SELECT id, day FROM {no_such_folder}",
        mode="append",
        trigger="1 second",
    )
    ran = empty.run(
        "of_no_such_folder", continuous=True, meet=meet, until=lambda: bool(seen)
    )
    has_columns = "=" in folder
    assert ran.conditions("of_no_such_folder") == []
    assert len(empty.rows("of_no_such_folder")) == 1

    empty.write(f"{folder}/2.json", '{"id": 10}\n')
    empty.run("of_no_such_folder").check()
    day = 3 if has_columns else None
    assert empty.rows("of_no_such_folder", "id") == [
        {"id": 9, "day": day},
        {"id": 10, "day": day},
    ]


def test_a_model_whose_streams_have_nothing_fails_if_that_is_asked_for(
    empty: Project,
) -> None:
    ran = empty.run(
        "of_no_match", "of_no_topic", "downstream", "of_both", fail_if_empty=True
    )
    assert not ran.succeeded
    ends = {
        event.model: (event.status, ran.conditions(event.model))
        for event in ran.of(ModelFinished)
    }
    failed = ("error", ["stream-empty"])
    assert ends == {
        "of_no_match": failed,
        "of_no_topic": failed,
        "downstream": ("skipped", []),
        "of_both": ("success", []),
    }
    # Nothing new is no reason to fail where there is something that was read before.
    assert (
        empty.run("of_both", fail_if_empty=True).check().finished("of_both").records
        == 0
    )
