"""What lakesql uses of Spark and Iceberg beyond their public interfaces, and the public
alternative to each.

Plans are made once and run over one frame after another, and views get a new plan in
place: this saves a batch the time in which Spark would analyse, optimize and describe
the same again. Some files of a snapshot are read, where a SELECT reads all of it. The
public alternative gives the same rows, and takes longer. Only `write_to` has none: no
public interface lets a statement write to a table that no catalog has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from lakesql.compile.quote import identifier
from lakesql.engine.spark.gateway import array_of, java_class
from lakesql.errors import ProfileError

SETTING = "spark.lakesql.internals"
"""The setting of the target's `spark.conf` that chooses: `auto` uses the internals if
this Spark has them, `always` uses them without checking, `never` uses the public
interfaces."""

WAYS = ("auto", "always", "never")

_MAP_PARTITIONS = "org.apache.spark.rdd.MapPartitionsRDD"
_LOGICAL_RDD = "org.apache.spark.sql.execution.LogicalRDD"
_LOCAL = "org.apache.spark.sql.catalyst.plans.logical.LocalRelation"
_SPARK_TABLE = "org.apache.iceberg.spark.source.SparkTable"
_RELATION = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"
_TASK_SETS = "org.apache.iceberg.spark.ScanTaskSetManager"
_TABLE_OF_TASKS = "org.apache.iceberg.spark.source.SparkRewriteTable"
_TABLE = "org.apache.iceberg.Table"
_METADATA = "org.apache.iceberg.TableMetadata"
_STATIC = "org.apache.iceberg.StaticTableOperations"


@dataclass(slots=True)
class _Choice:
    """Whether this process uses Spark's internals."""

    is_direct: bool = True


_choice = _Choice()


