"""The projects of an editor's folders, and the project that a file belongs to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pygls.uris import to_fs_path

from lakesql.lsp.open_project import OpenProject
from lakesql.lsp.positions import TextPositions, positions_of
from lakesql.lsp.project_reader import ServerOptions
from lakesql.project.files import find_project, has_settings

MOST_FOLDERS = 200
"""The maximum number of subfolders of an editor's folder that are searched for
projects."""


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A file of a project: its path from the project's directory, with slashes, and its
    URI in the editor."""

    project: OpenProject
    path: str
    uri: str


@dataclass(slots=True)
class WorkspaceProjects:
    """The projects that are open, by their directories. `only` is the project of
    --project-dir, if that is given."""

    options: ServerOptions
    only: Path | None = None
    encoding: str = "utf-16"
    projects: dict[Path, OpenProject] = field(default_factory=dict)
    uris: dict[Path, str] = field(default_factory=dict)
    """The URIs that the editor uses for the files that it has open."""

    def find(self, uri: str) -> ProjectFile | None:
        """The project's file with this URI; None if it belongs to no project."""
        path = _path_of(uri)
        if path is None:
            return None
        directory = self.only if self.only is not None else find_project(path.parent)
        for each, inside in ((directory, path), (directory.resolve(), path.resolve())):
            if inside.is_relative_to(each) and self._has_project(each):
                return ProjectFile(
                    self.open(each), inside.relative_to(each).as_posix(), uri
                )
        return None

    def open(self, directory: Path) -> OpenProject:
        """The project in a directory."""
        if directory not in self.projects:
            self.projects[directory] = OpenProject(directory, self.options)
        return self.projects[directory]

    def open_below(self, uri: str) -> Iterator[OpenProject]:
        """The projects of a folder of the editor: the one that the folder is in, or
        else those in its subfolders."""
        folder = _path_of(uri)
        if folder is None or not folder.is_dir():
            return
        if self.only is not None:
            yield self.open(self.only)
            return
        above = find_project(folder)
        if self._has_project(above):
            yield self.open(above)
            return
        visible = sorted(
            each
            for each in folder.iterdir()
            if each.is_dir() and not each.name.startswith(".")
        )
        for each in visible[:MOST_FOLDERS]:
            if self._has_project(each):
                yield self.open(each)

    def uri(self, project: OpenProject, path: str) -> str:
        """The URI of a file of a project, or of a file that a problem names."""
        full = self._full_path(project, path)
        return self.uris.get(full) or full.as_uri()

    def own_path(self, project: OpenProject, path: str) -> str:
        """The path, from the project's directory, of a file that a problem names;
        unchanged for a file outside of it."""
        full = self._full_path(project, path)
        return (
            full.relative_to(project.directory).as_posix()
            if full.is_relative_to(project.directory)
            else path
        )

    def _full_path(self, project: OpenProject, path: str) -> Path:
        """The absolute path of a file that a problem names. Most are relative to the
        project's directory, those of profiles to the working directory."""
        inside = project.directory / path
        full = inside if inside.exists() or inside in self.uris else Path.cwd() / path
        if not full.exists() and full not in self.uris:
            full = inside
        return Path(os.path.normpath(full))

    def positions(self, project: OpenProject, path: str) -> TextPositions:
        """The positions of a file's text; those of an empty text if it cannot be
        read."""
        text = project.text(path)
        if text is None and (Path.cwd() / path).is_file():
            text = (
                (Path.cwd() / path).read_bytes().decode("utf-8-sig", errors="replace")
            )
        return positions_of(path, text or "", self.encoding)

    def _has_project(self, directory: Path) -> bool:
        if directory in self.projects:
            return True
        try:
            return has_settings(directory)
        except OSError:
            return False


def _path_of(uri: str) -> Path | None:
    """The path of a URI; None if it is not that of a file."""
    path = to_fs_path(uri) if uri.startswith("file:") else None
    return Path(path) if path else None
