"""What a comparison finds: of each model how hard its change is, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from lakesql.errors import Place
from lakesql.plan.steps import Step

Verdict = Literal[
    "none", "docs", "added", "renamed", "next-batch", "alter", "rebuild", "removed", "breaks", "refused"
]  # fmt: skip

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""From harmless to hard."""

MEANINGS: Mapping[Verdict, str] = {
    "none": "The same rows, the same table, the same statements.",
    "docs": "Descriptions, tags and `meta` alone.",
    "added": "A new model: its table is made, and its streams are read from their `start`.",
    "renamed": "The model has another name: it begins anew, and the table that it had stays as it is.",
    "next-batch": "It counts from the next batch on. What is in the table stays as it was.",
    "alter": "The table is altered in place. No row is rewritten.",
    "rebuild": "The table does not say what its SELECT says until `lakesql rebuild` has filled it again.",
    "removed": "There is no such model any more. Its table stays, and is kept fresh no longer.",
    "breaks": "The running checkpoint cannot be continued, or rows would stand twice: somebody must act.",
    "refused": "It will not run.",
}
"""What each verdict means."""

CAUSES: Mapping[str, str] = {
    "branch-changed": "A branch of a template has changed that the compared rendering does not take.",
    "checkpoint-absent": "There is no checkpoint: a new one continues where the table stands (`--live`).",
    "checkpoint-unread": "The checkpoint cannot be read without Spark, and is not compared with the table (`--live`).",
    "column-added": "The SELECT has a new column.",
    "column-dropped": "The SELECT has a column no longer.",
    "column-untyped": "The type of a column is known to Spark's analyzer alone.",
    "column-widened": "A column has a type that holds more.",
    "connection-changed": "A stream is read through another connection.",
    "contract-changed": "The contract of a stream, or how its records are written, has changed.",
    "description-changed": "A description or a test has changed.",
    "expectation-changed": "Something else is expected of the rows of a batch.",
    "expression-changed": "A column is worked out in another way.",
    "filter-changed": "Other rows pass: a WHERE, HAVING or QUALIFY has changed.",
    "freshness-changed": "The table is held to other limits.",
    "history-changed": "What makes a version of a row has changed.",
    "model-added": "There was no such model.",
    "model-removed": "There is no such model any more.",
    "model-renamed": "A model of another name did the same.",
    "not-compared": "The old version cannot be read by this version of lakesql, so nothing is known of it.",
    "option-changed": "An option has another value.",
    "order-changed": "The table has another sort order.",
    "partition-added": "A topic has one more partition (`--live`).",
    "partitions-changed": "The table is partitioned in another way.",
    "properties-changed": "The table has other properties.",
    "seed-added": "There was no such seed.",
    "seed-changed": "The file or the contract of a seed has changed, or the namespace of its table.",
    "seed-removed": "There is no such seed any more.",
    "sequence-changed": "Which of two rows is newer is told in another way.",
    "source-changed": "The SELECT reads something else, or joins it in another way.",
    "start-changed": "A new checkpoint would start elsewhere in a stream.",
    "statement-changed": "The SELECT has changed elsewhere than in a column or a filter.",
    "table-absent": "There is no table of the model (`--live`).",
    "table-drifted": "The table is not as the former version leaves it (`--live`).",
    "table-rolled-back": "The table has stood at a later batch than it does now (`--live`).",
    "topic-added": "A stream reads one more topic.",
    "topic-backlog": "A topic holds records that the model has not read yet (`--live`).",
    "upstream-refused": "It reads a model that is refused.",
    "view-changed": "A model over tables has another SELECT, or other columns: all of its rows are made anew.",
    "watermark-changed": "A stream has another watermark.",
}
"""The conditions of reasons, beside those of errors (docs/errors.md)."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a model has a verdict. `condition` is an error's, or one of `CAUSES`; `do` is
    '' where nothing is to do."""

    verdict: Verdict
    condition: str
    what: str
    place: Place | None = None
    do: str = ""


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column of a table; `type` is '' where Spark's analyzer alone knows it."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class RetypedColumn:
    """A column that has another type than before."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """How the columns of a model's SELECT differ. `recomputed` are those that are
    worked out in another way."""

    added: tuple[NamedColumn, ...] = ()
    dropped: tuple[NamedColumn, ...] = ()
    retyped: tuple[RetypedColumn, ...] = ()
    recomputed: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All of them by name."""
        columns = [column.name for column in (*self.added, *self.dropped)]
        return tuple(
            dict.fromkeys(
                (*columns, *(column.name for column in self.retyped), *self.recomputed)
            )
        )


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """A model that reads changed columns, and through which model it does; itself where
    it reads the table."""

    name: str
    columns: tuple[str, ...]
    through: str


@dataclass(frozen=True, slots=True)
class Statements:
    """The compiled texts of a model; None where it is not there, or cannot be compiled,
    or nothing differs."""

    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class DayCounts:
    """A table's commits of a day, and its files and metadata."""

    commits: int
    data_files: int
    delete_files: int
    snapshots: int
    metadata_bytes: int


@dataclass(frozen=True, slots=True)
class ForecastDay:
    """A day of a new table, by what is assumed of its rows.

    `freshness_ms` is how old the newest row is at most. `is_behind`: more rows come
    between two batches than one may read. `unmaintained` is the table at the day's end,
    `maintained` the most that it has at any moment of it; None where nobody maintains
    it.
    """

    freshness_ms: int
    is_behind: bool
    unmaintained: DayCounts
    maintained: DayCounts | None


@dataclass(frozen=True, slots=True)
class DayChange:
    """A day as both versions make it."""

    before: ForecastDay
    after: ForecastDay


@dataclass(frozen=True, slots=True)
class ModelReview:
    """What a change does to one model. `steps` are what `lakesql run` does to a table
    as the old version made it; none where it refuses. `day` is None where a day is as
    before, or one of the versions does not run."""

    name: str
    reasons: tuple[Reason, ...] = ()
    columns: ColumnChanges = ColumnChanges()
    statements: Statements = Statements()
    steps: tuple[Step, ...] = ()
    downstream: tuple[ColumnReader, ...] = ()
    day: DayChange | None = None

    @property
    def verdict(self) -> Verdict:
        """The hardest of its reasons."""
        return worst(reason.verdict for reason in self.reasons)


@dataclass(frozen=True, slots=True)
class Review:
    """What a change does to a project's models, the hardest first. `against` says what
    it is compared with.

    `upstream` are those that were not asked for, and whose tables the others stream:
    what becomes of those depends on it.
    """

    against: str
    models: tuple[ModelReview, ...]
    upstream: tuple[ModelReview, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The hardest of its models."""
        return worst(model.verdict for model in self.models)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The hardest of them, `none` where there are none."""
    return max(verdicts, key=VERDICTS.index, default="none")


def hardest_first(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """The reasons, each once, the hardest first."""
    return tuple(
        sorted(dict.fromkeys(reasons), key=lambda it: -VERDICTS.index(it.verdict))
    )


def models_in_order(models: Iterable[ModelReview]) -> tuple[ModelReview, ...]:
    """The models, the hardest first."""
    return tuple(sorted(models, key=lambda it: (-VERDICTS.index(it.verdict), it.name)))


def reaches(verdict: Verdict, least: Verdict) -> bool:
    """Whether a verdict is as hard as `least`, or harder."""
    return VERDICTS.index(verdict) >= VERDICTS.index(least)
