"""The server: which request of the protocol is answered by what, and when a project is looked at.

All of it runs in one thread, so that nothing is seen half done. What takes long is done in steps, between which
requests are answered.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from lakesql import __version__
from lakesql.errors import Problem
from lakesql.lsp.diagnostics import file_diagnostics
from lakesql.lsp.fixes import FIX_ALL, file_actions
from lakesql.lsp.open_project import OpenProject, ServerOptions
from lakesql.lsp.workspace_projects import ProjectFile, WorkspaceProjects
from lakesql.project.settings import SETTINGS_FILE
from lakesql.secrets import find_secrets

LOOK_AFTER_S = 0.05
"""So long after a keystroke its file is looked at: of those that follow at once, the last one alone."""

READ_AFTER_S = 0.5
"""So long after the last keystroke that means something for other files the project is read again."""

WATCHED = ("**/*.{sql,yml,yaml,csv,avsc,proto}", f"**/{SETTINGS_FILE}")


class ProjectServer(LanguageServer):
    """The language server, with the projects of the editor's folders."""

    def __init__(self, options: ServerOptions, only: Path | None) -> None:
        super().__init__("lakesql", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full, max_workers=1)
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

    def later(self, what: str, project: OpenProject, path: str, after_s: float, do: Callable[[], None]) -> None:
        """Do something in a while, unless the same is asked for again until then."""
        key = (what, project.directory, path)
        if key in self._timers:
            self._timers[key].cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(after_s, self._guarded(do))

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
        from lakesql.errors import InternalError

        text = InternalError.of_defect(error).problems[0]
        message = self._secrets.redact(f"{text.what} {text.why}")
        self.window_log_message(types.LogMessageParams(types.MessageType.Error, message))

    def look(self, file: ProjectFile) -> None:
        """Look at a file that was typed in, and later at the rest, if that may see it."""
        if file.project.look(file.path):
            self.read_later(file.project, from_disk=False)
        self.show(file.project)

    def read_later(self, project: OpenProject, *, from_disk: bool) -> None:
        """Read a project again in a pause of typing."""
        if from_disk:
            self._from_disk.add(project.directory)
        self.later("read", project, "", READ_AFTER_S, lambda: self.read(project, from_disk=False))

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
        while not project.is_done:
            try:
                project.check_next()
            except Exception as error:  # the next model is checked all the same
                self.report(error)
            count += 1
            if count % 25 == 0:
                self.show(project)
            await asyncio.sleep(0)
        self.show(project)

    # What is shown

    def show(self, project: OpenProject) -> None:
        """Tell the editor what has changed of what is wrong with a project's files."""
        wrong = project.problems()
        paths = {*project.opened, *(path for path in wrong if path)}
        if "" in wrong:
            wrong[SETTINGS_FILE] = (*wrong.get(SETTINGS_FILE, ()), *wrong[""])
            paths.add(SETTINGS_FILE)
        told: set[str] = set()
        for path in sorted(paths):
            uri = self.projects.uri(project, path)
            told.add(uri)
            self._publish(uri, self._diagnostics(project, path, wrong.get(path, ())))
        inside = f"{project.directory.as_uri()}/"
        for uri in [uri for uri in self._shown if uri not in told and uri.startswith(inside)]:
            if self.projects.find(uri) is not None and self._is_of(uri, project):
                self._publish(uri, [])

    def _is_of(self, uri: str, project: OpenProject) -> bool:
        found = self.projects.find(uri)
        return found is not None and found.project is project

    def _diagnostics(self, project: OpenProject, path: str, problems: tuple[Problem, ...]) -> list[types.Diagnostic]:
        diagnostics = file_diagnostics(project, path, self.projects.positions(project, path), problems)
        for each in diagnostics:
            each.message = self._secrets.redact(str(each.message))
        return diagnostics

    def _publish(self, uri: str, diagnostics: list[types.Diagnostic]) -> None:
        if self._shown.get(uri, []) == diagnostics:
            return
        self._shown[uri] = diagnostics
        if not diagnostics:
            del self._shown[uri]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics))


def build_server(options: ServerOptions, only: Path | None) -> ProjectServer:
    """The server, which answers as soon as it is started."""
    server = ProjectServer(options, only)
    _add_lifecycle(server)
    _add_files(server)
    _add_actions(server)
    return server


def _add_lifecycle(server: ProjectServer) -> None:
    @server.feature(types.INITIALIZED)
    def initialized(_: types.InitializedParams) -> None:
        encoding = server.workspace.position_encoding
        server.projects.encoding = str(getattr(encoding, "value", encoding) or "utf-16")
        watches = server.client_capabilities.workspace
        if watches and watches.did_change_watched_files and watches.did_change_watched_files.dynamic_registration:
            watchers = [types.FileSystemWatcher(glob) for glob in WATCHED]
            registration = types.Registration(
                "lakesql-files",
                types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                types.DidChangeWatchedFilesRegistrationOptions(watchers),
            )
            server.client_register_capability(types.RegistrationParams([registration]))
        _open_folders(server, server.workspace.folders)

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders_changed(params: types.DidChangeWorkspaceFoldersParams) -> None:
        _open_folders(server, [folder.uri for folder in params.event.added])


def _open_folders(server: ProjectServer, uris: Iterable[str]) -> None:
    for uri in uris:
        for project in server.projects.open_below(uri):
            if project.manifest is None:
                server.later("open", project, "", 0, lambda project=project: server.read(project, from_disk=True))  # type: ignore[misc]


def _add_files(server: ProjectServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        file = server.projects.find(document.uri)
        if file is None:
            return
        server.projects.uris[file.project.directory / file.path] = document.uri
        known = file.project.text(file.path)
        file.project.open(file.path, document.text)
        if file.project.manifest is None or known != document.text:
            is_new = file.project.manifest is None
            server.later("open", file.project, "", 0, lambda: server.read(file.project, from_disk=is_new))
        else:
            server.read_later(file.project, from_disk=False)
        server.show(file.project)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        file = server.projects.find(params.text_document.uri)
        if file is None:
            return
        file.project.open(file.path, server.workspace.get_text_document(file.uri).source)
        server.later("look", file.project, file.path, LOOK_AFTER_S, lambda: server.look(file))

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        file = server.projects.find(params.text_document.uri)
        if file is not None:
            server.read_later(file.project, from_disk=True)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        file = server.projects.find(params.text_document.uri)
        if file is not None:
            file.project.close(file.path)
            server.projects.uris.pop(file.project.directory / file.path, None)
            server.read_later(file.project, from_disk=True)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def disk_changed(params: types.DidChangeWatchedFilesParams) -> None:
        for change in params.changes:
            file = server.projects.find(change.uri)
            if file is None:
                continue
            if change.type == types.FileChangeType.Deleted:
                file.project.forget(file.path)
            server.read_later(file.project, from_disk=True)


def _add_actions(server: ProjectServer) -> None:
    kinds = [types.CodeActionKind.QuickFix, FIX_ALL]

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=kinds))
    def actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        file = server.file(params.text_document.uri)
        if file is None:
            return []
        file.project.look(file.path)
        positions = server.projects.positions(file.project, file.path)
        return file_actions(file.project, file.path, file.uri, positions, params)
