"""The options of `config(...)` that all modes have, and what every mode must answer;
the modes themselves are in `modes/`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, assert_never

from lakesql.decode import Node, option, read_each, read_entries, read_option_text
from lakesql.errors import ProjectError, did_you_mean
from lakesql.model.option_effects import OptionEffect
from lakesql.model.writing import Reads, Versions, Writing
from lakesql.names import MAINTAINED_PROPERTY, Memory, check_landing, check_name
from lakesql.project.duration import Duration, parse_duration
from lakesql.project.iceberg_properties import read_iceberg_property
from lakesql.project.procedures import (
    Maintenance,
    read_maintenance,
)

NOTHING_KNOWN = Reads()
"""The facts about a SELECT that has not been parsed."""

SchemaChange = Literal["ignore", "fail", "append_new_columns", "sync_all_columns"]

Late = Literal["count", "dead_letter"]

ReadsFrom = Literal["streams", "tables"]
"""What the FROM of a SELECT reads: at least one stream, or tables alone, in their
current state."""

READ_WORDS: Mapping[ReadsFrom, str] = {"streams": "a stream", "tables": "tables alone"}
"""The values of `ReadsFrom` in words, for messages."""


@dataclass(frozen=True, slots=True)
class AvailableNow:
    """The trigger `available_now`: read what is there, then stop."""


@dataclass(frozen=True, slots=True)
class Every:
    """The trigger of a batch at each interval, for as long as the query runs."""

    text: str
    interval_ms: int


@dataclass(frozen=True, slots=True)
class OnChange:
    """The trigger of a refresh as soon as a table that is read has a new snapshot.
    `expected_ms` is the interval at which that is expected."""

    expected_ms: int = 0


Trigger = AvailableNow | Every | OnChange


def trigger_text(trigger: Trigger) -> str:
    """A trigger as it is written in `config(...)`."""
    match trigger:
        case AvailableNow():
            return "available_now"
        case Every(text=text):
            return text
        case OnChange():
            return ON_CHANGE
        case _:
            assert_never(trigger)


ON_CHANGE = "on change"
"""The trigger `OnChange` as it is written in `config(...)`."""


@dataclass(frozen=True, slots=True)
class PartitionField:
    """An Iceberg partition transform: `identity`, `years` … `hours`, `bucket(n, c)`,
    `truncate(n, c)`.

    `column` is a column, or a field of a struct by its path: `s.t`.
    """

    transform: str
    column: str
    width: int | None = None

    @property
    def name(self) -> str:
        """The name that Iceberg gives the field when it creates a table, such as
        `ts_day`; '' if the column itself partitions."""
        return (
            f"{self.column}_{_PART_NAMES[self.transform]}"
            if self.transform in _PART_NAMES
            else ""
        )


_PART_NAMES = {
    "years": "year",
    "months": "month",
    "days": "day",
    "hours": "hour",
    "bucket": "bucket",
    "truncate": "trunc",
}


@dataclass(frozen=True, slots=True)
class SortField:
    """One column of a table's sort order."""

    column: str
    descending: bool = False
    nulls_first: bool = True


def read_refresh_trigger(node: Node) -> Trigger:
    """The trigger of a model over tables. Raises `ProjectError` (`bad-trigger`)."""
    return OnChange() if node.value == ON_CHANGE else _read_trigger(node)


def _read_trigger(node: Node) -> Trigger:
    if node.value == ON_CHANGE:
        what = f"'{ON_CHANGE}' is the trigger of a model over tables, and this one reads streams."
        raise ProjectError.of("bad-trigger", what, place=node.place)
    if node.value == "available_now":
        return AvailableNow()
    try:
        duration = parse_duration(node)
    except ProjectError:
        raise ProjectError.of(
            "bad-trigger", f"{node.shown} is not a trigger.", place=node.place
        ) from None
    return Every(duration.text, duration.length_ms)


