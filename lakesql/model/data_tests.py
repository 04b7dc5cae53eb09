"""Data tests: conditions on the rows of tables, read from properties files and from the
`.sql` files of `tests/`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NewType, TypeAlias, cast

from lakesql.decode import (
    Node,
    decode,
    fields_of,
    option,
    read_each,
    read_mapping,
    read_positive,
    refuse_template,
)
from lakesql.errors import Place, ProjectError, did_you_mean
from lakesql.model.table_name import TableName
from lakesql.names import FAILURES_SUFFIX, check_name
from lakesql.project.duration import Duration, parse_duration
from lakesql.template.template import Template
from lakesql.words import answer


def read_tests(node: Node) -> tuple[TestEntry, ...]:
    """The tests under `tests:` or `data_tests:` of a model or a column.

    Raises `ProjectError` with every problem in them.
    """
    return read_each(node.items(), _read_entry)


@dataclass(frozen=True, slots=True)
class Threshold:
    """A comparison with the number of failing rows, such as `> 10`. `most` is the upper
    bound of `between`, and None for other signs."""

    sign: str
    number: int
    most: int | None = None

    def holds(self, failures: int) -> bool:
        """Whether the comparison is true of this number of failing rows."""
        if self.most is not None:
            return self.number <= failures <= self.most
        return _SIGNS[self.sign](failures, self.number)

    @property
    def least(self) -> int:
        """The number of failing rows up to which a test must count to know whether the
        comparison holds."""
        if self.most is not None:
            return self.most + 1
        counts = (0, 1, self.number, self.number + 1)
        return min((each for each in counts if self.holds(each)), default=0)

    def __str__(self) -> str:
        return f"{self.sign} {self.number}" + (
            f" and {self.most}" if self.most is not None else ""
        )


_SIGNS: Mapping[str, Callable[[int, int], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "<>": operator.ne,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
_THRESHOLD = re.compile(rf"\s*({'|'.join(_SIGNS)})\s*(\d{{1,18}})\s*\Z")

_BETWEEN = re.compile(r"\s*between\s+(\d{1,18})\s+and\s+(\d{1,18})\s*\Z", re.IGNORECASE)

ANY = Threshold("!=", 0)


def _read_threshold(node: Node) -> Threshold:
    text = node.value if isinstance(node.value, str) else ""
    between = _BETWEEN.match(text)
    if between is not None and int(between[1]) <= int(between[2]):
        return Threshold("between", int(between[1]), int(between[2]))
    found = _THRESHOLD.match(text)
    # `< 0` is true of no number of rows.
    if found is None or (found[1] == "<" and int(found[2]) == 0):
        fix = 'Write a comparison with the number of failing rows, such as `">10"` or `between 1 and 10`.'
        raise ProjectError.of(
            "wrong-value", f"{node.shown} is no threshold.", fix=fix, place=node.place
        )
    return Threshold(found[1], int(found[2]))


Condition = NewType("Condition", Node)
"""A condition on a row, in SQL, with its place."""


def _read_condition(node: Node) -> Condition:
    if isinstance(node.value, str) and node.value.strip():
        return Condition(node)
    fix = "Write a condition on a row, in SQL, as a text."
    raise ProjectError.of(
        "wrong-type", f"{node.shown} is no condition.", fix=fix, place=node.place
    )


@dataclass(frozen=True, slots=True)
class TestOptions:
    """The options of every data test."""

    __test__ = False

    severity: Literal["error", "warn"] = option(
        "Severity of failing rows: `error` ends the command with exit code 1, `warn` is a warning.",
        default="error",
    )
    error_if: Threshold = option(
        "Number of failing rows that is an error if `severity` is `error`, as a comparison such as `>10`; any, if "
        "left out.",
        default=ANY,
        read=_read_threshold,
    )
    warn_if: Threshold = option(
        "Number of failing rows that is a warning if it is not an error, as a comparison such as `>10`; any, if left "
        "out.",
        default=ANY,
        read=_read_threshold,
    )
    limit: int | None = option(
        "Maximum number of failing rows that are counted; all, if left out. A threshold that needs more of them is "
        "refused.",
        default=None,
        read=read_positive,
    )
    store_failures: bool = option(
        "Whether the failing rows are written to the table `<test>__failures` in the namespace of the tested model, "
        "in place of the rows that it has.",
        default=False,
    )
    enabled: bool = option(
        "Whether the test exists; `false` leaves it out of the project.", default=True
    )
    tags: tuple[str, ...] = option(
        "Tags by which `--select tag:…` selects the test.", default=()
    )
    meta: Node = option(
        "Metadata for other tools.", default=Node({}, Place("")), read=read_mapping
    )


@dataclass(frozen=True, slots=True)
class EntryOptions:
    """The further options of a data test in a properties file."""

    name: str = option(
        "Name of the test; made of the kind of test, the model and the column if left out.",
        default="",
        read=check_name,
    )
    description: str = option("What the test is for.", default="")
    where: Condition | None = option(
        "Condition that a row must meet to be tested, such as `status <> 'draft'`; all rows are tested if left out.",
        default=None,
        read=_read_condition,
    )


@dataclass(frozen=True, slots=True)
class NotNull:
    """No value of the column is NULL."""


@dataclass(frozen=True, slots=True)
class Unique:
    """No two rows have the same value in the column; any number may have NULL."""


def _read_values(node: Node) -> tuple[Node, ...]:
    items = node.items()
    for item in items:
        refuse_template(item)
        if not isinstance(item.value, str | int | float):
            what = f"{item.shown} cannot be a value of a column."
            raise ProjectError.of(
                "wrong-type",
                what,
                fix="Write a text, a number, true or false.",
                place=item.place,
            )
    if not items:
        raise ProjectError.of(
            "wrong-value", "The list of accepted values is empty.", place=node.place
        )
    return items


@dataclass(frozen=True, slots=True)
class AcceptedValues:
    """Each value of the column is one of a list, or NULL."""

    values: tuple[Node, ...] = option(
        "The accepted values, in the column's type.", read=_read_values
    )
    quote: bool = option(
        "Accepted as in dbt, without effect: the column's type decides how a value is written.",
        default=True,
    )


_REF = re.compile(r"\s*ref\(\s*(['\"])(?P<name>[^'\"]*)\1\s*\)\s*\Z")


def _read_to(node: Node) -> str:
    found = _REF.match(node.value) if isinstance(node.value, str) else None
    if found is None and isinstance(node.value, str) and "(" in node.value:
        what = f"{node.shown} is no model."
        raise ProjectError.of(
            "wrong-value", what, fix="Write ref('customers').", place=node.place
        )
    return check_name(node if found is None else Node(found["name"], node.place))


@dataclass(frozen=True, slots=True)
class Relationships:
    """Each value of the column exists in a column of another model's table, or is
    NULL."""

    to: str = option("The referenced model, as `ref('customers')`.", read=_read_to)
    field: str = option("The referenced column of that model's table.")


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition is false for no row. As in a CHECK constraint, a row passes if it is
    NULL."""

    expression: Condition = option("Condition on a row, in SQL.", read=_read_condition)


