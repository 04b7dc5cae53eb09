"""The log of a queue's messages: numbered pages in a folder, which readers read like a
topic.

A queue gives a message to one reader and forgets it. The log keeps it for all models of
a target, for their rewinds and rebuilds. Several processes may write: a page is created
only if its number is not taken, else it gets the next number.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol
from uuid import uuid4

from lakesql.clock import now_ms
from lakesql.source.known_files import KeptFiles

KEPT_MS = 14 * 86_400_000
"""How long a page is kept: as long as SQS keeps a message at most. A later reader lists
all files instead."""

_PAGES, _ID = "pages", "id"


class SharedFiles(KeptFiles, Protocol):
    """The files of a folder in which several processes write."""

    def create(self, name: str, text: str) -> bool:
        """Write a file unless one of that name exists. Returns whether it was
        written."""


class QueueLog:
    """The log of a queue's messages in a folder."""

    def __init__(self, files: SharedFiles) -> None:
        self._files = files
        self._first: int | None = None
        self._next: int | None = None

    @property
    def id(self) -> str:
        """An id that a later log in the same folder does not have."""
        if found := self._files.read(_ID):
            return found
        self._files.create(_ID, str(uuid4()))
        return self._files.read(_ID) or ""

    def first(self) -> int:
        """The number of the first page that existed when it was first asked; of the
        next page if there was none."""
        if self._first is None:
            self._first = min(self._numbers(), default=self.end())
        return self._first

    def end(self) -> int:
        """The number of the next page."""
        if self._next is None:
            self._next = max(self._numbers(), default=-1) + 1
        # another process may have written
        while self._files.read(_page(self._next)) is not None:
            self._next += 1
        return self._next

    def append(self, texts: Sequence[str]) -> None:
        """Write a page. All readers can see it when this returns."""
        page = json.dumps({"written_ms": now_ms(), "texts": [*texts]})
        number = self.end()
        while not self._files.create(_page(number), page):
            number += 1
        self._next = number + 1

    def read(self, number: int) -> Sequence[str] | None:
        """The texts of a page; None if it is gone."""
        found = self._files.read(_page(number))
        if found is None:
            return None
        texts: Sequence[str] = json.loads(found)["texts"]
        return texts

    def remove_old(self) -> None:
        """Remove the pages older than `KEPT_MS`. The last one stays, as it holds the
        number."""
        before_ms = now_ms() - KEPT_MS
        for number in self._numbers()[:-1]:
            found = self._files.read(_page(number))
            if found is not None and json.loads(found)["written_ms"] >= before_ms:
                return
            self._files.remove(_page(number))

    def _numbers(self) -> list[int]:
        return sorted(
            int(name) for name in self._files.names(_PAGES) if name.isdecimal()
        )


def _page(number: int) -> str:
    return f"{_PAGES}/{number:020d}"
