"""A small project, and others that are laid over it: what rules are tried on."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.graph.manifest import Manifest
from lakesql.lint.finding import LintFinding
from lakesql.lint.lint import lint
from lakesql.lint.lint_settings import read_lint_settings

PROJECT = Path(__file__).parent / "project"


def lay(directory: Path, *files: Mapping[str, str]) -> Path:
    """The project with other files over it, in a folder."""
    shutil.copytree(PROJECT, directory, dirs_exist_ok=True)
    for path, text in {
        key: value for each in files for key, value in each.items()
    }.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(text.encode())
    return directory


def load(directory: Path) -> Manifest:
    return load_project(Options(project_dir=directory))


def find(manifest: Manifest) -> tuple[LintFinding, ...]:
    """What is found in all of a project."""
    return lint(manifest, read_lint_settings(manifest), manifest.models)
