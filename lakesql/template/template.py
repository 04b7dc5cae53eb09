"""A model's file as a template: what it says of itself, read without running it, and
the SQL that it renders to.

Jinja reads the text; its syntax tree is checked once, by `check`, and what stands in no
list there is refused. Configuration, edges, vars and macros are facts of the tree, with
their places; a model is rendered once, by `evaluate`. No Python is generated from a
template, and none of its objects is in a template's reach.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from jinja2 import nodes

from lakesql.decode import Node
from lakesql.errors import Place, Problem, ProjectError
from lakesql.template.check import check_macro, check_model
from lakesql.template.evaluate import Names, Rendering, run
from lakesql.template.jinja import SourceText, parse_jinja, source_of
from lakesql.template.reader import (
    FUNCTIONS,
    RESERVED,
    Macro,
    Reader,
    Reference,
    reserved_name,
)
from lakesql.template.unreached import BranchPart, find_unreached
from lakesql.template.values import TemplateError, value_of
from lakesql.template.written import Piece


@dataclass(frozen=True, slots=True)
class Macros:
    """The project's macros by name. A macro's `text` is all that a model which uses it
    depends on."""

    by_name: Mapping[str, Macro] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Template:
    """A model's file as it reads, before it is rendered.

    `streams` and `refs` are in the order of the text, each occurrence once. `macros`
    are the project's macros that it can reach; `reads` says which of `this`, `target`,
    `is_full_refresh` it reads.
    """

    config: Node
    streams: tuple[Reference, ...]
    refs: tuple[Reference, ...]
    vars: frozenset[str]
    macros: frozenset[str]
    reads: frozenset[str]
    body: list[nodes.Node] = field(repr=False)
    known: Mapping[str, Macro] = field(repr=False)
    lines: SourceText = field(repr=False)


@dataclass(frozen=True, slots=True)
class Rendered:
    """The SQL of a model, and where each character of it comes from."""

    text: str
    pieces: tuple[Piece, ...] = field(repr=False)
    lines: SourceText = field(repr=False)

    def place(self, offset: int) -> Place:
        """Where in the model's file the character at `offset` of the text stands.

        What an expression wrote stands at its `{{`.
        """
        return self.lines.place(self.origin(offset)[0])

    def origin(self, offset: int) -> tuple[int, bool]:
        """The offset in the model's file that the character at `offset` of the text
        comes from, and whether the file has that very character: what an expression
        wrote comes from its `{{`."""
        index = (
            bisect_right(self.pieces, max(offset, 0), key=lambda piece: piece.start) - 1
        )
        if index < 0:
            return 0, False
        piece = self.pieces[index]
        return piece.origin + (
            min(offset, len(self.text)) - piece.start
        ) * piece.verbatim, piece.verbatim

    def edited(self, edits: Iterable[tuple[int, int, str]]) -> Rendered:
        """The same with other texts in the place of parts of it, each given by its
        start, its end and the text.

        They are in their order. What stands there now comes from where the part began.
        """
        texts: list[str] = []
        pieces: list[Piece] = []
        size, done = 0, 0
        for start, end, text in (*edits, (len(self.text), len(self.text), "")):
            pieces += self._pieces_between(done, start, size - done)
            size += start - done
            replaced = self._pieces_between(start, start + 1, size - start)
            pieces += (replace(piece, verbatim=False) for piece in replaced)
            texts += (self.text[done:start], text)
            size, done = size + len(text), end
        return Rendered("".join(texts), tuple(pieces), self.lines)

    def _pieces_between(self, start: int, end: int, moved: int) -> Iterator[Piece]:
        """The pieces of a part of the text, which is moved by so many characters."""
        for piece, following in zip(self.pieces, (*self.pieces[1:], None), strict=True):
            stop = following.start if following is not None else len(self.text)
            first = max(piece.start, start)
            if first < min(stop, end):
                origin = piece.origin + (first - piece.start) * piece.verbatim
                yield Piece(first + moved, origin, piece.verbatim)


def parse_macros(files: Sequence[tuple[str, str]]) -> Macros:
    """The macros of `files`, each a path and its text.

    A macro is pure text: it sees its arguments and other macros. Raises `ProjectError`
    with the problems of all files.
    """
    problems: list[Problem] = []
    found: dict[str, tuple[SourceText, nodes.Macro]] = {}
    for path, text in files:
        source = source_of(path, text)
        try:
            _find_macros(source, parse_jinja(source), found, problems)
        except ProjectError as error:
            problems.extend(error.problems)
    known = frozenset(found)
    macros: dict[str, Macro] = {}
    for source, node in found.values():
        reader = Reader(source, known, pure=True)
        try:
            macros[node.name] = check_macro(reader, node)
        except RecursionError:
            reader.report(
                "template-too-large", node.lineno, "The macro is nested too deeply."
            )
        problems.extend(reader.problems)
    if problems:
        raise ProjectError(problems)
    return Macros(macros)


def parse_template(path: str, source: str, macros: Macros) -> Template:
    """What the model file `path` with the text `source` says. Raises `ProjectError`
    with all of its problems."""
    lines = source_of(path, source)
    body = parse_jinja(lines)
    reader = Reader(lines, frozenset(macros.by_name))
    try:
        check_model(reader, body)
    except RecursionError:
        reader.report("template-too-large", 0, "The template is nested too deeply.")
    if reader.problems:
        raise ProjectError(reader.problems)
    return Template(
        reader.config or Node({}, Place(path, 1, 1)),
        tuple(reader.streams),
        tuple(reader.refs),
        frozenset(reader.vars),
        _reachable(reader.calls, reader.locals, macros.by_name),
        frozenset(reader.reads),
        body,
        {**macros.by_name, **reader.locals} if reader.locals else macros.by_name,
        lines,
    )


@lru_cache(maxsize=64)
def read_config_again(path: str, source: str) -> Node:
    """What `config(...)` says in a model's file that was found right before."""
    reader = Reader(source_of(path, source), frozenset())
    check_model(reader, parse_jinja(reader.source))
    return reader.config or Node({}, Place(path, 1, 1))


