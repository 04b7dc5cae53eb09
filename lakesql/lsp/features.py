"""Registers the handlers of the protocol's requests and notifications, each of which
calls the module that answers it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from lakesql.errors import LakesqlError
from lakesql.lsp.completion import complete
from lakesql.lsp.declared_places import declared_at, used_at
from lakesql.lsp.fixes import FIX_ALL, file_actions
from lakesql.lsp.hover import show
from lakesql.lsp.mentions import Mention, mention_at
from lakesql.lsp.positions import TextPositions
from lakesql.lsp.project_reader import ServerOptions
from lakesql.lsp.rename_project import (
    find_renamed,
    refusal,
    rename_model,
    workspace_edit,
)
from lakesql.lsp.server import LOOK_AFTER_S, ProjectServer
from lakesql.lsp.workspace_projects import ProjectFile
from lakesql.project.settings import SETTINGS_FILE

WATCHED = ("**/*.{sql,yml,yaml,csv,avsc,proto}", f"**/{SETTINGS_FILE}")


def build_server(options: ServerOptions, only: Path | None) -> ProjectServer:
    """The language server with all handlers."""
    server = ProjectServer(options, only)
    _add_lifecycle(server)
    _add_files(server)
    _add_actions(server)
    _add_names(server)
    _add_rename(server)
    return server


def _add_lifecycle(server: ProjectServer) -> None:
    @server.feature(types.INITIALIZED)
    def initialized(_: types.InitializedParams) -> None:
        encoding = server.workspace.position_encoding
        server.projects.encoding = str(getattr(encoding, "value", encoding) or "utf-16")
        watches = server.client_capabilities.workspace
        if (
            watches
            and watches.did_change_watched_files
            and watches.did_change_watched_files.dynamic_registration
        ):
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
        for folder in params.event.removed:
            for project in [*server.projects.open_below(folder.uri)]:
                server.leave(project)
        _open_folders(server, [folder.uri for folder in params.event.added])


def _open_folders(server: ProjectServer, uris: Iterable[str]) -> None:
    for uri in uris:
        for project in server.projects.open_below(uri):
            if project.manifest is None:
                server.later(
                    "open",
                    project,
                    "",
                    0,
                    partial(server.read, project, from_disk=True),
                )


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
            server.later(
                "open",
                file.project,
                "",
                0,
                lambda: server.read(file.project, from_disk=is_new),
            )
        else:
            server.read_later(file.project, from_disk=False)
        server.show(file.project)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        file = server.projects.find(params.text_document.uri)
        if file is None:
            return
        file.project.open(
            file.path, server.workspace.get_text_document(file.uri).source
        )
        server.later(
            "look", file.project, file.path, LOOK_AFTER_S, lambda: server.look(file)
        )

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
            else:
                file.project.remember(file.path)
            server.read_later(file.project, from_disk=True)


def _add_actions(server: ProjectServer) -> None:
    kinds = [types.CodeActionKind.QuickFix, FIX_ALL]

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=kinds),
    )
    def actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        file = server.file(params.text_document.uri)
        if file is None:
            return []
        file.project.look(file.path)
        positions = server.projects.positions(file.project, file.path)
        return file_actions(file.project, file.path, file.uri, positions, params)


def _add_names(server: ProjectServer) -> None:
    signs = ["'", '"', ".", "(", " ", "="]

    @server.feature(
        types.TEXT_DOCUMENT_COMPLETION,
        types.CompletionOptions(trigger_characters=signs),
    )
    def completed(params: types.CompletionParams) -> types.CompletionList | None:
        at = _at(server, params.text_document, params.position)
        return (
            complete(at.file.project, at.file.path, at.positions, at.offset)
            if at is not None
            else None
        )

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hovered(params: types.HoverParams) -> types.Hover | None:
        at = _at(server, params.text_document, params.position)
        shown = (
            show(at.file.project, at.file.path, at.positions, at.offset)
            if at is not None
            else None
        )
        if at is None or shown is None:
            return None
        text = types.MarkupContent(types.MarkupKind.Markdown, server.redact(shown.text))
        return types.Hover(text, at.positions.range_of(shown.start, shown.end))

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def defined(params: types.DefinitionParams) -> list[types.Location]:
        at = _at(server, params.text_document, params.position)
        mention = at.mention() if at is not None else None
        if at is None or mention is None:
            return []
        places = declared_at(at.file.project, mention, at.positions.source.text)
        return [server.location(at.file.project, place) for place in places]

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def used(params: types.ReferenceParams) -> list[types.Location]:
        at = _at(server, params.text_document, params.position)
        mention = at.mention() if at is not None else None
        if at is None or mention is None:
            return []
        found = used_at(
            at.file.project,
            mention,
            with_declaration=params.context.include_declaration,
        )
        return [server.mentioned(at.file.project, each) for each in found]


def _add_rename(server: ProjectServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepared(params: types.PrepareRenameParams) -> types.Range | None:
        at = _at(server, params.text_document, params.position)
        mention = at.mention() if at is not None else None
        if at is None or mention is None:
            return None
        try:
            find_renamed(at.file.project, mention)
        except LakesqlError as error:
            raise JsonRpcInvalidParams(refusal(error)) from None
        return at.positions.range_of(mention.start, mention.end)

    @server.feature(
        types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True)
    )
    def renamed(params: types.RenameParams) -> types.WorkspaceEdit | None:
        at = _at(server, params.text_document, params.position)
        if at is None:
            return None
        project = at.file.project
        can = server.client_capabilities.workspace
        edits = can.workspace_edit if can is not None else None
        if edits is None or types.ResourceOperationKind.Rename not in (
            edits.resource_operations or ()
        ):
            raise JsonRpcInvalidParams(
                "This editor renames no files for a language server."
            )
        try:
            rename = rename_model(project, at.mention(), params.new_name)
        except LakesqlError as error:
            raise JsonRpcInvalidParams(refusal(error)) from None
        server.window_show_message(
            types.ShowMessageParams(types.MessageType.Warning, rename.said)
        )

        def edit_of(mention: Mention, new: str) -> types.TextEdit:
            positions = server.projects.positions(project, mention.path)
            return types.TextEdit(positions.range_of(mention.start, mention.end), new)

        annotates = edits.change_annotation_support is not None
        return workspace_edit(
            rename,
            edit_of,
            lambda path: server.projects.uri(project, path),
            annotates=annotates,
        )


@dataclass(frozen=True, slots=True)
class _AskedAt:
    """The subject of a request: a file, its text, and an offset in it."""

    file: ProjectFile
    positions: TextPositions
    offset: int

    def mention(self) -> Mention | None:
        return mention_at(
            self.file.project, self.file.path, self.positions, self.offset
        )


def _at(
    server: ProjectServer,
    document: types.TextDocumentIdentifier,
    position: types.Position,
) -> _AskedAt | None:
    file = server.file(document.uri)
    if file is None:
        return None
    positions = server.projects.positions(file.project, file.path)
    return _AskedAt(file, positions, positions.offset(position))
