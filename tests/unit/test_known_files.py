"""Lists of files that were read, beside a dictionary of them: whatever breaks off, and
however they are folded."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from lakesql.source import known_files
from lakesql.source.known_files import Index, KnownFiles, is_listing_due, read_index
from lakesql.source.name_order import FoundFile
from tests.share import a_few


class Kept:
    """The files of a checkpoint in memory. A write may fail, as a kill would have
    it."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.fails_at = -1

    def read(self, name: str) -> str | None:
        return self.texts.get(name)

    def names(self, name: str = "") -> list[str]:
        return [
            path.removeprefix(f"{name}/")
            for path in self.texts
            if path.startswith(f"{name}/")
        ]

    def write(self, name: str, text: str) -> None:
        self._change()
        self.texts[name] = text

    def remove(self, name: str) -> None:
        self._change()
        del self.texts[name]

    def _change(self) -> None:
        self.fails_at -= 1
        if self.fails_at == 0:
            raise OSError("killed")


class Findings:
    def __init__(self) -> None:
        self.late_ones: list[str] = []
        self.changed_ones: list[str] = []

    def late(self, file: FoundFile) -> bool:
        self.late_ones.append(file.name)
        return True

    def changed(self, file: FoundFile) -> None:
        self.changed_ones.append(file.name)

    def adopted(self, file: FoundFile) -> None:
        raise AssertionError("nothing is adopted")


@pytest.fixture(autouse=True)
def small_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_files, "SEGMENT_FILES", 4)
    monkeypatch.setattr(known_files, "FOLDED_FILES", 7)


def opened(kept: Kept) -> KnownFiles:
    return KnownFiles(kept, read_index(kept) or Index())


@pytest.mark.parametrize("seed", a_few(range(30), 6))
def test_what_was_read_is_known_whatever_breaks_off(seed: int) -> None:
    random, kept = Random(seed), Kept()
    there: dict[str, FoundFile] = {}
    read, files = set[str](), 0
    names = random.sample([f"{number:03}" for number in range(200)], 200)
    for _ in range(25):
        for _ in range(random.randint(0, 6)):
            name = names.pop()
            there[name] = FoundFile(name, 1, random.randint(0, 9))
        for name in random.sample(sorted(there), min(len(there), random.randint(0, 1))):
            there.pop(name)
        listed = [there[name] for name in sorted(there)]
        wanted = [file.name for file in listed if file.name not in read]
        kept.fails_at = random.choice((-1, -1, random.randint(1, 6)))
        try:
            known, found = opened(kept), Findings()
            if random.random() < 0.5:
                known.compare(iter(listed), files, found)
                assert found.late_ones == wanted
            assert [file.name for file in known.unknown(listed, files)] == wanted
        except OSError:
            pass
        kept.fails_at = -1
        known = opened(kept)
        batch = [
            there[name]
            for name in random.sample(wanted, random.randint(0, len(wanted)))
        ]
        if not batch:
            continue
        known.plan_batch(files, files + len(batch), sorted(batch))
        assert known.read_batch(files + len(batch)) == sorted(batch)
        if random.random() < 0.7:  # or it was planned, and never written
            read |= {file.name for file in batch}
            files += len(batch)
    assert (
        max(
            (
                len(text.split("\n"))
                for name, text in kept.texts.items()
                if "segments" in name
            ),
            default=0,
        )
        <= 4
    )


def test_what_has_changed_is_said_and_what_is_gone_is_forgotten() -> None:
    kept, found = Kept(), Findings()
    known = opened(kept)
    known.plan_batch(
        0, 3, [FoundFile("a", 1, 1), FoundFile("b", 1, 1), FoundFile("c", 1, 1)]
    )
    known.compare(
        [FoundFile("a", 1, 1), FoundFile("c", 2, 9), FoundFile("d", 1, 1)], 3, found
    )
    assert (found.late_ones, found.changed_ones) == (["d"], ["c"])
    assert [file.name for file in opened(kept).read_all()] == ["a", "c"]


def test_a_listing_is_due_after_its_time() -> None:
    index: Any = Index(listed_ms=1_000)
    assert not is_listing_due(index, 500, 1_499) and is_listing_due(index, 500, 1_500)
