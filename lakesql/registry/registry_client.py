"""Asks a schema registry, through Confluent's client, or reads a folder with schemas
instead."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lakesql.errors import ProfileError, explain_missing
from lakesql.registry.connection import Registry
from lakesql.registry.registered import Registered, global_of
from lakesql.registry.registry_failure import explain_failure, status_of
from lakesql.registry.schema_kinds import SCHEMA_KINDS, AvroKind, SchemaKind
from lakesql.secrets import find_secrets

ANSWER_TIMEOUT_S = 10.0
"""The timeout of a request to a registry, in seconds."""

LATEST_S = 1
"""How long, in seconds, the client caches a subject's latest schema. Its own default is
forever."""


def fetch_schema(registry: Registry, id_: int) -> Registered | None:
    """The schema with this id; None if the registry has none.

    Raises `TransientError` (`registry-unreachable`) if the registry does not answer,
    and `ProfileError` if it rejects the login (`wrong-credentials`) or its client is
    not installed (`extra-missing`).
    """
    if registry.path:
        return _read_schema(Path(registry.path), id_)
    number = global_of(id_)
    content = id_ if number is None else fetch_content_id(registry, number)
    found = None if content is None else _ask(registry, "get_schema", content)
    return None if found is None else _registered(registry, id_, found)


def fetch_content_id(registry: Registry, number: int) -> int | None:
    """The content id of the version with this global id of Apicurio; None if there is
    none. Raises the same errors as `fetch_schema`."""
    found = _ask_apicurio(registry, "v3/search/versions", {"globalId": number})
    if found is not None:
        return next((int(each["contentId"]) for each in found["versions"]), None)
    return _content_id_of_two(registry, number)


def _content_id_of_two(registry: Registry, number: int) -> int | None:
    """The content id of a global id in Apicurio 2, which can search only for the
    artifact, whose versions are then listed."""
    found = _ask_apicurio(registry, "v2/search/artifacts", {"globalId": number})
    for artifact in (found or {}).get("artifacts", ()):
        group, name = (
            quote(str(artifact.get(key) or "default"), safe="")
            for key in ("groupId", "id")
        )
        for offset in count(0, _PAGE):
            page = _ask_apicurio(
                registry,
                f"v2/groups/{group}/artifacts/{name}/versions",
                {"limit": _PAGE, "offset": offset},
            )
            versions = (page or {}).get("versions", ())
            for each in versions:
                if each["globalId"] == number:
                    return int(each["contentId"])
            if len(versions) < _PAGE:
                break
    return None


_PAGE = 100
"""The number of versions that are requested from Apicurio at a time."""


def fetch_newest(registry: Registry, subject: str) -> Registered | None:
    """The latest schema of a subject; None if the registry has no such subject. Raises
    the same errors as `fetch_schema`."""
    if registry.path:
        return None
    found = _ask(registry, "get_latest_version", subject)
    return (
        None
        if found is None
        else _registered(registry, int(found.schema_id), found.schema)
    )


def fetch_versions(
    registry: Registry, subject: str, is_last: Callable[[Registered], bool]
) -> tuple[Registered, ...]:
    """The versions of a subject in their order, starting with the newest one for which
    `is_last` is true; all if it is true for none. Empty if the registry has no such
    subject. Raises the same errors as `fetch_schema`."""
    if registry.path:
        return ()
    found: list[Registered] = []
    for number in reversed(_ask(registry, "get_versions", subject) or []):
        version = _ask(registry, "get_version", subject, number)
        if version is None:
            continue
        found.append(_registered(registry, int(version.schema_id), version.schema))
        if is_last(found[-1]):
            break
    return tuple(reversed(found))


def check_registry(registry: Registry) -> str:
    """A description of the registry, after it has answered. Raises the same errors as
    `fetch_schema`, and `ProfileError` (`registry-unreachable`) if it is a folder that
    does not exist."""
    if not registry.path:
        subjects = _ask(registry, "get_subjects") or []
        return f"{registry.name}, {len(subjects)} subjects"
    if not Path(registry.path).is_dir():
        raise ProfileError.of(
            "registry-unreachable", f"There is no folder {registry.path}."
        )
    return registry.path


def _read_schema(folder: Path, id_: int) -> Registered | None:
    """The schema with this id from a folder that also has the files that it imports;
    None if there is no file for it."""
    for kind in SCHEMA_KINDS.values():
        file = folder / schema_file(id_, kind)
        if file.is_file():
            text = file.read_text("utf-8")
            folders = (file.with_suffix(""), folder)
            return kind.with_others(
                id_, text, _read_imported(folders, kind.imports(text), kind)
            )
    return None


def schema_file(id_: int, kind: SchemaKind) -> str:
    """The name of the file in a folder for the schema with this id."""
    number = global_of(id_)
    return f"{id_}{kind.suffix}" if number is None else f"global-{number}{kind.suffix}"


def _read_imported(
    folders: Sequence[Path], names: Iterable[str], kind: SchemaKind
) -> list[tuple[str, str]]:
    """The names and texts of the files that a schema imports, directly or through
    others. Each is read from the first folder that has it, and left out if none has
    it."""
    found: dict[str, str] = {}
    waiting = [*names]
    while waiting:
        name = waiting.pop()
        file = next(
            (folder / name for folder in folders if (folder / name).is_file()), None
        )
        if name in found or not _is_inside(name) or file is None:
            continue
        found[name] = file.read_text("utf-8")
        waiting += kind.imports(found[name])
    return [*found.items()]


def _is_inside(name: str) -> bool:
    """Whether the name of an imported schema is a path that stays inside the folder
    where it is looked up and written to."""
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts


def _registered(registry: Registry, id_: int, found: Any) -> Registered:
    name = str(found.schema_type or AvroKind.name)
    kind = SCHEMA_KINDS.get(name)
    if kind is None:
        return Registered(id_, name, found.schema_str)
    return kind.with_others(id_, found.schema_str, _referenced(registry, found))


def _referenced(registry: Registry, found: Any) -> list[tuple[str, str]]:
    """The names and texts of the schemas that a schema refers to, each after those that
    it refers to itself."""
    texts: list[tuple[str, str]] = []
    for reference in found.references or ():
        version = _ask(registry, "get_version", reference.subject, reference.version)
        if version is not None and _is_inside(reference.name):
            texts += [
                *_referenced(registry, version.schema),
                (reference.name, version.schema.schema_str),
            ]
    return list(dict.fromkeys(texts))


@cache
def _client(registry: Registry) -> Any:
    try:
        library = import_module("confluent_kafka.schema_registry")
    except ModuleNotFoundError as error:
        absent = explain_missing(error)
        if absent is None:
            raise
        raise absent from None
    try:
        client = library.SchemaRegistryClient(_settings_of(registry))
    except (ValueError, TypeError, OSError) as error:
        why = find_secrets(os.environ).redact(str(error))
        raise ProfileError.of(
            "registry-options", f"The client of {registry.name} is refused.", why=why
        ) from None
    if registry.issuer and registry.ca:
        _trust_issuer(client._rest_client)
    return client


def _settings_of(registry: Registry) -> dict[str, Any]:
    """The options of Confluent's client. Raises `ProfileError` (`registry-options`) for
    a file that does not exist."""
    options = {
        key: float(text) if key in _NUMBERS else text
        for key, text in registry.options.items()
    }
    settings: dict[str, Any] = {
        "url": registry.url,
        "timeout": ANSWER_TIMEOUT_S,
        **options,
    }
    settings["cache.latest.ttl.sec"] = LATEST_S
    if registry.user:
        settings["basic.auth.user.info"] = f"{registry.user}:{registry.password}"
    if registry.token:
        settings |= {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": registry.token,
        }
    # the client requires these two for a token, but only Confluent's own service has
    # values for them
    if "bearer.auth.credentials.source" in settings:
        settings = {
            "bearer.auth.logical.cluster": "",
            "bearer.auth.identity.pool.id": "",
            **settings,
        }
    files = {
        "ca": registry.ca,
        "certificate": registry.certificate,
        "certificate_key": registry.certificate_key,
    }
    for key, path in files.items():
        if path and not Path(path).exists():
            raise ProfileError.of(
                "registry-options",
                f"There is no file {path}, which a connection has as its `{key}`.",
            )
    return settings | {_FILES[key]: path for key, path in files.items() if path}


_FILES: Mapping[str, str] = {
    "ca": "ssl.ca.location",
    "certificate": "ssl.certificate.location",
    "certificate_key": "ssl.key.location",
}

_NUMBERS = frozenset(
    {
        "timeout",
        "max.retries",
        "retries.wait.ms",
        "retries.max.wait.ms",
        "cache.capacity",
    }
)
"""Options of the client that are numbers."""


def _trust_issuer(client: Any) -> None:
    """Let the client request tokens with the TLS settings of the registry: its OAuth
    library trusts only the machine's certificate authorities."""
    asks = client.bearer_field_provider.client
    login = {
        "client_id": asks.client_id,
        "client_secret": asks.client_secret,
        "scope": asks.scope,
    }
    client.bearer_field_provider.client = type(asks)(**login, verify=client.verify)


