"""The tokens of a model's SELECT, and every refusal that the tokens alone decide.

lakesql must read the same SQL that Spark runs. So `read_text` first checks that both
split the text into the same tokens: a comment or a string that ends elsewhere for Spark
could hide anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from lakesql.errors import Place, Problem, ProjectError
from lakesql.names import CHANGE, CHANGE_FIELDS, RECORD, RECORD_FIELDS, RESERVED_PREFIX
from lakesql.select.foreign import answer_statement
from lakesql.select.functions import AGGREGATES, FORBIDDEN_FUNCTIONS

SPARK = Spark()
"""The dialect that SELECTs are parsed with. It has no state, so it is shared."""

MAX_DEPTH = 200
"""How deep brackets may nest; the parser is recursive."""

CHANGE_NAMES = frozenset({*CHANGE_FIELDS, "before"})
"""The fields of `_change`."""

READS_SEEN_ONLY = "A model reads streams and tables, so that what it depends on can be seen and checked."
_BLANKS = re.compile(r"\s+")
_VARIABLE = re.compile(r"\$\{(?:\w+?:)?\S+?\}")
_LEXEMES = re.compile(
    r"""
      (?P<comment> --[^\r\n]* | /\*(?!\+).*?\*/ )
    | (?P<hint>    /\*\+.*?\*/ )
    | (?P<raw>     (?<!\w)[rR](?:'[^']*' | "[^"]*") )
    | (?P<text>    '(?:[^'\\]|\\.)*+' | "(?:[^"\\]|\\.)*+" )
    | (?P<name>    `(?:[^`]|``)*+` )
    | (?P<url>     [^\W\d_]:// )
    | (?P<open>    '|"|`|/\* )
    """,
    re.DOTALL | re.VERBOSE,
)
"""Spark's comments, strings and quoted names (SqlBaseLexer.g4), and forms that Spark
and sqlglot tokenize differently."""

_TEXTS = frozenset({TokenType.STRING, TokenType.RAW_STRING})
"""Tokens that are string literals, which are case-sensitive."""

_NEEDS_MORE = frozenset({TokenType.COMMA, TokenType.SELECT})
_LIST_ENDS = frozenset({TokenType.COMMA, TokenType.R_PAREN, TokenType.R_BRACKET})
_NAMES_TOO = frozenset(
    {TokenType.LIMIT, TokenType.OFFSET, TokenType.WINDOW, TokenType.QUALIFY}
)
"""Keywords of clauses that Spark also accepts as names of columns."""

_CLAUSES = frozenset(
    {
        TokenType.FROM,
        TokenType.WHERE,
        TokenType.GROUP_BY,
        TokenType.HAVING,
        TokenType.QUALIFY,
        TokenType.WINDOW,
    }
    | {
        TokenType.ORDER_BY,
        TokenType.SORT_BY,
        TokenType.CLUSTER_BY,
        TokenType.DISTRIBUTE_BY,
    }
    | {
        TokenType.LIMIT,
        TokenType.OFFSET,
        TokenType.UNION,
        TokenType.INTERSECT,
        TokenType.EXCEPT,
    }
)


@dataclass(slots=True)
class Findings:
    """The problems found so far in one SQL text. `place` maps an offset in it to a
    place in the model's file."""

    place: Callable[[int], Place]
    problems: list[Problem] = field(default_factory=list)

    def add(
        self, condition: str, offset: int, what: str, why: str = "", fix: str = ""
    ) -> None:
        """Adds a problem at an offset of the SQL text, unless the same condition has
        been added for the same place."""
        problem = Problem(condition, what, why, fix, self.place(offset))
        if not any(
            known.condition == condition and known.place == problem.place
            for known in self.problems
        ):
            self.problems.append(problem)

    def stop(
        self, offset: int, what: str, fix: str = "", condition: str = "sql-syntax"
    ) -> NoReturn:
        """Adds a problem after which the text cannot be read further, and raises
        `ProjectError` with all problems."""
        self.add(condition, offset, what, fix=fix)
        raise ProjectError(self.problems)


def findings_by_offset() -> Findings:
    """Findings for a text that is in no file: the column of each place is the offset +
    1."""
    return Findings(lambda offset: Place("", 1, offset + 1))


