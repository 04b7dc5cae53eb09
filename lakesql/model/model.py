"""A model as a value: its configuration, its properties, and the facts of its template.
Its SELECT is not rendered yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesql.decode import Node
from lakesql.errors import Place
from lakesql.model.column_rules import GroupMember
from lakesql.model.config import MaintenanceConfig, TableConfig, Trigger
from lakesql.model.properties import ModelProperties
from lakesql.model.table_name import TableName
from lakesql.project.procedures import Procedure
from lakesql.template.reader import Reference
from lakesql.template.template import Template, read_config_again


@dataclass(frozen=True, slots=True)
class TemplateFacts:
    """What is known of a template without rendering it, as the graph needs it.

    `vars` and `macros` are those that it may use, directly or through macros; `reads`
    has which of `this`, `target` and `is_full_refresh` it uses. `config` is its
    `config(...)` with places, and `template` the parsed template; both are None if the
    facts come from a cache, which does not keep them, as few commands need them.
    """

    config: Node | None = field(compare=False)
    streams: tuple[Reference, ...]
    refs: tuple[Reference, ...]
    vars: frozenset[str]
    macros: frozenset[str]
    reads: frozenset[str]
    template: Template | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A CALL statement of a maintenance model, in the model whose table it maintains.

    `of` is the name of the maintenance model, `name` that of the task. `is_by_time`:
    the statement is due by its trigger alone.
    """

    name: str
    of: str
    procedure: str
    options: Procedure
    is_by_time: bool
    place: Place


@dataclass(frozen=True, slots=True)
class MaintenanceModel:
    """A file of CALL statements that maintain the table of a model."""

    name: str
    path: str
    fqn: tuple[str, ...]
    source: str
    config: MaintenanceConfig
    options: Mapping[str, object]
    facts: TemplateFacts

    @property
    def place(self) -> Place:
        """The beginning of the file."""
        return Place(self.path, 1, 1)

    def option_place(self, option: str) -> Place:
        """The place of an option in `config(...)`; that of `config(...)` if it does not
        give the option."""
        config = self.facts.config or read_config_again(self.path, self.source)
        entry = config.entries().get(option)
        return entry.place if entry else config.place


@dataclass(frozen=True, slots=True)
class Model:
    """A model of the project. `options` is its configuration as plain values, for
    selectors and the manifest.

    `trigger` is that of `config`, or if it has none the target's. `calls` are the CALL
    statements by which its table is maintained instead of by its options. `member` is
    None unless the model belongs to a group.
    """

    name: str
    path: str
    fqn: tuple[str, ...]
    source: str
    table: TableName
    config: TableConfig
    trigger: Trigger
    options: Mapping[str, object]
    facts: TemplateFacts
    properties: ModelProperties
    calls: tuple[WrittenCall, ...] = ()
    member: GroupMember | None = None

    @property
    def place(self) -> Place:
        """The beginning of the model's file."""
        return Place(self.path, 1, 1)

    @property
    def compiled_path(self) -> str:
        """The path of its compiled file below the folder of compiled files. Each model
        of a group has one of its own."""
        if self.member is None:
            return self.path
        return f"{self.path.removesuffix('.sql')}/{self.fqn[-1]}.sql"

    @property
    def said(self) -> Node:
        """The `config(...)` of the file, with places."""
        return self.facts.config or read_config_again(self.path, self.source)

    def option_place(self, option: str, item: int | None = None) -> Place:
        """The place of an option in `config(...)`, or of an item of its list; that of
        `config(...)` if it does not give the option."""
        config = self.said
        entry = config.entries().get(option)
        if entry is not None and item is not None and isinstance(entry.value, tuple):
            return entry.value[item].place
        return entry.place if entry else config.place
