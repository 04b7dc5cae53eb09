"""The grammar of `--select` and `--exclude`: dbt's, over models, seeds, streams, data
tests, and the maintenance tasks of the models' tables.

`parse_selection` parses the words without knowing the project, `select_nodes` looks
them up in its graph.

A word is `[@][n+][method:]value[+n]`. Words joined by commas mean the intersection, by
spaces the union. The rules are those of dbt-core 1.12 (`dbt/graph/selector_spec.py`,
`selector_methods.py`). Where dbt would silently select nothing (a misspelt method, an
empty word), this is an error. `stream:` replaces dbt's `source:`; and a `config.` key
may itself contain dots, as table properties do.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import assert_never

from lakesql.errors import Problem, UsageError, did_you_mean
from lakesql.graph.graph import RESOURCE_TYPES, Graph, GraphNode
from lakesql.words import suggest


@dataclass(frozen=True, slots=True)
class Criterion:
    """One part of a word: the nodes that `method` finds for `value`, and their
    relatives.

    `key` is the dotted key of `config.<key>:`, empty in other methods. `up` and `down`
    count the generations of ancestors and descendants that are added, None meaning all;
    `closed` is `@`: all descendants, and all ancestors of these.
    """

    method: str
    key: str
    value: str
    closed: bool = False
    up: int | None = 0
    down: int | None = 0


@dataclass(frozen=True, slots=True)
class NamedSelector:
    """A `selector:` part: the nodes of the expression that its name stands for, and
    their relatives."""

    criterion: Criterion
    expression: Expression


@dataclass(frozen=True, slots=True)
class Intersection:
    """The nodes that all parts have in common. `text` is the word as given on the
    command line, with its parts joined by commas."""

    text: str
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Union:
    """The nodes of any of the parts."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class SetDifference:
    """The nodes of one expression without those of another."""

    of: Expression
    without: Expression


Expression = Criterion | NamedSelector | Intersection | Union | SetDifference

FindSelector = Callable[[str], Expression]
"""Returns the expression for a name in selectors.yml; for a glob of names, the union of
the expressions of all that match.

Raises `UsageError` (`unknown-selector`) if no name matches.
"""


@dataclass(frozen=True, slots=True)
class Selection:
    """A parsed selection: the union of `select`, or all nodes if that is empty, without
    the union of `exclude`."""

    select: tuple[Intersection, ...]
    exclude: tuple[Intersection, ...]


@dataclass(frozen=True, slots=True)
class Selected:
    """The ids of the selected nodes of a graph, and the words of the selection, in
    their order, that match nothing there."""

    ids: frozenset[str]
    unmatched: tuple[str, ...]


def no_selectors(name: str) -> Expression:
    """The `FindSelector` of a project without selectors.yml: always raises
    `unknown-selector`."""
    fix = "Define it in selectors.yml beside pyproject.toml, or leave it out."
    raise UsageError.of("unknown-selector", f"There is no selector '{name}'.", fix=fix)


def parse_selection(
    select: Sequence[str],
    exclude: Sequence[str],
    find_selector: FindSelector = no_selectors,
) -> Selection:
    """The selection given by the values of `--select` and `--exclude`. A value may hold
    several words, separated by spaces.

    Raises `UsageError` (`bad-selector`, `unknown-selector`), one problem for each wrong
    word.
    """
    problems: list[Problem] = []

    def parse(option: str, values: Sequence[str]) -> Iterable[Intersection]:
        for value in values:
            try:
                yield from parse_words(value, option, find_selector)
            except UsageError as error:
                problems.extend(error.problems)

    selection = Selection(
        tuple(parse("--select", select)), tuple(parse("--exclude", exclude))
    )
    if problems:
        raise UsageError(problems)
    return selection


def parse_words(
    text: str, called: str, find_selector: FindSelector
) -> tuple[Intersection, ...]:
    """The words of one text. `called` names the option in problems. Raises as
    `parse_selection` does."""
    problems: list[Problem] = []
    found = []
    for word in text.split() or [""]:
        try:
            if not word:
                raise _bad(
                    f"The value of {called} is empty.",
                    fix=f"Leave {called} out, or name something.",
                )
            parts = tuple(
                _parse_part(part, word, find_selector) for part in word.split(",")
            )
            found.append(Intersection(word, parts))
        except UsageError as error:
            problems.extend(error.problems)
    if problems:
        raise UsageError(problems)
    return tuple(found)


