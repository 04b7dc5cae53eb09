"""What a path with globs means."""

from __future__ import annotations

from lakesql.source.pattern import (
    escape_glob,
    expand_braces,
    is_pattern,
    listing_of,
    named_folder,
    part_regex,
    split_path,
    unescape_glob,
)
from tests.cases import each_of


@each_of(
    "name",
    ["orders[1].csv", "{0f8f}", "a*b?", "back\\slash", "a,b", "plain é", "%41+#&='\""],
)
def test_an_escaped_name_means_itself_alone(name: str) -> None:
    pattern = escape_glob(name)
    assert unescape_glob(pattern) == name
    assert not is_pattern(pattern)
    assert expand_braces(f"/{pattern}") == [f"/{pattern}"]
    assert listing_of(f"/in/{pattern}").means(f"/in/{name}")
    assert not listing_of(f"/in/{pattern}").means("/in/orders1.csv")
    assert named_folder(f"/{pattern}/*.json") == f"/{name}"


@each_of("part", ["*", "a?", "[ab]", "[!0-9]x", "{a,b}"])
def test_a_pattern_is_none_of_the_names_that_a_folder_has(part: str) -> None:
    assert is_pattern(part)
    assert named_folder(f"/in/{part}/x.json") == "/in"


def test_braces_stand_for_each_alternative() -> None:
    assert expand_braces("/{a,b/c,{d,e}}x") == ["/ax", "/b/cx", "/dx", "/ex"]
    assert expand_braces(r"/\{a,b\}") == [r"/\{a,b\}"]
    assert split_path("/{a,b/c}/x") == ["", "{a,b/c}", "x"]


@each_of(
    ("pattern", "meant", "others"),
    [
        (
            "/in/*.json",
            ["/in/a.json", "/in/d.json/x"],
            ["/in/a.csv", "/in/s/a.json", "/in/d.json/s/x"],
        ),
        (
            "/in",
            ["/in", "/in/a", "/in/day=3/a", "/in/s/day=3/t/a"],
            ["/in/s/a", "/inn/a"],
        ),
        (
            "/in/**/*.json",
            ["/in/a.json", "/in/s/t/a.json"],
            ["/in/a.csv", "/in/s/a.csv", "/a.json"],
        ),
        ("/in/**", ["/in/a", "/in/s/t/a"], ["/in"]),
        ("/in/**/x/*", ["/in/x/a", "/in/s/x/a"], ["/in/a", "/in/x/s/a"]),
        ("/in/?[a-c]*", ["/in/xa", "/in/xbc/a"], ["/in/xd", "/in/a"]),
        ("/in/[!a]{x,y/z}", ["/in/bx", "/in/by/z"], ["/in/ax", "/in/by"]),
    ],
)
def test_a_pattern_means_its_matches_and_what_is_in_folders_that_match(
    pattern: str, meant: list[str], others: list[str]
) -> None:
    listing = listing_of(pattern)
    assert [path for path in meant + others if listing.means(path)] == meant


def test_a_class_is_read_as_hadoop_reads_it() -> None:
    assert part_regex("[!a-c]") == "[^a-c]"
    assert part_regex("[^a&[]") == r"[^a\&\[]"
