"""Everything that a model runs, as the text that a reviewer reads: the content of a compiled file."""

from __future__ import annotations

from typing import assert_never

from lakesql.compile.insert import insert_statement
from lakesql.compile.merge import merge_statement, newest_rows
from lakesql.compile.select import Select, output_columns
from lakesql.compile.table import TableColumn, TableSpec, build_table_spec, create_table
from lakesql.model.config import Append, Upsert, mode_of
from lakesql.names import BATCH_VIEW, ROWS_VIEW


def compiled_text(select: Select) -> str:
    """The statements of a model in the order in which they run, each ended by `;`, each under a line that says when."""
    model = select.model
    parts = [f"-- {'.'.join(model.fqn)}: mode {mode_of(model.config)}, table {model.table}"]
    parts.append(_section("when the table does not exist", *create_table(_table_spec(select))))
    rows = "the streaming query" if select.query.stateful else "each batch: the rows that the SELECT makes of it"
    parts.append(_section(rows, _view(ROWS_VIEW, select.text)))
    match model.config:
        case Append():
            parts.append(_section("each batch: the commit", insert_statement(model.table, select.columns)))
        case Upsert() as config:
            newest = newest_rows(config, select.positioned)
            parts.append(_section("each batch: the newest row of each key", _view(BATCH_VIEW, newest)))
            merge = merge_statement(model.table, config, select.columns, None)
            parts.append(_section("each batch: the commit", merge))
        case _:
            assert_never(model.config)
    return "\n\n".join(parts) + "\n"


def _table_spec(select: Select) -> TableSpec:
    model = select.model
    columns = tuple(
        TableColumn(column.name, column.type or None, model.properties.description_of(column.name))
        for column in output_columns(select)
    )
    return build_table_spec(model.table, columns, model.config, model.properties.description)


def _section(when: str, *statements: str) -> str:
    return f"-- {when}\n" + "\n".join(f"{statement};" for statement in statements)


def _view(name: str, select: str) -> str:
    return f"CREATE OR REPLACE TEMPORARY VIEW {name} AS\n{select.strip()}"
