"""LK007: a watermark delay that is longer than the windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp

from lakesql.decode import node_of
from lakesql.errors import Place
from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.project.duration import parse_duration
from lakesql.select.columns import TIME_FUNCTIONS
from lakesql.select.windows import window_length


class LateWindows:
    """Finds windows whose rows are written once, if the stream's watermark delay is
    longer than the window."""

    code: ClassVar[str] = "LK007"
    name: ClassVar[str] = "late-windows"
    finds: ClassVar[str] = (
        "The watermark of a stream is longer than the windows that are made of it."
    )
    why: ClassVar[str] = (
        "In mode `append` a window is written when the watermark has passed its end. With a delay of two hours, the "
        "row of ten minutes is there two hours later, and as many windows are kept as state. That is right where late "
        "events are to count, whatever the wait; then say so by a noqa."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/clicks_per_minute.sql": """{{ config(mode='append') }}
SELECT window.start AS minute, count(*) AS clicks
FROM {{ stream('clicks') }}
GROUP BY window(viewed_at, '1 minute')
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/clicks_per_minute.sql": """{{ config(mode='append') }}
SELECT window.start AS hour, count(*) AS clicks
FROM {{ stream('clicks') }}
GROUP BY window(viewed_at, '1 hour')
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each such window."""
        if model.select.writing.output_mode != "append":
            return
        for read in model.selects:
            group = read.select.args.get("group")
            for call in group.find_all(exp.Anonymous) if group is not None else ():
                length_ms = (
                    window_length(call) / 1000
                    if call.name.lower() in TIME_FUNCTIONS
                    else 0
                )
                for name in sorted(
                    {name for _, source in read.sources for name in source.streams}
                ):
                    watermark = model.select.streams[name].watermark
                    if watermark is None or not length_ms:
                        continue
                    delay = parse_duration(node_of(watermark.delay, Place("")))
                    if delay.length_ms > length_ms:
                        what = f"A window is written {delay.text} after its end: the watermark of '{name}' is longer."
                        fix = "Make windows longer, or the watermark's delay shorter; mode upsert writes them earlier."
                        yield model.found_at(call, what, fix)


RULE = LateWindows()
