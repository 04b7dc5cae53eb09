"""Models that must be rebuilt because the table that they stream is to be rebuilt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from lakesql.compile.select import Select
from lakesql.graph.manifest import reads_model
from lakesql.review.verdicts import ModelReview, Reason, hardest_first
from lakesql.review.version import Version

_FILLED = frozenset({"streams-changed", "watermark-changed"})
"""Conditions with verdict `breaks` after which a stateful model's table is filled
again."""


def upstream_of(new: Version, names: Iterable[str]) -> set[str]:
    """The models whose tables those of `names` stream, directly or through others."""
    found: set[str] = set()
    waiting = [name for name in names if name in new.manifest.models]
    while waiting:
        for reference in new.manifest.models[waiting.pop()].facts.streams:
            read = reads_model(new.manifest, reference.name)
            if read is not None and read.name not in found:
                found.add(read.name)
                waiting.append(read.name)
    return found


def follow_rebuilds(
    new: Version, reviews: Mapping[str, ModelReview]
) -> dict[str, ModelReview]:
    """The reviews by name, with the reason `upstream-rebuilt` added to each model that
    streams a table which is to be rebuilt."""
    followed = {name: _without(review) for name, review in reviews.items()}
    rebuilt = {
        name
        for name, review in followed.items()
        if any(_is_filled(new, name, it) for it in review.reasons)
    }
    for id_ in new.manifest.graph.nodes:
        model = (
            new.manifest.models.get(id_.partition(".")[2])
            if id_.startswith("model.")
            else None
        )
        if model is None or model.name not in followed:
            continue
        for reference in model.facts.streams:
            read = reads_model(new.manifest, reference.name)
            if read is None or read.name not in rebuilt:
                continue
            what = f"It streams the table of '{read.name}', whose rows others replace when that is rebuilt."
            do = f"Rebuild it too: lakesql rebuild {read.name}+"
            reason = Reason("rebuild", "upstream-rebuilt", what, reference.place, do)
            review = followed[model.name]
            if review.verdict not in ("added", "refused"):
                followed[model.name] = replace(
                    review, reasons=hardest_first((*review.reasons, reason))
                )
                rebuilt.add(model.name)
    return followed


def _without(review: ModelReview) -> ModelReview:
    return replace(
        review,
        reasons=tuple(
            it for it in review.reasons if it.condition != "upstream-rebuilt"
        ),
    )


def _is_filled(new: Version, name: str, reason: Reason) -> bool:
    if reason.verdict != "breaks" or reason.condition not in _FILLED:
        return reason.verdict == "rebuild"
    select = new.select(name) if name in new.manifest.models else None
    return isinstance(select, Select) and select.query.stateful
