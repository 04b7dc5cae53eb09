"""A model: what its file and its properties say, checked by itself. Its SELECT is not
rendered yet."""

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
    """What a template says without being rendered: all that the graph needs, and what a
    cache can keep.

    `vars` and `macros` are those it can reach; `reads` says which of `this`, `target`,
    `is_full_refresh` it reads. `config` is what `config(...)` says, with the place of
    each word, and `template` the parsed template, where the facts come fresh from it:
    no cache keeps them, as few commands ask for them.
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
    """A CALL statement of a maintenance model, for the table of the model that has it.

    `of` is the maintenance model's name, `name` the task's. `is_by_time`: it is due by
    its trigger alone.
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
        """The file."""
        return Place(self.path, 1, 1)

    def option_place(self, option: str) -> Place:
        """Where `config(...)` gives an option; the call, if it does not."""
        config = self.facts.config or read_config_again(self.path, self.source)
        entry = config.entries().get(option)
        return entry.place if entry else config.place


@dataclass(frozen=True, slots=True)
class Model:
    """One model of the project. `options` are its configuration as plain values, for
    the selector and the manifest.

    `trigger` is what `config` says, or else the target. `calls` maintain its table in
    the place of the tasks that it would have by its options.
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
        """The model's file."""
        return Place(self.path, 1, 1)

    @property
    def compiled_path(self) -> str:
        """Where its compiled file stands below a folder of these: each model of a group
        has one of its own."""
        if self.member is None:
            return self.path
        return f"{self.path.removesuffix('.sql')}/{self.fqn[-1]}.sql"

    @property
    def said(self) -> Node:
        """What the file's `config(...)` says, with the place of each word."""
        return self.facts.config or read_config_again(self.path, self.source)

    def option_place(self, option: str, item: int | None = None) -> Place:
        """Where `config(...)` gives an option, or one item of it; the call, or the
        file, if it does not."""
        config = self.said
        entry = config.entries().get(option)
        if entry is not None and item is not None and isinstance(entry.value, tuple):
            return entry.value[item].place
        return entry.place if entry else config.place
