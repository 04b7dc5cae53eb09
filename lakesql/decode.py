"""From what stands in a file to a typed value: the only code that reads a mapping which
came from a file.

Files of the project (YAML, TOML, the literals of `config(...)`) become a tree of
`Node`, a value and its place. `decode` turns such a tree into a frozen dataclass,
checks every key and type on the way, and reports all problems of the tree at once, each
with its place.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from keyword import iskeyword
from typing import Any, Literal, TypeVar, Union, cast

from lakesql.errors import Place, Problem, ProjectError, did_you_mean
from lakesql.words import Kind, suggest

T = TypeVar("T")
Scalar = str | int | float | bool | None

MAX_SHOWN = 80
"""How many characters of a value a problem shows."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value out of a file and where it stands. Keys of a mapping keep their own
    places in `keys`.

    `written` is how the file has a scalar that was worked out of another text: the
    digits of a number, the template of a rendered text.
    """

    value: Scalar | tuple[Node, ...] | Mapping[str, Node]
    place: Place
    keys: Mapping[str, Place] = dataclasses.field(default_factory=dict)
    written: str | None = None

    def plain(self) -> Any:
        """The value without places: scalars, lists and dicts."""
        match self.value:
            case tuple():
                return [item.plain() for item in self.value]
            case Mapping():
                return {key: item.plain() for key, item in self.value.items()}
            case _:
                return self.value

    @property
    def shown(self) -> str:
        """What a problem calls the value, at the start of a sentence: as it is written,
        or its kind.

        Never more than a line of it, and of a rendered text its template, as what was
        rendered may be a secret.
        """
        match self.value:
            case None:
                return "An empty value"
            case tuple():
                return "A list"
            case Mapping():
                return "A mapping"
            case _:
                text = self.written if self.written is not None else str(self.value)
                text = text if text.isprintable() else repr(text)[1:-1]
                return (
                    f"'{text}'" if len(text) <= MAX_SHOWN else f"'{text[:MAX_SHOWN]}…'"
                )

    def entries(self) -> Mapping[str, Node]:
        """The entries of a mapping; a `ProjectError` for anything else."""
        if isinstance(self.value, Mapping):
            return self.value
        raise ProjectError([_wrong_type(self, "a mapping")])

    def items(self) -> tuple[Node, ...]:
        """The items of a list; a `ProjectError` for anything else."""
        if isinstance(self.value, tuple):
            return self.value
        raise ProjectError([_wrong_type(self, "a list")])

    def get(self, key: str) -> Node | None:
        """The entry of a mapping under `key`, or None."""
        return self.entries().get(key)

    def key_place(self, key: str) -> Place:
        """Where a mapping's key stands."""
        return self.keys.get(key, self.place)


def node_of(value: Any, place: Place) -> Node:
    """A tree whose every node stands at `place`, from plain lists, dicts and
    scalars."""
    match value:
        case Mapping():
            return Node(
                {str(key): node_of(item, place) for key, item in value.items()}, place
            )
        case list() | tuple():
            return Node(tuple(node_of(item, place) for item in value), place)
        case _:
            return Node(value, place)


def option(
    doc: str,
    *,
    default: Any = dataclasses.MISSING,
    factory: Any = dataclasses.MISSING,
    read: Callable[[Node], Any] | None = None,
    is_inherited: bool = True,
    is_hashed: bool = True,
) -> Any:
    """A field of a dataclass that `decode` fills: `doc` stands in the generated docs,
    `read` decodes it its own way.

    One that is not inherited counts where it is said, and not as a default for what
    lies below. A mapping in a value that is a key somewhere is not hashed.
    """
    metadata = {"doc": doc, "read": read, "is_inherited": is_inherited}
    hashes = None if is_hashed else False
    return dataclasses.field(
        default=default, default_factory=factory, metadata=metadata, hash=hashes
    )


