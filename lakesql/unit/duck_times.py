"""Translation rules for functions of dates and times that mean the same in Spark and in
DuckDB. The time zone of every session is UTC."""

from __future__ import annotations

import re

from sqlglot import exp

from lakesql.unit.duck_rules import rule
from lakesql.unit.duck_scope import DuckScope, Rule, Typed, describe, refuse_others
from lakesql.unit.duck_types import NeedsSparkError

TRUNCATED = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
"""Units of `date_trunc` that both engines know by these words."""

UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400}
"""Units of an INTERVAL with a fixed length, in seconds."""

_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_LENGTHS = {**UNITS, "WEEK": 7 * UNITS["DAY"]}
_TRUNCATED_DATES = {
    "year": "year",
    "yyyy": "year",
    "yy": "year",
    "quarter": "quarter",
    "month": "month",
    "mm": "month",
}
_TRUNCATED_DATES |= {"mon": "month", "week": "week"}
_PARTS = ("year", "quarter", "month", "week", "day", "hour", "minute", "doy")


def shift_time(value: Typed, word: str, interval: exp.Interval) -> Typed:
    """A timestamp plus or minus an interval of whole seconds, minutes, hours or days.
    Raises `NeedsSparkError` for other units, and for dates."""
    unit = interval.args.get("unit")
    name = unit.name.upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
    amount = interval.this.name if isinstance(interval.this, exp.Literal) else ""
    is_plain = name in UNITS and re.fullmatch(r"\d{1,6}", amount) is not None
    if value.type != "timestamp" or not is_plain:
        raise NeedsSparkError(f"{describe(interval)} of a {value.type}")
    return Typed(
        f"({value.text} {word} INTERVAL '{int(amount) * UNITS[name]} seconds')",
        value.type,
    )


def _now(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node)
    if scope.now is None:
        raise NeedsSparkError(
            "the current time, and the test has no overrides: {now: …}"
        )
    return Typed(f"TIMESTAMP '{scope.now.isoformat(sep=' ')}'", "timestamp")


def _today(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node)
    if scope.now is None:
        raise NeedsSparkError(
            "the current date, and the test has no overrides: {now: …}"
        )
    return Typed(f"DATE '{scope.now.date().isoformat()}'", "date")


def _time(node: exp.Expr, scope: DuckScope, *kinds: str) -> Typed:
    """A value of one of these types. The functions in which sqlglot wraps an argument
    that Spark would cast to a time are unwrapped."""
    value = scope.translate(
        node.this
        if isinstance(node, exp.TsOrDsToDate | exp.TsOrDsToTimestamp)
        else node
    )
    if value.type not in kinds:
        raise NeedsSparkError(
            f"a {value.type} where a {' or a '.join(kinds)} is wanted"
        )
    return value


def _part(name: str, *kinds: str) -> Rule:
    """The rule for a part of a date or a time as a number."""

    def make(node: exp.Expr, scope: DuckScope) -> Typed:
        refuse_others(node, "this")
        value = _time(node.this, scope, *(kinds or ("date", "timestamp")))
        return Typed(f"CAST({name}({value.text}) AS INTEGER)", "int")

    return make


def _day_of_week(node: exp.Expr, scope: DuckScope) -> Typed:
    """`dayofweek`: Sunday is 1 in Spark and 0 in DuckDB."""
    refuse_others(node, "this")
    value = _time(node.this, scope, "date", "timestamp")
    return Typed(f"CAST(dayofweek({value.text}) + 1 AS INTEGER)", "int")


def _extract(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "expression")
    value, name = (
        _time(node.args["expression"], scope, "date", "timestamp"),
        node.this.name.lower(),
    )
    if name not in _PARTS or (value.type == "date" and name in ("hour", "minute")):
        raise NeedsSparkError(describe(node))
    return Typed(f"CAST(date_part('{name}', {value.text}) AS INTEGER)", "int")


def _to_date(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "safe")
    return Typed(
        f"CAST({_time(node.this, scope, 'date', 'timestamp').text} AS DATE)", "date"
    )


def _truncate(node: exp.Expr, scope: DuckScope) -> Typed:
    """`date_trunc` of a timestamp by a literal unit."""
    refuse_others(node, "this", "unit")
    value, unit = scope.translate(node.this), node.args["unit"].name.lower()
    if value.type != "timestamp" or unit not in TRUNCATED:
        raise NeedsSparkError(f"{describe(node)} of a {value.type}")
    return Typed(f"CAST(date_trunc('{unit}', {value.text}) AS TIMESTAMP)", "timestamp")


def _truncate_date(node: exp.Expr, scope: DuckScope) -> Typed:
    """`trunc` of a date."""
    refuse_others(node, "this", "unit")
    unit = _TRUNCATED_DATES.get(node.args["unit"].name.lower())
    if unit is None or not isinstance(node.args["unit"], exp.Literal):
        raise NeedsSparkError(f"{describe(node)} by the unit {node.args['unit'].name}")
    return Typed(
        f"CAST(date_trunc('{unit}', {_time(node.this, scope, 'date').text}) AS DATE)",
        "date",
    )


