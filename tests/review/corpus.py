"""The corpus: every `.case` file is an edit of a project, and what a plan says of it.

A case opens with a sentence. The project is that of `project/`, a shop, or for a case
in a folder of `cases/` that of the same name in `projects/`. A section `=== target`
names the target, where it is not the project's own. A section `=== models/orders.sql`
is an edit of a file: lines that begin with `-` stand in it, and those with `+` are put
in their place; without any `-` they are the whole file, and without any line the file
is removed. A section
`=== plan` has a line for each reason: model, verdict, condition and place.

`pytest tests/review --update-golden` writes what is there now into the cases; read the
difference like code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lakesql.cli.options import Options

FOLDER = Path(__file__).parent
CASES = sorted((FOLDER / "cases").rglob("*.case"))
HEAD = re.compile(r"^=== (.+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Case:
    """One file: its sentence, the edits by path, the lines of the plan, and the target,
    None for the project's own."""

    says: str
    edits: dict[str, str]
    plan: str
    target: str | None = None

    def options(self, directory: Path) -> Options:
        return Options(project_dir=directory, target=self.target)


def project_of(path: Path) -> Path:
    """The folder of the project that a case edits."""
    return (
        FOLDER / "project"
        if path.parent.name == "cases"
        else FOLDER / "projects" / path.parent.name
    )


def case_name(path: Path) -> str:
    return path.relative_to(FOLDER / "cases").with_suffix("").as_posix()


def parse_case(text: str) -> Case:
    says, *parts = HEAD.split(text)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    assert len(sections) == len(parts) / 2, "two sections have one head"
    plan, target = sections.pop("plan", ""), sections.pop("target", "").strip() or None
    edits = {path: body.strip("\n") for path, body in sections.items()}
    return Case(says.strip(), edits, plan.strip("\n"), target)


def render_case(case: Case) -> str:
    sections = {
        **({"target": case.target} if case.target else {}),
        **case.edits,
        "plan": case.plan,
    }
    return f"{case.says}\n\n" + "\n".join(
        f"=== {head}\n{body}\n" for head, body in sections.items()
    )


def apply(edit: str, path: Path) -> None:
    if not edit:
        path.unlink()
        return
    text = path.read_text("utf-8") if path.exists() else ""
    for before, after in hunks(edit):
        assert not before or text.count(before) == 1, (
            f"{path.name} has {text.count(before)} times: {before}"
        )
        text = text.replace(before, after) if before else f"{after}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def hunks(edit: str) -> Iterator[tuple[str, str]]:
    """The texts of each group of lines with `-`, and of the lines with `+` that follow
    it."""
    for found in re.finditer(r"((?:^-.*\n)*)((?:^\+.*\n)*)", f"{edit}\n", re.MULTILINE):
        if found[0]:
            yield tuple(
                "\n".join(line[1:] for line in lines.splitlines())
                for lines in found.groups()
            )
