"""Expressions of a template, from Jinja's tree to ours: what is not there is refused, with its place."""

from __future__ import annotations

from jinja2 import nodes

from lakesql.errors import did_you_mean
from lakesql.template import nodes as tree
from lakesql.template.reader import FUNCTIONS, SEVEN, Reader, Reference, is_unicode
from lakesql.template.values import FILTERS, MAX_INTEGER_BITS, METHODS, TESTS


def read_expression(reader: Reader, node: nodes.Node) -> tree.Expression:
    """What an expression means; a problem is reported, and stands in the tree as a literal."""
    at = node.lineno
    match node:
        case nodes.Const():
            if isinstance(node.value, int) and node.value.bit_length() > MAX_INTEGER_BITS:
                return reader.report("template-too-large", at, "A whole number has at most 64 bits.")
            if isinstance(node.value, str) and not is_unicode(node.value):
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
                None if item is None else read_expression(reader, item)
                for item in (bounds.start, bounds.stop, bounds.step)
            )
            return tree.Slice(at, read_expression(reader, node.node), (start, stop, step))
        case nodes.Getitem():
            return _read_item(reader, node)
        case nodes.Filter():
            if node.name not in FILTERS:
                known = did_you_mean(node.name, FILTERS)
                reader.report("template-forbidden", at, f"Templates have no filter '{node.name}'.", known)
            target = tree.Variable(at, tree.CAPTURED) if node.node is None else read_expression(reader, node.node)
            return tree.Filter(at, target, node.name, _arguments(reader, node), _named(reader, node))
        case nodes.Test():
            if node.name not in TESTS:
                known = did_you_mean(node.name, TESTS)
                reader.report("template-forbidden", at, f"Templates have no test '{node.name}'.", known)
            return tree.Test(at, read_expression(reader, node.node), node.name, _arguments(reader, node, named=False))
        case nodes.Compare():
            others = tuple((operand.op, read_expression(reader, operand.expr)) for operand in node.ops)
            return tree.Comparison(at, read_expression(reader, node.expr), others)
        case nodes.BinExpr():
            return tree.Binary(
                at, node.operator, read_expression(reader, node.left), read_expression(reader, node.right)
            )
        case nodes.UnaryExpr():
            return tree.Unary(at, node.operator, read_expression(reader, node.node))
        case nodes.Concat():
            return tree.Concat(at, tuple(read_expression(reader, item) for item in node.nodes))
        case nodes.CondExpr():
            otherwise = None if node.expr2 is None else read_expression(reader, node.expr2)
            return tree.Choice(at, read_expression(reader, node.test), read_expression(reader, node.expr1), otherwise)
        case nodes.List() | nodes.Tuple():
            return tree.Sequence(
                at, tuple(read_expression(reader, item) for item in node.items), isinstance(node, nodes.Tuple)
            )
        case nodes.Dict():
            pairs = tuple(
                (read_expression(reader, pair.key), read_expression(reader, pair.value)) for pair in node.items
            )
            return tree.Mapped(at, pairs)
        case _:
            return reader.report("template-forbidden", at, f"Templates have no {type(node).__name__.lower()}.")


def _read_name(reader: Reader, node: nodes.Name) -> tree.Expression:
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


def _undefined(reader: Reader, name: str, at: int) -> tree.Expression:
    known = set().union(reader.macros, *reader.scopes, {"range"}, () if reader.pure else SEVEN)
    return reader.report("undefined-variable", at, f"Nothing is named '{name}' here.", did_you_mean(name, known))


def _impure(reader: Reader, name: str, at: int) -> tree.Expression:
    what = f"The macro '{reader.in_macro}' uses '{name}': a macro sees its arguments and other macros alone."
    fix = f"Give the macro an argument for it, and pass {name} from the model."
    return reader.report("macro-not-pure", at, what, fix)


def _read_call(reader: Reader, node: nodes.Call) -> tree.Expression:
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