@dataclass(frozen=True, slots=True)
class Text:
    """A tokenized SELECT. Lists are indexed by the number of the token; a SELECT is
    identified by the number of its SELECT token.

    `tokens` has no hints, no trailing semicolon and no comments, except the number of
    each SELECT, which the parser copies to its node.
    `owners` has the SELECT that each token belongs to (-1: none), `depths` the number
    of brackets around it.
    `inserts` has, by SELECT, the offset at which text may be inserted: behind SELECT
    and its hints and ALL.
    `aggregates` and `windows` have, by SELECT, the tokens of its calls of aggregate
    functions, and of its window calls, OVER and QUALIFY.
    `record_fields` and `change_fields` are the fields of `_record` and `_change` that
    it uses.
    """

    sql: str
    tokens: list[Token]
    owners: list[int]
    depths: list[int]
    inserts: dict[int, int]
    aggregates: dict[int, list[int]]
    windows: dict[int, list[int]]
    record_fields: frozenset[str]
    change_fields: frozenset[str]

    @property
    def added(self) -> frozenset[str]:
        """The columns that lakesql adds to streams, `_record` and `_change`, as far as
        the text uses them."""
        used = {RECORD: self.record_fields, CHANGE: self.change_fields}
        return frozenset(name for name, fields in used.items() if fields)


def read_text(sql: str, findings: Findings, own: frozenset[str] = frozenset()) -> Text:
    """The tokens of `sql`; adds a finding for everything that the tokens alone forbid.
    Raises `ProjectError` if the text cannot be read.

    `own` are the reserved names (`_lakesql_…`) that it may use nevertheless.
    """
    tokens, inserts = _without_hints(_read_tokens(sql, findings))
    _refuse_statements(sql, tokens, findings)
    owners, depths, closes = _brackets(tokens)
    if max(depths, default=0) > MAX_DEPTH or _type_depth(tokens) > MAX_DEPTH:
        findings.stop(
            0, f"Brackets nest deeper than {MAX_DEPTH} levels.", "Split the expression."
        )
    aggregates, windows = _calls(tokens, owners, closes, findings)
    _refuse_words(tokens, findings, own)
    if any(problem.condition == "sql-syntax" for problem in findings.problems):
        raise ProjectError(findings.problems)
    used = (
        _fields_of(RECORD, frozenset(RECORD_FIELDS), tokens, sql),
        _fields_of(CHANGE, CHANGE_NAMES, tokens, sql),
    )
    return Text(
        sql[: tokens[-1].end + 1],
        tokens,
        owners,
        depths,
        inserts,
        aggregates,
        windows,
        *used,
    )


def clause(
    text: Text, select: int, kinds: frozenset[TokenType]
) -> tuple[int, int] | None:
    """The tokens of the last clause of these kinds in the SELECT itself, not in a query
    inside it: the first, and one past the last. None if it has no such clause."""
    return next(
        (
            it
            for it in reversed(clauses(text, select))
            if text.tokens[it[0]].token_type in kinds
        ),
        None,
    )


def clauses(text: Text, select: int) -> list[tuple[int, int]]:
    """The tokens of each clause of the SELECT itself, beginning with FROM: the first,
    and one past the last."""
    _, *found = _spans(text, select)
    return found


def projections(text: Text, select: int) -> list[tuple[int, int]]:
    """The tokens of each expression between SELECT and FROM: the first, and one past
    the last."""
    return split_list(text, *next(_spans(text, select)))


def split_list(text: Text, first: int, last: int) -> list[tuple[int, int]]:
    """The tokens of each expression of a comma-separated list that has the tokens from
    `first` up to `last`."""
    commas = [
        index
        for index in range(first, last)
        if text.tokens[index].token_type is TokenType.COMMA
        and text.depths[index] == text.depths[first]
    ]
    return list(
        zip([first, *(index + 1 for index in commas)], [*commas, last], strict=True)
    )


def _spans(text: Text, select: int) -> Iterator[tuple[int, int]]:
    """The tokens of a SELECT's list of expressions, then those of each of its
    clauses."""
    start = end = select + 1
    while (
        end < len(text.tokens)
        and (inside := text.depths[end] - text.depths[select]) >= 0
    ):
        if inside == 0 and text.owners[end] != select:
            break
        if inside == 0 and _starts_clause(text.tokens, end):
            yield start, end
            start = end
        end += 1
    yield start, end


def words(text: Text, first: int, last: int, owner: int | None = None) -> str:
    """The tokens from `first` up to `last` as a text that does not depend on spaces,
    comments and capitals.

    With an `owner`, only the tokens of this SELECT itself, not those of queries inside
    it.
    """
    return " ".join(
        spelled(token)
        for index, token in enumerate(text.tokens[first:last], first)
        if owner is None or text.owners[index] == owner
    )


