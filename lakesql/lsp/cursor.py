"""Finds what the cursor is on, in a file of Jinja and SQL that may be incomplete, as it
is being typed.

A tag that is not closed ends where the next one begins, and a string that is not closed
ends with its line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

REFERRING = ("stream", "ref", "var")
"""The template functions whose argument is a name."""


@dataclass(frozen=True, slots=True)
class NameArgument:
    """The name in `stream('…')`, `ref('…')` or `var('…')`, and its offsets."""

    function: str
    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """The name of an option in `config(…)`; or, if `within` names an option, a key of
    that option's mapping."""

    word: str
    start: int
    end: int
    within: str = ""


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """The value of an option, or a part of it. `is_text` is true if it is in quotes."""

    option: str
    word: str
    start: int
    end: int
    is_text: bool


@dataclass(frozen=True, slots=True)
class TagWord:
    """A word in a Jinja tag: a macro, a function or a variable."""

    word: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SqlWord:
    """A word of SQL. `qualifier` is the word before it and a dot; '' if there is
    none."""

    word: str
    start: int
    end: int
    qualifier: str = ""


Cursor = NameArgument | ConfigKey | ConfigValue | TagWord | SqlWord


@dataclass(frozen=True, slots=True)
class Tag:
    """A Jinja tag or comment, with its delimiters. `sign` is the opening one."""

    start: int
    end: int
    sign: str


def find_cursor(text: str, offset: int) -> Cursor | None:
    """What is at an offset of a template; None in a comment, and in a string of the
    SQL."""
    tags = find_tags(text)
    at = bisect_right([tag.start for tag in tags], offset - 1) - 1
    tag = tags[at] if at >= 0 else None
    if tag is not None and offset < tag.end - (
        len(tag.sign) if _is_closed(text, tag) else -1
    ):
        if tag.sign == "{#" or offset < tag.start + 2:
            return None
        return _in_tag(text, tag, offset)
    return _in_sql(text, tags, offset)


def find_tags(text: str) -> list[Tag]:
    """The tags and comments of a template, in their order."""
    tags: list[Tag] = []
    position = 0
    while found := _OPENING.search(text, position):
        end = _end_of(text, found.end(), found[0])
        tags.append(Tag(found.start(), end, found[0]))
        position = end
    return tags


_OPENING = re.compile(r"\{\{|\{%|\{#")
_CLOSING = {"{{": "}}", "{%": "%}", "{#": "#}"}
_QUOTED = r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\""
_IN_TAG = re.compile(rf"{_QUOTED}|\}}\}}|%\}}|\{{\{{|\{{%|\{{#", re.DOTALL)


def _end_of(text: str, position: int, sign: str) -> int:
    """The offset where a tag ends. `position` is the end of its opening delimiter."""
    if sign == "{#":
        end = text.find("#}", position)
        return end + 2 if end >= 0 else len(text)
    for found in _IN_TAG.finditer(text, position):
        if found[0] == _CLOSING[sign]:
            return found.end()
        if found[0] in _CLOSING:
            return found.start()
    return len(text)


def _is_closed(text: str, tag: Tag) -> bool:
    return text.endswith(_CLOSING[tag.sign], tag.start + 2, tag.end)


# In a tag


@dataclass(slots=True)
class _Bracket:
    """An open bracket: the name of the function that is called by it, and the key whose
    value is being written."""

    sign: str
    called: str
    key: str = ""


_TOKENS = re.compile(
    r"'(?:[^'\\\n]|\\.)*'?|\"(?:[^\"\\\n]|\\.)*\"?|[^\W\d]\w*|[\d.]+|\S", re.DOTALL
)
_OPEN = "([{"
_CLOSE = ")]}"


def _in_tag(text: str, tag: Tag, offset: int) -> Cursor | None:
    brackets: list[_Bracket] = []
    before = ""
    for found in _TOKENS.finditer(text, tag.start + 2, tag.end):
        token = found[0]
        if found.start() >= offset:
            break
        if token[0] in "'\"":
            is_closed = len(token) > 1 and token[-1] == token[0]
            if offset <= found.end() - is_closed:
                end = (
                    found.end() - 1
                    if is_closed
                    else _end_of_word(text, found.start() + 1)
                )
                return _in_text(text, brackets, found.start() + 1, end)
            _note_key(brackets, token[1:-1], text, found.end())
        elif token in _OPEN:
            brackets.append(_Bracket(token, before if token == "(" else ""))
        elif token in _CLOSE:
            if brackets:
                brackets.pop()
        elif token == "," and brackets:
            brackets[-1].key = ""
        elif found.end() >= offset and (token[0].isalpha() or token[0] == "_"):
            return _at_word(brackets, token, found.start(), found.end())
        else:
            _note_key(brackets, token, text, found.end())
        before = token
    return _at_word(brackets, "", offset, offset)


