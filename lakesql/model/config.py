"""What `config(...)` says in every mode, and what each mode answers: the modes
themselves are in `modes/`."""

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
"""Of a SELECT that has not been read."""

SchemaChange = Literal["ignore", "fail", "append_new_columns", "sync_all_columns"]

Late = Literal["count", "dead_letter"]

ReadsFrom = Literal["streams", "tables"]
"""What the FROM of a SELECT reads: what arrives in streams, or tables alone, as they
are."""

READ_WORDS: Mapping[ReadsFrom, str] = {"streams": "a stream", "tables": "tables alone"}
"""What is read, in words."""


@dataclass(frozen=True, slots=True)
class AvailableNow:
    """Take what is there, then stop."""


@dataclass(frozen=True, slots=True)
class Every:
    """A batch every so often, for as long as the query runs."""

    text: str
    interval_ms: int


@dataclass(frozen=True, slots=True)
class OnChange:
    """A refresh as soon as a table that is read has another snapshot, which is expected
    every so often."""

    expected_ms: int = 0


Trigger = AvailableNow | Every | OnChange


def trigger_text(trigger: Trigger) -> str:
    """A trigger as `config(...)` has it."""
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
"""How `config(...)` says that trigger."""


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
        """The name that Iceberg gives the field when a table is made; '' where it is
        the column itself."""
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
    """When a table that is made of others is refreshed."""
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
"""Iceberg's transforms, and whether each takes a number."""
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
"""How the names of the properties begin in which lakesql keeps something."""


_FORMAT_VERSIONS = ("2", "3")
"""The versions of Iceberg's table format that a table may be made in."""


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
    """Columns that a mode cannot do without."""
    keys = read_columns(node)
    if not keys:
        raise ProjectError.of(
            "wrong-value", "These are names of columns, one at least.", place=node.place
        )
    return keys


def read_columns(node: Node) -> tuple[str, ...]:
    """Names of columns, each once. Capitals make no difference."""
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
    """The name of a column that the mode adds."""
    name = read_key(node)
    check_landing(name, node.place)
    return name


TOMBSTONE_RETENTION = (
    "How long a deleted key is remembered where `sequence_by` orders its rows, so that an older one that comes late "
    "does not bring it back."
)


MAX_DELETE_RATIO = (
    "Share of the table's rows that a batch may delete; one that would delete more, or a truncate, stops the model "
    "before it is written."
)


MAINTAINED = (
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
    namespace: str = option(
        "Namespace of the table; the target's if left out.", default="", read=check_name
    )
    table: str = option(
        "Name of the table; the model's if left out.", default="", read=check_name
    )
    partition_by: tuple[PartitionField, ...] = option(
        "Iceberg partition transforms.", default=(), read=_read_partitions
    )
    order_by: tuple[SortField, ...] = option(
        "The table's sort order.",
        default=(),
        read=lambda node: read_each(as_items(node), _read_sort),
    )
    properties: Mapping[str, str] = option(
        "Table properties.",
        factory=dict,
        read=lambda node: read_entries(node, _read_property),
    )
    on_schema_change: SchemaChange = option(
        "What happens when the SELECT's columns and the table's differ.",
        default="append_new_columns",
    )
    max_dead_letter_ratio: float = option(
        "Share of a batch's records that may be dead letters; above it the batch fails.",
        default=1.0,
        read=read_ratio,
    )
    late: Late = option(
        "What happens to the events that a watermark drops: they are counted, or they are dead letters too, for which "
        "the batch's records are read once more.",
        default="count",
    )
    maintenance: Maintenance = option(
        MAINTAINED, factory=Maintenance, read=read_maintenance
    )
    tags: tuple[str, ...] = option("Words to select by.", default=())
    meta: Mapping[str, Any] = option(
        "Anything, for other tools.",
        factory=dict,
        read=lambda node: read_entries(node, lambda _, item: item.plain()),
    )

    mode: ClassVar[str] = ""
    """The word in `config(mode=…)`."""
    reads: ClassVar[ReadsFrom] = "streams"
    is_exchanged: ClassVar[bool] = False
    """Whether all rows of the table may be made anew at any time, of what is read, and
    exchanged."""
    is_stored: ClassVar[bool] = True
    """Whether the model has a table, and not a view alone."""
    needs_changes: ClassVar[bool] = False
    """Whether its SELECT is given the rows that changes leave, which a change feed
    alone has."""
    own_effects: ClassVar[Mapping[str, OptionEffect]] = MappingProxyType({})
    """What another value of an option that the mode has, and not all have, means for a
    table that has rows."""

    def as_stored(self) -> TableConfig:
        """The same where the model's rows are stored in any case, as unit tests have
        them."""
        return self

    def writing(self, reads: Reads = NOTHING_KNOWN) -> Writing:
        """How the batches of a SELECT of which this is known change the table."""
        raise NotImplementedError

    @property
    def memories(self) -> Mapping[Memory, Duration]:
        """What batches may remember, and for how long, whatever the SELECT."""
        return {}

    @property
    def default_properties(self) -> Mapping[str, str]:
        """The table's properties where the model says nothing else, over those of every
        table."""
        return {}

    @property
    def default_order(self) -> tuple[SortField, ...]:
        """How the table is sorted where the model says nothing else."""
        return ()

    @property
    def usual_maintenance(self) -> Maintenance:
        """How the table is maintained where nobody says how."""
        return Maintenance()

    @property
    def replaced_ratio(self) -> float:
        """The share of a batch's rows of which it is assumed that each replaces a row
        of the table."""
        return 0.0

    @property
    def versions(self) -> Versions | None:
        """What tells the versions of a key apart, where each is a row; None where no
        version is kept."""
        return None

    @property
    def changes_rows(self) -> bool:
        """Whether rows of the table are updated and deleted. Another model reads its
        changes as a stream then, and its new rows otherwise."""
        return False

    def compared_inputs(self, read: Iterable[str]) -> frozenset[str]:
        """Those of the models that it reads by `ref` whose tables a refresh compares
        with what they were."""
        return frozenset()

    @property
    def rewrites_files(self) -> bool:
        """Whether a MERGE writes the files anew whose rows it changes, where it would
        write deletes beside them."""
        return self.properties.get("write.merge.mode") == "copy-on-write"


def as_items(node: Node) -> tuple[Node, ...]:
    """The items of a list; a value by itself is a list of one."""
    return node.value if isinstance(node.value, tuple) else (node,)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceConfig:
    """`mode='maintenance'`: CALL statements of Iceberg's procedures, for the table of
    another model."""

    of: str = option(
        "The model whose table is maintained.", read=read_key, is_inherited=False
    )
    trigger: Duration | None = option(
        "How often the statements are run ('1 hour'), by time alone. If left out, they are due as the tasks that they "
        "replace would be.",
        default=None,
        read=parse_duration,
        is_inherited=False,
    )
    tags: tuple[str, ...] = option("Words to select by.", default=())
    meta: Mapping[str, Any] = option(
        "Anything, for other tools.",
        factory=dict,
        read=lambda node: read_entries(node, lambda _, item: item.plain()),
    )


def trigger_of(config: TableConfig, usual: Duration) -> Trigger:
    """What a model says, or else the target's usual one; of a table that is made of
    others, when it is expected that these change."""
    match config.trigger:
        case None:
            return Every(usual.text, usual.length_ms)
        case OnChange():
            return OnChange(usual.length_ms)
        case trigger:
            return trigger
