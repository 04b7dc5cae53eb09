"""The text of a model's SELECT as tokens, and every refusal that the words alone decide.

What lakesql reads must be what Spark runs, so `read_text` first makes sure that both cut the text into the same
words: a comment or a string that ends elsewhere for Spark could hide anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from lakesql.errors import Place, Problem
from lakesql.names import CHANGE, RECORD, RESERVED_PREFIX
from lakesql.select.functions import AGGREGATES, FORBIDDEN_FUNCTIONS

MAX_DEPTH = 200
"""How deep brackets may nest: the parser is recursive."""

RECORD_FIELDS = frozenset({"topic", "partition", "offset", "timestamp", "key", "headers"})
"""The fields of `_record`."""

_TAKES_COLUMNS_ONLY = "A model reads streams and tables, so that what it depends on can be seen and checked."
_VARIABLE = re.compile(r"\$\{(?:\w+?:)?\S+?\}")
_RESERVED_WORD = re.compile(RESERVED_PREFIX + "|" + RECORD + "|" + CHANGE, re.IGNORECASE)
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
"""Spark's comments, strings and quoted names (SqlBaseLexer.g4), and what would be read otherwise by one of the two."""

_TEXTS = frozenset({TokenType.STRING, TokenType.RAW_STRING})
"""Tokens that are texts, whose capitals matter."""

_NEEDS_MORE = frozenset({TokenType.COMMA, TokenType.SELECT})
_LIST_ENDS = frozenset({TokenType.COMMA, TokenType.R_PAREN, TokenType.R_BRACKET})
_NAMES_TOO = frozenset({TokenType.LIMIT, TokenType.OFFSET, TokenType.WINDOW, TokenType.QUALIFY})
"""Words of clauses that Spark takes for the name of a column as well."""

_CLAUSES = frozenset(
    {
        TokenType.FROM,
        TokenType.WHERE,
        TokenType.GROUP_BY,
        TokenType.HAVING,
        TokenType.QUALIFY,
        TokenType.WINDOW,
        TokenType.ORDER_BY,
        TokenType.SORT_BY,
        TokenType.CLUSTER_BY,
        TokenType.DISTRIBUTE_BY,
        TokenType.LIMIT,
        TokenType.OFFSET,
        TokenType.UNION,
        TokenType.INTERSECT,
        TokenType.EXCEPT,
    }
)


@dataclass(slots=True)
class Findings:
    """The problems found so far in one text, each with its place in the model's file."""

    place: Callable[[int], Place]
    problems: list[Problem] = field(default_factory=list)

    def add(self, condition: str, offset: int, what: str, why: str = "", fix: str = "") -> None:
        """Notes a problem at an offset of the SQL text. The first of a condition at one place counts."""
        problem = Problem(condition, what, why, fix, self.place(offset))
        if not any(known.condition == condition and known.place == problem.place for known in self.problems):
            self.problems.append(problem)


@dataclass(frozen=True, slots=True)
class Text:
    """A tokenised SELECT. Lists are by the token's number; a SELECT is named by the number of its token.

    `tokens` has no hints, no semicolon at the end and no comments but the number of each SELECT, which the parser
    hands on to its node. `owners` says in which SELECT a token stands (-1: in none), `depths` inside how many brackets.
    `inserts` is where text may follow a SELECT and its hints and ALL. `aggregates` and `windows` hold, by SELECT, the
    tokens of its calls of aggregate functions and its OVER and QUALIFY.
    """

    sql: str
    tokens: list[Token]
    owners: list[int]
    depths: list[int]
    inserts: dict[int, int]
    aggregates: dict[int, list[int]]
    windows: dict[int, list[int]]
    record_fields: frozenset[str]


