"""Groups of models: one file, with `tables` in its `config(...)`, that stands for a
model for each table of a feed or each value of a column."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from lakesql.decode import Node, decode, fields_of, option, read_entries, read_filled
from lakesql.errors import Place, ProjectError
from lakesql.model.column_rules import ColumnRule, read_column_rules
from lakesql.model.model import TemplateFacts
from lakesql.stream.source_table import SourceTable
from lakesql.template.template import read_config_again

NewTables = Literal["create", "refuse", "ignore"]

NAME_PARTS = ("database", "schema", "table", "topic", "value")
"""The placeholders of the option `name`: `value` with a route, the others without
one."""


def _read_name(node: Node) -> str:
    text = read_filled(node)
    unknown = [
        part for part in re.findall(r"\{(.*?)\}", text) if part not in NAME_PARTS
    ]
    if unknown or not re.fullmatch(r"(?:\w|\{\w+\})+", text, re.ASCII):
        known = ", ".join(f"{{{part}}}" for part in NAME_PARTS)
        what = f"{node.shown} is no pattern of names."
        fix = f"Write letters, digits, _ and {known}: '{{schema}}_{{table}}'."
        raise ProjectError.of("wrong-value", what, fix=fix, place=node.place)
    if not any(part in text for part in ("{table}", "{topic}", "{value}")):
        what = f"{node.shown} gives all tables one name."
        fix = "Have {table} in it; with a route: {value}."
        raise ProjectError.of("wrong-value", what, fix=fix, place=node.place)
    return text


def _read_renamed(node: Node) -> Mapping[str, str]:
    names = read_entries(node, lambda _, entry: read_filled(entry))
    for table, name in names.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            what = f"'{name}', which table '{table}' is to be called, is not a name."
            raise ProjectError.of("bad-name", what, place=node.key_place(table))
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The option `tables`: which tables of the stream get a model, and the models'
    names.

    Source tables are named `schema.table`, or `database.table` if the database has no
    schemas; with a route, by its values.
    """

    route: str = option(
        "For a topic that is not a change feed: the column of the stream, or a field of a struct such as "
        "`header.type`, each of whose values gets a table.",
        default="",
        read=read_filled,
    )
    include: tuple[str, ...] = option(
        "Patterns of the source tables that get a model, such as `public.*`; with `route`, of its values.",
        default=("*",),
    )
    exclude: tuple[str, ...] = option(
        "Patterns of source tables, or with `route` of values, that get no model, even if `include` matches them.",
        default=(),
    )
    name: str = option(
        "Pattern for the names of the models and their tables: {schema}, {table}, {database} and {topic} are the "
        "source's names, {value} is the value of `route`. A character that a name may not have becomes `_`. "
        "`{schema}_{table}`, or `{value}` with `route`, if left out.",
        default="",
        read=_read_name,
    )
    rename: Mapping[str, str] = option(
        "Names of single models by source table, which take precedence over `name`: {'public.Orders': 'orders_old'}.",
        factory=dict,
        read=_read_renamed,
        is_hashed=False,
    )
    new_tables: NewTables = option(
        "What happens to a table of the feed that the project does not know: `create` makes its table in the run "
        "that finds it; `refuse` fails the run, but no other table waits; `ignore` leaves it out, with a message.",
        default="create",
    )
    columns: tuple[ColumnRule, ...] = option(
        "Rules for columns, by patterns of `schema.table.column`, or of `value.column` with `route`: {'*.email': "
        "'mask_hash'}. A rule is `mask_hash` (SHA-256 of the value as a text), `mask_null`, `mask_truncate(4)`, "
        "`cast(string)` or `drop`; the first pattern that matches applies.",
        default=(),
        read=read_column_rules,
    )

    transactions: str = option(
        "Topic with the connector's transaction metadata, which `consistent=True` reads. If left out, it is "
        "Debezium's `PREFIX.transaction`, where PREFIX is the connector's prefix of all topics.",
        default="",
    )

    def takes(self, table: str) -> bool:
        """Whether the source table of this name gets a model."""
        is_included = any(fnmatchcase(table, pattern) for pattern in self.include)
        return is_included and not any(
            fnmatchcase(table, pattern) for pattern in self.exclude
        )

    def member_name(self, table: SourceTable) -> str:
        """The name, within the group, of the model of a source table."""
        if table.name in self.rename:
            return self.rename[table.name]
        parts, pattern = table.parts, self.name_pattern
        if not parts["schema"] and not parts["database"]:
            pattern = pattern.replace("{schema}_", "")
        return _plain(pattern.format_map(parts))

    @property
    def name_pattern(self) -> str:
        """The pattern of the models' names, with placeholders in braces."""
        return self.name or ("{value}" if self.route else "{schema}_{table}")


def _plain(name: str) -> str:
    """The name with `_` for each character that the name of a model cannot have."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"_{plain}" if plain[:1].isdigit() else plain


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The options of a group as a whole in its file's `config(...)`. All others are
    options of each of its models."""

    tables: Tables = option(
        "Which tables of the feed get a model.",
        read=lambda node: decode(node, Tables, what="`tables`", words="config"),
    )
    consistent: bool = option(
        "Whether all changes of a transaction become visible together, in all tables that it touches.",
        default=False,
    )


GROUP_OPTIONS = frozenset(field.name for field in fields_of(GroupConfig))
"""The names of the options of a group as a whole."""


def read_group_config(config: Node) -> GroupConfig:
    """The options of a group as a whole, from its file's `config(...)`. Raises
    `ProjectError`."""
    entries = config.entries()
    own = {name: entries[name] for name in entries if name in GROUP_OPTIONS}
    return decode(
        Node(own, config.place, config.keys),
        GroupConfig,
        what="a group",
        words="config",
    )


@dataclass(frozen=True, slots=True)
class ModelGroup:
    """A group: a file that stands for a model for each table of the feed `stream`.
    `members` are the names of these models.
    """

    name: str
    path: str
    fqn: tuple[str, ...]
    source: str
    config: GroupConfig
    facts: TemplateFacts
    stream: str
    members: tuple[str, ...] = ()

    @property
    def tables(self) -> Tables:
        """Which tables get a model."""
        return self.config.tables

    @property
    def said(self) -> Node:
        """The file's `config(...)`, with places."""
        return self.facts.config or read_config_again(self.path, self.source)

    @property
    def place(self) -> Place:
        """The beginning of the file."""
        return Place(self.path, 1, 1)
