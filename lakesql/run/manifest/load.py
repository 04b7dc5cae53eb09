"""Reads a project with what is known of its feeds in addition to its files: tables of
groups, columns of open streams.

Most projects declare everything, so the modules that read recordings or ask brokers are
imported only if needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from lakesql.graph.load_manifest import FindTables, GroupFeeds
    from lakesql.graph.manifest import Manifest
    from lakesql.stream.source_table import SourceTable

Load: TypeAlias = "Callable[[FindTables], Manifest]"
"""Reads a project; its groups get the tables that the given function finds, in addition
to those declared in files."""


def load_known(load: Load) -> Manifest:
    """The project with all that is known of feeds without asking a broker: the tables
    of its groups, and the columns of open streams."""
    return _with_columns(load(_known_tables))


def load_asked(load: Load) -> Manifest:
    """The project with all that is known of feeds, after asking Kafka which tables the
    feeds of groups have. The answer is cached for other commands.

    Raises what asking a broker raises.
    """
    from lakesql.run.streams.group_tables import ask_tables

    return _with_columns(load(ask_tables))


def _known_tables(feeds: GroupFeeds) -> Sequence[SourceTable]:
    from lakesql.run.streams.group_tables import known_tables

    return known_tables(feeds)


def _with_columns(manifest: Manifest) -> Manifest:
    if manifest.version or not any(
        stream.is_open for stream in manifest.streams.values()
    ):
        return manifest
    from lakesql.run.streams.found_columns import find_recorded

    return find_recorded(manifest)
