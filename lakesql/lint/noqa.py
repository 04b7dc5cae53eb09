"""Comments that suppress findings of their line: `-- noqa: LK012 why`, or `-- noqa` for
all.

In a model such a comment is one of SQL (`--`) or of Jinja (`{# #}`); in YAML and TOML
it begins with `#`. On the line where a Jinja tag begins or ends, such as that of
`config(...)`, it applies to all lines of the tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from lakesql.errors import did_you_mean
from lakesql.lint.all_rules import MODULES, load_rule
from lakesql.lint.finding import RuleMatch, Span, TextEdit
from lakesql.template.jinja import SourceText, source_of


@dataclass(frozen=True, slots=True)
class Noqa:
    """One noqa comment: its range, the lines that it applies to, and the codes that it
    names, each with its range.

    Without codes it applies to all rules. `removed` is the range to delete if the
    comment goes. `has_more` is true if the comment has other text, such as a reason, or
    codes of other tools.
    """

    span: Span
    lines: range
    codes: tuple[tuple[str, Span], ...]
    removed: Span
    has_more: bool = False


@dataclass(slots=True)
class Suppressions:
    """The noqa comments of a file. `used` has the index of a comment and a code for
    each finding that was suppressed."""

    noqas: tuple[Noqa, ...]
    used: set[tuple[int, str]] = field(default_factory=set)

    def covers(self, code: str, line: int) -> bool:
        """Whether a comment suppresses a finding with this code on this line. Records
        in `used` the comments that do."""
        is_covered = False
        for number, noqa in enumerate(self.noqas):
            named = {each for each, _ in noqa.codes}
            if line in noqa.lines and (not named or code in named):
                self.used.add((number, code))
                is_covered = True
        return is_covered


def read_noqas(path: str, text: str) -> Suppressions:
    """The noqa comments of a file, in their order."""
    if "noqa" not in text.lower():
        return Suppressions(())
    source = source_of(path, text)
    lexemes = [*(_MODEL if path.endswith(".sql") else _SETTINGS).finditer(source.text)]
    tags = [lexeme.span() for lexeme in lexemes if lexeme.lastgroup == "tag"]
    comments = [lexeme for lexeme in lexemes if lexeme.lastgroup == "comment"]
    noqas = [
        _read_comment(source, lexeme.start(), lexeme[0], tags) for lexeme in comments
    ]
    return Suppressions(tuple(noqa for noqa in noqas if noqa is not None))


def find_idle(
    suppressions: Suppressions, enabled: frozenset[str]
) -> Iterator[RuleMatch]:
    """A finding for each noqa comment that names an unknown code, or suppresses
    nothing.

    A code that is not `enabled` is not reported: its rule has not run, and might have
    found something.
    """
    for number, noqa in enumerate(suppressions.noqas):
        used = {code for at, code in suppressions.used if at == number}
        if not noqa.codes:
            if not used:
                yield RuleMatch(
                    noqa.span,
                    "This noqa suppresses nothing.",
                    "Remove it.",
                    _removal(noqa),
                )
            continue
        idle = [
            (code, span)
            for code, span in noqa.codes
            if code in enabled and code not in used
        ]
        for code, span in noqa.codes:
            if code not in MODULES:
                yield RuleMatch(
                    span, f"No rule has the code {code}.", did_you_mean(code, MODULES)
                )
        for code, span in idle:
            edits = _removal(noqa) if len(idle) == len(noqa.codes) else ()
            what = f"This noqa suppresses nothing: {code} ({load_rule(code).name}) finds nothing here."
            yield RuleMatch(
                span,
                what,
                "Remove the code." if len(noqa.codes) > 1 else "Remove it.",
                edits,
            )


def _removal(noqa: Noqa) -> tuple[TextEdit, ...]:
    """The edit that deletes a comment; none if the comment has other text than
    codes."""
    return () if noqa.has_more else (TextEdit(noqa.removed, ""),)


_MODEL = re.compile(
    r"(?P<comment>\{\#.*?\#\}|--[^\n{]*(?:\{(?![{%\#])[^\n{]*)*)"
    r"|(?P<tag>\{\{.*?\}\}|\{%.*?%\})"
    r"|/\*.*?\*/|'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\"|`[^`]*`",
    re.DOTALL,
)
"""Comments and tags of Jinja, and the strings and quoted names that may contain
something that looks like either."""

_SETTINGS = re.compile(
    r"(?P<comment>(?:(?<=\s)|\A)\#[^\n]*)|\"(?:[^\"\\\n]|\\.)*+\"|(?<![\w'])'[^'\n]*'",
    re.MULTILINE,
)

_NOQA = re.compile(
    r"(?:--|#|\{#-?)\s*(?P<noqa>noqa)\b(?P<colon>\s*:)?(?P<rest>[^\n]*)", re.IGNORECASE
)
_CODE = re.compile(r"[\s,]*(?P<code>[A-Za-z]{1,4}\d+)\b")
_OF_SQLFLUFF = re.compile(r"[A-Z]{2}\d\d\Z")


def _read_comment(
    source: SourceText, offset: int, comment: str, tags: list[tuple[int, int]]
) -> Noqa | None:
    """The noqa that a comment begins with; None if it has none, or only codes of other
    tools."""
    found = _NOQA.match(comment)
    if found is None:
        return None
    rest = found["rest"].removesuffix("#}").removesuffix("-")
    named: list[tuple[str, Span]] = []
    read = 0
    while found["colon"] and (code := _CODE.match(rest, read)):
        start = offset + found.start("rest") + code.start("code")
        named.append(
            (
                code["code"].upper(),
                Span(source.place(start), source.place(start + len(code["code"]))),
            )
        )
        read = code.end()
    own = tuple(each for each in named if _is_own(each[0], source.path))
    if found["colon"] and not own:
        return None
    before = source.text[:offset]
    blank = len(before) - len(before.rstrip(" \t"))
    end = offset + len(comment.rstrip())
    return Noqa(
        span=Span(source.place(offset + found.start("noqa")), source.place(end)),
        lines=_lines_of(source, offset, tags),
        codes=own,
        removed=Span(source.place(offset - blank), source.place(end)),
        has_more=bool(rest[read:].strip(" \t,:;-")) or len(own) < len(named),
    )


def _is_own(code: str, path: str) -> bool:
    """Whether a code is one of lakesql's: in SQL any that is none of sqlfluff's,
    elsewhere those that begin with LK."""
    return code.startswith("LK") or (
        path.endswith(".sql") and not _OF_SQLFLUFF.match(code)
    )


def _lines_of(source: SourceText, offset: int, tags: list[tuple[int, int]]) -> range:
    """The lines that a comment applies to: its own, and those of the tags that begin or
    end on it."""
    own = source.place(offset).line or 1
    first, last = own, own
    for start, end in tags:
        begins, ends = source.place(start).line or 1, source.place(end - 1).line or 1
        if own in (begins, ends):
            first, last = min(first, begins), max(last, ends)
    return range(first, last + 1)
