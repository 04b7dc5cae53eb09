"""What nobody has foreseen in one model's SELECT names that model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.compile.build_select import build_selects
from lakesql.errors import InternalError, Place
from tests.golden.test_golden import FOLDER, parse_case


def test_a_defect_names_the_model_that_it_was_met_in(tmp_path: Path) -> None:
    case = parse_case((FOLDER / "carry" / "plain.case").read_text("utf-8"))
    for path, text in {**_defaults(), **case.files}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    manifest = load_project(Options(project_dir=tmp_path))
    ((name, model),) = manifest.models.items()

    no_template: Any = 3
    broken = replace(model, facts=replace(model.facts, template=no_template))
    with pytest.raises(InternalError) as caught:
        build_selects(replace(manifest, models={name: broken}), [name])
    (problem,) = caught.value.problems
    assert (problem.condition, problem.place) == ("internal", Place(model.path))
    assert f"Model '{name}'" in problem.what


def _defaults() -> dict[str, str]:
    files = (file for file in (FOLDER / "default").rglob("*") if file.is_file())
    return {
        str(file.relative_to(FOLDER / "default")): file.read_text("utf-8")
        for file in files
    }