def spelled(token: Token) -> str:
    """The text of a token, in lower case unless it is a string literal."""
    return token.text if token.token_type in _TEXTS else token.text.lower()


def folded(sql: str) -> str:
    """A piece of SQL without its comments and with one blank for each run of
    whitespace. Texts in quotes and hints stay as they are."""
    pieces: list[str] = []
    end = 0
    for match in _LEXEMES.finditer(sql):
        pieces.append(_BLANKS.sub(" ", sql[end : match.start()]))
        pieces.append(" " if match.lastgroup == "comment" else match[0])
        end = match.end()
    pieces.append(_BLANKS.sub(" ", sql[end:]))
    return "".join(pieces)


def hints(sql: str) -> list[str]:
    """The hints of a SQL text, in lower case and without whitespace."""
    found = (match[0] for match in _LEXEMES.finditer(sql) if match.lastgroup == "hint")
    return ["".join(hint.lower().split()) for hint in found]


def _read_tokens(sql: str, findings: Findings) -> list[Token]:
    if match := _VARIABLE.search(sql):
        what = f"'{match[0]}' would be replaced by a setting or an environment variable before Spark reads the SQL."
        findings.add("variable-substitution", match.start(), what)
    bare, quotes = _without_comments(sql, findings)
    try:
        tokens = SPARK.tokenize(sql)
    except TokenError as error:
        findings.stop(0, f"The SQL cannot be cut into words: {error}")
    if any(token.token_type is TokenType.COMMAND for token in tokens):
        # for CALL and the like sqlglot makes one token of the rest of the statement,
        # which `_refuse_statements` refuses
        return tokens
    end = -1
    for token in tokens:
        gap = bare[end + 1 : token.start]
        if (gap and not gap.isspace()) or bare[token.start].isspace():
            findings.stop(
                end + 1,
                "Spark would read this text otherwise.",
                "Write it more plainly.",
            )
        end = token.end
    if unread := quotes and quotes.difference(token.end for token in tokens):
        findings.stop(
            min(unread),
            "Spark would end this text otherwise.",
            "Write it more plainly.",
        )
    return _with_doubled_quotes(sql, tokens)


def _with_doubled_quotes(sql: str, tokens: list[Token]) -> list[Token]:
    """The tokens, with one string for `'it''s'`. Spark reads it as a string with a
    quote in it, sqlglot as two strings."""
    if "''" not in sql and '""' not in sql:
        return tokens
    found: list[Token] = []
    for token in tokens:
        if found and is_doubled_quote(sql, found[-1], token):
            first = found[-1]
            text = f"{first.text}{sql[token.start]}{token.text}"
            token = Token(
                TokenType.STRING,
                text,
                token.line,
                token.col,
                first.start,
                token.end,
                first.comments,
            )
            found[-1] = token
        else:
            found.append(token)
    return found


def is_doubled_quote(sql: str, before: Token, after: Token) -> bool:
    """Whether two adjacent strings are one string for Spark: the quote that ends the
    first and the one that begins the second are a doubled quote."""
    is_text = (
        before.token_type is TokenType.STRING and after.token_type is TokenType.STRING
    )
    return (
        is_text
        and before.end + 1 == after.start
        and sql[before.end] == sql[after.start]
    )


def _without_comments(sql: str, findings: Findings) -> tuple[str, set[int]]:
    """`sql` with every comment replaced by as many blanks, and the offsets of the
    closing quotes of its strings and quoted names, as Spark reads them."""
    pieces: list[str] = []
    quotes: set[int] = set()
    end = 0
    for match in _LEXEMES.finditer(sql):
        kind, found = match.lastgroup, match.group()
        if kind == "open":
            findings.stop(match.start(), f"{found} is opened here and never closed.")
        if kind == "url":
            findings.stop(match.start(), "An address can stand in a string only.")
        if kind not in ("comment", "hint"):
            quotes.add(match.end() - 1)
        elif found.startswith("/*") and "/*" in found[2:]:
            findings.stop(
                match.start(), "This comment holds another one.", "Use -- for one."
            )
        elif found.startswith("--") and found.endswith("\\"):
            findings.stop(
                match.end() - 1, "For Spark the comment goes on in the next line."
            )
        elif kind == "comment":
            pieces += (sql[end : match.start()], " " * len(found))
            end = match.end()
    return "".join((*pieces, sql[end:])), quotes