_COLUMN = r"(?:`(?P<quoted>[^`]+)`|(?P<plain>[^\s`(),]+))"
_TRANSFORMS = {
    **dict.fromkeys(("identity", "years", "months", "days", "hours"), False),
    **dict.fromkeys(("bucket", "truncate"), True),
}
"""Iceberg's partition transforms, each with whether it takes a number."""
_NAME = r"(?:`[^`]+`|[^\s`(),.]+)"
_PARTITION = re.compile(
    rf"(?:(?P<transform>\w+)\s*\(\s*(?:(?P<width>\d+)\s*,\s*)?)?(?P<path>{_NAME}(?:\.{_NAME})*)\s*(?P<close>\))?\Z"
)
_SORT = re.compile(
    rf"{_COLUMN}(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\Z",
    re.IGNORECASE,
)


def _read_partition(node: Node) -> PartitionField:
    text = node.value.strip() if isinstance(node.value, str) else ""
    found = _PARTITION.match(text)
    if found and bool(found["transform"]) == bool(found["close"]):
        transform = (found["transform"] or "identity").lower()
        has_width, width = _TRANSFORMS.get(transform), int(found["width"] or 0)
        if has_width is not None and (
            0 < width < 2**31 if has_width else found["width"] is None
        ):
            return PartitionField(
                transform, found["path"].replace("`", ""), width or None
            )
    raise ProjectError.of(
        "bad-partition",
        f"{node.shown} is not a partition transform.",
        why=did_you_mean(text.split("(")[0], _TRANSFORMS) if "(" in text else "",
        place=node.place,
    )


def _read_sort(node: Node) -> SortField:
    found = _SORT.match(node.value.strip()) if isinstance(node.value, str) else None
    if not found:
        raise ProjectError.of(
            "bad-order", f"{node.shown} is not a sort order.", place=node.place
        )
    descending = (found["direction"] or "").lower() == "desc"
    nulls_first = (
        found["nulls"].lower() == "first" if found["nulls"] else not descending
    )
    return SortField(found["quoted"] or found["plain"], descending, nulls_first)


def _read_partitions(node: Node) -> tuple[PartitionField, ...]:
    fields = read_each(as_items(node), _read_partition)
    ways: set[tuple[str, str]] = set()
    for field, item in zip(fields, as_items(node), strict=True):
        way = (
            field.column.lower(),
            "times" if field.transform in TIMES else field.transform,
        )
        if way in ways:
            raise ProjectError.of(
                "redundant-partition",
                f"Column '{field.column}' is partitioned twice in one way.",
                why="Iceberg takes one of years, months, days and hours of a column, one bucket and one truncate.",
                place=item.place,
            )
        ways.add(way)
    return fields


TIMES = frozenset({"years", "months", "days", "hours"})


def _read_property(key: str, node: Node) -> str:
    text = read_option_text(node)
    if key == MAINTAINED_PROPERTY and text not in ("true", "false"):
        raise ProjectError.of(
            "wrong-value", f"{node.shown} is neither true nor false.", place=node.place
        )
    if key == "format-version" and text not in _FORMAT_VERSIONS:
        raise ProjectError.of(
            "wrong-value",
            f"{node.shown} is not a format version that lakesql writes.",
            why="Version 1 has no row-level deletes, by which tables are updated.",
            fix=f"Write {' or '.join(repr(version) for version in _FORMAT_VERSIONS)}.",
            place=node.place,
        )
    if key.startswith(_OWN_PREFIX) and key != MAINTAINED_PROPERTY:
        raise ProjectError.of(
            "unknown-option",
            f"lakesql has no table property '{key}' that one sets.",
            fix=did_you_mean(key, [MAINTAINED_PROPERTY]),
            place=node.place,
        )
    if key == MAINTAINED_PROPERTY:
        return text
    return read_iceberg_property(key, node, text)


_OWN_PREFIX = "lakesql."
"""The prefix of the table properties that lakesql sets itself."""


_FORMAT_VERSIONS = ("2", "3")
"""The versions of Iceberg's table format in which lakesql creates tables."""


