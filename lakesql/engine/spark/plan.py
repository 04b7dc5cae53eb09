"""Plans of Spark: some are analysed once, and put over one frame after another; views get one after another; and a
statement writes to a table that the catalog does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakesql.compile.quote import identifier
from lakesql.engine.spark.gateway import java_class


class Repeated:
    """What `make` does to a frame, to one after another with the same columns.

    Spark analyses each step that is put on a frame, and pyspark asks Java several times for each expression in it. So
    `make` is called for the first frame; over any other one of whose columns Spark knows that they are the same, as in
    the batches of one streaming query, the nodes of that plan are put as they are. Each of them has one child.
    """

    def __init__(self, make: Callable[[DataFrame], DataFrame]) -> None:
        self._make = make
        self._columns: Any = None
        self._nodes: list[Any] = []

    def over(self, frame: DataFrame) -> DataFrame:
        """What `make` makes of the frame."""
        below = _analyzed(frame)
        if self._columns is None or not self._columns.equals(below.output()):
            made = self._make(frame)
            nodes = [*_branch(_analyzed(made))]
            self._nodes = nodes[: len(nodes) - len([*_branch(below)])]
            self._columns = below.output()
            return made
        plan = below
        for node in reversed(self._nodes):
            plan = node.withNewChildren(_sequence(plan))
        return _frame(plan, frame)


def as_given(frame: DataFrame) -> DataFrame:
    """The same rows, of which Spark does not know how they were made: no statement that reads them plans that anew."""
    made = getattr(java_class("org.apache.spark.sql.execution.LogicalRDD$"), "MODULE$")
    return _frame(made.fromDataset(frame._jdf.queryExecution().toRdd(), frame._jdf, False), frame)


def replace_view(frame: DataFrame, name: str) -> None:
    """Let the rows be the session's temporary view of this name, as `createOrReplaceTempView` does.

    That is a statement, which Spark plans and describes, with the frame. A view that is there with the same columns
    gets another plan without one.
    """
    catalog, plan = frame._jdf.sparkSession().sessionState().catalog(), _analyzed(frame)
    found = catalog.getRawTempView(name)
    if found.isDefined() and (said := (former := found.get()).tableMeta()).schema().equals(plan.schema()):
        catalog.createTempView(name, former.copy(said, java_class("scala.Option").apply(plan)), True)
    else:
        frame.createOrReplaceTempView(identifier(name))


def write_to(session: SparkSession, statement: str, table: Any) -> None:
    """Run an INSERT or a MERGE that writes to this `org.apache.iceberg.Table`, not to what the catalog has by its name.

    What else the statement reads by a name is the catalog's, also where it is the same table.
    """
    state = session._jsparkSession.sessionState()
    plan = state.sqlParser().parsePlan(statement)
    match plan.nodeName():
        case "MergeIntoTable":
            target, source = plan.targetTable(), plan.sourceTable()
            is_named = not target.children().isEmpty()
            relation = _relation(state, target.child() if is_named else target, table)
            target = target.withNewChildren(_sequence(relation)) if is_named else relation
            plan = plan.withNewChildren(_sequence(target, source))
        case "InsertIntoStatement":
            relation = _relation(state, plan.table(), table)
            plan = plan.copy(relation, *(plan.productElement(index) for index in range(1, plan.productArity())))
        case other:
            raise AssertionError(f"{other} is no write")
    java_class("org.apache.spark.sql.classic.Dataset").ofRows(session._jsparkSession, plan)


def _relation(state: Any, named: Any, table: Any) -> Any:
    """The table in the place of one that has a name. Its catalog has the functions by which it is partitioned; without
    a name, Spark does not ask it for the table."""
    option = java_class("scala.Option")
    catalog = state.catalogManager().catalog(named.multipartIdentifier().head())
    made = java_class("org.apache.iceberg.spark.source.SparkTable")(table)
    relations = java_class("org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation")
    return relations.create(made, option.apply(catalog), option.empty())


def _frame(plan: Any, of: DataFrame) -> DataFrame:
    session = of.sparkSession
    rows = java_class("org.apache.spark.sql.classic.Dataset").ofRows(session._jsparkSession, plan)
    return DataFrame(rows, session)


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _branch(plan: Any) -> Iterator[Any]:
    """A plan's node, its first child, the first child of that, and so on."""
    yield plan
    while not (children := plan.children()).isEmpty():
        plan = children.head()
        yield plan


def _sequence(*plans: Any) -> Any:
    return java_class("org.apache.spark.api.python.PythonUtils").toSeq([*plans])
