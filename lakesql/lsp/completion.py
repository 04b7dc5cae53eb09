"""Completes what is typed: names of streams and models, columns, options and their
values, macros and variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lsprotocol import types

from lakesql.graph.manifest import Manifest
from lakesql.lsp.columns_known import columns_read, own_columns
from lakesql.lsp.config_options import (
    COLUMN_OPTIONS,
    find_option,
    keys_within,
    mode_texts,
    option_text,
    options_of,
    values_of,
)
from lakesql.lsp.cursor import (
    ConfigKey,
    ConfigValue,
    NameArgument,
    SqlWord,
    TagWord,
    find_cursor,
)
from lakesql.lsp.open_project import OpenProject
from lakesql.lsp.positions import TextPositions
from lakesql.lsp.sql_scopes import KnownColumn, read_scopes
from lakesql.template.reader import FUNCTIONS, SEVEN

MOST_ITEMS = 2_000
"""The maximum number of items in a list. With more, the list is marked as incomplete,
and the editor asks again as one types."""

Kind = types.CompletionItemKind


def complete(
    project: OpenProject, path: str, positions: TextPositions, offset: int
) -> types.CompletionList:
    """The completions at an offset of a template; empty for files of other kinds."""
    manifest = project.manifest
    if manifest is None or not path.endswith(".sql"):
        return types.CompletionList(is_incomplete=False, items=[])
    text = positions.source.text
    cursor = find_cursor(text, offset)
    found: Iterable[types.CompletionItem]
    match cursor:
        case NameArgument(function=function, start=start, end=end):
            found = _named(_names(manifest, function), positions, start, end)
        case ConfigKey(within="", start=start, end=end):
            found = _keys(text, positions, start, end)
        case ConfigKey(within=within, start=start, end=end):
            found = (
                _item(name, Kind.Property, "", said, positions, start, end)
                for name, said in keys_within(within)
            )
        case ConfigValue():
            found = _values(project, path, text, positions, cursor)
        case TagWord(start=start, end=end):
            found = _tag_words(manifest, positions, start, end)
        case SqlWord():
            found = _columns(project, text, positions, cursor)
        case None:
            found = ()
    items = [*found]
    return types.CompletionList(
        is_incomplete=len(items) > MOST_ITEMS, items=items[:MOST_ITEMS]
    )


def _item(
    label: str,
    kind: Kind,
    detail: str,
    said: str,
    positions: TextPositions,
    start: int,
    end: int,
    new: str = "",
) -> types.CompletionItem:
    documentation = (
        types.MarkupContent(types.MarkupKind.Markdown, said) if said else None
    )
    edit = types.TextEdit(positions.range_of(start, end), new or label)
    return types.CompletionItem(
        label,
        kind=kind,
        detail=detail or None,
        documentation=documentation,
        text_edit=edit,
    )


def _names(manifest: Manifest, function: str) -> Iterator[tuple[str, str, str]]:
    """The possible arguments of `stream`, `ref` or `var`: for each its name, a short
    detail, and its description."""
    if function == "var":
        for name, value in manifest.vars.items():
            yield name, f"variable: {value!r}", ""
        return
    if function == "stream":
        for stream in manifest.streams.values():
            yield stream.name, "stream", stream.description
    for model in manifest.models.values():
        if function == "ref" or (
            model.config.is_stored and model.name not in manifest.streams
        ):
            yield (
                model.name,
                f"{model.config.mode}: {model.table}",
                model.properties.description,
            )
    if function == "ref":
        for seed in manifest.seeds.values():
            yield seed.name, f"seed: {seed.table}", seed.properties.description


def _named(
    names: Iterable[tuple[str, str, str]],
    positions: TextPositions,
    start: int,
    end: int,
) -> Iterator[types.CompletionItem]:
    for name, detail, said in names:
        yield _item(name, Kind.Reference, detail, said, positions, start, end)


def _keys(
    text: str, positions: TextPositions, start: int, end: int
) -> Iterator[types.CompletionItem]:
    following = text[end:].lstrip()[:1]
    sign = "" if following == "=" else "="
    if not any(field.name == "mode" for field in options_of(text)):
        yield _item(
            "mode",
            Kind.Property,
            "required",
            "What the table holds.",
            positions,
            start,
            end,
            f"mode{sign}",
        )
    for field in options_of(text):
        yield _item(
            field.name,
            Kind.Property,
            "",
            option_text(field),
            positions,
            start,
            end,
            f"{field.name}{sign}",
        )


def _values(
    project: OpenProject,
    path: str,
    text: str,
    positions: TextPositions,
    cursor: ConfigValue,
) -> Iterator[types.CompletionItem]:
    """The completions of an option's value, with quotes unless the cursor is in
    quotes."""

    def quoted(value: str) -> str:
        return value if cursor.is_text or value in ("true", "false") else f"'{value}'"

    if cursor.option == "mode":
        for word, said in mode_texts():
            yield _item(
                word,
                Kind.EnumMember,
                "",
                said,
                positions,
                cursor.start,
                cursor.end,
                quoted(word),
            )
        return
    if cursor.option in COLUMN_OPTIONS:
        for column in own_columns(project, path):
            yield _item(
                column.name,
                Kind.Field,
                column.type,
                column.description,
                positions,
                cursor.start,
                cursor.end,
                quoted(column.name),
            )
        return
    if cursor.option == "of" and project.manifest is not None:
        yield from _named(
            _names(project.manifest, "ref"), positions, cursor.start, cursor.end
        )
    field = find_option(text, cursor.option)
    for value in values_of(field) if field is not None else ():
        yield _item(
            value,
            Kind.EnumMember,
            "",
            "",
            positions,
            cursor.start,
            cursor.end,
            quoted(value),
        )


def _tag_words(
    manifest: Manifest, positions: TextPositions, start: int, end: int
) -> Iterator[types.CompletionItem]:
    for name, macro in manifest.macros.by_name.items():
        yield _item(
            name,
            Kind.Function,
            "macro",
            f"```jinja\n{macro.text}\n```",
            positions,
            start,
            end,
            f"{name}(",
        )
    for name in sorted(SEVEN | FUNCTIONS):
        kind = Kind.Function if name in FUNCTIONS else Kind.Variable
        yield _item(
            name,
            kind,
            "lakesql",
            "",
            positions,
            start,
            end,
            f"{name}(" if name in FUNCTIONS else name,
        )


def _columns(
    project: OpenProject, text: str, positions: TextPositions, cursor: SqlWord
) -> Iterator[types.CompletionItem]:
    scopes = read_scopes(text)
    seen: set[str] = set()

    def read(function: str, name: str) -> list[KnownColumn]:
        return [*columns_read(project, function, name)]

    for relation in scopes.relations_at(cursor.start):
        if cursor.qualifier and relation.alias.lower() != cursor.qualifier.lower():
            continue
        if (
            not cursor.qualifier
            and relation.alias
            and relation.alias.lower() not in seen
        ):
            seen.add(relation.alias.lower())
            said = (
                f"{relation.function}('{relation.name}')"
                if relation.function
                else "a SELECT"
            )
            yield _item(
                relation.alias,
                Kind.Module,
                said,
                "",
                positions,
                cursor.start,
                cursor.end,
            )
        for column in scopes.columns(relation, read):
            if column.name.lower() in seen and not cursor.qualifier:
                continue
            seen.add(column.name.lower())
            detail = " ".join(
                part
                for part in (column.type, f"({column.origin})" if column.origin else "")
                if part
            )
            written = column.name if column.name.isidentifier() else f"`{column.name}`"
            yield _item(
                column.name,
                Kind.Field,
                detail,
                column.description,
                positions,
                cursor.start,
                cursor.end,
                written,
            )
