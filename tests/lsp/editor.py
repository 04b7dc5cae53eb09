"""An editor for the tests: pygls's own client, which talks to the server in a process
of its own."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

from lakesql.lsp.positions import TextPositions, positions_of
from tests.lint.samples import lay

ROOT = Path(__file__).parents[2]
PATIENCE_S = 90
CURSOR = "‸"
"""Where the cursor stands in a text."""


class RunningServer:
    """A server in a process of its own, which many sessions talk to, one after the
    other: it has to live on."""

    def __init__(self, folder: Path, encoding: str, environ: Mapping[str, str]) -> None:
        self.client = LanguageClient("tests", "1")
        self.encoding = encoding
        self.published: dict[str, list[types.Diagnostic]] = {}
        self.logged: list[str] = []
        self.shown: list[str] = []
        self.registered: list[types.Registration] = []
        self.news = asyncio.Event()
        self.notes = folder / "notes"
        self._folder = folder
        self._environ = environ

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def publish(params: types.PublishDiagnosticsParams) -> None:
            self.published[params.uri] = list(params.diagnostics)
            self.news.set()

        @self.client.feature(types.WINDOW_LOG_MESSAGE)
        def log(params: types.LogMessageParams) -> None:
            self.logged.append(params.message)

        @self.client.feature(types.WINDOW_SHOW_MESSAGE)
        def show(params: types.ShowMessageParams) -> None:
            self.shown.append(params.message)

        @self.client.feature(types.CLIENT_REGISTER_CAPABILITY)
        def register(params: types.RegistrationParams) -> None:
            self.registered += params.registrations

    async def start(self) -> None:
        command = [
            sys.executable,
            str(Path(__file__).parent / "guarded_server.py"),
            str(self.notes),
        ]
        variables = {
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self._folder),
            "PATH": "",
        }
        await self.client.start_io(
            *command, env={**variables, **self._environ}, cwd=str(self._folder)
        )
        general = types.GeneralClientCapabilities(
            position_encodings=[types.PositionEncodingKind(self.encoding)]
        )
        workspace = types.WorkspaceClientCapabilities(
            did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(
                dynamic_registration=True
            ),
            workspace_edit=types.WorkspaceEditClientCapabilities(
                document_changes=True,
                resource_operations=[types.ResourceOperationKind.Rename],
                change_annotation_support=types.ChangeAnnotationsSupportOptions(),
            ),
        )
        capabilities = types.ClientCapabilities(general=general, workspace=workspace)
        params = types.InitializeParams(capabilities, process_id=os.getpid())
        started = await asyncio.wait_for(
            self.client.initialize_async(params), PATIENCE_S
        )
        assert started.capabilities.position_encoding in (self.encoding, None)
        self.client.initialized(types.InitializedParams())

    async def answers(self) -> None:
        """Wait for the answer to a request, before which all is heard that was said
        until then."""
        params = types.ExecuteCommandParams("lakesql.no_such_command")
        with suppress(JsonRpcException):
            await asyncio.wait_for(
                self.client.workspace_execute_command_async(params), PATIENCE_S
            )

    async def stop(self) -> None:
        await asyncio.wait_for(self.client.shutdown_async(None), PATIENCE_S)
        self.client.exit(None)
        await asyncio.wait_for(self.client.stop(), PATIENCE_S)


_LOOP = asyncio.new_event_loop()
_SERVERS: dict[tuple[str, tuple[tuple[str, str], ...]], RunningServer] = {}


def run(script: Coroutine[Any, Any, None]) -> None:
    """Run a session."""
    _LOOP.run_until_complete(script)


def stop_servers() -> None:
    """End the servers that sessions have started."""
    for server in _SERVERS.values():
        _LOOP.run_until_complete(server.stop())
    _SERVERS.clear()


class Editor:
    """An editor with files open. Paths are those from the folder."""

    def __init__(self, root: Path, server: RunningServer) -> None:
        self.root = root
        self.server = server
        self.client = server.client
        self.published = server.published
        self.shown: list[str] = server.shown
        self.texts: dict[str, str] = {}
        self.version = 0

    def uri(self, path: str) -> str:
        return (self.root / path).as_uri()

    def positions(self, path: str) -> TextPositions:
        text = (
            self.texts[path]
            if path in self.texts
            else (self.root / path).read_bytes().decode("utf-8-sig")
        )
        return positions_of(path, text, self.server.encoding)

    # What somebody does

    def open(self, path: str, text: str | None = None) -> None:
        text = (
            text
            if text is not None
            else (self.root / path).read_bytes().decode("utf-8-sig")
        )
        self.texts[path] = text.replace(CURSOR, "")
        item = types.TextDocumentItem(
            self.uri(path), "sql", self.version, self.texts[path]
        )
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def type(self, path: str, text: str) -> None:
        self.version += 1
        self.texts[path] = text.replace(CURSOR, "")
        document = types.VersionedTextDocumentIdentifier(self.version, self.uri(path))
        change = types.TextDocumentContentChangeWholeDocument(self.texts[path])
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(document, [change])
        )

    def save(self, path: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(self.texts[path].encode())
        self.client.text_document_did_save(
            types.DidSaveTextDocumentParams(self.document(path))
        )

    def close(self, path: str) -> None:
        self.texts.pop(path)
        self.client.text_document_did_close(
            types.DidCloseTextDocumentParams(self.document(path))
        )

    def delete(self, path: str) -> None:
        (self.root / path).unlink()
        self.tell(path, types.FileChangeType.Deleted)

    def tell(self, path: str, change: types.FileChangeType) -> None:
        events = [types.FileEvent(self.uri(path), change)]
        self.client.workspace_did_change_watched_files(
            types.DidChangeWatchedFilesParams(events)
        )

    def document(self, path: str) -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier(self.uri(path))

    def at(self, path: str, words: str) -> types.Position:
        """Where the cursor stands in `words`, which the file has once."""
        before, _, after = words.partition(CURSOR)
        positions = self.positions(path)
        text = positions.source.text
        assert text.count(before + after) == 1, (words, text)
        return positions.position(
            positions.source.place(text.index(before + after) + len(before))
        )

    # What is shown

    async def until(
        self, path: str, wanted: Callable[[list[types.Diagnostic]], bool]
    ) -> list[types.Diagnostic]:
        """What is shown of a file, as soon as it is what is wanted, and stays so when
        all that was said at once is heard."""
        uri = self.uri(path)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not (
                    wanted(self.published.get(uri, []))
                    and await self._stays(uri, wanted)
                ):
                    self.server.news.clear()
                    await self.server.news.wait()
        except TimeoutError:
            raise AssertionError(
                (path, self.codes(path), self.server.published, self.server.logged)
            ) from None
        return self.published.get(uri, [])

    async def _stays(
        self, uri: str, wanted: Callable[[list[types.Diagnostic]], bool]
    ) -> bool:
        await self.server.answers()
        return wanted(self.published.get(uri, []))

    async def until_codes(self, path: str, *codes: str) -> list[types.Diagnostic]:
        """What is shown of a file, as soon as these are its codes; notes have none."""
        return await self.until(path, lambda _: self.codes(path) == sorted(codes))

    def codes(self, path: str) -> list[str]:
        return sorted(
            str(each.code)
            for each in self.published.get(self.uri(path), [])
            if each.code is not None
        )

    async def settle(self) -> None:
        """Wait until nothing new has come for longer than the server waits."""
        while True:
            self.server.news.clear()
            try:
                async with asyncio.timeout(1.5):
                    await self.server.news.wait()
            except TimeoutError:
                return

    def written(self, path: str, of: types.Range) -> str:
        """The text of a range."""
        positions = self.positions(path)
        return positions.source.text[
            positions.offset(of.start) : positions.offset(of.end)
        ]

    # What is asked

    async def ask(self, answer: Awaitable[Any]) -> Any:
        """The answer to a request; a failure where none comes."""
        return await asyncio.wait_for(answer, PATIENCE_S)

    async def complete(self, path: str, words: str) -> dict[str, types.CompletionItem]:
        params = types.CompletionParams(self.document(path), self.at(path, words))
        found = await self.ask(self.client.text_document_completion_async(params))
        items = found.items if isinstance(found, types.CompletionList) else found or []
        return {item.label: item for item in items}

    async def hover(self, path: str, words: str) -> str:
        params = types.HoverParams(self.document(path), self.at(path, words))
        found = await self.ask(self.client.text_document_hover_async(params))
        if found is None:
            return ""
        assert isinstance(found.contents, types.MarkupContent)
        return found.contents.value

    async def definition(self, path: str, words: str) -> list[tuple[str, int, int]]:
        params = types.DefinitionParams(self.document(path), self.at(path, words))
        return self.places(
            await self.ask(self.client.text_document_definition_async(params))
        )

    async def references(self, path: str, words: str) -> list[tuple[str, int, int]]:
        context = types.ReferenceContext(include_declaration=True)
        params = types.ReferenceParams(
            context=context,
            text_document=self.document(path),
            position=self.at(path, words),
        )
        return self.places(
            await self.ask(self.client.text_document_references_async(params))
        )

    def places(self, found: Any) -> list[tuple[str, int, int]]:
        """Paths, lines and characters, from 1."""
        every = (
            found
            if isinstance(found, list | tuple)
            else [found]
            if found is not None
            else []
        )
        return sorted(
            (
                self.path(each.uri),
                each.range.start.line + 1,
                each.range.start.character + 1,
            )
            for each in every
        )

    def path(self, uri: str) -> str:
        """The path that a uri is of."""
        assert uri.startswith(f"{self.root.as_uri()}/"), uri
        from urllib.parse import unquote

        return unquote(uri.removeprefix(f"{self.root.as_uri()}/"))

    async def rename(
        self, path: str, words: str, name: str
    ) -> types.WorkspaceEdit | None:
        params = types.RenameParams(
            text_document=self.document(path),
            position=self.at(path, words),
            new_name=name,
        )
        edit: types.WorkspaceEdit | None = await self.ask(
            self.client.text_document_rename_async(params)
        )
        return edit

    async def actions(
        self,
        path: str,
        of: types.Range,
        only: Sequence[types.CodeActionKind | str] | None = None,
    ) -> list[types.CodeAction]:
        context = types.CodeActionContext(self.published.get(self.uri(path), []), only)
        params = types.CodeActionParams(
            text_document=self.document(path), range=of, context=context
        )
        found = await self.ask(self.client.text_document_code_action_async(params))
        return [each for each in found or [] if isinstance(each, types.CodeAction)]

    def apply(self, path: str, edits: Sequence[Any]) -> str:
        """The text of a file with edits."""
        positions = self.positions(path)
        text = positions.source.text
        spans = sorted(
            (
                (
                    positions.offset(each.range.start),
                    positions.offset(each.range.end),
                    each.new_text,
                )
                for each in edits
            ),
            reverse=True,
        )
        for start, end, new in spans:
            text = text[:start] + new + text[end:]
        return text


@asynccontextmanager
async def editing(
    root: Path,
    *files: Mapping[str, str],
    plain: bool = False,
    folders: Sequence[Path] = (),
    encoding: str = "utf-16",
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[Editor]:
    """A session with a project open: the sample of the linter's tests with files over
    it; with `plain` what is there.

    At the end the server has to be alive, to have reported no defect, and to have
    written nothing, started nothing and asked nobody.
    """
    if not plain:
        lay(root, *files)
    key = encoding, tuple((environ or {}).items())
    if key not in _SERVERS:
        _SERVERS[key] = RunningServer(
            Path(tempfile.mkdtemp(prefix="lakesql-lsp-")), encoding, environ or {}
        )
        await _SERVERS[key].start()
    server = _SERVERS[key]
    server.shown.clear()
    editor = Editor(root, server)
    opened = [
        types.WorkspaceFolder(each.as_uri(), each.name) for each in (folders or (root,))
    ]
    before = _contents(root)
    _change_folders(server, opened, [])
    yield editor
    for path in [*editor.texts]:
        editor.close(path)
    _change_folders(server, [], opened)
    await editor.until(
        ".",
        lambda _: not any(server.published.get(uri) for uri in _inside(server, root)),
    )
    await server.answers()
    assert server.notes.read_text() == "", "the server has done what it must not"
    assert server.logged == []
    new = {path for path, at in _contents(root).items() if before.get(path) != at}
    assert not [
        path for path in new if path.split("/")[0] in ("target", ".lakesql", "logs")
    ]


def _inside(server: RunningServer, root: Path) -> list[str]:
    return [uri for uri in server.published if uri.startswith(f"{root.as_uri()}/")]


def _change_folders(
    server: RunningServer,
    added: Sequence[types.WorkspaceFolder],
    removed: Sequence[types.WorkspaceFolder],
) -> None:
    event = types.WorkspaceFoldersChangeEvent([*added], [*removed])
    server.client.workspace_did_change_workspace_folders(
        types.DidChangeWorkspaceFoldersParams(event)
    )


def _contents(root: Path) -> dict[str, int]:
    return {
        path.relative_to(root).as_posix(): path.stat().st_mtime_ns
        for path in root.rglob("*")
        if path.is_file()
    }
