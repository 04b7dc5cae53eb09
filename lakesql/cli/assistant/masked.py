"""What no answer to an assistant holds: secrets of the environment and of profiles.yml,
however they are encoded."""

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
    """The secrets of a project's answers: variables named LAKESQL_SECRET_…, every
    variable that profiles.yml asks for, and what stands there itself under a key such
    as `password`, or as the login of a URL.

    The texts of the files are searched, so that nothing is shown because a file is
    broken.
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
    """A value of JSON with `***` for each secret in each of its texts, keys among
    them."""
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
        pairs += [(whole[1], whole[2].strip("\"'"))] if whole else []
        yield from _telling(pairs)


def _telling(pairs: Iterable[tuple[str, str | None]]) -> Iterator[str]:
    """The values of telling keys, but for what is asked of the environment, and for the
    words of settings."""
    for key, value in pairs:
        if (
            value
            and _TELLING.search(key)
            and "{{" not in value
            and not _SETTING.fullmatch(value)
        ):
            yield value


_SETTING = re.compile(
    r"true|false|null|PLAIN|SCRAM-SHA-\d+|OAUTHBEARER|GSSAPI|SASL_SSL|SASL_PLAINTEXT|\{.*",
    re.IGNORECASE,
)
