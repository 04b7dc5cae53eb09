"""Every `.case` file: a project of a few lines, and the SQL or the problems that
compiling it ends with.

A case opens with a sentence. A section `=== models/orders.sql` is a file of its
project, laid over those of `default/`. What is expected stands in sections of these
kinds:

- `=== compiled orders`: everything that the model runs, `=== header orders`: the
  comments that open it;
- `=== table orders`, `=== rows orders`, `=== batch orders`: the statements that make
  its table, the SELECT as it runs, and what a batch runs on its rows;
- `=== errors`: each problem's condition, place and line. What it says besides is in no
  case.

`pytest tests/golden --update-golden` writes what is there now into the cases; read the
difference like code.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.cli.report import in_order, read_line
from lakesql.compile.compiled import compiled_files
from lakesql.errors import LakesqlError, Problem, render_problem
from tests.cases import each_of
from tests.share import a_few

FOLDER = Path(__file__).parent
COMPILED_AT = datetime(2026, 3, 10, 12, 30, tzinfo=UTC)
CASES = sorted(FOLDER.rglob("*.case"))
HEAD = re.compile(r"^=== (.+)\n", re.MULTILINE)
EXPECTED = (
    "compiled ",
    "header ",
    "table ",
    "rows ",
    "batch ",
    "maintenance ",
    "errors",
)


@dataclass(frozen=True, slots=True)
class Case:
    """One file: its sentence, the project's files by path, and the bodies of what is
    expected by head."""

    says: str
    files: dict[str, str]
    expected: dict[str, str]


def parse_case(text: str) -> Case:
    says, *parts = HEAD.split(text)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    assert len(sections) == len(parts) / 2, "two sections have one head"
    expected = {
        head: body.strip("\n")
        for head, body in sections.items()
        if head.startswith(EXPECTED)
    }
    files = {
        head: body.rstrip("\n") + "\n"
        for head, body in sections.items()
        if head not in expected
    }
    return Case(says.strip(), files, expected)


def render_case(case: Case) -> str:
    sections = {**case.files, **case.expected}
    return f"{case.says}\n\n" + "\n".join(
        f"=== {head}\n{body.rstrip()}\n" for head, body in sections.items()
    )


def compile_case(case: Case, directory: Path) -> dict[str, str]:
    """The expected sections as they are now: those that the case asks for, or the
    problems instead."""
    shutil.copytree(FOLDER / "default", directory, dirs_exist_ok=True)
    for path, text in case.files.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(text.encode())
    options = Options(project_dir=directory)
    try:
        manifest = load_project(options)
        texts = compiled_files(manifest, at=COMPILED_AT).compile(manifest.models)
    except LakesqlError as error:
        return {
            "errors": "\n".join(
                show_problem(problem, options) for problem in in_order(error.problems)
            )
        }
    heads = [head for head in case.expected if head != "errors"] or [
        f"compiled {name}" for name in texts
    ]
    return {head: pick(texts, *head.split(" ", 1)) for head in heads}


def show_problem(problem: Problem, options: Options) -> str:
    line = read_line(problem.place, options) if problem.place else None
    head, *rest = render_problem(problem, line).split("\n")
    return "\n".join([head, *(text for text in rest if re.match(r" +\d* \| ", text))])


def pick(texts: Mapping[str, str], kind: str, name: str) -> str:
    heading, *sections = re.split(r"\n\n(?=-- )", texts[name].rstrip("\n"))
    wanted = {
        "compiled": lambda section: "\nCALL " not in section,
        "maintenance": lambda section: "\nCALL " in section,
        "header": lambda section: False,
        "table": lambda section: section.startswith("-- when the table"),
        "rows": lambda section: section.startswith(
            ("-- each batch: the rows", "-- the streaming query")
        ),
        "batch": lambda section: section.startswith(
            (
                "-- each batch: the newest",
                "-- each batch: the first",
                "-- each batch: its rows",
                "-- each batch: the commit",
            )
        ),
    }[kind]
    chosen = [section for section in sections if wanted(section)]
    return "\n\n".join([heading, *chosen] if kind in ("compiled", "header") else chosen)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A case, the folder of its project, and what compiling it has found there."""

    case: Case
    folder: Path
    found: dict[str, str]


@pytest.fixture(scope="session")
def compile_once(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Path], Compiled]:
    """Compiles the case of a file, once for all tests that look at it."""

    @cache
    def compile_once(path: Path) -> Compiled:
        case, folder = (
            parse_case(path.read_text("utf-8")),
            tmp_path_factory.mktemp("case"),
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            return Compiled(case, folder, compile_case(case, folder))

    return compile_once


@pytest.mark.parametrize(
    "path", CASES, ids=lambda path: path.relative_to(FOLDER).with_suffix("").as_posix()
)
def test_a_project_compiles_to_the_expected_sql_or_problems(
    path: Path, compile_once: Callable[[Path], Compiled], request: pytest.FixtureRequest
) -> None:
    compiled = compile_once(path)
    case, found = compiled.case, compiled.found
    if request.config.getoption("--update-golden"):
        path.write_text(render_case(Case(case.says, case.files, found)), "utf-8")
    else:
        assert found == case.expected


@pytest.mark.parametrize(
    "path",
    a_few(CASES, 20),
    ids=lambda path: path.relative_to(FOLDER).with_suffix("").as_posix(),
)
def test_a_cached_project_equals_a_freshly_parsed_one(
    path: Path,
    compile_once: Callable[[Path], Compiled],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Read once more, every case gives the same values out of the cache, and nothing is
    parsed."""
    compiled = compile_once(path)
    folder, first = compiled.folder, compiled.found
    monkeypatch.chdir(folder)
    assert compile_case(compiled.case, folder) == first
    if "errors" not in first:
        kept = load_project(Options(project_dir=folder))
        shutil.rmtree(folder / "target")
        fresh = load_project(Options(project_dir=folder))
        assert (kept.models, kept.streams, kept.graph) == (
            fresh.models,
            fresh.streams,
            fresh.graph,
        )
        assert [model.said for model in kept.models.values()] == [
            model.said for model in fresh.models.values()
        ]
        assert all(model.facts.template is None for model in kept.models.values())
        assert all(model.facts.template is not None for model in fresh.models.values())


def test_there_are_cases() -> None:
    assert CASES
    for path in CASES:
        case = parse_case(path.read_text("utf-8"))
        assert case.says and case.expected, path


@each_of("name", ["cdc", "cdc_sequence", "cdc_soft", "cdc_unsent"])
def test_no_view_of_a_mirror_is_made_by_two_statements(name: str) -> None:
    """What stands for another view has a name of its own."""
    path = FOLDER / "modes" / f"{name}.case"
    compiled = [
        text
        for head, text in parse_case(path.read_text("utf-8")).expected.items()
        if head.startswith("comp")
    ]
    assert compiled
    for text in compiled:
        views = re.findall(
            r"^CREATE OR REPLACE TEMPORARY VIEW (\S+) AS$", text, re.MULTILINE
        )
        assert len(views) > 5 and len(views) == len(set(views))
