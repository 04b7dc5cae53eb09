"""The parser of a maintenance model's CALL statements: which procedure each calls, with
which options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from lakesql.decode import Node, collect, decode
from lakesql.errors import Place, Problem, ProjectError, did_you_mean
from lakesql.model.table_name import TableName
from lakesql.project.duration import Duration
from lakesql.project.iceberg_options import ICEBERG_OPTIONS
from lakesql.project.procedures import (
    ARGUMENTS,
    DEFAULTS,
    DUE_OPTIONS,
    PROCEDURES,
    REFUSED_ARGUMENTS,
    Procedure,
    RewriteDataFiles,
    check_options,
    has_map,
    iceberg_names,
)
from lakesql.project.size import shortest
from lakesql.template.template import Rendered

PATTERN = "CALL {{ target.catalog }}.system.rewrite_data_files(table => '{{ this }}')"
"""An example of a statement, for messages."""


@dataclass(frozen=True, slots=True)
class CallStatement:
    """A CALL statement: its procedure, the options, and its place in the file."""

    procedure: str
    options: Procedure
    place: Place


def read_calls(
    rendered: Rendered,
    table: TableName,
    base: Mapping[str, Procedure],
    trigger: Duration | None,
) -> tuple[CallStatement, ...]:
    """The statements, separated by `;`, of a maintenance model for `table`.

    An option that a statement leaves out has lakesql's default. A CALL does not say
    when its procedure is due: `trigger` does, the model's own, and `base`, the options
    of the table's maintenance by procedure. Raises `ProjectError` with the problems of
    all statements (`bad-call`, `unknown-option`, `unsafe-maintenance`, and what
    decoding finds).
    """
    problems: list[Problem] = []
    statements = collect(problems, lambda: _statements(rendered)) or []
    calls = [
        collect(problems, partial(_read_call, each, table, base, trigger))
        for each in statements
    ]
    if not statements and not problems:
        problems.append(_bad("The model holds no statement.", rendered.place(0)))
    if problems:
        raise ProjectError(problems)
    return tuple(filter(None, calls))


@dataclass(frozen=True, slots=True)
class _Token:
    """A token of a CALL. `kind` is the name of a group of `_TOKEN`, or `_END`; `text`
    is the token as written."""

    kind: str
    text: str
    place: Place


_END = "end"
_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<quoted>`(?:[^`]|``)*`)
    |(?P<number>-?[0-9]+(?:\.[0-9]+)?(?!\w))
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign>=>|[().,;-])
    """,
    re.VERBOSE | re.DOTALL,
)


def _statements(rendered: Rendered) -> list[list[_Token]]:
    """The tokens of each statement. The last one is of kind `_END`."""
    found: list[list[_Token]] = [[]]
    at, text = 0, rendered.text
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ProjectError(
                [_bad(f"A CALL has no {text[at]!r} here.", rendered.place(at))]
            )
        kind, said = str(token.lastgroup), token[0]
        place = rendered.place(at)
        at = token.end()
        if kind == "blank":
            continue
        if said == ";":
            found[-1] += (
                [_Token(_END, "the end of the statement", place)] if found[-1] else []
            )
            found.append([])
        else:
            found[-1].append(_Token(kind, said, place))
    found[-1] += (
        [_Token(_END, "the end of the file", rendered.place(len(text)))]
        if found[-1]
        else []
    )
    return list(filter(None, found))