def _without_hints(tokens: list[Token]) -> tuple[list[Token], dict[int, int]]:
    """The tokens without hints and trailing semicolons, and for each SELECT the offset
    at which text may be inserted."""
    kept: list[Token] = []
    inserts: dict[int, int] = {}
    select = -2
    for index, token in enumerate(tokens):
        kind = token.token_type
        if select == len(kept) - 1 and (
            kind is TokenType.HINT or kind is TokenType.ALL
        ):
            inserts[select] = token.end + 1
        if kind is TokenType.HINT:
            continue
        token.comments = []
        if kind is TokenType.SELECT:
            select = len(kept)
            inserts[select] = token.end + 1
            token.comments = [str(select)]
        elif kind is TokenType.WINDOW and not (
            _kind_at(tokens, index + 2) is TokenType.ALIAS
            and _kind_at(tokens, index + 3) is TokenType.L_PAREN
        ):
            # the function `window(ts, '5 minutes')` or its column, as in
            # `window.start`, and not the clause `WINDOW w AS (…)`
            token.token_type = TokenType.VAR
        kept.append(token)
    while kept and kept[-1].token_type is TokenType.SEMICOLON:
        kept.pop()
    return kept, inserts


def _refuse_statements(sql: str, tokens: list[Token], findings: Findings) -> None:
    first = next(
        (token for token in tokens if token.token_type is not TokenType.L_PAREN), None
    )
    if first is None:
        findings.stop(0, "The model holds no SELECT.", condition="not-a-select")
    if first.token_type not in (TokenType.SELECT, TokenType.WITH, TokenType.FROM):
        what = f"The model begins with {first.text}, and is not one SELECT."
        findings.stop(first.start, what, answer_statement(tokens), "not-a-select")
    for token in tokens if ";" in sql or "|>" in sql else ():
        if token.token_type is TokenType.SEMICOLON:
            findings.stop(
                token.start,
                "The model holds more than one statement.",
                condition="many-statements",
            )
        if token.token_type is TokenType.PIPE_GT:
            findings.stop(
                token.start,
                "|> is not read by lakesql.",
                "Write a SELECT with CTEs.",
                "not-a-select",
            )


def _brackets(tokens: list[Token]) -> tuple[list[int], list[int], dict[int, int]]:
    """For each token its SELECT and its depth in brackets; and for each opening bracket
    the token that closes it."""
    owners: list[int] = []
    depths: list[int] = []
    closes: dict[int, int] = {}
    opened: list[tuple[int, int]] = []
    owner = -1
    for index, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.SELECT:
            owner = index
        elif (kind is TokenType.R_PAREN or kind is TokenType.R_BRACKET) and opened:
            start, owner = opened.pop()
            closes[start] = index
        owners.append(owner)
        depths.append(len(opened))
        if kind is TokenType.L_PAREN or kind is TokenType.L_BRACKET:
            opened.append((index, owner))
    return owners, depths, closes


def _type_depth(tokens: list[Token]) -> int:
    """An upper bound for how deep types nest: the number of `array<`, `map<` and
    `struct<`."""
    names = {"array", "map", "struct"}
    return sum(
        after.token_type is TokenType.LT and before.text.lower() in names
        for before, after in pairwise(tokens)
    )