def _end_of_word(text: str, start: int) -> int:
    """The end of a string that is not closed: that of the first word in it, as a
    guess."""
    found = re.compile(r"[\w.]*").match(text, start)
    return found.end() if found else start


def _note_key(brackets: list[_Bracket], word: str, text: str, end: int) -> None:
    """Record a word as the key of the innermost bracket if `=` follows it, or `:` in a
    mapping."""
    if not brackets:
        return
    sign = ":" if brackets[-1].sign == "{" else "="
    if re.compile(rf"\s*{sign}(?!=)").match(text, end):
        brackets[-1].key = word


def _option_of(brackets: list[_Bracket]) -> str | None:
    """The option of `config(…)` whose value the brackets are in; '' if no option has
    begun there, None outside of `config(…)`."""
    call = next((each for each in brackets if each.called == "config"), None)
    return call.key if call is not None else None


def _in_text(
    text: str, brackets: list[_Bracket], start: int, end: int
) -> Cursor | None:
    word = text[start:end]
    if brackets and brackets[-1].called in REFERRING:
        return NameArgument(brackets[-1].called, word, start, end)
    option = _option_of(brackets)
    if not option:
        return None
    if brackets[-1].sign == "{" and not brackets[-1].key:
        return ConfigKey(word, start, end, option)
    return ConfigValue(option, word, start, end, is_text=True)


def _at_word(brackets: list[_Bracket], word: str, start: int, end: int) -> Cursor:
    option = _option_of(brackets)
    if option is None:
        return TagWord(word, start, end)
    if brackets[-1].called == "config" and not brackets[-1].key:
        return ConfigKey(word, start, end)
    return ConfigValue(option, word, start, end, is_text=False)


# In SQL


_SQL = re.compile(
    r"--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`\n]*`?|[^\W\d]\w*|\d[\w.]*|\S",
    re.DOTALL,
)


def sql_tokens(text: str, tags: list[Tag]) -> Iterator[tuple[int, int, str]]:
    """The tokens of the SQL with their offsets; a tag `{{ … }}` is one token. Comments
    and strings are left out."""
    position = 0
    for tag in (*tags, None):
        end = tag.start if tag is not None else len(text)
        for found in _SQL.finditer(text, position, end):
            if not found[0].startswith(("--", "/*", "'", '"')):
                yield found.start(), found.end(), found[0]
        if tag is not None:
            if tag.sign == "{{":
                yield tag.start, tag.end, text[tag.start : tag.end]
            position = tag.end


def _in_sql(text: str, tags: list[Tag], offset: int) -> SqlWord | None:
    start = max((tag.end for tag in tags if tag.end <= offset), default=0)
    end = min((tag.start for tag in tags if tag.start >= offset), default=len(text))
    before: list[re.Match[str]] = []
    for found in _SQL.finditer(text, start, end):
        if found.start() >= offset:
            break
        token = found[0]
        is_inside = offset < found.end() or (
            token.startswith("--") and offset == found.end()
        )
        if is_inside and token.startswith(("--", "/*", "'", '"')):
            return None
        if offset <= found.end() and _is_word(token):
            return SqlWord(token, found.start(), found.end(), _qualifier(before))
        before.append(found)
    return SqlWord(
        "",
        offset,
        offset,
        _qualifier(before) if before and before[-1].end() == offset else "",
    )


def _is_word(token: str) -> bool:
    return token[0].isalpha() or token[0] in "_`"


def _qualifier(before: list[re.Match[str]]) -> str:
    """The word before the dot with which these tokens end; '' if they do not end so."""
    if len(before) < 2 or before[-1][0] != "." or not _is_word(before[-2][0]):
        return ""
    return before[-2][0].strip("`")
