"""Stores, beside a model's checkpoint, what Spark's analysis of its SELECT depends on,
and finds out whether it still holds."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from functools import partial
from importlib.metadata import version

from lakesql import __version__
from lakesql.catalog.connect import OpenCatalog
from lakesql.catalog.metadata_text import read_opened
from lakesql.errors import Place, first_line
from lakesql.graph.manifest import Manifest, read_table, reads_model, stored_refs
from lakesql.progress.analyzed import Analyzed, WritableFiles, keep_analyzed
from lakesql.project.cache import digest, encode
from lakesql.run.start.existing import UNREADABLE, FindTable, open_finder
from lakesql.run.streams.bind import BoundSelect
from lakesql.secrets import find_secrets

_log = logging.getLogger(__name__)


def keep_analysis(
    manifest: Manifest, catalog: OpenCatalog, bound: BoundSelect, files: WritableFiles
) -> None:
    """Store beside the checkpoint the digest of the SELECT and of the tables that Spark
    has just analysed: a later run with the same digest need not ask Spark."""
    if not is_comparable(bound):
        return
    try:
        found = find_analysis(
            manifest, bound, open_finder(partial(read_opened, catalog))
        )
    except UNREADABLE as error:
        _log.warning(
            "The next run of %s asks Spark whatever is new: %s",
            bound.select.model.name,
            first_line(error),
        )
        return
    if found is not None:
        keep_analyzed(files, found)


def is_comparable(bound: BoundSelect) -> bool:
    """Whether new records in each of the model's streams can be seen without Spark."""
    return all(binding.source.can_be_seen() for binding in bound.bindings)


def find_analysis(
    manifest: Manifest, bound: BoundSelect, find: FindTable
) -> Analyzed | None:
    """The digest of everything that determines Spark's analysis of the SELECT; None if
    one of the tables is missing."""
    select = bound.select
    model, facts = select.model, select.model.facts
    streams = (reads_model(manifest, found.name) for found in facts.streams)
    names = {read_table(manifest, found.name) for found in stored_refs(manifest, model)}
    names |= {model.table} if model.config.is_stored else set()
    names |= {read.table for read in streams if read is not None}
    names |= {model.table.tombstones} if select.writing.retention is not None else set()
    shapes = {
        str(name): found.shape
        for name in sorted(names, key=str)
        if (found := find(name)) is not None
    }
    target = manifest.target
    decides = (
        select.text,
        str(model.table),
        model.config,
        model.properties,
        select.writing,
        select.checks,
        tuple(
            replace(each, stream=replace(each.stream, place=Place("")))
            for each in bound.bindings
        ),
        (
            target.name,
            target.catalog.type,
            target.catalog.uri,
            target.catalog.warehouse,
        ),
        (target.spark.master, target.spark.conf),
    )
    text = find_secrets(os.environ).redact(json.dumps(encode(decides)))
    said = digest(__version__, version("pyspark"), text)
    return Analyzed(said, shapes) if len(shapes) == len(names) else None
