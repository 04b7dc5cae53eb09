"""A model's file as a template: what it says of itself, read without running it, and the SQL that it renders to.

Jinja reads the text; its syntax tree is checked and turned into the tree of `template_tree`, and that is all a
template can do. Configuration, edges, vars and macros are facts of the tree, with their places; a model is rendered
once, by `template_eval`. No Python is generated from a template and none of its objects is in a template's reach.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.lexer import Lexer, TokenStream
from jinja2.parser import Parser

from lakesql.decode import Node
from lakesql.errors import Place, Problem, ProjectError, nearest
from lakesql.model import template_tree as tree
from lakesql.model.template_eval import Names, Piece, run
from lakesql.model.template_tree import Source, source_of
from lakesql.model.template_values import FILTERS, MAX_INTEGER_BITS, METHODS, TESTS, TemplateError

__all__ = [
    "Macros",
    "Names",
    "Reference",
    "Rendered",
    "Template",
    "parse_macros",
    "parse_template",
    "render_template",
]

SEVEN = frozenset({"config", "stream", "ref", "this", "var", "target", "is_full_refresh"})
FUNCTIONS = frozenset({"config", "stream", "ref", "var", "range", "caller"})
RESERVED = SEVEN | {"range", "caller", "loop"}
MAX_SOURCE = 1 << 20
MAX_TOKENS = 50_000


@dataclass(frozen=True, slots=True)
class Reference:
    """A name given to `stream(…)` or `ref(…)`, and where it stands."""

    name: str
    place: Place


@dataclass(frozen=True, slots=True)
class Macros:
    """The project's macros by name. A macro's `text` is all that a model which uses it depends on."""

    by_name: Mapping[str, tree.Macro] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Template:
    """A model's file as it reads, before it is rendered.

    `streams` and `refs` are in the order of the text, each occurrence once. `macros` are the project's macros that it
    can reach; `reads` says which of `this`, `target`, `is_full_refresh` it reads.
    """

    path: str
    source: str
    config: Node
    streams: tuple[Reference, ...]
    refs: tuple[Reference, ...]
    vars: frozenset[str]
    macros: frozenset[str]
    reads: frozenset[str]
    body: tree.Body = field(repr=False)
    known: Mapping[str, tree.Macro] = field(repr=False)
    lines: Source = field(repr=False)


@dataclass(frozen=True, slots=True)
class Rendered:
    """The SQL of a model, and where each character of it comes from."""

    text: str
    pieces: tuple[Piece, ...] = field(repr=False)
    lines: Source = field(repr=False)

    def place(self, offset: int) -> Place:
        """Where in the model's file the character at `offset` of the text stands.

        What an expression wrote stands at its `{{`.
        """
        index = bisect_right(self.pieces, max(offset, 0), key=lambda piece: piece.start) - 1
        if index < 0:
            return self.lines.place(0)
        piece = self.pieces[index]
        return self.lines.place(piece.origin + (min(offset, len(self.text)) - piece.start) * piece.verbatim)


def parse_macros(files: Sequence[tuple[str, str]]) -> Macros:
    """The macros of `files`, each a path and its text.

    A macro is pure text: it sees its arguments and other macros. Raises `ProjectError` with the problems of all files.
    """
    problems: list[Problem] = []
    found: dict[str, tuple[Source, nodes.Macro]] = {}
    for path, text in files:
        source = source_of(path, text)
        try:
            _find_macros(source, _parse(source), found, problems)
        except ProjectError as error:
            problems.extend(error.problems)
    known = frozenset(found)
    macros: dict[str, tree.Macro] = {}
    for source, node in found.values():
        reader = _Reader(source, known, pure=True)
        try:
            macros[node.name] = _read_macro(reader, node)
        except RecursionError:
            reader.report("template-too-large", node.lineno, "The macro is nested too deeply.")
        problems.extend(reader.problems)
    if problems:
        raise ProjectError(problems)
    return Macros(macros)


def parse_template(path: str, source: str, macros: Macros) -> Template:
    """What the model file `path` with the text `source` says. Raises `ProjectError` with all of its problems."""
    lines = source_of(path, source)
    body = _parse(lines)
    reader = _Reader(lines, frozenset(macros.by_name))
    try:
        statements = _read_model(reader, body)
    except RecursionError:
        reader.report("template-too-large", 0, "The template is nested too deeply.")
    if reader.problems:
        raise ProjectError(reader.problems)
    return Template(
        path,
        source,
        reader.config or Node({}, Place(path, 1, 1)),
        tuple(reader.streams),
        tuple(reader.refs),
        frozenset(reader.vars),
        _reachable(reader.calls, reader.locals, macros.by_name),
        frozenset(reader.reads),
        statements,
        {**macros.by_name, **reader.locals} if reader.locals else macros.by_name,
        lines,
    )


def render_template(template: Template, names: Names) -> Rendered:
    """The SQL of a template. Raises `ProjectError` when it cannot be rendered, at the line of the model."""
    try:
        text, pieces = run(template.body, names, template.known)
    except TemplateError as fault:
        place = Place(template.path) if fault.at is None else template.lines.place(fault.at)
        why = " ".join(fault.inside)
        raise ProjectError.of(fault.condition, fault.what, why=why, fix=fault.fix, place=place) from None
    return Rendered(text, pieces, template.lines)


# Jinja's syntax tree, in which `lineno` of every node and token is an offset of the text.


class _OffsetLexer(Lexer):
    """Jinja's lexer, whose tokens carry offsets where Jinja's carry line numbers; every node inherits them."""

    def tokenize(
        self, source: str, name: str | None = None, filename: str | None = None, state: str | None = None
    ) -> TokenStream:
        return TokenStream(self.wrap(self._with_offsets(source, name), name, filename), name, filename)

    def _with_offsets(self, source: str, name: str | None) -> Iterator[tuple[int, str, str]]:
        position = 0
        try:
            for count, (_, kind, value) in enumerate(self.tokeniter(source, name)):
                if not source.startswith(value, position):
                    # The blank space that a `-` strips before a tag is in no token.
                    position = source.index(value, position)
                if count > MAX_TOKENS:
                    raise TemplateError(
                        "template-too-large", f"The file has more than {MAX_TOKENS} Jinja tokens.", at=position
                    )
                plain = _ESCAPE.sub(_escaped, value) if kind == "string" and "\\" in value else value
                yield position, kind, plain
                position += len(value)
        except TemplateSyntaxError as error:
            error.lineno = position
            raise


_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def _escaped(found: re.Match[str]) -> str:
    """An escape that Jinja reads without a warning: one that Python does not know (`\\d`) stands for itself."""
    return found[0] if found[1] in "\n\\'\"abfnrtvxuUN01234567" else "\\" + found[0]


class _OffsetEnvironment(Environment):
    """Jinja's environment with `_OffsetLexer`. It parses; it never compiles or renders."""

    @property
    def lexer(self) -> Lexer:
        return _LEXER