def _read_count(node: Node) -> int:
    if type(node.value) is int and node.value >= 0:
        return node.value
    raise ProjectError.of(
        "wrong-value", f"{node.shown} is no number of rows.", place=node.place
    )


@dataclass(frozen=True, slots=True)
class RowCount:
    """The number of the table's rows is within bounds."""

    min: int | None = option(
        "Smallest number of rows that passes.", default=None, read=_read_count
    )
    max: int | None = option(
        "Largest number of rows that passes.", default=None, read=_read_count
    )


@dataclass(frozen=True, slots=True)
class NewestWithin:
    """The newest value of a column of times is not older than allowed. Values in the
    future are ignored, and a table without other values fails."""

    within: Duration = option(
        "Maximum age of the newest value, such as `1 hour`.", read=parse_duration
    )
    column: str = option(
        "Column of a timestamp or date. A test of a column uses that column if left out; a test of a model requires "
        "it.",
        default="",
    )


@dataclass(frozen=True, slots=True)
class FailingRows:
    """A file of `tests/`: the template of a SELECT, each row of which is a failure."""

    path: str
    source: str
    template: Template | None = field(default=None, repr=False, compare=False)


RowCheck: TypeAlias = NotNull | AcceptedValues | Expression
"""The checks that look at each row by itself."""

