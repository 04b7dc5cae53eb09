"""Finds where the files of a project name its models, streams, seeds, macros and
variables, and which name the cursor is on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from lakesql.decode import Node
from lakesql.errors import Place, ProjectError
from lakesql.graph.manifest import Manifest
from lakesql.lint.finding import word_span
from lakesql.lsp.cursor import (
    ConfigValue,
    NameArgument,
    SqlWord,
    TagWord,
    find_cursor,
    find_tags,
)
from lakesql.lsp.open_project import OpenProject
from lakesql.lsp.positions import TextPositions
from lakesql.project.files import PROPERTIES_SUFFIXES
from lakesql.project.settings import SETTINGS_FILE, parse_settings
from lakesql.project.yaml import parse_yaml
from lakesql.template.jinja import SourceText, source_of

MentionKind = Literal["model", "stream", "macro", "var", "column"]
"""What a name refers to. Seeds count as models, as both are read by `ref`; and `stream`
may name a model."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A name between two offsets of a file. `declares` is true if this place declares
    it. `qualifier` is what stands before a column and a dot."""

    kind: MentionKind
    name: str
    path: str
    start: int
    end: int
    declares: bool = False
    qualifier: str = ""


def mention_at(
    project: OpenProject, path: str, positions: TextPositions, offset: int
) -> Mention | None:
    """The name at an offset of a file; None if there is none."""
    manifest = project.manifest
    if manifest is None:
        return None
    if path.endswith(".sql"):
        return _in_template(manifest, path, positions.source.text, offset)
    found = file_mentions(path, positions.source, manifest)
    return next((each for each in found if each.start <= offset <= each.end), None)


def _in_template(
    manifest: Manifest, path: str, text: str, offset: int
) -> Mention | None:
    match find_cursor(text, offset):
        case NameArgument(function="var", name=name, start=start, end=end):
            return Mention("var", name, path, start, end)
        case NameArgument(function="stream", name=name, start=start, end=end):
            kind: MentionKind = "stream" if name in manifest.streams else "model"
            return Mention(kind, name, path, start, end)
        case NameArgument(name=name, start=start, end=end):
            return Mention("model", name, path, start, end)
        case ConfigValue(option="of", word=word, start=start, end=end):
            return Mention("model", word, path, start, end)
        case TagWord(word=word, start=start, end=end) if (
            word in manifest.macros.by_name
        ):
            return Mention("macro", word, path, start, end)
        case SqlWord(word=word, start=start, end=end, qualifier=qualifier) if word:
            return Mention(
                "column", word.strip("`"), path, start, end, qualifier=qualifier
            )
    return None


def all_mentions(
    project: OpenProject, kind: MentionKind, name: str
) -> Iterator[Mention]:
    """All places of the project that name the model, stream, macro or variable with
    this name."""
    manifest = project.manifest
    if manifest is None:
        return
    for path, text in sorted(project.texts().items()):
        if name not in text:
            continue
        for each in file_mentions(path, source_of(path, text), manifest):
            if each.kind == kind and each.name == name:
                yield each


def file_mentions(
    path: str, source: SourceText, manifest: Manifest
) -> Iterator[Mention]:
    """All names of models, streams, macros and variables in a file, unordered."""
    if path.endswith(".sql"):
        yield from _template_mentions(path, source.text, manifest)
    elif path.endswith(PROPERTIES_SUFFIXES):
        yield from _properties_mentions(path, source, manifest)
    elif path == SETTINGS_FILE:
        yield from _settings_mentions(source, manifest)


def _settings_mentions(source: SourceText, manifest: Manifest) -> Iterator[Mention]:
    """The variables that pyproject.toml declares, and the models for which it sets
    options."""
    try:
        settings = parse_settings(source.path, source.text)
    except ProjectError:
        return
    for name in settings.vars.entries():
        yield from _at(
            "var", name, source, settings.vars.key_place(name), declares=True
        )
    if not settings.models.entries():
        return
    for model in manifest.models.values():
        node: Node | None = settings.models
        for folder in model.fqn[1:-1]:
            node = _entry(node, folder) if node is not None else None
        if node is not None and _entry(node, model.fqn[-1]) is not None:
            yield from _at("model", model.name, source, node.key_place(model.fqn[-1]))


_ARGUMENT = re.compile(r"\b(stream|ref|var)\s*\(\s*(['\"])([^'\"\n]*)\2")
_OF = re.compile(r"\bof\s*=\s*(['\"])([^'\"\n]*)\1")
_MACRO = re.compile(r"\bmacro\s+(\w+)\s*\(")
_CALLED = re.compile(r"(?<![.\w'\"])(\w+)\s*\(")


def _template_mentions(path: str, text: str, manifest: Manifest) -> Iterator[Mention]:
    for tag in find_tags(text):
        if tag.sign == "{#":
            continue
        for found in _ARGUMENT.finditer(text, tag.start, tag.end):
            function, name = found[1], found[3]
            kind: MentionKind = "var" if function == "var" else "model"
            if function == "stream" and name in manifest.streams:
                kind = "stream"
            yield Mention(kind, name, path, *found.span(3))
        for found in _OF.finditer(text, tag.start, tag.end):
            yield Mention("model", found[2], path, *found.span(2))
        declared = _MACRO.search(text, tag.start, tag.end)
        if declared:
            yield Mention("macro", declared[1], path, *declared.span(1), declares=True)
        for found in _CALLED.finditer(text, tag.start, tag.end):
            is_declared = declared is not None and declared.start(1) == found.start(1)
            if found[1] in manifest.macros.by_name and not is_declared:
                yield Mention("macro", found[1], path, *found.span(1))


_TO = re.compile(r"\bto:[ \t]*(['\"]?)([\w.]+)\1(?=[ \t]*(?:[,}#\n]|\Z))")
"""The other table of a `relationships` test, if it is not written as `ref(…)`."""

_SECTIONS: Mapping[str, MentionKind] = {
    "models": "model",
    "seeds": "model",
    "streams": "stream",
}


def _properties_mentions(
    path: str, source: SourceText, manifest: Manifest
) -> Iterator[Mention]:
    """The names in a properties file; none if it is not valid YAML."""
    try:
        root = parse_yaml(path, source.text)
    except ProjectError:
        return
    for section, kind in _SECTIONS.items():
        for entry in _items(root, section):
            yield from _value(
                "model" if kind == "model" else kind,
                entry,
                "name",
                source,
                declares=True,
            )
    for test in _items(root, "unit_tests"):
        yield from _value("model", test, "model", source)
        for given in _items(test, "given"):
            yield from _value("model", given, "ref", source)
            read = _entry(given, "stream")
            if read is not None:
                kind = "stream" if read.value in manifest.streams else "model"
                yield from _value(kind, given, "stream", source)
    for table in _items(root, "source_tables"):
        yield from _value("stream", table, "stream", source)
    for found in _TO.finditer(source.text):
        yield Mention("model", found[2], path, *found.span(2))
    for found in re.finditer(r"\bref\(\s*(['\"]?)(\w[\w.]*)\1\s*\)", source.text):
        yield Mention("model", found[2], path, *found.span(2))


def _entry(node: Node, key: str) -> Node | None:
    return node.get(key) if isinstance(node.value, Mapping) else None


def _items(node: Node, key: str) -> tuple[Node, ...]:
    found = _entry(node, key)
    return found.value if found is not None and isinstance(found.value, tuple) else ()


def _value(
    kind: MentionKind, node: Node, key: str, source: SourceText, declares: bool = False
) -> Iterator[Mention]:
    found = _entry(node, key)
    if found is not None and isinstance(found.value, str):
        yield from _at(kind, found.value, source, found.place, declares=declares)


def _at(
    kind: MentionKind,
    name: str,
    source: SourceText,
    place: Place,
    declares: bool = False,
) -> Iterator[Mention]:
    """The mention of a name at a place of a file, with or without quotes."""
    span = word_span(source.text, place)
    first = (
        source.starts[span.line - 1]
        if span.line <= len(source.starts)
        else len(source.text)
    )
    at = source.text.find(
        name,
        first + (span.start.column or 1) - 1,
        first + (span.end.column or 1) + len(name),
    )
    if at >= 0:
        yield Mention(kind, name, source.path, at, at + len(name), declares)