_ENVIRONMENT = _OffsetEnvironment(keep_trailing_newline=True)
_LEXER = _OffsetLexer(_ENVIRONMENT)


def _parse(source: Source) -> list[nodes.Node]:
    try:
        if len(source.text) > MAX_SOURCE:
            raise TemplateError("template-too-large", f"The file is longer than {MAX_SOURCE} characters.")
        return Parser(_ENVIRONMENT, source.text, source.path).subparse()
    except TemplateSyntaxError as error:
        condition, what, at = "template-syntax", f"This is not Jinja: {error.message}", error.lineno
    except ValueError as error:
        condition, what, at = "template-syntax", f"This is not Jinja: {error}", None
    except TemplateError as fault:
        condition, what, at = fault.condition, fault.what, fault.at
    except RecursionError:
        condition, what, at = "template-too-large", "The file is nested too deeply.", None
    raise ProjectError.of(condition, what, place=Place(source.path) if at is None else source.place(at))


def _find_macros(
    source: Source, body: Iterable[nodes.Node], found: dict[str, tuple[Source, nodes.Macro]], problems: list[Problem]
) -> None:
    for node in body:
        match node:
            case nodes.Macro():
                place = source.place(node.lineno)
                if node.name in RESERVED:
                    problems.append(_reserved(node.name, place))
                elif node.name in found:
                    other, first = found[node.name]
                    what = f"A macro '{node.name}' stands at {other.place(first.lineno)} already."
                    problems.append(Problem("duplicate-macro", what, "", "Rename one of the two.", place))
                else:
                    found[node.name] = (source, node)
            case nodes.Output() if all(
                isinstance(item, nodes.TemplateData) and item.data.isspace() for item in node.nodes
            ):
                pass
            case _:
                at = _content(node)
                what = "A file of macros holds macros and comments, nothing else."
                fix = "Move this text into a macro, or into a model."
                problems.append(Problem("not-a-macro", what, "", fix, source.place(at)))


