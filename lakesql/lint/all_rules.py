"""The list of all lint rules: the code and the module of each. A new rule is a file and
a line here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from lakesql.lint.rule import ModelRule, ProjectRule, Rule

MODULES: Mapping[str, str] = {
    "LK000": "projects.idle_noqa",
    "LK001": "streams.arrival_order",
    "LK002": "streams.filtered_states",
    "LK003": "streams.unsteady_key",
    "LK004": "streams.unbounded_join",
    "LK005": "streams.stale_join",
    "LK006": "streams.counted_states",
    "LK007": "streams.late_windows",
    "LK008": "streams.endless_groups",
    "LK009": "streams.collected_state",
    "LK010": "streams.coarse_sequence",
    "LK011": "streams.short_memory",
    "LK012": "streams.open_star",
    "LK013": "streams.whole_scan",
    "LK030": "tables.float_key",
    "LK031": "tables.crowded_partitions",
    "LK032": "tables.thin_partitions",
    "LK033": "tables.many_files",
    "LK034": "tables.short_trigger",
    "LK035": "tables.unkept_table",
    "LK036": "tables.rewritten_files",
    "LK037": "tables.moving_partitions",
    "LK038": "tables.restless_table",
    "LK039": "tables.nullable_key",
    "LK040": "tables.multiplied_rows",
    "LK041": "projects.stale_limit",
    "LK050": "statements.not_in_null",
    "LK051": "statements.null_comparison",
    "LK052": "statements.implicit_cast",
    "LK053": "statements.hidden_column",
    "LK054": "statements.unused_cte",
    "LK055": "statements.quoted_name",
    "LK056": "statements.table_by_hand",
    "LK057": "statements.undone_outer_join",
    "LK058": "statements.cross_join",
    "LK059": "statements.lost_order",
    "LK060": "statements.any_rows",
    "LK061": "statements.float_equality",
    "LK062": "statements.clock_filter",
    "LK063": "statements.never_true",
    "LK080": "projects.unused_stream",
    "LK081": "projects.unused_macro",
    "LK082": "projects.unused_var",
}
"""The module of each rule, relative to this package, by its code. The code of a removed
rule is never used again."""


def load_rule(code: str) -> Rule:
    """The rule with this code."""
    rule: Rule = import_module(f"{__package__}.{MODULES[code]}").RULE
    return rule


@cache
def model_rules() -> Mapping[str, ModelRule]:
    """The rules that look at single models, by code. Loading them imports the SQL
    parser."""
    codes = [
        code
        for code, module in MODULES.items()
        if not module.startswith(_ABOUT_PROJECTS)
    ]
    return {code: cast("ModelRule", load_rule(code)) for code in codes}


@cache
def project_rules() -> Mapping[str, ProjectRule]:
    """The rules that look at a project as a whole, by code."""
    codes = [
        code for code, module in MODULES.items() if module.startswith(_ABOUT_PROJECTS)
    ]
    return {code: cast("ProjectRule", load_rule(code)) for code in codes}


_ABOUT_PROJECTS = "projects."
