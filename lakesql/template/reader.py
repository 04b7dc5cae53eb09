"""What reading one template finds on the way: its facts and its problems, and which
names have a meaning."""

from __future__ import annotations

from dataclasses import dataclass, field

from jinja2 import nodes

from lakesql.decode import Node
from lakesql.errors import Place, Problem
from lakesql.template.jinja import SourceText

SEVEN = frozenset(
    {"config", "stream", "ref", "this", "var", "target", "is_full_refresh"}
)
FUNCTIONS = frozenset(
    {"config", "stream", "ref", "var", "range", "namespace", "caller"}
)
RESERVED = SEVEN | {"range", "caller", "loop"}
SURPLUS = frozenset({"varargs", "kwargs"})
"""What a macro calls the arguments that are none of its parameters."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A name given to `stream(…)` or `ref(…)`, and where it stands."""

    name: str
    place: Place


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro: Jinja's node of it, the macros that it calls, its file and its text.

    A `local` one stands in a model and sees the model's variables; others see their
    parameters alone. `surplus` are `varargs` and `kwargs`, where it reads them: then it
    takes arguments that are none of its parameters.
    """

    node: nodes.Macro
    calls: frozenset[str]
    source: SourceText
    text: str
    local: bool
    surplus: frozenset[str] = frozenset()


@dataclass(slots=True)
class Reader:
    """What reading one file has found so far. `scopes` are the variables that are
    bound, innermost last."""

    source: SourceText
    macros: frozenset[str]
    pure: bool = False
    problems: list[Problem] = field(default_factory=list)
    config: Node | None = None
    streams: list[Reference] = field(default_factory=list)
    refs: list[Reference] = field(default_factory=list)
    vars: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    locals: dict[str, Macro] = field(default_factory=dict)
    scopes: list[set[str]] = field(default_factory=lambda: [set()])
    in_macro: str = ""

    def report(self, condition: str, at: int, what: str, fix: str = "") -> None:
        """Note a problem at an offset."""
        self.problems.append(Problem(condition, what, "", fix, self.source.place(at)))

    def is_bound(self, name: str) -> bool:
        """Whether the template gives the name a value here."""
        return any(name in scope for scope in self.scopes)


def reserved_name(name: str, place: Place) -> Problem:
    """The problem of giving a name of lakesql's to something else."""
    return Problem(
        "reserved-name",
        f"'{name}' is a name that lakesql gives to templates.",
        place=place,
    )


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8."""
    return text.isascii() or not any(
        "\ud800" <= character <= "\udfff" for character in text
    )