def _content(node: nodes.Node) -> int:
    """Where a node has its first character that is not blank."""
    if not isinstance(node, nodes.Output):
        return node.lineno
    for item in node.nodes:
        if not isinstance(item, nodes.TemplateData):
            return item.lineno
        if not item.data.isspace():
            return item.lineno + len(item.data) - len(item.data.lstrip())
    return node.lineno


def _reserved(name: str, place: Place) -> Problem:
    return Problem("reserved-name", f"'{name}' is a name that lakesql gives to templates.", "", "Take another.", place)


# From Jinja's tree to ours, with every problem on the way.


@dataclass(slots=True)
class _Reader:
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
        if name in RESERVED:
            self.problems.append(_reserved(name, self.source.place(at)))
        self.scopes[-1].add(name)

    def is_bound(self, name: str) -> bool:
        return any(name in scope for scope in self.scopes)


def _read_model(reader: _Reader, body: Iterable[nodes.Node]) -> tree.Body:
    statements: list[tree.Statement] = []
    for node in body:
        if isinstance(node, nodes.Macro):
            _read_local_macro(reader, node)
        elif isinstance(node, nodes.Output):
            for item in node.nodes:
                if isinstance(item, nodes.Call) and isinstance(item.node, nodes.Name) and item.node.name == "config":
                    _read_config(reader, item, item.node.lineno)
                else:
                    statements.append(_read_output(reader, item))
        else:
            statements.extend(_read_statement(reader, node))
    return tuple(statements)


def _read_config(reader: _Reader, call: nodes.Call, at: int) -> None:
    if reader.config is not None:
        reader.report("duplicate-config", at, f"config(...) stands at {reader.config.place} already.", "Join the two.")
        return
    if call.args or call.dyn_args or call.dyn_kwargs:
        reader.report("config-not-literal", at, "config(...) takes options by name: config(mode='append').")
    entries: dict[str, Node] = {}
    keys: dict[str, Place] = {}
    for keyword in call.kwargs:
        key_at = reader.source.text.rfind(keyword.key, 0, _start(keyword.value))
        if keyword.key in entries:
            reader.report("duplicate-config", key_at, f"The option '{keyword.key}' is given twice.", "Remove one.")
            continue
        entries[keyword.key] = _read_literal(reader, keyword.value)
        keys[keyword.key] = reader.source.place(key_at)
    reader.config = Node(entries, reader.source.place(at), keys)