def render_template(template: Template, names: Names) -> Rendered:
    """The SQL of a template. Raises `ProjectError` when it cannot be rendered, at the
    line of the model."""
    state = _start(template, names)
    text, pieces = _run(state, template)
    return Rendered(text, pieces, template.lines)


def unreached_parts(
    template: Template, names: Names, fold: Callable[[str], str]
) -> tuple[BranchPart, ...]:
    """What a rendering leaves out of a template and its macros, and another one may
    write. Raises as `render_template`.

    `fold` gives a piece of SQL in one spelling. Nothing where every rendering is the
    same: the template reads no variable, and neither target nor `is_full_refresh`.
    """
    if not (template.vars or template.reads & {"target", "is_full_refresh"}):
        return ()
    state = _start(template, names)
    _run(state, template)
    own = {
        name: it
        for name, it in template.known.items()
        if it.local or name in template.macros
    }
    return find_unreached(
        template.body, template.lines, own, state.vars, state.reached, fold
    )


def _start(template: Template, names: Names) -> Rendering:
    edges = {
        "stream": {found.name: names.stream(found.name) for found in template.streams},
        "ref": {found.name: names.ref(found.name) for found in template.refs},
    }
    module = {name: value_of(getattr(names, name)) for name in template.reads}
    return Rendering(template.lines, template.known, names.vars, edges, module)


def _run(state: Rendering, template: Template) -> tuple[str, tuple[Piece, ...]]:
    try:
        return run(state, template.body)
    except TemplateError as fault:
        place = (
            Place(template.lines.path)
            if fault.at is None
            else template.lines.place(fault.at)
        )
        why = " ".join(fault.inside)
        raise ProjectError.of(
            fault.condition, fault.what, why=why, fix=fault.fix, place=place
        ) from None


def _find_macros(
    source: SourceText,
    body: Iterable[nodes.Node],
    found: dict[str, tuple[SourceText, nodes.Macro]],
    problems: list[Problem],
) -> None:
    for node in body:
        if isinstance(node, nodes.Macro):
            place = source.place(node.lineno)
            if node.name in RESERVED | FUNCTIONS:
                problems.append(reserved_name(node.name, place))
            elif node.name in found:
                other, first = found[node.name]
                what = f"A macro '{node.name}' stands at {other.place(first.lineno)} already."
                problems.append(Problem("duplicate-macro", what, place=place))
            else:
                found[node.name] = (source, node)
            continue
        for item in node.nodes if isinstance(node, nodes.Output) else (node,):
            blank = (
                len(item.data) - len(item.data.lstrip())
                if isinstance(item, nodes.TemplateData)
                else 0
            )
            if not isinstance(item, nodes.TemplateData) or blank < len(item.data):
                what = "A file of macros holds macros and comments, nothing else."
                problems.append(
                    Problem(
                        "not-a-macro", what, place=source.place(item.lineno + blank)
                    )
                )
                break


def _reachable(
    called: Iterable[str], locals_: Mapping[str, Macro], macros: Mapping[str, Macro]
) -> frozenset[str]:
    """The project's macros that `called` reach, through each other and through the
    model's own."""
    seen: set[str] = set()
    waiting = list(called)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend((locals_[name] if name in locals_ else macros[name]).calls)
    return frozenset(seen - locals_.keys())
