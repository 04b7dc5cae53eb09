"""Which views in Iceberg's catalogs models have created, and which model each is of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from lakesql.engine.spark.gateway import java_class
from lakesql.errors import RunError
from lakesql.model.model import Model
from lakesql.model.table_name import TableName
from lakesql.names import VIEW_MODEL

JavaView = Any
"""An `org.apache.iceberg.view.View`."""


def list_views(
    session: SparkSession, catalog: str, namespace: str
) -> Iterator[tuple[TableName, str]]:
    """The views of models in a namespace, each with its model; none if the catalog has
    no views."""
    views, path = _views_of(session, catalog), _identifier(namespace, "any").namespace()
    if views is None or not views.namespaceExists(path):
        return
    for found in list(views.listViews(path)):
        if owner := owner_of(views.loadView(found)):
            yield TableName(catalog, namespace, str(found.name())), owner


def has_views(session: SparkSession, catalog: str) -> bool:
    """Whether a catalog can have views."""
    return _views_of(session, catalog) is not None


def find_view(session: SparkSession, name: TableName) -> JavaView | None:
    """The view of this name; None if there is none."""
    views, identifier = (
        _views_of(session, name.catalog),
        _identifier(name.namespace, name.name),
    )
    return (
        views.loadView(identifier)
        if views is not None and views.viewExists(identifier)
        else None
    )


def owner_of(view: JavaView) -> str:
    """The model that has created a view; '' if somebody else has."""
    return str(view.properties().get(VIEW_MODEL) or "")


def say_view(name: TableName, view: JavaView) -> str:
    """A view in words, with its owner."""
    owner = owner_of(view)
    return (
        f"view {name}, of model '{owner}'"
        if owner
        else f"view {name}, which somebody else has made"
    )


def refuse_view(session: SparkSession, model: Model) -> None:
    """Raise `RunError` (`table-of-another`) if a view has the name of the table that a
    model is to get."""
    view = find_view(session, model.table)
    if view is not None:
        raise name_taken(
            model,
            f"mode '{model.config.mode}' makes a table",
            say_view(model.table, view),
        )


def name_taken(model: Model, wanted: str, there: str) -> RunError:
    """The error for a model whose name in the catalog is taken."""
    return RunError.of(
        "table-of-another",
        f"Model '{model.name}': {wanted}, and there is {there}.",
        fix=f"Give the model another name by its option `table`; or, if that may go: lakesql drop {model.name}",
        place=model.place,
    )


def _views_of(session: SparkSession, catalog: str) -> Any:
    """The catalog as an `org.apache.iceberg.catalog.ViewCatalog`; None if it does not
    support views."""
    found = (
        session._jsparkSession.sessionState()
        .catalogManager()
        .catalog(catalog)
        .icebergCatalog()
    )
    is_one = java_class("py4j.reflection.TypeUtil").isInstanceOf(
        "org.apache.iceberg.catalog.ViewCatalog", found
    )
    return found if is_one else None


def _identifier(namespace: str, name: str) -> Any:
    return java_class("org.apache.iceberg.catalog.TableIdentifier").parse(
        f"{namespace}.{name}"
    )
