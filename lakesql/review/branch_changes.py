"""What a change means that does not show in the compared rendering: an edit in a branch
of the template that is not taken."""

from __future__ import annotations

from collections.abc import Iterator

from lakesql.compile.build_select import build_select, names_of_template, template_of
from lakesql.compile.select import Select
from lakesql.errors import Place, ProjectError
from lakesql.review.causes import ModelVersions
from lakesql.review.verdicts import Reason
from lakesql.review.version import Version
from lakesql.select.differences import find_differences
from lakesql.select.sqltext import folded
from lakesql.template.template import unreached_parts
from lakesql.template.unreached import BranchPart


def find_branch_changes(change: ModelVersions) -> Iterator[Reason]:
    """The reason for an edit in branches of a template that the compared rendering does
    not take: that the SELECT of a rebuild (`is_full_refresh`) differs, or else that
    some other branch does."""
    parts = [
        unreached_parts(
            template_of(version.manifest, model),
            names_of_template(version.manifest, model),
            folded,
        )
        for version, model in (
            (change.old, change.before.model),
            (change.new, change.model),
        )
    ]
    place = _first_difference(*parts)
    if place is None:
        return
    name = change.model.name
    if (
        "is_full_refresh" in change.model.facts.reads
        and (at := _rebuilt_difference(change)) is not None
    ):
        what = "What `lakesql rebuild` makes the table of (is_full_refresh) is another SELECT."
        yield Reason(
            "next-batch",
            "branch-changed",
            what,
            at,
            f"It counts from the next rebuild on: lakesql rebuild {name}",
        )
        return
    target = change.new.manifest.target.name
    what = (
        f"A branch of the template is edited that is not taken for target '{target}' and its variables. Rows change "
        "where it is taken."
    )
    yield Reason(
        "next-batch",
        "branch-changed",
        what,
        place,
        "To see what it does there: lakesql plan --target NAME",
    )


def _first_difference(
    before: tuple[BranchPart, ...], after: tuple[BranchPart, ...]
) -> Place | None:
    """The first place at which the branches differ; None if they are equal."""
    if [part.written for part in before] == [part.written for part in after]:
        return None
    for was, now in zip(before, after, strict=False):
        if was.written != now.written:
            return now.place
    longer = after if len(after) > len(before) else before
    return longer[min(len(before), len(after))].place


def _rebuilt_difference(change: ModelVersions) -> Place | None:
    """The place at which the SELECTs of a rebuild differ; None if they do not, or one
    of them cannot be compiled."""
    try:
        before, after = (
            _rebuilt(change.old, change.before),
            _rebuilt(change.new, change.after),
        )
    except ProjectError:
        return None
    if differences := find_differences(before.query.sql, after.query.sql):
        return after.rendered.place(differences[0].offset)
    return None


def _rebuilt(version: Version, select: Select) -> Select:
    name = select.model.name
    upstream = {other: built for other, built in version.built.items() if other != name}
    return build_select(version.manifest, name, upstream, is_full_refresh=True)
