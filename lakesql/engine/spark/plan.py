"""Plans of Spark that are analysed once, and put over one frame after another; and views that get one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame

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


def _sequence(plan: Any) -> Any:
    return java_class("org.apache.spark.api.python.PythonUtils").toSeq([plan])
