"""The options of Iceberg's procedures that lakesql only passes on: which names and
values Iceberg accepts.

They are given under `options` of a procedure, and in a CALL as Iceberg takes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Literal

from lakesql.decode import Node, collect
from lakesql.errors import Problem, ProjectError, did_you_mean
from lakesql.project.size import parse_size

ICEBERG = "1.12"
"""The version of Iceberg that has these options, as pinned in
`engine/spark/jars.py`."""

IcebergValue = bool | int | float | str
Takes = Literal[
    "true or false",
    "a positive whole number",
    "a whole number",
    "a positive number",
    "a number of bytes",
    "a job order",
]

JOB_ORDERS = ("none", "bytes-asc", "bytes-desc", "files-asc", "files-desc")

_OF_REWRITES: Mapping[str, Takes] = {
    "max-file-size-bytes": "a number of bytes",
    "max-file-group-size-bytes": "a number of bytes",
    "max-file-group-input-files": "a positive whole number",
    "max-concurrent-file-group-rewrites": "a positive whole number",
    "partial-progress.enabled": "true or false",
    "partial-progress.max-commits": "a positive whole number",
    "rewrite-job-order": "a job order",
}

SORT_KEYS = ("compression-factor", "shuffle-partitions-per-file")
"""The options that only a rewrite which sorts has."""

ZORDER_KEYS = ("max-output-size", "var-length-contribution")
"""The options that only a rewrite with a z-order has."""

ICEBERG_OPTIONS: Mapping[str, Mapping[str, Takes]] = {
    "rewrite_data_files": {
        **_OF_REWRITES,
        "partial-progress.max-failed-commits": "a whole number",
        "use-starting-sequence-number": "true or false",
        "remove-dangling-deletes": "true or false",
        "compression-factor": "a positive number",
        "shuffle-partitions-per-file": "a positive whole number",
        "max-output-size": "a positive whole number",
        "var-length-contribution": "a positive whole number",
        "cache-delete-files": "true or false",
    },
    "rewrite_position_delete_files": {
        **_OF_REWRITES,
        "target-file-size-bytes": "a number of bytes",
        "min-file-size-bytes": "a number of bytes",
        "min-input-files": "a positive whole number",
    },
    "rewrite_manifests": {"use_caching": "true or false"},
    "expire_snapshots": {
        "max_concurrent_deletes": "a positive whole number",
        "stream_results": "true or false",
        "clean_expired_metadata": "true or false",
    },
    "remove_orphan_files": {
        "max_concurrent_deletes": "a positive whole number",
        "stream_results": "true or false",
    },
}
"""By procedure, its options and the values that each takes. For the rewrites of files
they are entries of the map `options`, for the others arguments."""


def read_iceberg_options(
    procedure: str, node: Node, typed: Mapping[str, str] = MappingProxyType({})
) -> Mapping[str, IcebergValue]:
    """The values of a procedure's `options`, by Iceberg's names, sorted.

    `typed` has lakesql's names, by Iceberg's, of the options that must be given beside
    `options` instead. Raises `ProjectError`: `unknown-option` with the nearest name,
    `wrong-value` and `bad-size`.
    """
    known = ICEBERG_OPTIONS[procedure]
    problems: list[Problem] = []
    found: dict[str, IcebergValue] = {}
    for name, value in node.entries().items():
        if name in typed:
            what = f"'{name}' of {procedure} is an option of lakesql's own, which does not stand under 'options'."
            fix = f"Write '{typed[name]}' beside 'options'."
            problems.append(
                Problem("unknown-option", what, "", fix, node.key_place(name))
            )
            continue
        if name not in known:
            what = f"{procedure} of Iceberg {ICEBERG} has no option '{name}'."
            problems.append(
                Problem(
                    "unknown-option",
                    what,
                    "",
                    did_you_mean(name, known),
                    node.key_place(name),
                )
            )
            continue
        read = collect(problems, partial(_read_value, value, known[name]))
        if read is not None:
            found[name] = read
    if problems:
        raise ProjectError(problems)
    return dict(sorted(found.items()))


def former_name(key: str) -> str:
    """The name of an option in versions in which it was lakesql's own, such as
    `max_file_group_size`."""
    return re.sub(r"[-.]", "_", key).removesuffix("_bytes")


def refuse_former(procedure: str, node: Node) -> tuple[Node, list[Problem]]:
    """A procedure's options without those that belong under `options` by now, and a
    problem for each of these."""
    known = {former_name(key): key for key in ICEBERG_OPTIONS[procedure]}
    kept: dict[str, Node] = {}
    problems: list[Problem] = []
    for name, value in node.entries().items():
        key = known.get(name)
        if key is None:
            kept[name] = value
            continue
        what = f"'{name}' of {procedure} is an option of Iceberg's, which stands under 'options'."
        fix = f"Write 'options': {{'{key}': {_shown(value, key)}}}."
        problems.append(Problem("unknown-option", what, "", fix, node.key_place(name)))
    return replace(node, value=kept), problems


def option_text(value: IcebergValue) -> str:
    """A value as the text that Iceberg's map `options` has for it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _read_value(node: Node, takes: Takes) -> IcebergValue:
    text = (
        str(node.value).lower()
        if isinstance(node.value, bool | int | float)
        else node.value
    )
    if isinstance(text, str):
        match takes:
            case "true or false" if text.lower() in ("true", "false"):
                return text.lower() == "true"
            case "a whole number" if _WHOLE.match(text):
                return int(text)
            case "a positive whole number" | "a number of bytes" if _WHOLE.match(
                text
            ) and int(text):
                return int(text)
            case "a positive number" if _NUMBER.match(text) and float(text):
                return float(text) if "." in text else int(text)
            case "a job order" if text in JOB_ORDERS:
                return text
            case _:
                pass
    if takes == "a number of bytes":
        fix = "Write it without a unit, as Iceberg reads it: 268435456."
        raise ProjectError.of(
            "bad-size",
            f"{node.shown} is not a number of bytes.",
            fix=fix,
            place=node.place,
        )
    fix = f"One of {', '.join(JOB_ORDERS)}." if takes == "a job order" else ""
    raise ProjectError.of(
        "wrong-value", f"{node.shown} is not {takes}.", fix=fix, place=node.place
    )


_WHOLE = re.compile(r"[0-9]{1,18}\Z")
_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?\Z")


def _shown(node: Node, key: str) -> str:
    """A value as it is to be written under `options`: a size as a number of bytes."""
    if not key.endswith("-bytes"):
        return (
            repr(node.value)
            if isinstance(node.value, bool | int | float | str)
            else "…"
        )
    try:
        return str(parse_size(node).size_bytes)
    except ProjectError:
        return "…"