def _read_reference(reader: Reader, node: nodes.Call, function: str, at: int) -> tree.Expression:
    literal = _text_argument(node, 1)
    if literal is None or node.kwargs:
        what = f"{function}(...) takes one name, written as a text: {function}('orders')."
        why = "Edges between models are read from the file, before anything is rendered."
        return reader.report("reference-not-literal", at, what, why)
    reference = Reference(literal.value, reader.source.place(literal.lineno))
    (reader.streams if function == "stream" else reader.refs).append(reference)
    return tree.Read(at, function, literal.value)


def _read_var(reader: Reader, node: nodes.Call, at: int) -> tree.Expression:
    literal = _text_argument(node, 2)
    named = {keyword.key: keyword.value for keyword in node.kwargs}
    if literal is None or named.keys() - {"default"} or len(node.args) + len(named) > 2:
        what = "var(...) takes a name, written as a text, and a default: var('days', 7)."
        return reader.report("reference-not-literal", at, what)
    reader.vars.add(literal.value)
    default = node.args[1] if len(node.args) == 2 else named.get("default")
    return tree.Var(at, literal.value, None if default is None else read_expression(reader, default))


def _text_argument(node: nodes.Call, most: int) -> nodes.Const | None:
    """The first of at most `most` arguments, when it is a text."""
    if node.dyn_args or node.dyn_kwargs or not 1 <= len(node.args) <= most:
        return None
    first = node.args[0]
    if isinstance(first, nodes.Const) and isinstance(first.value, str) and is_unicode(first.value):
        return first
    return None


def _read_method(reader: Reader, node: nodes.Call, attribute: nodes.Getattr) -> tree.Expression:
    if attribute.attr not in METHODS:
        what = f"Templates have no method '{attribute.attr}'."
        return reader.report("template-forbidden", attribute.lineno, what, did_you_mean(attribute.attr, METHODS))
    target = read_expression(reader, attribute.node)
    return tree.Method(attribute.lineno, target, attribute.attr, _arguments(reader, node, named=False))


def _read_attribute(reader: Reader, node: nodes.Getattr) -> tree.Expression:
    if node.attr.startswith("_"):
        return _hidden(reader, node.attr, node.lineno)
    if _is_target(reader, node.node):
        return _read_target(reader, node.attr, node.node.lineno)
    return tree.Item(node.lineno, read_expression(reader, node.node), tree.Literal(node.lineno, node.attr))


def _read_item(reader: Reader, node: nodes.Getitem) -> tree.Expression:
    key = node.arg.value if isinstance(node.arg, nodes.Const) else None
    if isinstance(key, str) and key.startswith("__"):
        return _hidden(reader, key, node.lineno)
    if _is_target(reader, node.node) and isinstance(key, str):
        return _read_target(reader, key, node.node.lineno)
    return tree.Item(node.lineno, read_expression(reader, node.node), read_expression(reader, node.arg))


def _hidden(reader: Reader, name: str, at: int) -> tree.Expression:
    what = f"'{name}' belongs to Python, and templates do not reach it."
    return reader.report("template-forbidden", at, what, "Read entries of mappings; call macros.")


def _is_target(reader: Reader, node: nodes.Expr) -> bool:
    return isinstance(node, nodes.Name) and node.name == "target" and not reader.is_bound("target")


def _read_target(reader: Reader, key: str, at: int) -> tree.Expression:
    if reader.pure:
        return _impure(reader, "target", at)
    reader.reads.add("target")
    return tree.Field(at, "target", key)


def _arguments(
    reader: Reader, node: nodes.Call | nodes.Filter | nodes.Test, named: bool = True
) -> tuple[tree.Expression, ...]:
    if node.dyn_args or node.dyn_kwargs:
        reader.report("template-forbidden", node.lineno, "Templates write arguments out: there is no * and no **.")
    if node.kwargs and not named:
        reader.report("template-forbidden", node.lineno, "This takes its arguments by position.")
    return tuple(read_expression(reader, item) for item in node.args)


def _named(reader: Reader, node: nodes.Call | nodes.Filter) -> dict[str, tree.Expression]:
    return {str(keyword.key): read_expression(reader, keyword.value) for keyword in node.kwargs}