def _ask(registry: Registry, what: str, *arguments: Any) -> Any:
    """The result of a method of the client; None if the registry does not have what is
    requested."""
    return _answer_of(registry, lambda client: getattr(client, what)(*arguments))


def _ask_apicurio(registry: Registry, path: str, query: Mapping[str, int]) -> Any:
    """The answer of Apicurio's own API; None if it does not have what is requested."""
    # Uses the HTTP client inside of Confluent's, which logs in the same way: Apicurio
    # has no client for Python.
    own = replace(registry, url=registry.apicurio_url)
    return _answer_of(own, lambda client: client._rest_client.get(path, dict(query)))


def _answer_of(
    registry: Registry, ask: Callable[[Any], Any], is_again: bool = False
) -> Any:
    client = _client(registry)
    try:
        return ask(client)
    # errors come from the library, its HTTP client, and the system's sockets
    except Exception as error:
        if status_of(error) in (404, 422):
            return None
        if status_of(error) == 401 and registry.issuer and not is_again:
            # the token may have been revoked, so request a new one
            client._rest_client.bearer_field_provider.token = ""
            return _answer_of(registry, ask, is_again=True)
        why = find_secrets(os.environ).redact(f"{type(error).__name__}: {error}")
        raise explain_failure(registry, error, why) from None