Check: TypeAlias = (
    RowCheck | Unique | Relationships | RowCount | NewestWithin | FailingRows
)

_KINDS: Mapping[str, type] = {
    "not_null": NotNull,
    "unique": Unique,
    "accepted_values": AcceptedValues,
    "relationships": Relationships,
    "expression": Expression,
    "row_count": RowCount,
    "freshness": NewestWithin,
}
TEST_KINDS = tuple(_KINDS.items())
"""The tests that a properties file can use, each with its name there."""

_OF_COLUMNS = ("not_null", "unique", "accepted_values", "relationships")
_SHORT = {
    "expression": "expression",
    "freshness": "within",
    "accepted_values": "values",
}
"""By a test's name, the argument that may be given as the test's value alone."""


@dataclass(frozen=True, slots=True)
class TestEntry:
    """A test as an entry of a properties file, before the model or column that it
    belongs to is known. `word` is the test's name there, such as `not_null`."""

    __test__ = False

    place: Place
    word: str
    check: Check
    given: EntryOptions
    options: TestOptions


@dataclass(frozen=True, slots=True)
class DataTest:
    """A data test of a project. `model` is the model or seed, and `column` the column,
    that it is declared for; both '' for a file of `tests/`.

    `depends_on` are the models and seeds whose tables it reads, of which `seeds` are
    the seeds; `path` is its file.
    """

    name: str
    word: str
    place: Place
    check: Check
    model: str
    column: str
    depends_on: tuple[str, ...]
    where: Condition | None
    description: str
    options: TestOptions
    fqn: tuple[str, ...]
    path: str
    seeds: frozenset[str] = frozenset()

    @property
    def id(self) -> str:
        """The test's name in the graph."""
        return f"test.{self.name}"

    @property
    def compiled_path(self) -> str:
        """The path of its compiled SELECT below the folder of compiled files."""
        return (
            self.path
            if isinstance(self.check, FailingRows)
            else f"tests/{self.name}.sql"
        )

    def failures_table(self, of: TableName) -> TableName:
        """The table for its failing rows, in the namespace of the table `of`, which is
        tested."""
        return TableName(of.catalog, of.namespace, f"{self.name}{FAILURES_SUFFIX}")


def name_of(model: str, column: str, entry: TestEntry) -> str:
    """The test's configured name, or a name made of the kind of test, the model, the
    column and the other model."""
    if entry.given.name:
        return entry.given.name
    other = [entry.check.to] if isinstance(entry.check, Relationships) else []
    words = [entry.word, model, re.sub(r"[^A-Za-z0-9_]", "_", column), *other]
    return "_".join(filter(None, words))


def check_place(entry: TestEntry, column: str) -> None:
    """Raise `ProjectError` if a test of columns is declared for a model, a test of
    tables for a column, or a `freshness` test names no column."""
    if entry.word in _OF_COLUMNS and not column:
        what = f"The test {entry.word} is one of a column, and stands at the model."
        fix = f"Put it under `columns:`, such as `{{name: order_id, tests: [{entry.word}]}}`."
        raise ProjectError.of("wrong-value", what, fix=fix, place=entry.place)
    if entry.word == "row_count" and column:
        what = "The test row_count counts the rows of a table, and stands at a column."
        raise ProjectError.of(
            "wrong-value",
            what,
            fix="Put it under `tests:` of the model.",
            place=entry.place,
        )
    if isinstance(entry.check, NewestWithin) and not (column or entry.check.column):
        fix = "Add one, such as `freshness: {column: updated_at, within: 1 hour}`, or put the test at the column."
        raise ProjectError.of(
            "missing-option",
            "The test freshness names no column.",
            fix=fix,
            place=entry.place,
        )


