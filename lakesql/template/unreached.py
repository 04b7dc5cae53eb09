"""The parts of a template that one rendering does not run: branches not taken, and the
conditions that decide on them.

Two versions of a template may render to the same text and still differ in these parts,
so that they differ for another target, other variables, or a rebuild.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from jinja2 import nodes

from lakesql.errors import Place
from lakesql.template.jinja import SourceText
from lakesql.template.reader import Macro


@dataclass(frozen=True, slots=True)
class BranchPart:
    """A condition, or the body of a branch. Parts with equal `written` mean the
    same."""

    written: str
    place: Place


def find_unreached(
    body: Sequence[nodes.Node],
    source: SourceText,
    macros: Mapping[str, Macro],
    settings: Mapping[str, object],
    reached: AbstractSet[int],
    fold: Callable[[str], str],
) -> tuple[BranchPart, ...]:
    """The parts of a template and its macros that a rendering has not reached, in the
    order of the text.

    Each is followed by what it depends on: macros that nothing else calls, the values
    of names, and the values of the variables in `settings`. `reached` are the ids of
    the bodies, sides and macros that the rendering has run (`Rendering.reached`).
    `fold` normalizes SQL, so that spellings with the same meaning are equal.
    """
    walk = _BranchWalk(
        macros, settings, _find_bindings(body, source, macros), reached, fold, set()
    )
    return tuple(part for node in body for part in walk.node(node, source))


@dataclass(frozen=True, slots=True)
class _Assigned:
    """A value that an assignment gives to a name, and the file with the assignment."""

    value: nodes.Node
    source: SourceText


_Bindings = Mapping[str, Sequence[_Assigned]]


def _find_bindings(
    body: Iterable[nodes.Node], source: SourceText, macros: Mapping[str, Macro]
) -> _Bindings:
    """All values that each name in a template and its macros may have. Scopes are
    ignored."""
    found: defaultdict[str, list[_Assigned]] = defaultdict(list)
    files = [
        *((node, source) for node in body),
        *((macro.node, macro.source) for macro in macros.values()),
    ]
    for top, file in files:
        for node in (top, *top.find_all(_BINDING)):
            for target, value in _bound_by(node, macros):
                for name in _names_of(target):
                    found[name].append(_Assigned(value, file))
    return found


_BINDING = (nodes.Assign, nodes.AssignBlock, nodes.For, nodes.With, nodes.Call)


def _bound_by(
    node: nodes.Node, macros: Mapping[str, Macro]
) -> Iterator[tuple[nodes.Node, nodes.Node]]:
    """The targets that a node binds, each with its value; for a call of a macro, the
    macro's parameters."""
    match node:
        case nodes.Assign():
            yield node.target, node.node
        case nodes.AssignBlock():
            yield node.target, node
        case nodes.For():
            yield node.target, node.iter
        case nodes.With():
            yield from zip(node.targets, node.values, strict=True)
        case nodes.Call(node=nodes.Name(name=name)) if name in macros:
            parameters = macros[name].node.args
            yield from zip(parameters, node.args, strict=False)
            named = {keyword.key: keyword.value for keyword in node.kwargs}
            yield from ((it, named[it.name]) for it in parameters if it.name in named)


def _names_of(target: nodes.Node) -> Iterator[str]:
    match target:
        case nodes.Name() | nodes.NSRef():
            yield target.name
        case nodes.Tuple():
            for item in target.items:
                yield from _names_of(item)


