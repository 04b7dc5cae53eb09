"""What `config(...)` says: each mode is a type of its own, with its own options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, assert_never

from lakesql.decode import Node, decode, fields_of, option, read_each, read_entries, read_option_text
from lakesql.errors import Problem, ProjectError, did_you_mean
from lakesql.names import MAINTAINED_PROPERTY, check_landing, check_name
from lakesql.project.duration import Duration, parse_duration
from lakesql.project.procedures import (
    Maintenance,
    changing_maintenance,
    merge_maintenance,
    read_changing_maintenance,
    read_maintenance,
)
from lakesql.stream.client import find_client_options
from lakesql.words import answer, suggest

SchemaChange = Literal["ignore", "fail", "append_new_columns", "sync_all_columns"]

Late = Literal["count", "dead_letter"]


@dataclass(frozen=True, slots=True)
class AvailableNow:
    """Take what is there, then stop."""


@dataclass(frozen=True, slots=True)
class Every:
    """A batch every so often, for as long as the query runs."""

    text: str
    interval_ms: int


Trigger = AvailableNow | Every


def trigger_text(trigger: Trigger) -> str:
    """A trigger as `config(...)` has it."""
    match trigger:
        case AvailableNow():
            return "available_now"
        case Every(text=text):
            return text
        case _:
            assert_never(trigger)


@dataclass(frozen=True, slots=True)
class PartitionField:
    """An Iceberg partition transform: `identity`, `years` … `hours`, `bucket(n, c)`, `truncate(n, c)`.

    `column` is a column, or a field of a struct by its path: `s.t`.
    """

    transform: str
    column: str
    width: int | None = None


@dataclass(frozen=True, slots=True)
class SortField:
    """One column of a table's sort order."""

    column: str
    descending: bool = False
    nulls_first: bool = True


def _read_trigger(node: Node) -> Trigger:
    if node.value == "available_now":
        return AvailableNow()
    try:
        duration = parse_duration(node)
    except ProjectError:
        raise ProjectError.of("bad-trigger", f"{node.shown} is not a trigger.", place=node.place) from None
    return Every(duration.text, duration.length_ms)


_COLUMN = r"(?:`(?P<quoted>[^`]+)`|(?P<plain>[^\s`(),]+))"
_TRANSFORMS = {
    **dict.fromkeys(("identity", "years", "months", "days", "hours"), False),
    **dict.fromkeys(("bucket", "truncate"), True),
}
"""Iceberg's transforms, and whether each takes a number."""
_NAME = r"(?:`[^`]+`|[^\s`(),.]+)"
_PARTITION = re.compile(
    rf"(?:(?P<transform>\w+)\s*\(\s*(?:(?P<width>\d+)\s*,\s*)?)?(?P<path>{_NAME}(?:\.{_NAME})*)\s*(?P<close>\))?\Z"
)
_SORT = re.compile(rf"{_COLUMN}(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\Z", re.IGNORECASE)


def _read_partition(node: Node) -> PartitionField:
    text = node.value.strip() if isinstance(node.value, str) else ""
    found = _PARTITION.match(text)
    if found and bool(found["transform"]) == bool(found["close"]):
        transform = (found["transform"] or "identity").lower()
        has_width, width = _TRANSFORMS.get(transform), int(found["width"] or 0)
        if has_width is not None and (0 < width < 2**31 if has_width else found["width"] is None):
            return PartitionField(transform, found["path"].replace("`", ""), width or None)
    raise ProjectError.of(
        "bad-partition",
        f"{node.shown} is not a partition transform.",
        why=did_you_mean(text.split("(")[0], _TRANSFORMS) if "(" in text else "",
        place=node.place,
    )


def _read_sort(node: Node) -> SortField:
    found = _SORT.match(node.value.strip()) if isinstance(node.value, str) else None
    if not found:
        raise ProjectError.of("bad-order", f"{node.shown} is not a sort order.", place=node.place)
    descending = (found["direction"] or "").lower() == "desc"
    nulls_first = found["nulls"].lower() == "first" if found["nulls"] else not descending
    return SortField(found["quoted"] or found["plain"], descending, nulls_first)


