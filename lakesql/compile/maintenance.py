"""The CALL statements that maintain a table, and when each is due, for compiled files
and for runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime
from decimal import Decimal
from typing import assert_never

from lakesql.compile.quote import field_path, identifier, literal, text, timestamp
from lakesql.compile.shown_text import age_mark
from lakesql.model.config import SortField
from lakesql.model.maintenance_tasks import MaintenanceTask
from lakesql.project.duration import Duration
from lakesql.project.iceberg_options import option_text
from lakesql.project.procedures import (
    RECENT,
    ExpireSnapshots,
    Procedure,
    RemoveOrphanFiles,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeleteFiles,
    iceberg_names,
    name_of,
)
from lakesql.project.size import Size

Argument = str | int | float | bool | datetime | Mapping[str, str] | tuple[str, ...]

_WIDTH = 120


def call_text(
    task: MaintenanceTask,
    order: tuple[SortField, ...] = (),
    *,
    before: datetime | None = None,
    options: Mapping[str, str] | None = None,
    file_list_view: str = "",
) -> str:
    """The CALL of a task, without the `;`. `order` is the sort order of the table.

    `before` is the time before which snapshots or files are removed; without it the
    text has a mark there. For `where: recent`, whose partitions only a run knows, the
    text has all partitions. `options` limit a single run of a rewrite further;
    `file_list_view` limits a removal of orphans to the files in this view.
    """
    arguments: dict[str, str] = {
        "table": text(
            f"{identifier(task.table.namespace)}.{identifier(task.table.name)}"
        )
    }
    for name, value in _arguments(task.options, order, options or {}):
        arguments[name] = argument_text(value)
    if file_list_view:
        arguments["file_list_view"] = argument_text(file_list_view)
        arguments.pop("prefix_listing", None)  # nothing is listed
    match task.options:
        case ExpireSnapshots() | RemoveOrphanFiles() if before:
            arguments["older_than"] = argument_text(before)
        case ExpireSnapshots(older_than=age, most=int(most)):
            arguments["older_than"] = age_mark(
                age.text, f", or less where there are more than {most:,}"
            )
        case ExpireSnapshots(older_than=age) | RemoveOrphanFiles(older_than=age):
            arguments["older_than"] = age_mark(age.text)
        case RewriteDataFiles(where=where) if where == RECENT:
            everything = argument_text("true")
            arguments["where"] = (
                f"{everything} /* in a run: the partitions that were written to since the last rewrite */"
            )
        case _:
            pass
    said = [f"{name} => {value}" for name, value in arguments.items()]
    call = f"CALL {identifier(task.table.catalog)}.system.{task.procedure}"
    line = f"{call}({', '.join(said)})"
    return line if len(line) < _WIDTH else f"{call}(\n  {f',{chr(10)}  '.join(said)}\n)"


def argument_text(value: Argument) -> str:
    """A value as an argument of a CALL."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case str():
            return text(value)
        case datetime():
            return timestamp(value)
        case tuple():
            return f"array({', '.join(map(text, value))})"
        case Mapping():
            return f"map({', '.join(f'{text(key)}, {text(item)}' for key, item in value.items())})"
        case _:
            assert_never(value)


@dataclass(frozen=True, slots=True)
class PartitionValue:
    """A field of a partition: the source column, Iceberg's text of the transform, and
    the transformed value."""

    column: str
    transform: str
    value: object


def partitions_text(
    catalog: str, partitions: Iterable[tuple[PartitionValue, ...]]
) -> str | None:
    """A condition that is true only of the rows of these partitions; None if it cannot
    be written in SQL."""
    texts: list[str] = []
    for partition in partitions:
        fields = [
            _partition_field(catalog, field)
            for field in partition
            if field.transform != "void"
        ]
        if not fields or None in fields:
            return None
        texts.append(" AND ".join(filter(None, fields)))
    if not texts:
        return None
    return (
        " OR ".join(f"({each})" for each in dict.fromkeys(texts))
        if len(texts) > 1
        else texts[0]
    )


_TRANSFORM = re.compile(
    r"(year|month|day|hour|bucket|truncate|identity)(?:\[(\d+)\])?\Z"
)


def _partition_field(catalog: str, field: PartitionValue) -> str | None:
    found = _TRANSFORM.match(field.transform)
    column = field_path(field.column)
    if found is None:
        return None
    if field.value is None:
        return f"{column} IS NULL"
    value = _partition_literal(field.value)
    if value is None:
        return None
    if found[1] == "identity":
        return f"{column} = {value}"
    name = found[1] if found[2] else f"{found[1]}s"
    width = f"{found[2]}, " if found[2] else ""
    return f"{identifier(catalog)}.system.{name}({width}{column}) = {value}"


