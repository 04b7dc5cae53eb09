"""What the values of `state:` in a selection match: which models, streams and seeds are
new, and what is modified in the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lakesql.errors import Place
from lakesql.graph.graph import node_id
from lakesql.review.causes import ModelVersions, find_change
from lakesql.review.option_changes import resolved
from lakesql.review.seed_changes import compare_columns, is_modified
from lakesql.review.table_changes import table_columns
from lakesql.review.verdicts import ModelReview, Review
from lakesql.review.version import Version
from lakesql.select.differences import find_differences


def find_states(
    old: Version | None, new: Version, review: Review
) -> Mapping[str, frozenset[str]]:
    """The values of `state:` that match each node, by its id, according to the review.

    A model or seed whose descriptions alone have changed is not modified: its table and
    its rows are the same.
    """
    found: dict[str, frozenset[str]] = {}
    for model in review.models:
        if model.name in new.manifest.models:
            found[node_id("model", model.name)] = frozenset(_of_model(old, new, model))
    for name, stream in new.manifest.streams.items():
        former = old.manifest.streams.get(name) if old is not None else None
        if former is None:
            found[node_id("stream", name)] = frozenset({"new"})
        elif replace(former, place=Place("")) != replace(stream, place=Place("")):
            found[node_id("stream", name)] = frozenset(
                {"modified", "modified.contract"}
            )
    for name, seed in new.manifest.seeds.items():
        before = old.manifest.seeds.get(name) if old is not None else None
        if before is None:
            found[node_id("seed", name)] = frozenset({"new"})
        elif is_modified(before, seed):
            part = "contract" if compare_columns(before, seed).names else "body"
            found[node_id("seed", name)] = frozenset({"modified", f"modified.{part}"})
    return found


def _of_model(old: Version | None, new: Version, model: ModelReview) -> Iterator[str]:
    if old is None or model.name not in old.manifest.models:
        yield "new"
        return
    reasons = [
        it
        for it in model.reasons
        if it.verdict != "none" and it.condition != "description-changed"
    ]
    if not reasons:
        return
    yield "modified"
    change = find_change(old, new, model.name)
    if change is None:  # one of the two cannot be compiled
        yield "modified.body"
        return
    has_other_select, is_edited = (
        _has_other_select(change),
        change.before.model.source != change.model.source,
    )
    macros = [version.manifest.macros.by_name for version in (old, new)]
    former = {name: macro.text for name, macro in macros[0].items()}
    if has_other_select and any(
        former.get(it) != macros[1][it].text for it in change.model.facts.macros
    ):
        yield "modified.macros"
    if has_other_select and is_edited:
        yield "modified.body"
    models = [
        replace(it.model, config=replace(it.model.config, trigger=None))
        for it in (change.before, change.after)
    ]
    configs = [resolved((model.config, model.trigger)) for model in models]
    if configs[0] != configs[1] or models[0].table != models[1].table:
        yield "modified.configs"
    columns = [
        {it.name.lower(): it.type for it in table_columns(side)}
        for side in (change.before, change.after)
    ]
    if columns[0] != columns[1] or any(
        it.condition == "contract-changed" for it in reasons
    ):
        yield "modified.contract"


def _has_other_select(change: ModelVersions) -> bool:
    names = [
        {it.name.lower() for it in side.query.outputs or ()}
        for side in (change.before, change.after)
    ]
    return names[0] != names[1] or bool(
        find_differences(change.before.query.sql, change.after.query.sql)
    )
