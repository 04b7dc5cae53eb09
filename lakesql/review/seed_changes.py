"""What a change of a seed's file or contract does to its table, and to the models that
join it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from lakesql.errors import Place
from lakesql.review.option_changes import resolved
from lakesql.review.readers import ReadersOf
from lakesql.review.verdicts import (
    ColumnChanges,
    ModelReview,
    NamedColumn,
    Reason,
    RetypedColumn,
)
from lakesql.review.version import Version
from lakesql.seed.seed import Seed
from lakesql.stream.types import stored_type


def review_seeds(
    old: Version | None, new: Version, names: Collection[str], readers: ReadersOf
) -> Iterator[ModelReview]:
    """A review of each of the seeds, named by its id, such as `seed.countries`. A seed
    may exist in only one of the versions."""
    for name in names:
        before = old.manifest.seeds.get(name) if old is not None else None
        after = new.manifest.seeds.get(name)
        columns = compare_columns(before, after)
        found = readers.find(name, columns) if columns.names else ()
        own = f"seed.{name}"
        below = tuple(
            replace(it, through=own) if it.through == name else it for it in found
        )
        yield ModelReview(
            own, tuple(_reasons(before, after, columns)), columns, downstream=below
        )


def is_modified(before: Seed, after: Seed) -> bool:
    """Whether the change of a seed changes its table: its rows, its columns or its
    name."""
    return _made_from(before) != _made_from(after)


def compare_columns(before: Seed | None, after: Seed | None) -> ColumnChanges:
    """How the columns of the table differ; no changes if the seed is new or gone."""
    if before is None or after is None:
        return ColumnChanges()
    were = {column.name: stored_type(column.type) for column in before.columns}
    are = {column.name: stored_type(column.type) for column in after.columns}
    retyped = [name for name, kind in are.items() if were.get(name, kind) != kind]
    return ColumnChanges(
        added=tuple(
            NamedColumn(name, kind) for name, kind in are.items() if name not in were
        ),
        dropped=tuple(
            NamedColumn(name, kind) for name, kind in were.items() if name not in are
        ),
        retyped=tuple(RetypedColumn(name, were[name], are[name]) for name in retyped),
    )


def _reasons(
    before: Seed | None, after: Seed | None, columns: ColumnChanges
) -> Iterator[Reason]:
    if after is None:
        assert before is not None, "it is of one of the two versions"
        what = f"Table {before.table} stays as it is, and is filled no longer."
        yield Reason(
            "removed",
            "seed-removed",
            what,
            before.place,
            f"To remove it: lakesql drop {before.name}",
        )
        return
    fill = f"lakesql seed --select {after.name}"
    if before is None:
        yield Reason(
            "added",
            "seed-added",
            f"Table {after.table} is made when it is filled.",
            after.place,
            fill,
        )
    elif before.table != after.table:
        what = f"It is filled into {after.table}; {before.table} stays as it is."
        yield Reason("added", "seed-changed", what, after.place, fill)
    elif columns.names:
        what = "The columns of its table change with its rows, in one commit, when it is filled."
        yield Reason("alter", "seed-changed", what, after.place, fill)
    elif is_modified(before, after):
        what = "Its rows are replaced, in one commit, when it is filled. Models join them from their next batch on; "
        what += "rows that they have written stay as they are."
        yield Reason("next-batch", "seed-changed", what, after.place, fill)
    elif _said(before) != _said(after):
        yield Reason(
            "docs",
            "description-changed",
            "Descriptions or tests have changed.",
            after.properties.place,
        )


def _made_from(seed: Seed) -> tuple[object, ...]:
    columns = tuple(
        (column.name, column.type, column.field, column.required)
        for column in seed.columns
    )
    return seed.digest, seed.delimiter, seed.table, columns


def _said(seed: Seed) -> tuple[object, ...]:
    """The descriptions and tests of a seed, without their places in files."""
    return resolved(replace(seed.properties, place=Place(""))), [
        column.description for column in seed.columns
    ]
