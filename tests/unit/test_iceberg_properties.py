"""Properties of tables: what Iceberg would pass over is refused, and all others are
taken."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lakesql.compile.table import DEFAULT_PROPERTIES
from lakesql.decode import Node, node_of
from lakesql.errors import Place, ProjectError
from lakesql.modes.read_config import read_config
from lakesql.project.iceberg_properties import BY_COLUMN, KEPT, TAKES
from tests.cases import each_of

PLACE = Place("models/m.sql", 1, 1)
RIGHT: dict[object, tuple[str, ...]] = {
    "true or false": ("true", "false", "TRUE"),
    "a whole number": ("0", "7", "-1"),
    "a number of bytes": ("1", "268435456"),
    "a number of distinct values": ("1", "1000000"),
    "a number of milliseconds": ("0", "86400000"),
    "a share, from more than 0 to less than 1": ("0.01", ".5"),
    "a metrics mode": ("none", "counts", "truncate(16)", "FULL"),
    "a text": ("s3://bucket/folder", "a,b"),
}
WRONG: dict[object, tuple[str, ...]] = {
    "true or false": ("yes", "1", "ture", ""),
    "a whole number": ("many", "1.5", "1_000", "१"),
    "a number of distinct values": ("1e6", "0", "-1", ""),
    "a number of bytes": ("256 MB", "0", "-1", "1e6", ""),
    "a number of milliseconds": ("5 days", "-1"),
    "a share, from more than 0 to less than 1": ("2", "1", "0", "1%"),
    "a metrics mode": ("ful", "truncate", "truncate(0)"),
    "a text": ("", "  "),
}
ALL = [*TAKES.items(), *((f"{key}id", takes) for key, takes in BY_COLUMN.items())]


def taken(properties: dict[str, Any]) -> dict[str, str]:
    said = {"mode": "append", "properties": properties}
    return dict(read_config(node_of(said, PLACE), Node({}, PLACE)).properties)


def refused(properties: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(ProjectError) as caught:
        taken(properties)
    (problem,) = caught.value.problems
    return problem.condition, problem.fix


@each_of(("key", "takes"), ALL)
def test_each_takes_what_iceberg_takes_and_nothing_else(
    key: str, takes: object
) -> None:
    if isinstance(takes, tuple):
        right, wrong = takes, tuple(f"{word}x" for word in takes)
    else:
        right, wrong = RIGHT[takes], WRONG[takes]
    for value in right:
        assert taken({key: value})[key].lower() == value.lower()
    for value in wrong:
        assert refused({key: value})[0] == "wrong-value"


@given(st.sampled_from([key for key, _ in ALL]), st.data())
def test_a_name_that_lacks_a_letter_is_refused_with_the_one_that_is_meant(
    key: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(key) - 1))
    name = key[:at] + key[at + 1 :]
    assume(name not in dict(ALL))
    assume(not name.startswith(tuple(BY_COLUMN)))
    condition, fix = refused({name: "1"})
    assert condition == "unknown-option"
    assert "Did you mean" in fix


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("write.formt.default", "write.format.default"),
        ("wirte.format.default", "write.format.default"),
        ("Write.Format.Default", "write.format.default"),
        ("write.target-file-size", "write.target-file-size-bytes"),
        ("write.parquet.compression_codec", "write.parquet.compression-codec"),
        ("format_version", "format-version"),
        ("gc.enable", "gc.enabled"),
        ("lakesql.maintenance.enable", "lakesql.maintenance.enabled"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(name: str, meant: str) -> None:
    condition, fix = refused({name: "true"})
    assert condition == "unknown-option"
    assert f"'{meant}'" in fix


def test_a_misspelt_word_is_answered_with_the_nearest() -> None:
    condition, fix = refused({"write.parquet.compression-codec": "zsdt"})
    assert condition == "wrong-value"
    assert "'zstd'" in fix


def test_what_iceberg_keeps_is_no_property() -> None:
    for name in KEPT:
        assert refused({name: "x"})[0] == "unknown-option"


@pytest.mark.parametrize(
    "name",
    [
        "owner-team",
        "acme.retention",
        "writer",
        "format",
        "parquet.block.size",
        "nessie.commit.id",
        "schema.registry.url",
        "write.py-location-provider.impl",
    ],
)
def test_a_name_of_somebody_else_passes_through(name: str) -> None:
    assert taken({name: "Any Text"}) == {name: "Any Text"}


def test_words_are_read_as_they_are_meant_by_iceberg() -> None:
    said = {"write.merge.mode": "Copy-On-Write", "gc.enabled": True}
    assert taken(said) == {"write.merge.mode": "copy-on-write", "gc.enabled": "true"}


def test_the_defaults_are_taken() -> None:
    assert taken(dict(DEFAULT_PROPERTIES)) == DEFAULT_PROPERTIES