def choose_way(session: SparkSession, say: Callable[[str], None]) -> None:
    """Choose for this process, by the setting and by what this Spark has. `say` is
    called if the slower way is used.

    Raises ProfileError: `wrong-value` for an unknown value of the setting,
    `unsupported-spark` if statements cannot write to staged tables.
    """
    way = str(session.conf.get(SETTING, "auto"))
    if way not in WAYS:
        what = f"{SETTING} is '{way}'."
        raise ProfileError.of(
            "wrong-value", what, fix=f"Write one of {', '.join(WAYS)}, or leave it out."
        )
    if way == "always":
        _choice.is_direct = True
        return
    if missing := _find_missing(_NEEDED):
        raise ProfileError.of(
            "unsupported-spark",
            f"This Spark or Iceberg has no {missing} as lakesql knows it: no statement could write to a staged table.",
            why=f"Its version is {session.version}.",
        )
    missing = _find_missing(_FASTER) if way == "auto" else ""
    _choice.is_direct = way == "auto" and not missing
    if missing:
        say(
            f"Spark {session.version} has no {missing} as lakesql knows it: batches and changes of tables take longer"
        )


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a Java class: a field or a method by its name, or a constructor by
    its number of arguments.

    `takes` are the classes of a method's arguments; None for a field.
    """

    owner: str
    name: str = ""
    takes: tuple[str, ...] | None = None
    arguments: int = 0

    def __str__(self) -> str:
        return (
            f"{self.owner}.{self.name}"
            if self.name
            else f"{self.owner} of {self.arguments} arguments"
        )

    def is_there(self) -> bool:
        """Whether the class has it."""

        def find(name: str) -> Any:
            return (
                java_class("java.lang.Long").TYPE
                if name == "long"
                else java_class("java.lang.Class").forName(name)
            )

        try:
            found = find(self.owner)
            if not self.name:
                return any(
                    each.getParameterCount() == self.arguments
                    for each in found.getConstructors()
                )
            if self.takes is None:
                found.getDeclaredField(self.name)
            else:
                found.getMethod(
                    self.name,
                    array_of("java.lang.Class", [find(each) for each in self.takes]),
                )
        except Py4JJavaError:
            return False
        return True


_FASTER = (
    Member(_MAP_PARTITIONS, "f"),
    Member(_MAP_PARTITIONS, arguments=7),
    Member(_LOGICAL_RDD, arguments=9),
    Member(_LOCAL, arguments=4),
    Member(
        "org.apache.spark.sql.catalyst.catalog.SessionCatalog",
        "getRawTempView",
        ("java.lang.String",),
    ),
    Member(_TASK_SETS, "stageTasks", (_TABLE, "java.lang.String", "java.util.List")),
    Member(_TASK_SETS, "removeTasks", (_TABLE, "java.lang.String")),
    Member(_TABLE_OF_TASKS, arguments=2),
    Member(f"{_METADATA}$Builder", "setBranchSnapshot", ("long", "java.lang.String")),
    Member(_STATIC, arguments=2),
)
"""The members that the faster ways need."""

_NEEDED = (
    Member(_SPARK_TABLE, arguments=1),
    Member(
        _RELATION,
        "create",
        (
            "org.apache.spark.sql.connector.catalog.Table",
            "scala.Option",
            "scala.Option",
        ),
    ),
)
"""The members that `write_to` needs."""


def _find_missing(members: Iterable[Member]) -> str:
    """The first member that does not exist, in words; '' if all exist."""
    missing = next((each for each in members if not each.is_there()), None)
    return "" if missing is None else str(missing)


class Repeated:
    """The transformation `make`, applied to one frame after another with the same
    columns.

    Spark analyses, optimizes and plans a transformation and generates its code, which
    takes longer than running it over a thousand rows. So `make` is called for the first
    frame only. For another frame with the same columns, the functions of the resulting
    plan, each of which maps the rows of a task to other rows, are run over its rows. If
    the plan is more than such functions, `make` is called each time; and it is called
    again on another day, as it may use `current_date()`.
    """

    def __init__(self, make: Callable[[DataFrame], DataFrame]) -> None:
        self._make = make
        self._planned_for: tuple[str, date] | None = None
        self._output: Any = None
        self._functions: list[Any] = []
        self._tag: Any = None

    def over(self, frame: DataFrame) -> DataFrame:
        """The transformed frame. Spark does not know how it was made, so the optimizer
        pushes nothing into it."""
        if not _choice.is_direct:
            return self._make(frame)
        execution = frame._jdf.queryExecution()
        rows, asked = (
            execution.toRdd(),
            (str(frame._jdf.schema().json()), datetime.now(UTC).date()),
        )
        if asked != self._planned_for:
            made = self._make(
                frame_of(rows, execution.analyzed().output(), frame)
            )._jdf.queryExecution()
            planned = made.executedPlan().execute()
            self._output, self._functions = (
                made.analyzed().output(),
                _functions_between(rows, planned),
            )
            self._planned_for = asked if self._functions else None
            row = java_class("java.lang.Class").forName(
                "org.apache.spark.sql.catalyst.InternalRow"
            )
            self._tag = java_class("scala.reflect.ClassTag").apply(row)
            rows = planned
        else:
            # as `RDD.mapPartitionsWithIndex` does, once it is ready for tasks
            for function in self._functions:
                rows = java_class(_MAP_PARTITIONS)(
                    rows, function, False, False, False, self._tag, self._tag
                )
        return frame_of(rows, self._output, frame)


def _functions_between(below: Any, rows: Any) -> list[Any]:
    """The functions by which `rows` are made of `below`, in order; empty if it takes
    more than functions."""
    found = []
    while rows.id() != below.id():
        if str(rows.getClass().getName()) != _MAP_PARTITIONS:
            return []
        function = rows.getClass().getDeclaredField("f")
        function.setAccessible(True)
        found.append(function.get(rows))
        rows = rows.dependencies().head().rdd()
    return found[::-1]


def as_given(frame: DataFrame) -> DataFrame:
    """The rows of a frame as a frame without the plan that made them, so that
    statements which read it do not plan that again."""
    if not _choice.is_direct:
        return _as_rows(frame) if frame.isStreaming else frame
    execution = frame._jdf.queryExecution()
    return frame_of(execution.toRdd(), execution.analyzed().output(), frame)


def _as_rows(frame: DataFrame) -> DataFrame:
    """The rows of a batch of a streaming query as a frame of Java rows: other
    statements cannot read such a batch directly."""
    session = frame.sparkSession
    former = session.conf.get(_EXACT_TIMES)
    session.conf.set(_EXACT_TIMES, "true")
    try:
        made = session._jsparkSession.createDataFrame(
            frame._jdf.toJavaRDD(), frame._jdf.schema()
        )
        return DataFrame(made, session)
    finally:
        session.conf.set(_EXACT_TIMES, str(former))


_EXACT_TIMES = "spark.sql.datetime.java8API.enabled"
"""Whether Java's rows have times exactly as Spark does, in no time zone or calendar."""


