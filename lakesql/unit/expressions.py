"""Expressions of Spark SQL as DuckDB's, where both are known to mean the same; all else needs Spark.

Each expression gets the type that Spark gives it under ANSI rules, and stands in DuckDB's text with the casts that make
its type the same there. What is not in `_translate` is refused, as is whatever argument an entry does not name. Where
only some values mean the same, the text raises on the others while it runs: that needs Spark too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType

from lakesql.stream.types import parse_type

MAX_DIGITS = 38
"""The most digits of a decimal, in both."""

GUARD = "lakesql needs Spark: "
"""What the message of a guard starts with that a value has run into."""


class NeedsSparkError(Exception):
    """A test cannot be answered without Spark; the text says why."""


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression in DuckDB's text, and its type in Spark's. `void` is the type of NULL."""

    text: str
    type: str


@dataclass(frozen=True, slots=True)
class Relation:
    """What a name in FROM stands for: the types of its columns, by their names as they are spelled."""

    alias: str
    columns: Mapping[str, str]

    def type_of(self, name: str) -> str | None:
        """The type of a column, whatever its capitals; None where there is none of this name."""
        return next((kind for known, kind in self.columns.items() if known.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression may read. `now` is the time of the test, if it has one."""

    relations: tuple[Relation, ...]
    now: datetime | None = None


def parse(text: str) -> exp.Expr:
    """A text in Spark's SQL as a tree. Raises `NeedsSparkError` where that could not say what Spark reads."""
    if "\\" in text:
        raise NeedsSparkError("a backslash, which may be an escape")
    tokens = Spark().tokenize(text)
    _refuse_short_units(tokens)
    tree = Spark().parser().parse(tokens, text)[0]
    assert tree is not None, "lakesql has read the text before"
    return tree


def _refuse_short_units(tokens: Sequence[Token]) -> None:
    """Refuse units of time that are not written out: for the parser `H` is an hour, and for Spark it is none."""
    for at, token in enumerate(tokens):
        match [(each.token_type, each.text) for each in tokens[at + 1 : at + 4]]:
            case [(TokenType.L_PAREN, _), *arguments] if token.text.lower() == "date_trunc":
                match arguments:
                    case [(TokenType.STRING, unit), (TokenType.COMMA, _)] if unit.lower() in _TRUNCATED:
                        pass
                    case _:
                        raise NeedsSparkError(f"date_trunc() by another unit than {', '.join(_TRUNCATED)}")
            case [(TokenType.STRING | TokenType.NUMBER, amount), *rest] if token.token_type is TokenType.INTERVAL:
                unit = amount.partition(" ")[2] if not amount.isdigit() else rest[0][1] if rest else ""
                if unit.upper().removesuffix("S") not in _UNITS:
                    raise NeedsSparkError(f"an INTERVAL in another unit than {', '.join(_UNITS)}")
            case _:
                pass


def translate(node: exp.Expr, scope: Scope) -> Typed:
    """The expression in DuckDB's SQL. Raises `NeedsSparkError`."""
    for kind, make in _ALLOWED.items():
        if type(node) is kind:
            return make(node, scope)
    raise NeedsSparkError(f"{describe(node)} is not among what is known to mean the same without Spark")


def describe(node: exp.Expr) -> str:
    """What a person calls an expression: its function, or its text."""
    if isinstance(node, exp.Anonymous):
        return f"{node.name.lower()}()"
    if isinstance(node, exp.Func) and not isinstance(node, exp.Cast | exp.Case | exp.If):
        return f"{node.sql_name().lower()}()"
    text = node.sql(dialect="spark")
    return text if len(text) <= 60 else f"{text[:60]}…"


def quote(name: str) -> str:
    """A name as DuckDB's identifier."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(value: str) -> str:
    """A text as DuckDB's literal."""
    return "'" + value.replace("'", "''") + "'"


def duck_type(kind: str) -> str:
    """DuckDB's type for a type of Spark's that tests know. Raises `NeedsSparkError` for any other."""
    parsed = parse_type(kind)
    if parsed is not None and parsed.name == "struct":
        return f"STRUCT({', '.join(f'{quote(it.name)} {duck_type(it.type.text)}' for it in parsed.fields)})"
    if _digits(kind):
        return kind.upper()
    if kind not in _TYPES:
        raise NeedsSparkError(f"type {kind or 'of a column, which only Spark knows'}")
    return _TYPES[kind]


_TYPES = {
    "int": "INTEGER",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "void": "INTEGER",
}
"""Times have no zone in DuckDB, and are those of UTC: the zone of every session of lakesql's."""


def decimal_digits(kind: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal; None of any other type."""
    return _digits(kind)


def _digits(kind: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return (int(found[1]), int(found[2])) if found else None


def _only(node: exp.Expr, *names: str) -> None:
    """Refuse an expression that says more than these arguments."""
    for name, value in node.args.items():
        if name not in names and value not in (None, False, [], ""):
            raise NeedsSparkError(f"{describe(node)} says '{name}'")


def _child(node: exp.Expr, name: str, scope: Scope) -> Typed:
    return translate(node.args[name], scope)


def cast_to(value: Typed, kind: str) -> Typed:
    """The value as a type that Spark widens its own to, without a loss."""
    if value.type == kind:
        return value
    if value.type == "void" or can_widen(value.type, kind):
        return Typed(f"CAST({value.text} AS {duck_type(kind)})", kind)
    raise NeedsSparkError(f"a {value.type} where a {kind} is wanted")


def can_widen(kind: str, wider: str) -> bool:
    """Whether each value of a type is one of the other, and both engines make the same of it."""
    digits, wanted = _digits(kind) or _INTEGERS.get(kind), _digits(wider)
    if digits and wanted:
        return wanted[1] >= digits[1] and wanted[0] - wanted[1] >= digits[0] - digits[1]
    return (kind, wider) in {("int", "bigint"), ("int", "double"), ("bigint", "double"), ("date", "timestamp")}


_INTEGERS = {"int": (10, 0), "bigint": (20, 0)}
"""The decimals that Spark makes of whole numbers."""


def _common(values: Sequence[Typed], node: exp.Expr) -> str:
    """The type that Spark makes of these, where all are of one already or become it without a loss."""
    kinds = dict.fromkeys(value.type for value in values if value.type != "void")
    if not kinds:
        return "void"
    widest = [kind for kind in kinds if all(other == kind or can_widen(other, kind) for other in kinds)]
    decimals = [found for kind in kinds if (found := _digits(kind))]
    if decimals and all(_digits(kind) or kind in _INTEGERS for kind in kinds):
        digits = [_digits(kind) or _INTEGERS[kind] for kind in kinds]
        scale = max(item[1] for item in digits)
        precision = max(item[0] - item[1] for item in digits) + scale
        if precision <= MAX_DIGITS:
            return f"decimal({precision},{scale})"
    if len(widest) == 1 and not decimals:
        return widest[0]
    raise NeedsSparkError(f"{describe(node)} mixes {' and '.join(sorted(kinds))}")


# --- literals and columns


def _literal(node: exp.Expr, scope: Scope) -> Typed:
    text = str(node.this)
    if node.args.get("is_string"):
        if set("\\'\"") & set(text) or not text.isprintable():
            raise NeedsSparkError("a text with an escape, a quote or a control character")
        return Typed(text_literal(text), "string")
    if re.fullmatch(r"\d{1,19}", text) and int(text) < 2**63 and int(text) != 2**31:
        kind = "int" if int(text) < 2**31 else "bigint"
        return Typed(f"CAST({int(text)} AS {_TYPES[kind]})", kind)
    if re.fullmatch(r"\d*\.\d*", text) and text != "." and len(text) <= MAX_DIGITS:
        whole, _, fraction = text.partition(".")
        precision = max(len((whole + fraction).lstrip("0")), len(fraction), 1)
        kind = f"decimal({precision},{len(fraction)})"
        return Typed(f"CAST('{whole or '0'}.{fraction or '0'}' AS {kind.upper()})", kind)
    raise NeedsSparkError(f"the number {text}")


def _null(node: exp.Expr, scope: Scope) -> Typed:
    return Typed("NULL", "void")


def _boolean(node: exp.Expr, scope: Scope) -> Typed:
    return Typed("true" if node.this else "false", "boolean")


def _column(node: exp.Expr, scope: Scope) -> Typed:
    assert isinstance(node, exp.Column)
    return _path([part.name for part in node.parts], scope)


def _dot(node: exp.Expr, scope: Scope) -> Typed:
    names: list[str] = []
    inner: exp.Expr = node
    while isinstance(inner, exp.Dot):
        if not isinstance(inner.expression, exp.Identifier):
            raise NeedsSparkError(describe(node))
        names.insert(0, inner.expression.name)
        inner = inner.this
    if not isinstance(inner, exp.Column):
        raise NeedsSparkError(describe(node))
    return _path([*(part.name for part in inner.parts), *names], scope)


def _path(names: list[str], scope: Scope) -> Typed:
    """A column by its name, or by that of its relation and its own; then fields of it."""
    head, *rest = names
    for relation in scope.relations:
        if rest and relation.alias.lower() == head.lower() and (kind := relation.type_of(rest[0])) is not None:
            return _field(Typed(f"{quote(relation.alias)}.{quote(rest[0])}", kind), rest[1:])
    found = [(it.alias, kind) for it in scope.relations if (kind := it.type_of(head)) is not None]
    if len(found) != 1:
        raise NeedsSparkError(f"the column {'.'.join(names)}, which is not one of what the test gives")
    ((alias, kind),) = found
    return _field(Typed(f"{quote(alias)}.{quote(head)}", kind), rest)


def _field(value: Typed, names: list[str]) -> Typed:
    for name in names:
        parsed = parse_type(value.type)
        field = next((it for it in parsed.fields if it.name.lower() == name.lower()), None) if parsed else None
        if parsed is None or parsed.name != "struct" or field is None:
            raise NeedsSparkError(f"the field {name} of a {value.type}")
        value = Typed(f"({value.text}).{quote(field.name)}", field.type.text)
    duck_type(value.type)
    return value


def _paren(node: exp.Expr, scope: Scope) -> Typed:
    inner = _child(node, "this", scope)
    return Typed(f"({inner.text})", inner.type)


# --- conditions


def _boolean_of(value: Typed, node: exp.Expr) -> str:
    if value.type not in ("boolean", "void"):
        raise NeedsSparkError(f"{describe(node)} is a {value.type} and no condition")
    return f"CAST({value.text} AS BOOLEAN)" if value.type == "void" else value.text


def _logic(word: str) -> Callable[[exp.Expr, Scope], Typed]:
    def make(node: exp.Expr, scope: Scope) -> Typed:
        _only(node, "this", "expression")
        left, right = (_boolean_of(_child(node, side, scope), node) for side in ("this", "expression"))
        return Typed(f"({left} {word} {right})", "boolean")

    return make


def _not(node: exp.Expr, scope: Scope) -> Typed:
    return Typed(f"(NOT {_boolean_of(_child(node, 'this', scope), node)})", "boolean")


def _comparison(word: str) -> Callable[[exp.Expr, Scope], Typed]:
    def make(node: exp.Expr, scope: Scope) -> Typed:
        _only(node, "this", "expression")
        if isinstance(node.this, _PREDICATES) or isinstance(node.expression, _PREDICATES + _COMPARISONS):
            raise NeedsSparkError(f"{describe(node)}, which Spark reads from left to right: brackets would say it")
        left, right = _child(node, "this", scope), _child(node, "expression", scope)
        return Typed(_compare(left, right, word, node), "boolean")

    return make


_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
"""To Spark all on one level; to the parser `=` and `<>` bind less than `<`."""

_PREDICATES = (exp.Between, exp.In, exp.Like, exp.Not)
"""To the parser they bind more than comparisons, to Spark less; NOT is that of NOT IN and NOT BETWEEN."""


def _compare(left: Typed, right: Typed, word: str, node: exp.Expr) -> str:
    left, right = _as_time(left, right), _as_time(right, left)
    kind = _common((left, right), node)
    if kind.startswith("struct"):
        raise NeedsSparkError(f"{describe(node)} compares structs")
    return f"({cast_to(left, kind).text} {word} {cast_to(right, kind).text})"


_DATE = re.compile(r"'(\d{4}-\d{2}-\d{2})'\Z")
_TIME = re.compile(r"'(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)Z?'\Z")


def _as_time(value: Typed, other: Typed) -> Typed:
    """A literal that is compared with a time, or a date, as one."""
    if value.type != "string" or other.type not in ("date", "timestamp"):
        return value
    found = _time_literal(value.text, other.type)
    if found is None:
        raise NeedsSparkError(f"a string where a {other.type} is wanted")
    return found


def _time_literal(text: str, kind: str) -> Typed | None:
    day, moment = _DATE.match(text), _TIME.match(text)
    try:
        if kind == "date" and day:
            return Typed(f"DATE '{date.fromisoformat(day[1]).isoformat()}'", kind)
        if kind == "timestamp" and (day or moment):
            words = f"{moment[1]} {moment[2]}" if moment else f"{day[1]} 00:00:00" if day else ""
            datetime.fromisoformat(words)
            return Typed(f"TIMESTAMP '{words}'", kind)
    except ValueError:
        return None
    return None


def _is(node: exp.Expr, scope: Scope) -> Typed:
    _only(node, "this", "expression")
    value, of = _child(node, "this", scope), node.expression
    match of:
        case exp.Null():
            return Typed(f"({value.text} IS NULL)", "boolean")
        case exp.Boolean():
            return Typed(f"({_boolean_of(value, node)} IS {'TRUE' if of.this else 'FALSE'})", "boolean")
        case _:
            raise NeedsSparkError(describe(node))


def _in(node: exp.Expr, scope: Scope) -> Typed:
    _only(node, "this", "expressions")
    value = _child(node, "this", scope)
    items = [translate(item, scope) for item in node.expressions]
    kinds = {item.type for item in (value, *items) if item.type != "void"}
    if len(kinds) > 1 and not kinds <= {"int", "bigint"}:
        raise NeedsSparkError(f"{describe(node)} mixes {' and '.join(sorted(kinds))}")
    kind = _common((value, *items), node)
    return Typed(f"({cast_to(value, kind).text} IN ({', '.join(cast_to(it, kind).text for it in items)}))", "boolean")


def _between(node: exp.Expr, scope: Scope) -> Typed:
    _only(node, "this", "low", "high")
    value, low, high = (_child(node, name, scope) for name in ("this", "low", "high"))
    return Typed(f"({_compare(value, low, '>=', node)} AND {_compare(value, high, '<=', node)})", "boolean")


def _like(node: exp.Expr, scope: Scope) -> Typed:
    _only(node, "this", "expression")
    value, pattern = _child(node, "this", scope), node.expression
    if value.type != "string" or not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise NeedsSparkError(f"{describe(node)}: LIKE with other than a string and a literal pattern")
    made = _literal(pattern, scope)
    return Typed(f"({_ascii(value, 'LIKE')} LIKE {made.text})", "boolean")


# --- choices


def _case(node: exp.Expr, scope: Scope) -> Typed:
    _only(node, "this", "ifs", "default")
    subject = _child(node, "this", scope) if node.args.get("this") else None
    tests, values = [], []
    for branch in node.args["ifs"]:
        test = translate(branch.this, scope)
        tests.append(_compare(subject, test, "=", node) if subject else _boolean_of(test, branch))
        values.append(translate(branch.args["true"], scope))
    default = _child(node, "default", scope) if node.args.get("default") else Typed("NULL", "void")
    return _choose(tests, [*values, default], node)


def _if(node: exp.Expr, scope: Scope) -> Typed:
    _only(node, "this", "true", "false")
    if not node.args.get("false"):
        raise NeedsSparkError(describe(node))
    test = _boolean_of(_child(node, "this", scope), node)
    return _choose([test], [_child(node, "true", scope), _child(node, "false", scope)], node)


def _choose(tests: list[str], values: list[Typed], node: exp.Expr) -> Typed:
    kind = _common(values, node)
    *made, default = (cast_to(value, kind).text for value in values)
    whens = " ".join(f"WHEN {test} THEN {value}" for test, value in zip(tests, made, strict=True))
    return Typed(f"(CASE {whens} ELSE {default} END)", kind)


def _coalesce(node: exp.Expr, scope: Scope) -> Typed:
    _only(node, "this", "expressions")
    values = [translate(item, scope) for item in (node.this, *node.expressions)]
    kind = _common(values, node)
    return Typed(f"coalesce({', '.join(cast_to(value, kind).text for value in values)})", kind)


def _nullif(node: exp.Expr, scope: Scope) -> Typed:
    _only(node, "this", "expression")
    value, other = _child(node, "this", scope), _child(node, "expression", scope)
    test = _compare(value, other, "=", node)
    return Typed(f"(CASE WHEN {test} THEN NULL ELSE {value.text} END)", value.type)


# --- numbers


def _arithmetic(word: str) -> Callable[[exp.Expr, Scope], Typed]:
    def make(node: exp.Expr, scope: Scope) -> Typed:
        _only(node, "this", "expression")
        left = _child(node, "this", scope)
        if isinstance(node.expression, exp.Interval):
            return _shifted(left, word, node.expression)
        right = _child(node, "expression", scope)
        digits = [_operand_digits(value, part) for value, part in ((left, node.this), (right, node.expression))]
        if any(_digits(value.type) for value in (left, right)):
            return _decimal(left, right, word, digits, node)
        kind = _common((left, right), node)
        if kind not in ("int", "bigint", "double"):
            raise NeedsSparkError(f"{describe(node)} computes with {left.type} and {right.type}")
        return Typed(f"CAST({cast_to(left, kind).text} {word} {cast_to(right, kind).text} AS {_TYPES[kind]})", kind)

    return make


def _operand_digits(value: Typed, node: exp.Expr) -> tuple[int, int] | None:
    """The decimal that Spark makes of an operand: of a literal one of its own digits."""
    if isinstance(node, exp.Literal) and value.type in _INTEGERS:
        return (len(str(int(node.name))), 0)
    return _digits(value.type) or _INTEGERS.get(value.type)


def _decimal(left: Typed, right: Typed, word: str, digits: Sequence[tuple[int, int] | None], node: exp.Expr) -> Typed:
    """The sum, difference or product of decimals, in the digits that Spark gives it."""
    first, second = digits
    if first is None or second is None:
        raise NeedsSparkError(f"{describe(node)} computes with {left.type} and {right.type}")
    if word == "*":
        precision, scale = first[0] + second[0] + 1, first[1] + second[1]
        operands = (first, second)
    else:
        scale = max(first[1], second[1])
        precision = max(first[0] - first[1], second[0] - second[1]) + scale + 1
        operands = ((precision, scale), (precision, scale))
    if precision > MAX_DIGITS:
        raise NeedsSparkError(f"{describe(node)} has more than {MAX_DIGITS} digits")
    texts = [
        f"CAST({value.text} AS DECIMAL({whole},{part}))"
        for value, (whole, part) in zip((left, right), operands, strict=True)
    ]
    kind = f"decimal({precision},{scale})"
    return Typed(f"CAST({texts[0]} {word} {texts[1]} AS {kind.upper()})", kind)


_UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400}


def _shifted(value: Typed, word: str, interval: exp.Interval) -> Typed:
    """A time plus or minus whole seconds, minutes, hours or days."""
    unit = interval.args.get("unit")
    name = unit.name.upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
    amount = interval.this.name if isinstance(interval.this, exp.Literal) else ""
    if value.type != "timestamp" or word not in "+-" or name not in _UNITS or not re.fullmatch(r"\d{1,6}", amount):
        raise NeedsSparkError(f"{describe(interval)} of a {value.type}")
    return Typed(f"({value.text} {word} INTERVAL '{int(amount) * _UNITS[name]} seconds')", value.type)


def _divide(node: exp.Expr, scope: Scope) -> Typed:
    _only(node, "this", "expression", "typed", "safe")
    left, right = _child(node, "this", scope), _child(node, "expression", scope)
    if {left.type, right.type} - {"int", "bigint", "double"} or not _is_not_zero(node.expression):
        raise NeedsSparkError(f"{describe(node)}: a division of other than whole numbers and doubles by a literal")
    return Typed(f"(CAST({left.text} AS DOUBLE) / CAST({right.text} AS DOUBLE))", "double")


def _modulo(node: exp.Expr, scope: Scope) -> Typed:
    _only(node, "this", "expression")
    left, right = _child(node, "this", scope), _child(node, "expression", scope)
    kind = _common((left, right), node)
    if kind not in _INTEGERS or not _is_not_zero(node.expression):
        raise NeedsSparkError(f"{describe(node)}: a remainder of other than whole numbers by a literal")
    return Typed(f"({cast_to(left, kind).text} % {cast_to(right, kind).text})", kind)


def _is_not_zero(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and float(node.name) != 0


def _negative(node: exp.Expr, scope: Scope) -> Typed:
    value = _child(node, "this", scope)
    if value.type not in (*_INTEGERS, "double") and not _digits(value.type):
        raise NeedsSparkError(describe(node))
    return Typed(f"(- {value.text})", value.type)


def _abs(node: exp.Expr, scope: Scope) -> Typed:
    value = _child(node, "this", scope)
    if value.type not in (*_INTEGERS, "double") and not _digits(value.type):
        raise NeedsSparkError(describe(node))
    return Typed(f"CAST(abs({value.text}) AS {duck_type(value.type)})", value.type)


# --- texts


def _ascii(value: Typed, what: str) -> str:
    """The text, which raises where it has other characters than ASCII's: of these the engines differ."""
    said = text_literal(f"{GUARD}{what} of a text beyond ASCII")
    return f"(CASE WHEN strlen({value.text}) <> length({value.text}) THEN error({said}) ELSE {value.text} END)"


def _text_function(form: str, *names: str) -> Callable[[exp.Expr, Scope], Typed]:
    """A function of texts alone, in DuckDB's form; the first argument must be ASCII."""
    arguments = names or ("this",)

    def make(node: exp.Expr, scope: Scope) -> Typed:
        _only(node, *arguments)
        values = [_child(node, name, scope) for name in arguments]
        if any(value.type != "string" for value in values):
            raise NeedsSparkError(f"{describe(node)} of {' and '.join(value.type for value in values)}")
        kind = "int" if form.startswith("CAST(length") else "boolean" if len(values) > 1 else "string"
        return Typed(form.format(_ascii(values[0], describe(node)), *(value.text for value in values[1:])), kind)

    return make


def _trim(side: str) -> str:
    return f"{side}trim({{0}}, ' ')"


def _trims(node: exp.Expr, scope: Scope) -> Typed:
    position = str(node.args.get("position") or "").upper()
    side = {"": "", "LEADING": "l", "TRAILING": "r"}.get(position)
    if side is None:
        raise NeedsSparkError(describe(node))
    return _text_function(_trim(side), "this")(exp.Trim(this=node.this, expression=node.args.get("expression")), scope)


def _substring(node: exp.Expr, scope: Scope) -> Typed:
    _only(node, "this", "start", "length")
    value, bounds = _child(node, "this", scope), [node.args.get("start"), node.args.get("length")]
    plain = [it.name for it in bounds if isinstance(it, exp.Literal) and re.fullmatch(r"\d{1,6}", it.name)]
    if value.type != "string" or len(plain) != len([it for it in bounds if it is not None]) or int(plain[0]) < 1:
        raise NeedsSparkError(f"{describe(node)} with other than a string and literals from 1 on")
    return Typed(f"substring({_ascii(value, describe(node))}, {', '.join(plain)})", "string")


def _replace(node: exp.Expr, scope: Scope) -> Typed:
    _only(node, "this", "expression", "replacement")
    values = [_child(node, name, scope) for name in ("this", "expression", "replacement") if node.args.get(name)]
    is_plain = isinstance(node.expression, exp.Literal) and node.expression.name != ""
    if len(values) != 3 or any(value.type != "string" for value in values) or not is_plain:
        raise NeedsSparkError(f"{describe(node)} with other than strings and a literal that is searched for")
    return Typed(f"replace({', '.join(value.text for value in values)})", "string")


def _concat(node: exp.Expr, scope: Scope) -> Typed:
    """Texts and whole numbers, one after another: NULL where one of them is."""
    if isinstance(node, exp.Concat):
        _only(node, "expressions", "safe")
        parts = [translate(item, scope) for item in node.expressions]
    else:
        _only(node, "this", "expression", "safe")
        if isinstance(node.expression, exp.Add | exp.Sub):  # to the parser + binds more than ||, to Spark as much
            raise NeedsSparkError(f"{describe(node)}, which Spark reads from left to right: brackets would say it")
        parts = [_child(node, "this", scope), _child(node, "expression", scope)]
    if any(part.type not in ("string", *_INTEGERS) for part in parts):
        raise NeedsSparkError(f"{describe(node)} of {', '.join(part.type for part in parts)}")
    return Typed(f"({' || '.join(f'CAST({part.text} AS VARCHAR)' for part in parts)})", "string")


# --- times


def _current_timestamp(node: exp.Expr, scope: Scope) -> Typed:
    _only(node)
    if scope.now is None:
        raise NeedsSparkError("the current time, and the test has no overrides: {now: …}")
    return Typed(f"TIMESTAMP '{scope.now.isoformat(sep=' ')}'", "timestamp")


def _part(name: str) -> Callable[[exp.Expr, Scope], Typed]:
    def make(node: exp.Expr, scope: Scope) -> Typed:
        _only(node, "this")
        inner = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
        value = translate(inner, scope)
        if value.type not in ("date", "timestamp"):
            raise NeedsSparkError(f"{describe(node)} of a {value.type}")
        return Typed(f"CAST({name}({value.text}) AS INTEGER)", "int")

    return make


def _to_date(node: exp.Expr, scope: Scope) -> Typed:
    _only(node, "this", "safe")
    value = _child(node, "this", scope)
    if value.type not in ("date", "timestamp"):
        raise NeedsSparkError(f"{describe(node)} of a {value.type}")
    return Typed(f"CAST({value.text} AS DATE)", "date")


_TRUNCATED = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
"""Units of `date_trunc` that both know by these words."""


def _truncated(node: exp.Expr, scope: Scope) -> Typed:
    _only(node, "this", "unit")
    value, unit = _child(node, "this", scope), node.args["unit"].name.lower()
    if value.type != "timestamp" or unit not in _TRUNCATED:
        raise NeedsSparkError(f"{describe(node)} of a {value.type}")
    return Typed(f"CAST(date_trunc('{unit}', {value.text}) AS TIMESTAMP)", "timestamp")


def _cast(node: exp.Expr, scope: Scope) -> Typed:
    _only(node, "this", "to")
    parsed = parse_type(node.args["to"].sql(dialect="spark"))
    if parsed is None:
        raise NeedsSparkError(describe(node))
    kind = "decimal(10,0)" if parsed.text == "decimal" else parsed.text
    value = _child(node, "this", scope)
    if isinstance(node.this, exp.Literal) and node.this.is_string:
        made = _time_literal(value.text, kind)
        if made is None and (digits := _digits(kind)) and re.fullmatch(r"'-?\d+(\.\d+)?'", value.text):
            whole, _, fraction = value.text.strip("'-").partition(".")
            if len(fraction) <= digits[1] and len(whole.lstrip("0")) <= digits[0] - digits[1]:
                made = Typed(f"CAST({value.text} AS {duck_type(kind)})", kind)
        if made is not None or kind != "string":
            return made or _no_cast(value, kind)
    if (value.type, kind) in _CASTS or value.type == "void" or value.type == kind or can_widen(value.type, kind):
        return Typed(f"CAST({value.text} AS {duck_type(kind)})", kind)
    return _no_cast(value, kind)


def _no_cast(value: Typed, kind: str) -> Typed:
    raise NeedsSparkError(f"a cast of {value.type} to {kind}")


_CASTS = {
    ("int", "string"),
    ("bigint", "string"),
    ("boolean", "string"),
    ("bigint", "int"),
    ("timestamp", "date"),
}
"""Casts, beside those that lose nothing, of which both make the same, or an error."""

_ALLOWED: dict[type[exp.Expr], Callable[[exp.Expr, Scope], Typed]] = {
    exp.Literal: _literal,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Paren: _paren,
    exp.And: _logic("AND"),
    exp.Or: _logic("OR"),
    exp.Not: _not,
    exp.EQ: _comparison("="),
    exp.NEQ: _comparison("<>"),
    exp.LT: _comparison("<"),
    exp.LTE: _comparison("<="),
    exp.GT: _comparison(">"),
    exp.GTE: _comparison(">="),
    exp.NullSafeEQ: _comparison("IS NOT DISTINCT FROM"),
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Add: _arithmetic("+"),
    exp.Sub: _arithmetic("-"),
    exp.Mul: _arithmetic("*"),
    exp.Div: _divide,
    exp.Mod: _modulo,
    exp.Neg: _negative,
    exp.Abs: _abs,
    exp.Lower: _text_function("lower({0})"),
    exp.Upper: _text_function("upper({0})"),
    exp.Trim: _trims,
    exp.Length: _text_function("CAST(length({0}) AS INTEGER)"),
    exp.StartsWith: _text_function("starts_with({0}, {1})", "this", "expression"),
    exp.EndsWith: _text_function("suffix({0}, {1})", "this", "expression"),
    exp.Contains: _text_function("contains({0}, {1})", "this", "expression"),
    exp.Substring: _substring,
    exp.Replace: _replace,
    exp.Concat: _concat,
    exp.DPipe: _concat,
    exp.CurrentTimestamp: _current_timestamp,
    exp.Year: _part("year"),
    exp.Month: _part("month"),
    exp.Day: _part("day"),
    exp.TsOrDsToDate: _to_date,
    exp.TimestampTrunc: _truncated,
    exp.Cast: _cast,
    exp.TryCast: _cast,
}
"""All that is translated, by sqlglot's class of it. Whatever Spark function shares one of these classes means the same
there."""
