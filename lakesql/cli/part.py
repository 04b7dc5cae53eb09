"""What can be read of a project with errors: all but the files that have some, and what cannot be without these."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from lakesql.cli.options import Options
from lakesql.cli.project import load_files, load_files_and_target, read_vars
from lakesql.errors import Problem, ProjectError
from lakesql.graph.manifest import Manifest
from lakesql.project.files import ProjectFiles


@dataclass(frozen=True, slots=True)
class ProjectPart:
    """What was read of a project: nothing where no part of it can be. `problems` are those of the whole project, and
    `left_out` the files that are not among what was read."""

    manifest: Manifest | None
    problems: tuple[Problem, ...] = ()
    left_out: tuple[str, ...] = ()


def load_part(options: Options) -> ProjectPart:
    """The project, or the largest part of it that can be read file by file.

    What a file that is left out has declared is missing in others: of these, too, nothing is read, but their problems
    are not the project's. Raises `LakesqlError` where not even its files or its target can be read.
    """
    files, target = load_files_and_target(options)
    overrides = read_vars(options.vars)
    first: tuple[Problem, ...] = ()
    left_out: list[str] = []
    while True:
        try:
            return ProjectPart(load_files(files, target, overrides), first, tuple(left_out))
        except ProjectError as error:
            first = first or error.problems
            wrong = {problem.place.path for problem in error.problems if problem.place is not None}
            rest = _without(files, wrong)
            if rest == files:
                return ProjectPart(None, first, tuple(left_out))
            left_out += sorted(wrong & files.texts.keys())
            files = rest


def _without(files: ProjectFiles, paths: Collection[str]) -> ProjectFiles:
    """The files but those at some paths."""
    return replace(
        files,
        models=tuple(file for file in files.models if file.path not in paths),
        streams=tuple(file for file in files.streams if file.path not in paths),
        macros=tuple(file for file in files.macros if file.path not in paths),
        properties=tuple(file for file in files.properties if file.path not in paths),
        tests=tuple(file for file in files.tests if file.path not in paths),
        seeds=tuple(file for file in files.seeds if file.path not in paths),
        contracts=tuple(file for file in files.contracts if file.path not in paths),
        schemas=tuple(file for file in files.schemas if file.path not in paths),
        selectors=files.selectors if files.selectors and files.selectors.path not in paths else None,
    )
