"""Reads the options in `config(...)`, which are literals, from Jinja's syntax tree
before anything is rendered."""

from __future__ import annotations

from collections.abc import Iterable

from jinja2 import nodes

from lakesql.decode import Node
from lakesql.errors import Place
from lakesql.template.jinja import start_of
from lakesql.template.reader import Reader, is_unicode


def read_config_call(reader: Reader, call: nodes.Call, at: int) -> None:
    """Read the options of a `config(...)` call at offset `at` into `reader`, and report
    its problems there."""
    if reader.config is not None:
        reader.report(
            "duplicate-config",
            at,
            f"config(...) stands at {reader.config.place} already.",
        )
        return
    if call.args or call.dyn_args or call.dyn_kwargs:
        reader.report(
            "config-not-literal",
            at,
            "config(...) takes options by name: config(mode='append').",
        )
    text = reader.source.text
    given = [
        (pair.key, text.rfind(pair.key, 0, start_of(pair.value)), pair.value)
        for pair in call.kwargs
    ]
    reader.config = _read_entries(reader, given, reader.source.place(at))


def _read_entries(
    reader: Reader, given: Iterable[tuple[str, int, nodes.Expr]], place: Place
) -> Node:
    """The entries of a mapping as a node: `given` has each key with its offset and its
    value."""
    entries: dict[str, Node] = {}
    keys: dict[str, Place] = {}
    for key, at, value in given:
        if key in entries:
            reader.report("duplicate-config", at, f"'{key}' is given twice.")
        entries[key] = _read_literal(reader, value)
        keys[key] = reader.source.place(at)
    return Node(entries, place, keys)


def _read_literal(reader: Reader, node: nodes.Expr) -> Node:
    at = node.lineno
    # the node of a tuple has the offset of one of its items
    if isinstance(node, nodes.Tuple) and node.items:
        at = max(reader.source.text.rfind("(", 0, start_of(node)), 0)
    place = reader.source.place(at)
    match node:
        case nodes.Const():
            if isinstance(node.value, str) and not is_unicode(node.value):
                reader.report(
                    "template-syntax",
                    node.lineno,
                    "Half of a surrogate pair is not a character.",
                )
            return Node(node.value, place)
        case nodes.List() | nodes.Tuple():
            return Node(
                tuple(_read_literal(reader, item) for item in node.items), place
            )
        case nodes.Neg(node=nodes.Const(value=int() | float() as number)) if (
            not isinstance(number, bool)
        ):
            return Node(-number, place)
        case nodes.Dict():
            given = []
            for pair in node.items:
                if isinstance(pair.key, nodes.Const) and isinstance(
                    pair.key.value, str
                ):
                    given.append((pair.key.value, pair.key.lineno, pair.value))
                else:
                    reader.report(
                        "config-not-literal",
                        pair.key.lineno,
                        "Keys of a mapping in config(...) are texts.",
                    )
            return _read_entries(reader, given, place)
        case _:
            what = "config(...) takes literals: it is read from the file, before anything is rendered."
            reader.report("config-not-literal", start_of(node), what)
            return Node(None, place)
