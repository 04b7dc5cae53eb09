"""What reading one template finds on the way: its facts and its problems, and which names have a meaning."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakesql.decode import Node
from lakesql.errors import Place, Problem
from lakesql.template import nodes as tree
from lakesql.template.nodes import Source

SEVEN = frozenset({"config", "stream", "ref", "this", "var", "target", "is_full_refresh"})
FUNCTIONS = frozenset({"config", "stream", "ref", "var", "range", "caller"})
RESERVED = SEVEN | {"range", "caller", "loop"}


@dataclass(frozen=True, slots=True)
class Reference:
    """A name given to `stream(…)` or `ref(…)`, and where it stands."""

    name: str
    place: Place


@dataclass(slots=True)
class Reader:
    """What reading one file has found so far. `scopes` are the variables that are bound, innermost last."""

    source: Source
    macros: frozenset[str]
    pure: bool = False
    problems: list[Problem] = field(default_factory=list)
    config: Node | None = None
    streams: list[Reference] = field(default_factory=list)
    refs: list[Reference] = field(default_factory=list)
    vars: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    locals: dict[str, tree.Macro] = field(default_factory=dict)
    scopes: list[set[str]] = field(default_factory=lambda: [set()])
    in_macro: str = ""

    def report(self, condition: str, at: int, what: str, fix: str = "") -> tree.Literal:
        """Notes a problem; what it returns stands in the tree where the wrong node was."""
        self.problems.append(Problem(condition, what, "", fix, self.source.place(at)))
        return tree.Literal(at, None)

    def bind(self, name: str, at: int) -> None:
        """Give a name a value in the innermost scope; one of lakesql's own is a problem."""
        if name in RESERVED:
            self.problems.append(reserved_name(name, self.source.place(at)))
        self.scopes[-1].add(name)

    def is_bound(self, name: str) -> bool:
        """Whether the template gives the name a value here."""
        return any(name in scope for scope in self.scopes)


def reserved_name(name: str, place: Place) -> Problem:
    """The problem of giving a name of lakesql's to something else."""
    return Problem("reserved-name", f"'{name}' is a name that lakesql gives to templates.", "", "Take another.", place)


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