def _read_partitions(node: Node) -> tuple[PartitionField, ...]:
    fields = read_each(_as_items(node), _read_partition)
    ways: set[tuple[str, str]] = set()
    for field, item in zip(fields, _as_items(node), strict=True):
        way = (field.column.lower(), "times" if field.transform in _TIMES else field.transform)
        if way in ways:
            raise ProjectError.of(
                "redundant-partition",
                f"Column '{field.column}' is partitioned twice in one way.",
                why="Iceberg takes one of years, months, days and hours of a column, one bucket and one truncate.",
                place=item.place,
            )
        ways.add(way)
    return fields


_TIMES = frozenset({"years", "months", "days", "hours"})


def _read_property(key: str, node: Node) -> str:
    text = read_option_text(node)
    if key == MAINTAINED_PROPERTY and text not in ("true", "false"):
        raise ProjectError.of("wrong-value", f"{node.shown} is neither true nor false.", place=node.place)
    if key == "format-version" and text not in _FORMAT_VERSIONS:
        raise ProjectError.of(
            "wrong-value",
            f"{node.shown} is not a format version that lakesql writes.",
            why="Version 1 has no row-level deletes, by which tables are updated.",
            fix=f"Write {' or '.join(repr(version) for version in _FORMAT_VERSIONS)}.",
            place=node.place,
        )
    return text


_FORMAT_VERSIONS = ("2", "3")
"""The versions of Iceberg's table format that a table may be made in."""


def _read_ratio(node: Node) -> float:
    if isinstance(node.value, int | float) and not isinstance(node.value, bool) and 0 <= node.value <= 1:
        return float(node.value)
    raise ProjectError.of("wrong-value", "A ratio is a number from 0 to 1.", place=node.place)


def _read_keys(node: Node) -> tuple[str, ...]:
    """Columns that a mode cannot do without."""
    keys = _read_columns(node)
    if not keys:
        raise ProjectError.of("wrong-value", "These are names of columns, one at least.", place=node.place)
    return keys


def _read_columns(node: Node) -> tuple[str, ...]:
    """Names of columns, each once. Capitals make no difference."""
    columns = read_each(_as_items(node), _read_key)
    for index, (column, item) in enumerate(zip(columns, _as_items(node), strict=True)):
        if column.lower() in (earlier.lower() for earlier in columns[:index]):
            raise ProjectError.of("duplicate-key", f"'{column}' stands twice.", place=item.place)
    return columns


def _read_key(node: Node) -> str:
    if isinstance(node.value, str) and node.value:
        return node.value
    raise ProjectError.of("wrong-type", f"{node.shown} is not the name of a column.", place=node.place)


def _read_added_column(node: Node) -> str:
    name = _read_key(node)
    check_landing(name, node.place)
    return name


_TOMBSTONE_RETENTION = (
    "How long a deleted key is remembered where `sequence_by` orders its rows, so that an older one that comes late "
    "does not bring it back."
)


_MAX_DELETE_RATIO = (
    "Share of the table's rows that a batch may delete; one that would delete more, or a truncate, stops the model "
    "before it is written."
)


