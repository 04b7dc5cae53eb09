"""Files in the order of their names, beside a listing of all of them that is sorted."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from lakesql.source.name_order import LocalFolders, NameOrder
from lakesql.source.pattern import files_below, listing_of
from tests.cases import each_of
from tests.share import a_few

PATTERNS = (
    "in/**/*.json",
    "in/*.json",
    "in/*/*.json",
    "in/{a,b}*/**",
    "in",
    "in/a.json",
    "*/a*/*",
    "**",
    "in/[ab]/b*",
)


class Watched(LocalFolders):
    """Folders that note which of them were listed."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[str] = []

    def children(self, folder: str, after: str) -> list[str]:
        self.listed.append(folder)
        return super().children(folder, after)


def fill(folder: Path, random: Random) -> set[str]:
    names = set[str]()
    for _ in range(60):
        depth = random.randint(1, 4)
        parts = [
            random.choice(("a", "b", "a-1", "a.b", "ü+%", "b=3", "in", "_x", ".y"))
            for _ in range(depth)
        ]
        name = "/".join(
            (
                "in",
                *parts,
                random.choice(("a.json", "b.json", "c.txt", "_SUCCESS", "ab")),
            )
        )
        file = folder / name
        if any(
            (folder / "/".join(name.split("/")[:n])).is_file()
            for n in range(1, name.count("/") + 1)
        ):
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_dir():
            file.write_text("x" * len(name))
            names.add(name)
    return names


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("seed", a_few(range(4), 1))
def test_files_come_in_the_order_of_their_paths(
    tmp_path: Path, pattern: str, seed: int
) -> None:
    random = Random(seed)
    names = fill(tmp_path, random)
    glob = files_below(str(tmp_path), pattern)
    listing, order = listing_of(glob), NameOrder(str(tmp_path), glob)
    wanted = sorted(
        (name for name in names if listing.means(f"{tmp_path}/{name}")),
        key=lambda name: name.encode(),
    )

    assert [file.name for file in order.files(LocalFolders())] == wanted
    for after in ("", *random.sample(sorted(names), 8), "in/a/", "zz", "in"):
        for until in (None, random.choice(sorted(names))):
            found = order.files(LocalFolders(), after, until)
            said = [(file.name, file.size_bytes) for file in found]
            assert said == [
                (name, len(name))
                for name in wanted
                if name > after and (until is None or name <= until)
            ]


def test_folders_that_lie_before_are_not_listed(tmp_path: Path) -> None:
    for day in range(1, 29):
        file = tmp_path / f"in/2026-02-{day:02}/x.json"
        file.parent.mkdir(parents=True)
        file.write_text("")
    (tmp_path / "other").mkdir()
    order, folders = (
        NameOrder(str(tmp_path), files_below(str(tmp_path), "in/*/*.json")),
        Watched(),
    )

    found = [file.name for file in order.files(folders, "in/2026-02-26/x.json")]

    assert found == ["in/2026-02-27/x.json", "in/2026-02-28/x.json"]
    places = [os.path.relpath(folder, tmp_path) for folder in folders.listed]
    assert places == ["in", "in/2026-02-26", "in/2026-02-27", "in/2026-02-28"]


@each_of(
    ("pattern", "name", "is_hidden"),
    [
        ("in/*.json", "in/_a.json", True),
        ("in/*/*.json", "in/_x/a.json", False),
        ("in/**/*.json", "in/_x/a.json", True),
        ("in/**/*.json", "in/x/_day=3/a.json", False),
        ("in", "in/.x", True),
        ("**", "_x/a", True),
    ],
)
def test_which_files_spark_passes_over(
    pattern: str, name: str, is_hidden: bool
) -> None:
    assert NameOrder("/srv", files_below("/srv", pattern)).is_hidden(name) is is_hidden


def test_a_folder_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    glob = files_below(str(tmp_path), "none/*.json")
    assert [*NameOrder(str(tmp_path), glob).files(LocalFolders())] == []
