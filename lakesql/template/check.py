"""Checks a template in one pass over Jinja's syntax tree. Whatever is not explicitly
allowed here is refused, with its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from jinja2 import nodes

from lakesql.errors import did_you_mean
from lakesql.template.config_call import read_config_call
from lakesql.template.jinja import entry_of
from lakesql.template.library import FILTERS, METHODS, TESTS
from lakesql.template.reader import (
    FUNCTIONS,
    RESERVED,
    SEVEN,
    SURPLUS,
    Macro,
    Reader,
    Reference,
    is_unicode,
    reserved_name,
)
from lakesql.template.values import MAX_INTEGER_BITS
from lakesql.words import answer, suggest

MAX_ELIFS = 500


def check_model(reader: Reader, body: Iterable[nodes.Node]) -> None:
    """Check the statements of a model's file. `config(...)` and macros are allowed at
    its top level."""
    for node in body:
        if isinstance(node, nodes.Macro):
            _check_local_macro(reader, node)
            continue
        for item in node.nodes if isinstance(node, nodes.Output) else (node,):
            if (
                isinstance(item, nodes.Call)
                and isinstance(item.node, nodes.Name)
                and item.node.name == "config"
            ):
                read_config_call(reader, item, item.node.lineno)
            else:
                _check(reader, item)


def _check_local_macro(reader: Reader, node: nodes.Macro) -> None:
    if node.name in reader.macros or node.name in reader.locals:
        reader.report(
            "duplicate-macro", node.lineno, f"There is a macro '{node.name}' already."
        )
    elif node.name in RESERVED | FUNCTIONS:
        reader.problems.append(
            reserved_name(node.name, reader.source.place(node.lineno))
        )
    else:
        reader.macros |= {node.name}
        reader.locals[node.name] = check_macro(reader, node)


_END_OF_MACRO = re.compile(r"\bendmacro\b[^%]*%\}")


def check_macro(reader: Reader, node: nodes.Macro) -> Macro:
    """Check a macro. Returns it with the macros that it calls, and with its own text,
    up to its end tag."""
    calls, reader.calls = reader.calls, set()
    before, reader.in_macro = reader.in_macro, node.name
    reader.scopes.append({*SURPLUS})
    _check_parameters_and_body(reader, node)
    reader.scopes.pop()
    called, reader.calls, reader.in_macro = frozenset(reader.calls), calls, before
    text = reader.source.text
    last = max(
        (child.lineno for child in node.find_all((nodes.Expr, nodes.Stmt))),
        default=node.lineno,
    )
    end = _END_OF_MACRO.search(text, last)
    own = text[
        max(text.rfind("{%", 0, node.lineno), 0) : end.end() if end else len(text)
    ]
    surplus = SURPLUS.intersection(name.name for name in node.find_all(nodes.Name)) - {
        it.name for it in node.args
    }
    return Macro(
        node, called, reader.source, own, local=not reader.pure, surplus=surplus
    )


def _check(reader: Reader, node: nodes.Node) -> None:
    """Check a node and all nodes below it. The streams, refs, vars and macros that it
    names are recorded in `reader`."""
    check = _CHECKS.get(type(node))
    if check is not None:
        check(reader, node)
    elif isinstance(node, nodes.Stmt):
        name = type(node).__name__.lower()
        tag = {"fromimport": "from", "scope": "autoescape"}.get(name, name)
        fix = "A template reads no other file: macros of the project are known by their names."
        at = node.body[0].lineno if isinstance(node, nodes.Scope) else node.lineno
        reader.report(
            "template-forbidden", at, f"Templates have no {{% {tag} %}}.", fix
        )
    else:
        reader.report(
            "template-forbidden",
            node.lineno,
            f"Templates have no {type(node).__name__.lower()}.",
        )


def _check_all(reader: Reader, found: Iterable[nodes.Node | None]) -> None:
    for node in found:
        if node is not None:
            _check(reader, node)


def _check_children(reader: Reader, node: nodes.Node) -> None:
    _check_all(reader, node.iter_child_nodes())


def _check_scope(
    reader: Reader,
    body: Iterable[nodes.Node],
    bound: Iterable[tuple[nodes.Node, nodes.Node | None, int]] = (),
) -> None:
    """Check a body with a scope of its own. `bound` are the variables that are set in
    it: each target with its value and its offset."""
    reader.scopes.append(set())
    for target, value, at in bound:
        _check_all(reader, (value,))
        _bind(reader, target, at)
    _check_all(reader, body)
    reader.scopes.pop()


# Statements.


def _check_parameters_and_body(
    reader: Reader, node: nodes.Macro | nodes.CallBlock
) -> None:
    defaults = [*[None] * (len(node.args) - len(node.defaults)), *node.defaults]
    bound = zip(
        node.args, defaults, (argument.lineno for argument in node.args), strict=True
    )
    _check_scope(reader, node.body, bound)


def _check_if(reader: Reader, node: nodes.If) -> None:
    if len(node.elif_) > MAX_ELIFS:
        reader.report(
            "template-too-large", node.lineno, f"An if has at most {MAX_ELIFS} elifs."
        )
    _check_children(reader, node)


def _check_for(reader: Reader, node: nodes.For) -> None:
    if node.recursive:
        reader.report(
            "template-forbidden", node.lineno, "Templates have no recursive loops."
        )
    _check(reader, node.iter)
    reader.scopes.append(set())
    _bind(reader, node.target, node.lineno)
    _check_all(reader, (node.test,))
    reader.scopes[-1].add("loop")
    _check_all(reader, node.body)
    reader.scopes.pop()
    _check_scope(reader, node.else_)


def _check_assign(reader: Reader, node: nodes.Assign) -> None:
    _check(reader, node.node)
    _bind(reader, node.target, node.lineno)


def _check_block(reader: Reader, node: nodes.AssignBlock | nodes.FilterBlock) -> None:
    _check_scope(reader, node.body)
    _check_all(reader, (node.filter,))
    if isinstance(node, nodes.AssignBlock):
        _bind(reader, node.target, node.lineno)
        if isinstance(node.target, nodes.Tuple):
            reader.report(
                "template-forbidden", node.lineno, "A block is set to one name."
            )


def _check_call_block(reader: Reader, node: nodes.CallBlock) -> None:
    _check(reader, node.call)
    _check_parameters_and_body(reader, node)
    called = node.call.node if isinstance(node.call, nodes.Call) else None
    if not isinstance(called, nodes.Name) or called.name not in reader.macros:
        reader.report(
            "template-forbidden", node.lineno, "A {% call %} block calls a macro."
        )


def _bind(reader: Reader, node: nodes.Node, at: int) -> None:
    """Check the target of an assignment, and bind its variables: a name, several names,
    or an entry of a `namespace()`."""
    match node:
        case nodes.Name():
            if node.name in RESERVED:
                reader.problems.append(
                    reserved_name(node.name, reader.source.place(at))
                )
            reader.scopes[-1].add(node.name)
        case nodes.Tuple():
            for item in node.items:
                _bind(reader, item, at)
        case nodes.NSRef() if reader.is_bound(node.name) and not node.attr.startswith(
            "_"
        ):
            pass
        case _:
            fix = "Entries of a namespace can be set too: {% set ns = namespace(found=false) %} comes first."
            reader.report(
                "template-forbidden", at, "Only names can be set in a template.", fix
            )


# Expressions.


def _check_const(reader: Reader, node: nodes.Const) -> None:
    if isinstance(node.value, int) and node.value.bit_length() > MAX_INTEGER_BITS:
        reader.report(
            "template-too-large", node.lineno, "A whole number has at most 64 bits."
        )
    if isinstance(node.value, str) and not is_unicode(node.value):
        reader.report(
            "template-syntax",
            node.lineno,
            "Half of a surrogate pair is not a character.",
        )


def _check_name(reader: Reader, node: nodes.Name) -> None:
    name, at = node.name, node.lineno
    if reader.is_bound(name):
        return
    if name in SEVEN and reader.pure:
        _refuse_impure(reader, name, at)
    elif name in ("this", "is_full_refresh"):
        reader.reads.add(name)
    elif name == "target":
        reader.report(
            "name-not-called",
            at,
            "'target' is read by its fields.",
            "Write target.name.",
        )
    elif name in FUNCTIONS or name in reader.macros:
        reader.report("name-not-called", at, f"'{name}' is called: write {name}(...).")
    else:
        _refuse_unknown(reader, name, at)


def _refuse_unknown(reader: Reader, name: str, at: int) -> None:
    known = set().union(
        reader.macros,
        *reader.scopes,
        {"range", "namespace"},
        () if reader.pure else SEVEN,
    )
    reader.report(
        "undefined-variable",
        at,
        f"Nothing is named '{name}' here.",
        suggest("template", name, known),
    )


def _refuse_impure(reader: Reader, name: str, at: int) -> None:
    what = f"The macro '{reader.in_macro}' uses '{name}': a macro sees its arguments and other macros alone."
    fix = f"Give the macro an argument for it, and pass {name} from the model."
    reader.report("macro-not-pure", at, what, fix)


def _check_call(reader: Reader, node: nodes.Call) -> None:
    if isinstance(node.node, nodes.Getattr):
        _check_method(reader, node, node.node)
        return
    if not isinstance(node.node, nodes.Name):
        what = "Only macros and a few methods can be called."
        reader.report(
            "template-forbidden", node.lineno, what, _foreign_word(reader, node.node)
        )
        return
    name, at = node.node.name, node.node.lineno
    if name in SEVEN and reader.pure:
        _refuse_impure(reader, name, at)
    elif name == "config":
        what = "config(...) stands on its own, {{ config(...) }}, in no block and no expression."
        reader.report("config-misplaced", at, what)
    elif name in ("stream", "ref", "var"):
        _check_reference(reader, node, name, at)
    elif name == "caller" and not reader.in_macro:
        reader.report("undefined-variable", at, "'caller' is known inside macros.")
    elif name in reader.macros:
        reader.calls.add(name)
        _check_arguments(reader, node)
    elif name in SEVEN or reader.is_bound(name):
        reader.report(
            "template-forbidden", at, f"'{name}' is a value and cannot be called."
        )
    else:
        _check_arguments(reader, node, named=name not in ("range", "caller"))
        if name not in FUNCTIONS:
            _refuse_unknown(reader, name, at)


def _check_reference(reader: Reader, node: nodes.Call, function: str, at: int) -> None:
    values = [
        *node.args,
        *(keyword.value for keyword in node.kwargs if keyword.key == "default"),
    ]
    most = 2 if function == "var" else 1
    starred = (
        node.dyn_args
        or node.dyn_kwargs
        or len(values) < len(node.args) + len(node.kwargs)
    )
    match node.args[:1]:
        case [nodes.Const(value=str() as name) as literal] if (
            not starred and len(values) <= most and is_unicode(name)
        ):
            if function == "var":
                reader.vars.add(name)
                _check_all(reader, values[1:])
            else:
                found = reader.streams if function == "stream" else reader.refs
                found.append(Reference(name, reader.source.place(literal.lineno)))
        case _ if function == "var":
            what = "var(...) takes a name, written as a text, and a default: var('days', 7)."
            reader.report("reference-not-literal", at, what)
        case _:
            what = f"{function}(...) takes one name, written as a text: {function}('orders')."
            why = "Edges between models are read from the file, before anything is rendered."
            reader.report("reference-not-literal", at, f"{what} {why}")


def _check_method(reader: Reader, node: nodes.Call, attribute: nodes.Getattr) -> None:
    said = _foreign_word(reader, attribute)
    if attribute.attr not in METHODS or said:
        what = f"Templates have no method '{attribute.attr}'."
        reader.report(
            "template-forbidden",
            attribute.lineno,
            what,
            said or did_you_mean(attribute.attr, METHODS),
        )
        return
    _check(reader, attribute.node)
    _check_arguments(reader, node, named=attribute.attr == "format")


def _foreign_word(reader: Reader, node: nodes.Node) -> str:
    """What to use instead of an expression that begins with a name of dbt, such as
    `dbt_utils.star` or `adapter.dispatch('x')`; '' if it begins with none."""
    dotted = entry_of(node)
    while isinstance(node, nodes.Getattr | nodes.Call):
        node = node.node
    if (
        not isinstance(node, nodes.Name)
        or reader.is_bound(node.name)
        or node.name in reader.macros
    ):
        return ""
    return answer("template", dotted) or answer("template", node.name)


def _check_filter(reader: Reader, node: nodes.Filter | nodes.Test) -> None:
    kind, known = (
        ("filter", FILTERS) if isinstance(node, nodes.Filter) else ("test", TESTS)
    )
    if node.name not in known:
        what = f"Templates have no {kind} '{node.name}'."
        reader.report(
            "template-forbidden", node.lineno, what, did_you_mean(node.name, known)
        )
    _check_all(reader, (node.node,))
    _check_arguments(reader, node, named=kind == "filter")


def _check_arguments(
    reader: Reader, node: nodes.Call | nodes.Filter | nodes.Test, named: bool = True
) -> None:
    if node.dyn_args or node.dyn_kwargs:
        reader.report(
            "template-forbidden",
            node.lineno,
            "Templates write arguments out: there is no * and no **.",
        )
    if node.kwargs and not named:
        reader.report(
            "template-forbidden", node.lineno, "This takes its arguments by position."
        )
    _check_all(reader, (*node.args, *node.kwargs))


def _check_entry(reader: Reader, node: nodes.Getattr | nodes.Getitem) -> None:
    """Check `value.key` and `value[key]`. This is the only way in which `target` may be
    read."""
    attribute = isinstance(node, nodes.Getattr)
    key = (
        node.attr
        if isinstance(node, nodes.Getattr)
        else getattr(node.arg, "value", None)
    )
    if isinstance(key, str) and key.startswith("_" if attribute else "__"):
        what = f"'{key}' belongs to Python, and templates do not reach it."
        reader.report(
            "template-forbidden",
            node.lineno,
            what,
            "Read entries of mappings; call macros.",
        )
    elif (
        isinstance(key, str)
        and isinstance(node.node, nodes.Name)
        and node.node.name == "target"
    ):
        reader.reads.add("target")
        if reader.pure:
            _refuse_impure(reader, "target", node.node.lineno)
    else:
        _check(reader, node.node)
        if isinstance(node, nodes.Getitem):
            (_check_children if isinstance(node.arg, nodes.Slice) else _check)(
                reader, node.arg
            )


_CHECKS: dict[type[nodes.Node], Callable[[Reader, Any], None]] = {
    **dict.fromkeys(
        (nodes.Output, nodes.Keyword, nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair),
        _check_children,
    ),
    **dict.fromkeys(
        (nodes.Concat, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not),
        _check_children,
    ),
    **dict.fromkeys(
        (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod),
        _check_children,
    ),
    **dict.fromkeys((nodes.Pow, nodes.Neg, nodes.Pos), _check_children),
    **dict.fromkeys((nodes.Filter, nodes.Test), _check_filter),
    **dict.fromkeys((nodes.Getattr, nodes.Getitem), _check_entry),
    **dict.fromkeys((nodes.AssignBlock, nodes.FilterBlock), _check_block),
    nodes.Assign: _check_assign,
    nodes.TemplateData: lambda reader, node: None,
    nodes.Const: _check_const,
    nodes.Name: _check_name,
    nodes.Call: _check_call,
    nodes.CondExpr: lambda reader, node: _check_all(
        reader, (node.expr1, node.test, node.expr2)
    ),
    nodes.If: _check_if,
    nodes.For: _check_for,
    nodes.With: lambda reader, node: _check_scope(
        reader,
        node.body,
        zip(node.targets, node.values, [node.lineno] * len(node.targets), strict=True),
    ),
    nodes.CallBlock: _check_call_block,
    nodes.Macro: lambda reader, node: reader.report(
        "template-forbidden", node.lineno, "A macro stands at the top."
    ),
}
