"""The options of a group's models: those that its file sets for all, and the keys of
each table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakesql.decode import Node, fields_of, node_of
from lakesql.errors import Place, ProjectError
from lakesql.graph.member_names import pattern_of
from lakesql.model.config import MaintenanceConfig, TableConfig
from lakesql.model.group import GROUP_OPTIONS, ModelGroup
from lakesql.modes.all_modes import find_mode
from lakesql.modes.read_config import merge_config, read_config
from lakesql.stream.source_table import SourceTable
from lakesql.stream.stream import Stream

STANDS_FOR_KEY = node_of(["key"], Place(""))
"""Placeholder keys, with which a group's options are checked before its tables are
known."""


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """The options of one model of a group: parsed, and as written."""

    config: TableConfig
    said: Node


def options_of_member(
    group: ModelGroup, table: SourceTable, key: Sequence[str], defaults: Node
) -> MemberOptions:
    """The options of one table's model: those of the group's file, over the defaults.

    Raises `ProjectError` (`group-key`) if the mode needs keys and the table has none.
    """
    if not key and not group.tables.route and _asks_for_keys(group, defaults):
        raise ProjectError.of(
            "group-key",
            f"Table '{table.name}' of stream '{group.stream}' has no primary key, and '{group.name}' needs one.",
            fix="Give it one in the database, or its records one by the connector's message.key.columns; leave it out: "
            f"tables={{'exclude': [{pattern_of(table)!r}]}}; or give it a model of its own, in mode "
            f"'append', in {group.path.removesuffix('.sql')}.{group.tables.member_name(table)}.sql.",
            place=table.place,
        )
    return _options(group, defaults, node_of(list(key), table.place))


def check_group_options(group: ModelGroup, feed: Stream, defaults: Node) -> None:
    """Raise `ProjectError` with problems of the group's options that concern all of its
    tables."""
    config = _options(group, defaults, STANDS_FOR_KEY).config
    if group.tables.route and config.needs_changes:
        raise ProjectError.of(
            "group-route",
            f"Group '{group.name}' has a route, and mode '{config.mode}' is given the rows that changes leave.",
            why="Only a change feed has those, and its changes say which table they are of.",
            fix="Take mode 'append' or 'upsert', or 'scd2'.",
            place=group.said.key_place("mode"),
        )
    says_keys = "keys" in merge_config(defaults, group.said).entries()
    if (
        group.tables.route
        and not feed.key
        and not says_keys
        and _asks_for_keys(group, defaults)
    ):
        raise ProjectError.of(
            "group-key",
            f"Stream '{group.stream}' declares no `key`, and '{group.name}' needs one.",
            fix="Say it in the group's config, `keys=['id']`, or give the stream a `key`.",
            place=group.place,
        )


def _options(group: ModelGroup, defaults: Node, keys: Node) -> MemberOptions:
    """The options of the group's file over the defaults. If the mode needs keys and the
    file sets none, `keys` are used; in a group with a route, keys from the defaults
    count as set."""
    said = group.said
    own = {
        name: node for name, node in said.entries().items() if name not in GROUP_OPTIONS
    }
    says_keys = "keys" in (
        merge_config(defaults, said).entries() if group.tables.route else own
    )
    if not says_keys and _asks_for_keys(group, defaults):
        own["keys"] = keys
    node = Node(own, said.place, said.keys)
    config = read_config(node, defaults, "streams")
    if isinstance(config, MaintenanceConfig):
        what = "A file with `tables` makes tables, and mode 'maintenance' makes none."
        raise ProjectError.of("wrong-value", what, place=said.place)
    return MemberOptions(config, merge_config(defaults, node))


def _asks_for_keys(group: ModelGroup, defaults: Node) -> bool:
    """Whether the group's mode requires keys."""
    mode = merge_config(defaults, group.said).get("mode")
    kind = find_mode(str(mode.value), "streams") if mode is not None else None
    return kind is not None and any(
        field.name == "keys" and field.required for field in fields_of(kind)
    )
