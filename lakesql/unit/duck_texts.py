"""Translation rules for string functions that mean the same in Spark and in DuckDB."""

from __future__ import annotations

import re

from sqlglot import exp

from lakesql.unit.duck_rules import ascii_text, rule
from lakesql.unit.duck_scope import DuckScope, Rule, Typed, describe, refuse_others
from lakesql.unit.duck_types import WHOLE_DIGITS, NeedsSparkError, guarded


def _trim(node: exp.Expr, scope: DuckScope) -> Typed:
    """`trim`, `ltrim` and `rtrim` of spaces, or of characters that are given as a
    literal."""
    refuse_others(node, "this", "position", "expression")
    position = str(node.args.get("position") or "").upper()
    side = {"": "", "BOTH": "", "LEADING": "l", "TRAILING": "r"}[position]
    value = scope.translate(node.this)
    cut = node.args.get("expression")
    if value.type != "string" or (cut is not None and not _is_plain(cut)):
        raise NeedsSparkError(f"{describe(node)} of a {value.type}")
    characters = scope.translate(cut).text if cut is not None else "' '"
    return Typed(
        f"{side}trim({ascii_text(value.text, describe(node))}, {characters})", "string"
    )


def _substring(node: exp.Expr, scope: DuckScope) -> Typed:
    """`substring` from a literal position, counted from 1."""
    refuse_others(node, "this", "start", "length")
    value = scope.translate(node.this)
    bounds = [
        it for it in (node.args.get("start"), node.args.get("length")) if it is not None
    ]
    plain = [
        it.name
        for it in bounds
        if isinstance(it, exp.Literal) and re.fullmatch(r"\d{1,6}", it.name)
    ]
    if value.type != "string" or len(plain) != len(bounds) or int(plain[0]) < 1:
        raise NeedsSparkError(
            f"{describe(node)} with other than a string and literals from 1 on"
        )
    return Typed(
        f"substring({ascii_text(value.text, describe(node))}, {', '.join(plain)})",
        "string",
    )


def _replace(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "expression", "replacement")
    parts = [node.args.get(name) for name in ("this", "expression", "replacement")]
    values = [scope.translate(part) for part in parts if part is not None]
    if (
        len(values) != 3
        or any(value.type != "string" for value in values)
        or not _is_plain(node.expression)
    ):
        raise NeedsSparkError(
            f"{describe(node)} with other than strings and a literal that is searched for"
        )
    return Typed(f"replace({', '.join(value.text for value in values)})", "string")


def _concat(node: exp.Expr, scope: DuckScope) -> Typed:
    """`concat` and `||` of strings and whole numbers: NULL if one of them is NULL."""
    if isinstance(node, exp.Concat):
        refuse_others(node, "expressions", "safe", "coalesce")
        parts = [scope.translate(item) for item in node.expressions]
    else:
        refuse_others(node, "this", "expression", "safe")
        parts = [
            scope.translate(node.args["this"]),
            scope.translate(node.args["expression"]),
        ]
    if any(part.type not in ("string", *WHOLE_DIGITS) for part in parts):
        raise NeedsSparkError(
            f"{describe(node)} of {', '.join(part.type for part in parts)}"
        )
    return Typed(
        f"({' || '.join(f'CAST({part.text} AS VARCHAR)' for part in parts)})", "string"
    )


def _concat_ws(node: exp.Expr, scope: DuckScope) -> Typed:
    """`concat_ws` of strings and arrays of strings, with a literal separator. NULLs are
    left out."""
    refuse_others(node, "expressions", "safe", "coalesce", "flatten")
    separator, *parts = [scope.translate(item) for item in node.expressions]
    is_written = isinstance(node.expressions[0], exp.Literal)
    if (
        not is_written
        or separator.type != "string"
        or any(part.type not in ("string", "array<string>") for part in parts)
    ):
        raise NeedsSparkError(
            f"{describe(node)} of {', '.join(part.type for part in parts)}"
        )
    lists = [it.text if it.type != "string" else f"[{it.text}]" for it in parts]
    joined = (
        " || ".join(f"coalesce({text}, CAST([] AS VARCHAR[]))" for text in lists)
        or "CAST([] AS VARCHAR[])"
    )
    present = f"list_filter({joined}, lambda part: part IS NOT NULL)"
    return Typed(
        f"coalesce(array_to_string({present}, {separator.text}), '')", "string"
    )


