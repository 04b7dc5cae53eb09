"""What is masked in answers to an assistant: secrets of the environment and of
profiles.yml, however they are encoded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lakesql.project.profiles import PROFILES_FILE
from lakesql.secrets import PREFIX, Secrets, find_secrets

_ASKED = re.compile(r"""env_var\s*\(\s*["']([^"']+)["']""")
_VALUE = re.compile(r"""^[\s,{-]*["']?([\w.-]+)["']?\s*[:=]\s*(.+?)\s*$""")
_PAIR = re.compile(
    r"""["']?([\w.-]+)["']?\s*[:=]\s*(?:"((?:\\.|[^"\\])*)"|'((?:''|[^'])*)'|([^\s,{}\[\]"']+))"""
)
_TELLING = re.compile(
    r"pass|pwd|secret|token|credential|jaas|private|sasl|(?:api|access|session)[._-]?key|account",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"://[^\s/:@]*:([^\s@]+)@")


def protected_values(folders: Sequence[Path], environ: Mapping[str, str]) -> Secrets:
    """The secrets to mask: variables named LAKESQL_SECRET_…, all variables that
    profiles.yml reads, and the values that it holds itself under a key such as
    `password`, or as the password in a URL.

    The files are searched as text, not parsed, so that a broken file does not reveal
    its secrets.
    """
    texts = [_read(folder / PROFILES_FILE) for folder in folders]
    asked = {name for text in texts for name in _ASKED.findall(text)}
    values = [environ[name] for name in sorted(asked) if environ.get(name)]
    values += [value for text in texts for value in _written_values(text)]
    named = {name: value for name, value in environ.items() if name.startswith(PREFIX)}
    return find_secrets(
        {**named, **{f"{PREFIX}{number}": value for number, value in enumerate(values)}}
    )


def redact_all(value: Any, secrets: Secrets) -> Any:
    """A JSON value with `***` in place of each secret, in all of its texts and keys."""
    match value:
        case str():
            return secrets.redact(value)
        case list():
            return [redact_all(item, secrets) for item in value]
        case dict():
            return {
                secrets.redact(key): redact_all(item, secrets)
                for key, item in value.items()
            }
        case _:
            return value


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""


def _written_values(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from _LOGIN.findall(line)
        pairs = [
            (found[1], found[2] or found[3] or found[4])
            for found in _PAIR.finditer(line)
        ]
        whole = _VALUE.match(line)
        # what an unquoted { opens is a mapping, whose own keys are looked at above
        if whole and not whole[2].startswith("{"):
            pairs.append((whole[1], whole[2].strip("\"'")))
        yield from _telling(pairs)


def _telling(pairs: Iterable[tuple[str, str | None]]) -> Iterator[str]:
    """The values of keys whose names suggest a secret, except templates that read the
    environment, and words that are settings."""
    for key, value in pairs:
        if (
            value
            and _TELLING.search(key)
            and "{{" not in value
            and not _SETTING.fullmatch(value)
        ):
            yield value


_SETTING = re.compile(
    r"true|false|null|PLAIN|SCRAM-SHA-\d+|OAUTHBEARER|GSSAPI|SASL_SSL|SASL_PLAINTEXT",
    re.IGNORECASE,
)
