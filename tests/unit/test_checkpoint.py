"""Spark's list of the files that a source has read, of which parts go as it grows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from lakesql.errors import RunError
from lakesql.source.stream_state import read_seen


@dataclass
class Files:
    """The files of `sources/0`: by name, the batches that they hold."""

    batches: dict[str, range]

    def names(self, folder: str) -> list[str]:
        return list(self.batches)

    def read(self, name: str) -> str | None:
        batches = self.batches.get(name.removeprefix("sources/0/"))
        lines = [
            json.dumps({"path": f"file:///{n}", "timestamp": n, "batchId": n})
            for n in batches or ()
        ]
        return "\n".join(["v1", *lines]) if batches is not None else None


def numbers(files: Any, first: int, last: int) -> list[int]:
    return [file.modified_ms for file in read_seen(files, 0, first, last)]


def singles(first: int, end: int) -> dict[str, range]:
    return {
        f"{n}.compact" if n % 10 == 9 else str(n): range(0 if n % 10 == 9 else n, n + 1)
        for n in range(first, end)
    }


def test_every_seen_file_is_read_from_single_and_compact_parts() -> None:
    files = Files(singles(0, 25))
    for first, last in (
        (0, 0),
        (3, 3),
        (0, 8),
        (0, 9),
        (0, 24),
        (5, 12),
        (9, 9),
        (20, 24),
    ):
        assert numbers(files, first, last) == list(range(first, last + 1))


def test_parts_before_a_later_compact_file_are_gone() -> None:
    files = Files(singles(89, 201))
    assert numbers(files, 0, 50) == list(range(51))
    assert numbers(files, 60, 60) == [60]
    assert numbers(files, 0, 120) == list(range(121))


def test_a_missing_part_makes_a_rewind_impossible() -> None:
    with pytest.raises(RunError) as caught:
        numbers(Files({"3": range(3, 4), "5": range(5, 6)}), 0, 5)
    assert caught.value.problems[0].condition == "rewind-impossible"
