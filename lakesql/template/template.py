"""A model's file as a template: its configuration and references, read without running
it, and the SQL that it renders to.

Jinja parses the text. `check` goes over the syntax tree once, and refuses what is not
explicitly allowed. Configuration, edges, vars and macros are read from the tree, with
their places. `evaluate` renders a model once. No Python is generated from a template,
and no Python object is reachable from one.
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
    """The project's macros by name. A model that uses a macro depends on the macro's
    `text` and nothing else of its file."""

    by_name: Mapping[str, Macro] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Template:
    """A model's file, parsed and not yet rendered.

    `streams` and `refs` have each occurrence, in the order of the text. `macros` are
    the project's macros that it uses, directly or through others. `reads` has those of
    `this`, `target` and `is_full_refresh` that it reads.
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
        """The place in the model's file that the character at `offset` of the SQL comes
        from.

        For text that an expression has produced, it is the place of its `{{`.
        """
        return self.lines.place(self.origin(offset)[0])

    def origin(self, offset: int) -> tuple[int, bool]:
        """The offset in the model's file that the character at `offset` of the SQL
        comes from, and whether the file has that very character there. Text that an
        expression has produced comes from its `{{`."""
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
        """The same SQL with parts of it replaced, each given by its start, its end and
        the new text.

        The edits must be sorted. The origin of a new text is that of the start of the
        part that it replaces.
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
        """The pieces between two offsets of the SQL, moved by `moved` characters."""
        for piece, following in zip(self.pieces, (*self.pieces[1:], None), strict=True):
            stop = following.start if following is not None else len(self.text)
            first = max(piece.start, start)
            if first < min(stop, end):
                origin = piece.origin + (first - piece.start) * piece.verbatim
                yield Piece(first + moved, origin, piece.verbatim)


def parse_macros(files: Sequence[tuple[str, str]]) -> Macros:
    """The macros in `files`, each given by its path and its text.

    A macro of a project is pure: it sees only its arguments and other macros. Raises
    `ProjectError` with the problems of all files.
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
    """The template of the model file `path` with the text `source`. Raises
    `ProjectError` with all of its problems."""
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
    """The options in `config(...)` of a model's file that was parsed before without a
    problem."""
    reader = Reader(source_of(path, source), frozenset())
    check_model(reader, parse_jinja(reader.source))
    return reader.config or Node({}, Place(path, 1, 1))


def render_template(template: Template, names: Names) -> Rendered:
    """The SQL of a template. Raises `ProjectError`, at the line of the model, if it
    cannot be rendered."""
    state = _start(template, names)
    text, pieces = _run(state, template)
    return Rendered(text, pieces, template.lines)


def unreached_parts(
    template: Template, names: Names, fold: Callable[[str], str]
) -> tuple[BranchPart, ...]:
    """The parts of a template and its macros that a rendering leaves out, but another
    one may include. Raises `ProjectError` like `render_template`.

    `fold` normalizes SQL. Empty if all renderings are the same: the template reads no
    variable, and neither `target` nor `is_full_refresh`.
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
    """The project's macros that are called from `called`, directly, through each other,
    or through the model's own macros."""
    seen: set[str] = set()
    waiting = list(called)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend((locals_[name] if name in locals_ else macros[name]).calls)
    return frozenset(seen - locals_.keys())