def decode(
    node: Node,
    kind: type[T],
    *,
    what: str,
    words: Kind | None = None,
    ignore: frozenset[str] = frozenset(),
    given: Mapping[str, object] = types.MappingProxyType({}),
) -> T:
    """`node`, a mapping, as the dataclass `kind`; `what` names it in problems ("a
    stream", "mode upsert").

    A key that is a word of another tool is answered from the table `words`.

    Keys that start with `x-` are passed over (a place for YAML anchors), and those in
    `ignore`. Fields in `given` have their value from the caller, and are no options of
    the file. Raises `ProjectError` with every unknown key (`unknown-option`), missing
    key (`missing-option`) and wrong value (`wrong-type`).
    """
    entries = node.entries()
    fields = {
        name: field
        for name, field in _fields(cast("type", kind)).items()
        if name not in given
    }
    hint = partial(suggest, words) if words else did_you_mean
    problems = [
        Problem(
            "unknown-option",
            f"{what} has no option '{key}'.",
            "",
            hint(key, fields),
            node.key_place(key),
        )
        for key in entries
        if key not in fields and key not in ignore and not key.startswith("x-")
    ]
    values: dict[str, Any] = dict(given)
    for name, field in fields.items():
        if name in entries:
            values[field.attribute] = collect(
                problems, partial(field.read, entries[name]), node.key_place(name)
            )
        elif field.required:
            problems.append(
                Problem(
                    "missing-option",
                    f"{what} lacks '{name}': {field.doc}",
                    place=node.place,
                )
            )
    if problems:
        raise ProjectError(problems)
    return kind(**values)


def collect(
    problems: list[Problem], read: Callable[[], T], place: Place | None = None
) -> T | None:
    """What `read` gives; where it raises `ProjectError`, None, and `problems` has its
    problems."""
    try:
        return read()
    except ProjectError as error:
        problems.extend(
            problem.at(place) if place else problem for problem in error.problems
        )
        return None


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a decodable dataclass: its name, how it is read, and what the docs
    say of it."""

    name: str
    kind: Any
    required: bool
    default: Any
    doc: str
    read: Callable[[Node], Any]
    is_inherited: bool

    @property
    def attribute(self) -> str:
        """The dataclass's own name for it: that of an option that is a word of Python's
        ends in `_`."""
        return f"{self.name}_" if iskeyword(self.name) else self.name


def fields_of(kind: type) -> tuple[Field, ...]:
    """The fields of a decodable dataclass in order: what the generated docs list."""
    return tuple(_fields(kind).values())


@cache
def _fields(kind: type) -> dict[str, Field]:
    hints = typing.get_type_hints(kind)
    found = (
        _field(field, hints[field.name])
        for field in dataclasses.fields(kind)
        if field.init
    )
    return {field.name: field for field in found}


def _field(field: dataclasses.Field[Any], kind: Any) -> Field:
    make = field.default_factory
    default = field.default if make is dataclasses.MISSING else make()
    read = field.metadata.get("read") or (
        lambda node: read_value(node, kind, field.name)
    )
    required = default is dataclasses.MISSING
    doc, is_inherited = (
        field.metadata.get("doc", ""),
        field.metadata.get("is_inherited", True),
    )
    name = field.name.removesuffix("_")
    return Field(
        name, kind, required, None if required else default, doc, read, is_inherited
    )


def read_value(node: Node, kind: Any, what: str) -> Any:
    """`node` as a value of the annotation `kind`: a scalar, a Literal, a tuple, a
    mapping, a dataclass, or None."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        if node.value is None and type(None) in arguments:
            return None
        return read_value(
            node, next(item for item in arguments if item is not type(None)), what
        )
    if origin is Literal:
        return _read_literal(node, arguments, what)
    if origin is tuple:
        items = node.value if isinstance(node.value, tuple) else (node,)
        return read_each(items, lambda item: read_value(item, arguments[0], what))
    if origin in (dict, Mapping):
        return read_entries(node, lambda _, item: read_value(item, arguments[1], what))
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return decode(node, kind, what=what)
    return _read_scalar(node, kind)


def read_each(nodes: typing.Iterable[Node], read: Callable[[Node], T]) -> tuple[T, ...]:
    """What `read` makes of each node. Raises `ProjectError` with the problems of all of
    them."""
    problems: list[Problem] = []
    values = [collect(problems, partial(read, node), node.place) for node in nodes]
    if problems:
        raise ProjectError(problems)
    return tuple(cast("list[T]", values))


