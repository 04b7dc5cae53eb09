"""LK041: a `freshness` limit that no run can meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.graph.manifest import Manifest
from lakesql.lint.finding import RuleMatch, word_span
from lakesql.model.config import Every
from lakesql.model.model import Model


class StaleLimit:
    """Finds a `freshness` limit of a model that is shorter than its trigger."""

    code: ClassVar[str] = "LK041"
    name: ClassVar[str] = "stale-limit"
    finds: ClassVar[str] = "A limit of `freshness` is shorter than the model's trigger."
    why: ClassVar[str] = (
        "Between two batches the table is as old as the trigger is long. A limit below that warns all the time, and an "
        "alarm that is always on is read by nobody."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/views.sql": """{{ config(mode='append', trigger='1 hour') }}
SELECT view_id, page, viewed_at
FROM {{ stream('clicks') }}
""",
        "models/views.yml": """models:
  - name: views
    freshness: {warn_after: 10 minutes}
""",
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/views.yml": """models:
  - name: views
    freshness: {warn_after: 2 hours}
""",
    }
    fix: ClassVar[str] = ""

    def find_all(self, manifest: Manifest) -> Iterator[RuleMatch]:
        """A match for each such model, at its entry in the properties."""
        for model in manifest.models.values():
            yield from _find(model, manifest)


def _find(model: Model, manifest: Manifest) -> Iterator[RuleMatch]:
    trigger, limits = model.trigger, model.properties.freshness
    if not isinstance(trigger, Every):
        return
    for word, limit in (
        ("warn_after", limits.warn_after),
        ("error_after", limits.error_after),
    ):
        if limit is not None and limit.length_ms < trigger.interval_ms:
            place = model.properties.place
            span = word_span(manifest.texts.get(place.path, ""), place)
            what = f"`{word}` of '{model.name}' is {limit.text}, and it has a batch every {trigger.text}."
            yield RuleMatch(
                span,
                what,
                "Let the limit be longer than the trigger, or the trigger shorter.",
            )
            return


RULE = StaleLimit()
