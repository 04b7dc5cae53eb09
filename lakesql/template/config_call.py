"""`config(...)`: literals, read from Jinja's tree before anything is rendered."""

from __future__ import annotations

from jinja2 import nodes

from lakesql.decode import Node
from lakesql.errors import Place
from lakesql.template.jinja import start_of
from lakesql.template.reader import Reader, is_unicode


def read_config_call(reader: Reader, call: nodes.Call, at: int) -> None:
    """Take in what `config(...)` says; `at` is where it stands."""
    if reader.config is not None:
        reader.report("duplicate-config", at, f"config(...) stands at {reader.config.place} already.", "Join the two.")
        return
    if call.args or call.dyn_args or call.dyn_kwargs:
        reader.report("config-not-literal", at, "config(...) takes options by name: config(mode='append').")
    entries: dict[str, Node] = {}
    keys: dict[str, Place] = {}
    for keyword in call.kwargs:
        key_at = reader.source.text.rfind(keyword.key, 0, start_of(keyword.value))
        if keyword.key in entries:
            reader.report("duplicate-config", key_at, f"The option '{keyword.key}' is given twice.", "Remove one.")
            continue
        entries[keyword.key] = _read_literal(reader, keyword.value)
        keys[keyword.key] = reader.source.place(key_at)
    reader.config = Node(entries, reader.source.place(at), keys)


def _read_literal(reader: Reader, node: nodes.Expr) -> Node:
    place = reader.source.place(_opening(reader, node) if isinstance(node, nodes.Tuple) else node.lineno)
    match node:
        case nodes.Const():
            if isinstance(node.value, str) and not is_unicode(node.value):
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
            reader.report("config-not-literal", start_of(node), what, fix)
            return Node(None, place)


def _opening(reader: Reader, node: nodes.Tuple) -> int:
    """The `(` of a tuple, whose node stands at one of its items."""
    if not node.items:
        return node.lineno
    return max(reader.source.text.rfind("(", 0, start_of(node)), 0)