def read_entries(node: Node, read: Callable[[str, Node], T]) -> dict[str, T]:
    """What `read` makes of each entry of a mapping, by key. Raises `ProjectError` with
    the problems of all of them."""
    problems: list[Problem] = []
    values = {
        key: collect(problems, partial(read, key, entry), node.key_place(key))
        for key, entry in node.entries().items()
    }
    if problems:
        raise ProjectError(problems)
    return cast("dict[str, T]", values)


def read_positive(node: Node) -> int:
    """A whole number of one at least, or a `ProjectError`."""
    value = _typed(node, int)
    if type(value) is int and value > 0:
        return value
    raise ProjectError.of(
        "wrong-value", f"{node.shown} is not a positive whole number.", place=node.place
    )


def read_filled(node: Node) -> str:
    """A text that is not empty, nor blank, or a `ProjectError`. An environment's
    variable may be set to nothing."""
    text: str = _read_scalar(node, str)
    if text.strip():
        return text
    raise ProjectError.of(
        "wrong-value", f"{node.shown} is an empty text.", place=node.place
    )


def read_mapping(node: Node) -> Node:
    """A mapping of anything, as it is, or a `ProjectError`."""
    node.entries()
    return node


NO_TEMPLATE = "Write the value itself; a SELECT in a file of `tests/` is a template, and may use `var('…')`."
"""What to do where a template stands in a text that is none."""


def template_sign(text: str) -> str:
    """The sign of Jinja's that stands in a text: in one that is no template it would be
    taken as it is; else ''."""
    return next((sign for sign in ("{{", "{%", "{#") if sign in text), "")


def refuse_template(node: Node) -> None:
    """Raise `ProjectError` (`wrong-value`) where the value is a text with a sign of
    Jinja's."""
    if isinstance(node.value, str) and (sign := template_sign(node.value)):
        what = f"{node.shown}: '{sign}' stands in it, and a properties file is no template."
        raise ProjectError.of("wrong-value", what, fix=NO_TEMPLATE, place=node.place)


def read_option_text(node: Node) -> str:
    """The text of an option that is handed on to others: a text, a number as it is
    written, `true` or `false`."""
    match node.value:
        case bool() as value:
            return "true" if value else "false"
        case str() as text:
            return text
        case int() | float() as number:
            return node.written if node.written is not None else str(number)
        case _:
            raise ProjectError([_wrong_type(node, "a text, a number, true or false")])


def read_option_texts(node: Node) -> dict[str, str]:
    """Options that are handed on to others, by their keys: each by
    `read_option_text`."""
    return read_entries(node, lambda _, entry: read_option_text(entry))


def _read_literal(node: Node, allowed: tuple[Any, ...], what: str) -> Any:
    if node.value in allowed and isinstance(node.value, type(allowed[0])):
        return node.value
    fix = did_you_mean(
        str(node.value) if isinstance(node.value, str) else "",
        [str(item) for item in allowed],
    )
    raise ProjectError.of(
        "wrong-value",
        f"{node.shown} is not a value of '{what}'.",
        fix=fix,
        place=node.place,
    )


_SCALARS: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def _read_scalar(node: Node, kind: type) -> Any:
    value = _typed(node, kind)
    if type(value) is kind:
        return value
    if kind is float and type(value) is int:
        return float(value)
    raise ProjectError([_wrong_type(node, _SCALARS[kind])])


def _typed(node: Node, kind: type) -> Any:
    """The value; a text that was rendered is read as what the option takes, as an
    environment holds texts alone."""
    text = node.value
    if not isinstance(text, str) or node.written is None or not text.isascii():
        return text
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return kind(text) if kind in (int, float) and _NUMBER.match(text) else text
    except ValueError:
        return text


_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?\Z")


def _wrong_type(node: Node, wanted: str) -> Problem:
    return Problem("wrong-type", f"{node.shown} is not {wanted}.", place=node.place)
