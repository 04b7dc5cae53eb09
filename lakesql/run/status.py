"""Reads how the tables of models are, several at a time, so that one that cannot be read hides no other."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from lakesql.catalog.connect import OpenCatalog, open_catalog
from lakesql.catalog.table_facts import read_facts
from lakesql.errors import LakesqlError
from lakesql.graph.manifest import Manifest
from lakesql.model.model import Model
from lakesql.model.upkeep import rewrite_of
from lakesql.plan.health import judge, measure
from lakesql.plan.table_status import Known, Missing, TableStatus, Unknown
from lakesql.project.profiles import sqlite_file

READERS = 8
"""Tables that are read at the same time."""


def read_statuses(manifest: Manifest, names: Sequence[str], now_ms: int) -> tuple[TableStatus, ...]:
    """The status of the models' tables, in their order. Raises nothing that one of them could have alone."""
    models = [manifest.models[name] for name in names]
    profile = manifest.target.catalog
    file = sqlite_file(profile)
    if file is not None and not file.exists():  # opening it would make it
        return tuple(TableStatus(model, Missing()) for model in models)
    try:
        opened = open_catalog(profile)
    except LakesqlError as error:
        return tuple(TableStatus(model, Unknown(error.problems)) for model in models)
    with ThreadPoolExecutor(READERS, thread_name_prefix="lakesql-status") as pool:
        states = pool.map(lambda model: _read_state(opened, model, now_ms), models)
        return tuple(TableStatus(model, state) for model, state in zip(models, states, strict=True))


def _read_state(opened: OpenCatalog, model: Model, now_ms: int) -> Known | Missing | Unknown:
    try:
        facts = read_facts(opened, model.table)
    except LakesqlError as error:
        return Unknown(error.problems)
    if facts is None:
        return Missing()
    figures = measure(facts, now_ms)
    return Known(facts, figures, judge(figures, model.properties.freshness, rewrite_of(model)))