def read_text(sql: str, findings: Findings) -> Text | None:
    """Tokenises `sql`, noting everything that its words alone forbid. None where it cannot be read at all."""
    tokens = _read_tokens(sql, findings)
    if tokens is None:
        return None
    tokens, inserts = _without_hints(tokens)
    if not _is_one_select(sql, tokens, findings):
        return None
    owners, depths, closes = _brackets(tokens)
    if max(depths, default=0) > MAX_DEPTH or _type_depth(tokens) > MAX_DEPTH:
        findings.add("sql-syntax", 0, f"Brackets nest deeper than {MAX_DEPTH} levels.", fix="Split the expression.")
        return None
    aggregates: dict[int, list[int]] = {}
    windows: dict[int, list[int]] = {}
    for index, owner in _calls(tokens, owners, closes, findings):
        (aggregates if _is_aggregate(tokens, index, closes) else windows).setdefault(owner, []).append(index)
    _refuse_words(tokens, findings)
    if any(problem.condition == "sql-syntax" for problem in findings.problems):
        return None
    end = tokens[-1].end + 1
    record_fields = _record_fields(tokens) if _RESERVED_WORD.search(sql) else frozenset[str]()
    return Text(sql[:end], tokens, owners, depths, inserts, aggregates, windows, record_fields)


def clause(text: Text, select: int, kinds: frozenset[TokenType]) -> tuple[int, int] | None:
    """The tokens of the last clause of these kinds which stands in the SELECT itself: first, and one past the last."""
    depth = text.depths[select]
    start: int | None = None
    end = len(text.tokens)
    for index in range(select + 1, len(text.tokens)):
        if text.depths[index] < depth or (text.depths[index] == depth and text.owners[index] != select):
            end = index
            break
        if text.depths[index] == depth and _starts_clause(text.tokens, index):
            if text.tokens[index].token_type in kinds:
                start, end = index, len(text.tokens)
            elif start is not None and end == len(text.tokens):
                end = index
    return None if start is None else (start, end)


def projections(text: Text, select: int) -> list[tuple[int, int]]:
    """The tokens of each expression between SELECT and FROM: first, and one past the last."""
    depth = text.depths[select]
    start = select + 1
    spans: list[tuple[int, int]] = []
    index = start
    while index < len(text.tokens) and text.depths[index] >= depth:
        if text.depths[index] == depth:
            if text.tokens[index].token_type is TokenType.COMMA:
                spans.append((start, index))
                start = index + 1
            elif text.owners[index] != select or _starts_clause(text.tokens, index):
                break
        index += 1
    spans.append((start, index))
    return spans


def words(text: Text, first: int, last: int, owner: int | None = None) -> str:
    """The tokens from `first` up to `last` in one spelling, whatever the spaces, comments and capitals were.

    With an `owner`, only the tokens that stand in this SELECT itself.
    """
    return " ".join(
        token.text if token.token_type in _TEXTS else token.text.lower()
        for index, token in enumerate(text.tokens[first:last], first)
        if owner is None or text.owners[index] == owner
    )


def _read_tokens(sql: str, findings: Findings) -> list[Token] | None:
    if match := _VARIABLE.search(sql):
        findings.add(
            "variable-substitution",
            match.start(),
            f"'{match.group()}' would be replaced by a setting or an environment variable before Spark reads the SQL.",
        )
    read = _without_comments(sql, findings)
    if read is None:
        return None
    bare, quotes = read
    try:
        tokens = Spark().tokenize(sql)
    except TokenError as error:
        findings.add("sql-syntax", 0, f"The SQL cannot be cut into words: {error}")
        return None
    end = -1
    for token in tokens:
        gap = bare[end + 1 : token.start]
        if (gap and not gap.isspace()) or bare[token.start].isspace():
            if any(known.token_type is TokenType.COMMAND for known in tokens):
                break
            findings.add("sql-syntax", end + 1, "Spark would read this text otherwise.", fix="Write it more plainly.")
            return None
        end = token.end
        if sql[end] in "'\"`":
            quotes.discard(end)
    else:
        if not quotes:
            return tokens
        findings.add("sql-syntax", min(quotes), "Spark would end this text otherwise.", fix="Write it more plainly.")
        return None
    # words like CALL swallow the rest of their statement into one token: it is refused as a statement
    return tokens


def _without_comments(sql: str, findings: Findings) -> tuple[str, set[int]] | None:
    """`sql` with blanks for comments, as long as before, and where its strings and quoted names end for Spark.

    None where the comments alone would be read otherwise.
    """
    pieces: list[str] = []
    quotes: set[int] = set()
    end = 0
    for match in _LEXEMES.finditer(sql):
        kind, found = match.lastgroup, match.group()
        if kind == "open":
            findings.add("sql-syntax", match.start(), f"{found} is opened here and never closed.")
            return None
        if kind == "url":
            findings.add("sql-syntax", match.start(), "An address can stand in a string only.")
            return None
        if kind == "comment" or kind == "hint":
            if found.startswith("/*") and "/*" in found[2:]:
                findings.add("sql-syntax", match.start(), "This comment holds another one.", fix="Use -- for one.")
                return None
            if found.endswith("\\") and found.startswith("--"):
                findings.add("sql-syntax", match.end() - 1, "For Spark the comment goes on in the next line.")
                return None
        if kind == "comment":
            pieces += (sql[end : match.start()], " " * len(found))
            end = match.end()
        elif kind != "hint":
            quotes.add(match.end() - 1)
    return ("".join((*pieces, sql[end:])) if pieces else sql), quotes


