"""One of the two versions of a project that are compared, as far as it can be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from lakesql.compile.build_select import build_select
from lakesql.compile.compiled import CompiledFiles, compiled_files
from lakesql.compile.select import Select
from lakesql.compile.statements import compiled_text
from lakesql.decode import Node
from lakesql.errors import Problem, ProjectError
from lakesql.graph.manifest import Manifest
from lakesql.project.files import ProjectFiles, SourceFile

LoadFiles = Callable[[ProjectFiles], Manifest]


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a project. `problems` has the models that have errors themselves, by
    name, with these errors.

    The manifest has a stub in place of such a model, which reads nothing, so that the
    other models can be read; the model is missing if even the stub has errors. `target`
    is the target's entry in profiles.yml, for places in it; None if it is not known.
    `schemas` are the texts of schema files, by path. `built`, `refused` and `texts`
    cache what the methods have computed.
    """

    files: ProjectFiles
    manifest: Manifest
    problems: Mapping[str, tuple[Problem, ...]]
    target: Node | None = None
    schemas: Mapping[str, str] = field(default_factory=dict)
    built: dict[str, Select] = field(default_factory=dict)
    refused: dict[str, tuple[Problem, ...]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def select(self, name: str) -> Select | tuple[Problem, ...]:
        """The SELECT of a model, or the problems why it has none."""
        if name in self.problems:
            return self.problems[name]
        if name not in self.built and name not in self.refused:
            try:
                build_select(self.manifest, name, self.built)
            except ProjectError as error:
                self.refused[name] = self._explain(error.problems)
        return self.built.get(name) or self.refused[name]

    def text(self, path: str) -> str:
        """The text of a file of the project; '' if there is no such file."""
        files = (
            *self.files.models,
            *self.files.streams,
            *self.files.macros,
            *self.files.properties,
        )
        return next((file.text for file in files if file.path == path), "")

    def compiled(self) -> CompiledFiles:
        """The compiled files of this version, by which one can tell what each model is
        made from."""
        return compiled_files(self.manifest, self.built, self.texts)

    def compiled_text(self, select: Select) -> str:
        """The text of the compiled file of a model of this version."""
        name = select.model.name
        if name not in self.texts:
            self.texts[name] = compiled_text(select)
        return self.texts[name]

    def _explain(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        """The problems, with those placed in a model that has errors itself replaced by
        that model's own."""
        by_path = {
            self.manifest.models[name].path: found
            for name, found in self.problems.items()
        }
        explained = (
            by_path.get(problem.place.path if problem.place else "", (problem,))
            for problem in problems
        )
        return tuple(dict.fromkeys(problem for found in explained for problem in found))


def read_version(
    files: ProjectFiles, load: LoadFiles, target: Node | None = None
) -> Version:
    """The version that `files` hold. A model with errors in its own file does not
    prevent the others from being read.

    Raises `ProjectError` if something other than models is wrong.
    """
    problems: dict[str, tuple[Problem, ...]] = {}
    files = replace(files, tests=())  # they change no table
    while True:
        try:
            return Version(files, load(files), problems, target)
        except ProjectError as error:
            wrong = _by_model(files, error.problems)
            again = wrong.keys() & problems.keys()
            problems |= {
                name: found for name, found in wrong.items() if name not in problems
            }
            models = [
                file if model_name(file) not in wrong else SourceFile(file.path, _STUB)
                for file in files.models
                if model_name(file) not in again
            ]
            files = replace(files, models=tuple(models))


_STUB = "{{ config(mode='append') }}\nSELECT 1 AS unread"
"""The text that replaces a model with errors."""


def _by_model(
    files: ProjectFiles, problems: tuple[Problem, ...]
) -> dict[str, tuple[Problem, ...]]:
    """The problems by the names of the models in whose files they are. Raises all of
    them as `ProjectError` if one of them is elsewhere."""
    names = {file.path: model_name(file) for file in files.models}
    found: dict[str, tuple[Problem, ...]] = {}
    for problem in problems:
        path = problem.place.path if problem.place else ""
        if path not in names:
            raise ProjectError(problems)
        found[names[path]] = (*found.get(names[path], ()), problem)
    return found


def model_name(file: SourceFile) -> str:
    """The name of the model in a file."""
    return PurePosixPath(file.path).stem
