"""LK035: a maintenance task that is disabled for a table with many commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.model.config import Every
from lakesql.model.maintenance_tasks import own_tasks
from lakesql.project.procedures import HOUR_MS, ExpireSnapshots, RewriteDataFiles


class UnkeptTable:
    """Finds tables with a trigger below an hour that lakesql maintains, except for
    their snapshots or small files."""

    code: ClassVar[str] = "LK035"
    name: ClassVar[str] = "unkept-table"
    finds: ClassVar[str] = (
        "Snapshots or small files of a table are not cleaned up, and it has many commits."
    )
    why: ClassVar[str] = (
        "A batch each minute leaves 1,440 snapshots and as many small files a day. Without `expire_snapshots` no file "
        "that was ever written is deleted; without `rewrite_data_files` each query opens all small ones. Where "
        "somebody else maintains the table, say `maintenance=false`: then this is not said."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/views.sql": """{{ config(mode='append', trigger='1 minute', maintenance={'expire_snapshots': false}) }}
SELECT view_id, page, viewed_at
FROM {{ stream('clicks') }}
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/views.sql": """{{ config(
    mode='append',
    trigger='1 minute',
    maintenance={'expire_snapshots': {'older_than': '7 days'}},
) }}
SELECT view_id, page, viewed_at
FROM {{ stream('clicks') }}
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match at the option `maintenance` for each task that is disabled."""
        trigger, tasks = model.model.trigger, own_tasks(model.model)
        if (
            not tasks
            or not isinstance(trigger, Every)
            or trigger.interval_ms >= HOUR_MS
        ):
            return
        done = {type(task.options) for task in tasks}
        for kind, procedure, left in (
            (
                ExpireSnapshots,
                "expire_snapshots",
                "No snapshot expires, so that no file is ever deleted",
            ),
            (
                RewriteDataFiles,
                "rewrite_data_files",
                "Small files are never brought together",
            ),
        ):
            if kind not in done:
                commits = int(24 * HOUR_MS / trigger.interval_ms)
                what = f"{left}, and there are {commits:,} commits a day."
                fix = f"Leave out `'{procedure}': false`; or `maintenance=false`, where somebody else does all of it."
                yield model.found_for("maintenance", what, fix)


RULE = UnkeptTable()