def _read_entry(item: Node) -> TestEntry:
    """A test, written as its name alone or as a mapping of its name to its arguments;
    options may stand beside the name, as in dbt."""
    match item.value:
        case str(word):
            beside: dict[str, Node] = {}
            inner = Node({}, item.place)
            place = item.place
        case Mapping():
            words = [key for key in item.entries() if key not in _common()]
            if len(words) != 1:
                what = "A test is one word, or a mapping of one word to what the test takes."
                fix = "Write - not_null, or - accepted_values: {values: [a, b]}"
                raise ProjectError.of("wrong-type", what, fix=fix, place=item.place)
            word = words[0]
            beside = {key: node for key, node in item.entries().items() if key != word}
            inner = item.entries()[word]
            place = item.key_place(word)
        case _:
            raise ProjectError.of(
                "wrong-type", f"{item.shown} is no test.", place=item.place
            )
    if word not in _KINDS:
        fix = answer("test", word) or did_you_mean(word, _KINDS)
        raise ProjectError.of(
            "unknown-test", f"There is no test '{word}'.", fix=fix, place=place
        )
    if inner.value is None:
        inner = Node({}, place)
    if not isinstance(inner.value, Mapping) and word in _SHORT:
        inner = Node({_SHORT[word]: inner}, inner.place, {_SHORT[word]: inner.place})
    own = {**beside, **inner.entries()}
    keys = {**item.keys, **inner.keys}
    for key in ("arguments", "config"):
        if key in own:
            node = own.pop(key)
            own |= node.entries()
            keys |= node.keys
    common = {key: node for key, node in own.items() if key in _common()}
    others = {key: node for key, node in own.items() if key not in _common()}
    given = {key: node for key, node in common.items() if key in _fields(EntryOptions)}
    options = {key: node for key, node in common.items() if key not in given}
    what = f"the test {word}"
    entry = TestEntry(
        place,
        word,
        cast("Check", decode(Node(others, place, keys), _KINDS[word], what=what)),
        decode(Node(given, place, keys), EntryOptions, what=what),
        _read_options(Node(options, place, keys), what),
    )
    if isinstance(entry.check, RowCount):
        _check_bounds(entry.check, place)
    return entry


def _check_bounds(check: RowCount, place: Place) -> None:
    """Raise `ProjectError` if no number of rows, or every one, is within the bounds of
    a `row_count`."""
    if check.max is not None and (check.min or 0) > check.max:
        what = f"No table has {check.min} rows at least and {check.max} at most."
        raise ProjectError.of(
            "wrong-value", what, fix="Let min be no more than max.", place=place
        )
    if check.max is None and not check.min:
        said = (
            "has neither min nor max"
            if check.min is None
            else "cannot fail: each table has 0 rows or more"
        )
        fix = "Write bounds that a table may miss, such as `row_count: {min: 1}`."
        raise ProjectError.of(
            "missing-option", f"The test row_count {said}.", fix=fix, place=place
        )


def _fields(kind: type) -> frozenset[str]:
    return frozenset(each.name for each in fields_of(kind))


def _common() -> frozenset[str]:
    return _fields(EntryOptions) | _fields(TestOptions) | {"arguments", "config"}


def read_file_options(config: Node) -> TestOptions:
    """The options in `config(...)` of a file of `tests/`. Raises `ProjectError`."""
    return _read_options(config, "a test")


def _read_options(node: Node, what: str) -> TestOptions:
    options = decode(node, TestOptions, what=what)
    thresholds = {"error_if": options.error_if} if options.severity == "error" else {}
    for key, threshold in {**thresholds, "warn_if": options.warn_if}.items():
        if options.limit is not None and threshold.least > options.limit:
            given, least = node.entries()[key], threshold.least
            said = f"{given.shown} needs {least} failing rows, and by limit no more than {options.limit} are counted."
            fix = f"Raise limit to {least} or more, or leave it out."
            raise ProjectError.of("wrong-value", said, fix=fix, place=given.place)
    return options


DATA_TEST_KINDS = (
    TestEntry,
    TestOptions,
    EntryOptions,
    Threshold,
    *_KINDS.values(),
    Duration,
)
"""The classes of which a `TestEntry` consists."""
