"""Answers to words of other tools that people type, such as dbt's options: what lakesql
has instead, read from words.toml."""

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
"""Where a word was used."""


@cache
def read_words() -> Mapping[Kind, Mapping[str, str]]:
    """The answers by where a word was used, then by the word. The file is read at the
    first call, for the first unknown word."""
    import tomllib  # only here: most commands meet no such word

    said = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
    found: dict[Kind, dict[str, str]] = {kind: {} for kind in get_args(Kind)}
    for entry in said["answers"]:
        for kind, words in found.items():
            words.update(dict.fromkeys(entry.get(kind, ()), entry["text"]))
    return found


def suggest(kind: Kind, name: str, known: Iterable[str]) -> str:
    """The answer to a word of another tool; for any other word, a sentence with the
    nearest known word."""
    return answer(kind, name) or did_you_mean(name, known)


def answer(kind: Kind, name: str) -> str:
    """The answer to a word of another tool: what lakesql has instead; '' for any other
    word."""
    return read_words()[kind].get(
        name.lower().lstrip("-").replace("-", "_").replace(" ", "_"), ""
    )
