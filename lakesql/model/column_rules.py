"""Rules for the columns of a group's tables, by patterns of names: which are masked,
cast to another type, or dropped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from lakesql.decode import Node, read_entries
from lakesql.errors import Place, ProjectError
from lakesql.stream.stream import read_column_type

Action = Literal["mask_hash", "mask_null", "mask_truncate", "cast", "drop"]


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """What is done with the columns that match a pattern, in every table of the group.

    `pattern` is matched with `schema.table.column`, the column case-insensitively, as
    in SQL. `argument` is the text in the brackets of the action; '' if it has none.
    """

    pattern: str
    action: Action
    argument: str
    place: Place

    def is_for(self, table: str, column: str) -> bool:
        """Whether the rule applies to a column of a source table."""
        pattern, _, last = self.pattern.rpartition(".")
        in_small_letters = fnmatchcase(
            f"{table}.{column.lower()}", f"{pattern}.{last.lower()}"
        )
        return in_small_letters or fnmatchcase(f"{table}.{column}", self.pattern)


_RULE = re.compile(r"(?P<action>\w+)\s*(?:\((?P<argument>.*)\))?\s*\Z")
_TAKES: Mapping[Action, bool] = {
    "mask_hash": False,
    "mask_null": False,
    "mask_truncate": True,
    "cast": True,
    "drop": False,
}
"""The actions of rules, each with whether it takes an argument."""


def read_column_rules(node: Node) -> tuple[ColumnRule, ...]:
    """The rules of a mapping of patterns to actions, in its order. Raises
    `ProjectError`."""
    return tuple(
        read_entries(
            node, lambda key, entry: _read_rule(key, entry, node.key_place(key))
        ).values()
    )


def _read_rule(pattern: str, node: Node, place: Place) -> ColumnRule:
    if "." not in pattern:
        what = f"'{pattern}' names no column of a table."
        fix = f"Write `schema.table.column`, or `*.{pattern}` for the column of every table."
        raise ProjectError.of("wrong-value", what, fix=fix, place=place)
    found = _RULE.match(node.value.strip()) if isinstance(node.value, str) else None
    action = next(
        (word for word in _TAKES if found is not None and found["action"] == word), None
    )
    if (
        found is None
        or action is None
        or (found["argument"] is not None) != _TAKES[action]
    ):
        what = f"{node.shown} is nothing that can become of a column."
        fix = "Write mask_hash, mask_null, mask_truncate(4), cast(decimal(12,2)), or drop."
        raise ProjectError.of("wrong-value", what, fix=fix, place=node.place)
    argument = (found["argument"] or "").strip()
    if action == "mask_truncate" and not argument.isdecimal():
        what = f"{node.shown} does not say how many characters stay."
        raise ProjectError.of(
            "wrong-value", what, fix="Write mask_truncate(4).", place=node.place
        )
    if action == "cast":
        argument = read_column_type(argument, node.place)
    return ColumnRule(pattern, action, argument, place)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """The part of a model in its group: the group's name, and the source table that the
    model mirrors.

    `stream` is the stream that `stream('…')` with the name of the group's `feed` means
    in this model. `rules` are those of the group; the first that applies to a column
    counts.
    """

    group: str
    source_table: str
    feed: str
    stream: str
    rules: tuple[ColumnRule, ...] = ()

    def rule_of(self, column: str) -> ColumnRule | None:
        """The rule for a column of the table; None if it is mirrored as it is."""
        return next(
            (rule for rule in self.rules if rule.is_for(self.source_table, column)),
            None,
        )
