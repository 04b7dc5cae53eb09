"""How values in files become typed values: the only code that reads mappings which came
from a file.

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
"""The most characters of a value that a message shows."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value from a file, and its place. `keys` has the places of a mapping's keys.

    `written` is the text in the file of a scalar that was parsed or rendered from it:
    the digits of a number, the template of a rendered text.
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
        """The value for the beginning of a message: as it is written, in quotes, or its
        kind, such as `A list`.

        At most `MAX_SHOWN` characters are shown, and of a rendered text the template,
        as the result may be a secret.
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
        """The entries of a mapping. Raises `ProjectError` (`wrong-type`) if the value
        is none."""
        if isinstance(self.value, Mapping):
            return self.value
        raise ProjectError([_wrong_type(self, "a mapping")])

    def items(self) -> tuple[Node, ...]:
        """The items of a list. Raises `ProjectError` (`wrong-type`) if the value is
        none."""
        if isinstance(self.value, tuple):
            return self.value
        raise ProjectError([_wrong_type(self, "a list")])

    def get(self, key: str) -> Node | None:
        """The entry of a mapping under `key`, or None. Raises what `entries` raises."""
        return self.entries().get(key)

    def key_place(self, key: str) -> Place:
        """The place of a mapping's key; that of the mapping if it is not known."""
        return self.keys.get(key, self.place)


def node_of(value: Any, place: Place) -> Node:
    """A tree of nodes, all with the same `place`, from plain lists, dicts and
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
    """A field of a dataclass that `decode` fills. `doc` appears in the generated docs;
    `read` decodes the value, by default its annotation does.

    `is_inherited`: a value configured for a folder is the default of what is below it.
    `is_hashed` must be false for a mapping in a dataclass that is hashed.
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
    """The mapping `node` as the dataclass `kind`; `what` names it in messages ("a
    stream", "mode upsert").

    Keys in `ignore`, and keys that start with `x-` (a place for YAML anchors), are
    skipped. Fields in `given` have their values from the caller, and are no options of
    the file. `words` is the table of other tools' words by which an unknown key is
    explained. Raises `ProjectError` with every unknown key (`unknown-option`), missing
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
    """The result of `read`. If it raises `ProjectError`, None; the error's problems are
    added to `problems`, with `place` if they have none."""
    try:
        return read()
    except ProjectError as error:
        problems.extend(
            problem.at(place) if place else problem for problem in error.problems
        )
        return None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a decodable dataclass: its name in files, its type, how it is read,
    and its text in the docs."""

    name: str
    kind: Any
    required: bool
    default: Any
    doc: str
    read: Callable[[Node], Any]
    is_inherited: bool

    @property
    def attribute(self) -> str:
        """The name of the dataclass's attribute, which ends in `_` if the option's name
        is a keyword of Python."""
        return f"{self.name}_" if iskeyword(self.name) else self.name


def fields_of(kind: type) -> tuple[Field, ...]:
    """The fields of a decodable dataclass, in their order."""
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
    mapping, a dataclass, or None. Raises `ProjectError`."""
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
    """The results of `read` for each node. Raises `ProjectError` with the problems of
    all of them."""
    problems: list[Problem] = []
    values = [collect(problems, partial(read, node), node.place) for node in nodes]
    if problems:
        raise ProjectError(problems)
    return tuple(cast("list[T]", values))


def read_entries(node: Node, read: Callable[[str, Node], T]) -> dict[str, T]:
    """The results of `read` for each entry of a mapping, by key. Raises `ProjectError`
    with the problems of all of them."""
    problems: list[Problem] = []
    values = {
        key: collect(problems, partial(read, key, entry), node.key_place(key))
        for key, entry in node.entries().items()
    }
    if problems:
        raise ProjectError(problems)
    return cast("dict[str, T]", values)


def read_positive(node: Node) -> int:
    """A whole number, at least 1. Raises `ProjectError` (`wrong-value`)."""
    value = _typed(node, int)
    if type(value) is int and value > 0:
        return value
    raise ProjectError.of(
        "wrong-value", f"{node.shown} is not a positive whole number.", place=node.place
    )


def read_filled(node: Node) -> str:
    """A text that is not blank, as that of an environment variable may be. Raises
    `ProjectError` (`wrong-type`, `wrong-value`)."""
    text: str = _read_scalar(node, str)
    if text.strip():
        return text
    raise ProjectError.of(
        "wrong-value", f"{node.shown} is an empty text.", place=node.place
    )


def read_mapping(node: Node) -> Node:
    """The node itself, if it is a mapping. Raises `ProjectError` (`wrong-type`)."""
    node.entries()
    return node


NO_TEMPLATE = "Write the value itself; a SELECT in a file of `tests/` is a template, and may use `var('…')`."
"""The advice where a template is used in a text that is not rendered."""


def template_sign(text: str) -> str:
    """The first of Jinja's opening signs (`{{`, `{%`, `{#`) that a text contains; '' if
    there is none."""
    return next((sign for sign in ("{{", "{%", "{#") if sign in text), "")


def refuse_template(node: Node) -> None:
    """Raise `ProjectError` (`wrong-value`) if the value is a text with one of Jinja's
    opening signs, as it would not be rendered."""
    if isinstance(node.value, str) and (sign := template_sign(node.value)):
        what = f"{node.shown}: '{sign}' stands in it, and a properties file is no template."
        raise ProjectError.of("wrong-value", what, fix=NO_TEMPLATE, place=node.place)


def read_option_text(node: Node) -> str:
    """The text of an option that is passed on to another library: a text, a number as
    it is written, `true` or `false`. Raises `ProjectError` (`wrong-type`)."""
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
    """A mapping of options that are passed on to another library, each read by
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
    """The value of a node. A rendered text is read as a value of type `kind`, if it is
    one, as environment variables hold texts alone."""
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