def _partition_literal(value: object) -> str | None:
    match value:
        case bool() | int() | str() | Decimal():
            return literal(value)
        case datetime():
            return None  # with or without a time zone: the value does not say
        case date():
            return f"DATE {text(value.isoformat())}"
        case _:
            return None


def when_due(options: Procedure, is_by_time: bool = False) -> str:
    """When a task is due, in words. `is_by_time`: its trigger alone counts."""
    due = [f"every {options.trigger.text}"] if options.trigger else []
    if is_by_time:
        return "".join(due)
    match options:
        case RewriteDataFiles():
            due += [
                f"after {options.small_files:,} small files",
                f"{options.delete_files:,} delete files",
                f"or when {options.delete_ratio * 100:g}% of the rows are deleted",
            ]
        case RewritePositionDeleteFiles():
            due += [
                f"after {options.delete_files:,} delete files",
                "and after each rewrite of data files that had some",
            ]
        case RewriteManifests():
            due.append(f"from {options.manifests:,} manifests on")
        case ExpireSnapshots():
            due.append(f"from {options.snapshots:,} expired snapshots on")
        case RemoveOrphanFiles():
            pass
        case _:
            assert_never(options)
    return ", ".join(due)


def plain_options(options: Procedure) -> dict[str, str]:
    """All options that are set or have a default, by lakesql's names, as people write
    them."""
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    return {
        name: _plain(value)
        for name, value in values.items()
        if value not in (None, "", ()) and value != {}
    }


def iceberg_options(options: Procedure) -> dict[str, str]:
    """The `options` argument of a rewrite: the options that are set, by Iceberg's
    names."""
    said = {
        key: _option_text(value)
        for name, key in iceberg_names(name_of(options)).items()
        if (value := getattr(options, name)) not in (None, "", ())
    }
    passed = {key: option_text(value) for key, value in options.options.items()}
    return dict(sorted((said | passed).items()))


def _arguments(
    options: Procedure, order: tuple[SortField, ...], narrowing: Mapping[str, str]
) -> Iterator[tuple[str, Argument]]:
    match options:
        case RewriteDataFiles():
            strategy = options.strategy or (
                "sort" if options.sort_order or order else "binpack"
            )
            yield "strategy", strategy
            if strategy == "sort" and (by := options.sort_order or _order_text(order)):
                yield "sort_order", by
            yield from _rewrite_arguments(options, narrowing)
        case RewritePositionDeleteFiles():
            yield from _rewrite_arguments(options, narrowing)
        case RewriteManifests(spec_id=spec_id, sort_by=sort_by):
            yield from options.options.items()
            yield from _said({"spec_id": spec_id, "sort_by": sort_by or None})
        case ExpireSnapshots():
            yield "retain_last", options.retain_last
            yield from options.options.items()
        case RemoveOrphanFiles():
            said: dict[str, Argument | None] = {
                "dry_run": options.dry_run,
                "equal_schemes": options.equal_schemes or None,
                "equal_authorities": options.equal_authorities or None,
                "prefix_mismatch_mode": options.prefix_mismatch_mode,
                "prefix_listing": options.prefix_listing,
            }
            yield from _said(said)
            yield from options.options.items()
        case _:
            assert_never(options)


def _rewrite_arguments(
    options: RewriteDataFiles | RewritePositionDeleteFiles, narrowing: Mapping[str, str]
) -> Iterator[tuple[str, Argument]]:
    if said := {**iceberg_options(options), **narrowing}:
        yield "options", said
    if options.where:
        yield "where", options.where


def _said(values: Mapping[str, Argument | None]) -> Iterator[tuple[str, Argument]]:
    return ((name, value) for name, value in values.items() if value is not None)


def _order_text(order: tuple[SortField, ...]) -> str:
    """A sort order as a procedure reads it, with direction and nulls written out."""
    return ", ".join(
        f"{identifier(field.column)} {'DESC' if field.descending else 'ASC'} "
        f"NULLS {'FIRST' if field.nulls_first else 'LAST'}"
        for field in order
    )


def _plain(value: object) -> str:
    match value:
        case Size(text=said) | Duration(text=said):
            return said
        case tuple():
            return ", ".join(value)
        case Mapping():
            return ", ".join(
                f"{key}={option_text(item)}" for key, item in value.items()
            )
        case _:
            return _option_text(value)


def _option_text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case Size(size_bytes=size_bytes):
            return str(size_bytes)
        case Duration(length_ms=length_ms):
            return str(length_ms)
        case _:
            return str(value)
