"""LK034: a trigger that is shorter than the time of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.compile.growth import BATCH_MS
from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.model.config import Every
from lakesql.project.duration import interval_text


class ShortTrigger:
    """Finds triggers that are shorter than the time that a batch and its commit are
    assumed to take."""

    code: ClassVar[str] = "LK034"
    name: ClassVar[str] = "short-trigger"
    finds: ClassVar[str] = "The trigger is shorter than a batch and its commit take."
    why: ClassVar[str] = (
        "A batch begins when the one before it has been committed, which takes a second or two with a catalog and an "
        "object store: a shorter trigger makes nothing fresher. But each commit leaves a snapshot, a metadata file and "
        "small files behind, 43,200 a day at two seconds."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/views.sql": """{{ config(mode='append', trigger='500 milliseconds') }}
SELECT view_id, page, viewed_at
FROM {{ stream('clicks') }}
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/views.sql": """{{ config(mode='append', trigger='10 seconds') }}
SELECT view_id, page, viewed_at
FROM {{ stream('clicks') }}
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match at the model's option, or at `config(...)` if the trigger is the
        target's."""
        trigger = model.model.trigger
        if isinstance(trigger, Every) and trigger.interval_ms < BATCH_MS:
            usual = interval_text(int(BATCH_MS))
            what = f"A batch every {trigger.text} is more often than one is committed, which takes some {usual}."
            yield model.found_for(
                "trigger",
                what,
                "Take some seconds; `lakesql forecast` shows what they cost.",
            )


RULE = ShortTrigger()