def frame_of(rows: Any, output: Any, like: DataFrame) -> DataFrame:
    """These rows, with these attributes, as a frame. Spark takes its size to be that of
    the frame `like`."""
    partitionings, option = (
        "org.apache.spark.sql.catalyst.plans.physical.",
        java_class("scala.Option"),
    )
    if rows.getNumPartitions() == 1:
        partitioning = getattr(
            java_class(f"{partitionings}SinglePartition$"), "MODULE$"
        )
    else:
        partitioning = java_class(f"{partitionings}UnknownPartitioning")(0)
    session, none = like.sparkSession._jsparkSession, option.empty()
    size = option.apply(like._jdf.queryExecution().optimizedPlan().stats())
    unordered = java_class("org.apache.spark.api.python.PythonUtils").toSeq([])
    plan = java_class(_LOGICAL_RDD)(
        output, rows, partitioning, unordered, False, none, session, size, none
    )
    return _frame(plan, like)


def replace_view(frame: DataFrame, name: str) -> None:
    """Register the rows as the session's temporary view of this name, as
    `createOrReplaceTempView` does.

    That call is a statement, which Spark plans and describes, together with the frame.
    If a view with the same columns exists, its plan is replaced without one.
    """
    if not _choice.is_direct:
        frame.createOrReplaceTempView(identifier(name))
        return
    catalog, plan = frame._jdf.sparkSession().sessionState().catalog(), _analyzed(frame)
    found = catalog.getRawTempView(name)
    if found.isDefined() and (
        said := (former := found.get()).tableMeta()
    ).schema().equals(plan.schema()):
        catalog.createTempView(
            name, former.copy(said, java_class("scala.Option").apply(plan)), True
        )
    else:
        frame.createOrReplaceTempView(identifier(name))


def write_to(session: SparkSession, statement: str, table: Any) -> None:
    """Run an INSERT or a MERGE that writes to this `org.apache.iceberg.Table` instead
    of the catalog's table of that name.

    Other tables that the statement reads by name are the catalog's, even if one of them
    is the same table.
    """
    state = session._jsparkSession.sessionState()
    plan = state.sqlParser().parsePlan(statement)
    match plan.nodeName():
        case "MergeIntoTable":
            target, source = plan.targetTable(), plan.sourceTable()
            is_named = not target.children().isEmpty()
            relation = _relation(state, target.child() if is_named else target, table)
            target = (
                target.withNewChildren(_sequence(relation)) if is_named else relation
            )
            plan = plan.withNewChildren(_sequence(target, source))
        case "InsertIntoStatement":
            relation = _relation(state, plan.table(), table)
            plan = plan.copy(
                relation,
                *(
                    plan.productElement(index)
                    for index in range(1, plan.productArity())
                ),
            )
        case other:
            raise AssertionError(f"{other} is no write")
    java_class("org.apache.spark.sql.classic.Dataset").ofRows(
        session._jsparkSession, plan
    )


def hold_rows(frame: DataFrame) -> tuple[DataFrame, int] | None:
    """The rows of a frame, computed in one job and held by Java's driver, and their
    number; None if only public interfaces are used.

    They must be few. Spark knows their number, and needs no job to read them. They are
    planned with the current settings.
    """
    if not _choice.is_direct:
        return None
    execution = frame._jdf.queryExecution()
    rows = execution.executedPlan().executeCollect()
    sequence = getattr(
        java_class("scala.collection.immutable.ArraySeq$"), "MODULE$"
    ).unsafeWrapArray(rows)
    plan = java_class(_LOCAL)(
        execution.analyzed().output(),
        sequence,
        False,
        java_class("scala.Option").empty(),
    )
    return _frame(plan, frame), len(rows)


