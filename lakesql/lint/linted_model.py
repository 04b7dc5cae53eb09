"""The view of a model that lint rules get: its checked SELECT with its tree, and the
place in its file of each part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from lakesql.compile.build_select import build_select, selects_of
from lakesql.compile.select import Select, output_columns
from lakesql.errors import ProjectError
from lakesql.graph.manifest import Manifest
from lakesql.lint.finding import RuleMatch, Span, TextEdit, word_span
from lakesql.model.model import Model
from lakesql.modes.batches.all_batches import batches_of
from lakesql.select.selects_read import SelectRead, SelectsRead


@dataclass(frozen=True, slots=True)
class LintedModel:
    """A model of a project with its SELECT. `read` has the SELECTs that it consists of,
    with their trees. `built` caches the SELECTs of the project's models that have been
    built."""

    manifest: Manifest
    select: Select
    read: SelectsRead
    built: dict[str, Select]

    @property
    def model(self) -> Model:
        """The model."""
        return self.select.model

    @property
    def tokens(self) -> list[Token]:
        """The tokens of its SQL."""
        return self.read.text.tokens

    @property
    def selects(self) -> tuple[SelectRead, ...]:
        """All SELECTs in it: the outermost one, subqueries, and common table
        expressions."""
        return self.read.selects

    @property
    def types(self) -> dict[str, str]:
        """The types of its columns, as far as they are known, by their names in lower
        case."""
        return {
            column.name.lower(): column.type for column in output_columns(self.select)
        }

    def unique_by(self, name: str) -> tuple[str, ...]:
        """The columns by which the rows of another model's table are unique. Empty if
        there are none, or if that model does not parse, which is reported for the model
        itself."""
        try:
            return batches_of(build_select(self.manifest, name, self.built)).unique_by
        except ProjectError:
            return ()

    def columns_made(self) -> Iterator[tuple[str, exp.Expr, SelectRead]]:
        """The output columns of the outermost SELECT: for each its name in lower case,
        the expression that makes it, and the SELECT."""
        tree = self.read.tree
        for read in self.selects:
            if read.select is tree:
                for item in read.select.expressions:
                    yield item.alias_or_name.lower(), item.unalias(), read

    def option(self, name: str, item: int | None = None) -> Span:
        """The range of an option, or of one item of it, in `config(...)`; the range of
        the call if the option is not given there."""
        return word_span(self.model.source, self.model.option_place(name, item))

    def found(
        self,
        start: int,
        end: int,
        what: str,
        fix: str,
        edits: tuple[TextEdit | None, ...] = (),
    ) -> RuleMatch:
        """A match between two offsets of the SQL. It has the edits only if all of them
        can be made: None is one that cannot."""
        made = tuple(edit for edit in edits if edit is not None)
        return RuleMatch(
            self.span(start, end), what, fix, made if len(made) == len(edits) else ()
        )

    def found_at(
        self,
        node: exp.Expr,
        what: str,
        fix: str,
        edits: tuple[TextEdit | None, ...] = (),
    ) -> RuleMatch:
        """A match at a part of the tree."""
        return self.found(*self.range_of(node), what, fix, edits)

    def found_for(
        self, option: str, what: str, fix: str, item: int | None = None
    ) -> RuleMatch:
        """A match at an option of the model."""
        return RuleMatch(self.option(option, item), what, fix)

    def range_of(self, node: exp.Expr) -> tuple[int, int]:
        """The offsets of the start of the first token of a part of the tree and of the
        end of its last one, as far as sqlglot knows the positions of tokens."""
        placed = [
            inner._meta
            for inner in node.walk()
            if inner._meta and "start" in inner._meta
        ]
        if not placed:
            return 0, 1
        return min(meta["start"] for meta in placed), max(
            meta["end"] for meta in placed
        ) + 1

    def span(self, start: int, end: int) -> Span | None:
        """The range of the model's file that the SQL from `start` to `end` comes from.

        For SQL that a template expression produces, it is the range of that expression.
        None for the SQL of a view that is put in for a `ref`.
        """
        rendered = self.select.rendered
        first, is_own = rendered.origin(start)
        if not is_own:
            text = rendered.lines.text
            closing = text.find("}}", first)
            if (
                _READS_TABLE.match(text, first)
                and start > 0
                and rendered.origin(start - 1) == (first, False)
            ):
                return None
            return Span(
                rendered.lines.place(first),
                rendered.lines.place(closing + 2 if closing > 0 else first + 1),
            )
        last, is_own_too = rendered.origin(max(end - 1, start))
        return Span(
            rendered.lines.place(first),
            rendered.lines.place((last if is_own_too else first) + 1),
        )

    def edit(self, start: int, end: int, text: str) -> TextEdit | None:
        """The edit that replaces the SQL between two offsets by `text`; None if the
        file does not have that SQL literally."""
        rendered = self.select.rendered
        first, is_first_own = rendered.origin(start)
        last, is_last_own = rendered.origin(max(end - 1, start))
        is_whole = last - first == max(end - 1, start) - start
        if not (is_first_own and is_last_own and is_whole):
            return None
        return TextEdit(
            Span(
                rendered.lines.place(first), rendered.lines.place(first + end - start)
            ),
            text,
        )

    def edit_over(self, start: int, end: int, text: str) -> TextEdit | None:
        """The edit that replaces the SQL between two offsets by `text`, including
        template expressions that produce parts of it; None if it begins or ends within
        the SQL of one."""
        rendered = self.select.rendered
        first, is_first_own = rendered.origin(start)
        last, is_last_own = rendered.origin(end - 1)
        if not (is_first_own and is_last_own):
            return None
        return TextEdit(
            Span(rendered.lines.place(first), rendered.lines.place(last + 1)), text
        )

    def written_between(self, start: int, end: int) -> str | None:
        """The text of the file that the SQL between two offsets comes from; None if it
        begins or ends within the SQL of a template expression."""
        rendered = self.select.rendered
        first, is_first_own = rendered.origin(start)
        last, is_last_own = rendered.origin(end - 1)
        return (
            rendered.lines.text[first : last + 1]
            if is_first_own and is_last_own
            else None
        )

    def insertion(self, offset: int, text: str) -> TextEdit | None:
        """The edit that inserts `text` at an offset of the SQL; None if the character
        before it comes from a template expression."""
        before, is_own = self.select.rendered.origin(offset - 1)
        place = self.select.rendered.lines.place(before + 1)
        return TextEdit(Span(place, place), text) if is_own else None

    def token_index(self, offset: int) -> int:
        """The index of the token that begins at an offset; -1 if none does."""
        return next(
            (
                number
                for number, token in enumerate(self.tokens)
                if token.start == offset
            ),
            -1,
        )


_READS_TABLE = re.compile(r"\{\{[-+]?\s*ref\s*\(")
"""The start of a template expression that produces the name of a table, or the SELECT
of a view."""


def open_model(manifest: Manifest, name: str, built: dict[str, Select]) -> LintedModel:
    """The view of a model that rules get. Raises `ProjectError` for a model that does
    not parse."""
    select = build_select(manifest, name, built)
    return LintedModel(manifest, select, selects_of(select), built)
