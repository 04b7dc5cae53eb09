"""The columns that say when a version of a row is valid, and their options, for the
modes whose tables have a row for each version."""

from __future__ import annotations

from lakesql.decode import option
from lakesql.model.config import read_added_column
from lakesql.model.writing import AddedColumn


def valid_from_option() -> str:
    """The option that names the column with the start of a version."""
    return option(  # type: ignore[no-any-return]
        "Name of the column with the time from which a version is valid.",
        default="valid_from",
        read=read_added_column,
    )


def valid_to_option() -> str:
    """The option that names the column with the end of a version."""
    return option(  # type: ignore[no-any-return]
        "Name of the column with the time until which a version is valid, exclusive; NULL while it is valid.",
        default="valid_to",
        read=read_added_column,
    )


def is_current_option() -> str:
    """The option that names the column which says whether a version is valid now."""
    return option(  # type: ignore[no-any-return]
        "Name of the column that tells whether a version is still valid.",
        default="is_current",
        read=read_added_column,
    )


def version_columns(
    valid_from: str,
    valid_to: str,
    is_current: str,
    *,
    time_type: str = "",
    like: str = "",
) -> tuple[AddedColumn, ...]:
    """The columns with these names. The times have the type `time_type`, or that of the
    SELECT's column `like`."""
    return (
        AddedColumn(
            "valid_from",
            valid_from,
            "From when this version is valid.",
            time_type,
            like,
        ),
        AddedColumn(
            "valid_to",
            valid_to,
            "Until when it was valid, exclusively; NULL while it is.",
            time_type,
            like,
        ),
        AddedColumn("is_current", is_current, "Whether it still is valid.", "boolean"),
    )
