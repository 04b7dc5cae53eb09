"""A model: what its file and its properties say, checked by itself. Its SELECT is not rendered yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesql.decode import Node
from lakesql.errors import Place
from lakesql.model.config import Config, Trigger
from lakesql.model.properties import ModelProperties
from lakesql.model.table_name import TableName
from lakesql.template.reader import Reference
from lakesql.template.template import Template


@dataclass(frozen=True, slots=True)
class TemplateFacts:
    """What a template says without being rendered: all that the graph needs, and what a cache can keep.

    `vars` and `macros` are those it can reach; `reads` says which of `this`, `target`, `is_full_refresh` it reads.
    `template` is the parsed template, where the facts come fresh from it: who renders it need not parse it again.
    """

    config: Node
    streams: tuple[Reference, ...]
    refs: tuple[Reference, ...]
    vars: frozenset[str]
    macros: frozenset[str]
    reads: frozenset[str]
    template: Template | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Model:
    """One model of the project. `options` are its configuration as plain values, for the selector and the manifest.

    `trigger` is what `config` says, or else the target.
    """

    name: str
    path: str
    fqn: tuple[str, ...]
    source: str
    table: TableName
    config: Config
    trigger: Trigger
    options: Mapping[str, object]
    facts: TemplateFacts
    properties: ModelProperties

    @property
    def place(self) -> Place:
        """The model's file."""
        return Place(self.path, 1, 1)

    def option_place(self, option: str, item: int | None = None) -> Place:
        """Where `config(...)` gives an option, or one item of it; the call, or the file, if it does not."""
        config = self.facts.config
        entry = config.entries().get(option)
        if entry is not None and item is not None and isinstance(entry.value, tuple):
            return entry.value[item].place
        return entry.place if entry else config.place