def _read_literal(reader: _Reader, node: nodes.Expr) -> Node:
    place = reader.source.place(_opening(reader, node) if isinstance(node, nodes.Tuple) else node.lineno)
    match node:
        case nodes.Const():
            if isinstance(node.value, str) and not _is_unicode(node.value):
                reader.report("template-syntax", node.lineno, "Half of a surrogate pair is not a character.")
            return Node(node.value, place)
        case nodes.List() | nodes.Tuple():
            return Node(tuple(_read_literal(reader, item) for item in node.items), place)
        case nodes.Neg(node=nodes.Const(value=int() | float() as number)) if not isinstance(number, bool):
            return Node(-number, place)
        case nodes.Dict():
            entries: dict[str, Node] = {}
            keys: dict[str, Place] = {}
            for pair in node.items:
                if not isinstance(pair.key, nodes.Const) or not isinstance(pair.key.value, str):
                    reader.report("config-not-literal", pair.key.lineno, "Keys of a mapping in config(...) are texts.")
                    continue
                if pair.key.value in entries:
                    what = f"The key '{pair.key.value}' is given twice."
                    reader.report("duplicate-config", pair.key.lineno, what, "Remove one.")
                entries[pair.key.value] = _read_literal(reader, pair.value)
                keys[pair.key.value] = reader.source.place(pair.key.lineno)
            return Node(entries, place, keys)
        case _:
            what = "config(...) takes literals: it is read from the file, before anything is rendered."
            fix = "Write the value itself; values that differ by folder stand in pyproject.toml."
            reader.report("config-not-literal", _start(node), what, fix)
            return Node(None, place)


def _opening(reader: _Reader, node: nodes.Tuple) -> int:
    """The `(` of a tuple, whose node stands at one of its items."""
    if not node.items:
        return node.lineno
    return max(reader.source.text.rfind("(", 0, _start(node)), 0)


def _start(node: nodes.Node) -> int:
    """The offset of an expression's first token, parentheses aside; Jinja's node may stand at a later one."""
    match node:
        case nodes.Call() | nodes.Getattr() | nodes.Getitem() | nodes.Filter() | nodes.Test() if node.node is not None:
            return _start(node.node)
        case nodes.Not(node=nodes.Test() as test) if test.lineno == node.lineno:
            return _start(test)
        case nodes.BinExpr():
            return _start(node.left)
        case nodes.Compare():
            return _start(node.expr)
        case nodes.Concat():
            return _start(node.nodes[0])
        case nodes.CondExpr():
            return _start(node.expr1)
        case nodes.Tuple(items=[first, *_]):
            return _start(first)
        case _:
            return node.lineno


def _read_local_macro(reader: _Reader, node: nodes.Macro) -> None:
    if node.name in reader.macros or node.name in reader.locals:
        what = f"There is a macro '{node.name}' already."
        reader.report("duplicate-macro", node.lineno, what, "Rename one of the two.")
    elif node.name in RESERVED:
        reader.problems.append(_reserved(node.name, reader.source.place(node.lineno)))
    else:
        reader.macros |= {node.name}
        reader.locals[node.name] = _read_macro(reader, node)


def _read_macro(reader: _Reader, node: nodes.Macro) -> tree.Macro:
    calls, reader.calls = reader.calls, set()
    before, reader.in_macro = reader.in_macro, node.name
    parameters, body = _read_parameters_and_body(reader, node)
    called, reader.calls, reader.in_macro = frozenset(reader.calls), calls, before
    text = reader.source.text[_tag(reader, node) : _end_of(reader, node)]
    return tree.Macro(node.name, parameters, body, called, reader.source, node.lineno, text, local=not reader.pure)


def _tag(reader: _Reader, node: nodes.Node) -> int:
    return max(reader.source.text.rfind("{%", 0, node.lineno), 0)


_END_OF_MACRO = re.compile(r"\bendmacro\b[^%]*%\}")


def _end_of(reader: _Reader, node: nodes.Macro) -> int:
    """The end of the macro's text: of the first end tag behind its last node."""
    last = max((child.lineno for child in node.find_all(nodes.Node)), default=node.lineno)
    found = _END_OF_MACRO.search(reader.source.text, last)
    return found.end() if found else len(reader.source.text)