class _CallTokens:
    """A reader of the tokens of one statement."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def next(self) -> _Token:
        return self._tokens[self._at]

    def take(self) -> _Token:
        token = self.next
        self._at += token.kind != _END
        return token

    def takes(self, text: str) -> bool:
        """Whether the next token is this word or sign, compared case-insensitively; if
        so, the reader moves on."""
        is_next = self.next.kind in ("word", "sign") and self.next.text.lower() == text
        self._at += is_next
        return is_next

    def expect(self, text: str) -> None:
        if not self.takes(text):
            raise ProjectError(
                [
                    _bad(
                        f"Instead of {self._shown()}, '{text}' is expected here.",
                        self.next.place,
                    )
                ]
            )

    def name(self) -> str:
        token = self.take()
        match token.kind:
            case "word":
                return token.text
            case "quoted":
                return token.text[1:-1].replace("``", "`")
            case _:
                self._at -= token.kind != _END
                raise ProjectError(
                    [
                        _bad(
                            f"Instead of {self._shown()}, a name is expected here.",
                            token.place,
                        )
                    ]
                )

    def path(self) -> tuple[str, ...]:
        """The names of a dotted path."""
        names = [self.name()]
        while self.takes("."):
            names.append(self.name())
        return tuple(names)

    def _shown(self) -> str:
        return self.next.text if self.next.kind == _END else f"'{self.next.text}'"

    def value(self) -> Node:
        """A literal, a list or a mapping. An expression such as `now() - INTERVAL 5
        DAYS` becomes the interval."""
        token = self.take()
        match token.kind, token.text.lower():
            case "string", _:
                return Node(_unescape(token.text[1:-1]), token.place)
            case "number", text:
                return Node(float(text) if "." in text else int(text), token.place)
            case "word", "true" | "false" as text:
                return Node(text == "true", token.place)
            case "word", "array":
                return Node(tuple(self._items()), token.place)
            case "word", "map":
                return self._mapping(token.place)
            case "word", "interval":
                return Node(self._interval(), token.place)
            case "word", "now" | "current_timestamp" as text if self.next.text in (
                "(",
                "-",
            ):
                if self.takes("("):
                    self.expect(")")
                self.expect("-")
                self.expect("interval")
                return Node(self._interval(), token.place)
            case "word", "timestamp" | "date":
                what = "A fixed time is the same in each run."
                raise ProjectError(
                    [
                        _bad(
                            what,
                            token.place,
                            "Write an age: older_than => INTERVAL 5 DAYS",
                        )
                    ]
                )
            case _:
                self._at -= token.kind != _END
                what = f"Instead of {self._shown()}, a literal is expected here."
                raise ProjectError(
                    [
                        _bad(
                            what,
                            token.place,
                            "A text stands in quotes, a list in array(…).",
                        )
                    ]
                )

    def _items(self) -> Iterator[Node]:
        self.expect("(")
        while not self.takes(")"):
            yield self.value()
            if self.next.text != ")":
                self.expect(",")

    def _mapping(self, place: Place) -> Node:
        items = list(self._items())
        if len(items) % 2 or not all(isinstance(key.value, str) for key in items[::2]):
            raise ProjectError(
                [_bad("A map holds texts, and behind each of them its value.", place)]
            )
        keys = [str(key.value) for key in items[::2]]
        places = {name: key.place for name, key in zip(keys, items[::2], strict=True)}
        if len(places) < len(keys):
            raise ProjectError([_bad("A key of this map stands twice.", place)])
        return Node(dict(zip(keys, items[1::2], strict=True)), place, places)

    def _interval(self) -> str:
        token = self.take()
        said = _unescape(token.text[1:-1]) if token.kind == "string" else token.text
        unit = self.take().text if self.next.kind == "word" else ""
        return f"{said} {unit}".strip()


def _unescape(text: str) -> str:
    return re.sub(
        r"\\(.)",
        lambda found: {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1]),
        text,
        flags=re.S,
    )


def _read_call(
    tokens: list[_Token],
    table: TableName,
    base: Mapping[str, Procedure],
    trigger: Duration | None,
) -> CallStatement:
    reader, place = _CallTokens(tokens), tokens[0].place
    if not reader.takes("call"):
        raise ProjectError(
            [_bad(f"'{tokens[0].text}' begins a statement that is no CALL.", place)]
        )
    path = reader.path()
    procedure = _check_procedure(path, table, place)
    reader.expect("(")
    given: dict[str, Node] = {}
    places: dict[str, Place] = {}
    about: tuple[str, ...] | None = None
    while not reader.takes(")"):
        at = reader.next
        if at.kind not in ("word", "quoted"):
            fix = f"Name it: table => '{table.namespace}.{table.name}'"
            raise ProjectError(
                [
                    _bad(
                        "The arguments of a CALL in a maintenance model have names.",
                        at.place,
                        fix,
                    )
                ]
            )
        name = reader.name().lower()
        reader.expect("=>")
        if name in places:
            raise ProjectError([_bad(f"The argument '{name}' stands twice.", at.place)])
        places[name] = at.place
        if name == "table":
            about = _read_table(reader)
        else:
            given[name] = reader.value()
        if reader.next.text != ")":
            reader.expect(",")
    if reader.next.kind != _END:
        what = f"'{reader.next.text}' stands behind a CALL."
        raise ProjectError(
            [_bad(what, reader.next.place, "Statements are separated by ';'.")]
        )
    _check_table(about, table, places.get("table", place))
    options = _read_options(procedure, Node(given, place, places))
    own = base.get(procedure, DEFAULTS[procedure])
    due = {name: getattr(own, name) for name in DUE_OPTIONS if hasattr(options, name)}
    return CallStatement(
        procedure,
        replace(options, **{**due, "trigger": trigger or due["trigger"]}),
        place,
    )


def _check_procedure(path: tuple[str, ...], table: TableName, place: Place) -> str:
    name = path[-1].lower()
    if name not in PROCEDURES:
        what = f"'{'.'.join(path)}' is no procedure of maintenance."
        raise ProjectError([_bad(what, place, did_you_mean(name, PROCEDURES))])
    lowered = [part.lower() for part in path]
    if lowered != [table.catalog.lower(), "system", name]:
        what = f"The procedure '{'.'.join(path)}' is not one of the catalog '{table.catalog}', which has the table."
        raise ProjectError(
            [
                _bad(
                    what,
                    place,
                    f"Write CALL {{{{ target.catalog }}}}.system.{name}(…).",
                )
            ]
        )
    return name


def _read_table(reader: _CallTokens) -> tuple[str, ...]:
    """The parts of a table's name, given as a text or as a path."""
    if reader.next.kind != "string":
        return reader.path()
    token = reader.take()
    found = _NAMES.findall(_unescape(token.text[1:-1]))
    return tuple(name.strip("`") for name in found)