@dataclass(frozen=True, slots=True)
class _BranchWalk:
    """A walk over the tree. `seen` has the macros that it has visited, and the ids of
    the names and variables that it has returned."""

    macros: Mapping[str, Macro]
    settings: Mapping[str, object]
    bindings: _Bindings
    reached: AbstractSet[int]
    fold: Callable[[str], str]
    seen: set[object]

    def node(self, node: nodes.Node, source: SourceText) -> Iterator[BranchPart]:
        """The unreached parts of a node that was reached."""
        match node:
            case nodes.If():
                for branch in (node, *node.elif_):
                    yield from self.part(branch.test, source)
                    yield from self.body(branch.body, source)
                yield from self.body(node.else_, source)
            case nodes.For():
                yield from self.node(node.iter, source)
                if node.test is not None:
                    yield from self.part(node.test, source)
                yield from self.body(node.body, source)
                yield from self.body(node.else_, source)
            case nodes.CallBlock():
                yield from self.node(node.call, source)
                yield from self.body(node.body, source)
            case nodes.CondExpr():
                yield from self.part(node.test, source)
                for side in (node.expr1, node.expr2):
                    yield from self.side(side, source)
            case nodes.And() | nodes.Or():
                yield from self.part(node, source)
            case nodes.Macro():
                return  # where it is called
            case _ if self.is_chosen(node):
                yield from self.part(node, source)
            case _:
                yield from self.call(node)
                for child in node.iter_child_nodes():
                    yield from self.node(child, source)

    def body(self, body: list[nodes.Node], source: SourceText) -> Iterator[BranchPart]:
        """The unreached parts of the body of a branch: all of it if the branch was not
        taken."""
        for node in body:
            if id(body) in self.reached:
                yield from self.node(node, source)
            else:
                yield from self.part(node, source)

    def side(self, side: nodes.Expr | None, source: SourceText) -> Iterator[BranchPart]:
        if side is None:
            return
        if id(side) in self.reached:
            yield from self.node(side, source)
        else:
            yield from self.part(side, source)

    def call(self, node: nodes.Node) -> Iterator[BranchPart]:
        """The unreached parts of the macro that a node calls. They are returned only
        for the first call."""
        macro = self.macros.get(_called_name(node))
        if macro is None or macro.node.name in self.seen:
            return
        self.seen.add(macro.node.name)
        for child in macro.node.body:
            yield from self.node(child, macro.source)

    def is_chosen(self, node: nodes.Node) -> bool:
        """Whether an expression selects one of several values depending on the target,
        a variable or `is_full_refresh`."""
        match node:
            case nodes.Getitem():
                return self.reads_settings(node.arg, set())
            case nodes.Call(node=nodes.Getattr(attr="get")):
                return any(
                    self.reads_settings(argument, set()) for argument in node.args
                )
            case nodes.Filter(name="default" | "d"):
                return node.node is not None and self.reads_settings(node.node, set())
            case _:
                return False

    def reads_settings(self, node: nodes.Node, through: set[str]) -> bool:
        """Whether an expression depends on the target, a variable or `is_full_refresh`,
        directly or through other names."""
        for name in (node, *node.find_all(nodes.Name)):
            if not isinstance(name, nodes.Name) or name.name in through:
                continue
            if name.name in ("target", "var", "is_full_refresh"):
                return True
            through.add(name.name)
            if any(
                self.reads_settings(it.value, through)
                for it in self.bindings.get(name.name, ())
            ):
                return True
        return False

    def part(self, node: nodes.Node, source: SourceText) -> Iterator[BranchPart]:
        """An unreached part, followed by what it depends on."""
        first = node.nodes[0] if isinstance(node, nodes.Output) else node
        blanks = (
            len(first.data) - len(first.data.lstrip())
            if isinstance(first, nodes.TemplateData)
            else 0
        )
        place = source.place(node.lineno + blanks)
        yield BranchPart(self.written(node), place)
        for name in (node, *node.find_all((nodes.Name, nodes.Call))):
            match name:
                case nodes.Name():
                    yield from self.bound(name)
                case nodes.Call(
                    node=nodes.Name(name="var"), args=[nodes.Const(value=variable), *_]
                ):
                    yield from self.variable(variable, place)
                case nodes.Call():
                    yield from self.called(_called_name(name))

    def bound(self, name: nodes.Name) -> Iterator[BranchPart]:
        """The values that a name in an unreached part may have, each only once. A value
        that is another name is replaced by the values of that name."""
        for it in self.bindings.get(name.name, ()):
            if id(it.value) in self.seen:
                continue
            self.seen.add(id(it.value))
            if isinstance(it.value, nodes.Name):
                yield from self.bound(it.value)
            else:
                yield from self.part(it.value, it.source)

    def variable(self, name: str, place: Place) -> Iterator[BranchPart]:
        """The value of a variable that an unreached part reads, only once."""
        if name in self.settings and ("var", name) not in self.seen:
            self.seen.add(("var", name))
            yield BranchPart(f"var({name!r}) = {self.settings[name]!r}", place)

    def called(self, name: str) -> Iterator[BranchPart]:
        """A macro that an unreached part calls and no reached part does, only once."""
        macro = self.macros.get(name)
        if (
            macro is None
            or id(macro.node) in self.reached
            or id(macro.node) in self.seen
        ):
            return
        self.seen.add(id(macro.node))
        for node in (*macro.node.args, *macro.node.defaults, *macro.node.body):
            yield from self.part(node, macro.source)

    def written(self, value: object) -> str:
        """The text of a Jinja node in a normalized form, without its place."""
        match value:
            case nodes.TemplateData():
                return f"text({self.fold(value.data)!r})"
            case nodes.Node():
                fields = (
                    f"{name}={self.written(field)}"
                    for name, field in value.iter_fields()
                )
                return f"{type(value).__name__}({', '.join(fields)})"
            case list() | tuple():
                return f"[{', '.join(map(self.written, value))}]"
            case _:
                return repr(value)


def _called_name(node: nodes.Node) -> str:
    """The name of the macro or function that a node calls; '' if it calls none."""
    return (
        node.node.name
        if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name)
        else ""
    )
