"""Reads a project for an editor: its files from disk, with the editor's unsaved texts
over them, for one target."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakesql.errors import InternalError
from lakesql.graph.load_manifest import load_manifest
from lakesql.graph.manifest import Manifest
from lakesql.lsp.parsed_files import ParsedFiles
from lakesql.project.changed_files import with_buffers
from lakesql.project.files import ProjectFiles, outputs_of, read_project
from lakesql.project.profiles import PROFILES_FILE, Target, load_target
from lakesql.run.manifest.load import load_known
from lakesql.run.manifest.part import ProjectPart, read_part


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options of the command line: the target, the variables, and the folders in
    which profiles.yml may be, by the project's folder."""

    target: str | None
    variables: Mapping[str, Any]
    profile_folders: Callable[[Path], list[Path]]


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """The files that a project was read from, and the project, or the part of it that
    could be read."""

    files: ProjectFiles
    part: ProjectPart


class ProjectReader:
    """Reads one project repeatedly. Unchanged files are not parsed again, and the disk
    is read only if that is asked for."""

    def __init__(self, directory: Path, options: ServerOptions) -> None:
        self.disk: ProjectFiles | None = None
        """The files as they were last read from the disk."""
        self._directory = directory
        self._options = options
        self._target: Target | None = None
        self._parsed: ParsedFiles | None = None

    def read(
        self, buffers: Mapping[str, str], former: Mapping[str, str], *, from_disk: bool
    ) -> ReadFiles:
        """The project with the texts `buffers` in place of those of the disk. `former`
        has texts with which files could be parsed before.

        Raises `LakesqlError` if its files or its target cannot be read at all, and
        `OSError`.
        """
        if self.disk is None or self._target is None or from_disk:
            outputs = outputs_of(self._directory)
            self.disk = read_project(self._directory, outputs)
            self._parsed = self._parsed or ParsedFiles(outputs)
        files = with_buffers(self.disk, buffers)
        self._target = self._read_target(files, buffers)
        return ReadFiles(files, read_part(files, self._load, former))

    def _read_target(self, files: ProjectFiles, buffers: Mapping[str, str]) -> Target:
        folders = self._options.profile_folders(self._directory)
        texts: dict[Path, str] = {}
        if PROFILES_FILE in buffers:
            texts[self._directory / PROFILES_FILE] = buffers[PROFILES_FILE]
        return load_target(
            files.settings.profile, self._options.target, folders, os.environ, texts
        )

    def _load(self, files: ProjectFiles) -> Manifest:
        parsed, target = self._parsed, self._target
        if parsed is None or target is None:
            raise InternalError.of("internal", "The project's target was not read.")
        variables = self._options.variables
        return load_known(
            lambda find: load_manifest(
                files,
                target,
                variables,
                parsed.read_declarations,
                parsed.read_model,
                find,
            )
        )