def _add_days(node: exp.Expr, scope: DuckScope) -> Typed:
    """`date_add` and `date_sub` of days."""
    refuse_others(node, "this", "expression", "unit")
    value, days = (
        _time(node.this, scope, "date", "timestamp"),
        scope.translate(node.args["expression"]),
    )
    unit = node.args.get("unit")
    if days.type != "int" or (unit is not None and unit.name.upper() != "DAY"):
        raise NeedsSparkError(f"{describe(node)} of a {days.type}")
    return Typed(f"(CAST({value.text} AS DATE) + {days.text})", "date")


def _add_units(node: exp.Expr, scope: DuckScope) -> Typed:
    """`timestampadd` and `dateadd` with a unit."""
    refuse_others(node, "this", "expression", "unit")
    value, unit = (
        _time(node.this, scope, "date", "timestamp"),
        node.args["unit"].name.upper(),
    )
    amount = scope.translate(node.args["expression"])
    if amount.type != "int":
        raise NeedsSparkError(f"{describe(node)} of a {amount.type}")
    # the result is a timestamp even for a date, whatever the unit
    start = f"CAST({value.text} AS TIMESTAMP)"
    if unit in _MONTHS:
        return Typed(
            f"({start} + to_months(CAST({amount.text} * {_MONTHS[unit]} AS INTEGER)))",
            "timestamp",
        )
    seconds = _LENGTHS.get(unit)
    if seconds is None:
        raise NeedsSparkError(f"{describe(node)} by {unit}")
    return Typed(
        f"({start} + to_seconds({amount.text} * CAST({seconds} AS BIGINT)))",
        "timestamp",
    )


def _add_months(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "expression", "preserve_end_of_month")
    value, months = (
        _time(node.this, scope, "date"),
        scope.translate(node.args["expression"]),
    )
    if months.type != "int":
        raise NeedsSparkError(f"{describe(node)} of a {months.type}")
    return Typed(f"CAST({value.text} + to_months({months.text}) AS DATE)", "date")


def _date_difference(node: exp.Expr, scope: DuckScope) -> Typed:
    """`datediff` of two dates in days; with a unit, the number of whole units between
    two times."""
    refuse_others(node, "this", "expression", "unit", "date_part_boundary")
    if node.args.get("unit") is not None:
        return _time_difference(node, scope)
    ends = [
        _time(node.args[name], scope, "date", "timestamp")
        for name in ("this", "expression")
    ]
    later, earlier = (f"CAST({end.text} AS DATE)" for end in ends)
    return Typed(f"CAST({later} - {earlier} AS INTEGER)", "int")


def _time_difference(node: exp.Expr, scope: DuckScope) -> Typed:
    """The number of whole units between two times. sqlglot's own translation would
    count the boundaries of units that lie between them."""
    refuse_others(node, "this", "expression", "unit", "date_part_boundary")
    ends = [
        _time(node.args[name], scope, "date", "timestamp")
        for name in ("this", "expression")
    ]
    later, earlier = (f"epoch_us(CAST({end.text} AS TIMESTAMP))" for end in ends)
    seconds = _LENGTHS.get(node.args["unit"].name.upper())
    if seconds is None:
        raise NeedsSparkError(f"{describe(node)} by the unit {node.args['unit'].name}")
    return Typed(
        f"CAST(({later} - {earlier}) // {seconds * 1_000_000} AS BIGINT)", "bigint"
    )


def _anonymous_now(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "expressions")
    return (
        _now(exp.CurrentTimestamp(), scope) if not node.expressions else _refuse(node)
    )


def _refuse(node: exp.Expr) -> Typed:
    raise NeedsSparkError(f"{describe(node)} with arguments")


NAMED: dict[str, Rule] = {"now": _anonymous_now}
"""Rules for functions that sqlglot has no class for, by name."""

RULES: dict[type[exp.Expr], Rule] = {
    exp.CurrentTimestamp: _now,
    exp.CurrentDate: _today,
    exp.Year: _part("year"),
    exp.Month: _part("month"),
    exp.Day: _part("day"),
    exp.DayOfMonth: _part("day"),
    exp.Quarter: _part("quarter"),
    exp.DayOfYear: _part("dayofyear"),
    exp.WeekOfYear: _part("week"),
    exp.DayOfWeek: _day_of_week,
    exp.Hour: _part("hour", "timestamp"),
    exp.Minute: _part("minute", "timestamp"),
    exp.Second: _part("second", "timestamp"),
    exp.Extract: _extract,
    exp.TsOrDsToDate: _to_date,
    exp.LastDay: rule("this", "date", "date", "last_day({0})"),
    exp.TimestampTrunc: _truncate,
    exp.DateTrunc: _truncate_date,
    exp.TsOrDsAdd: _add_days,
    exp.TimestampAdd: _add_units,
    exp.AddMonths: _add_months,
    exp.DateDiff: _date_difference,
    exp.TimestampDiff: _time_difference,
}
