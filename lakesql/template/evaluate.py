"""Runs a checked template: statements write text, expressions give values, everything within one `Budget`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, assert_never

from lakesql.errors import did_you_mean
from lakesql.template import nodes as tree
from lakesql.template import values
from lakesql.template.values import Budget, Missing, TemplateError

MAX_MACRO_DEPTH = 30


@dataclass(frozen=True, slots=True)
class Names:
    """What the seven names mean in one rendering. `target` holds what a template may read of the target."""

    stream: Callable[[str], str]
    ref: Callable[[str], str]
    this: str
    vars: Mapping[str, object]
    target: Mapping[str, object]
    is_full_refresh: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """From `start` on, rendered text comes from `origin` of the source: character by character, or all from there."""

    start: int
    origin: int
    verbatim: bool


def run(body: tree.Body, names: Names, macros: Mapping[str, tree.Macro]) -> tuple[str, tuple[Piece, ...]]:
    """The text that `body` writes, and where each piece of it comes from. A `TemplateError` when it cannot go on."""
    state = _Run(names, macros)
    try:
        _write(state, body, state.module)
    except RecursionError:
        raise values.too_large("is nested too deeply") from None
    return "".join(state.out), tuple(state.pieces or ())


class _Scope:
    """Variables of a block, and the block around it."""

    __slots__ = ("around", "bound")

    def __init__(self, around: _Scope | None = None, bound: dict[str, Any] | None = None) -> None:
        self.around = around
        self.bound: dict[str, Any] = {} if bound is None else bound

    def get(self, name: str) -> Any:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.bound:
                return scope.bound[name]
            scope = scope.around
        return Missing(f"'{name}' has no value here.")


@dataclass(slots=True)
class _Run:
    """One rendering: what it reads, what it has written, and what it may still spend."""

    names: Names
    macros: Mapping[str, tree.Macro]
    budget: Budget = field(default_factory=Budget)
    out: list[str] = field(default_factory=list)
    length: int = 0
    pieces: list[Piece] | None = field(default_factory=list)
    depth: int = 0
    callers: list[Callable[[list[Any]], str] | None] = field(default_factory=list)
    module: _Scope = field(default_factory=lambda: _Scope())

    def emit(self, text: str, origin: int, verbatim: bool) -> None:
        if text:
            if self.pieces is not None:
                self.pieces.append(Piece(self.length, origin, verbatim))
            self.length += len(text)
            if self.length > values.MAX_TEXT:
                raise values.too_large(f"writes more than {values.MAX_TEXT} characters")
            self.budget.text(len(text))
            self.out.append(text)

    @contextmanager
    def capturing(self) -> Iterator[list[str]]:
        """Collects what is written inside instead of writing it."""
        out, length, pieces = self.out, self.length, self.pieces
        self.out, self.length, self.pieces = [], 0, None
        try:
            yield self.out
        finally:
            self.out, self.length, self.pieces = out, length, pieces


# Statements.


def _write(state: _Run, body: tree.Body, scope: _Scope) -> None:
    for statement in body:
        state.budget.charge(1)
        match statement:
            case tree.Text(at, text):
                state.emit(text, at, True)
            case tree.Emit(at, value):
                state.emit(values.text_of(state.budget, _value(state, value, scope)), at, False)
            case tree.If():
                _write(
                    state, statement.body if _value(state, statement.condition, scope) else statement.otherwise, scope
                )
            case tree.For():
                _write_for(state, statement, scope)
            case tree.Set(at, targets, value):
                _bind(scope.bound, targets, _value(state, value, scope), at)
            case tree.Capture():
                _write_capture(state, statement, scope)
            case tree.With():
                inner = _Scope(scope)
                for targets, value in statement.bound:
                    _bind(inner.bound, targets, _value(state, value, scope), statement.at)
                _write(state, statement.body, inner)
            case tree.CallBlock():
                _write_call_block(state, statement, scope)
            case _:
                assert_never(statement)


def _write_for(state: _Run, loop: tree.For, scope: _Scope) -> None:
    items = _value(state, loop.items, scope)
    if not isinstance(items, str | list | tuple | dict):
        raise TemplateError(
            "template-failed", f"{values.kind_of(items).capitalize()} cannot be gone through.", at=loop.items.at
        )
    state.budget.charge(len(items))
    items = list(items)
    if loop.condition is not None:
        items = [item for item in items if _passes(state, loop, item, scope)]
    for index, item in enumerate(items):
        state.budget.charge(1)
        inner = _Scope(scope, {"loop": _loop(state, items, index)})
        _bind(inner.bound, loop.targets, item, loop.at)
        _write(state, loop.body, inner)
    if not items:
        _write(state, loop.otherwise, _Scope(scope))


def _passes(state: _Run, loop: tree.For, item: Any, scope: _Scope) -> bool:
    assert loop.condition is not None
    inner = _Scope(scope)
    _bind(inner.bound, loop.targets, item, loop.at)
    return bool(_value(state, loop.condition, inner))


def _loop(state: _Run, items: list[Any], index: int) -> dict[str, Any]:
    loop = {
        "index": index + 1,
        "index0": index,
        "revindex": len(items) - index,
        "revindex0": len(items) - index - 1,
        "first": index == 0,
        "last": index == len(items) - 1,
        "length": len(items),
    }
    if index:
        loop["previtem"] = items[index - 1]
    if index + 1 < len(items):
        loop["nextitem"] = items[index + 1]
    return loop


def _bind(bound: dict[str, Any], targets: tree.Targets, value: Any, at: int) -> None:
    if isinstance(targets, str):
        bound[targets] = value
        return
    if not isinstance(value, list | tuple) or len(value) != len(targets):
        raise TemplateError("template-failed", f"{len(targets)} names need as many values.", at=at)
    for target, item in zip(targets, value, strict=True):
        _bind(bound, target, item, at)


def _write_capture(state: _Run, block: tree.Capture, scope: _Scope) -> None:
    inner = _Scope(scope)
    with state.capturing() as written:
        _write(state, block.body, inner)
    text = _joined(state, written)
    value = _value(state, block.value, _Scope(scope, {tree.CAPTURED: text}))
    if block.name is None:
        state.emit(values.text_of(state.budget, value), block.at, False)
    else:
        scope.bound[block.name] = value


def _write_call_block(state: _Run, block: tree.CallBlock, scope: _Scope) -> None:
    around = state.callers[-1] if state.callers else None

    def caller(arguments: list[Any]) -> str:
        inner = _Scope(scope)
        state.callers.append(around)
        try:
            _bind_parameters(state, "caller", block.parameters, arguments, {}, inner)
            with state.capturing() as written:
                _write(state, block.body, inner)
        except TemplateError as fault:
            fault.blocks += 1
            raise
        finally:
            state.callers.pop()
        return _joined(state, written)

    try:
        text = _call_macro(state, block.call, scope, caller)
    except TemplateError as fault:
        fault.blocks = max(0, fault.blocks - 1)
        fault.at = block.call.at if fault.at is None else fault.at
        raise
    state.emit(text, block.at, False)


def _joined(state: _Run, written: list[str]) -> str:
    state.budget.text(sum(map(len, written)))
    return "".join(written)


# Calls.


def _call_macro(state: _Run, call: tree.Call, scope: _Scope, caller: Callable[[list[Any]], str] | None = None) -> str:
    macro = state.macros[call.name]
    arguments = [_value(state, argument, scope) for argument in call.arguments]
    named = {name: _value(state, argument, scope) for name, argument in call.named.items()}
    if state.depth >= MAX_MACRO_DEPTH:
        raise values.too_large(f"calls macros more than {MAX_MACRO_DEPTH} deep")
    inner = _Scope(state.module if macro.local else None)
    state.depth += 1
    state.callers.append(caller)
    try:
        _bind_parameters(state, macro.name, macro.parameters, arguments, named, inner)
        with state.capturing() as written:
            _write(state, macro.body, inner)
    except TemplateError as fault:
        if fault.at is not None and not fault.blocks:
            fault.inside.append(f"In macro '{macro.name}' at {macro.source.place(fault.at)}.")
            fault.at = None
        raise
    finally:
        state.depth -= 1
        state.callers.pop()
    return _joined(state, written)


def _bind_parameters(
    state: _Run,
    name: str,
    parameters: tree.Parameters,
    arguments: list[Any],
    named: dict[str, Any],
    scope: _Scope,
) -> None:
    if len(arguments) > len(parameters):
        raise values.failed(f"'{name}' takes {len(parameters)} arguments, not {len(arguments)}.")
    known = [parameter for parameter, _ in parameters]
    for key in named:
        if key not in known[len(arguments) :]:
            raise TemplateError(
                "template-failed", f"'{name}' takes no further argument '{key}'.", did_you_mean(key, known)
            )
    for index, (parameter, default) in enumerate(parameters):
        if index < len(arguments):
            scope.bound[parameter] = arguments[index]
        elif parameter in named:
            scope.bound[parameter] = named[parameter]
        elif default is not None:
            scope.bound[parameter] = _value(state, default, scope)
        else:
            raise values.failed(f"'{name}' needs a value for '{parameter}'.")


def _call_caller(state: _Run, call: tree.Call, scope: _Scope) -> str:
    caller = state.callers[-1]
    if caller is None:
        raise values.failed("'caller()' gives the text of a {% call %} block, and this macro was called without one.")
    return caller([_value(state, argument, scope) for argument in call.arguments])


# Expressions.


def _value(state: _Run, node: tree.Expression, scope: _Scope) -> Any:
    """The value of an expression; a TemplateError that knows its place when there is none."""
    value = _value_or_missing(state, node, scope)
    if type(value) is Missing:
        raise TemplateError("undefined-variable", value.what, at=node.at)
    return value


def _value_or_missing(state: _Run, node: tree.Expression, scope: _Scope) -> Any:
    state.budget.left -= 1
    if isinstance(node, tree.Read):
        # Outside of the try: an error in here is the caller's, not the template's.
        return state.names.stream(node.name) if node.function == "stream" else state.names.ref(node.name)
    try:
        return _evaluate(state, node, scope)
    except TemplateError as fault:
        if fault.at is None:
            fault.at = node.at
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise TemplateError("template-failed", f"This cannot be computed: {error}.", at=node.at) from None


def _evaluate(state: _Run, node: tree.Computed, scope: _Scope) -> Any:
    budget = state.budget
    match node:
        case tree.Literal():
            return node.value
        case tree.Variable():
            return scope.get(node.name)
        case tree.Field():
            return _field(state.names, node)
        case tree.Var():
            return _var(state, node, scope)
        case tree.Call(name="range"):
            return values.numbers(budget, *(_value(state, item, scope) for item in node.arguments))
        case tree.Call(name="caller"):
            return _call_caller(state, node, scope)
        case tree.Call():
            return _call_macro(state, node, scope)
        case tree.Item():
            return values.item_of(_value(state, node.target, scope), _value(state, node.key, scope))
        case tree.Filter():
            target = _target(state, node, scope)
            arguments = [_value(state, item, scope) for item in node.arguments]
            named = {name: _value(state, item, scope) for name, item in node.named.items()}
            return values.apply_filter(budget, target, node.name, arguments, named)
        case tree.Test():
            target = _target(state, node, scope)
            return values.apply_test(budget, target, node.name, [_value(state, item, scope) for item in node.arguments])
        case tree.Method():
            target = _value(state, node.target, scope)
            return values.call_method(
                budget, target, node.name, [_value(state, item, scope) for item in node.arguments]
            )
        case tree.Binary(operator="and"):
            return _value(state, node.left, scope) and _value(state, node.right, scope)
        case tree.Binary(operator="or"):
            return _value(state, node.left, scope) or _value(state, node.right, scope)
        case tree.Binary():
            left, right = _value(state, node.left, scope), _value(state, node.right, scope)
            return values.OPERATORS[node.operator](budget, left, right)
        case tree.Comparison():
            return _comparison(state, node, scope)
        case tree.Unary():
            value = _value(state, node.operand, scope)
            return not value if node.operator == "not" else -value if node.operator == "-" else +value
        case tree.Concat():
            texts = [values.text_of(budget, _value(state, item, scope)) for item in node.items]
            return _joined(state, texts)
        case tree.Choice():
            if _value(state, node.condition, scope):
                return _value(state, node.then, scope)
            return "" if node.otherwise is None else _value(state, node.otherwise, scope)
        case tree.Sequence():
            items = [_value(state, item, scope) for item in node.items]
            return tuple(items) if node.fixed else items
        case tree.Mapped():
            return {values.key_of(_value(state, key, scope)): _value(state, value, scope) for key, value in node.pairs}
        case tree.Slice():
            target = _value(state, node.target, scope)
            bounds = [None if item is None else _value(state, item, scope) for item in node.bounds]
            if not isinstance(target, str | list | tuple):
                raise values.failed(f"{values.kind_of(target).capitalize()} has no slices.")
            budget.charge(1 + len(target) // (values.CHARACTERS_A_STEP if isinstance(target, str) else 1))
            return target[slice(*bounds)]
        case _:
            assert_never(node)


def _target(state: _Run, node: tree.Filter | tree.Test, scope: _Scope) -> Any:
    if node.name in values.TAKE_MISSING:
        return _value_or_missing(state, node.target, scope)
    return _value(state, node.target, scope)


def _field(names: Names, node: tree.Field) -> Any:
    match node.name:
        case "this":
            return names.this
        case "is_full_refresh":
            return names.is_full_refresh
        case _:
            if node.key not in names.target:
                fix = did_you_mean(node.key, names.target)
                raise TemplateError("undefined-variable", f"The target shows templates no '{node.key}'.", fix)
            return values.value_of(names.target[node.key])


def _var(state: _Run, node: tree.Var, scope: _Scope) -> Any:
    if node.name in state.names.vars:
        return values.value_of(state.names.vars[node.name])
    if node.default is not None:
        return _value(state, node.default, scope)
    near = did_you_mean(node.name, state.names.vars)
    where = "Set it in [tool.lakesql.vars] of pyproject.toml or with --vars, or give var() a default."
    raise TemplateError("undefined-variable", f"The variable '{node.name}' is set nowhere.", f"{where} {near}".rstrip())


def _comparison(state: _Run, node: tree.Comparison, scope: _Scope) -> bool:
    left = _value(state, node.left, scope)
    for symbol, other in node.others:
        right = _value(state, other, scope)
        if not values.compare(state.budget, symbol, left, right):
            return False
        left = right
    return True
