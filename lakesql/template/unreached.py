"""What one rendering of a template leaves out: branches that it does not take, and the conditions that decide it.

Two versions of a template whose renderings are equal may differ there, and so in the rendering for another target, for
other variables or for a rebuild.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from jinja2 import nodes

from lakesql.errors import Place
from lakesql.template.jinja import SourceText
from lakesql.template.reader import Macro


@dataclass(frozen=True, slots=True)
class BranchPart:
    """A condition, or what a branch writes. Parts of equal `written` mean the same."""

    written: str
    place: Place


def find_unreached(
    body: Iterable[nodes.Node],
    source: SourceText,
    macros: Mapping[str, Macro],
    reached: Collection[int],
    fold: Callable[[str], str],
) -> tuple[BranchPart, ...]:
    """The parts of a template and of its macros that a rendering has not reached, in the order of the text.

    `reached` are the ids of the bodies, sides and macros that it has (`Run.reached`). `fold` gives SQL in one spelling.
    """
    walk = _BranchWalk(macros, reached, fold, set())
    return tuple(part for node in body for part in walk.node(node, source))


@dataclass(frozen=True, slots=True)
class _BranchWalk:
    macros: Mapping[str, Macro]
    reached: Collection[int]
    fold: Callable[[str], str]
    seen: set[str]

    def node(self, node: nodes.Node, source: SourceText) -> Iterator[BranchPart]:
        """The unreached parts of a node that was reached."""
        match node:
            case nodes.If():
                for branch in (node, *node.elif_):
                    yield self.part(branch.test, source)
                    yield from self.body(branch.body, source)
                yield from self.body(node.else_, source)
            case nodes.For():
                yield from self.node(node.iter, source)
                yield from self.body(node.body, source)
                yield from self.body(node.else_, source)
            case nodes.CondExpr():
                yield self.part(node.test, source)
                for side in (node.expr1, node.expr2):
                    yield from self.side(side, source)
            case nodes.And() | nodes.Or():
                yield self.part(node, source)
            case nodes.Macro():
                return  # where it is called
            case _:
                yield from self.call(node)
                for child in node.iter_child_nodes():
                    yield from self.node(child, source)

    def body(self, body: list[nodes.Node], source: SourceText) -> Iterator[BranchPart]:
        """The unreached parts of the body of a branch: all of it, where the branch was not taken."""
        for node in body:
            if id(body) in self.reached:
                yield from self.node(node, source)
            else:
                yield self.part(node, source)

    def side(self, side: nodes.Expr | None, source: SourceText) -> Iterator[BranchPart]:
        if side is None:
            return
        if id(side) in self.reached:
            yield from self.node(side, source)
        else:
            yield self.part(side, source)

    def call(self, node: nodes.Node) -> Iterator[BranchPart]:
        """The unreached parts of the macro that a node calls, once."""
        called = node.node.name if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name) else ""
        macro = self.macros.get(called)
        if macro is None or called in self.seen:
            return
        self.seen.add(called)
        for child in macro.node.body:
            yield from self.node(child, macro.source)

    def part(self, node: nodes.Node, source: SourceText) -> BranchPart:
        first = node.nodes[0] if isinstance(node, nodes.Output) else node
        blanks = len(first.data) - len(first.data.lstrip()) if isinstance(first, nodes.TemplateData) else 0
        return BranchPart(self.written(node), source.place(node.lineno + blanks))

    def written(self, value: object) -> str:
        """A node of Jinja's in one spelling, without its place."""
        match value:
            case nodes.TemplateData():
                return f"text({self.fold(value.data)!r})"
            case nodes.Node():
                fields = (f"{name}={self.written(field)}" for name, field in value.iter_fields())
                return f"{type(value).__name__}({', '.join(fields)})"
            case list() | tuple():
                return f"[{', '.join(map(self.written, value))}]"
            case _:
                return repr(value)
