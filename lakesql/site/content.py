"""What the pages of a project's site show, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakesql.errors import Problem


@dataclass(frozen=True, slots=True)
class PageLink:
    """A page of the site: what it is called, where it is from the site's folder, and of
    what type its node is."""

    label: str
    href: str
    resource_type: str = ""


@dataclass(frozen=True, slots=True)
class ColumnEdgeRow:
    """A column at the other end of an edge; `column` is empty where the edge is to the
    rows of a node."""

    page: PageLink
    column: str
    kind: str
    is_direct: bool


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """A column with all that is said of it. `checks` are tests and expectations."""

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
    """A test, an expectation or a unit test: what it is, what becomes of a failure, and
    how it ended last."""

    name: str
    what: str
    on_fail: str = ""
    status: str = ""
    said: str = ""


@dataclass(frozen=True, slots=True)
class OptionRow:
    """An option that a model has: its value, what it means, and whether the model's own
    files say it."""

    name: str
    value: str
    doc: str
    is_own: bool


@dataclass(frozen=True, slots=True)
class DayLine:
    """A figure over the last day: a value for each part of it, None where there was
    nothing, and a sentence."""

    label: str
    values: tuple[float | None, ...]
    said: str


@dataclass(frozen=True, slots=True)
class Live:
    """How a table is, as `lakesql status` judges it: the word, its tone, sentences,
    figures, the last day."""

    health: str
    tone: str
    fresh: str
    remarks: tuple[str, ...] = ()
    figures: tuple[tuple[str, str], ...] = ()
    day: tuple[DayLine, ...] = ()


@dataclass(frozen=True, slots=True)
class LastRun:
    """How a model ended in the last run that is known."""

    status: str
    said: str
    at: str


@dataclass(frozen=True, slots=True)
class PlanReason:
    """Why a plan gives a model its verdict; `do` and `place` are '' where there is
    none."""

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
    """What the last `lakesql plan` has said of a model. `columns` are lines such as `+
    name type`."""

    verdict: str
    tone: str
    meaning: str
    reasons: tuple[PlanReason, ...] = ()
    columns: tuple[str, ...] = ()
    steps: tuple[PlanStep, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """When the last plan was made, how long before the site, what with, and with which
    options. `doubts` are sentences that say why it may hold no longer."""

    at: str
    age: str
    against: str
    options: str
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodePage:
    """A page of a stream, a model, a seed or a table of others.

    `facts` are shown as pairs; `meaning` is what the compiled file says around its
    statements. `reads` and `readers` are the nodes beside it, `rows_by` what decides
    which rows it has. `owner` is whose it is, as its `meta` says.
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
    """All that the site of a project shows. `data` is what the graph and the search
    read, as JSON.

    `problems` are the project's errors; `left_out` are the files that have some and of
    which nothing else is known.
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
