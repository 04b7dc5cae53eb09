"""Finds where the name at the cursor is declared, and where it is used."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakesql.errors import Place
from lakesql.graph.manifest import Manifest
from lakesql.lsp.columns_known import columns_read
from lakesql.lsp.mentions import Mention, all_mentions
from lakesql.lsp.open_project import OpenProject
from lakesql.lsp.sql_scopes import KnownColumn, read_scopes


def declared_at(project: OpenProject, mention: Mention, text: str) -> Iterator[Place]:
    """The places in the project's files that declare what is mentioned, as far as they
    are known."""
    manifest = project.manifest
    if manifest is None:
        return
    name = mention.name
    match mention.kind:
        case "stream" if name in manifest.streams:
            yield manifest.streams[name].place
        case "macro" if name in manifest.macros.by_name:
            macro = manifest.macros.by_name[name]
            yield macro.source.place(macro.node.lineno)
        case "var" if name in manifest.settings.vars.entries():
            yield manifest.settings.vars.key_place(name)
        case "model" | "stream":
            yield from _of_model(manifest, name)
        case "column":
            yield from _of_column(project, manifest, mention, text)


def _of_model(manifest: Manifest, name: str) -> Iterator[Place]:
    """The place of a model, group or seed; for a model that stands for a table of a
    feed, also where that table is declared."""
    if name in manifest.models:
        model = manifest.models[name]
        yield model.place
        if model.member is not None:
            named = (model.member.feed, model.member.source_table)
            declared = (each for each in manifest.source_tables if each.is_declared)
            yield from (
                each.place for each in declared if (each.stream, each.name) == named
            )
    elif name in manifest.groups:
        yield manifest.groups[name].place
    elif name in manifest.written:
        yield manifest.written[name].place
    elif name in manifest.seeds:
        yield manifest.seeds[name].place


def _of_column(
    project: OpenProject, manifest: Manifest, mention: Mention, text: str
) -> Iterator[Place]:
    column = find_column(project, mention, text)
    kind, _, owner = (
        column.origin.partition(" ") if column is not None else ("", "", "")
    )
    if kind == "stream" and owner in manifest.streams:
        stream = manifest.streams[owner]
        yield _line_of(project, stream.place, mention.name) or stream.place
    elif kind == "model" and owner in manifest.models:
        select = project.select(owner)
        outputs = select.query.outputs or () if select is not None else ()
        made = [each for each in outputs if each.name.lower() == mention.name.lower()]
        yield (
            select.rendered.place(made[0].offset)
            if select is not None and made
            else manifest.models[owner].place
        )
    elif kind == "seed" and owner in manifest.seeds:
        yield manifest.seeds[owner].place


def _line_of(project: OpenProject, start: Place, column: str) -> Place | None:
    """The place in a stream's entry that declares a column; None if it is not found."""
    text = project.text(start.path) or ""
    pattern = re.compile(
        rf"""(?:^|[{{,])\s*(?:-\s*)?(['"`]?){re.escape(column)}\1\s*:""", re.IGNORECASE
    )
    lines = re.split(r"\r\n|\r|\n", text)
    for number in range(start.line or 1, len(lines) + 1):
        found = pattern.search(lines[number - 1])
        if found:
            at = lines[number - 1].lower().find(column.lower(), found.start())
            return Place(start.path, number, at + 1)
    return None


def find_column(
    project: OpenProject, mention: Mention, text: str
) -> KnownColumn | None:
    """The column that a word of SQL names; None if it is not known."""
    scopes = read_scopes(text)

    def read(function: str, name: str) -> list[KnownColumn]:
        return [*columns_read(project, function, name)]

    for relation in scopes.relations_at(mention.start):
        if mention.qualifier and relation.alias.lower() != mention.qualifier.lower():
            continue
        for column in scopes.columns(relation, read):
            if column.name.lower() == mention.name.lower():
                return column
    return None


def used_at(
    project: OpenProject, mention: Mention, *, with_declaration: bool
) -> Iterator[Mention]:
    """All places of the project that name what is mentioned; none for a column."""
    if mention.kind == "column":
        return
    for each in all_mentions(project, mention.kind, mention.name):
        if with_declaration or not each.declares:
            yield each
