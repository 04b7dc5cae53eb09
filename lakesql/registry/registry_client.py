"""What a schema registry answers, by Confluent's client, or a folder with schemas in
its place."""

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
"""How long a registry may take for an answer."""

LATEST_S = 1
"""How long the client takes a subject's newest schema for that: for ever, unless it is
told."""


def fetch_schema(registry: Registry, id_: int) -> Registered | None:
    """The schema of an id; None where the registry has none.

    Raises `TransientError` (`registry-unreachable`) where it does not answer, and
    `ProfileError` where it refuses the login (`wrong-credentials`), or its client is
    not installed (`extra-missing`).
    """
    if registry.path:
        return _read_schema(Path(registry.path), id_)
    number = global_of(id_)
    content = id_ if number is None else fetch_content_id(registry, number)
    found = None if content is None else _ask(registry, "get_schema", content)
    return None if found is None else _registered(registry, id_, found)


def fetch_content_id(registry: Registry, number: int) -> int | None:
    """The id of what stands in the version that has a global id of Apicurio's; None
    where there is none. Raises what `fetch_schema` does."""
    found = _ask_apicurio(registry, "v3/search/versions", {"globalId": number})
    if found is not None:
        return next((int(each["contentId"]) for each in found["versions"]), None)
    return _content_id_of_two(registry, number)


def _content_id_of_two(registry: Registry, number: int) -> int | None:
    """The same of Apicurio 2, which finds what has the version, and lists the versions
    of that."""
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
"""How many versions Apicurio is asked for at a time."""


def fetch_newest(registry: Registry, subject: str) -> Registered | None:
    """The newest schema of a subject; None where the registry has no such subject.
    Raises what `fetch_schema` does."""
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
    """The versions of a subject in their order, from the newest one that `is_last`, or
    all if none is; none where the registry does not have the subject. Raises what
    `fetch_schema` does."""
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
    """What it is, in words, once it has answered. Raises what `fetch_schema` does, and
    `registry-unreachable`."""
    if not registry.path:
        subjects = _ask(registry, "get_subjects") or []
        return f"{registry.name}, {len(subjects)} subjects"
    if not Path(registry.path).is_dir():
        raise ProfileError.of(
            "registry-unreachable", f"There is no folder {registry.path}."
        )
    return registry.path


def _read_schema(folder: Path, id_: int) -> Registered | None:
    """The schema of an id as a folder has it, which has the files that it imports
    too."""
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
    """What the file with the schema of an id is called in a folder."""
    number = global_of(id_)
    return f"{id_}{kind.suffix}" if number is None else f"global-{number}{kind.suffix}"


def _read_imported(
    folders: Sequence[Path], names: Iterable[str], kind: SchemaKind
) -> list[tuple[str, str]]:
    """The files that a schema imports by these names, and those that they import, each
    of the first folder that has it; others are not there."""
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
    """Whether a name by which a schema imports another stays in the folder that it is
    looked up in, and written to."""
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts


def _registered(registry: Registry, id_: int, found: Any) -> Registered:
    name = str(found.schema_type or AvroKind.name)
    kind = SCHEMA_KINDS.get(name)
    if kind is None:
        return Registered(id_, name, found.schema_str)
    return kind.with_others(id_, found.schema_str, _referenced(registry, found))


def _referenced(registry: Registry, found: Any) -> list[tuple[str, str]]:
    """The names and texts of the schemas that one refers to, those first that others
    refer to."""
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
    """What Confluent's client is told. Raises `ProfileError` (`registry-options`) for a
    file that is not there."""
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
    # Confluent's own service has these, and others have none
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
    """Let the client ask for tokens as it asks the registry: its library trusts the
    machine's authorities alone."""
    asks = client.bearer_field_provider.client
    login = {
        "client_id": asks.client_id,
        "client_secret": asks.client_secret,
        "scope": asks.scope,
    }
    client.bearer_field_provider.client = type(asks)(**login, verify=client.verify)


def _ask(registry: Registry, what: str, *arguments: Any) -> Any:
    """What the client's method answers; None where the registry has no such thing."""
    return _answer_of(registry, lambda client: getattr(client, what)(*arguments))


def _ask_apicurio(registry: Registry, path: str, query: Mapping[str, int]) -> Any:
    """What Apicurio's own interface answers; None where there is no such thing."""
    # By the HTTP client in Confluent's, which logs in as that does: Apicurio has none
    # for Python.
    own = replace(registry, url=registry.apicurio_url)
    return _answer_of(own, lambda client: client._rest_client.get(path, dict(query)))


def _answer_of(
    registry: Registry, ask: Callable[[Any], Any], is_again: bool = False
) -> Any:
    client = _client(registry)
    try:
        return ask(client)
    # of the library, of its HTTP client, and of the system's sockets
    except Exception as error:
        if status_of(error) in (404, 422):
            return None
        if status_of(error) == 401 and registry.issuer and not is_again:
            # it may have been revoked: a new one is asked for
            client._rest_client.bearer_field_provider.token = ""
            return _answer_of(registry, ask, is_again=True)
        why = find_secrets(os.environ).redact(f"{type(error).__name__}: {error}")
        raise explain_failure(registry, error, why) from None