def _read_parameters_and_body(
    reader: _Reader, node: nodes.Macro | nodes.CallBlock
) -> tuple[tree.Parameters, tree.Body]:
    reader.scopes.append(set())
    defaults: list[nodes.Expr | None] = [*[None] * (len(node.args) - len(node.defaults)), *node.defaults]
    parameters: list[tuple[str, tree.Expression | None]] = []
    for argument, default in zip(node.args, defaults, strict=True):
        parameters.append((argument.name, None if default is None else _read(reader, default)))
        reader.bind(argument.name, argument.lineno)
    body = _read_body(reader, node.body)
    reader.scopes.pop()
    return tuple(parameters), body


def _reachable(
    called: Iterable[str], locals_: Mapping[str, tree.Macro], macros: Mapping[str, tree.Macro]
) -> frozenset[str]:
    """The project's macros that `called` reach, through each other and through the model's own."""
    seen: set[str] = set()
    waiting = list(called)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend((locals_[name] if name in locals_ else macros[name]).calls)
    return frozenset(seen - locals_.keys())


# Statements.


def _read_body(reader: _Reader, body: Iterable[nodes.Node]) -> tree.Body:
    statements: list[tree.Statement] = []
    for node in body:
        if isinstance(node, nodes.Output):
            statements.extend(_read_output(reader, item) for item in node.nodes)
        else:
            statements.extend(_read_statement(reader, node))
    return tuple(statements)


def _read_output(reader: _Reader, item: nodes.Expr) -> tree.Statement:
    if isinstance(item, nodes.TemplateData):
        return tree.Text(item.lineno, item.data)
    return tree.Emit(reader.source.text.rfind("{{", 0, _start(item)), _read(reader, item))


def _inner(reader: _Reader, body: Iterable[nodes.Node], bound: Iterable[tuple[str, int]] = ()) -> tree.Body:
    """A body that is a scope of its own, in which `bound` have values."""
    reader.scopes.append(set())
    for name, at in bound:
        reader.bind(name, at)
    statements = _read_body(reader, body)
    reader.scopes.pop()
    return statements


def _read_statement(reader: _Reader, node: nodes.Node) -> Iterable[tree.Statement]:
    at = node.lineno
    match node:
        case nodes.If():
            yield _read_if(reader, node, node.elif_)
        case nodes.For():
            yield _read_for(reader, node)
        case nodes.Assign():
            value = _read(reader, node.node)
            targets = _read_targets(reader, node.target)
            _bind_targets(reader, targets, at)
            yield tree.Set(at, targets, value)
        case nodes.AssignBlock():
            body = _inner(reader, node.body)
            value = _read_captured(reader, node.filter, at)
            name = _read_targets(reader, node.target)
            _bind_targets(reader, name, at)
            if isinstance(name, str):
                yield tree.Capture(at, body, value, name)
            else:
                reader.report("template-forbidden", at, "A block is set to one name.")
        case nodes.FilterBlock():
            body = _inner(reader, node.body)
            yield tree.Capture(at, body, _read_captured(reader, node.filter, at), None)
        case nodes.With():
            yield _read_with(reader, node)
        case nodes.CallBlock():
            call = _read(reader, node.call)
            parameters, body = _read_parameters_and_body(reader, node)
            if isinstance(call, tree.Call) and call.name not in FUNCTIONS:
                yield tree.CallBlock(_tag(reader, node), call, parameters, body)
            else:
                reader.report("template-forbidden", at, "A {% call %} block calls a macro.")
        case nodes.Macro():
            reader.report("template-forbidden", at, "A macro stands at the top of a file, in no other block.")
        case _:
            name = type(node).__name__.lower()
            tag = {"fromimport": "from", "scope": "autoescape"}.get(name, name)
            fix = "A template reads no other file: macros of the project are known by their names."
            at = node.body[0].lineno if isinstance(node, nodes.Scope) else at
            reader.report("template-forbidden", at, f"Templates have no {{% {tag} %}}.", fix)