_NAMES = re.compile(r"`[^`]*`|[^.`]+")


def _check_table(about: tuple[str, ...] | None, table: TableName, place: Place) -> None:
    said = tuple(name.lower() for name in about or ())
    if said in (table.folded, table.folded[1:]):
        return
    what = (
        f"The CALL is about '{'.'.join(about)}', and not about {table}."
        if about
        else "The CALL has no table."
    )
    raise ProjectError(
        [
            _bad(
                what,
                place,
                "Write table => '{{ this }}': the table of the model that `of` names.",
            )
        ]
    )


def _read_options(procedure: str, given: Node) -> Procedure:
    """The options of a procedure from the arguments of a CALL, the map `options`
    included."""
    kind, problems = PROCEDURES[procedure], list[Problem]()
    entries = _Entries(procedure)
    others = () if has_map(procedure) else ICEBERG_OPTIONS[procedure]
    known = {
        *ARGUMENTS[procedure],
        *others,
        *(("options",) if has_map(procedure) else ()),
    }
    for name, node in given.entries().items():
        place = given.key_place(name)
        if why := REFUSED_ARGUMENTS.get(procedure, {}).get(name):
            fix = "Leave it out."
            problems.append(
                Problem(
                    "unsafe-maintenance",
                    f"'{name}' is no argument for a model.",
                    why,
                    fix,
                    place,
                )
            )
        elif name not in known:
            what = f"{procedure} has no argument '{name}'."
            problems.append(
                Problem("unknown-option", what, "", did_you_mean(name, known), place)
            )
        elif name == "options":
            entries.spread(node, problems)
        elif name in others:
            entries.passed[name], entries.places[name] = node, place
        else:
            entries.typed[name], entries.places[name] = node, place
    node = entries.node(given.place)
    found = collect(problems, lambda: decode(node, kind, what=procedure))
    if isinstance(found, RewriteDataFiles):
        collect(problems, partial(check_options, found, node))
    if problems:
        raise ProjectError(problems)
    return found or DEFAULTS[procedure]


class _Entries:
    """The options of a CALL: `typed` ones by lakesql's names, and `passed` ones, which
    go to Iceberg as they are, by Iceberg's."""

    def __init__(self, procedure: str) -> None:
        self.procedure = procedure
        self.typed: dict[str, Node] = {}
        self.passed: dict[str, Node] = {}
        self.places: dict[str, Place] = {}

    def spread(self, node: Node, problems: list[Problem]) -> None:
        """Add the entries of the map `options`."""
        own = {key: name for name, key in iceberg_names(self.procedure).items()}
        others = ICEBERG_OPTIONS[self.procedure]
        for key, value in (collect(problems, node.entries) or {}).items():
            name, place = own.get(key), node.key_place(key)
            if key in others:
                self.passed[key], self.places[key] = value, place
            elif name is None:
                what = f"{self.procedure} has no option '{key}'."
                problems.append(
                    Problem(
                        "unknown-option",
                        what,
                        "",
                        did_you_mean(key, {*own, *others}),
                        place,
                    )
                )
            elif (
                typed := collect(
                    problems, partial(_typed, value, key.endswith("-bytes"))
                )
            ) is not None:
                self.typed[name], self.places[name] = typed, place

    def node(self, place: Place) -> Node:
        """The options as a mapping of the form that `maintenance` has in a file."""
        passed = Node(self.passed, place, self.places)
        return Node(
            {**self.typed, **({"options": passed} if self.passed else {})},
            place,
            self.places,
        )


def _typed(node: Node, is_size: bool) -> Node:
    """The value of an option in a map, where Iceberg wants texts, as a number, a truth
    value or, if `is_size`, a size. Raises `ProjectError` (`bad-size`)."""
    text = (
        str(node.value).lower()
        if isinstance(node.value, bool | int | float)
        else node.value
    )
    if not isinstance(text, str):
        return node
    if is_size and text.isdecimal():
        return replace(node, value=shortest(int(text)))
    if is_size:
        fix = "Write it without a unit, as Iceberg reads it: '268435456'."
        raise ProjectError.of(
            "bad-size",
            f"{node.shown} is not a number of bytes.",
            fix=fix,
            place=node.place,
        )
    if text in ("true", "false"):
        return replace(node, value=text == "true")
    if not _NUMBER.match(text):
        return node
    return replace(node, value=float(text) if "." in text else int(text))


_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?\Z")


def _bad(what: str, place: Place, fix: str = "") -> Problem:
    return Problem("bad-call", what, "", fix or f"Write {PATTERN}.", place)
