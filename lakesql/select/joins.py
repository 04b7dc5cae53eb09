"""Whether Spark drops rows of a join of streams only when no partner can come any more.

Spark finds the bound of a side's state in the join's condition, from whatever column of
that side the condition compares with the other side's watermark column, and drops rows
by the side's own watermark column. Where these are two columns, rows are dropped whose
partners are still to come, and nothing says so (Spark's StreamingJoinHelper and
StreamingSymmetricHashJoinHelper).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from lakesql.select.columns import TIME_FUNCTIONS
from lakesql.select.derive import WINDOW
from lakesql.select.relation import QueryColumn, Relation, Sources, Walk, offset_of
from lakesql.stream.types import WHOLE_TYPES, parse_type

_SOLVED_CASTS = frozenset({*WHOLE_TYPES, "float", "double", "decimal", "timestamp"})
"""Types whose casts Spark ignores when it solves a comparison for a bound."""

_FLIPPED = {exp.LT: exp.GTE, exp.LTE: exp.GT, exp.GT: exp.LTE, exp.GTE: exp.LT}


@dataclass(frozen=True, slots=True)
class _SideColumn:
    """A column of one side of a join: `side` is 0 for the left and 1 for the right
    side, `of` is the relation's name."""

    side: int
    of: str
    name: str
    written: exp.Column | exp.Identifier

    @property
    def text(self) -> str:
        """The column as it is written in the condition."""
        return f"{self.of}.{self.name}" if self.of else self.name

    def is_column(self, other: _SideColumn) -> bool:
        """Whether both are the same column; names are case-insensitive."""
        return (self.side, self.of.lower(), self.name.lower()) == (
            other.side,
            other.of.lower(),
            other.name.lower(),
        )


@dataclass(frozen=True, slots=True)
class _TimeBound:
    """A condition by which Spark drops rows of the side of `column`, once the watermark
    of `time` has passed it."""

    column: _SideColumn
    time: _SideColumn


class _UnsolvedError(Exception):
    """Spark derives no bound from this comparison."""


def check_bounds(
    join: exp.Join, left: Sources, right: Sources, where: exp.Expr | None, walk: Walk
) -> None:
    """Adds a finding for a join of streams if the rows of one side are bounded by
    another column than its watermark column.

    `where` is the WHERE of the SELECT, which Spark uses as a join condition too.
    """
    sides = (left, right)
    if not all(any(source.streams for _, source in side) for side in sides):
        return
    times = [_watermark(number, side) for number, side in enumerate(sides)]
    conditions = [*_conjuncts(join.args.get("on"))]
    filters = [*_conjuncts(where)]
    is_inner = not join.side and join.kind.upper() in ("", "INNER", "CROSS")
    joining = [*conditions, *(filters if is_inner else ())]
    pairs = _equal_columns(join, joining, sides)
    timed = [pair for pair in pairs if any(_is_by(column, times) for column in pair)]
    if timed:
        _check_equal_times(join, timed, times, sides, walk)
        return
    walk.unbounded.update(dict.fromkeys(_unbounded(joining, sides)))
    bounds = [bound for condition in conditions for bound in _bounds(condition, sides)]
    filtering = [bound for condition in filters for bound in _bounds(condition, sides)]
    safe = {
        bound.column.side
        for bound in (*bounds, *(filtering if is_inner else ()))
        if _is_by(bound.column, times)
    }
    for bound in (*bounds, *filtering):
        own, other = times[bound.column.side], times[bound.time.side]
        if own is None or other is None or bound.column.side in safe:
            continue
        walk.findings.add(
            "join-range",
            offset_of(bound.column.written),
            f"The condition bounds '{own.of}' by {bound.column.text}, and its watermark column is {own.text}.",
            f"Spark would forget rows of '{own.of}' by {own.name} while others that meet them are still to come: "
            "their pairs would be lost.",
            f"Add the longest time that the two may lie apart: `AND {bound.time.text} <= {own.text} + INTERVAL 1 DAY`.",
        )


def _unbounded(
    conditions: list[exp.Expr], sides: tuple[Sources, Sources]
) -> Iterator[str]:
    """The streams of a join without a key of event time whose rows Spark keeps for
    ever, because no condition bounds them."""
    bounded = {
        bound.column.side
        for condition in conditions
        for bound in _bounds(condition, sides)
    }
    for number, side in enumerate(sides):
        if number not in bounded:
            yield from (name for _, source in side for name in source.streams)