def read_ratio(node: Node) -> float:
    """A number from 0 to 1."""
    if (
        isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
        and 0 <= node.value <= 1
    ):
        return float(node.value)
    raise ProjectError.of(
        "wrong-value", "A ratio is a number from 0 to 1.", place=node.place
    )


def read_keys(node: Node) -> tuple[str, ...]:
    """The names of columns, at least one."""
    keys = read_columns(node)
    if not keys:
        raise ProjectError.of(
            "wrong-value", "These are names of columns, one at least.", place=node.place
        )
    return keys


def read_columns(node: Node) -> tuple[str, ...]:
    """The names of columns, or of one. Raises `ProjectError` (`duplicate-key`) if one
    is given twice, compared case-insensitively."""
    columns = read_each(as_items(node), read_key)
    for index, (column, item) in enumerate(zip(columns, as_items(node), strict=True)):
        if column.lower() in (earlier.lower() for earlier in columns[:index]):
            raise ProjectError.of(
                "duplicate-key", f"'{column}' stands twice.", place=item.place
            )
    return columns


def read_key(node: Node) -> str:
    """The name of one column."""
    if isinstance(node.value, str) and node.value:
        return node.value
    raise ProjectError.of(
        "wrong-type", f"{node.shown} is not the name of a column.", place=node.place
    )


def read_added_column(node: Node) -> str:
    """The name of a column that the mode adds to the table."""
    name = read_key(node)
    check_landing(name, node.place)
    return name


TOMBSTONE_RETENTION = (
    "How long a deleted key is remembered if `sequence_by` is set, so that a late, older row does not bring the key "
    "back."
)


MAX_DELETE_RATIO = (
    "Largest share of the table's rows that one batch may delete, from 0 to 1. The model stops before it writes a "
    "batch that would delete more, by a truncate too."
)


