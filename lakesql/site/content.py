"""The content of the pages of a project's site, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakesql.errors import Problem


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link to a page of the site: its label, its path from the site's folder, and the
    type of its node."""

    label: str
    href: str
    resource_type: str = ""


@dataclass(frozen=True, slots=True)
class ColumnEdgeRow:
    """The column at the other end of a lineage edge; `column` is '' for an edge to the
    rows of a node."""

    page: PageLink
    column: str
    kind: str
    is_direct: bool


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """A column and all that is known about it. `checks` are tests and expectations."""

    name: str
    type: str
    description: str = ""
    is_required: bool = False
    is_key: bool = False
    is_sensitive: bool = False
    from_field: str = ""
    checks: tuple[CheckRow, ...] = ()
    made_of: tuple[ColumnEdgeRow, ...] = ()
    read_by: tuple[ColumnEdgeRow, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A test, an expectation or a unit test: what it checks, what happens if it fails,
    and its last outcome."""

    name: str
    what: str
    on_fail: str = ""
    status: str = ""
    said: str = ""


@dataclass(frozen=True, slots=True)
class OptionRow:
    """An option of a model: its value, its description, and whether the project sets it
    (`is_own`) or it has its default."""

    name: str
    value: str
    doc: str
    is_own: bool


@dataclass(frozen=True, slots=True)
class DayLine:
    """A figure over the last day: a value for each part of the day, None where there is
    none, and a sentence."""

    label: str
    values: tuple[float | None, ...]
    said: str


@dataclass(frozen=True, slots=True)
class Live:
    """The health of a table, as `lakesql status` shows it: the word for it, its tone,
    sentences, figures, and the last day."""

    health: str
    tone: str
    fresh: str
    remarks: tuple[str, ...] = ()
    figures: tuple[tuple[str, str], ...] = ()
    day: tuple[DayLine, ...] = ()


@dataclass(frozen=True, slots=True)
class LastRun:
    """The outcome of a model in the last run that is known."""

    status: str
    said: str
    at: str


@dataclass(frozen=True, slots=True)
class PlanReason:
    """The reason for the verdict of a plan on a model. `do` and `place` are '' if there
    is none."""

    verdict: str
    condition: str
    what: str
    place: str
    do: str


@dataclass(frozen=True, slots=True)
class PlanStep:
    """What a run will do to a table: a sentence, and its statements."""

    text: str
    statements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """The result of the last `lakesql plan` for a model. `columns` are lines such as `+
    name type`."""

    verdict: str
    tone: str
    meaning: str
    reasons: tuple[PlanReason, ...] = ()
    columns: tuple[str, ...] = ()
    steps: tuple[PlanStep, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """The last plan: when it was made, its age when the site is built, what it compares
    with, and its options. `doubts` are sentences on why it may be outdated."""

    at: str
    age: str
    against: str
    options: str
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodePage:
    """The page of a stream, a model, a seed, or a table outside of the project.

    `facts` are shown as names with values. `meaning` has the lines of the compiled
    file's header. `reads` and `readers` are the neighbours in the graph, `rows_by` are
    the columns that decide which rows it has. `owner` is taken from its `meta`.
    """

    id: str
    name: str
    resource_type: str
    href: str
    path: str = ""
    mode: str = ""
    table: str = ""
    description: str = ""
    owner: str = ""
    tags: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    meaning: tuple[tuple[str, str], ...] = ()
    options: tuple[OptionRow, ...] = ()
    columns: tuple[ColumnRow, ...] = ()
    has_unknown_columns: bool = False
    reads: tuple[PageLink, ...] = ()
    readers: tuple[PageLink, ...] = ()
    rows_by: tuple[ColumnEdgeRow, ...] = ()
    checks: tuple[CheckRow, ...] = ()
    unit_tests: tuple[CheckRow, ...] = ()
    maintenance: tuple[tuple[str, str], ...] = ()
    source: str = ""
    compiled: str = ""
    sample: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    live: Live | None = None
    last_run: LastRun | None = None
    plan: ModelPlan | None = None


@dataclass(frozen=True, slots=True)
class SiteContent:
    """All content of a project's site. `data` is the JSON that the graph and the search
    read.

    `problems` are the project's errors. `left_out` are the files with errors that have
    no page.
    """

    project: str
    target: str
    made_at: str
    pages: tuple[NodePage, ...] = ()
    problems: tuple[Problem, ...] = ()
    left_out: tuple[str, ...] = ()
    is_live: bool = False
    plan: ShownPlan | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def of_type(self, *resource_types: str) -> tuple[NodePage, ...]:
        """The pages of nodes of these types."""
        return tuple(
            page for page in self.pages if page.resource_type in resource_types
        )