def check_times(join: exp.Join, sources: Sources, walk: Walk) -> None:
    """Adds a finding for an outer join of streams whose condition uses no event time:
    Spark would never know that a row has no partner."""
    if any(source.columns is None for _, source in sources if source.streams):
        return
    times = {
        column.folded
        for _, source in sources
        for column in source.columns or ()
        if column.event_time
    }
    named = {identifier.name.lower() for identifier in join.args.get("using") or ()}
    if (on := join.args.get("on")) is not None:
        named |= {column.name.lower() for column in on.find_all(exp.Column)}
    if not named & times and not join.method:
        walk.findings.add(
            "outer-join",
            offset_of(join.this),
            f"This {' '.join(filter(None, (join.side.upper(), join.kind.upper(), 'JOIN')))} of streams has no range "
            "of event time.",
            "Without one a row would wait for ever for the other side, and never be known to have none.",
            "Give both streams a watermark, and say in ON how far apart they may be: `… AND b.at BETWEEN a.at AND "
            "a.at + INTERVAL 1 HOUR`.",
        )


def refuse_windows(join: exp.Join, walk: Walk) -> None:
    """Adds a finding for a window function in a join's condition, as Spark makes
    windows of the rows of one relation only."""
    on = join.args.get("on")
    for call in on.find_all(exp.Anonymous) if on is not None else ():
        if call.name.lower() not in TIME_FUNCTIONS:
            continue
        walk.findings.add(
            "window-in-join",
            offset_of(call, offset_of(join.this)),
            f"A join's condition calls {call.name.lower()}().",
            "Spark makes windows of the rows of one relation, and no others.",
            "Compare the time with the other side's window: `ON … AND b.at >= m.w.start AND b.at < m.w.end`.",
        )


def refuse_nested(join: exp.Join, left: Sources, right: Sources, walk: Walk) -> None:
    """Adds a finding for a join of streams if one side aggregates the rows of an
    aggregate.

    Its rows come batches after those of the other side, which Spark has dropped by
    then.
    """
    flowing = [
        [source for _, source in side if source.streams] for side in (left, right)
    ]
    if all(flowing) and any(source.nested for side in flowing for source in side):
        walk.findings.add(
            "nested-aggregate",
            offset_of(join.this),
            "One side of this join of streams aggregates the rows of an aggregate.",
            "Its rows come when the watermark has passed those that they are to meet: they would be dropped as late.",
            "Collect what is compared in the outer aggregate, without a join: SELECT w, explode(filter(items, i -> "
            "i.n = most)) AS item FROM (SELECT w, max(n) AS most, collect_list(struct(k, n)) AS items FROM (…) GROUP "
            "BY w).",
        )


def _check_equal_times(
    join: exp.Join,
    timed: list[tuple[_SideColumn, _SideColumn]],
    times: list[_SideColumn | None],
    sides: tuple[Sources, Sources],
    walk: Walk,
) -> None:
    """Adds a finding for a join key that is the watermark column of one side only,
    unless another key is that of both sides.

    `timed` are the keys with a watermark column; Spark bounds both sides by these
    alone.
    """
    if any(all(_is_by(column, times) for column in pair) for pair in timed):
        return
    for one, other in timed:
        time, plain = (one, other) if _is_by(one, times) else (other, one)
        own = times[plain.side]
        fix = f"Put the watermark of '{plain.of}' on {plain.name}, or compare them by a range, and join by other keys."
        if own is not None and _is_window(time, sides):
            fix = f"Compare its time with the window: `{own.text} >= {time.text}.start AND {own.text} < {time.text}.end`."
        walk.findings.add(
            "join-range",
            offset_of(plain.written, offset_of(join.this)),
            f"{time.text} is a watermark column, and {plain.text}, which it is to be equal to, is none.",
            f"Spark would forget rows of both sides by this time alone: a later row whose {plain.name} lies before the "
            "watermark would meet none of them.",
            fix,
        )


def _equal_columns(
    join: exp.Join, conditions: list[exp.Expr], sides: tuple[Sources, Sources]
) -> list[tuple[_SideColumn, _SideColumn]]:
    """The columns of the two sides that must be equal, by USING or by a condition."""
    pairs = [*_pairs_by_name(join, sides)]
    for condition in conditions:
        if isinstance(condition, exp.EQ):
            left, right = _plain(condition.left, sides), _plain(condition.right, sides)
            if left is not None and right is not None and left.side != right.side:
                pairs.append((left, right))
    return pairs


def _pairs_by_name(
    join: exp.Join, sides: tuple[Sources, Sources]
) -> Iterator[tuple[_SideColumn, _SideColumn]]:
    """The columns of the two sides that USING makes equal."""
    for shared in join.args.get("using") or ():
        found = [_find(side, "", shared.name, shared, sides) for side in (0, 1)]
        if found[0] is not None and found[1] is not None:
            yield found[0], found[1]


def _watermark(side: int, sources: Sources) -> _SideColumn | None:
    """The column by which Spark drops rows of a side: its first column that carries a
    watermark. None if it has none."""
    for of, source in sources:
        for column in source.named or ():
            if column.event_time and column.name is not None:
                return _SideColumn(side, of, column.name, exp.column(column.name))
    return None


def _is_by(column: _SideColumn, times: list[_SideColumn | None]) -> bool:
    """Whether this is the watermark column of its side."""
    own = times[column.side]
    return own is not None and own.is_column(column)