def _without_hints(tokens: list[Token]) -> tuple[list[Token], dict[int, int]]:
    """The tokens without hints, and for each SELECT the offset at which text may be inserted."""
    kept: list[Token] = []
    inserts: dict[int, int] = {}
    select = -1
    for index, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.HINT:
            if select == len(kept) - 1 and select >= 0:
                inserts[select] = token.end + 1
            continue
        token.comments = []
        if kind is TokenType.SELECT:
            select = len(kept)
            inserts[select] = token.end + 1
            token.comments = [str(select)]
        elif kind is TokenType.ALL and select == len(kept) - 1 and select >= 0:
            inserts[select] = token.end + 1
        elif kind is TokenType.WINDOW and not _names_window(tokens, index):
            # the function `window(ts, '5 minutes')`, or what it makes: `window.start`
            token.token_type = TokenType.VAR
        kept.append(token)
    if kept and kept[-1].token_type is TokenType.SEMICOLON:
        kept.pop()
    return kept, inserts


def _names_window(tokens: list[Token], index: int) -> bool:
    """Whether WINDOW begins the clause `WINDOW w AS (…)`."""
    return _kind_at(tokens, index + 2) is TokenType.ALIAS and _kind_at(tokens, index + 3) is TokenType.L_PAREN


def _is_one_select(sql: str, tokens: list[Token], findings: Findings) -> bool:
    first = next((token for token in tokens if token.token_type is not TokenType.L_PAREN), None)
    if first is None:
        findings.add("not-a-select", 0, "The model holds no SELECT.")
        return False
    if first.token_type not in (TokenType.SELECT, TokenType.WITH, TokenType.FROM):
        findings.add("not-a-select", first.start, f"The model begins with {first.text}, and is not one SELECT.")
        return False
    for token in tokens if ";" in sql or "|>" in sql else ():
        if token.token_type is TokenType.SEMICOLON:
            findings.add("many-statements", token.start, "The model holds more than one statement.")
            return False
        if token.token_type is TokenType.PIPE_GT:
            findings.add("not-a-select", token.start, "|> is not read by lakesql.", fix="Write a SELECT with CTEs.")
            return False
    return True


def _brackets(tokens: list[Token]) -> tuple[list[int], list[int], dict[int, int]]:
    """For each token its SELECT and its depth in brackets; and for each opening parenthesis where it closes."""
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
    """At most how deep types nest. Every `array<`, `map<` and `struct<` counts, closed or not."""
    names = {"array", "map", "struct"}
    return sum(after.token_type is TokenType.LT and before.text.lower() in names for before, after in pairwise(tokens))


def _calls(
    tokens: list[Token], owners: list[int], closes: dict[int, int], findings: Findings
) -> Iterator[tuple[int, int]]:
    """Each call of an aggregate, each OVER and QUALIFY, with its SELECT; calls of forbidden functions are noted."""
    skip_until = -1
    for index, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.OVER or kind is TokenType.QUALIFY:
            yield index, owners[index]
        elif kind is TokenType.L_PAREN and index:
            called = tokens[index - 1].text.lower()
            if called in AGGREGATES and index > skip_until and not _is_no_call(tokens, index - 1):
                yield index - 1, owners[index - 1]
            elif called == "pivot":
                skip_until = closes.get(index, index)
            elif called in FORBIDDEN_FUNCTIONS:
                findings.add(
                    "forbidden-function",
                    tokens[index - 1].start,
                    f"{called}() {FORBIDDEN_FUNCTIONS[called]}.",
                    _TAKES_COLUMNS_ONLY,
                )


