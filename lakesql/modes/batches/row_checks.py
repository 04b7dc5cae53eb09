"""What several modes check of a SELECT whose rows they write: groups that share a key,
rows that are withdrawn."""

from __future__ import annotations

from collections.abc import Iterator

from lakesql.compile.select import Select
from lakesql.errors import Problem


def check_updating(select: Select) -> Iterator[Problem]:
    """A SELECT that would have to take back a row, which a mode that writes each change
    of a row cannot."""
    mode, noted = select.model.config.mode, select.query.noted
    if "filtered-groups" in noted:
        yield Problem(
            "filtered-groups",
            f"A group that stops passing this filter would keep its last row in the table, as mode "
            f"'{mode}' only writes the rows that the SELECT gives.",
            place=select.rendered.place(noted["filtered-groups"]),
        )
    if "nested-aggregate" in noted:
        yield Problem(
            "nested-aggregate",
            f"Mode '{mode}' cannot aggregate the rows of an aggregate.",
            "Spark would have to take back a row that the outer aggregate has counted already.",
            place=select.rendered.place(noted["nested-aggregate"]),
        )
    if "session-in-upsert" in noted:
        yield Problem(
            "session-in-upsert",
            f"Mode '{mode}' cannot group by session_window.",
            "A session that grows has another start or end, and its former row would stay.",
            place=select.rendered.place(noted["session-in-upsert"]),
        )


def check_null_groups(select: Select) -> Iterator[Problem]:
    """Keys that are NULL in the rows that ROLLUP and its like add."""
    if "grouping-sets" not in select.query.noted:
        return
    plain = {
        output.name.lower() for output in select.query.outputs or () if output.column
    }
    for key in select.writing.keys:
        if key.lower() in plain:
            yield Problem(
                "group-not-in-keys",
                f"In the rows that ROLLUP, CUBE and GROUPING SETS add, the key '{key}' is NULL, for all of its values.",
                "A row without a key is a dead letter.",
                f"Give it a value, coalesce({key}, 'all') AS {key}. If 'all' may be one of its own, add grouping_id() "
                "to the SELECT and to keys.",
                select.model.option_place("keys"),
            )


def check_groups(select: Select) -> Iterator[Problem]:
    """Groups of which several have one key, where nothing says which is to stay."""
    writing = select.writing
    if not writing.keys or writing.sequence_by:
        return
    keys = {key.lower() for key in writing.keys}
    for group in select.query.groups or ():
        if not group.told_by & keys:
            yield Problem(
                "group-not-in-keys",
                f"The SELECT has a row for each {group.text}, which no key tells apart.",
                "Of several rows with one key, any one would stay.",
                f"Select {group.text} and add it to keys, take any_value({group.text}) instead of grouping by it, "
                "or say by sequence_by which row is to stay.",
                select.model.option_place("keys"),
            )
