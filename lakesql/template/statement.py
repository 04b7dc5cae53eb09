"""Statements and macros of a template, from Jinja's tree to ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from jinja2 import nodes

from lakesql.template import nodes as tree
from lakesql.template.config_call import read_config_call
from lakesql.template.expression import read_expression
from lakesql.template.jinja import start_of
from lakesql.template.reader import FUNCTIONS, RESERVED, Reader, reserved_name


def read_statements(reader: Reader, body: Iterable[nodes.Node]) -> tree.Body:
    """The statements of a model's file, in which `config(...)` and macros may stand at the top."""
    statements: list[tree.Statement] = []
    for node in body:
        if isinstance(node, nodes.Macro):
            _read_local_macro(reader, node)
        elif isinstance(node, nodes.Output):
            for item in node.nodes:
                if isinstance(item, nodes.Call) and isinstance(item.node, nodes.Name) and item.node.name == "config":
                    read_config_call(reader, item, item.node.lineno)
                else:
                    statements.append(_read_output(reader, item))
        else:
            statements.extend(_read_statement(reader, node))
    return tuple(statements)


def _read_local_macro(reader: Reader, node: nodes.Macro) -> None:
    if node.name in reader.macros or node.name in reader.locals:
        what = f"There is a macro '{node.name}' already."
        reader.report("duplicate-macro", node.lineno, what, "Rename one of the two.")
    elif node.name in RESERVED:
        reader.problems.append(reserved_name(node.name, reader.source.place(node.lineno)))
    else:
        reader.macros |= {node.name}
        reader.locals[node.name] = read_macro(reader, node)


def read_macro(reader: Reader, node: nodes.Macro) -> tree.Macro:
    """A macro: what it takes, writes and calls."""
    calls, reader.calls = reader.calls, set()
    before, reader.in_macro = reader.in_macro, node.name
    parameters, body = _read_parameters_and_body(reader, node)
    called, reader.calls, reader.in_macro = frozenset(reader.calls), calls, before
    text = reader.source.text[_tag(reader, node) : _end_of(reader, node)]
    return tree.Macro(node.name, parameters, body, called, reader.source, node.lineno, text, local=not reader.pure)


def _tag(reader: Reader, node: nodes.Node) -> int:
    return max(reader.source.text.rfind("{%", 0, node.lineno), 0)


_END_OF_MACRO = re.compile(r"\bendmacro\b[^%]*%\}")


def _end_of(reader: Reader, node: nodes.Macro) -> int:
    """The end of the macro's text: of the first end tag behind its last node."""
    last = max((child.lineno for child in node.find_all(nodes.Node)), default=node.lineno)
    found = _END_OF_MACRO.search(reader.source.text, last)
    return found.end() if found else len(reader.source.text)


def _read_parameters_and_body(reader: Reader, node: nodes.Macro | nodes.CallBlock) -> tuple[tree.Parameters, tree.Body]:
    reader.scopes.append(set())
    defaults: list[nodes.Expr | None] = [*[None] * (len(node.args) - len(node.defaults)), *node.defaults]
    parameters: list[tuple[str, tree.Expression | None]] = []
    for argument, default in zip(node.args, defaults, strict=True):
        parameters.append((argument.name, None if default is None else read_expression(reader, default)))
        reader.bind(argument.name, argument.lineno)
    body = _read_body(reader, node.body)
    reader.scopes.pop()
    return tuple(parameters), body


def _read_body(reader: Reader, body: Iterable[nodes.Node]) -> tree.Body:
    statements: list[tree.Statement] = []
    for node in body:
        if isinstance(node, nodes.Output):
            statements.extend(_read_output(reader, item) for item in node.nodes)
        else:
            statements.extend(_read_statement(reader, node))
    return tuple(statements)


def _read_output(reader: Reader, item: nodes.Expr) -> tree.Statement:
    if isinstance(item, nodes.TemplateData):
        return tree.Text(item.lineno, item.data)
    return tree.Emit(reader.source.text.rfind("{{", 0, start_of(item)), read_expression(reader, item))


def _inner(reader: Reader, body: Iterable[nodes.Node]) -> tree.Body:
    """A body that is a scope of its own."""
    reader.scopes.append(set())
    statements = _read_body(reader, body)
    reader.scopes.pop()
    return statements


def _read_statement(reader: Reader, node: nodes.Node) -> Iterable[tree.Statement]:
    at = node.lineno
    match node:
        case nodes.If():
            yield _read_if(reader, node, node.elif_)
        case nodes.For():
            yield _read_for(reader, node)
        case nodes.Assign():
            value = read_expression(reader, node.node)
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
            call = read_expression(reader, node.call)
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


def _read_if(reader: Reader, node: nodes.If, others: Sequence[nodes.If], top: nodes.If | None = None) -> tree.If:
    top = top or node
    condition, body = read_expression(reader, node.test), _read_body(reader, node.body)
    if others:
        return tree.If(node.lineno, condition, body, (_read_if(reader, others[0], others[1:], top),))
    return tree.If(node.lineno, condition, body, _read_body(reader, top.else_))


def _read_for(reader: Reader, node: nodes.For) -> tree.For:
    if node.recursive:
        reader.report("template-forbidden", node.lineno, "Templates have no recursive loops.")
    items = read_expression(reader, node.iter)
    targets = _read_targets(reader, node.target)
    reader.scopes.append(set())
    _bind_targets(reader, targets, node.lineno)
    condition = None if node.test is None else read_expression(reader, node.test)
    reader.scopes[-1].add("loop")
    body = _read_body(reader, node.body)
    reader.scopes.pop()
    return tree.For(node.lineno, targets, items, condition, body, _inner(reader, node.else_))


def _read_with(reader: Reader, node: nodes.With) -> tree.With:
    bound: list[tuple[tree.Targets, tree.Expression]] = []
    reader.scopes.append(set())
    for target, value in zip(node.targets, node.values, strict=True):
        read = read_expression(reader, value)
        targets = _read_targets(reader, target)
        _bind_targets(reader, targets, node.lineno)
        bound.append((targets, read))
    body = _read_body(reader, node.body)
    reader.scopes.pop()
    return tree.With(node.lineno, tuple(bound), body)


def _read_targets(reader: Reader, node: nodes.Node) -> tree.Targets:
    match node:
        case nodes.Name():
            return node.name
        case nodes.Tuple():
            return tuple(_read_targets(reader, item) for item in node.items)
        case _:
            reader.report("template-forbidden", node.lineno, "Only names can be set in a template.")
            return ()


def _bind_targets(reader: Reader, targets: tree.Targets, at: int) -> None:
    if isinstance(targets, str):
        reader.bind(targets, at)
        return
    for target in targets:
        _bind_targets(reader, target, at)


def _read_captured(reader: Reader, node: nodes.Filter | None, at: int) -> tree.Expression:
    return tree.Variable(at, tree.CAPTURED) if node is None else read_expression(reader, node)