def _conjuncts(condition: exp.Expr | None, negated: bool = False) -> Iterator[exp.Expr]:
    """The comparisons that all have to hold for a condition. A NOT is pushed into them,
    as by Spark's optimizer."""
    match condition:
        case None:
            return
        case exp.Where() | exp.Paren():
            yield from _conjuncts(condition.this, negated)
        case exp.Not():
            yield from _conjuncts(condition.this, not negated)
        case exp.And() if not negated:
            yield from _conjuncts(condition.left)
            yield from _conjuncts(condition.right)
        case exp.Or() if negated:
            yield from _conjuncts(condition.left, negated)
            yield from _conjuncts(condition.right, negated)
        case exp.Between() if not negated:
            yield exp.GTE(this=condition.this, expression=condition.args["low"])
            yield exp.LTE(this=condition.this, expression=condition.args["high"])
        case exp.LT() | exp.LTE() | exp.GT() | exp.GTE() if negated:
            yield _FLIPPED[type(condition)](
                this=condition.left, expression=condition.right
            )
        case _ if not negated:
            yield condition


def _bounds(
    condition: exp.Expr, sides: tuple[Sources, Sources]
) -> Iterator[_TimeBound]:
    """The bounds that Spark derives from a comparison: `time + … < column + …` bounds
    the side of `column`."""
    match condition:
        case exp.LT() | exp.LTE():
            lesser, greater = condition.left, condition.right
        case exp.GT() | exp.GTE():
            lesser, greater = condition.right, condition.left
        case _:
            return
    try:
        terms = [*_terms(lesser, False, sides), *_terms(greater, True, sides)]
    except _UnsolvedError:
        return
    if sorted(column.side for column, _ in terms) != [0, 1]:
        return
    for (column, is_greater), (time, _) in (terms, terms[::-1]):
        if is_greater and _carries_watermark(time, sides):
            yield _TimeBound(column, time)


def _terms(
    expression: exp.Expr, negated: bool, sides: tuple[Sources, Sources]
) -> Iterator[tuple[_SideColumn, bool]]:
    """The columns of a sum of columns, each with whether it is subtracted. Raises
    `_UnsolvedError` for an expression that Spark does not solve for a column."""
    match expression:
        case exp.Paren():
            yield from _terms(expression.this, negated, sides)
        case exp.Add():
            yield from _terms(expression.left, negated, sides)
            yield from _terms(expression.right, negated, sides)
        case exp.Sub():
            yield from _terms(expression.left, negated, sides)
            yield from _terms(expression.right, not negated, sides)
        case exp.Neg():
            yield from _terms(expression.this, not negated, sides)
        case exp.Cast() if _is_solved(expression):
            yield from _terms(expression.this, negated, sides)
        case exp.Column():
            named = _plain(expression, sides)
            if named is None:
                raise _UnsolvedError
            yield named, negated
        case exp.Interval():
            words = expression.sql("spark").lower()
            if any(unit in words for unit in ("month", "year", "quarter")):
                raise _UnsolvedError
        case _ if expression.find(exp.Column) is not None:
            raise _UnsolvedError


def _is_solved(cast: exp.Cast) -> bool:
    kind = parse_type(cast.to.sql("spark"))
    return kind is not None and kind.name in _SOLVED_CASTS


def _plain(expression: exp.Expr, sides: tuple[Sources, Sources]) -> _SideColumn | None:
    """The column that an expression names; None for anything else, for a field of a
    struct, and where the column is not clear."""
    if isinstance(expression, exp.Paren):
        return _plain(expression.this, sides)
    if not isinstance(expression, exp.Column) or len(expression.parts) > 2:
        return None
    found = [
        _find(side, expression.table, expression.name, expression, sides)
        for side in (0, 1)
    ]
    known = [named for named in found if named is not None]
    return known[0] if len(known) == 1 else None


def _find(
    side: int,
    qualifier: str,
    name: str,
    written: exp.Column | exp.Identifier,
    sides: tuple[Sources, Sources],
) -> _SideColumn | None:
    for of, source in sides[side]:
        if qualifier and qualifier.lower() != of.lower():
            continue
        column = _column_of(source, name)
        is_of_table = qualifier and source.named is None and not source.streams
        if column is not None or is_of_table:
            return _SideColumn(side, of, name, written)
    return None


def _is_window(named: _SideColumn, sides: tuple[Sources, Sources]) -> bool:
    """Whether a column is a window of time (a struct of start and end)."""
    found = (
        _column_of(source, named.name)
        for of, source in sides[named.side]
        if of == named.of
    )
    return any(column is not None and column.shape == WINDOW for column in found)


def _carries_watermark(named: _SideColumn, sides: tuple[Sources, Sources]) -> bool:
    for of, source in sides[named.side]:
        column = _column_of(source, named.name)
        if of == named.of and column is not None:
            return column.event_time
    return False


def _column_of(source: Relation, name: str) -> QueryColumn | None:
    return next(
        (column for column in source.named or () if column.folded == name.lower()), None
    )
