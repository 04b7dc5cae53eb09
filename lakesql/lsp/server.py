"""The language server: when a project is read and checked, and what is published to the
editor.

All of it runs in one thread, so that no request sees a half-finished state. Long work
is done in steps, between which requests are answered.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from lakesql import __version__
from lakesql.errors import InternalError, Place, Problem
from lakesql.lsp.diagnostics import file_diagnostics
from lakesql.lsp.mentions import Mention
from lakesql.lsp.open_project import OpenProject
from lakesql.lsp.project_reader import ServerOptions
from lakesql.lsp.workspace_projects import ProjectFile, WorkspaceProjects
from lakesql.project.settings import SETTINGS_FILE
from lakesql.secrets import find_secrets

LOOK_AFTER_S = 0.05
"""The delay after a keystroke before its file is checked. Further keystrokes within it
restart it."""

READ_AFTER_S = 0.5
"""The delay after the last keystroke that affects other files before the project is
read again."""


class ProjectServer(LanguageServer):
    """The language server, with the projects of the editor's folders."""

    def __init__(self, options: ServerOptions, only: Path | None) -> None:
        super().__init__(
            "lakesql",
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Full,
            max_workers=1,
        )
        self.projects = WorkspaceProjects(options, only)
        self._timers: dict[tuple[str, Path, str], asyncio.TimerHandle] = {}
        self._from_disk: set[Path] = set()
        self._steps: dict[Path, asyncio.Task[None]] = {}
        self._shown: dict[str, list[types.Diagnostic]] = {}
        self._secrets = find_secrets(os.environ)

    # When something is done

    def file(self, uri: str) -> ProjectFile | None:
        """The file with this URI, after its project has been read; None if it belongs
        to no project."""
        found = self.projects.find(uri)
        if found is not None and found.project.manifest is None:
            self._read_if_new(found.project)
        return found

    def _read_if_new(self, project: OpenProject) -> None:
        if project.directory not in self._steps:
            self.read(project, from_disk=True)

    def later(
        self,
        what: str,
        project: OpenProject,
        path: str,
        after_s: float,
        do: Callable[[], None],
    ) -> None:
        """Call `do` after a delay. If the same call (`what`, project and path) is
        scheduled already, it is replaced."""
        key = (what, project.directory, path)
        if key in self._timers:
            self._timers[key].cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(
            after_s, self._guarded(do)
        )

    def _guarded(self, do: Callable[[], None]) -> Callable[[], None]:
        def guarded() -> None:
            try:
                do()
            except Exception as error:  # the editor has to live on
                self.report(error)

        return guarded

    def report(self, error: Exception) -> None:
        """Write a defect of the server to the editor's log."""
        logging.getLogger("lakesql").debug("A defect of the server", exc_info=error)
        text = InternalError.of_defect(error).problems[0]
        message = self._secrets.redact(f"{text.what} {text.why}")
        self.window_log_message(
            types.LogMessageParams(types.MessageType.Error, message)
        )

    def redact(self, text: str) -> str:
        """A text with the secrets of this process removed."""
        return self._secrets.redact(text)

    def location(self, project: OpenProject, place: Place) -> types.Location:
        """A place of a project as a location of the protocol."""
        position = self.projects.positions(project, place.path).position(place)
        return types.Location(
            self.projects.uri(project, place.path), types.Range(position, position)
        )

    def mentioned(self, project: OpenProject, mention: Mention) -> types.Location:
        """The location of a mention."""
        positions = self.projects.positions(project, mention.path)
        return types.Location(
            self.projects.uri(project, mention.path),
            positions.range_of(mention.start, mention.end),
        )

    def look(self, file: ProjectFile) -> None:
        """Check a file that was typed in, and schedule a read of the project if that
        may be affected."""
        if file.project.look(file.path):
            self.read_later(file.project, from_disk=False)
        self.show(file.project)

    def read_later(self, project: OpenProject, *, from_disk: bool) -> None:
        """Schedule a read of a project for the next pause of typing."""
        if from_disk:
            self._from_disk.add(project.directory)
        self.later(
            "read",
            project,
            "",
            READ_AFTER_S,
            lambda: self.read(project, from_disk=False),
        )

    def read(self, project: OpenProject, *, from_disk: bool) -> None:
        """Read a project, and check it step by step in the background."""
        is_from_disk = from_disk or project.directory in self._from_disk
        self._from_disk.discard(project.directory)
        project.read_all(from_disk=is_from_disk)
        self.show(project)
        running = self._steps.get(project.directory)
        if running is None or running.done():
            self._steps[project.directory] = asyncio.ensure_future(self._check(project))

    async def _check(self, project: OpenProject) -> None:
        count = 0
        while (
            not project.is_done
            and self.projects.projects.get(project.directory) is project
        ):
            try:
                project.check_next()
            except Exception as error:  # the next model is checked all the same
                self.report(error)
            count += 1
            if count % 25 == 0:
                self.show(project)
            await asyncio.sleep(0)
        if self.projects.projects.get(project.directory) is project:
            self.show(project)

    def leave(self, project: OpenProject) -> None:
        """Close a project whose folder the editor has closed."""
        for key in [key for key in self._timers if key[1] == project.directory]:
            self._timers.pop(key).cancel()
        self.projects.projects.pop(project.directory, None)
        inside = f"{project.directory.as_uri()}/"
        for uri in [uri for uri in self._shown if uri.startswith(inside)]:
            self._publish(uri, [])

    # What is shown

    def show(self, project: OpenProject) -> None:
        """Publish the diagnostics of a project's files that have changed."""
        wrong: dict[str, tuple[Problem, ...]] = {}
        for named, problems in project.problems().items():
            path = self.projects.own_path(project, named or SETTINGS_FILE)
            wrong[path] = (*wrong.get(path, ()), *problems)
        paths = {*project.opened, *wrong}
        told: set[str] = set()
        for path in sorted(paths):
            uri = self.projects.uri(project, path)
            told.add(uri)
            self._publish(uri, self._diagnostics(project, path, wrong.get(path, ())))
        for uri in [
            uri for uri in self._shown if uri not in told and self._is_of(uri, project)
        ]:
            self._publish(uri, [])

    def _is_of(self, uri: str, project: OpenProject) -> bool:
        found = self.projects.find(uri)
        return found is not None and found.project is project

    def _diagnostics(
        self, project: OpenProject, path: str, problems: tuple[Problem, ...]
    ) -> list[types.Diagnostic]:
        diagnostics = file_diagnostics(
            project, path, self.projects.positions(project, path), problems
        )
        for each in diagnostics:
            each.message = self._secrets.redact(str(each.message))
        return diagnostics

    def _publish(self, uri: str, diagnostics: list[types.Diagnostic]) -> None:
        if self._shown.get(uri, []) == diagnostics:
            return
        self._shown[uri] = diagnostics
        if not diagnostics:
            del self._shown[uri]
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri, diagnostics)
        )
