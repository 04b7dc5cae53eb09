"""Opens a Spark session before it is needed: Java starts while the project is
compiled."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from lakesql.engine.spark.jars import missing_jars, user_cache
from lakesql.engine.spark.session import Opening, is_java_up
from lakesql.errors import LakesqlError
from lakesql.graph.manifest import Manifest
from lakesql.location import local_folder
from lakesql.progress.analyzed import is_analyzed
from lakesql.progress.stored import LocalFiles
from lakesql.run.start.spark import find_needs, find_settings


@contextmanager
def open_ahead(
    manifest: Manifest,
    models: Collection[str],
    is_brief: bool,
    *,
    is_shared: bool = False,
) -> Iterator[Opening | None]:
    """Begin to open the session that a run of these models needs. If it is not taken,
    it ends with the block.

    `is_shared` is that of `session_settings`. Yields None if there is a session
    already, if jars have to be fetched first, or if something is wrong, which the run
    reports later.
    """
    found = {
        found.name for name in models for found in manifest.models[name].facts.streams
    }
    streams = [stream for name, stream in manifest.streams.items() if name in found]
    opening = None
    with suppress(LakesqlError):
        if not is_java_up() and not missing_jars(
            find_needs(manifest.target, streams), user_cache(os.environ)
        ):
            settings = find_settings(
                manifest, streams, lambda text: None, is_brief, is_shared=is_shared
            )
            opening = Opening(settings)
    try:
        yield opening
    finally:
        if opening is not None and not opening.is_taken:
            opening.drop()


def may_have_nothing_new(manifest: Manifest, models: Collection[str]) -> bool:
    """Whether a run that reads what has arrived may end without Java: each model has
    run before, as far as local files show."""
    folders = [local_folder(manifest.target.checkpoint_of(name)) for name in models]
    return all(folder is None or is_analyzed(LocalFiles(folder)) for folder in folders)