def make_criterion(text: str, prefix: str, value: str) -> Criterion:
    """The criterion for a method (`prefix`: the method, with a dotted key for `config`)
    and a value. Raises `UsageError` (`bad-selector`), which quotes `text`."""
    method, _, key = prefix.partition(".")
    if not value:
        raise _bad(f"'{text}' names nothing.", fix="Write a value behind the colon.")
    _check_method(text, method, key, value)
    return Criterion(method, key, value)


def select_nodes(selection: Selection, graph: Graph) -> Selected:
    """The ids of the nodes of `graph` that `selection` means, and those of its words
    that match nothing."""
    found = [(part, _find(part, graph)) for part in selection.select]
    excluded = [(part, _find(part, graph)) for part in selection.exclude]
    everything = frozenset(graph.nodes)
    ids = (
        frozenset().union(*(ids for _, ids in found))
        if selection.select
        else everything
    )
    return Selected(
        ids=ids.difference(*(ids for _, ids in excluded)),
        unmatched=tuple(
            dict.fromkeys(part.text for part, ids in (*found, *excluded) if not ids)
        ),
    )


def _parse_part(text: str, word: str, find_selector: FindSelector) -> Expression:
    criterion = _parse_criterion(text, word)
    return (
        NamedSelector(criterion, find_selector(criterion.value))
        if criterion.method == SELECTOR
        else criterion
    )


_WORD = re.compile(
    r"(?P<closed>@)?(?:(?P<up>[0-9]{0,9})\+)?(?P<body>.*?)(?:\+(?P<down>[0-9]{0,9}))?",
    re.DOTALL,
)


def _parse_criterion(text: str, word: str) -> Criterion:
    parts = _WORD.fullmatch(text)
    assert parts is not None, (
        "every part of the pattern is optional, and its middle takes any text"
    )
    body = parts["body"]
    method, key, value = _split_method(body)
    if not text:
        raise _bad(
            f"'{word}' has an empty part.",
            fix="Put something on both sides of each comma.",
        )
    if not value:
        raise _bad(
            f"'{text}' names nothing.",
            fix="Write a name, or method:value, between the operators.",
        )
    if parts["closed"] and parts["down"] is not None:
        raise _bad(
            f"'{text}' has @ and +.",
            "@ takes in all that comes after.",
            f"Write '@{body}'.",
        )
    if body[0] in "+@" or body[-1] in "+@":
        raise _bad(
            f"'{text}' has an operator in a wrong place.",
            fix="Write @x, or 1+x+2, or +x+.",
        )
    _check_method(text, method, key, value)
    up, down = _generations(parts["up"]), _generations(parts["down"])
    return Criterion(method, key, value, bool(parts["closed"]), up, down)


def _split_method(body: str) -> tuple[str, str, str]:
    """Method, key and value. A value without a method is a path if it has a slash, a
    file if it ends in .sql, and a name (`fqn`) otherwise."""
    prefix, colon, value = body.partition(":")
    if colon and "/" not in prefix:
        method, _, key = prefix.partition(".")
        return method, key, value
    if "/" in body:
        return "path", "", body
    return "file" if body.lower().endswith(".sql") else "fqn", "", body


def _check_method(text: str, method: str, key: str, value: str) -> None:
    if method not in (*METHODS, SELECTOR):
        fix = suggest("selector", method, (*METHODS, SELECTOR))
        raise _bad(f"'{text}': there is no selector method '{method}'.", fix=fix)
    if method == "config":
        if not all(key.split(".")):
            raise _bad(
                f"'{text}' lacks a config key.",
                fix="Write config.<key>:<value>, as config.mode:append.",
            )
    elif key:
        raise _bad(
            f"'{text}': '{method}' takes no key.", fix=f"Write {method}:{value}."
        )
    if method == "resource_type" and value not in RESOURCE_TYPES:
        raise _bad(
            f"'{text}': there is no resource type '{value}'.",
            fix=did_you_mean(value, RESOURCE_TYPES),
        )
    if method == "test_type" and value not in TEST_TYPES:
        raise _bad(
            f"'{text}': there is no type of tests '{value}'.",
            fix=did_you_mean(value, TEST_TYPES),
        )
    if method == "state" and value not in STATES:
        raise _bad(
            f"'{text}': there is no state '{value}'.", fix=did_you_mean(value, STATES)
        )
    if method == "result" and value not in RESULTS:
        raise _bad(
            f"'{text}': there is no result '{value}'.", fix=did_you_mean(value, RESULTS)
        )
    if method == "path" and posixpath.normpath(value).startswith(("/", "..")):
        why = "A path is relative to the project's directory."
        raise _bad(
            f"'{text}' is not a path in the project.",
            why,
            "Write it as models/orders.sql.",
        )