def in_session(frame: DataFrame, session: SparkSession) -> DataFrame:
    """The rows of a frame of `hold_rows`, or of a checkpoint, as a frame of another
    session. Only if `can_share_rows`."""
    if frame.sparkSession is session:
        return frame
    assert _choice.is_direct, "no public way gives another session's rows"
    rows = java_class("org.apache.spark.sql.classic.Dataset").ofRows(
        session._jsparkSession, _analyzed(frame)
    )
    return DataFrame(rows, session)


def can_share_rows() -> bool:
    """Whether `in_session` may be called."""
    return _choice.is_direct


def can_read_tasks() -> bool:
    """Whether `rows_of_tasks` may be called; otherwise whole snapshots are read."""
    return _choice.is_direct


def plan_files(table: Any, snapshot: int) -> Any:
    """The `org.apache.iceberg.FileScanTask`s of a snapshot, in the form that
    `rows_of_tasks` needs.

    A time travel scan reads the partition values of files with the column types of that
    time: a number whose column was widened since would not have the column's type. So
    the scan is one of a table whose newest snapshot is this one.
    """
    metadata = (
        java_class(_METADATA)
        .buildFrom(table.operations().current())
        .setBranchSnapshot(snapshot, "main")
        .build()
    )
    made = java_class("org.apache.iceberg.BaseTable")(
        java_class(_STATIC)(metadata, table.io()), table.name()
    )
    return made.newScan().planFiles()


@contextmanager
def rows_of_tasks(
    session: SparkSession, table: Any, tasks: Sequence[Any]
) -> Iterator[DataFrame]:
    """The rows of tasks of `plan_files`, with the table's newest columns, while the
    context is open.

    The tasks, one or more, are read as `rewrite_data_files` reads them, so they may be
    of any snapshot. `_file`, `_pos` and `_deleted` can be selected; with `_deleted`,
    deleted rows are included. On format version 3 the relation that Iceberg makes has
    `_row_id` among its columns, which keeps Spark from adding metadata columns; so it
    is left out.
    """
    held, name = java_class("java.util.ArrayList")(), str(uuid4())
    for task in tasks:
        held.add(task)
    sets, option = java_class(_TASK_SETS).get(), java_class("scala.Option")
    sets.stageTasks(table, name, held)
    try:
        made = java_class(_TABLE_OF_TASKS)(table, name)
        relation = java_class(_RELATION).create(made, option.empty(), option.empty())
        columns = relation.output().take(table.schema().columns().size())
        others = (
            relation.productElement(index)
            for index in range(2, relation.productArity())
        )
        plan = relation.copy(relation.table(), columns, *others)
        rows = java_class("org.apache.spark.sql.classic.Dataset").ofRows(
            session._jsparkSession, plan
        )
        yield DataFrame(rows, session)
    finally:
        sets.removeTasks(table, name)


def _relation(state: Any, named: Any, table: Any) -> Any:
    """The relation for this table, in the place of the named one. It has the catalog of
    the name, which provides the partition functions; it has no name, so that Spark does
    not load the table from the catalog."""
    option = java_class("scala.Option")
    catalog = state.catalogManager().catalog(named.multipartIdentifier().head())
    made = java_class(_SPARK_TABLE)(table)
    relations = java_class(_RELATION)
    return relations.create(made, option.apply(catalog), option.empty())


def _frame(plan: Any, of: DataFrame) -> DataFrame:
    session = of.sparkSession
    rows = java_class("org.apache.spark.sql.classic.Dataset").ofRows(
        session._jsparkSession, plan
    )
    return DataFrame(rows, session)


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _sequence(*plans: Any) -> Any:
    return java_class("org.apache.spark.api.python.PythonUtils").toSeq([*plans])
