"""The advice of every condition is followed in a project, and leads on.

The `.case` files hold one case after the other. A case begins with `##### condition`,
perhaps with words that tell it from others of the condition. Its sections lay files
over `tests/golden/default` and `project/`, and lines that begin with `$` are commands,
`parse` if there is none. Up to `>>>>>` stands what is refused by the condition; below
it, what the advice changes: files that are laid over those, `=== path removed`, other
commands.

Conditions that a run alone meets are in `elsewhere.txt`, with the test that does what
their advice says, or that meets them where what helps is none of lakesql's. A condition
with neither fails `test_every_condition_is_followed`.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakesql.cli.main import run_command
from lakesql.conditions import CONDITIONS

HERE = Path(__file__).parent
BASES = (HERE.parent / "golden" / "default", HERE / "project")
_CASE = re.compile(r"^##### (.+)\n", re.MULTILINE)
_SECTION = re.compile(r"^=== (\S+)( removed)?\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Part:
    """The files of one half of a case, None for one that is removed, and its
    commands."""

    files: dict[str, str | None]
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    refused: Part
    advised: Part

    @property
    def condition(self) -> str:
        return self.name.partition(" ")[0]


def read_cases(text: str) -> list[Case]:
    _, *parts = _CASE.split(text)
    cases = []
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        refused, advised = map(read_part, body.split(">>>>>\n"))
        cases.append(Case(name, refused, advised))
    return cases


def read_part(text: str) -> Part:
    commands = tuple(re.findall(r"^\$ (.+)$", text, re.MULTILINE))
    _, *parts = _SECTION.split(re.sub(r"^\$ .+\n", "", text, flags=re.MULTILINE))
    files = {
        path: None if removed else body.strip("\n") + "\n"
        for path, removed, body in zip(
            parts[::3], parts[1::3], parts[2::3], strict=True
        )
    }
    return Part(files, commands)


ELSEWHERE = re.findall(
    r"^([a-z-]+) (\S+::\S+)$", (HERE / "elsewhere.txt").read_text("utf-8"), re.MULTILINE
)
CASES = [
    case
    for path in sorted(HERE.glob("*.case"))
    for case in read_cases(path.read_text("utf-8"))
]


def lay(files: dict[str, str | None], directory: Path) -> None:
    for path, text in files.items():
        if text is None:
            (directory / path).unlink()
            continue
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text, "utf-8")


def run(
    commands: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[str]]:
    """The exit code of the last command, and the conditions of what is wrong, or of
    what it warns."""
    code, err = 0, ""
    for command in commands or ("parse",):
        capsys.readouterr()
        code = run_command([*shlex.split(command), "--log-format", "json"])
        err = capsys.readouterr().err
    said = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    return code, [
        it["condition"] for it in said if it["event"] in ("problem", "warning")
    ]


def begin(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for base in BASES:
        shutil.copytree(base, directory, dirs_exist_ok=True)
    monkeypatch.chdir(directory)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "_"))
def test_advice_leads_on(
    case: Case,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin(tmp_path, monkeypatch)
    lay(case.refused.files, tmp_path)
    _, conditions = run(case.refused.commands, capsys)
    assert case.condition in conditions
    lay(case.advised.files, tmp_path)
    assert run(case.advised.commands or case.refused.commands, capsys) == (0, [])


MODEL = "{{ config(mode='append') }}\nSELECT id FROM {{ stream('clicks') }}\n"


@pytest.mark.parametrize(
    ("content", "condition"),
    [(b"-" * 4_000_001, "file-too-large"), (b"SELECT '\xe4'", "not-text")],
)
def test_a_file_that_is_too_large_or_no_text_is_written_anew(
    content: bytes,
    condition: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin(tmp_path, monkeypatch)
    (tmp_path / "models").mkdir()
    (tmp_path / "models/m.sql").write_bytes(content)
    assert run((), capsys) == (2, [condition])
    (tmp_path / "models/m.sql").write_text(MODEL, "utf-8")
    assert run((), capsys) == (0, [])


def test_a_file_in_the_place_of_a_folder_is_gone_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path, monkeypatch)
    lay({"models/m.sql": MODEL, "target": "no folder"}, tmp_path)
    assert run(("compile",), capsys) == (2, ["not-accessible"])
    assert run(("compile --target-path elsewhere",), capsys) == (0, [])


def test_a_secret_is_kept_in_the_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path, monkeypatch)
    monkeypatch.setenv("LAKESQL_SECRET_KEY", "a-long-secret")
    assert run(("ls --vars '{key: a-long-secret}'",), capsys) == (2, ["secret-in-vars"])
    profile = (tmp_path / "profiles.yml").read_text("utf-8")
    kept = "warehouse: warehouse, s3.secret-access-key: \"{{ env_var('LAKESQL_SECRET_KEY') }}\""
    (tmp_path / "profiles.yml").write_text(
        profile.replace("warehouse: warehouse", kept), "utf-8"
    )
    assert run(("ls",), capsys) == (0, [])


def test_every_condition_is_followed() -> None:
    followed, elsewhere = (
        {case.condition for case in CASES},
        {condition for condition, _ in ELSEWHERE},
    )
    assert CONDITIONS.keys() - followed - elsewhere == set()
    assert (followed | elsewhere) - CONDITIONS.keys() == set()
    assert not followed & elsewhere and len(elsewhere) == len(ELSEWHERE)
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("place", sorted({place for _, place in ELSEWHERE}))
def test_the_test_that_follows_an_advice_is_there(place: str) -> None:
    path, _, name = place.partition("::")
    assert re.search(
        rf"^ *def {name}\b", (HERE.parent / path).read_text("utf-8"), re.MULTILINE
    )
