"""Which columns of a SELECT may be text made of bytes by a function that replaces
invalid UTF-8 by U+FFFD.

A CAST keeps the bytes, and so do functions that join or split texts: whether such a
text is valid UTF-8 can be checked. Other functions work on characters, and Spark
replaces invalid bytes before anybody can check.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from lakesql.select.lineage import read_lineage
from lakesql.select.lineage_edges import ColumnOf
from lakesql.select.query import parse_query
from lakesql.select.sqltext import findings_by_offset, read_text

_KEEPS_BYTES = (
    *(
        exp.Cast,
        exp.TryCast,
        exp.Coalesce,
        exp.If,
        exp.Case,
        exp.Nullif,
        exp.Concat,
        exp.ConcatWs,
        exp.DPipe,
    ),
    *(
        exp.Array,
        exp.Struct,
        exp.Map,
        exp.VarMap,
        exp.Substring,
        exp.Trim,
        exp.Connector,
        exp.Predicate,
        exp.AggFunc,
    ),
    *(exp.Binary, exp.Unary),
)

_MAKES_BYTES = frozenset(
    {
        "aes_decrypt",
        "aes_encrypt",
        "binary",
        "encode",
        "from_base64",
        "to_binary",
        "try_aes_decrypt",
        "try_to_binary",
    }
    | {"unbase64", "unhex"}
)


def find_text_of_bytes(
    sql: str,
    columns: Mapping[str, tuple[str, ...] | None],
    bytes_: frozenset[tuple[str, str]],
) -> frozenset[str]:
    """The columns, in lower case, that may be made of bytes by a function that works on
    characters; the SELECT is one that `read_query` has read.

    `columns` are those of the relations, in lower case, None where they are not known;
    `bytes_` are those that are or contain bytes, each with its relation.
    """
    findings = findings_by_offset()
    tree = parse_query(read_text(sql, findings), sql, findings)
    if not any(_works_on_characters(call) for call in tree.find_all(exp.Func)):
        return frozenset()
    makes_bytes = any(
        _name_of(call) in _MAKES_BYTES for call in tree.find_all(exp.Func)
    )
    makes_bytes |= any(
        cast.to.is_type("binary") for cast in tree.find_all(exp.Cast, exp.TryCast)
    )
    lineage = read_lineage(sql, columns)
    return frozenset(
        name
        for name, made_of in lineage.made_of.items()
        if makes_bytes or _whole(made_of) & bytes_
    )


def _whole(columns: frozenset[ColumnOf]) -> frozenset[ColumnOf]:
    """The columns; a field of one is replaced by the column."""
    return frozenset(
        (relation, column.partition(".")[0]) for relation, column in columns
    )


def _works_on_characters(call: exp.Func) -> bool:
    return not isinstance(call, _KEEPS_BYTES) and _name_of(call) not in _MAKES_BYTES


def _name_of(call: exp.Func) -> str:
    return (call.name if isinstance(call, exp.Anonymous) else call.sql_name()).lower()
