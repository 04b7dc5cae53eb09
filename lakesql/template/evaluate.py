"""Renders a checked template by walking Jinja's syntax tree, within a budget of
steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jinja2 import TemplateRuntimeError, UndefinedError, nodes

from lakesql.errors import did_you_mean
from lakesql.template import values
from lakesql.template.jinja import SourceText, entry_of, start_of
from lakesql.template.library import TAKE_MISSING, Library
from lakesql.template.reader import Macro
from lakesql.template.values import (
    MissingEntry,
    Namespace,
    TemplateError,
    failed,
    too_large,
)
from lakesql.template.written import Captured, Piece, Pieces, check_comments
from lakesql.words import answer

MAX_MACRO_DEPTH = 30
CAPTURED = ""
"""The variable that holds the text of a block while the block's filter runs."""

Scope = dict[str, Any]
"""The variables that are visible in a body. A body with a scope of its own gets a
copy."""

Caller = Callable[[list[Any]], str]
"""The function behind `caller()`: it returns the text of a call block."""


@dataclass(frozen=True, slots=True)
class Names:
    """What the names that lakesql gives to templates mean in one rendering. `target`
    has the properties of the target that a template may read."""

    stream: Callable[[str], str]
    ref: Callable[[str], str]
    this: str
    vars: Mapping[str, object]
    target: Mapping[str, object]
    is_full_refresh: bool


