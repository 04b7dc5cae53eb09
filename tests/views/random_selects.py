"""Random SELECTs over the tables of `keeper`: joins of all kinds, queries in FROM and
in conditions, groups, windows, set operations. Each is deterministic, and DuckDB can
run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from tests.views.keeper import INPUTS

Kind: TypeAlias = str
"""The type of a column: `int`, `string`, `decimal` or `double`."""


@dataclass(frozen=True)
class Column:
    """A column as it is spelled, and its type."""

    text: str
    kind: Kind

    @property
    def name(self) -> str:
        """Without the alias of its table."""
        return self.text.rpartition(".")[2]


@dataclass(frozen=True)
class Query:
    """A SELECT, and the columns that it makes. `group`: those of them that its GROUP BY
    is made of, if it has one."""

    text: str
    columns: tuple[Column, ...]
    group: tuple[str, ...] | None = None


@dataclass(frozen=True)
class View:
    """A SELECT with the keys that its configuration gives, its columns, and those that
    its GROUP BY is made of."""

    text: str
    keys: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    group: tuple[str, ...] | None = None


def random_view(seed: int) -> View:
    """The SELECT of a seed."""
    return Writer(Random(f"view {seed}")).view()


class Writer:
    """Writes SELECTs by the dice."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.aliases = 0
        self.ctes: list[str] = []

    def view(self) -> View:
        query = self.query(2)
        if self.dice.random() < 0.15:
            query = self.passed_on(query)
        with_ = f"WITH {', '.join(self.ctes)} " if self.ctes else ""
        if query.group is not None:
            return View(with_ + query.text, (), query.columns, query.group)
        names = [column.name for column in query.columns]
        keys = self.dice.sample(names, self.dice.randint(1, min(2, len(names))))
        return View(with_ + query.text, tuple(keys), query.columns)

    def passed_on(self, query: Query) -> Query:
        """A query by the name of a common table expression."""
        name = self.alias("w")
        self.ctes.append(f"{name} AS ({query.text})")
        return Query(f"SELECT * FROM {name}", query.columns, query.group)

    # --- queries

    def query(self, depth: int) -> Query:
        """Any query. `depth` bounds how far queries stand in queries."""
        kinds: list[tuple[Callable[[int], Query], int]] = [
            (self.grouped, 6),
            (self.rows, 3),
            (self.distinct, 1),
            (self.united, 1),
            (self.windowed, 1),
            (self.whole, 1),
        ]
        makers = [make for make, _ in kinds]
        return self.dice.choices(makers, [weight for _, weight in kinds])[0](depth)

    def inner_query(self, depth: int) -> Query:
        """A query that stands in FROM."""
        makers = [
            self.rows,
            self.rows,
            self.grouped,
            self.distinct,
            self.united,
            self.windowed,
        ]
        return self.dice.choice(makers)(depth)

    def rows(self, depth: int) -> Query:
        from_, columns = self.from_(depth)
        listed, made = self.outputs(columns)
        if depth and self.dice.random() < 0.1:
            inner = self.scalar(columns)
            made = [*made, Column(f"c{len(made)}", "int")]
            listed += f", {inner} AS {made[-1].name}"
        return Query(
            f"SELECT {listed} {from_}{self.where(columns, depth)}", tuple(made)
        )

    def distinct(self, depth: int) -> Query:
        query = self.rows(depth)
        return Query(
            query.text.replace("SELECT", "SELECT DISTINCT", 1), query.columns, None
        )

    def united(self, depth: int) -> Query:
        """Two queries with the same types of columns."""
        kinds = [
            self.dice.choice(("int", "string")) for _ in range(self.dice.randint(1, 2))
        ]
        word = self.dice.choice(
            ("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT")
        )
        branches = [self.of_kinds(kinds, max(depth - 1, 0)) for _ in range(2)]
        columns = tuple(Column(f"c{number}", kind) for number, kind in enumerate(kinds))
        return Query(f" {word} ".join(branches), columns)

    def of_kinds(self, kinds: Sequence[Kind], depth: int) -> str:
        """A SELECT with columns of these types."""
        from_, columns = self.from_(depth)
        listed = [
            f"{self.of_kind(columns, kind)} AS c{number}"
            for number, kind in enumerate(kinds)
        ]
        return f"SELECT {', '.join(listed)} {from_}{self.where(columns, depth)}"

    def windowed(self, depth: int) -> Query:
        from_, columns = self.from_(depth)
        listed, made = self.outputs(columns)
        parts = self.dice.sample(made, self.dice.randint(1, min(2, len(made))))
        spelled = dict(
            zip((column.name for column in made), listed.split(", "), strict=True)
        )
        by = ", ".join(spelled[part.name].rpartition(" AS ")[0] for part in parts)
        order = self.of_kind(columns, "int")
        call = self.dice.choice(
            (
                f"rank() OVER (PARTITION BY {by} ORDER BY {order})",
                f"count(*) OVER (PARTITION BY {by})",
                f"max({order}) OVER (PARTITION BY {by})",
                f"sum({order}) OVER (PARTITION BY {by} ORDER BY {order})",
            )
        )
        name = f"c{len(made)}"
        text = f"SELECT {listed}, {call} AS {name} {from_}{self.where(columns, depth)}"
        columns_made = (*made, Column(name, "int"))
        if self.dice.random() < 0.5:
            return Query(text, columns_made)
        alias = self.alias("t")
        return Query(
            f"SELECT * FROM ({text}) AS {alias} WHERE {alias}.{name} < 3", columns_made
        )

    def grouped(self, depth: int) -> Query:
        from_, columns = self.from_(depth)
        groups = self.group_expressions(columns)
        made = [Column(f"g{number}", kind) for number, (_, kind) in enumerate(groups)]
        listed = [f"{text} AS g{number}" for number, (text, _) in enumerate(groups)]
        for number in range(self.dice.randint(1, 3)):
            text, kind = self.aggregate(columns)
            made.append(Column(f"a{number}", kind))
            listed.append(f"{text} AS a{number}")
        if self.dice.random() < 0.3:
            at = self.dice.randrange(len(groups) + 1)
            listed, made = [*listed[at:], *listed[:at]], [*made[at:], *made[:at]]
        having = f" HAVING {self.having(columns)}" if self.dice.random() < 0.2 else ""
        by = ", ".join(text for text, _ in groups)
        text = f"SELECT {', '.join(listed)} {from_}{self.where(columns, depth)} GROUP BY {by}{having}"
        return Query(
            text,
            tuple(made),
            tuple(column.name for column in made if column.name.startswith("g")),
        )

    def whole(self, depth: int) -> Query:
        """Aggregates without GROUP BY."""
        from_, columns = self.from_(depth)
        listed: list[str] = []
        made: list[Column] = []
        for number in range(self.dice.randint(1, 3)):
            text, kind = self.aggregate(columns)
            listed.append(f"{text} AS a{number}")
            made.append(Column(f"a{number}", kind))
        return Query(
            f"SELECT {', '.join(listed)} {from_}{self.where(columns, depth)}",
            tuple(made),
            (),
        )

    # --- FROM

    def from_(self, depth: int) -> tuple[str, list[Column]]:
        """A FROM, and the columns that it offers."""
        text, columns = self.item(depth)
        text = f"FROM {text}"
        for _ in range(self.dice.choices((0, 1, 2), (4, 5, 2))[0]):
            words = (
                "JOIN",
                "JOIN",
                "LEFT JOIN",
                "LEFT JOIN",
                "RIGHT JOIN",
                "FULL JOIN",
                "LEFT SEMI JOIN",
            )
            word = self.dice.choice((*words, "LEFT ANTI JOIN"))
            other, offered = self.item(depth)
            text += f" {word} {other} ON {self.join_condition(columns, offered, word)}"
            if "SEMI" not in word and "ANTI" not in word:
                columns = [*columns, *offered]
        return text, columns

    def item(self, depth: int) -> tuple[str, list[Column]]:
        """An entry of a FROM, and its columns."""
        if depth and self.dice.random() < 0.3:
            query, alias = self.inner_query(depth - 1), self.alias("t")
            columns = [
                Column(f"{alias}.{column.name}", column.kind)
                for column in query.columns
            ]
            if self.dice.random() < 0.3:
                name = self.alias("w")
                self.ctes.append(f"{name} AS ({query.text})")
                return f"{name} AS {alias}", columns
            return f"({query.text}) AS {alias}", columns
        one, alias = self.dice.choice(INPUTS), self.alias("b")
        typed = zip(one.columns or (), one.types, strict=True)
        return f"{'.'.join(one.table)} {alias}", [
            Column(f"{alias}.{name}", kind[:7]) for name, kind in typed
        ]

    def join_condition(
        self, left: Sequence[Column], right: Sequence[Column], word: str
    ) -> str:
        pairs = [
            (one, other) for one in left for other in right if one.kind == other.kind
        ]
        one, other = self.dice.choice(pairs) if pairs else (left[0], right[0])
        same = (
            f"{one.text} = {other.text}"
            if pairs
            else f"CAST({one.text} AS string) = CAST({other.text} AS string)"
        )
        if self.dice.random() < 0.3 and word != "FULL JOIN":
            return (
                f"{same} AND {self.simple(right if self.dice.random() < 0.7 else left)}"
            )
        return same

    # --- conditions

    def where(self, columns: Sequence[Column], depth: int) -> str:
        conditions = [
            self.condition(columns, depth)
            for _ in range(self.dice.choices((0, 1, 2), (4, 4, 2))[0])
        ]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def condition(self, columns: Sequence[Column], depth: int) -> str:
        chance = self.dice.random()
        if chance < 0.5:
            return self.simple(columns)
        if chance < 0.6:
            return f"({self.simple(columns)} OR {self.about_others(columns, depth)})"
        return self.about_others(columns, depth)

    def simple(self, columns: Sequence[Column]) -> str:
        column = self.dice.choice(columns)
        if self.dice.random() < 0.15:
            return f"{column.text} IS {self.dice.choice(('', 'NOT '))}NULL"
        word = self.dice.choice(("=", "<>", "<", ">="))
        return f"{column.text} {word} {self.literal(column.kind)}"

    def about_others(self, columns: Sequence[Column], depth: int) -> str:
        """A condition with a query in it."""
        column = self.dice.choice(
            [one for one in columns if one.kind in ("int", "string")] or list(columns)
        )
        is_not = self.dice.choice(("", "NOT "))
        chance = self.dice.random()
        if chance < 0.4 or column.kind not in ("int", "string"):
            from_, offered = self.from_(0)
            met = self.join_condition(columns, offered, "EXISTS")
            also = f" AND {self.simple(offered)}" if self.dice.random() < 0.4 else ""
            return f"{is_not}EXISTS (SELECT 1 {from_} WHERE {met}{also})"
        if chance < 0.75:
            inner = self.of_kinds([column.kind], max(depth - 1, 0))
            if self.dice.random() < 0.2:
                inner = self.keys_of_groups(column.kind)
            return f"{column.text} {is_not}IN ({inner})"
        return f"{self.of_kind(columns, 'int')} {self.dice.choice(('<', '>=', '='))} {self.scalar(columns)}"

    def keys_of_groups(self, kind: Kind) -> str:
        from_, offered = self.from_(0)
        key = self.of_kind(offered, kind)
        return f"SELECT {key} AS k {from_} GROUP BY {key} HAVING count(*) > 1"

    def scalar(self, columns: Sequence[Column]) -> str:
        """A query of one value, for the row around it or, seldom, for all."""
        from_, offered = self.from_(0)
        value = self.of_kind(offered, "int")
        met = (
            f" WHERE {self.join_condition(columns, offered, 'scalar')}"
            if self.dice.random() < 0.9
            else ""
        )
        return f"(SELECT {self.dice.choice(('max', 'min', 'count', 'sum'))}({value}) {from_}{met})"

    def having(self, columns: Sequence[Column]) -> str:
        largest = f"max({self.of_kind(columns, 'int')})"
        return f"{self.dice.choice(('count(*)', largest))} > 1"

    # --- expressions

    def outputs(self, columns: Sequence[Column]) -> tuple[str, list[Column]]:
        chosen = self.dice.sample(
            list(columns), self.dice.randint(1, min(3, len(columns)))
        )
        made = [
            Column(f"c{number}", column.kind) for number, column in enumerate(chosen)
        ]
        listed = [f"{column.text} AS c{number}" for number, column in enumerate(chosen)]
        return ", ".join(listed), made

    def of_kind(self, columns: Sequence[Column], kind: Kind) -> str:
        fitting = [column.text for column in columns if column.kind == kind]
        return self.dice.choice(fitting) if fitting else self.literal(kind)

    def literal(self, kind: Kind) -> str:
        if kind == "string":
            return f"'{self.dice.choice('abc')}'"
        return str(self.dice.randrange(4))

    def group_expressions(self, columns: Sequence[Column]) -> list[tuple[str, Kind]]:
        chosen = self.dice.sample(
            list(columns), self.dice.randint(1, min(2, len(columns)))
        )
        found: list[tuple[str, Kind]] = []
        for column in chosen:
            if column.kind == "int" and self.dice.random() < 0.2:
                found.append((f"{column.text} % 2", "int"))
            elif column.kind == "string" and self.dice.random() < 0.2:
                found.append((f"coalesce({column.text}, 'x')", "string"))
            else:
                found.append((column.text, column.kind))
        return found

    def aggregate(self, columns: Sequence[Column]) -> tuple[str, Kind]:
        column = self.dice.choice(columns)
        number = self.dice.choice(
            [one for one in columns if one.kind in ("int", "decimal")]
            or [Column("1", "int")]
        )
        text, kind = self.dice.choice(
            (
                ("count(*)", "int"),
                (f"count({column.text})", "int"),
                (f"sum({number.text})", number.kind),
                (f"sum({number.text} * 2 - 1)", number.kind),
                (f"avg({number.text})", "double"),
                (f"min({column.text})", column.kind),
                (f"max({column.text})", column.kind),
                (f"count(DISTINCT {column.text})", "int"),
                (f"bool_or({number.text} > 1)", "bool"),
                (f"bool_and({number.text} > 1)", "bool"),
                # DuckDB has NULL where Spark has 0
                (f"coalesce(count_if({number.text} > 1), 0)", "int"),
                (f"sum(CAST({number.text} AS double))", "double"),
                (f"coalesce(sum({number.text}), 0) + count(*)", number.kind),
            )
        )
        if (
            not any(word in text for word in ("DISTINCT", "coalesce"))
            and self.dice.random() < 0.15
        ):
            text += f" FILTER (WHERE {self.simple(columns)})"
        return text, kind

    def alias(self, letter: str) -> str:
        self.aliases += 1
        return f"{letter}{self.aliases}"
