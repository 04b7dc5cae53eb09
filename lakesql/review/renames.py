"""Models that were renamed: a new model that does the same as one that is gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakesql.compile.select import Select
from lakesql.compile.statements import compiled_text
from lakesql.model.model import Model
from lakesql.progress.advice import rename_command
from lakesql.review.causes import ModelVersions, changed_option_place
from lakesql.review.continuation import find_fresh_refusal, find_identity_refusals
from lakesql.review.option_changes import find_option_changes, resolved
from lakesql.review.query_changes import find_contract_changes, find_query_changes
from lakesql.review.table_changes import find_table_changes
from lakesql.review.verdicts import ModelReview, Reason, Statements, hardest_first
from lakesql.review.version import Version
from lakesql.select.differences import find_differences


def find_renames(old: Version, new: Version) -> Mapping[str, str]:
    """The names of new models, each with its former name: that of the removed model
    with the same table, or the same SELECT and options.

    A new model with several possible former models is not included.
    """
    gone = [name for name in old.manifest.models if name not in new.manifest.models]
    added = [name for name in new.manifest.models if name not in old.manifest.models]
    found: dict[str, str] = {}
    for name in added:
        same = [former for former in gone if _is_same(old, new, former, name)]
        if len(same) == 1 and same[0] not in found.values():
            found[name] = same[0]
    return found


def judge_rename(old: Version, new: Version, former: str, name: str) -> ModelReview:
    """The review of a renamed model. Its checkpoint and its ledger belong to the former
    name, so the model starts without them."""
    before, after = old.select(former), new.select(name)
    assert isinstance(before, Select)
    assert isinstance(after, Select)
    change, texts = (
        ModelVersions(old, new, before, after),
        Statements(compiled_text(before), compiled_text(after)),
    )
    table = find_table_changes(change)
    if not change.is_same_table:
        what = f"It was '{former}'. {_begins_anew(before, after.model)}"
        do = f"To go on with what it has: `{rename_command(former, name)}`. To remove that: `lakesql drop {former}`"
        return ModelReview(
            name,
            (Reason("renamed", "model-renamed", what, after.model.place, do),),
            statements=texts,
        )
    place = changed_option_place(change, "table")
    refusals = find_identity_refusals(change)
    others = (
        *table.reasons,
        *find_query_changes(change),
        *find_contract_changes(change, table.columns.names),
        *find_option_changes(change),
    )
    if refusals:
        what = f"It was '{former}', which has written the rows of {after.model.table}."
        do = f"Put that back and go on where it stands, by {rename_command(former, name)}, or fill the table again: "
        do += f"lakesql rebuild {name}"
        reasons = (
            *refusals,
            *others,
            Reason("renamed", "model-renamed", what, place, do),
        )
        return ModelReview(name, hardest_first(reasons), table.columns, texts)
    along = f"To go on where it stands: {rename_command(former, name)}"
    if after.model.config.reads == "tables":
        made = f"It was '{former}', which has made the rows of {after.model.table}"
        what = f"{made}: a run refuses that (table-of-another)."
        renamed = Reason("breaks", "model-renamed", what, place, f"{along}.")
        return ModelReview(
            name, hardest_first((renamed, *others)), table.columns, texts
        )
    if refused := find_fresh_refusal(change):
        what = (
            f"It was '{former}', and has no checkpoint under its new name. From the start of the streams it would "
            f"write the rows again that {after.model.table} has: a run refuses that ({refused})."
        )
        renamed = Reason("breaks", "model-renamed", what, place, f"{along}.")
    else:
        is_once = all(it.verdict != "rebuild" for it in others)
        what = (
            f"It was '{former}', and begins a new checkpoint: it reads the streams from their start."
            f"{' No row stands twice.' if is_once else ''}"
        )
        renamed = Reason("renamed", "model-renamed", what, place, f"{along}.")
    return ModelReview(
        name, hardest_first((renamed, *others)), table.columns, texts, table.steps
    )


def _begins_anew(before: Select, after: Model) -> str:
    """What happens to a renamed model that starts without a checkpoint, and to its
    former table, as sentences."""
    if after.config.reads == "streams":
        filled = (
            f"It begins anew: {after.table} is filled from the start of the streams"
        )
        return (
            f"{filled}, and {before.model.table} stays as it is, with its checkpoint."
        )
    made = f"It begins anew: {after.table} is made of the tables that it reads"
    return f"{made}, and {before.model.table} stays as it is."


def _is_same(old: Version, new: Version, former: str, name: str) -> bool:
    before, after = old.select(former), new.select(name)
    if not (isinstance(before, Select) and isinstance(after, Select)):
        return False
    if before.model.table == after.model.table:
        return True
    return _options(before.model) == _options(after.model) and not find_differences(
        before.query.sql, after.query.sql
    )


def _options(model: Model) -> object:
    return resolved(replace(model.config, table="", tags=(), meta={}))
