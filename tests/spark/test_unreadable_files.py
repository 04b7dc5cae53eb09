"""Files that nobody can read: refused by name, or set aside while each of the others is
read once."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from lakesql.events import BatchCommitted, Noted, RecordsRejected, Retrying
from tests.spark.project import Project
from tests.spark.test_replay_letters import replay

GARBAGE = b"\x1f\x8bPAR1 nothing of the kind" * 40


def parquet(ids: list[int]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), sink)
    return sink.getvalue()


def orc(ids: list[int]) -> bytes:
    sink = io.BytesIO()
    pyarrow.orc.write_table(pa.table({"id": pa.array(ids, pa.int64())}), sink)
    return sink.getvalue()


def lines(ids: list[int]) -> bytes:
    return "".join(f"{json.dumps({'id': id_})}\n" for id_ in ids).encode()


def csv_of(ids: list[int], note: str = "a\nb") -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([["note", "id"], *([note, id_] for id_ in ids)])
    return text.getvalue().encode()


def csv_lines(ids: list[int]) -> bytes:
    """Rows of a line each, for streams whose values have no line break."""
    return csv_of(ids, "a, b")


def avro(ids: list[int]) -> bytes:
    """A container of one block, as the specification of Avro says it."""

    def number(value: int) -> bytes:
        found, left = bytearray(), value << 1
        while left > 0x7F:
            found.append(left & 0x7F | 0x80)
            left >>= 7
        return bytes([*found, left])

    def text(value: str) -> bytes:
        return number(len(value)) + value.encode()

    schema = json.dumps(
        {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
    )
    head = (
        number(2)
        + text("avro.schema")
        + text(schema)
        + text("avro.codec")
        + text("null")
        + number(0)
    )
    data, mark = b"".join(map(number, ids)), bytes(range(16))
    return b"Obj\x01" + head + mark + number(len(ids)) + number(len(data)) + data + mark


def packed(write: Callable[[list[int]], bytes]) -> Callable[[list[int]], bytes]:
    return lambda ids: gzip.compress(write(ids))


def cut(content: bytes) -> bytes:
    return content[: len(content) * 2 // 3]


KINDS: dict[str, tuple[str, Callable[[list[int]], bytes], dict[str, Any]]] = {
    "parquet": ("x.parquet", parquet, {"format": "parquet"}),
    "orc": ("x.orc", orc, {"format": "orc"}),
    "avro": ("x.avro", avro, {"format": "avro"}),
    "json": ("x.json.gz", packed(lines), {"format": "json"}),
    "json-texts": (
        "x.json.gz",
        packed(lines),
        {"format": "json", "unknown_fields": "rescue"},
    ),
    "csv": ("x.csv.gz", packed(csv_of), {"format": "csv", "csv": {"header": True}}),
    "csv-lines": (
        "x.csv.gz",
        packed(csv_lines),
        {"format": "csv", "csv": {"header": True}, "multiline": False},
    ),
    "json-documents": (
        "x.json.gz",
        packed(lines),
        {"format": "json", "multiline": True},
    ),
}


def make(project: Project, kind: str, **options: Any) -> None:
    columns = (
        {"id": "bigint", "note": "string"}
        if kind.startswith("csv")
        else {"id": "bigint"}
    )
    project.stream("s", columns, path="in/**/*", **KINDS[kind][2], **options)
    project.model("m", "SELECT id FROM {s} WHERE id IS NOT NULL", mode="append")


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_read_is_set_aside_and_the_others_are_read_once(
    project: Project, feed_seed: int, kind: str
) -> None:
    """Over several batches, with none, one or several such files among the others, and
    a batch that is tried again."""
    choose = random.Random(feed_seed)
    make(project, kind, ignore_corrupt="dead_letter")
    name, write, _ = KINDS[kind]
    wanted, bad, number = list[int](), set[str](), 0
    for batch, unreadable in enumerate((0, 3, 1, 0)):
        for index in range(4 + unreadable):
            ids = list(range(number, number + choose.choice([1, 50])))
            number += len(ids)
            path = f"in/d é{batch}/{index} [%]+{name}"
            if index < unreadable:
                content = (
                    choose.choice([GARBAGE, cut(write(ids * 500))])
                    if batch == 1
                    else GARBAGE
                )
                bad.add(str(project.write(path, content)))
            else:
                project.write(path, write(ids))
                wanted += ids
        ran = project.run().check()
        assert [row["id"] for row in project.rows("m", "id")] == wanted, batch
        assert sum(
            event.count for event in ran.of(RecordsRejected)
        ) >= unreadable and not ran.of(Retrying)
        assert len(
            [note for note in ran.of(Noted) if "nobody can read" in note.text]
        ) == bool(unreadable)
        before = project.rows("m")
        if batch == 1:
            project.forget("m")
            project.run().check()
            assert project.rows("m") == before
    letters = [
        letter
        for letter in project.rows("m__dead_letter")
        if letter["reason"] == "file-unreadable"
    ]
    assert len(letters) == len(bad) and all(
        letter["timestamp"] is not None for letter in letters
    )
    assert all(any(path in letter["detail"] for letter in letters) for path in bad)


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_an_empty_file_of_a_format_that_has_none_is_refused_or_set_aside(
    project: Project, kind: str
) -> None:
    project.stream("s", {"id": "bigint"}, path="in/*", format=kind)
    project.model("m", "SELECT id FROM {s}", mode="append")
    empty = project.write(f"in/é b.{kind}", b"")
    (problem,) = project.run().finished("m").problems
    assert problem.condition == "file-unreadable" and str(empty) in problem.what
    project.stream(
        "s", {"id": "bigint"}, path="in/*", format=kind, ignore_corrupt="dead_letter"
    )
    assert project.run().conditions("m") == ["no-usable-record"]
    assert project.reasons("m") == {"file-unreadable": 1}
    project.write(f"in/c.{kind}", GARBAGE)
    assert project.run().conditions("m") == ["no-usable-record"]
    assert project.reasons("m") == {"file-unreadable": 2}


def test_an_empty_file_that_is_written_whole_before_the_next_run_is_read(
    project: Project,
) -> None:
    make(project, "parquet")
    project.write("in/a.parquet", b"")
    assert project.run().conditions("m") == ["file-unreadable"]
    project.write("in/a.parquet", parquet([1, 2]))
    project.run().check()
    assert project.rows("m", "id") == [{"id": 1}, {"id": 2}]


def test_a_crash_after_the_dead_letter_leaves_one_letter_and_each_row_once(
    project: Project,
) -> None:
    make(project, "parquet", ignore_corrupt="dead_letter")
    project.write("in/a.parquet", parquet([1]))
    bad = project.write("in/b.parquet", GARBAGE)

    def crash(model: str, step: str) -> None:
        if step == "publish":
            raise OSError("killed")

    assert not project.run(reached=crash).succeeded
    assert project.reasons("m") == {"file-unreadable": 1}
    bad.write_bytes(parquet([2]))  # it is set aside for good
    project.run().check()
    assert project.rows("m") == [{"id": 1}] and project.reasons("m") == {
        "file-unreadable": 1
    }
    project.write("in/c.parquet", parquet([2]))
    project.run().check()
    assert project.rows("m", "id") == [{"id": 1}, {"id": 2}]
    assert not list((project.directory / "checkpoints/m/unreadable").glob("[0-9]*"))


def test_a_stateful_model_sets_a_file_aside_once(project: Project) -> None:
    make(project, "parquet", ignore_corrupt="dead_letter")
    project.model(
        "m",
        "SELECT id % 2 AS k, count(*) AS n FROM {s} GROUP BY id % 2",
        mode="upsert",
        keys=["k"],
    )
    project.write("in/a.parquet", parquet([1, 2, 3]))
    project.write("in/b.parquet", GARBAGE)
    project.write("in/c.parquet", parquet([4]))
    project.run().check()
    assert project.rows("m", "k") == [{"k": 0, "n": 2}, {"k": 1, "n": 2}]
    assert project.reasons("m") == {"file-unreadable": 1}
    project.write("in/d.parquet", parquet([5]))
    project.run().check()
    assert project.rows("m", "k") == [{"k": 0, "n": 2}, {"k": 1, "n": 3}]


def test_one_of_two_streams_sets_aside_and_the_other_refuses(project: Project) -> None:
    for name, options in (("a", {"ignore_corrupt": "dead_letter"}), ("b", {})):
        project.stream(
            name, {"id": "bigint"}, path=f"{name}/*", format="parquet", **options
        )
    project.model("m", "SELECT id FROM {a} UNION ALL SELECT id FROM {b}", mode="append")
    project.write("a/1.parquet", GARBAGE)
    project.write("a/2.parquet", parquet([2]))
    bad = project.write("b/1.parquet", cut(parquet([3])))
    (problem,) = project.run().finished("m").problems
    assert problem.condition == "file-unreadable" and str(bad) in problem.what
    bad.write_bytes(parquet([3]))
    project.run().check()
    assert project.rows("m", "id") == [{"id": 2}, {"id": 3}]
    assert project.reasons("m") == Counter({"file-unreadable": 1})


def test_a_failure_that_is_no_files_fault_sets_nothing_aside(project: Project) -> None:
    make(project, "parquet", ignore_corrupt="dead_letter")
    project.model(
        "m", "SELECT CAST(concat('x', id) AS int) AS id FROM {s}", mode="append"
    )
    project.write("in/a.parquet", parquet([1]))
    assert project.run().conditions("m") == ["expression-failed"]
    project.model("m", "SELECT id FROM {s}", mode="append")
    project.run().check()
    assert project.rows("m") == [{"id": 1}] and not project.reasons("m")


@pytest.mark.parametrize(
    "content", [GARBAGE, cut(gzip.compress(csv_of([*range(5000)])))]
)
def test_a_csv_file_whose_header_cannot_be_read_is_refused_by_name(
    project: Project, content: bytes
) -> None:
    make(project, "csv")
    odd = project.write("in/é b.csv.gz", content)
    (problem,) = project.run().finished("m").problems
    assert problem.condition == "file-unreadable" and str(odd) in problem.what


def test_a_file_with_nanoseconds_lands_beside_one_that_is_set_aside(
    project: Project,
) -> None:
    """In batches of one file each, of which several set one aside in the same run."""
    columns = {"id": "bigint", "t": "timestamp"}
    options = {"format": "parquet", "ignore_corrupt": "dead_letter", "max_per_batch": 1}
    project.stream("s", columns, path="in/*", **options)
    project.model("m", "SELECT id, unix_micros(t) AS t FROM {s}", mode="append")
    for number in range(6):
        sink = io.BytesIO()
        pq.write_table(
            pa.table(
                {"id": [number], "t": pa.array([number * 1000], pa.timestamp("ns"))}
            ),
            sink,
        )
        project.write(
            f"in/{number}.parquet", GARBAGE if number in (1, 4) else sink.getvalue()
        )
    ran = project.run().check()
    assert project.rows("m", "id") == [
        {"id": number, "t": number} for number in (0, 2, 3, 5)
    ]
    assert (
        project.reasons("m") == {"file-unreadable": 2}
        and len(ran.of(BatchCommitted)) == 4
    )


def test_a_replay_leaves_a_file_alone_that_was_set_aside(project: Project) -> None:
    make(project, "csv", ignore_corrupt="dead_letter")
    project.write("in/a.csv.gz", GARBAGE)
    project.write("in/b.csv", "id,note\n1,x\nno,y\n")
    project.run().check()
    assert project.reasons("m") == {"file-unreadable": 1, "unparsable": 1}
    assert dict(replay(project).reasons) == {"unparsable": 1}
    assert project.rows("m") == [{"id": 1}] and project.reasons("m") == {
        "file-unreadable": 1,
        "unparsable": 1,
    }