def _read_if(reader: _Reader, node: nodes.If, others: Sequence[nodes.If], top: nodes.If | None = None) -> tree.If:
    top = top or node
    condition, body = _read(reader, node.test), _read_body(reader, node.body)
    if others:
        return tree.If(node.lineno, condition, body, (_read_if(reader, others[0], others[1:], top),))
    return tree.If(node.lineno, condition, body, _read_body(reader, top.else_))


def _read_for(reader: _Reader, node: nodes.For) -> tree.For:
    if node.recursive:
        reader.report("template-forbidden", node.lineno, "Templates have no recursive loops.")
    items = _read(reader, node.iter)
    targets = _read_targets(reader, node.target)
    reader.scopes.append(set())
    _bind_targets(reader, targets, node.lineno)
    condition = None if node.test is None else _read(reader, node.test)
    reader.scopes[-1].add("loop")
    body = _read_body(reader, node.body)
    reader.scopes.pop()
    return tree.For(node.lineno, targets, items, condition, body, _inner(reader, node.else_))


def _read_with(reader: _Reader, node: nodes.With) -> tree.With:
    bound: list[tuple[tree.Targets, tree.Expression]] = []
    reader.scopes.append(set())
    for target, value in zip(node.targets, node.values, strict=True):
        read = _read(reader, value)
        targets = _read_targets(reader, target)
        _bind_targets(reader, targets, node.lineno)
        bound.append((targets, read))
    body = _read_body(reader, node.body)
    reader.scopes.pop()
    return tree.With(node.lineno, tuple(bound), body)


def _read_targets(reader: _Reader, node: nodes.Node) -> tree.Targets:
    match node:
        case nodes.Name():
            return node.name
        case nodes.Tuple():
            return tuple(_read_targets(reader, item) for item in node.items)
        case _:
            reader.report("template-forbidden", node.lineno, "Only names can be set in a template.")
            return ()


def _bind_targets(reader: _Reader, targets: tree.Targets, at: int) -> None:
    if isinstance(targets, str):
        reader.bind(targets, at)
        return
    for target in targets:
        _bind_targets(reader, target, at)


def _read_captured(reader: _Reader, node: nodes.Filter | None, at: int) -> tree.Expression:
    return tree.Variable(at, tree.CAPTURED) if node is None else _read(reader, node)


# Expressions.


def _read(reader: _Reader, node: nodes.Node) -> tree.Expression:
    at = node.lineno
    match node:
        case nodes.Const():
            if isinstance(node.value, int) and node.value.bit_length() > MAX_INTEGER_BITS:
                return reader.report("template-too-large", at, "A whole number has at most 64 bits.")
            if isinstance(node.value, str) and not _is_unicode(node.value):
                return reader.report("template-syntax", at, "Half of a surrogate pair is not a character.")
            return tree.Literal(at, node.value)
        case nodes.Name():
            return _read_name(reader, node)
        case nodes.Call():
            return _read_call(reader, node)
        case nodes.Getattr():
            return _read_attribute(reader, node)
        case nodes.Getitem(arg=nodes.Slice() as bounds):
            start, stop, step = (
                None if item is None else _read(reader, item) for item in (bounds.start, bounds.stop, bounds.step)
            )
            return tree.Slice(at, _read(reader, node.node), (start, stop, step))
        case nodes.Getitem():
            return _read_item(reader, node)
        case nodes.Filter():
            if node.name not in FILTERS:
                known = nearest(node.name, FILTERS)
                reader.report("template-forbidden", at, f"Templates have no filter '{node.name}'.", known)
            target = tree.Variable(at, tree.CAPTURED) if node.node is None else _read(reader, node.node)
            return tree.Filter(at, target, node.name, _arguments(reader, node), _named(reader, node))
        case nodes.Test():
            if node.name not in TESTS:
                known = nearest(node.name, TESTS)
                reader.report("template-forbidden", at, f"Templates have no test '{node.name}'.", known)
            return tree.Test(at, _read(reader, node.node), node.name, _arguments(reader, node, named=False))
        case nodes.Compare():
            others = tuple((operand.op, _read(reader, operand.expr)) for operand in node.ops)
            return tree.Comparison(at, _read(reader, node.expr), others)
        case nodes.BinExpr():
            return tree.Binary(at, node.operator, _read(reader, node.left), _read(reader, node.right))
        case nodes.UnaryExpr():
            return tree.Unary(at, node.operator, _read(reader, node.node))
        case nodes.Concat():
            return tree.Concat(at, tuple(_read(reader, item) for item in node.nodes))
        case nodes.CondExpr():
            otherwise = None if node.expr2 is None else _read(reader, node.expr2)
            return tree.Choice(at, _read(reader, node.test), _read(reader, node.expr1), otherwise)
        case nodes.List() | nodes.Tuple():
            return tree.Sequence(at, tuple(_read(reader, item) for item in node.items), isinstance(node, nodes.Tuple))
        case nodes.Dict():
            pairs = tuple((_read(reader, pair.key), _read(reader, pair.value)) for pair in node.items)
            return tree.Mapped(at, pairs)
        case _:
            return reader.report("template-forbidden", at, f"Templates have no {type(node).__name__.lower()}.")


