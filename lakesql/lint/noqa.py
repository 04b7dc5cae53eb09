"""Comments that say which findings of their line are meant: `-- noqa: LK012 why`, `--
noqa` for all.

In a model such a comment is one of SQL (`--`) or of Jinja (`{# #}`), in YAML and TOML
it begins with `#`. On the line where a tag of Jinja begins or ends, as that of
`config(...)`, it counts for all lines of the tag.
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
    """One such comment: the lines for which it counts, the codes that it names, each
    with its range, and its own range.

    Without codes it is for all. `removed` is what goes where all of it goes; `has_more`
    says that it has more to say, such as why.
    """

    span: Span
    lines: range
    codes: tuple[tuple[str, Span], ...]
    removed: Span
    has_more: bool = False


@dataclass(slots=True)
class Suppressions:
    """The comments of a file, and which of their codes have met a finding: by the
    comment's number."""

    noqas: tuple[Noqa, ...]
    used: set[tuple[int, str]] = field(default_factory=set)

    def covers(self, code: str, line: int) -> bool:
        """Whether a finding of a line is meant. The comment that says so is used
        then."""
        is_covered = False
        for number, noqa in enumerate(self.noqas):
            named = {each for each, _ in noqa.codes}
            if line in noqa.lines and (not named or code in named):
                self.used.add((number, code))
                is_covered = True
        return is_covered


def read_noqas(path: str, text: str) -> Suppressions:
    """The comments of a file that say `noqa`, in their order."""
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
    """The comments that name a code which no rule has, or that no finding has met.

    Of a rule that is not `enabled` nobody knows whether it would have found something.
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
    """What takes a comment away; nothing does where it has more to say than codes."""
    return () if noqa.has_more else (TextEdit(noqa.removed, ""),)


_MODEL = re.compile(
    r"(?P<comment>\{\#.*?\#\}|--[^\n{]*(?:\{(?![{%\#])[^\n{]*)*)"
    r"|(?P<tag>\{\{.*?\}\}|\{%.*?%\})"
    r"|/\*.*?\*/|'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\"|`[^`]*`",
    re.DOTALL,
)
"""Comments, tags of Jinja, and what may hold something that looks like either."""

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
    """The noqa that a comment begins with; None where it has none, or only codes of
    other tools."""
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
    """Whether a code is meant for lakesql: in SQL all that are none of sqlfluff's,
    elsewhere those that begin so."""
    return code.startswith("LK") or (
        path.endswith(".sql") and not _OF_SQLFLUFF.match(code)
    )


def _lines_of(source: SourceText, offset: int, tags: list[tuple[int, int]]) -> range:
    """The lines for which a comment counts: its own, and those of the tags that begin
    or end there."""
    own = source.place(offset).line or 1
    first, last = own, own
    for start, end in tags:
        begins, ends = source.place(start).line or 1, source.place(end - 1).line or 1
        if own in (begins, ends):
            first, last = min(first, begins), max(last, ends)
    return range(first, last + 1)
