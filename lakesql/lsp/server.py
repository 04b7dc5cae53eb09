"""The server: which request of the protocol is answered by what, and when a project is
looked at.

All of it runs in one thread, so that nothing is seen half done. What takes long is done
in steps, between which requests are answered.
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
"""So long after a keystroke its file is looked at: of those that follow at once, the
last one alone."""

READ_AFTER_S = 0.5
"""So long after the last keystroke that means something for other files the project is
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

    # When

    def file(self, uri: str) -> ProjectFile | None:
        """The file of a project, whose project has been read."""
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
        """Do something in a while, unless the same is asked for again until then."""
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
        """Tell the editor's log of a defect."""
        logging.getLogger("lakesql").debug("A defect of the server", exc_info=error)
        text = InternalError.of_defect(error).problems[0]
        message = self._secrets.redact(f"{text.what} {text.why}")
        self.window_log_message(
            types.LogMessageParams(types.MessageType.Error, message)
        )

    def redact(self, text: str) -> str:
        """A text without the secrets of this process."""
        return self._secrets.redact(text)

    def location(self, project: OpenProject, place: Place) -> types.Location:
        """A place of a project, as the protocol has it."""
        position = self.projects.positions(project, place.path).position(place)
        return types.Location(
            self.projects.uri(project, place.path), types.Range(position, position)
        )

    def mentioned(self, project: OpenProject, mention: Mention) -> types.Location:
        """Where a file names something."""
        positions = self.projects.positions(project, mention.path)
        return types.Location(
            self.projects.uri(project, mention.path),
            positions.range_of(mention.start, mention.end),
        )

    def look(self, file: ProjectFile) -> None:
        """Look at a file that was typed in, and later at the rest, if that may see
        it."""
        if file.project.look(file.path):
            self.read_later(file.project, from_disk=False)
        self.show(file.project)

    def read_later(self, project: OpenProject, *, from_disk: bool) -> None:
        """Read a project again in a pause of typing."""
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
        """Read a project, and check what is to be checked step by step."""
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
        """Forget a project whose folder the editor has closed."""
        for key in [key for key in self._timers if key[1] == project.directory]:
            self._timers.pop(key).cancel()
        self.projects.projects.pop(project.directory, None)
        inside = f"{project.directory.as_uri()}/"
        for uri in [uri for uri in self._shown if uri.startswith(inside)]:
            self._publish(uri, [])

    # What is shown

    def show(self, project: OpenProject) -> None:
        """Tell the editor what has changed of what is wrong with a project's files."""
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
