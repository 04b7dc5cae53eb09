"""The text that is shown for the name under the cursor: what it means, its columns, and
the SQL that a model compiles to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakesql.compile.shown_text import read_header, with_times
from lakesql.compile.statements import compiled_text
from lakesql.errors import LakesqlError
from lakesql.graph.manifest import Manifest
from lakesql.lsp.columns_known import columns_read, own_columns
from lakesql.lsp.config_options import find_option, keys_within, mode_texts, option_text
from lakesql.lsp.cursor import ConfigKey, ConfigValue, TagWord, find_cursor
from lakesql.lsp.declared_places import find_column
from lakesql.lsp.mentions import Mention, mention_at
from lakesql.lsp.open_project import OpenProject
from lakesql.lsp.positions import TextPositions
from lakesql.lsp.sql_scopes import KnownColumn

MOST_COLUMNS = 60
MOST_TEXT = 12_000
"""The maximum number of characters of compiled SQL that is shown."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A text in Markdown, and the offsets of the word that it describes."""

    text: str
    start: int
    end: int


def show(
    project: OpenProject, path: str, positions: TextPositions, offset: int
) -> Shown | None:
    """The text for what is at an offset of a file; None if there is nothing to show."""
    manifest = project.manifest
    if manifest is None:
        return None
    text = positions.source.text
    if path.endswith(".sql"):
        of_config = _in_config(project, manifest, path, text, offset)
        if of_config is not None:
            return of_config
    mention = mention_at(project, path, positions, offset)
    if mention is None:
        return None
    said = "\n\n".join(_of_mention(project, manifest, mention, text))
    return Shown(said, mention.start, mention.end) if said else None


def _in_config(
    project: OpenProject, manifest: Manifest, path: str, text: str, offset: int
) -> Shown | None:
    """The text for a word in the tag of `config(…)`; for the word `config` itself, the
    SQL that the model compiles to."""
    match find_cursor(text, offset):
        case TagWord(word="config", start=start, end=end):
            said = _compiled(project, manifest, path)
            return Shown(said, start, end) if said else None
        case ConfigKey(word=word, start=start, end=end, within=""):
            field = find_option(text, word)
            said = (
                "What the table holds, and how it is written." if word == "mode" else ""
            )
            said = option_text(field) if field is not None else said
            return Shown(f"**{word}**: {said}", start, end) if said else None
        case ConfigKey(word=word, start=start, end=end, within=within):
            said = dict(keys_within(within)).get(word, "")
            return Shown(f"**{within}.{word}**: {said}", start, end) if said else None
        case ConfigValue(option="mode", word=word, start=start, end=end):
            said = dict(mode_texts()).get(word, "")
            return Shown(said, start, end) if said else None
        case _:
            return None


def _compiled(project: OpenProject, manifest: Manifest, path: str) -> str:
    """The compiled SQL of the model in a file; '' if it does not compile."""
    model = next((each for each in manifest.models.values() if each.path == path), None)
    select = project.select(model.name) if model is not None else None
    if select is None:
        return ""
    try:
        text = with_times(compiled_text(select))
    except LakesqlError:
        return ""
    more = "\n-- … lakesql compile prints the rest" if len(text) > MOST_TEXT else ""
    return f"```sql\n{text[:MOST_TEXT].rstrip()}{more}\n```"


def _of_mention(
    project: OpenProject, manifest: Manifest, mention: Mention, text: str
) -> Iterator[str]:
    name = mention.name
    match mention.kind:
        case "stream" if name in manifest.streams:
            stream = manifest.streams[name]
            where = f", connection {stream.connection}" if stream.connection else ""
            yield f"**stream {name}** ({stream.format}{where})"
            yield stream.description
            yield _columns_table(columns_read(project, "stream", name))
        case "model" | "stream" if name in manifest.models:
            model = manifest.models[name]
            yield f"**model {name}**: mode {model.config.mode}, table `{model.table}`"
            yield model.properties.description
            yield _columns_table(columns_read(project, "ref", name))
            yield "\n".join(f"- {line}" for line in _day(project, name))
        case "model" if name in manifest.groups:
            group = manifest.groups[name]
            yield f"**group {name}**: {len(group.members)} tables of stream {group.stream}"
            yield ", ".join(f"`{member}`" for member in group.members[:MOST_COLUMNS])
        case "model" if name in manifest.seeds:
            seed = manifest.seeds[name]
            yield f"**seed {name}**: {seed.path}, table `{seed.table}`"
            yield seed.properties.description
            yield _columns_table(columns_read(project, "ref", name))
        case "macro" if name in manifest.macros.by_name:
            yield f"```jinja\n{manifest.macros.by_name[name].text.strip()}\n```"
        case "var" if name in manifest.vars:
            yield f"**var {name}**: `{manifest.vars[name]!r}`"
        case "column":
            yield from _of_column(
                find_column(project, mention, text) or _own_column(project, mention)
            )


def _own_column(project: OpenProject, mention: Mention) -> KnownColumn | None:
    """The output column of the model's own SELECT with this name."""
    columns = own_columns(project, mention.path) if not mention.qualifier else ()
    return next(
        (each for each in columns if each.name.lower() == mention.name.lower()), None
    )


def _of_column(column: KnownColumn | None) -> Iterator[str]:
    if column is not None:
        yield f"**{column.name}** `{column.type or 'type not known'}`" + (
            f", {column.origin}" if column.origin else ""
        )
        yield column.description


def _columns_table(columns: Sequence[KnownColumn]) -> str:
    if not columns:
        return ""
    rows = [
        f"| `{_cell(each.name)}` | `{_cell(each.type) or '?'}` | {_cell(each.description)} |"
        for each in columns
    ]
    more = (
        [f"\n… and {len(rows) - MOST_COLUMNS} more"] if len(rows) > MOST_COLUMNS else []
    )
    return "\n".join(
        ["| Column | Type | |", "| --- | --- | --- |", *rows[:MOST_COLUMNS], *more]
    )


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def _day(project: OpenProject, name: str) -> Iterator[str]:
    """The lines of a model's compiled header on its rows, its batches, and a day of
    it."""
    select = project.select(name)
    if select is None:
        return
    try:
        said = compiled_text(select)
    except LakesqlError:
        return
    for label, sentence in read_header(said):
        if label in ("rows", "batches", "refreshes", "a day"):
            yield f"{label}: {sentence}"
