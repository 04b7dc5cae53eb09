"""Everything that a model runs, as the text that a reviewer reads: the content of a compiled file."""

from __future__ import annotations

from lakesql.compile.batch import MakeView, ReadBounds, Write, batch_steps
from lakesql.compile.select import Select, output_columns
from lakesql.compile.table import TableColumn, build_table_spec, create_table
from lakesql.model.config import mode_of


def compiled_text(select: Select) -> str:
    """The statements of a model in the order in which they run, each ended by `;`, each under a line that says when."""
    model = select.model
    columns = tuple(
        TableColumn(column.name, column.type or None, model.properties.description_of(column.name))
        for column in output_columns(select)
    )
    table = build_table_spec(model.table, columns, model.config, model.properties.description)
    parts = [f"-- {'.'.join(model.fqn)}: mode {mode_of(model.config)}, table {model.table}"]
    parts.append(_section("when the table does not exist", *create_table(table)))
    for step in batch_steps(select, select.columns):
        match step:
            case MakeView():
                parts.append(_section(step.when, step.text))
            case Write():
                parts.append(_section(step.when, step.text()))
            case ReadBounds():
                pass  # it is no statement: the mark in the one that follows stands for it
    return "\n\n".join(parts) + "\n"


def _section(when: str, *statements: str) -> str:
    return f"-- {when}\n" + "\n".join(f"{statement};" for statement in statements)
