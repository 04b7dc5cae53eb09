"""What a path with globs matches: Hadoop's patterns, and `**` for folders at any depth.
Pure.

Spark reads every path that it is given as a pattern. So a name that is to match only
itself is escaped by `escape_glob`; the folder of a connection always is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

ANY_DEPTH = "**"
"""The part of a path that matches folders at any depth, or none."""

_SPECIAL = frozenset("{}[]*?,\\")
_SCHEME = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")


def files_below(base: str, pattern: str) -> str:
    """The pattern of files below the path of a connection, which itself is no
    pattern."""
    return f"{escape_glob(base.rstrip('/'))}/{pattern}"


def escape_glob(name: str) -> str:
    """The name as a pattern that matches only this name."""
    return "".join(
        f"\\{character}" if character in _SPECIAL else character for character in name
    )


def unescape_glob(pattern: str) -> str:
    """The one name that a pattern without globs matches."""
    return re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)


def is_pattern(path: str) -> bool:
    """Whether the path may match other paths than its own text."""
    return any(token[0] in "*?[{" for token in _tokens(path))


def without_scheme(place: str) -> str:
    """The path of a pattern or of a URI, without scheme and host."""
    return _SCHEME.sub("", place)


def named_folder(glob: str) -> str:
    """The deepest folder without globs that contains a pattern's files; the path itself
    if it has no globs."""
    parts = split_path(glob)
    named = next(
        (number for number, part in enumerate(parts) if is_pattern(part)), len(parts)
    )
    return unescape_glob("/".join(parts[:named])).rstrip("/")


def split_path(pattern: str) -> list[str]:
    """The parts of a pattern between its slashes. A slash in braces does not divide:
    `{a,b/c}` is one part."""
    parts, depth = [""], 0
    for token in _tokens(pattern):
        depth += {"{": 1, "}": -1}.get(token, 0)
        if token == "/" and depth <= 0:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def expand_braces(pattern: str) -> list[str]:
    """The patterns without braces, one for each choice of alternatives."""
    tokens = _tokens(pattern)
    if "{" not in tokens:
        return [pattern]
    first = tokens.index("{")
    alternatives, depth = [""], 0
    for number, token in enumerate(tokens[first:], first):
        depth += {"{": 1, "}": -1}.get(token, 0)
        if depth == 0:
            before, after = "".join(tokens[:first]), "".join(tokens[number + 1 :])
            return [
                each
                for choice in alternatives
                for each in expand_braces(f"{before}{choice}{after}")
            ]
        if token == "," and depth == 1:
            alternatives.append("")
        elif number > first:
            alternatives[-1] += token
    return [pattern]  # a brace that nothing closes, which Hadoop refuses


def part_regex(part: str) -> str:
    """The regular expression, for Java and Python alike, of the names that one part of
    a pattern matches."""
    return "".join(map(_token_regex, _tokens(part)))


def _tokens(pattern: str) -> list[str]:
    """The characters of a pattern; an escaped character and a class (`[0-9]`) are one
    token each."""
    return re.findall(r"\\.|\[(?:\\.|[^\]/\\])+\]|.", pattern, flags=re.DOTALL)


def _token_regex(token: str) -> str:
    match token:
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
        case _ if len(token) == 2 and token[0] == "\\":
            return _literal(token[1])
        case _ if len(token) > 2:
            return _class_regex(token[1:-1])
        case _:
            return _literal(token)


def _class_regex(content: str) -> str:
    negation = "^" if content[0] in "!^" else ""
    members = content[1:] if negation else content
    escaped = re.sub(
        r"\\.|[\[&^~|]",
        lambda found: found[0] if len(found[0]) == 2 else f"\\{found[0]}",
        members,
    )
    return f"[{negation}{escaped}]"


def _literal(character: str) -> str:
    return f"\\{character}" if character in r".^$*+?()[]{}|\-#&~" else character


@dataclass(frozen=True, slots=True)
class Listing:
    """What Spark lists for a pattern: `path` with everything below the folders that it
    matches, if the files' names match `name`. `meant` is the regular expression of the
    paths that the pattern really means.

    `depth` is the number of parts that matching paths have, if all have the same
    number; None if only `meant` can tell.
    """

    path: str
    name: str
    meant: str
    depth: int | None

    def means(self, path: str) -> bool:
        """Whether the pattern means a file with this path, which has no scheme."""
        return re.fullmatch(self.meant, path) is not None


def listing_of(glob: str) -> Listing:
    """What Spark lists for a pattern.

    The pattern means files that match it, files in a folder that matches it, and below
    that files in folders whose names are partition columns (`day=3`).
    """
    parts = split_path(glob)
    patterns = [
        [*filter(None, without_scheme(each).split("/"))] for each in expand_braces(glob)
    ]
    meant = "|".join(map(_meant_regex, patterns))
    if ANY_DEPTH in parts:
        name = parts[-1] if parts[-1] != ANY_DEPTH else ""
        return Listing("/".join(parts[: parts.index(ANY_DEPTH)]), name, meant, None)
    depths = {len(each) for each in patterns}
    return Listing(glob, "", meant, depths.pop() if len(depths) == 1 else None)


def may_share(one: str, other: str) -> bool:
    """Whether two patterns may mean the same file. False only if comparing their paths
    part by part excludes it."""
    pairs = (
        (a, b)
        for a in expand_braces(without_scheme(one))
        for b in expand_braces(without_scheme(other))
    )
    return not all(
        _is_apart([*filter(None, split_path(a))], [*filter(None, split_path(b))])
        for a, b in pairs
    )


def _is_apart(one: Sequence[str], other: Sequence[str]) -> bool:
    for a, b in zip(one, other, strict=False):
        if ANY_DEPTH in (a, b):
            return False
        if not is_pattern(a) and not is_pattern(b):
            if unescape_glob(a) != unescape_glob(b):
                return True
        elif not _begin_alike(a, b) or not _begin_alike(a[::-1], b[::-1]):
            return True
    return False


def _begin_alike(one: str, other: str) -> bool:
    """Whether two parts of a path may begin with the same characters; characters from
    the first glob on are not compared."""
    plain = (re.match(r"[^*?\[\]{}\\,]*", part) for part in (one, other))
    first, then = (found[0] if found else "" for found in plain)
    return first.startswith(then) or then.startswith(first)


_WITHIN = "(?:/[^/]+|/(?:[^/]+/)*[^/]*=[^/]*/(?:[^/]+/)*[^/]+)?"
"""The regular expression of what may follow a match: nothing, a file in the folder, or
a file below a folder named like a partition column."""


def _meant_regex(parts: list[str]) -> str:
    found = ""
    for part in parts:
        found += "(?:/[^/]+)*" if part == ANY_DEPTH else f"/{part_regex(part)}"
    if parts[-1:] == [ANY_DEPTH]:
        return f"{found}/[^/]+"
    return found if ANY_DEPTH in parts else found + _WITHIN


def is_read(name: str) -> bool:
    """Whether Spark reads a file or a folder of this name
    (`HadoopFSUtils.shouldFilterOutPathName`)."""
    return not (
        name.startswith(".")
        or (name.startswith("_") and "=" not in name)
        or name.endswith("._COPYING_")
    )


def is_unmeant(uri: str, listings: Sequence[Listing]) -> bool:
    """Whether a file was listed for one of the patterns but is meant by none: it is in
    the lists, but was not read."""
    # imported here: a command that reads no list of files does not need it
    from urllib.parse import unquote

    path = unquote(without_scheme(uri))
    is_listed = any(
        path.startswith(f"{named_folder(without_scheme(each.path))}/")
        for each in listings
    )
    return is_listed and not any(each.means(path) for each in listings)
