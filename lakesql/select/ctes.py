"""Which tokens of a SELECT name its common table expressions, so that renaming one
counts as no change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from lakesql.select.sqltext import Text


def cte_tokens(text: Text, tree: exp.Query) -> Mapping[int, int]:
    """The tokens that name a common table expression, each with the number of that
    expression.

    Empty if a name is not clear: it is also that of another common table expression, an
    alias, or a column.
    """
    ctes = [*tree.find_all(exp.CTE)]
    numbers = {cte.alias.lower(): number for number, cte in enumerate(ctes)}
    others = {alias.lower() for alias in _other_names(tree)}
    if not ctes or len(numbers) < len(ctes) or others & numbers.keys():
        return {}
    starts = {token.start: at for at, token in enumerate(text.tokens)}
    found: dict[int, int] = {}
    for name in _names(tree):
        number = numbers.get(name.name.lower())
        at = starts.get(name.meta.get("start", -1))
        if number is not None and at is not None:
            found[at] = number
    return found


def _other_names(tree: exp.Query) -> Iterator[str]:
    """The other names in the text: of columns, and the aliases of relations."""
    for node in tree.find_all(exp.Column, exp.Alias, exp.Table, exp.Subquery):
        if isinstance(node, exp.Column):
            yield node.name
        elif node.alias:
            yield node.alias


def _names(tree: exp.Query) -> Iterator[exp.Expr]:
    """The identifiers that may name a common table expression: where it is declared,
    tables, and qualifiers of columns."""
    for node in tree.find_all(exp.CTE, exp.Table, exp.Column):
        if isinstance(node, exp.CTE):
            yield node.args["alias"].this
        elif isinstance(node, exp.Table | exp.Column):
            wanted = 1 if isinstance(node, exp.Table) else 2
            if len(node.parts) == wanted:
                yield node.parts[0]