def _calls(
    tokens: list[Token], owners: list[int], closes: dict[int, int], findings: Findings
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """By SELECT, the tokens of the aggregate calls that group rows; and those of the
    aggregate calls over a window, OVER and QUALIFY. Adds a finding for each call of a
    forbidden function."""
    aggregates: dict[int, list[int]] = {}
    windows: dict[int, list[int]] = {}
    skip_until = -1
    for index, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.OVER or kind is TokenType.QUALIFY:
            windows.setdefault(owners[index], []).append(index)
        elif kind is TokenType.L_PAREN and index:
            before = index - 1
            called = tokens[before].text.lower()
            if (
                called in AGGREGATES
                and index > skip_until
                and not _is_no_call(tokens, before)
            ):
                calls = aggregates if _is_aggregate(tokens, before, closes) else windows
                calls.setdefault(owners[before], []).append(before)
            elif called == "pivot":
                skip_until = closes.get(index, index)
            elif called in FORBIDDEN_FUNCTIONS:
                what = f"{called}() {FORBIDDEN_FUNCTIONS[called]}."
                findings.add(
                    "forbidden-function", tokens[before].start, what, READS_SEEN_ONLY
                )
    return aggregates, windows


def _is_no_call(tokens: list[Token], index: int) -> bool:
    """Whether the word before a bracket is no function call, though an aggregate
    function has this name: a string, or `LIKE ANY (…)`."""
    before = tokens[index - 1].text.lower() if index else ""
    is_quantifier = tokens[index].text.lower() in ("any", "some") and before in (
        "like",
        "ilike",
    )
    return is_quantifier or tokens[index].token_type in _TEXTS


def _is_aggregate(tokens: list[Token], index: int, closes: dict[int, int]) -> bool:
    """Whether the call at `index` groups rows, as `sum(x)` and `sum(x) FILTER (…)` do,
    and `sum(x) OVER (…)` does not."""
    after = closes.get(index + 1, len(tokens)) + 1
    while after < len(tokens):
        text = tokens[after].text.upper()
        if text in ("FILTER", "WITHIN", "WITHIN GROUP") or (
            text == "GROUP" and tokens[after - 1].text == "WITHIN"
        ):
            opening = next(
                (
                    i
                    for i in (after + 1, after + 2)
                    if _kind_at(tokens, i) is TokenType.L_PAREN
                ),
                -1,
            )
            if opening < 0:
                return True
            after = closes.get(opening, len(tokens)) + 1
        elif text in ("IGNORE", "RESPECT", "NULLS", "IGNORE NULLS", "RESPECT NULLS"):
            after += 1
        else:
            return tokens[after].token_type is not TokenType.OVER
    return True


def _refuse_words(tokens: list[Token], findings: Findings, own: frozenset[str]) -> None:
    before: Token | None = None
    for index, token in enumerate(tokens):
        kind = token.token_type
        needs_more = before is not None and before.token_type in _NEEDS_MORE
        if needs_more and (
            kind in _LIST_ENDS
            or (kind not in _NAMES_TOO and _starts_clause(tokens, index))
        ):
            findings.add(
                "sql-syntax",
                token.start,
                f"Something is missing before '{token.text}'.",
            )
        if kind is TokenType.PLACEHOLDER or kind is TokenType.PARAMETER:
            refuse_marker(token.text, token.start, findings)
        elif (
            before is not None
            and before.token_type is TokenType.USING
            and kind is not TokenType.L_PAREN
        ):
            findings.add(
                "script-transform",
                before.start,
                "TRANSFORM … USING runs a program.",
                READS_SEEN_ONLY,
            )
        elif _is_reserved(token) and token.text not in own:
            findings.add(
                "reserved-column",
                token.start,
                f"'{token.text}' is a name of lakesql's own.",
            )
        before = token


def _is_reserved(token: Token) -> bool:
    is_named_so = token.text[:1] == "_" and token.text.lower().startswith(
        RESERVED_PREFIX
    )
    return is_named_so and token.token_type not in _TEXTS


def refuse_marker(marker: str, offset: int, findings: Findings) -> None:
    """Adds a finding for a parameter marker: `?` or `:name`."""
    findings.add(
        "parameter-marker",
        offset,
        f"'{marker}' is a parameter marker, and nothing gives it a value.",
    )


def _fields_of(
    struct: str, known: frozenset[str], tokens: list[Token], sql: str
) -> frozenset[str]:
    """The fields of the column `struct` (`_record` or `_change`) that the text uses;
    all of them where it uses the struct itself."""
    fields: set[str] = set()
    for index, token in enumerate(tokens) if struct in sql.lower() else ():
        if token.text.lower() == struct and token.token_type not in _TEXTS:
            name = tokens[index + 2].text.lower() if index + 2 < len(tokens) else ""
            dotted = _kind_at(tokens, index + 1) is TokenType.DOT
            if not dotted or name not in known:
                return known
            fields.add(name)
    return frozenset(fields)


def _starts_clause(tokens: list[Token], index: int) -> bool:
    before = tokens[index - 1].token_type if index else None
    kind = tokens[index].token_type
    # a keyword after a dot or AS is a name; DISTINCT FROM is a part of IS DISTINCT FROM
    return (
        kind in _CLAUSES
        and before is not TokenType.DOT
        and before is not TokenType.ALIAS
        and not (kind is TokenType.FROM and before is TokenType.DISTINCT)
        and not (kind is TokenType.EXCEPT and before is TokenType.STAR)
        and not (
            kind is TokenType.OFFSET and before in (TokenType.SELECT, TokenType.COMMA)
        )
    )


def _kind_at(tokens: list[Token], index: int) -> TokenType | None:
    return tokens[index].token_type if index < len(tokens) else None