def _is_no_call(tokens: list[Token], index: int) -> bool:
    """Whether the word before a bracket is no function, though one has its name: a text, or `LIKE ANY (…)`."""
    before = tokens[index - 1].text.lower() if index else ""
    is_quantifier = tokens[index].text.lower() in ("any", "some") and before in ("like", "ilike")
    return is_quantifier or tokens[index].token_type in _TEXTS


def _is_aggregate(tokens: list[Token], index: int, closes: dict[int, int]) -> bool:
    """Whether the call at `index` groups rows: `sum(x)`, `sum(x) FILTER (…)`, but not `sum(x) OVER (…)`."""
    if tokens[index].token_type in (TokenType.OVER, TokenType.QUALIFY):
        return False
    after = closes.get(index + 1, len(tokens)) + 1
    while after < len(tokens):
        text = tokens[after].text.upper()
        if text in ("FILTER", "WITHIN", "WITHIN GROUP") or (text == "GROUP" and tokens[after - 1].text == "WITHIN"):
            opening = next((i for i in (after + 1, after + 2) if _kind_at(tokens, i) is TokenType.L_PAREN), -1)
            if opening < 0:
                return True
            after = closes.get(opening, len(tokens)) + 1
        elif text in ("IGNORE", "RESPECT", "NULLS", "IGNORE NULLS", "RESPECT NULLS"):
            after += 1
        else:
            return tokens[after].token_type is not TokenType.OVER
    return True


def _refuse_words(tokens: list[Token], findings: Findings) -> None:
    before: Token | None = None
    for index, token in enumerate(tokens):
        kind = token.token_type
        if before is not None and before.token_type in _NEEDS_MORE and _ends_list(tokens, index):
            findings.add("sql-syntax", token.start, f"Something is missing before '{token.text}'.")
        if kind is TokenType.PLACEHOLDER or kind is TokenType.PARAMETER:
            refuse_marker(token.text, token.start, findings)
        elif before is not None and before.token_type is TokenType.USING and kind is not TokenType.L_PAREN:
            findings.add("script-transform", before.start, "TRANSFORM … USING runs a program.", _TAKES_COLUMNS_ONLY)
        elif (kind is TokenType.VAR or kind is TokenType.IDENTIFIER) and token.text[:1] == "_":
            lowered = token.text.lower()
            if lowered.startswith(RESERVED_PREFIX):
                findings.add("reserved-column", token.start, f"'{token.text}' is a name of lakesql's own.")
        before = token


def _ends_list(tokens: list[Token], index: int) -> bool:
    kind = tokens[index].token_type
    return kind in _LIST_ENDS or (kind not in _NAMES_TOO and _starts_clause(tokens, index))


def refuse_marker(marker: str, offset: int, findings: Findings) -> None:
    """Notes a parameter marker: `?`, `:name`."""
    findings.add("parameter-marker", offset, f"'{marker}' is a parameter marker, and nothing gives it a value.")


def refuse_reserved(name: str, offset: int, findings: Findings) -> None:
    """Notes that something gets a name which every stream gives to a column of its own."""
    findings.add("reserved-column", offset, f"'{name}' is what a stream calls a column of its own.")


def _record_fields(tokens: list[Token]) -> frozenset[str]:
    fields: set[str] = set()
    for index, token in enumerate(tokens):
        if token.text.lower() == RECORD and token.token_type not in _TEXTS:
            name = tokens[index + 2].text.lower() if index + 2 < len(tokens) else ""
            dotted = _kind_at(tokens, index + 1) is TokenType.DOT
            if not dotted or name not in RECORD_FIELDS:
                return RECORD_FIELDS
            fields.add(name)
    return frozenset(fields)


def _starts_clause(tokens: list[Token], index: int) -> bool:
    before = tokens[index - 1].token_type if index else None
    kind = tokens[index].token_type
    # a keyword after a dot or AS is a name, and FROM after DISTINCT is IS DISTINCT FROM
    return (
        kind in _CLAUSES
        and before is not TokenType.DOT
        and before is not TokenType.ALIAS
        and not (kind is TokenType.FROM and before is TokenType.DISTINCT)
        and not (kind is TokenType.EXCEPT and before is TokenType.STAR)
        and not (kind is TokenType.OFFSET and before in (TokenType.SELECT, TokenType.COMMA))
    )


def _kind_at(tokens: list[Token], index: int) -> TokenType | None:
    return tokens[index].token_type if index < len(tokens) else None
