"""The view of a model whose rows are not stored: created, or replaced if its SELECT,
columns or descriptions have changed."""

from __future__ import annotations

import json

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from lakesql.catalog.tables import load_table_state
from lakesql.compile.quote import whole_name
from lakesql.engine.batch.analyze import type_text
from lakesql.engine.refresh.input_tables import missing_input
from lakesql.engine.refresh.refresh_table import Refresh, make_namespace
from lakesql.engine.spark.catalog_views import (
    JavaView,
    find_view,
    has_views,
    name_taken,
    owner_of,
    say_view,
)
from lakesql.engine.spark.gateway import java_class
from lakesql.errors import RunError
from lakesql.events import StepApplied
from lakesql.modes.batches.all_batches import view_of


def make_view(refresh: Refresh, session: SparkSession) -> None:
    """Create or replace the model's view, unless it already has the model's SELECT over
    the columns that its tables have now.

    Raises `RunError`: `no-views` if the catalog has no views, `table-missing` if a
    table that it reads does not exist, and `table-of-another` if its name is taken.
    """
    select, model = refresh.select, refresh.select.model
    refresh.reached("look-up")
    _check_catalog(refresh, session)
    for name in map(whole_name, select.query.tables):
        if not session.catalog.tableExists(name):
            raise missing_input(select, name)
    rows = session.sql(select.text).schema
    former = find_view(session, model.table)
    if former is not None and _is_as_said(refresh, former, rows):
        return
    _check_name(refresh, former)
    make_namespace(refresh, session)
    refresh.reached("publish")
    session.sql(view_of(select).statement())
    what = (
        f"create view {model.table}"
        if former is None
        else f"replace view {model.table}"
    )
    refresh.emit(StepApplied(model.name, what))


def _check_catalog(refresh: Refresh, session: SparkSession) -> None:
    model = refresh.select.model
    if has_views(session, model.table.catalog):
        return
    raise RunError.of(
        "no-views",
        f"Model '{model.name}' has mode 'view', and catalog '{model.table.catalog}' has no views.",
        fix="Use mode 'table' or 'materialized_view', whose rows are stored.",
        place=model.option_place("mode"),
    )


def _check_name(refresh: Refresh, former: JavaView | None) -> None:
    """Raise if the name is taken by something that is not this model's view."""
    model, wanted = refresh.select.model, "mode 'view' makes a view"
    if former is not None and owner_of(former) != model.name:
        raise name_taken(model, wanted, say_view(model.table, former))
    if former is None and load_table_state(refresh.catalog, model.table) is not None:
        raise name_taken(model, wanted, f"table {model.table}")


def _is_as_said(refresh: Refresh, view: JavaView, rows: StructType) -> bool:
    """Whether the view is the model's, with its SELECT, its descriptions, and the
    columns that the SELECT has now."""
    model = refresh.select.model
    if (
        owner_of(view) != model.name
        or view.sqlFor("spark").sql() != view_of(refresh.select).sql
    ):
        return False
    if (view.properties().get("comment") or "") != model.properties.description:
        return False
    said = model.properties.description_of
    return _columns_of(view) == [
        # a column without a description has that of the input's column
        (name, kind, said(name) or comment)
        for name, kind, comment in map(_describe, rows)
    ]


def _columns_of(view: JavaView) -> list[tuple[str, str, str]]:
    to_spark = java_class("org.apache.iceberg.spark.SparkSchemaUtil")
    schema = StructType.fromJson(json.loads(to_spark.convert(view.schema()).json()))
    return [*map(_describe, schema)]


def _describe(field: StructField) -> tuple[str, str, str]:
    return field.name, type_text(field.dataType), field.metadata.get("comment", "")
