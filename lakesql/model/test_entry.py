"""A test as properties files have it, in few words: what a test may say is imported where a project has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesql.decode import Node, read_each
from lakesql.errors import Place

if TYPE_CHECKING:
    from lakesql.model.data_tests import Check, EntryOptions, TestOptions


@dataclass(frozen=True, slots=True)
class TestEntry:
    """A test as an entry of a properties file, which says neither its model nor its column by itself."""

    __test__ = False

    place: Place
    word: str
    check: Check
    given: EntryOptions
    options: TestOptions


def read_tests(node: Node) -> tuple[TestEntry, ...]:
    """The entries under `tests:` or `data_tests:` of a model or a column.

    Raises `ProjectError` with everything that is wrong with them.
    """
    from lakesql.model.data_tests import read_entry

    return read_each(node.items(), read_entry)
