"""LK061: floating-point numbers compared for equality."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.select.selects_read import SelectRead


class FloatEquality:
    """Finds `=` and `<>` between values of which one is a float or double."""

    code: ClassVar[str] = "LK061"
    name: ClassVar[str] = "float-equality"
    finds: ClassVar[str] = (
        "Numbers of type float or double are compared by `=` or `<>`."
    )
    why: ClassVar[str] = (
        "`0.1 + 0.2 = 0.3` is false. Sums of doubles depend on the order of the rows, so that a comparison holds in "
        "one run and not in the next."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/light_carts.sql": """{{ config(mode='append') }}
SELECT cart_id, weight
FROM {{ stream('carts') }}
WHERE weight = 0.3
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/light_carts.sql": """{{ config(mode='append') }}
SELECT cart_id, weight
FROM {{ stream('carts') }}
WHERE abs(weight - 0.3) < 0.0005
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each such comparison. One with a literal whole number, such as 0,
        is left out, as it is exact."""
        for read in model.selects:
            for comparison in read.parts(exp.EQ, exp.NEQ, exp.NullSafeEQ):
                sides = comparison.this, comparison.args["expression"]
                floats = [side for side in sides if _is_float(read, side)]
                if floats and not any(_is_whole(side) for side in sides):
                    what = f"{floats[0].sql('spark')} is a floating-point number, of which equal ones may differ."
                    yield model.found_at(
                        floats[0],
                        what,
                        "Compare by a tolerance, or cast both sides to a decimal.",
                    )


def _is_float(read: SelectRead, side: exp.Expr) -> bool:
    kind = read.type_of(side)
    return kind is not None and kind.name in ("float", "double")


def _is_whole(side: exp.Expr) -> bool:
    return isinstance(side, exp.Literal) and not side.is_string and side.name.isdigit()


RULE = FloatEquality()
