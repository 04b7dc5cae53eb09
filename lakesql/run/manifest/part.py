"""Reads as much as possible of a project with errors: all but the files with errors and
what depends on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lakesql.errors import Problem, ProjectError
from lakesql.graph.manifest import Manifest
from lakesql.project.changed_files import with_buffers, without_files
from lakesql.project.files import ProjectFiles

NO_TEXTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ProjectPart:
    """The part of a project that can be read. `problems` are those of all files, and
    `left_out` the files that were not read. `manifest` is None if no part can be
    read."""

    manifest: Manifest | None
    problems: tuple[Problem, ...] = ()
    left_out: tuple[str, ...] = ()


def read_part(
    files: ProjectFiles,
    load: Callable[[ProjectFiles], Manifest],
    former: Mapping[str, str] = NO_TEXTS,
) -> ProjectPart:
    """The project of these files, or the largest part of it that can be read by leaving
    out files with errors.

    A file that needs something declared in a left-out file is left out as well, but its
    problems are not reported. `former` are earlier texts of files that could be read:
    each is tried in place of a file with errors before that is left out.
    """
    first: tuple[Problem, ...] = ()
    left_out: list[str] = []
    tried: set[str] = set()
    while True:
        try:
            return ProjectPart(load(files), first, tuple(left_out))
        except ProjectError as error:
            first = first or error.problems
            selectors = (files.selectors,) if files.selectors is not None else ()
            texts = {**files.texts, **{file.path: file.text for file in selectors}}
            wrong = {
                problem.place.path
                for problem in error.problems
                if problem.place is not None
            } & texts.keys()
            again = {
                path: former[path]
                for path in wrong - tried
                if former.get(path, texts[path]) != texts[path]
            }
            tried |= again.keys()
            rest = without_files(with_buffers(files, again), wrong - again.keys())
            if rest == files:
                return ProjectPart(None, first, tuple(left_out))
            left_out += sorted(wrong - again.keys())
            files = rest