@dataclass(slots=True)
class Rendering:
    """The state of one rendering: what it reads, what it has written, and the budget
    that is left.

    `edges` are the texts that `stream` and `ref` produce, by name. `reached` has the
    ids of the parts that this rendering has run and others may not: bodies of branches
    and loops, sides of conditional expressions, macros. `source` is the file of the
    code that is running: the model's, or that of a macro.
    """

    source: SourceText
    macros: Mapping[str, Macro]
    vars: Mapping[str, object]
    edges: Mapping[str, Mapping[str, str]]
    module: Scope
    budget: Library = field(default_factory=Library)
    out: list[str] = field(default_factory=list)
    length: int = 0
    written: Pieces = field(init=False)
    openings: dict[int, int] = field(default_factory=dict)
    depth: int = 0
    callers: list[Caller | None] = field(default_factory=list)
    reached: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.written = Pieces(self.source)

    def emit(self, text: str, origin: int, verbatim: bool) -> None:
        """Write a text. `origin` is the offset in the source that it comes from;
        `verbatim` is true if it is copied from there."""
        if text:
            self.written.pieces.append(Piece(self.length, origin, verbatim))
            if isinstance(text, Captured):
                self.written.captured[self.length] = text
            self.length += len(text)
            if self.length > values.MAX_TEXT:
                raise too_large(f"writes more than {values.MAX_TEXT} characters")
            self.budget.text(len(text))
            self.out.append(text)

    def opening(self, item: nodes.Node) -> int:
        """The offset of an expression's `{{`, cached."""
        if id(item) not in self.openings:
            self.openings[id(item)] = self.source.text.rfind("{{", 0, start_of(item))
        return self.openings[id(item)]

    def inner(self, scope: Scope) -> Scope:
        """A copy of a scope, for a body inside of it."""
        self.budget.charge(len(scope) // values.CHARACTERS_A_STEP)
        return scope.copy()

    def join(self, texts: list[str]) -> str:
        """The texts concatenated, charged to the budget."""
        self.budget.text(sum(map(len, texts)))
        return "".join(texts)

    def capture(self, body: Iterable[nodes.Node], scope: Scope) -> Captured:
        """The text that a body writes, which is returned instead of being written
        out."""
        out, length, written = self.out, self.length, self.written
        self.out, self.length, self.written = [], 0, Pieces(self.source)
        try:
            _write(self, body, scope)
            return Captured.of(self.join(self.out), self.written)
        finally:
            self.out, self.length, self.written = out, length, written


def run(state: Rendering, body: Iterable[nodes.Node]) -> tuple[str, tuple[Piece, ...]]:
    """The text that `body` writes, and the origin of each piece of it. Raises
    `TemplateError` if it cannot be rendered."""
    try:
        _write(state, body, state.module)
    except RecursionError:
        raise too_large("is nested too deeply") from None
    text = "".join(state.out)
    check_comments(text, state.written)
    return text, tuple(state.written.pieces)


# Statements.


def _write(state: Rendering, body: Iterable[nodes.Node], scope: Scope) -> None:
    part: nodes.Node | None = None
    try:
        for node in body:
            if type(node) is nodes.Output:
                for part in node.nodes:
                    _write_output(state, part, scope)
            else:
                part = node
                state.budget.charge(1)
                _STATEMENTS[type(node)](state, node, scope)
    except TemplateError as fault:
        if fault.at is None and part is not None:
            fault.at = part.lineno
        raise


def _write_output(state: Rendering, item: nodes.Node, scope: Scope) -> None:
    state.budget.charge(1)
    if type(item) is nodes.TemplateData:
        state.emit(item.data, item.lineno, True)
    else:
        text = values.output_of(state.budget, _value(state, item, scope), item.lineno)
        state.emit(text, state.opening(item), False)


def _write_if(state: Rendering, node: nodes.If, scope: Scope) -> None:
    taken = next(
        (
            branch.body
            for branch in (node, *node.elif_)
            if _value(state, branch.test, scope)
        ),
        node.else_,
    )
    state.reached.add(id(taken))
    _write(state, taken, scope)


_LOOP = ("index", "index0", "revindex", "revindex0", "first", "last", "length")


def _write_for(state: Rendering, node: nodes.For, scope: Scope) -> None:
    items = _value(state, node.iter, scope)
    if not isinstance(items, str | list | tuple | dict):
        what = f"{values.kind_of(items).capitalize()} cannot be gone through."
        raise TemplateError("template-failed", what, at=_at(node.iter))
    state.budget.charge(len(items))
    at, test = node.lineno, node.test
    items = [
        item
        for item in items
        if test is None
        or _value(state, test, _assign(node.target, item, state.inner(scope), at))
    ]
    count = len(items)
    for index, item in enumerate(items):
        state.budget.charge(1)
        inner = _assign(node.target, item, state.inner(scope), at)
        numbers = (
            index + 1,
            index,
            count - index,
            count - index - 1,
            index == 0,
            index == count - 1,
            count,
        )
        inner["loop"] = loop = dict[str, Any](zip(_LOOP, numbers, strict=True))
        if index:
            loop["previtem"] = items[index - 1]
        if index + 1 < count:
            loop["nextitem"] = items[index + 1]
        _write(state, node.body, inner)
    state.reached.add(id(node.body if items else node.else_))
    if not items:
        _write(state, node.else_, state.inner(scope))


def _assign(target: nodes.Node, value: Any, scope: Scope, at: int) -> Scope:
    match target:
        case nodes.Name():
            scope[target.name] = value
        case nodes.NSRef():
            namespace = scope.get(target.name)
            if not isinstance(namespace, Namespace):
                what = f"'{target.name}' is no namespace, and only entries of one can be set."
                raise TemplateError(
                    "template-forbidden",
                    what,
                    f"{{% set {target.name} = namespace() %}}",
                    at,
                )
            namespace[target.attr] = value
        case nodes.Tuple():
            if not isinstance(value, list | tuple) or len(value) != len(target.items):
                raise TemplateError(
                    "template-failed",
                    f"{len(target.items)} names need as many values.",
                    at=at,
                )
            for name, item in zip(target.items, value, strict=True):
                _assign(name, item, scope, at)
    return scope


def _captured(
    state: Rendering, block: nodes.AssignBlock | nodes.FilterBlock, scope: Scope
) -> Any:
    """The text of a block after the block's filter."""
    text = state.capture(block.body, state.inner(scope))
    return (
        text
        if block.filter is None
        else _value(state, block.filter, {**state.inner(scope), CAPTURED: text})
    )


def _write_with(state: Rendering, node: nodes.With, scope: Scope) -> None:
    inner = state.inner(scope)
    for target, value in zip(node.targets, node.values, strict=True):
        _assign(target, _value(state, value, scope), inner, node.lineno)
    _write(state, node.body, inner)


def _write_call_block(state: Rendering, block: nodes.CallBlock, scope: Scope) -> None:
    around = state.callers[-1] if state.callers else None
    source = state.source

    def caller(arguments: list[Any]) -> str:
        state.reached.add(id(block.body))
        try:
            return _invoke(
                state,
                "caller",
                block,
                source,
                arguments,
                {},
                state.inner(scope),
                around,
            )
        except TemplateError as fault:
            fault.blocks += 1
            raise

    try:
        text = _call_macro(state, block.call, scope, caller)
    except TemplateError as fault:
        fault.blocks = max(0, fault.blocks - 1)
        fault.at = _at(block.call) if fault.at is None else fault.at
        raise
    state.emit(text, state.source.text.rfind("{%", 0, block.lineno), False)


# Tables by the type of the node are faster than a `match`, which tries its cases in
# turn.
_STATEMENTS: dict[type[nodes.Node], Callable[[Rendering, Any, Scope], object]] = {
    nodes.If: _write_if,
    nodes.For: _write_for,
    nodes.Assign: lambda state, node, scope: _assign(
        node.target, _value(state, node.node, scope), scope, node.lineno
    ),
    nodes.AssignBlock: lambda state, node, scope: _assign(
        node.target, _captured(state, node, scope), scope, node.lineno
    ),
    nodes.FilterBlock: lambda state, node, scope: state.emit(
        values.output_of(state.budget, _captured(state, node, scope), node.lineno),
        node.lineno,
        False,
    ),
    nodes.With: _write_with,
    nodes.CallBlock: _write_call_block,
    nodes.Macro: lambda state, node, scope: None,
}


# Expressions.


def _value(state: Rendering, node: nodes.Node, scope: Scope) -> Any:
    """The value of an expression. Raises `TemplateError`, with its offset, if it has
    none."""
    value = _value_or_missing(state, node, scope)
    if type(value) is MissingEntry:
        known = value._undefined_obj if isinstance(value._undefined_obj, dict) else ()
        hint = answer("template", entry_of(node)) or did_you_mean(
            str(value._undefined_name), map(str, known)
        )
        raise TemplateError(
            "undefined-variable", value._undefined_message, hint, _at(node)
        )
    return value


def _value_or_missing(state: Rendering, node: nodes.Node, scope: Scope) -> Any:
    state.budget.left -= 1
    try:
        return _EXPRESSIONS[type(node)](state, node, scope)
    except TemplateError as fault:
        if fault.at is None:
            fault.at, fault.fix = (
                _at(node),
                answer("template", entry_of(node)) or fault.fix,
            )
        raise
    except UndefinedError as error:
        raise TemplateError(
            "undefined-variable", str(error.message), at=_at(node)
        ) from None
    except (
        TypeError,
        ValueError,
        ArithmeticError,
        LookupError,
        AttributeError,
        TemplateRuntimeError,
    ) as error:
        raise TemplateError(
            "template-failed", f"This cannot be computed: {error}.", at=_at(node)
        ) from None


def _at(node: nodes.Node) -> int:
    """The offset to which an error in an expression refers: for a call, that of the
    function's or method's name."""
    match node:
        case nodes.Call():
            return node.node.lineno
        case nodes.Getattr() | nodes.Getitem() if (
            getattr(node.node, "name", "") == "target"
        ):
            return node.node.lineno
        case _:
            return node.lineno


def _evaluate_item(state: Rendering, node: nodes.Getitem, scope: Scope) -> Any:
    value = _value(state, node.node, scope)
    if not isinstance(node.arg, nodes.Slice):
        return values.item_of(value, _value(state, node.arg, scope))
    parts = (node.arg.start, node.arg.stop, node.arg.step)
    bounds = [None if part is None else _value(state, part, scope) for part in parts]
    if not isinstance(value, str | list | tuple):
        raise failed(f"{values.kind_of(value).capitalize()} has no slices.")
    state.budget.charge(
        1 + len(value) // (values.CHARACTERS_A_STEP if isinstance(value, str) else 1)
    )
    return value[slice(*bounds)]


def _evaluate_filter(
    state: Rendering, node: nodes.Filter | nodes.Test, scope: Scope
) -> Any:
    read = _value_or_missing if node.name in TAKE_MISSING else _value
    value = scope[CAPTURED] if node.node is None else read(state, node.node, scope)
    call = (
        state.budget.call_filter
        if type(node) is nodes.Filter
        else state.budget.call_test
    )
    return call(node.name, value, *_arguments(state, node, scope))


_COMPARISONS = {"lteq": ("le", True), "gteq": ("ge", True), "notin": ("in", False)}


def _evaluate_comparison(state: Rendering, node: nodes.Compare, scope: Scope) -> bool:
    left = _value(state, node.expr, scope)
    for operand in node.ops:
        right = _value(state, operand.expr, scope)
        test, wanted = _COMPARISONS.get(operand.op, (operand.op, True))
        if state.budget.call_test(test, left, (right,), {}) is not wanted:
            return False
        left = right
    return True


def _evaluate_choice(state: Rendering, node: nodes.CondExpr, scope: Scope) -> Any:
    chosen = node.expr1 if _value(state, node.test, scope) else node.expr2
    state.reached.add(id(chosen))
    return "" if chosen is None else _value(state, chosen, scope)


def _evaluate_call(state: Rendering, node: Any, scope: Scope) -> Any:
    if isinstance(node.node, nodes.Getattr):
        value = _value(state, node.node.node, scope)
        return state.budget.call_method(
            value, node.node.attr, *_arguments(state, node, scope)
        )
    name = node.node.name
    if name == "config":
        return ""
    if name in ("stream", "ref"):
        return state.edges[name][node.args[0].value]
    if name == "var":
        return _read_var(state, node, scope)
    if name in state.macros:
        return _call_macro(state, node, scope, None)
    arguments, named = _arguments(state, node, scope)
    match name, arguments:
        case "namespace", [] | [dict()]:
            return Namespace(*arguments, **named)
        case "range", _:
            made = range(*arguments)
            state.budget.charge(len(made))
            return list(made)
        case "caller", _ if caller := state.callers[-1]:
            return caller(arguments)
        case "caller", _:
            raise failed(
                "'caller()' gives the text of a {% call %} block, and this macro was called without one."
            )
    raise failed(f"'{name}' does not take these arguments.")


def _read_var(state: Rendering, node: Any, scope: Scope) -> Any:
    name = node.args[0].value
    if name in state.vars:
        return values.value_of(state.vars[name])
    for default in (*node.args[1:], *(keyword.value for keyword in node.kwargs)):
        return _value(state, default, scope)
    where = "Set it in [tool.lakesql.vars] of pyproject.toml or with --vars, or give var() a default."
    fix = f"{where} {did_you_mean(name, state.vars)}".rstrip()
    raise TemplateError(
        "undefined-variable", f"The variable '{name}' is set nowhere.", fix
    )


def _arguments(
    state: Rendering, node: Any, scope: Scope
) -> tuple[list[Any], dict[str, Any]]:
    named = {
        keyword.key: _value(state, keyword.value, scope) for keyword in node.kwargs
    }
    return [_value(state, argument, scope) for argument in node.args], named


def _call_macro(
    state: Rendering, call: Any, scope: Scope, caller: Caller | None
) -> str:
    macro = state.macros[call.node.name]
    state.reached.add(id(macro.node))
    arguments, named = _arguments(state, call, scope)
    if state.depth >= MAX_MACRO_DEPTH:
        raise too_large(f"calls macros more than {MAX_MACRO_DEPTH} deep")
    inner = state.inner(state.module) if macro.local else {}
    state.depth += 1
    try:
        arguments = _bind_surplus(macro, arguments, named, inner)
        return _invoke(
            state,
            macro.node.name,
            macro.node,
            macro.source,
            arguments,
            named,
            inner,
            caller,
        )
    except TemplateError as fault:
        if fault.at is not None and not fault.blocks:
            where = f"In macro '{macro.node.name}' at {macro.source.place(fault.at)}."
            if where not in fault.inside:  # one that calls itself is named once
                fault.inside.append(where)
            fault.at = None
        raise
    finally:
        state.depth -= 1


def _bind_surplus(
    macro: Macro, arguments: list[Any], named: dict[str, Any], scope: Scope
) -> list[Any]:
    """The positional arguments for a macro's parameters. Those beyond its parameters
    are put into `scope` as its `varargs` and `kwargs`, if it reads these."""
    known = [argument.name for argument in macro.node.args]
    if "kwargs" in macro.surplus:
        scope["kwargs"] = {key: named.pop(key) for key in [*named] if key not in known}
    if "varargs" not in macro.surplus:
        return arguments
    scope["varargs"] = tuple(arguments[len(known) :])
    return arguments[: len(known)]


def _invoke(
    state: Rendering,
    name: str,
    block: nodes.Macro | nodes.CallBlock,
    source: SourceText,
    arguments: list[Any],
    named: dict[str, Any],
    scope: Scope,
    caller: Caller | None,
) -> str:
    """The text of the body of a macro or a call block, with its parameters bound.
    `source` is the file that the body is in."""
    known = [argument.name for argument in block.args]
    if len(arguments) > len(known):
        raise failed(f"'{name}' takes {len(known)} arguments, not {len(arguments)}.")
    for key in named:
        if key not in known[len(arguments) :]:
            hint = did_you_mean(key, known)
            raise TemplateError(
                "template-failed", f"'{name}' takes no further argument '{key}'.", hint
            )
    named.update(zip(known, arguments, strict=False))
    state.callers.append(caller)
    around, state.source = state.source, source
    try:
        required = len(known) - len(block.defaults)
        for index, parameter in enumerate(known):
            if parameter in named:
                scope[parameter] = named[parameter]
            elif index >= required:
                scope[parameter] = _value(
                    state, block.defaults[index - required], scope
                )
            else:
                raise failed(f"'{name}' needs a value for '{parameter}'.")
        return state.capture(block.body, scope)
    finally:
        state.source = around
        state.callers.pop()


_EXPRESSIONS: dict[type[nodes.Node], Callable[[Rendering, Any, Scope], Any]] = {
    **dict.fromkeys((nodes.Filter, nodes.Test), _evaluate_filter),
    **dict.fromkeys(
        (
            nodes.Add,
            nodes.Sub,
            nodes.Mul,
            nodes.Div,
            nodes.FloorDiv,
            nodes.Mod,
            nodes.Pow,
        ),
        lambda state, node, scope: values.compute(
            state.budget,
            node.operator,
            _value(state, node.left, scope),
            _value(state, node.right, scope),
        ),
    ),
    nodes.Call: _evaluate_call,
    nodes.Compare: _evaluate_comparison,
    nodes.CondExpr: _evaluate_choice,
    nodes.Getitem: _evaluate_item,
    nodes.Name: lambda state, node, scope: (
        scope[node.name]
        if node.name in scope
        else MissingEntry(f"'{node.name}' has no value here.")
    ),
    nodes.Const: lambda state, node, scope: node.value,
    nodes.Getattr: lambda state, node, scope: values.item_of(
        _value(state, node.node, scope), node.attr
    ),
    nodes.And: lambda state, node, scope: (
        _value(state, node.left, scope) and _value(state, node.right, scope)
    ),
    nodes.Or: lambda state, node, scope: (
        _value(state, node.left, scope) or _value(state, node.right, scope)
    ),
    nodes.Not: lambda state, node, scope: not _value(state, node.node, scope),
    nodes.Neg: lambda state, node, scope: -_value(state, node.node, scope),
    nodes.Pos: lambda state, node, scope: +_value(state, node.node, scope),
    nodes.Concat: lambda state, node, scope: state.join(
        [
            values.output_of(state.budget, _value(state, item, scope), _at(item))
            for item in node.nodes
        ]
    ),
    nodes.List: lambda state, node, scope: [
        _value(state, item, scope) for item in node.items
    ],
    nodes.Tuple: lambda state, node, scope: tuple(
        [_value(state, item, scope) for item in node.items]
    ),
    nodes.Dict: lambda state, node, scope: {
        values.key_of(_value(state, pair.key, scope)): _value(state, pair.value, scope)
        for pair in node.items
    },
}
