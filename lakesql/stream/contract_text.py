"""A stream's entry as YAML with comments, for a person to review. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from lakesql.stream.found_contract import FoundColumn, FoundContract, Guess

Setting = str | bool | Mapping[str, str | bool]
"""The value of a key of an entry: a scalar, or a mapping of scalars such as `csv`."""


def render_entry(
    name: str,
    settings: Mapping[str, Setting],
    contract: FoundContract,
    head: Sequence[str],
) -> str:
    """The text of a file with one stream. `settings` are its keys before `key`; `head`
    are the lines of the comment at its top."""
    lines = [*(_comment(line, "") for line in head), "streams:", f"  - name: {name}"]
    lines += [f"    {key}: {_setting(value)}" for key, value in settings.items()]
    lines += _key_lines(contract.key)
    lines += _sequence_lines(contract.sequence)
    lines.append("    columns:")
    lines += [_column_line(column) for column in contract.columns]
    if contract.left_out:
        lines.append("    # Left out:")
        lines += [
            _comment(f"{json.dumps(field)}: {why}", "    ", "#   ")
            for field, why in contract.left_out
        ]
    return "\n".join(lines) + "\n"


def _key_lines(guess: Guess | None) -> list[str]:
    if guess is None:
        return ["    # key: no column is unique in the samples"]
    line = f"key: [{', '.join(map(text_of, guess.columns))}]"
    if guess.is_likely:
        return [f"    {line}  # a guess: {guess.why}"]
    return [f"    # {line}  # perhaps: {guess.why}"]


def _sequence_lines(guess: Guess | None) -> list[str]:
    if guess is None:
        return []
    return [
        f"    # sequence_by of a model in mode upsert, perhaps: {', '.join(guess.columns)} ({guess.why})"
    ]


def _column_line(column: FoundColumn) -> str:
    kind = text_of(column.type)
    if column.from_field or column.required:
        parts = [f"type: {kind}"]
        parts += ["required: true"] if column.required else []
        parts += [f"from: {text_of(column.from_field)}"] if column.from_field else []
        kind = f"{{{', '.join(parts)}}}"
    note = f"  # {_plain(column.note)}" if column.note else ""
    return f"      {text_of(column.name)}: {kind}{note}"


def _setting(value: Setting) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return text_of(value)
        case _:
            return f"{{{', '.join(f'{key}: {_setting(each)}' for key, each in value.items())}}}"


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*(\([0-9]+\))?")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
"""Plain words that YAML does not read as texts."""


def text_of(text: str) -> str:
    """A text in YAML, in quotes only if it needs them."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    escaped = re.sub(r'["\\]', r"\\\g<0>", text)
    return f'"{"".join(map(_character, escaped))}"'


def _character(character: str) -> str:
    """A character within quotes, escaped unless it is printable. YAML has no
    surrogates, which JSON escapes use."""
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _comment(text: str, indent: str, mark: str = "# ") -> str:
    return f"{indent}{mark}{_plain(text)}"


def _plain(text: str) -> str:
    """A text as one line of a comment; unprintable characters become `?`."""
    return "".join(each if each.isprintable() else "?" for each in text)
