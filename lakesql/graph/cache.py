"""What models' templates say, kept from one command to the next, so that an unchanged file is not parsed again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakesql.decode import Node
from lakesql.errors import Place
from lakesql.graph.manifest import read_template
from lakesql.model.model import TemplateFacts
from lakesql.model.template import Macros, Reference
from lakesql.project.cache import CacheFile, digest
from lakesql.project.files import SourceFile


class FactsCache:
    """The facts of templates by path. An entry holds for one text of the model and of each macro that it reaches."""

    def __init__(self, file: Path) -> None:
        self._cache = CacheFile(file)
        self._read: set[str] = set()

    def read(self, file: SourceFile, macros: Macros) -> TemplateFacts:
        """The facts of a model's template: what `read_template` says, or said before of the same texts."""
        self._read.add(file.path)
        # A macro of the model's own must not have the name of one of the project's: there all names matter.
        key = digest(file.text, *(sorted(macros.by_name) if "endmacro" in file.text else ()))
        found = self._cache.get(file.path, key)
        if found is not None and found["macros"] == digest_macros(found["macros"], macros):
            return _decode(found, file.path)
        facts = read_template(file, macros)
        self._cache.put(file.path, key, _encode(facts, macros))
        return facts

    def save(self) -> None:
        """Keep the facts of the files that were read, and no others."""
        self._cache.save(self._read)


def digest_macros(names: Mapping[str, str] | frozenset[str], macros: Macros) -> dict[str, str]:
    """The digests of the texts of the macros `names`; a macro that is gone has none."""
    return {name: digest(macros.by_name[name].text) for name in names if name in macros.by_name}


def _encode(facts: TemplateFacts, macros: Macros) -> dict[str, Any]:
    return {
        "config": _encode_node(facts.config),
        "streams": [_encode_reference(found) for found in facts.streams],
        "refs": [_encode_reference(found) for found in facts.refs],
        "vars": sorted(facts.vars),
        "macros": digest_macros(facts.macros, macros),
        "reads": sorted(facts.reads),
    }


def _decode(found: Mapping[str, Any], path: str) -> TemplateFacts:
    return TemplateFacts(
        config=_decode_node(found["config"], path),
        streams=tuple(_decode_reference(item, path) for item in found["streams"]),
        refs=tuple(_decode_reference(item, path) for item in found["refs"]),
        vars=frozenset(found["vars"]),
        macros=frozenset(found["macros"]),
        reads=frozenset(found["reads"]),
    )


def _encode_reference(reference: Reference) -> list[Any]:
    return [reference.name, reference.place.line, reference.place.column]


def _decode_reference(found: list[Any], path: str) -> Reference:
    return Reference(found[0], Place(path, found[1], found[2]))


def _encode_node(node: Node) -> list[Any]:
    """`[value, line, column]`, with a list of nodes as the value of a list; a mapping has its keys' places besides."""
    value, place = node.value, [node.place.line, node.place.column]
    match value:
        case tuple():
            return [[_encode_node(item) for item in value], *place]
        case Mapping():
            keys = {key: [at.line, at.column] for key, at in node.keys.items()}
            return [{key: _encode_node(item) for key, item in value.items()}, *place, keys]
        case _:
            return [value, *place]


def _decode_node(found: list[Any], path: str) -> Node:
    value, place = found[0], Place(path, found[1], found[2])
    match value:
        case list():
            return Node(tuple(_decode_node(item, path) for item in value), place)
        case dict():
            keys = {key: Place(path, at[0], at[1]) for key, at in found[3].items()}
            return Node({key: _decode_node(item, path) for key, item in value.items()}, place, keys)
        case _:
            return Node(value, place)