def _read_name(reader: _Reader, node: nodes.Name) -> tree.Expression:
    name, at = node.name, node.lineno
    if reader.is_bound(name):
        return tree.Variable(at, name)
    if name in SEVEN and reader.pure:
        return _impure(reader, name, at)
    match name:
        case "this" | "is_full_refresh":
            reader.reads.add(name)
            return tree.Field(at, name)
        case "target":
            return reader.report("name-not-called", at, "'target' is read by its fields.", "Write target.name.")
        case _ if name in FUNCTIONS or name in reader.macros:
            return reader.report("name-not-called", at, f"'{name}' is called: write {name}(...).")
        case _:
            return _undefined(reader, name, at)


def _undefined(reader: _Reader, name: str, at: int) -> tree.Expression:
    known = set().union(reader.macros, *reader.scopes, {"range"}, () if reader.pure else SEVEN)
    return reader.report("undefined-variable", at, f"Nothing is named '{name}' here.", nearest(name, known))


def _impure(reader: _Reader, name: str, at: int) -> tree.Expression:
    what = f"The macro '{reader.in_macro}' uses '{name}': a macro sees its arguments and other macros alone."
    fix = f"Give the macro an argument for it, and pass {name} from the model."
    return reader.report("macro-not-pure", at, what, fix)


def _read_call(reader: _Reader, node: nodes.Call) -> tree.Expression:
    if isinstance(node.node, nodes.Getattr):
        return _read_method(reader, node, node.node)
    if not isinstance(node.node, nodes.Name):
        return reader.report("template-forbidden", node.lineno, "Only macros and a few methods can be called.")
    name, at = node.node.name, node.node.lineno
    if name in SEVEN and reader.pure:
        return _impure(reader, name, at)
    match name:
        case "config":
            what = "config(...) stands on its own, {{ config(...) }}, in no block and no expression."
            return reader.report("config-misplaced", at, what)
        case "stream" | "ref":
            return _read_reference(reader, node, name, at)
        case "var":
            return _read_var(reader, node, at)
        case "range":
            return tree.Call(at, name, _arguments(reader, node, named=False), {})
        case "caller":
            if not reader.in_macro:
                return reader.report("undefined-variable", at, "'caller' is known inside macros.")
            return tree.Call(at, name, _arguments(reader, node, named=False), {})
        case _ if name in reader.macros:
            reader.calls.add(name)
            return tree.Call(at, name, _arguments(reader, node), _named(reader, node))
        case _ if name in SEVEN or reader.is_bound(name):
            return reader.report("template-forbidden", at, f"'{name}' is a value and cannot be called.")
        case _:
            _arguments(reader, node)
            return _undefined(reader, name, at)


