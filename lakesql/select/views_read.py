"""Where a SELECT reads views of other models, and the SELECT that takes the place of
each.

A view has no rows of its own: what reads it reads the tables that it is made of.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from lakesql.errors import ProjectError
from lakesql.identifiers import identifier
from lakesql.select.event_times import Edit
from lakesql.select.query import parse_query
from lakesql.select.relation import offset_of
from lakesql.select.sqltext import findings_by_offset, read_text


def inline_views(sql: str, views: Mapping[tuple[str, ...], str]) -> tuple[Edit, ...]:
    """The edits that replace each view by its SELECT in brackets. `views` are the
    SELECTs, by the parts of the view's name in lower case.

    A view without an alias gets its name as the alias, which qualifies its columns.
    There are no edits for a text that cannot be parsed, which is refused when the whole
    SELECT is read.
    """
    findings = findings_by_offset()
    try:
        tree = parse_query(read_text(sql, findings), sql, findings)
    except (ProjectError, RecursionError):
        return ()
    read = [
        table
        for table in tree.find_all(exp.Table)
        if not isinstance(table.this, exp.Func)
    ]
    edits = []
    for table in sorted(read, key=offset_of):
        query = views.get(tuple(part.name.lower() for part in table.parts))
        if query is None:
            continue
        end = table.parts[-1].meta["end"] + 1
        alias = "" if table.alias else f" AS {identifier(table.name)}"
        edits.append(Edit(offset_of(table), end, f"(\n{query.strip()}\n){alias}"))
    return tuple(edits)
