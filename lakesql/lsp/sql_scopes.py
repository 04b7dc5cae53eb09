"""Finds the relations that a SELECT reads, and their columns, in SQL that may be
incomplete.

The parser handles only complete SELECTs. Here a SELECT is the sequence of tokens
between two parentheses, and those that make no sense are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from lakesql.lsp.cursor import Tag, find_tags, sql_tokens


@dataclass(frozen=True, slots=True)
class KnownColumn:
    """A column that a SELECT may name. `type` is '' if it is not known; `origin` is the
    stream, model or seed that it belongs to."""

    name: str
    type: str = ""
    description: str = ""
    origin: str = ""


TableColumns = Callable[[str, str], Sequence[KnownColumn]]
"""A function that returns the columns of the relation that `stream` or `ref` with this
name reads."""


@dataclass(frozen=True, slots=True)
class SqlRelation:
    """A relation of a FROM, with its alias: a stream or a table (`function` and
    `name`), or the SELECT in parentheses with the number `group`."""

    alias: str
    function: str = ""
    name: str = ""
    group: int | None = None


@dataclass(slots=True)
class _Bracketed:
    """The text between two parentheses. `words` has its tokens with their offsets; what
    is in inner parentheses is one token, with its number."""

    start: int
    parent: int | None
    end: int = 0
    words: list[tuple[int, str, int | None]] = field(default_factory=list)


_CALL = re.compile(r"\{\{[-+]?\s*(stream|ref)\s*\(\s*(['\"])([^'\"]*)\2")
_ENDS = frozenset(
    {
        *(
            "on",
            "using",
            "where",
            "group",
            "having",
            "order",
            "limit",
            "union",
            "except",
        ),
        *(
            "intersect",
            "join",
            "inner",
            "left",
            "right",
            "full",
            "cross",
            "lateral",
            "natural",
        ),
        *(
            "window",
            "qualify",
            "from",
            "select",
            "as",
            "anti",
            "semi",
            "pivot",
            "unpivot",
        ),
        *("tablesample", "cluster", "distribute", "sort"),
    }
)
_STARTS = ("from", "join")
MOST_DEPTH = 12


@dataclass(frozen=True, slots=True)
class SqlScopes:
    """The SELECTs of a model's text. `groups` are the contents of all parentheses, the
    first of which is the whole text; `ctes` has the number of each CTE's group."""

    groups: tuple[_Bracketed, ...]
    ctes: dict[str, int]

    def relations_at(self, offset: int) -> list[SqlRelation]:
        """The relations that the SELECT around an offset reads, then those of the
        SELECTs around that one."""
        found: list[SqlRelation] = []
        number: int | None = self._group_at(offset)
        while number is not None:
            found += self.relations(number)
            number = self.groups[number].parent
        return found

    def _group_at(self, offset: int) -> int:
        inside = [
            (group.start, number)
            for number, group in enumerate(self.groups)
            if group.start <= offset <= group.end
        ]
        return max(inside)[1]

    def relations(self, number: int) -> list[SqlRelation]:
        """The relations that the SELECT with this number reads."""
        words = self.groups[number].words
        found: list[SqlRelation] = []
        expects = False
        for at, (_, word, inner) in enumerate(words):
            lowered = word.lower()
            if expects and lowered == "lateral":
                continue
            if expects:
                expects = False
                relation = self._relation(word, inner, _alias(words, at + 1))
                found += [relation] if relation is not None else []
            if lowered in _STARTS or (word == "," and _is_in_from(words, at)):
                expects = True
        return found

    def _relation(self, word: str, inner: int | None, alias: str) -> SqlRelation | None:
        call = _CALL.match(word)
        if call:
            return SqlRelation(alias or call[3].rpartition(".")[2], call[1], call[3])
        if inner is not None:
            return SqlRelation(alias, group=inner)
        if word.lower() in self.ctes:
            return SqlRelation(alias or word, group=self.ctes[word.lower()])
        return None

    def columns(
        self, relation: SqlRelation, read: TableColumns, depth: int = 0
    ) -> list[KnownColumn]:
        """The columns of a relation, as far as they are known."""
        if relation.group is None:
            return [*read(relation.function, relation.name)]
        if depth > MOST_DEPTH:
            return []
        return [*self._outputs(relation.group, read, depth + 1)]

    def _outputs(
        self, number: int, read: TableColumns, depth: int
    ) -> Iterator[KnownColumn]:
        """The output columns of the SELECT with this number."""
        group = self.groups[number]
        if not group.words and group.parent is not None:
            return
        relations = self.relations(number)
        for item in _select_items(group.words):
            name = item[-1].strip("`")
            if name == "*":
                wanted = item[0] if len(item) > 1 else ""
                for each in relations:
                    if not wanted or each.alias.lower() == wanted.lower():
                        yield from self.columns(each, read, depth)
            elif re.fullmatch(r"\w+", name):
                yield self._plain(item, relations, read, depth) or KnownColumn(name)

    def _plain(
        self,
        item: list[str],
        relations: list[SqlRelation],
        read: TableColumns,
        depth: int,
    ) -> KnownColumn | None:
        """The column that an item of a SELECT passes on unchanged, perhaps renamed;
        None if the item is another expression, or the column is not known."""
        path = [word.strip("`") for word in item]
        renamed = path[-1]
        if len(path) > 2 and path[-2].lower() == "as":
            path = path[:-2]
        if len(path) not in (1, 3) or (len(path) == 3 and path[1] != "."):
            return None
        for each in relations:
            if len(path) == 3 and each.alias.lower() != path[0].lower():
                continue
            for column in self.columns(each, read, depth):
                if column.name.lower() == path[-1].lower():
                    return KnownColumn(
                        renamed, column.type, column.description, column.origin
                    )
        return None


