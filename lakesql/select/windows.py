"""How far apart windows of time begin, and what an expression rounds a time to: two
windows must not become one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sqlglot import exp

_SECOND = 1_000_000
_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": _SECOND,
    "minute": 60 * _SECOND,
    "hour": 3600 * _SECOND,
    "day": 86400 * _SECOND,
    "week": 7 * 86400 * _SECOND,
}
"""Microseconds of the units of an interval that always have the same length."""

_CASTS = {
    exp.DType.DATE: _UNITS["day"],
    exp.DType.BIGINT: _SECOND,
    exp.DType.INT: _SECOND,
    exp.DType.TIMESTAMP: 1,
    exp.DType.TIMESTAMPTZ: 1,
    exp.DType.TIMESTAMPLTZ: 1,
    exp.DType.TIMESTAMPNTZ: 1,
    exp.DType.TEXT: 1,
}
_PARTS = re.compile(r"(\d+)\s*([a-z]+?)s?(?=\s|\d|$)")


def window_steps(named: Iterable[tuple[str, exp.Expr]]) -> Mapping[str, int]:
    """The microseconds from one window to the next, by the name of the window's column
    in lower case.

    A name that is used for windows with different steps is left out.
    """
    found: dict[str, set[int]] = {}
    for name, expression in named:
        inner = expression.unalias()
        if isinstance(inner, exp.Anonymous) and inner.name.lower() == "window":
            found.setdefault(name.lower(), set()).add(_step(inner))
    return {
        name: min(steps)
        for name, steps in found.items()
        if len(steps) == 1 and min(steps) > 0
    }


def rounded_to(expression: exp.Expr) -> tuple[exp.Expr, int] | None:
    """The time that an expression rounds, and the microseconds that it is rounded to;
    None for other expressions."""
    match expression:
        case exp.Cast():
            size = _CASTS.get(expression.to.this)
            return (expression.this, size) if size is not None else None
        case exp.TsOrDsToDate() | exp.Date() if (
            not expression.args.get("format") and expression.this is not None
        ):
            return expression.this, _UNITS["day"]
        case exp.TimestampTrunc():
            size = _UNITS.get(str(expression.args["unit"].name).lower())
            return (expression.this, size) if size is not None else None
        case _:
            return None


def window_length(call: exp.Anonymous) -> int:
    """The microseconds of a call of window(…), or of the gap of session_window(…); 0
    where they are not known."""
    return _microseconds(call.expressions[1]) if len(call.expressions) > 1 else 0


def _step(call: exp.Anonymous) -> int:
    """The microseconds of the slide of window(…), or of its length if it has no slide;
    0 where they are not known."""
    durations = call.expressions[1:3]
    return _microseconds(durations[-1]) if durations else 0


def _microseconds(duration: exp.Expr) -> int:
    text = duration.name if isinstance(duration, exp.Literal) else duration.sql("spark")
    words = text.lower().replace("interval", " ").replace("'", " ").strip()
    parts = _PARTS.findall(words)
    if (
        not parts
        or _PARTS.sub("", words).strip()
        or any(unit not in _UNITS for _, unit in parts)
    ):
        return 0
    return sum(int(number) * _UNITS[unit] for number, unit in parts)
