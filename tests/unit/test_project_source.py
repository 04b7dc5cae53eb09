"""A file of the project that is a source: what is wrong with it, and that nothing but
reading runs it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lakesql.decode import node_of
from lakesql.errors import Place, ProfileError, ProjectError
from lakesql.source.kinds import project_source
from lakesql.source.project import ProjectSource

RIGHT = """
from dataclasses import dataclass

from lakesql.decode import option
from lakesql.source.log import LogSource


@dataclass(frozen=True, slots=True)
class Mine(LogSource):
    address: str = option("Where it is.")
"""


POSTPONED = f"""
from __future__ import annotations
{RIGHT}
    seconds: int = option("How long.", default=1)
"""


def source(directory: Path, **options: object) -> ProjectSource:
    """The connection of a file of a project."""
    written = {"type": "sources/mine.py", **options}
    found = project_source(
        "sources/mine.py", node_of(written, Place("profiles.yml", 1))
    )
    assert isinstance(found, ProjectSource)
    return found.resolved(directory)


def write(directory: Path, code: str) -> None:
    (directory / "sources").mkdir(exist_ok=True)
    (directory / "sources" / "mine.py").write_text(code)


def test_a_file_that_is_not_there_is_named_until_it_is(tmp_path: Path) -> None:
    with pytest.raises(ProfileError) as raised:
        source(tmp_path).check()
    assert [problem.condition for problem in raised.value.problems] == [
        "source-missing"
    ]
    write(tmp_path, RIGHT)
    source(tmp_path).check()


@pytest.mark.parametrize(
    "code",
    ["def broken(:", "raise ValueError('no')", "import nothing_of_this_name", "x = 1"],
)
def test_a_file_that_is_no_source_is_named_until_it_is_one(
    tmp_path: Path, code: str
) -> None:
    write(tmp_path, code)
    with pytest.raises(ProfileError) as raised:
        source(tmp_path, address="h").loaded()
    (problem,) = raised.value.problems
    assert (problem.condition, str(problem.place)) == ("bad-source", "sources/mine.py")
    write(tmp_path, RIGHT)
    assert type(source(tmp_path, address="h").loaded()).__name__ == "Mine"


@pytest.mark.parametrize(
    ("options", "condition"),
    [({"adress": "h"}, "unknown-option"), ({}, "missing-option")],
)
def test_options_are_those_of_its_class(
    tmp_path: Path, options: dict[str, str], condition: str
) -> None:
    write(tmp_path, RIGHT)
    with pytest.raises(ProjectError) as raised:
        source(tmp_path, **options).loaded()
    assert condition in [problem.condition for problem in raised.value.problems]


def test_neither_a_check_nor_a_look_runs_it(tmp_path: Path) -> None:
    write(tmp_path, "raise SystemExit('this ran')")
    found = source(tmp_path)
    assert found.check()
    assert found.look("bus", []).unread
    assert not found.can_be_seen()


def test_a_file_whose_annotations_are_texts_is_read_and_sent_to_another_process(
    tmp_path: Path,
) -> None:
    write(tmp_path, POSTPONED)
    found = source(tmp_path, address="h", seconds=3)
    assert str(found.loaded()).endswith("Mine(address='h', seconds=3)")
    elsewhere = pickle.loads(pickle.dumps(found))
    assert elsewhere.loaded() == found.loaded()


@pytest.mark.parametrize(
    "code", ["raise KeyError('id')", "raise SystemExit(0)", "return 1 / 0"]
)
def test_what_its_code_raises_is_said_of_the_file(tmp_path: Path, code: str) -> None:
    """A run that its code ends has not read the records."""
    write(
        tmp_path,
        f"""{RIGHT.replace("import LogSource", "import Log, LogSource")}
    def open(self, topic, owner):
        return _Topic()


class _Topic(Log):
    def read(self, partition, place, until, limit):
        yield
        {code}
""",
    )
    log = source(tmp_path, address="h").open("t", "")
    with pytest.raises(ProfileError) as raised:
        [*log.read("0", None, None, 1)]
    (problem,) = raised.value.problems
    assert (problem.condition, str(problem.place)) == (
        "bad-source",
        "sources/mine.py:19",
    )
