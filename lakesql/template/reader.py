"""The state of reading one template: the facts and problems that are found, and which
names are bound."""

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
"""The names of the arguments beyond a macro's parameters."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A name in `stream(…)` or `ref(…)`, and its place."""

    name: str
    place: Place


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro: its Jinja node, the macros that it calls, its file, and its text.

    A `local` macro is defined in a model and sees the model's variables; others see
    only their parameters. `surplus` has those of `varargs` and `kwargs` that it reads:
    with these it accepts arguments beyond its parameters.
    """

    node: nodes.Macro
    calls: frozenset[str]
    source: SourceText
    text: str
    local: bool
    surplus: frozenset[str] = frozenset()


@dataclass(slots=True)
class Reader:
    """What was found so far in one file. `scopes` are the bound variables, the
    innermost scope last."""

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
        """Add a problem at an offset."""
        self.problems.append(Problem(condition, what, "", fix, self.source.place(at)))

    def is_bound(self, name: str) -> bool:
        """Whether the template itself gives the name a value here."""
        return any(name in scope for scope in self.scopes)


def reserved_name(name: str, place: Place) -> Problem:
    """The problem of using a reserved name of lakesql for something else."""
    return Problem(
        "reserved-name",
        f"'{name}' is a name that lakesql gives to templates.",
        place=place,
    )


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded as UTF-8: it has no surrogates."""
    return text.isascii() or not any(
        "\ud800" <= character <= "\udfff" for character in text
    )
