"""Parses a template into Jinja's syntax tree. The `lineno` of its nodes and tokens is
not a line, but an offset in the text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.lexer import Lexer, TokenStream
from jinja2.parser import Parser

from lakesql.errors import Place, ProjectError
from lakesql.template.comments import LINE_COMMENT, NOTHING, inside_after
from lakesql.template.values import TemplateError
from lakesql.words import answer

MAX_SOURCE = 1 << 20
MAX_TOKENS = 50_000

_UNKNOWN_TAG = re.compile(r"unknown tag '(\w+)'")
_NEWLINE = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a file with `\\n` line ends, and the offset of the start of each
    line."""

    path: str
    text: str
    starts: tuple[int, ...]

    def place(self, offset: int) -> Place:
        """The line and column of an offset; for an offset past the end, those of the
        end."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self.starts, offset)
        return Place(self.path, line, offset - self.starts[line - 1] + 1)


def source_of(path: str, text: str) -> SourceText:
    """The text as a `SourceText`. Line ends `\\r\\n` and `\\r` become `\\n`, which
    changes no line and no column."""
    if "\r" in text:
        text = _NEWLINE.sub("\n", text)
    starts = accumulate((len(line) + 1 for line in text.split("\n")[:-1]), initial=0)
    return SourceText(path, text, tuple(starts))


@lru_cache(maxsize=4096)
def parse_jinja(source: SourceText) -> list[nodes.Node]:
    """The nodes of a template. They are cached and shared by callers, so nobody may
    change them.

    Raises `ProjectError` (`template-syntax`, `template-too-large`).
    """
    fix = ""
    try:
        if len(source.text) > MAX_SOURCE:
            raise TemplateError(
                "template-too-large",
                f"The file is longer than {MAX_SOURCE} characters.",
            )
        return Parser(_ENVIRONMENT, source.text, source.path).subparse()
    except TemplateSyntaxError as error:
        condition, what, at = (
            "template-syntax",
            f"This is not Jinja: {error.message}",
            error.lineno,
        )
        if tag := _UNKNOWN_TAG.search(str(error.message)):
            fix = answer("template", tag[1])
    except ValueError as error:
        condition, what, at = "template-syntax", f"This is not Jinja: {error}", None
    except TemplateError as fault:
        condition, what, at = fault.condition, fault.what, fault.at
    except RecursionError:
        condition, what, at = (
            "template-too-large",
            "The file is nested too deeply.",
            None,
        )
    raise ProjectError.of(
        condition,
        what,
        fix=fix,
        place=Place(source.path) if at is None else source.place(at),
    )


class _OffsetLexer(Lexer):
    """Jinja's lexer, with offsets in the place of line numbers in its tokens; nodes get
    them from there."""

    def tokenize(
        self,
        source: str,
        name: str | None = None,
        filename: str | None = None,
        state: str | None = None,
    ) -> TokenStream:
        return TokenStream(
            self.wrap(self._with_offsets(source, name), name, filename), name, filename
        )

    def _with_offsets(
        self, source: str, name: str | None
    ) -> Iterator[tuple[int, str, str]]:
        """The tokens with their offsets. A line break that ends an SQL comment is kept
        as a token even if a `-` strips the blank space around it."""
        position, inside = 0, NOTHING
        try:
            for count, (_, kind, value) in enumerate(self.tokeniter(source, name)):
                if not source.startswith(value, position):
                    # No token has the blank space that a `-` strips before a tag.
                    begin, position = position, source.index(value, position)
                    if inside.mark == LINE_COMMENT and "\n" in source[begin:position]:
                        inside = NOTHING
                        yield (
                            begin,
                            "data",
                            source[begin : source.index("\n", begin) + 1],
                        )
                if kind == "data":
                    inside = inside_after(value, inside)
                if count > MAX_TOKENS:
                    raise TemplateError(
                        "template-too-large",
                        f"The file has more than {MAX_TOKENS} Jinja tokens.",
                        at=position,
                    )
                plain = (
                    _ESCAPE.sub(_escaped, value)
                    if kind == "string" and "\\" in value
                    else value
                )
                yield position, kind, plain
                if inside.mark == LINE_COMMENT and kind in _ENDS and "\n" in value:
                    inside = NOTHING
                    yield position + value.index("\n"), "data", "\n"
                position += len(value)
        except TemplateSyntaxError as error:
            error.lineno = position
            raise


_ENDS = ("variable_end", "block_end", "comment_end", "raw_begin", "raw_end")
"""The tokens that include the blank space which a `-` strips after them."""

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def _escaped(found: re.Match[str]) -> str:
    """The escape in a form that Jinja reads without a warning: one that Python does not
    know (`\\d`) stands for itself."""
    return found[0] if found[1] in "\n\\'\"abfnrtvxuUN01234567" else "\\" + found[0]


class _OffsetEnvironment(Environment):
    """Jinja's environment with `_OffsetLexer`. It only parses, and never compiles or
    renders."""

    @property
    def lexer(self) -> Lexer:
        return _LEXER


_ENVIRONMENT = _OffsetEnvironment(keep_trailing_newline=True)
_LEXER = _OffsetLexer(_ENVIRONMENT)


def start_of(node: nodes.Node) -> int:
    """The offset of the first token of an expression, without parentheses. The offset
    of the node itself may be that of a later token."""
    return min(part.lineno for part in (node, *node.find_all(nodes.Expr)))


def entry_of(node: nodes.Node) -> str:
    """`target.schema`, for a node that reads this entry of this name; '' for other
    nodes."""
    if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
        return f"{node.node.name}.{node.attr}"
    if (
        isinstance(node, nodes.Getitem)
        and isinstance(node.node, nodes.Name)
        and isinstance(node.arg, nodes.Const)
    ):
        return f"{node.node.name}.{node.arg.value}"
    return ""