_MAINTENANCE = (
    "How the table and those beside it are maintained: options by procedure (docs/maintenance.md), `false` for a "
    "procedure that is not run. `false`: somebody else maintains them. The target's, over which this is merged key by "
    "key."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """Options that every mode which writes a table has."""

    trigger: Trigger | None = option(
        "How often a continuous run takes a batch ('30 seconds'); the target's `trigger` if left out. `available_now`: "
        "it takes what is there, and ends.",
        default=None,
        read=_read_trigger,
    )
    namespace: str = option("Namespace of the table; the target's if left out.", default="", read=check_name)
    table: str = option("Name of the table; the model's if left out.", default="", read=check_name)
    partition_by: tuple[PartitionField, ...] = option(
        "Iceberg partition transforms.", default=(), read=_read_partitions
    )
    order_by: tuple[SortField, ...] = option(
        "The table's sort order.", default=(), read=lambda node: read_each(_as_items(node), _read_sort)
    )
    properties: Mapping[str, str] = option(
        "Table properties.", factory=dict, read=lambda node: read_entries(node, _read_property)
    )
    on_schema_change: SchemaChange = option(
        "What happens when the SELECT's columns and the table's differ.", default="append_new_columns"
    )
    max_dead_letter_ratio: float = option(
        "Share of a batch's records that may be dead letters; above it the batch fails.", default=1.0, read=_read_ratio
    )
    late: Late = option(
        "What happens to the events that a watermark drops: they are counted, or they are dead letters too, for which "
        "the batch's records are read once more.",
        default="count",
    )
    maintenance: Maintenance = option(_MAINTENANCE, factory=Maintenance, read=read_maintenance)
    tags: tuple[str, ...] = option("Words to select by.", default=())
    meta: Mapping[str, Any] = option(
        "Anything, for other tools.", factory=dict, read=lambda node: read_entries(node, lambda _, item: item.plain())
    )

    @property
    def rewrites_files(self) -> bool:
        """Whether a MERGE writes the files anew whose rows it changes, where it would write deletes beside them."""
        return self.properties.get("write.merge.mode") == "copy-on-write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(TableConfig):
    """`mode='append'`: every row of the SELECT is inserted, or with `keys` the first one of each key."""

    keys: tuple[str, ...] = option(
        "Columns that identify a row, none of which may be NULL: a row whose key is in the table is not inserted. They "
        "are no default of a folder. Every row is inserted, if left out.",
        default=(),
        read=_read_keys,
        is_inherited=False,
    )
    within: Duration | None = option(
        "How far two rows of a key lie apart at most, in the time by which the table is partitioned, to be the same "
        "row ('2 days'); no older rows are looked at. However far, if left out.",
        default=None,
        read=parse_duration,
        is_inherited=False,
    )

    @property
    def time_column(self) -> str:
        """The column by whose time the table is partitioned; '' where it is not."""
        return next((field.column for field in self.partition_by if field.transform in _TIMES), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangingConfig(TableConfig):
    """Options of the modes that change rows."""

    maintenance: Maintenance = option(
        _MAINTENANCE, factory=partial(changing_maintenance, Maintenance()), read=read_changing_maintenance
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert(ChangingConfig):
    """`mode='upsert'`: one row a key, the newest."""

    keys: tuple[str, ...] = option("Columns that identify a row; none of them may be NULL.", read=_read_keys)
    sequence_by: tuple[str, ...] = option(
        "Column or columns that say which of two rows is newer; arrival if left out.", default=(), read=_read_columns
    )
    delete_when: str = option("A condition on the row that deletes its key.", default="")
    tombstone_retention: Duration = option(
        _TOMBSTONE_RETENTION, default=Duration("7 days", 604_800_000), read=parse_duration
    )
    max_delete_ratio: float = option(_MAX_DELETE_RATIO, default=1.0, read=_read_ratio)
    update_columns: tuple[str, ...] | None = option(
        "The columns that an update sets, those of `sequence_by` among them; all, if left out. A new row gets all.",
        default=None,
    )
    exclude_columns: tuple[str, ...] = option("The columns that no update sets.", default=())
    when_matched: str = option(
        "A condition on `source`, the arriving row, and `target`, the stored one, without which it is not updated.",
        default="",
    )
    ignore_null_updates: bool = option("A NULL in an arriving row leaves the stored value as it is.", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cdc(ChangingConfig):
    """`mode='cdc'`: what the SELECT says of the rows that a database's table has now, by its change feed."""

    keys: tuple[str, ...] = option("The columns of the SELECT that are the feed's `key`.", read=_read_keys)
    sequence_by: tuple[str, ...] = option(
        "What says which of two changes is newer: '_change.position', the place in the database's log, or columns of "
        "the feed. The SELECT has them. Arrival if left out.",
        default=(),
        read=_read_columns,
    )
    tombstone_retention: Duration = option(
        f"{_TOMBSTONE_RETENTION} As long it is remembered what a batch has cut of a change of keys.",
        default=Duration("7 days", 604_800_000),
        read=parse_duration,
    )
    max_delete_ratio: float = option(_MAX_DELETE_RATIO, default=1.0, read=_read_ratio)
    apply_deletes: Literal["hard", "soft"] = option(
        "What becomes of a row that the source deletes: it leaves the table, or it stays, with the time of the delete "
        "in the column `_deleted_at`, which is NULL on all others.",
        default="hard",
    )
    on_truncate: Literal["apply", "fail"] = option(
        "What a truncate of the source does: it empties the table, or the model stops before it.", default="apply"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scd2(ChangingConfig):
    """`mode='scd2'`: the history of each key, a row for each version of it."""

    keys: tuple[str, ...] = option(
        "Columns that identify what has a history; none of them may be NULL.", read=_read_keys
    )
    sequence_by: tuple[str, ...] = option(
        "What orders the changes of a key: a column, which says from when a version is valid, and more where two "
        "changes may be equal in it. Of a change feed also '_change.ts' and '_change.position'; the SELECT has them.",
        read=_read_keys,
    )
    track_columns: tuple[str, ...] = option(
        "The columns of which a change makes a new version; all, if left out.", default=()
    )
    valid_from: str = option(
        "The column that says from when a version is valid.", default="valid_from", read=_read_added_column
    )
    valid_to: str = option(
        "The column that says until when, exclusively; NULL as long as it is.",
        default="valid_to",
        read=_read_added_column,
    )
    is_current: str = option("The column that says whether it still is.", default="is_current", read=_read_added_column)
    tombstone_retention: Duration = option(
        "How long it is remembered what makes no version of its own, such as a delete, so that a change that comes "
        "late splits the history at the right place.",
        default=Duration("7 days", 604_800_000),
        read=parse_duration,
    )


Config = Append | Upsert | Cdc | Scd2
MODES: Mapping[str, type[Config]] = {"append": Append, "upsert": Upsert, "cdc": Cdc, "scd2": Scd2}
"""Modes by the word in `config(mode=…)`: the only place where that word is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceConfig:
    """`mode='maintenance'`: CALL statements of Iceberg's procedures, for the table of another model."""

    of: str = option("The model whose table is maintained.", read=_read_key, is_inherited=False)
    trigger: Duration | None = option(
        "How often the statements are run ('1 hour'), by time alone. If left out, they are due as the tasks that they "
        "replace would be.",
        default=None,
        read=parse_duration,
        is_inherited=False,
    )
    tags: tuple[str, ...] = option("Words to select by.", default=())
    meta: Mapping[str, Any] = option(
        "Anything, for other tools.", factory=dict, read=lambda node: read_entries(node, lambda _, item: item.plain())
    )


MAINTENANCE = "maintenance"
"""The mode of a file that makes no table, and maintains that of a model."""

ALL_MODES: Mapping[str, type[Config | MaintenanceConfig]] = {**MODES, MAINTENANCE: MaintenanceConfig}
"""Every word that `config(mode=…)` takes."""

REMOVED: Mapping[str, str] = {
    "fence": "Each batch is staged and published by an atomic check. There is no other way to commit one.",
}
"""Options that earlier versions had, and why there are none any more."""


def mode_of(config: Config) -> str:
    """The word for a configuration's mode."""
    return next(name for name, kind in MODES.items() if kind is type(config))


def read_config(node: Node, defaults: Node) -> Config | MaintenanceConfig:
    """A model's configuration: what `config(...)` says over what the project's settings say.

    Options of `defaults` that the mode does not have are passed over: another mode has them, or `check_defaults`
    tells of them. Raises `ProjectError`: `unknown-mode`, and what `decode` finds.
    """
    merged = merge_config(defaults, node)
    mode = merged.get("mode")
    if mode is None:
        fix = f"Add mode='…' to config(…). {did_you_mean('', ALL_MODES)}"
        foreign_words = {key: said for key in node.entries() if (said := answer("config", key))}
        said_of = (
            Problem("unknown-option", f"A model has no option '{key}'.", "", said, node.key_place(key))
            for key, said in foreign_words.items()
        )
        raise ProjectError([Problem("missing-option", "The model has no mode.", "", fix, node.place), *said_of])
    kind = ALL_MODES.get(mode.value) if isinstance(mode.value, str) else None
    if kind is None:
        fix = suggest("mode", str(mode.value), ALL_MODES)
        raise ProjectError.of("unknown-mode", f"{mode.shown} is not a mode.", fix=fix, place=mode.place)
    inherited = set(defaults.entries()) - set(node.entries())
    foreign = inherited - {field.name for field in fields_of(kind) if field.is_inherited}
    own = {key: value for key, value in merged.entries().items() if key == "mode" or key not in foreign}
    merged = Node(own, merged.place, merged.keys)
    what = f"mode '{mode.value}'"
    removed = {key: _removed(key).at(merged.keys.get(key, merged.place)) for key in REMOVED if merged.get(key)}
    clients = {**find_client_options(merged, what), **removed}
    try:
        config = decode(merged, kind, what=what, words="config", ignore=frozenset({"mode", *clients}))
    except ProjectError as error:
        raise ProjectError([*clients.values(), *error.problems]) from None
    if clients:
        raise ProjectError(clients.values())
    return config


def _removed(key: str) -> Problem:
    return Problem("removed-option", f"The option '{key}' was removed.", REMOVED[key])


def merge_config(outer: Node, inner: Node) -> Node:
    """`inner` over `outer`: tags add up, `meta`, `properties` and `maintenance` merge key by key, everything else is
    replaced."""
    entries = dict(outer.entries())
    for key, node in inner.entries().items():
        if key == "tags" and key in entries:
            entries[key] = Node((*_as_items(entries[key]), *_as_items(node)), node.place)
        elif key in ("meta", "properties") and key in entries:
            under = entries[key]
            entries[key] = Node({**under.entries(), **node.entries()}, node.place, {**under.keys, **node.keys})
        elif key == "maintenance" and key in entries:
            entries[key] = merge_maintenance(entries[key], node)
        else:
            entries[key] = node
    return Node(entries, inner.place, {**outer.keys, **inner.keys})


def folder_defaults(settings: Node, fqn: tuple[str, ...]) -> Node:
    """The options that `[tool.lakesql.models]` gives the model of this name: outer folders first, then inner ones.

    In a folder's table, a key whose value is a table is a subfolder or a model, unless it is an option that takes one.
    """
    merged, level = Node({}, settings.place), settings
    for part in (*fqn[1:], ""):
        own = {key: node for key, node in level.entries().items() if not _is_folder(key, node)}
        merged = merge_config(merged, Node(own, level.place, level.keys))
        child = level.get(part)
        if child is None or not _is_folder(part, child):
            break
        level = child
    return merged


def check_defaults(settings: Node) -> None:
    """Raise `ProjectError` with every default that no mode has (`unknown-option`)."""
    read_entries(settings, _check_default)


def _check_default(key: str, node: Node) -> None:
    known = {"mode", *(field.name for kind in MODES.values() for field in fields_of(kind))}
    if _is_folder(key, node):
        check_defaults(node)
    elif key in REMOVED:
        raise ProjectError([_removed(key)])
    elif key not in known:
        raise ProjectError.of("unknown-option", f"No mode has an option '{key}'.", fix=suggest("config", key, known))


def check_folders(settings: Node, names: Iterable[tuple[str, ...]]) -> Iterator[Problem]:
    """Defaults for a folder or a model that is not there, given the models' fully qualified names (`unknown-folder`).

    Such defaults would count for nothing, and a table be written to another namespace than somebody believes.
    """
    return _check_level(settings, [name[1:] for name in names], "")


def _check_level(settings: Node, names: list[tuple[str, ...]], inside: str) -> Iterator[Problem]:
    known = {name[0] for name in names if name}
    for key, node in settings.entries().items():
        if _is_folder(key, node) and key in known:
            yield from _check_level(node, [name[1:] for name in names if name[:1] == (key,)], f"{inside}{key}/")
        elif _is_folder(key, node):
            place = settings.keys.get(key, node.place)
            what = f"There is no folder and no model '{inside}{key}' that these defaults could be for."
            fix = f"{did_you_mean(key, known | _TABLES)} Correct the name, or remove these defaults."
            yield Problem("unknown-folder", what, "", fix, place)


def _is_folder(key: str, node: Node) -> bool:
    return isinstance(node.value, Mapping) and key not in _TABLES


_TABLES = frozenset({"meta", "properties", "maintenance"})
"""The options whose value is a table."""


def _as_items(node: Node) -> tuple[Node, ...]:
    return node.value if isinstance(node.value, tuple) else (node,)
