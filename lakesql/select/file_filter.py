"""Which conditions Iceberg cannot turn into a filter on files, as far as this is
certain without Spark: the `where` of rewrites.

Iceberg compares a column with values: by `=`, `<` and the like, IN, IS NULL, LIKE with
a prefix, and AND, OR and NOT of these. The column is unchanged, or in one of Iceberg's
transforms. Spark simplifies a condition first, so everything that it may simplify to
one of these is accepted: casts, CASE, coalesce, functions of times.
"""

from __future__ import annotations

from sqlglot import exp

from lakesql.select.query import parse_query
from lakesql.select.sqltext import findings_by_offset, read_text

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ)

_ARITHMETIC = (
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.IntDiv,
    exp.Mod,
    exp.Neg,
    exp.Abs,
    exp.Round,
)

_OF_TEXTS = (
    *(
        exp.Upper,
        exp.Lower,
        exp.Initcap,
        exp.Length,
        exp.Trim,
        exp.Reverse,
        exp.Replace,
        exp.RegexpReplace,
    ),
    *(
        exp.Concat,
        exp.ConcatWs,
        exp.DPipe,
        exp.Substring,
        exp.Left,
        exp.Right,
        exp.MD5,
        exp.SHA,
        exp.SHA2,
    ),
)


def find_no_filter(condition: str) -> str:
    """The first part of a condition that Iceberg cannot use as a filter on files, ''
    where none is known.

    `condition` is one that `read_expression` accepts.
    """
    prefix = "SELECT "
    findings = findings_by_offset()
    tree = parse_query(
        read_text(prefix + condition, findings), prefix + condition, findings
    )
    found = _find(tree.expressions[0])
    return "" if found is None else found.sql(dialect="spark")


def _find(condition: exp.Expr) -> exp.Expr | None:
    match condition:
        case exp.And() | exp.Or():
            return _find(condition.left) or _find(condition.right)
        case exp.Not() | exp.Paren():
            return _find(condition.this)
        case exp.RegexpLike() | exp.ILike():
            return condition
        case exp.Like():
            return _find_operand(condition.this) or (
                None if _is_beginning(condition.expression) else condition
            )
        case exp.In():
            is_of_columns = any(
                isinstance(value, exp.Column) for value in condition.expressions
            )
            return condition if is_of_columns else _find_operand(condition.this)
        case exp.Between() | exp.Is():
            return _find_operand(condition.this)
        case _ if isinstance(condition, _COMPARISONS):
            return _find_in_comparison(condition)
        case _:
            return None


def _find_in_comparison(condition: exp.Expr) -> exp.Expr | None:
    left, right = condition.this.unnest(), condition.expression.unnest()
    if isinstance(left, exp.Column) and isinstance(right, exp.Column) and left != right:
        return condition
    return _find_operand(left) or _find_operand(right)


def _find_operand(operand: exp.Expr) -> exp.Expr | None:
    plain = operand.unnest()
    if (
        not isinstance(plain, (*_ARITHMETIC, *_OF_TEXTS))
        or plain.find(exp.Column) is None
    ):
        return None
    return plain


def _is_beginning(pattern: exp.Expr) -> bool:
    """Whether a LIKE pattern may be a prefix or a whole text."""
    if not isinstance(pattern, exp.Literal) or "\\" in pattern.name:
        return True
    return not any(sign in pattern.name.rstrip("%") for sign in "%_")
