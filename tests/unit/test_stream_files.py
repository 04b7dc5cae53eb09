"""What a stream says of its files once they are read, and who else reads these."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lakesql.errors import ProjectError
from lakesql.source.pattern import expand_braces, listing_of, may_share
from tests.cases import each_of
from tests.unit.test_stream_text import stream


@each_of(
    ("path", "archive", "conditions"),
    [
        ("in/*.json", "done", []),
        ("in/*.json", "./done/", []),
        ("in/*.json", "inn", []),
        ("a/in/*.json", "a", []),
        ("a/in/*.json", "a/done", []),
        ("in/*.json", "in", ["archive-read"]),
        ("in/*.json", "./in/done", ["archive-read"]),
        ("in/**/*.json", "in/a/b", ["archive-read"]),
        ("*.json", "done", ["archive-read"]),
        ("{a,b}/*.json", "done", ["archive-read"]),
        ("in/1.json", "in/1.json/x", ["archive-read"]),
        ("in/*.json", "../done", ["outside-project"]),
        ("in/*.json", "/done", ["outside-project"]),
        ("in/*.json", "s3a://bucket/done", ["outside-project"]),
        ("in/*.json", "do*ne", ["wrong-value"]),
    ],
)
def test_an_archive_lies_beside_what_is_read(
    path: str, archive: str, conditions: list[str]
) -> None:
    found = []
    try:
        stream(path=path, after="archive", archive=archive)
    except ProjectError as error:
        found = [problem.condition for problem in error.problems]
    assert found == conditions


def test_what_becomes_of_files_is_asked_of_files_and_an_archive_of_those_that_move() -> (
    None
):
    for options, condition in (
        ({"topic": "t", "after": "delete"}, "wrong-value"),
        ({"path": "in/*", "after": "archive"}, "missing-option"),
        ({"path": "in/*", "archive": "done"}, "wrong-value"),
        ({"path": "in/*", "after": "delete", "archive": "done"}, "wrong-value"),
    ):
        with pytest.raises(ProjectError) as caught:
            stream(**options)
        assert [problem.condition for problem in caught.value.problems] == [
            condition
        ], options


PARTS = st.sampled_from(
    [
        "a",
        "b",
        "a*",
        "*b",
        "a*b",
        "*",
        "**",
        "?b",
        "[ab]b",
        "{a,b}",
        "ab",
        r"\\*b",
        "day=3",
    ]
)
NAMES = st.sampled_from(["a", "b", "ab", "aab", "xb", "*b", "day=3"])


@given(
    st.lists(PARTS, min_size=1, max_size=3).map("/".join),
    st.lists(PARTS, min_size=1, max_size=3).map("/".join),
    st.lists(
        st.lists(NAMES, min_size=1, max_size=4).map("/".join), min_size=5, max_size=5
    ),
)
def test_patterns_that_mean_one_file_are_never_said_to_be_apart(
    one: str, other: str, paths: list[str]
) -> None:
    for path in paths:
        means = [
            listing_of(f"/{pattern}").means(f"/{path}") for pattern in (one, other)
        ]
        if all(means):
            assert may_share(f"/{one}", f"/{other}"), path
    assert may_share(f"/{one}", f"/{one}")


def test_patterns_of_other_folders_names_and_endings_are_apart() -> None:
    for one, other in (
        ("/in/*", "/out/*"),
        ("/in/a_*.json", "/in/b_*.json"),
        ("/in/*.json", "/in/*.csv"),
    ):
        assert not may_share(one, other) and not may_share(other, one)
    assert not may_share("/in/{a,b}/*", "/in/c/*") and may_share(
        "/in/{a,c}/*", "/in/c/*"
    )
    assert may_share("/in/*", "/in/sub/*.json"), (
        "files in a folder that matches are read too"
    )
    assert len(expand_braces("/in/{a,b}/*")) == 2
