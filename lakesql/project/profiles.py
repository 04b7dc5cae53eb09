"""profiles.yml: the targets a project runs on. Its texts may use `env_var`, and nothing else of Jinja's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, assert_never

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from lakesql.decode import Node, decode, option
from lakesql.errors import Place, ProfileError, ProjectError, nearest
from lakesql.names import check_name
from lakesql.project.yaml import parse_yaml

PROFILES_FILE = "profiles.yml"


@dataclass(frozen=True, slots=True)
class Recorded:
    """The embedded stand-in for a broker: a folder per topic that holds JSON-lines files of Kafka records."""

    path: str = option("Folder of the topics' folders.")


@dataclass(frozen=True, slots=True)
class Files:
    """Plain files; a stream's `path` is relative to this one."""

    path: str = option("Base of the streams' paths; the project's directory if left out.", default=".")


@dataclass(frozen=True, slots=True)
class Rate:
    """Spark's generator of rows `timestamp, value`."""

    rows_per_second: int = option("Rows a second.", default=1)


def _plain_options(node: Node) -> dict[str, str]:
    return {key: _text(entry) for key, entry in node.entries().items()}


@dataclass(frozen=True, slots=True)
class Kafka:
    """A Kafka broker. `options` go to its client as they are, and carry no `kafka.` prefix."""

    bootstrap_servers: str = option("`host:port`, comma-separated.")
    options: Mapping[str, str] = option("Options of the Kafka client.", factory=dict, read=_plain_options)


Connection = Recorded | Files | Rate | Kafka
CONNECTIONS: Mapping[str, type[Connection]] = {"recorded": Recorded, "files": Files, "rate": Rate, "kafka": Kafka}


@dataclass(frozen=True, slots=True)
class Spark:
    """How Spark is started."""

    master: str = option("Spark's master.", default="local[*]")
    conf: Mapping[str, str] = option("Settings that override lakesql's own.", factory=dict, read=_plain_options)


@dataclass(frozen=True, slots=True)
class Catalog:
    """The Iceberg catalog. Keys beside these go to Spark and to pyiceberg as they are."""

    name: str = option("The catalog's name in SQL.", default="lake", read=check_name)
    type: str = option("`sql` or `rest`; `hive`, `glue` and others are passed on.", default="sql")
    uri: str = option("Where the catalog is.", default="")
    warehouse: str = option("Where the tables' files lie.", default="")
    properties: Mapping[str, str] = option("Other keys of the block.", factory=dict, read=_plain_options)


def _read_catalog(node: Node) -> Catalog:
    known = {"name", "type", "uri", "warehouse"}
    entries = node.entries()
    others = {key: entry for key, entry in entries.items() if key not in known}
    own = Node({key: entry for key, entry in entries.items() if key in known}, node.place, node.keys)
    catalog = decode(own, Catalog, what="a catalog")
    return replace(catalog, properties={key: _text(entry) for key, entry in others.items()})


def _read_connections(node: Node) -> dict[str, Connection]:
    return {name: _read_connection(name, entry) for name, entry in node.entries().items()}


def _read_connection(name: str, node: Node) -> Connection:
    kind = node.get("type")
    if kind is None or kind.value not in CONNECTIONS:
        known = nearest(str(kind.plain()) if kind else "", CONNECTIONS)
        raise ProjectError.of(
            "unknown-connection-type",
            f"Connection '{name}' has no type that lakesql knows.",
            fix=known,
            place=kind.place if kind else node.place,
        )
    return decode(node, CONNECTIONS[str(kind.value)], what=f"connection '{name}'", ignore=frozenset({"type"}))


@dataclass(frozen=True, slots=True)
class Target:
    """One output of a profile: everything that differs between a laptop, CI and production. `name` is its key."""

    name: str = option("The output's key.")
    namespace: str = option("Namespace of the tables; the profile's name if left out.", default="", read=check_name)
    catalog: Catalog = option("The Iceberg catalog.", factory=Catalog, read=_read_catalog)
    checkpoints: str = option("Where the checkpoints lie: a folder or a URL.", default=".lakesql/checkpoints")
    run: Literal["once", "continuous"] = option(
        "What `lakesql run` does without --once or --continuous.", default="once"
    )
    threads: int = option("How many models run side by side with --once.", default=4)
    spark: Spark = option("How Spark is started.", factory=Spark)
    connections: Mapping[str, Connection] = option(
        "Where streams are read from, by name.", factory=dict, read=_read_connections
    )


