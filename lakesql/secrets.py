"""How secrets, the values of variables named LAKESQL_SECRET_…, are kept out of all that
lakesql shows and writes."""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import TextIOWrapper
from typing import TypeVar
from urllib.parse import quote, quote_plus, unquote

PREFIX = "LAKESQL_SECRET_"
"""The prefix of the names of environment variables that hold secrets."""

MASK = "***"
"""The text that replaces a secret."""

SHORTEST = 4
"""The least length of a secret that is masked: shorter texts occur everywhere, so that
masking them would garble the output."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets in every form in which one may occur, the longest first."""

    forms: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.forms)

    def redact(self, text: str) -> str:
        """The text with `***` for each secret in it."""
        return _pattern(self.forms).sub(MASK, text) if self.forms else text

    def are_in(self, text: str) -> bool:
        """Whether the text contains a secret."""
        return bool(self.forms) and _pattern(self.forms).search(text) is not None

    def redact_fields(self, value: T) -> T:
        """The dataclass with all texts in it redacted, also those nested in tuples and
        dataclasses; the same object if there is no secret in it."""
        return _redact_value(value, self) if self.forms else value


NO_SECRETS = Secrets(())


def find_secrets(environ: Mapping[str, str]) -> Secrets:
    """The secrets of an environment, as they are and in the encodings of libraries
    (JSON, URLs, Base64 and the like)."""
    values = [value for name, value in environ.items() if name.startswith(PREFIX)]
    wholes = {
        part
        for value in values
        for part in (value, *_parts(value))
        if len(part) >= SHORTEST
    }
    forms = {
        form for whole in wholes for form in _encodings(whole) if len(form) >= SHORTEST
    }
    return Secrets(tuple(sorted(forms, key=lambda form: (-len(form), form))))


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without its secrets, for a process that needs none."""
    return {
        name: value for name, value in environ.items() if not name.startswith(PREFIX)
    }


def guard(stream: TextIOWrapper, secrets: Secrets) -> TextIOWrapper:
    """The stream, wrapped so that each text is redacted before it is written."""
    return _Guarded(stream, secrets)


class _Guarded(TextIOWrapper):
    def __init__(self, stream: TextIOWrapper, secrets: Secrets) -> None:
        stream.flush()
        super().__init__(
            stream.buffer,
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        self._secrets = secrets
        self._stream = stream  # which would close the output if nobody held it

    def write(self, text: str) -> int:
        """Write the redacted text. Returns the length of the original."""
        super().write(self._secrets.redact(text))
        return len(text)


def _parts(value: str) -> Iterator[str]:
    """The parts of a value that a library may show alone: the lines of a key file, the
    password of a login."""
    yield from (line.strip() for line in value.splitlines())
    yield unquote(value)  # as it stands in a URI
    # the password of a JAAS configuration
    for _, quoted in re.findall(
        r"""password\s*=\s*(["'])((?:\\.|(?!\1)[^\\\n])*)\1""", value
    ):
        yield from (quoted, re.sub(r"\\(.)", r"\1", quoted))
    in_uri = re.match(r"[\w+.:-]+://[^:@/]*:(.*)@", value)
    if in_uri:
        yield from (in_uri[1], unquote(in_uri[1]))
    elif re.match(r"[^\s:/]+:[^\s/]", value):  # a client's id and its secret
        yield value.split(":", 1)[1].strip()


def _encodings(value: str) -> Iterator[str]:
    plain = {
        value,
        *(
            json.dumps(value, ensure_ascii=ascii_only)[1:-1]
            for ascii_only in (True, False)
        ),
        repr(value)[1:-1],
        value.replace("'", "''"),
        value.translate(_HTML),
        value.translate(_XML),
    }
    yield from plain
    yield from (json.dumps(form)[1:-1] for form in plain)  # JSON within JSON
    escape = "surrogateescape"  # bytes of the environment that are no UTF-8
    # URL encodings: Python's form encoding, then Java's
    in_forms = [
        quote_plus(value, errors=escape),
        quote_plus(value, "*", errors=escape).replace("~", "%7E"),
    ]
    for encoded in (
        quote(value, "", errors=escape),
        quote(value, errors=escape),
        *in_forms,
    ):
        yield encoded
        yield re.sub("%..", lambda found: found[0].lower(), encoded)
    yield from _base64_cores(value.encode(errors=escape))
    in_hexadecimal = value.encode(errors=escape).hex()
    yield from (in_hexadecimal, in_hexadecimal.upper())


def _base64_cores(value: bytes) -> Iterator[str]:
    """The texts of which one occurs in any Base64 of a text that contains the value: a
    core for each of three alignments, without ends that depend on neighbours."""
    for before in range(3):
        length = before + len(value)
        text = base64.b64encode(bytes(before) + value).decode()
        # Each character holds six bits: take only those made of the value's bits.
        core = text[-(-before * 8 // 6) : length * 8 // 6]
        yield core
        yield core.translate(_URL_SAFE)


_URL_SAFE = str.maketrans("+/", "-_")
_XML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_HTML = _XML | str.maketrans({'"': "&quot;", "'": "&#x27;"})


@functools.cache
def _pattern(forms: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, forms)))


_OWN_WORDS = ("condition", "status")
"""Fields whose values are fixed words of lakesql's, which are not masked even if a
secret is the same word."""


def _redact_value(value: T, secrets: Secrets) -> T:
    changed: object = value
    match value:
        case str():
            changed = secrets.redact(value)
        case tuple():
            changed = tuple(_redact_value(item, secrets) for item in value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [
                field.name
                for field in dataclasses.fields(value)
                if field.name not in _OWN_WORDS
            ]
            fields = {name: getattr(value, name) for name in names}
            found = {
                name: _redact_value(item, secrets) for name, item in fields.items()
            }
            if found != fields:
                changed = dataclasses.replace(value, **found)
    return changed  # type: ignore[return-value]  # the same shape, with other texts
