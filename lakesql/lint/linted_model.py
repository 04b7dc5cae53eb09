"""A model as rules look at it: its SELECT, checked and with its tree, and where in its
file each part stands."""

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
    """A model of a project with its SELECT. `read` has the SELECTs that this is made
    of, with their trees, and `built` keeps the SELECTs of models that were worked
    out."""

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
        """The words of its SQL."""
        return self.read.text.tokens

    @property
    def selects(self) -> tuple[SelectRead, ...]:
        """The SELECTs that it is made of."""
        return self.read.selects

    @property
    def types(self) -> dict[str, str]:
        """The types of its columns by their names in small letters, as far as they are
        known."""
        return {
            column.name.lower(): column.type for column in output_columns(self.select)
        }

    def unique_by(self, name: str) -> tuple[str, ...]:
        """The columns of which no two rows of another model's table have the same
        values; none where that does not parse: it is refused by itself."""
        try:
            return batches_of(build_select(self.manifest, name, self.built)).unique_by
        except ProjectError:
            return ()

    def columns_made(self) -> Iterator[tuple[str, exp.Expr, SelectRead]]:
        """The columns of the outermost SELECT by their names in small letters, with the
        expressions that make them."""
        tree = self.read.tree
        for read in self.selects:
            if read.select is tree:
                for item in read.select.expressions:
                    yield item.alias_or_name.lower(), item.unalias(), read

    def option(self, name: str, item: int | None = None) -> Span:
        """Where `config(...)` gives an option, or an item of it; the call, where a
        default gives it."""
        return word_span(self.model.source, self.model.option_place(name, item))

    def found(
        self,
        start: int,
        end: int,
        what: str,
        fix: str,
        edits: tuple[TextEdit | None, ...] = (),
    ) -> RuleMatch:
        """What is found between two offsets of the SQL. Edits count where all of them
        can be made."""
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
        """What is found where a part of the tree stands."""
        return self.found(*self.range_of(node), what, fix, edits)

    def found_for(
        self, option: str, what: str, fix: str, item: int | None = None
    ) -> RuleMatch:
        """What is found in an option of the model."""
        return RuleMatch(self.option(option, item), what, fix)

    def range_of(self, node: exp.Expr) -> tuple[int, int]:
        """The offsets of the first word of a part of the tree, and behind its last one,
        as far as words have places."""
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

        Of text that an expression writes it is that expression. None for the text of a
        view that it reads.
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
        """The text in the place of the SQL between two offsets; None where the file
        does not have that as it is."""
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
        """The text in the place of the SQL between two offsets, with the expressions
        that have written parts of it."""
        rendered = self.select.rendered
        first, is_first_own = rendered.origin(start)
        last, is_last_own = rendered.origin(end - 1)
        if not (is_first_own and is_last_own):
            return None
        return TextEdit(
            Span(rendered.lines.place(first), rendered.lines.place(last + 1)), text
        )

    def written_between(self, start: int, end: int) -> str | None:
        """What the file has in the place of the SQL between two offsets; None where
        either is of an expression."""
        rendered = self.select.rendered
        first, is_first_own = rendered.origin(start)
        last, is_last_own = rendered.origin(end - 1)
        return (
            rendered.lines.text[first : last + 1]
            if is_first_own and is_last_own
            else None
        )

    def insertion(self, offset: int, text: str) -> TextEdit | None:
        """The text behind the character before an offset of the SQL."""
        before, is_own = self.select.rendered.origin(offset - 1)
        place = self.select.rendered.lines.place(before + 1)
        return TextEdit(Span(place, place), text) if is_own else None

    def token_index(self, offset: int) -> int:
        """The number of the word that begins at an offset; -1 where none does."""
        return next(
            (
                number
                for number, token in enumerate(self.tokens)
                if token.start == offset
            ),
            -1,
        )


_READS_TABLE = re.compile(r"\{\{[-+]?\s*ref\s*\(")
"""An expression whose text is the name of a table, or the SELECT of a view."""


def open_model(manifest: Manifest, name: str, built: dict[str, Select]) -> LintedModel:
    """A model as rules look at it. Raises `ProjectError` where `parse` refuses it."""
    select = build_select(manifest, name, built)
    return LintedModel(manifest, select, selects_of(select), built)