def load_target(profile: str, target: str | None, directories: list[Path], environ: Mapping[str, str]) -> Target:
    """The target `target` (or the profile's default) of `profile`, from the first profiles.yml in `directories`.

    Raises `ProfileError` for every problem: `no-profiles`, `unknown-profile`, `unknown-target`, `env-var-missing`
    and what decoding finds.
    """
    path = next((found for folder in directories if (found := folder / PROFILES_FILE).is_file()), None)
    if path is None:
        looked = ", ".join(str(folder / PROFILES_FILE) for folder in directories)
        raise ProfileError.of("no-profiles", f"There is no {PROFILES_FILE}.", why=f"Looked for: {looked}.")
    try:
        return _read_target(parse_yaml(_shown(path), path.read_text("utf-8")), profile, target, path, environ)
    except ProjectError as error:
        raise ProfileError(error.problems) from None


def _read_target(root: Node, profile: str, wanted: str | None, path: Path, environ: Mapping[str, str]) -> Target:
    profiles = root.entries()
    if profile not in profiles:
        raise ProfileError.of(
            "unknown-profile",
            f"There is no profile '{profile}'.",
            fix=nearest(profile, [key for key in profiles if not key.startswith("x-")]),
            place=root.place,
        )
    node = profiles[profile]
    outputs = node.get("outputs") or Node({}, node.place)
    default = node.get("target")
    name = wanted or (str(render_env(default, environ, path).value) if default else "dev")
    if name not in outputs.entries():
        raise ProfileError.of(
            "unknown-target",
            f"Profile '{profile}' has no output '{name}'.",
            fix=nearest(name, outputs.entries()),
            place=outputs.place,
        )
    output = render_env(outputs.entries()[name], environ, path)
    found = decode(output, Target, what=f"target '{name}'", given={"name": name})
    return replace(found, namespace=found.namespace or profile)


def render_env(node: Node, environ: Mapping[str, str], profiles_path: Path) -> Node:
    """The tree with every `{{ env_var('X') }}` in its texts replaced."""
    match node.value:
        case str() as text if "{{" in text or "{%" in text:
            return replace(node, value=_render(text, node.place, environ, profiles_path))
        case str() | int() | float() | bool() | None:
            return node
        case tuple() as items:
            return replace(node, value=tuple(render_env(item, environ, profiles_path) for item in items))
        case Mapping() as entries:
            rendered = {key: render_env(entry, environ, profiles_path) for key, entry in entries.items()}
            return replace(node, value=rendered)
        case _:
            assert_never(node.value)


def _render(text: str, place: Place, environ: Mapping[str, str], profiles_path: Path) -> str:
    def env_var(name: str, default: str | None = None) -> str:
        value = environ.get(name, default)
        if value is None:
            raise ProfileError.of(
                "env-var-missing",
                f"The environment variable {name} is not set.",
                why=f"Looked in: this process's environment; a default in env_var('{name}', '…') of {profiles_path}.",
                fix=f"Set it (`export {name}=…`), or give it a default.",
                place=place,
            )
        return value

    try:
        return _ENVIRONMENT.from_string(text).render(env_var=env_var)
    except jinja2.TemplateError as error:
        raise ProfileError.of(
            "bad-profile-template", f"{error}.", fix="profiles.yml knows env_var('NAME', 'default') only.", place=place
        ) from None


_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined)
_ENVIRONMENT.globals.clear()


def _text(node: Node) -> str:
    value: Any = node.plain()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ProjectError.of("wrong-type", "An option is a text, a number, true or false.", place=node.place)


def _shown(path: Path) -> str:
    return os.path.relpath(path)


def resolve_paths(target: Target, directory: Path) -> Target:
    """The target with every local path absolute: relative ones are relative to the project's directory."""
    catalog = target.catalog
    uri = catalog.uri
    if uri.startswith(_SQLITE) and uri != _SQLITE:
        uri = _SQLITE + _absolute(uri.removeprefix(_SQLITE), directory)
    return replace(
        target,
        catalog=replace(catalog, uri=uri, warehouse=_absolute(catalog.warehouse, directory)),
        checkpoints=_absolute(target.checkpoints, directory),
        connections={name: _resolve_connection(found, directory) for name, found in target.connections.items()},
    )


def sqlite_file(catalog: Catalog) -> Path | None:
    """The file of a `sql` catalog on SQLite, None for every other catalog."""
    if catalog.type != "sql" or not catalog.uri.startswith(_SQLITE):
        return None
    return Path(catalog.uri.removeprefix(_SQLITE).split("?")[0])


_SQLITE = "sqlite:///"


def _resolve_connection(connection: Connection, directory: Path) -> Connection:
    match connection:
        case Recorded() | Files():
            return replace(connection, path=_absolute(connection.path, directory))
        case Rate() | Kafka():
            return connection
        case _:
            assert_never(connection)


def _absolute(path: str, directory: Path) -> str:
    """A path on this machine as an absolute one; a URL, and nothing, as they are."""
    return path if not path or "://" in path else str((directory / path).resolve())