def _generations(digits: str | None) -> int | None:
    """How many generations an operator adds: 0 if there is no operator, None (all) if
    it has no number."""
    if digits is None:
        return 0
    return int(digits) if digits else None


def _bad(what: str, why: str = "", fix: str = "") -> UsageError:
    return UsageError.of("bad-selector", what, why=why, fix=fix)


def _find(expression: Expression, graph: Graph) -> frozenset[str]:
    match expression:
        case Criterion():
            matches = METHODS[expression.method]
            named = frozenset(
                id_ for id_, node in graph.nodes.items() if matches(node, expression)
            )
            return _with_relatives(named, expression, graph)
        case NamedSelector():
            return _with_relatives(
                _find(expression.expression, graph), expression.criterion, graph
            )
        case Intersection():
            return frozenset(graph.nodes).intersection(
                *(_find(part, graph) for part in expression.parts)
            )
        case Union():
            return frozenset().union(*(_find(part, graph) for part in expression.parts))
        case SetDifference():
            return _find(expression.of, graph) - _find(expression.without, graph)
        case _:
            assert_never(expression)


def _with_relatives(
    named: frozenset[str], criterion: Criterion, graph: Graph
) -> frozenset[str]:
    related = (
        named
        | graph.upstream(named, criterion.up)
        | graph.downstream(named, criterion.down)
    )
    if criterion.closed:
        family = named | graph.downstream(named)
        related |= family | graph.upstream(family)
    return related


def _matches_fqn(node: GraphNode, criterion: Criterion) -> bool:
    """Whether the value is the node's name, or the start of its fully qualified name,
    with or without the project's name.

    Streams do not match by their bare names, as sources do not in dbt: `orders` is the
    model. A task that maintains a model's table matches only by its whole name:
    `orders.expire_snapshots`, `*.expire_snapshots`. A maintenance file written by hand
    matches as a model does, by the name of its file.
    """
    value = criterion.value
    match node.resource_type:
        case "stream":
            return False
        case "maintenance" if not node.is_appended:
            return any(
                _matches_names(names, value)
                for names in (node.fqn, node.fqn[1:], node.fqn[-2:])
            )
        case "maintenance":
            whole = (node.name, ".".join(node.fqn[1:]), ".".join(node.fqn))
            return value in whole or (
                value.count(".") > 0 and any(fnmatchcase(name, value) for name in whole)
            )
        case "model" | "seed" | "test":
            pass
    return (
        node.name == value
        or _matches_names(node.fqn, value)
        or _matches_names(node.fqn[1:], value)
    )


def _matches_names(fqn: Sequence[str], value: str) -> bool:
    """Whether `value` is the start of the dotted `fqn`, or a glob that matches all of
    it.

    The names before the first one with a wildcard are compared literally; from there
    on, the glob covers the rest, dots included. It never has more names than `fqn`.
    """
    names = ".".join(fqn).split(".")
    wanted = value.split(".")
    if len(wanted) > len(names):
        return False
    literal = next(
        (index for index, name in enumerate(wanted) if is_glob(name)), len(wanted)
    )
    if names[:literal] != wanted[:literal]:
        return False
    return literal == len(wanted) or fnmatchcase(
        ".".join(names[literal:]), ".".join(wanted[literal:])
    )


def is_glob(name: str) -> bool:
    """Whether a selector's value has wildcards, so that it may match several names."""
    return any(character in name for character in "*?[]")


