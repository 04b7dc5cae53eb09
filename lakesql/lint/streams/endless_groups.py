"""LK008: an aggregate over a stream with groups that are kept forever and grow in
number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.select.groups import ordinal
from lakesql.select.selects_read import SelectRead


class EndlessGroups:
    """Finds aggregates over a stream whose groups are as many as there are days, times
    or keys, and are never dropped."""

    code: ClassVar[str] = "LK008"
    name: ClassVar[str] = "endless-groups"
    finds: ClassVar[str] = (
        "An aggregate over a stream keeps groups for ever, and new ones come without an end."
    )
    why: ClassVar[str] = (
        "Spark drops a group when the watermark has passed its event time. A key that is made of the time without "
        "`window`, or is the key of the stream, opens groups for ever, and none of them is dropped: the state grows "
        "with the stream."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/clicks_per_day.sql": """{{ config(mode='upsert', keys='day') }}
SELECT CAST(viewed_at AS date) AS day, count(*) AS clicks
FROM {{ stream('clicks') }}
GROUP BY CAST(viewed_at AS date)
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/clicks_per_day.sql": """{{ config(mode='upsert', keys='day') }}
SELECT CAST(window.start AS date) AS day, count(*) AS clicks
FROM {{ stream('clicks') }}
GROUP BY window(viewed_at, '1 day')
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each key of a GROUP BY that creates new groups without end."""
        query = model.select.query
        if not query.aggregated or query.grouped_by_event_time:
            return
        keys = {
            column.lower()
            for stream in model.select.streams.values()
            for column in stream.key
        }
        for read in model.selects:
            if not any(source.streams for _, source in read.sources):
                continue
            for key in _group_keys(read):
                if why := _why_endless(read, key, keys):
                    what = f"All groups are kept for ever, and there is one for each {why}."
                    fix = "Group by a window of the event time too: `window(at, '1 day')` of a stream with a watermark."
                    yield model.found_at(key, what, fix)


def _group_keys(read: SelectRead) -> Iterator[exp.Expr]:
    """The expressions of a GROUP BY. A position or an alias is replaced by the
    expression of the SELECT that it stands for."""
    group = read.select.args.get("group")
    aliases = {
        item.alias.lower(): item.this
        for item in read.select.expressions
        if isinstance(item, exp.Alias)
    }
    for key in group.expressions if group is not None else ():
        if numbered := read.select.expressions[ordinal(key)]:
            yield numbered[0].unalias()
        elif isinstance(key, exp.Column) and not read.meaning(key).columns:
            yield aliases.get(key.name.lower(), key)
        else:
            yield key


def _why_endless(read: SelectRead, key: exp.Expr, keys: set[str]) -> str:
    kind = read.type_of(key)
    if kind is not None and kind.name in ("date", "timestamp", "timestamp_ntz"):
        return "day" if kind.name == "date" else "moment"
    if isinstance(
        key, exp.TimestampTrunc | exp.TsOrDsToDate | exp.Date | exp.DateTrunc
    ):
        return "stretch of time"
    column = read.column(key) if isinstance(key, exp.Column) else None
    if column is not None and (column.column or "").lower() in keys:
        return f"'{column.column}'"
    return ""


RULE = EndlessGroups()
