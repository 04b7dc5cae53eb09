"""Words of other tools that people type, and what lakesql has in their place:
words.toml has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from lakesql.errors import did_you_mean

Kind = Literal[
    "command",
    "option",
    "selector",
    "config",
    "mode",
    "template",
    "file",
    "model",
    "column",
    "stream",
    "seed",
    "target",
    "settings",
    "type",
    "test",
    "statement",
    "clause",
    "function",
    "name",
]
"""Where a word stands."""


@cache
def read_words() -> Mapping[Kind, Mapping[str, str]]:
    """The answer to each word, by where it stands. Read when the first unknown word is
    met."""
    import tomllib  # only here: most commands meet no such word

    said = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
    found: dict[Kind, dict[str, str]] = {kind: {} for kind in get_args(Kind)}
    for entry in said["answers"]:
        for kind, words in found.items():
            words.update(dict.fromkeys(entry.get(kind, ()), entry["text"]))
    return found


def suggest(kind: Kind, name: str, known: Iterable[str]) -> str:
    """What lakesql has in place of a word of another tool; for any other word the
    nearest of those that are known."""
    return answer(kind, name) or did_you_mean(name, known)


def answer(kind: Kind, name: str) -> str:
    """What lakesql has in place of a word of another tool, '' for any other word."""
    return read_words()[kind].get(
        name.lower().lstrip("-").replace("-", "_").replace(" ", "_"), ""
    )
