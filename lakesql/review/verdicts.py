"""The result of a comparison, as values: for each model, how severe its change is (the
verdict), and why."""

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
"""The verdicts, from harmless to severe."""

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
"""The conditions of reasons that are not errors, each with its meaning; those of errors
are in docs/errors.md."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a model has a verdict. `condition` is that of an error, or one of `CAUSES`;
    `do` is the advice, '' if nothing needs to be done."""

    verdict: Verdict
    condition: str
    what: str
    place: Place | None = None
    do: str = ""


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column of a table; `type` is '' if only Spark's analyzer can determine it."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class RetypedColumn:
    """A column whose type has changed."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """How the columns of a model's SELECT differ. `recomputed` are those whose
    expression has changed."""

    added: tuple[NamedColumn, ...] = ()
    dropped: tuple[NamedColumn, ...] = ()
    retyped: tuple[RetypedColumn, ...] = ()
    recomputed: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all changed columns."""
        columns = [column.name for column in (*self.added, *self.dropped)]
        return tuple(
            dict.fromkeys(
                (*columns, *(column.name for column in self.retyped), *self.recomputed)
            )
        )


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """A model that reads changed columns. `through` is the model by which it gets them:
    itself if it reads the table directly."""

    name: str
    columns: tuple[str, ...]
    through: str


@dataclass(frozen=True, slots=True)
class Statements:
    """The compiled SQL of a model in both versions; None if that version has no such
    model, cannot compile it, or if nothing differs."""

    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class DayCounts:
    """The commits of a table in a day, and its files, snapshots and metadata."""

    commits: int
    data_files: int
    delete_files: int
    snapshots: int
    metadata_bytes: int


@dataclass(frozen=True, slots=True)
class ForecastDay:
    """The forecast of a new table's first day, by assumptions on its rows.

    `freshness_ms` is the greatest age of the newest row. `is_behind`: more rows arrive
    between two batches than one batch may read. `unmaintained` is the table at the end
    of the day without maintenance, `maintained` the most that it has at any moment of
    the day with it; None if the table is not maintained.
    """

    freshness_ms: int
    is_behind: bool
    unmaintained: DayCounts
    maintained: DayCounts | None


@dataclass(frozen=True, slots=True)
class DayChange:
    """The forecast of a day for both versions."""

    before: ForecastDay
    after: ForecastDay


@dataclass(frozen=True, slots=True)
class ModelReview:
    """What a change does to one model. `steps` are what `lakesql run` does to a table
    made by the old version; empty if it refuses. `day` is None if the forecast of a day
    is unchanged, or one of the versions does not run."""

    name: str
    reasons: tuple[Reason, ...] = ()
    columns: ColumnChanges = ColumnChanges()
    statements: Statements = Statements()
    steps: tuple[Step, ...] = ()
    downstream: tuple[ColumnReader, ...] = ()
    day: DayChange | None = None

    @property
    def verdict(self) -> Verdict:
        """The most severe verdict of its reasons; `none` without reasons."""
        return worst(reason.verdict for reason in self.reasons)


@dataclass(frozen=True, slots=True)
class Review:
    """What a change does to a project's models, the most severe first. `against`
    describes what they are compared with.

    `upstream` are models that were not selected, and whose tables the selected ones
    stream: the verdicts of these depend on them.
    """

    against: str
    models: tuple[ModelReview, ...]
    upstream: tuple[ModelReview, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The most severe verdict of its models."""
        return worst(model.verdict for model in self.models)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The most severe of the verdicts; `none` if there are none."""
    return max(verdicts, key=VERDICTS.index, default="none")


def hardest_first(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """The reasons without duplicates, the most severe first."""
    return tuple(
        sorted(dict.fromkeys(reasons), key=lambda it: -VERDICTS.index(it.verdict))
    )


def models_in_order(models: Iterable[ModelReview]) -> tuple[ModelReview, ...]:
    """The models, the most severe first, then by name."""
    return tuple(sorted(models, key=lambda it: (-VERDICTS.index(it.verdict), it.name)))


def reaches(verdict: Verdict, least: Verdict) -> bool:
    """Whether a verdict is at least as severe as `least`."""
    return VERDICTS.index(verdict) >= VERDICTS.index(least)
