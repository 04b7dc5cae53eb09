"""Which tables of a feed get models in a group, the names of these models, and the
problems of the tables left out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from glob import escape

from lakesql.decode import collect, node_of
from lakesql.errors import Problem, did_you_mean
from lakesql.model.group import ModelGroup
from lakesql.names import LONGEST_NAME, check_name
from lakesql.stream.source_table import SourceTable


def is_wanted(group: ModelGroup, table: SourceTable, remarks: list[Problem]) -> bool:
    """Whether a table gets a model. For a table that no file declares, `new_tables`
    decides; if it is left out, a problem is added to `remarks`."""
    if table.is_declared or group.tables.new_tables == "create":
        return True
    what = f"Table {_shown(table)} has come into stream '{group.stream}', and is not in the project."
    pull = f"To have it in the project: lakesql schema pull {group.stream}."
    if group.tables.new_tables == "refuse":
        fix = f"{pull} To leave it out: tables={{'exclude': [{pattern_of(table)!r}]}}."
        why = f"Group '{group.name}' says new_tables='refuse'; its other tables go on."
        remarks.append(Problem("new-table", what, why, fix, group.place))
    else:
        why = f"Group '{group.name}' says new_tables='ignore': its records stay where they are."
        remarks.append(Problem("table-left-out", what, why, pull, group.place))
    return False


def names_of_tables(
    group: ModelGroup,
    tables: Sequence[SourceTable],
    problems: list[Problem],
    remarks: list[Problem],
) -> dict[str, SourceTable]:
    """The tables by the names of their models, without the group's.

    Names that two tables share, names that a model cannot have, and entries of `rename`
    without a table are added to `problems`. They are added to `remarks` instead if the
    table is not declared, or, for `rename`, if not all tables need be known yet.
    """
    names: dict[str, SourceTable] = {}
    folded: dict[str, SourceTable] = {}
    for table in sorted(tables, key=lambda each: not each.is_declared):
        name = group.tables.member_name(table)
        first = folded.setdefault(name.lower(), table)
        if first.name == table.name and first is not table:
            if not table.is_declared:  # what is declared twice is said elsewhere
                remarks.append(_of_other_topic(group, table, first))
        elif first is not table:
            same = Problem(
                "duplicate-name",
                f"Tables {_shown(first)} and {_shown(table)} would both be '{group.name}.{name}'.",
                "Capitals make no difference, and what no name may have becomes `_`.",
                f"Give one another name: tables={{'rename': {{{table.name!r}: '{name}_2'}}}}.",
                group.place,
            )
            _refuse(group, table, same, problems, remarks)
        elif what := _say_bad_name(group, table, name):
            fix = f"Give it another one: tables={{'rename': {{{table.name!r}: '…'}}}}."
            _refuse(
                group,
                table,
                Problem("bad-name", what, "", fix, group.place),
                problems,
                remarks,
            )
        else:
            names[name] = table
    if tables:
        _check_renamed(group, tables, problems, remarks)
    return names


def _of_other_topic(
    group: ModelGroup, table: SourceTable, first: SourceTable
) -> Problem:
    """The problem that a table is not mirrored because another topic has a table of the
    same name, from another database."""
    return Problem(
        "table-unfit",
        f"Table {_shown(table)} of topic '{table.topic}' gets no model in group '{group.name}': topic '{first.topic}' "
        "has a table of the same name.",
        "A group knows tables by their names. Those of several databases may be called the same.",
        f"Let the `pattern` of stream '{group.stream}' fit one of the topics, and read the other by a stream and a "
        "group of its own. Or declare both under `source_tables`, with their databases before their names, and give "
        "one another name: tables={'rename': …}.",
        group.place,
    )


def _check_renamed(
    group: ModelGroup,
    tables: Sequence[SourceTable],
    problems: list[Problem],
    remarks: list[Problem],
) -> None:
    """Add a problem for each name in `rename` that no table has: to `problems` if files
    declare all tables, else to `remarks`.

    A route only knows values of the newest records, and a feed only tables that have
    had a row, so the table may still appear.
    """
    there = {table.name for table in tables}
    is_found = any(not table.is_declared for table in tables)
    why = (
        "A table is known once its topic has a row of it."
        if is_found and not group.tables.route
        else ""
    )
    for missing in group.tables.rename.keys() - there:
        what = f"'{missing}', which '{group.name}' renames, is no table of stream '{group.stream}'."
        problem = Problem(
            "unknown-source-table", what, why, did_you_mean(missing, there), group.place
        )
        (remarks if is_found or group.tables.route else problems).append(problem)


def _say_bad_name(group: ModelGroup, table: SourceTable, name: str) -> str:
    """Why a table's model cannot have this name; '' if it can."""
    if len(f"{group.name}.{name}") > LONGEST_NAME:
        return f"The name of table {_shown(table)} is too long for a model: {len(name)} characters."
    found: list[Problem] = []
    collect(found, partial(check_name, node_of(name, group.place)))
    return f"Table {_shown(table)} has no name that a model can have." if found else ""


def _refuse(
    group: ModelGroup,
    table: SourceTable,
    problem: Problem,
    problems: list[Problem],
    remarks: list[Problem],
) -> None:
    """Report that a table cannot have a model: as an error of the project if a file
    declares the table, else as a remark."""
    if table.is_declared:
        problems.append(problem)
    else:
        remarks.append(unfit(group, table, problem))


def unfit(group: ModelGroup, table: SourceTable, problem: Problem) -> Problem:
    """The problem that a table which was found in the feed gets no model, because of
    `problem`."""
    return Problem(
        "table-unfit",
        f"Table {_shown(table)} of stream '{group.stream}' gets no model in group '{group.name}': {problem.what}",
        problem.why,
        f"{problem.fix} To leave it out: tables={{'exclude': [{pattern_of(table)!r}]}}.".strip(),
        group.place,
    )


def _shown(table: SourceTable) -> str:
    """The name of a table in quotes, for messages. It may be any text; a long one is
    shortened."""
    return repr(table.name if len(table.name) <= _SHOWN else f"{table.name[:_SHOWN]}…")


def pattern_of(table: SourceTable) -> str:
    """A glob that matches a table's name; for a long name, its beginning and `*`."""
    return (
        escape(table.name)
        if len(table.name) <= _SHOWN
        else f"{escape(table.name[:_SHOWN])}*"
    )


_SHOWN = 100
"""How many characters of a table's name are shown."""