def _like(node: exp.Expr, scope: DuckScope) -> Typed:
    """LIKE and ILIKE with literal patterns: a single one, or ANY or ALL of several."""
    refuse_others(node, "this", "expression", "negate")
    value, patterns = scope.translate(node.args["this"]), node.args["expression"]
    is_any, is_all = isinstance(patterns, exp.Any), isinstance(patterns, exp.All)
    inner = patterns.this if is_any or is_all else patterns
    inner = inner.unnest() if isinstance(inner, exp.Paren) else inner
    items = inner.expressions if isinstance(inner, exp.Tuple) else [inner]
    plain = all(isinstance(item, exp.Literal) and item.is_string for item in items)
    if value.type != "string" or not plain:
        raise NeedsSparkError(
            f"{describe(node)}: LIKE with other than a string and literal patterns"
        )
    word = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
    word = f"NOT {word}" if node.args.get("negate") else word
    text = ascii_text(value.text, word)
    tests = [f"{text} {word} {scope.translate(item).text}" for item in items]
    return Typed(f"({(' AND ' if is_all else ' OR ').join(tests)})", "boolean")


def _position(node: exp.Expr, scope: DuckScope) -> Typed:
    """The position of a string in another, from 1; 0 if it does not occur. The search
    may start at a literal position."""
    refuse_others(node, "this", "substr", "position")
    value, searched = (
        scope.translate(node.args["this"]),
        scope.translate(node.args["substr"]),
    )
    start = node.args.get("position")
    if (
        value.type != "string"
        or searched.type != "string"
        or not _is_plain(node.args["substr"])
    ):
        raise NeedsSparkError(
            f"{describe(node)} with other than a string and a literal that is searched for"
        )
    text = ascii_text(value.text, describe(node))
    if start is None:
        return Typed(f"CAST(strpos({text}, {searched.text}) AS INTEGER)", "int")
    if not isinstance(start, exp.Literal) or not re.fullmatch(
        r"[1-9]\d{0,5}", start.name
    ):
        raise NeedsSparkError(
            f"{describe(node)} from another place than a literal from 1 on"
        )
    before = int(start.name) - 1
    found = f"strpos(substring({text}, {start.name}), {searched.text})"
    return Typed(
        f"CAST(CASE WHEN {found} = 0 THEN 0 ELSE {found} + {before} END AS INTEGER)",
        "int",
    )


def _side(node: exp.Expr, scope: DuckScope) -> Typed:
    """`left` and `right` with a literal length."""
    refuse_others(node, "this", "expression")
    value, count = scope.translate(node.args["this"]), node.args["expression"]
    if (
        value.type != "string"
        or not isinstance(count, exp.Literal)
        or not re.fullmatch(r"\d{1,6}", count.name)
    ):
        raise NeedsSparkError(
            f"{describe(node)} with other than a string and a literal number"
        )
    word = "left" if isinstance(node, exp.Left) else "right"
    return Typed(
        f"{word}({ascii_text(value.text, describe(node))}, {count.name})", "string"
    )


def _reverse(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this")
    value = scope.translate(node.this)
    if value.type != "string":
        raise NeedsSparkError(f"{describe(node)} of a {value.type}")
    return Typed(f"reverse({ascii_text(value.text, describe(node))})", "string")


def _repeat(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "times")
    value, times = scope.translate(node.this), scope.translate(node.args["times"])
    if value.type != "string" or times.type != "int":
        raise NeedsSparkError(f"{describe(node)} of a {value.type}")
    count = guarded(f"{times.text} > 1000", "repeat() beyond 1000 times", times.text)
    return Typed(f"repeat({value.text}, {count})", "string")


def _is_plain(node: exp.Expr) -> bool:
    """Whether an expression is a string literal of ASCII characters that is not
    empty."""
    return (
        isinstance(node, exp.Literal)
        and node.is_string
        and node.name != ""
        and node.name.isascii()
    )


RULES: dict[type[exp.Expr], Rule] = {
    exp.Lower: rule("this", "ascii", "string"),
    exp.Upper: rule("this", "ascii", "string"),
    exp.Length: rule("this", "ascii", "int", "CAST(length({0}) AS INTEGER)"),
    exp.StartsWith: rule(
        "this expression", "ascii string", "boolean", "starts_with({0}, {1})"
    ),
    exp.EndsWith: rule(
        "this expression", "ascii string", "boolean", "suffix({0}, {1})"
    ),
    exp.Contains: rule(
        "this expression", "ascii string", "boolean", "contains({0}, {1})"
    ),
    exp.MD5: rule("this", "string", "string", "md5({0})"),
    exp.Trim: _trim,
    exp.Substring: _substring,
    exp.Replace: _replace,
    exp.Concat: _concat,
    exp.DPipe: _concat,
    exp.ConcatWs: _concat_ws,
    exp.Like: _like,
    exp.ILike: _like,
    exp.StrPosition: _position,
    exp.Left: _side,
    exp.Right: _side,
    exp.Reverse: _reverse,
    exp.Repeat: _repeat,
}