def _matches_path(node: GraphNode, criterion: Criterion) -> bool:
    """Whether the value is the path of the node's file, or of a folder above it; it may
    be a glob.

    `**` means any number of folders, also none. A glob that ends in it matches folders
    only, as in pathlib.
    """
    if node.is_appended:
        return False
    pattern = PurePosixPath(posixpath.normpath(criterion.value)).parts
    path = PurePosixPath(node.path)
    places = path.parents if pattern[-1:] == ("**",) else (path, *path.parents)
    return any(_matches_parts(place.parts, pattern) for place in places)


def _matches_parts(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(
            _matches_parts(parts[skipped:], pattern[1:])
            for skipped in range(len(parts) + 1)
        )
    return (
        bool(parts)
        and fnmatchcase(parts[0], pattern[0])
        and _matches_parts(parts[1:], pattern[1:])
    )


def _matches_file(node: GraphNode, criterion: Criterion) -> bool:
    if node.is_appended:
        return False
    path = PurePosixPath(node.path)
    return fnmatchcase(path.name, criterion.value) or fnmatchcase(
        path.stem, criterion.value
    )


def _matches_config(node: GraphNode, criterion: Criterion) -> bool:
    """Whether the value under the key equals the criterion's, or a list there has it as
    a member. No globs, as in dbt."""
    return any(
        _is_value(member, criterion.value)
        for value in _values_at(node.config, criterion.key.split("."))
        for member in (value if isinstance(value, list) else (value,))
    )


def _values_at(value: object, names: Sequence[str]) -> Iterable[object]:
    """The values under a dotted key; several if keys of the mappings contain dots
    themselves."""
    if not names:
        yield value
    elif isinstance(value, Mapping):
        for count in range(1, len(names) + 1):
            name = ".".join(names[:count])
            if name in value:
                yield from _values_at(value[name], names[count:])


def _is_value(value: object, text: str) -> bool:
    match value:
        case bool():
            return text.lower() == str(value).lower()
        case str() | int() | float():
            return text == str(value)
        case _:
            return False


TEST_TYPES = ("data", "generic", "singular")
"""The values of `test_type:`. A data test is generic (in a properties file) or singular
(a file of `tests/`); `data` means both."""


def _is_of_type(node: GraphNode, value: str) -> bool:
    return (
        value == ("singular" if node.config["test"] == "sql" else "generic")
        or value == "data"
    )


STATES = (
    "new",
    "modified",
    *(f"modified.{part}" for part in ("body", "configs", "contract", "macros")),
)
"""The values of `state:`: how a node differs from another version of the project."""


RESULTS = ("success", "error", "skipped", "pass", "no_rows", "warn", "fail")
"""The values of `result:`: how a node ended in an earlier command. A model has one of
the first three, a data test any but `success`."""

SELECTOR = "selector"
"""The method that refers to an entry of selectors.yml."""


def asks_for(selection: Selection, method: str) -> bool:
    """Whether a selection uses a method, also within the named selectors that it
    uses."""
    return any(_uses(part, method) for part in (*selection.select, *selection.exclude))


def _uses(expression: Expression, method: str) -> bool:
    match expression:
        case Criterion():
            return expression.method == method
        case NamedSelector():
            return expression.criterion.method == method or _uses(
                expression.expression, method
            )
        case Intersection() | Union():
            return any(_uses(part, method) for part in expression.parts)
        case SetDifference():
            return _uses(expression.of, method) or _uses(expression.without, method)
        case _:
            assert_never(expression)


METHODS: Mapping[str, Callable[[GraphNode, Criterion], bool]] = {
    "config": _matches_config,
    "file": _matches_file,
    "fqn": _matches_fqn,
    "path": _matches_path,
    "resource_type": lambda node, criterion: node.resource_type == criterion.value,
    "result": lambda node, criterion: criterion.value in (node.results or ()),
    "state": lambda node, criterion: criterion.value in (node.states or ()),
    "stream": lambda node, criterion: (
        node.resource_type == "stream" and fnmatchcase(node.name, criterion.value)
    ),
    "tag": lambda node, criterion: any(
        fnmatchcase(tag, criterion.value) for tag in node.tags
    ),
    "test_name": lambda node, criterion: (
        node.resource_type == "test" and node.config["test"] == criterion.value
    ),
    "test_type": lambda node, criterion: (
        node.resource_type == "test" and _is_of_type(node, criterion.value)
    ),
}
"""The selector methods by the word before the colon: each tells whether a node
matches."""