def _read_reference(reader: _Reader, node: nodes.Call, function: str, at: int) -> tree.Expression:
    literal = _text_argument(node, 1)
    if literal is None or node.kwargs:
        what = f"{function}(...) takes one name, written as a text: {function}('orders')."
        why = "Edges between models are read from the file, before anything is rendered."
        return reader.report("reference-not-literal", at, what, why)
    reference = Reference(literal.value, reader.source.place(literal.lineno))
    (reader.streams if function == "stream" else reader.refs).append(reference)
    return tree.Read(at, function, literal.value)


def _read_var(reader: _Reader, node: nodes.Call, at: int) -> tree.Expression:
    literal = _text_argument(node, 2)
    named = {keyword.key: keyword.value for keyword in node.kwargs}
    if literal is None or named.keys() - {"default"} or len(node.args) + len(named) > 2:
        what = "var(...) takes a name, written as a text, and a default: var('days', 7)."
        return reader.report("reference-not-literal", at, what)
    reader.vars.add(literal.value)
    default = node.args[1] if len(node.args) == 2 else named.get("default")
    return tree.Var(at, literal.value, None if default is None else _read(reader, default))


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _text_argument(node: nodes.Call, most: int) -> nodes.Const | None:
    """The first of at most `most` arguments, when it is a text."""
    if node.dyn_args or node.dyn_kwargs or not 1 <= len(node.args) <= most:
        return None
    first = node.args[0]
    if isinstance(first, nodes.Const) and isinstance(first.value, str) and _is_unicode(first.value):
        return first
    return None


def _read_method(reader: _Reader, node: nodes.Call, attribute: nodes.Getattr) -> tree.Expression:
    if attribute.attr not in METHODS:
        what = f"Templates have no method '{attribute.attr}'."
        return reader.report("template-forbidden", attribute.lineno, what, nearest(attribute.attr, METHODS))
    target = _read(reader, attribute.node)
    return tree.Method(attribute.lineno, target, attribute.attr, _arguments(reader, node, named=False))


def _read_attribute(reader: _Reader, node: nodes.Getattr) -> tree.Expression:
    if node.attr.startswith("_"):
        return _hidden(reader, node.attr, node.lineno)
    if _is_target(reader, node.node):
        return _read_target(reader, node.attr, node.node.lineno)
    return tree.Item(node.lineno, _read(reader, node.node), tree.Literal(node.lineno, node.attr))


def _read_item(reader: _Reader, node: nodes.Getitem) -> tree.Expression:
    key = node.arg.value if isinstance(node.arg, nodes.Const) else None
    if isinstance(key, str) and key.startswith("__"):
        return _hidden(reader, key, node.lineno)
    if _is_target(reader, node.node) and isinstance(key, str):
        return _read_target(reader, key, node.node.lineno)
    return tree.Item(node.lineno, _read(reader, node.node), _read(reader, node.arg))


def _hidden(reader: _Reader, name: str, at: int) -> tree.Expression:
    what = f"'{name}' belongs to Python, and templates do not reach it."
    return reader.report("template-forbidden", at, what, "Read entries of mappings; call macros.")


def _is_target(reader: _Reader, node: nodes.Expr) -> bool:
    return isinstance(node, nodes.Name) and node.name == "target" and not reader.is_bound("target")


def _read_target(reader: _Reader, key: str, at: int) -> tree.Expression:
    if reader.pure:
        return _impure(reader, "target", at)
    reader.reads.add("target")
    return tree.Field(at, "target", key)


def _arguments(
    reader: _Reader, node: nodes.Call | nodes.Filter | nodes.Test, named: bool = True
) -> tuple[tree.Expression, ...]:
    if node.dyn_args or node.dyn_kwargs:
        reader.report("template-forbidden", node.lineno, "Templates write arguments out: there is no * and no **.")
    if node.kwargs and not named:
        reader.report("template-forbidden", node.lineno, "This takes its arguments by position.")
    return tuple(_read(reader, item) for item in node.args)


def _named(reader: _Reader, node: nodes.Call | nodes.Filter) -> dict[str, tree.Expression]:
    return {str(keyword.key): _read(reader, keyword.value) for keyword in node.kwargs}