def read_scopes(text: str) -> SqlScopes:
    """The SELECTs of a model's text."""
    tags: list[Tag] = find_tags(text)
    groups = [_Bracketed(0, None, len(text))]
    stack = [0]
    ctes: dict[str, int] = {}
    for start, end, word in sql_tokens(text, tags):
        if word == "(":
            groups.append(_Bracketed(end, stack[-1], len(text)))
            inner = len(groups) - 1
            before = groups[stack[-1]].words
            if (
                len(before) > 1
                and before[-1][1].lower() == "as"
                and _is_with(before[:-2])
            ):
                ctes[before[-2][1].strip("`").lower()] = inner
            before.append((start, "(", inner))
            stack.append(inner)
        elif word == ")":
            if len(stack) > 1:
                groups[stack.pop()].end = start
        else:
            groups[stack[-1]].words.append((start, word, None))
    return SqlScopes(tuple(groups), ctes)


def _is_with(before: Sequence[tuple[int, str, int | None]]) -> bool:
    """Whether a name that follows these tokens is that of a CTE."""
    words = [word.lower() for _, word, _ in before[-2:]]
    return bool(words) and (words[-1] in ("with", "recursive") or words == ["(", ","])


def _alias(words: Sequence[tuple[int, str, int | None]], at: int) -> str:
    """The alias that the tokens from `at` on give to the relation before them; '' if
    there is none."""
    following = [word for _, word, _ in words[at : at + 2]]
    if following and following[0].lower() == "as":
        following = following[1:]
    if (
        following
        and re.fullmatch(r"`[^`]+`|[^\W\d]\w*", following[0])
        and following[0].lower() not in _ENDS
    ):
        return following[0].strip("`")
    return ""


def _is_in_from(words: Sequence[tuple[int, str, int | None]], at: int) -> bool:
    """Whether the comma at `at` separates relations of a FROM."""
    clauses = (
        "select",
        "from",
        "where",
        "group",
        "having",
        "order",
        "on",
        "with",
        "join",
        "window",
        "using",
    )
    before = [word.lower() for _, word, _ in words[:at] if word.lower() in clauses]
    return bool(before) and before[-1] in ("from", "join", "on", "using")


def _select_items(words: Sequence[tuple[int, str, int | None]]) -> Iterator[list[str]]:
    """The items of the first SELECT among these tokens, each as a list of tokens."""
    item: list[str] = []
    is_inside = False
    for _, word, _ in words:
        lowered = word.lower()
        if not is_inside:
            is_inside = lowered == "select"
            continue
        if lowered in ("from", "union", "except", "intersect"):
            break
        if word == ",":
            yield from [item] if item else []
            item = []
        elif item or lowered not in ("distinct", "all"):
            item.append(word)
    if item:
        yield item