MAINTAINED = (
    "Maintenance of the model's tables: options by procedure (docs/maintenance.md), `false` for a procedure that is "
    "not run, or `false` as a whole if another engine maintains them. It is merged key by key over the target's "
    "`maintenance`."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """The options of every mode that writes a table."""

    trigger: Trigger | None = option(
        "How often a continuous run starts a batch of the model ('30 seconds'); the target's `trigger` if left out. "
        "`available_now`: the model reads the available records and ends.",
        default=None,
        read=_read_trigger,
    )
    namespace: str = option(
        "Namespace of the table; the target's if left out.", default="", read=check_name
    )
    table: str = option(
        "Name of the table; the model's if left out.", default="", read=check_name
    )
    partition_by: tuple[PartitionField, ...] = option(
        "Iceberg partition transforms, such as `days(created_at)`.",
        default=(),
        read=_read_partitions,
    )
    order_by: tuple[SortField, ...] = option(
        "The table's sort order: columns, each with `desc`, `nulls first` or `nulls last` as needed.",
        default=(),
        read=lambda node: read_each(as_items(node), _read_sort),
    )
    properties: Mapping[str, str] = option(
        "Iceberg table properties, by name.",
        factory=dict,
        read=lambda node: read_entries(node, _read_property),
    )
    on_schema_change: SchemaChange = option(
        "What happens if the columns of the SELECT and of the table differ: `append_new_columns` adds and widens "
        "columns, `sync_all_columns` also drops those that the SELECT lacks, `ignore` leaves the table as it is, "
        "`fail` is an error.",
        default="append_new_columns",
    )
    max_dead_letter_ratio: float = option(
        "Largest share of a batch's records that may be dead letters, from 0 to 1. A batch with a larger share "
        "fails, and nothing of it is written.",
        default=1.0,
        read=read_ratio,
    )
    late: Late = option(
        "What happens to events that a watermark drops: `count` counts them; `dead_letter` also makes them dead "
        "letters, for which the records of such a batch are read a second time.",
        default="count",
    )
    maintenance: Maintenance = option(
        MAINTAINED, factory=Maintenance, read=read_maintenance
    )
    tags: tuple[str, ...] = option(
        "Tags by which `--select tag:…` selects the model.", default=()
    )
    meta: Mapping[str, Any] = option(
        "Metadata for other tools; `owner` names the table's owner.",
        factory=dict,
        read=lambda node: read_entries(node, lambda _, item: item.plain()),
    )

    mode: ClassVar[str] = ""
    """The mode's name in `config(mode=…)`."""
    reads: ClassVar[ReadsFrom] = "streams"
    is_exchanged: ClassVar[bool] = False
    """Whether all rows of the table can be recomputed from the model's inputs at any
    time, and replaced."""
    is_stored: ClassVar[bool] = True
    """Whether the model's rows are stored in a table; otherwise it is a view."""
    needs_changes: ClassVar[bool] = False
    """Whether the SELECT reads the rows that changes leave, so that its stream must be
    a change feed."""
    own_effects: ClassVar[Mapping[str, OptionEffect]] = MappingProxyType({})
    """By option that not all modes have: what a changed value means for a table that
    has rows."""

    def as_stored(self) -> TableConfig:
        """The configuration of a mode that stores rows, for unit tests: for a view that
        of a table, else this one."""
        return self

    def writing(self, reads: Reads = NOTHING_KNOWN) -> Writing:
        """How batches write the table, for a SELECT with these facts."""
        raise NotImplementedError

    @property
    def memories(self) -> Mapping[Memory, Duration]:
        """What batches may remember for later ones (deleted keys, key changes), and for
        how long. `writing` has what they do remember for a given SELECT."""
        return {}

    @property
    def default_properties(self) -> Mapping[str, str]:
        """The mode's table properties, which override lakesql's defaults and which the
        model's `properties` override."""
        return {}

    @property
    def default_order(self) -> tuple[SortField, ...]:
        """The table's sort order if the model has no `order_by`."""
        return ()

    @property
    def usual_maintenance(self) -> Maintenance:
        """The table's maintenance if none is configured."""
        return Maintenance()

    @property
    def replaced_ratio(self) -> float:
        """The share of a batch's rows that are assumed, in forecasts, to replace a row
        of the table."""
        return 0.0

    @property
    def versions(self) -> Versions | None:
        """How versions of a key are distinguished, if the table has a row for each
        version; else None."""
        return None

    @property
    def changes_rows(self) -> bool:
        """Whether batches update and delete rows of the table. Then a model that
        streams the table reads its changes; otherwise its new rows."""
        return False

    def compared_inputs(self, read: Iterable[str]) -> frozenset[str]:
        """Those of the models in `read`, which the model reads by `ref`, of whose
        tables a refresh needs an earlier snapshot too, to see what has changed."""
        return frozenset()

    @property
    def rewrites_files(self) -> bool:
        """Whether a MERGE rewrites the data files whose rows it changes (copy-on-write)
        instead of writing delete files."""
        return self.properties.get("write.merge.mode") == "copy-on-write"


def as_items(node: Node) -> tuple[Node, ...]:
    """The items of a list; a single value counts as a list of one."""
    return node.value if isinstance(node.value, tuple) else (node,)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceConfig:
    """`mode='maintenance'`: CALL statements of Iceberg's procedures, for the table of
    another model."""

    of: str = option(
        "The model whose table is maintained.", read=read_key, is_inherited=False
    )
    trigger: Duration | None = option(
        "How often the statements run ('1 hour'), by time alone. If left out, the thresholds of the tasks that they "
        "replace make them due.",
        default=None,
        read=parse_duration,
        is_inherited=False,
    )
    tags: tuple[str, ...] = option(
        "Tags by which `--select tag:…` selects the statements' tasks.", default=()
    )
    meta: Mapping[str, Any] = option(
        "Metadata for other tools.",
        factory=dict,
        read=lambda node: read_entries(node, lambda _, item: item.plain()),
    )


def trigger_of(config: TableConfig, usual: Duration) -> Trigger:
    """The model's trigger, or if it has none the target's, `usual`. A refresh on change
    is expected at the target's interval."""
    match config.trigger:
        case None:
            return Every(usual.text, usual.length_ms)
        case OnChange():
            return OnChange(usual.length_ms)
        case trigger:
            return trigger
