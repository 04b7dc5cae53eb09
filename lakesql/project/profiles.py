"""profiles.yml: the targets that a project can run on, as checked values. Of Jinja its
texts may use `env_var` alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol

from lakesql.decode import (
    Node,
    collect,
    decode,
    option,
    read_entries,
    read_filled,
    read_option_text,
    read_option_texts,
    read_positive,
    read_value,
)
from lakesql.errors import (
    Place,
    Problem,
    ProfileError,
    ProjectError,
    did_you_mean,
    misspelt,
)
from lakesql.location import absolute
from lakesql.names import check_name
from lakesql.project.duration import Duration, parse_duration
from lakesql.project.files import read_text
from lakesql.project.lineage_target import LineageTarget, read_lineage_target
from lakesql.project.procedures import read_maintenance
from lakesql.project.yaml import parse_yaml
from lakesql.registry.connection import Registry
from lakesql.source.kinds import CONNECTIONS, project_source
from lakesql.source.source import Source

PROFILES_FILE = "profiles.yml"


def _read_conf(node: Node) -> dict[str, str]:
    return read_entries(node, _read_setting)


def _read_setting(key: str, node: Node) -> str:
    if key == "spark.master":
        raise ProjectError.of(
            "spark-option",
            "'spark.master' has a key of its own.",
            fix="Write `spark: {master: …}`.",
        )
    if not key.startswith("spark."):
        raise ProjectError.of(
            "spark-option",
            f"'{key}' is no setting of Spark's: these begin with `spark.`.",
            fix=f"Write `spark.{key}` if it is Spark's, and `spark.hadoop.{key}` if it is Hadoop's.",
        )
    return read_option_text(node)


@dataclass(frozen=True, slots=True)
class Spark:
    """How Spark is started. `places` has where each value of `conf` stands in the file,
    by its key, and `master` under `spark.master`."""

    master: str = option("URL of Spark's master.", default="local[*]", read=read_filled)
    conf: Mapping[str, str] = option(
        "Settings of Spark, which override those of lakesql.",
        factory=dict,
        read=_read_conf,
    )
    warm: Duration | None = option(
        "How long a Java process with Spark is kept for the next `show --preview`, `test` or `run --once` after such "
        "a command; it ends with each command if left out.",
        default=None,
        read=parse_duration,
    )
    places: Mapping[str, Place] = field(default_factory=dict, compare=False)

    @property
    def time_zone(self) -> str:
        """Spark's session time zone, in which times without a zone are read; those of
        seeds too."""
        return self.conf.get("spark.sql.session.timeZone", "UTC")

    @property
    def adds_functions(self) -> bool:
        """Whether the settings may add functions to Spark, so that an unknown name of a
        function is no error."""
        return not _ADDS_FUNCTIONS.isdisjoint(self.conf)


_ADDS_FUNCTIONS = frozenset(
    {
        "spark.sql.extensions",
        "spark.sql.catalogImplementation",
        "spark.sql.defaultCatalog",
    }
)


def _read_spark(node: Node) -> Spark:
    master, conf = node.get("master"), node.get("conf")
    entries = conf.value if conf and isinstance(conf.value, Mapping) else {}
    places = {key: entry.place for key, entry in entries.items()}
    if master:
        places["spark.master"] = master.place
    return decode(node, Spark, what="spark", given={"places": places})


@dataclass(frozen=True, slots=True)
class Catalog:
    """The Iceberg catalog. Keys beside these go to Spark and to pyiceberg as they are.
    `place` is the block's."""

    name: str = option("Name of the catalog in SQL.", default="lake", read=check_name)
    type: str = option(
        "`sql` (SQLite, PostgreSQL), `rest` or `hive`; `glue` and others are not tested.",
        default="sql",
    )
    uri: str = option(
        "Address of the catalog: a URL, or for SQLite its file, as `sqlite:///catalog.db`.",
        default="",
    )
    warehouse: str = option(
        "Location of the tables' files: a folder or a URL; for `rest` the service's name of the warehouse.",
        default="",
    )
    properties: Mapping[str, str] = option(
        "Other keys of the block, which Spark and pyiceberg get as they are.",
        factory=dict,
        read=read_option_texts,
    )
    place: Place | None = field(default=None, compare=False)

    @property
    def sqlite_file(self) -> Path | None:
        """The file of a `sql` catalog on SQLite, None for every other catalog."""
        if self.type != "sql" or not self.uri.startswith(_SQLITE):
            return None
        return Path(self.uri.removeprefix(_SQLITE).split("?")[0])


_SQLITE = "sqlite:///"

_CATALOG_KEYS = frozenset(
    {
        *(
            "name",
            "type",
            "uri",
            "warehouse",
            "user",
            "credential",
            "token",
            "scope",
            "audience",
            "resource",
            "prefix",
        ),
        *(
            "oauth2-server-uri",
            "token-exchange-enabled",
            "token-refresh-enabled",
            "token-expires-in-ms",
        ),
        *(
            "catalog-impl",
            "io-impl",
            "lock-impl",
            "metrics-reporter-impl",
            "py-catalog-impl",
            "py-io-impl",
        ),
        *(
            "py-location-provider-impl",
            "app-id",
            "app-name",
            "cache-enabled",
            "clients",
            "client-pool-cache-keys",
        ),
        *(
            "default-namespace",
            "list-all-tables",
            "namespace-separator",
            "rest-page-size",
            "scan-planning-mode",
        ),
        *(
            "snapshot-loading-mode",
            "unique-table-location",
            "view-endpoints-supported",
            "use-nullable-query-schema",
        ),
        *(
            "echo",
            "init_catalog_tables",
            "pool_pre_ping",
            "downcast-ns-timestamp-to-us-on-write",
        ),
    }
)
"""Keys without a dot that lakesql, Iceberg or pyiceberg knows. A catalog of another
kind may have further ones."""


def _read_catalog(node: Node) -> Catalog:
    entries = node.entries()
    others = {
        key: entry
        for key, entry in entries.items()
        if key not in ("name", "type", "uri", "warehouse")
    }
    problems = [
        Problem(
            "unknown-option",
            f"a catalog has no option '{key}'.",
            "",
            f"Did you mean '{meant}'?",
            node.key_place(key),
        )
        for key in others
        if (meant := misspelt(key, _CATALOG_KEYS))
    ]
    given = {"properties": {}, "place": node.place}
    catalog = collect(
        problems,
        lambda: decode(
            node, Catalog, what="a catalog", ignore=frozenset(others), given=given
        ),
    )
    properties = collect(
        problems, lambda: read_option_texts(replace(node, value=others))
    )
    if catalog is None or properties is None or problems:
        raise ProjectError(problems)
    return replace(catalog, properties=properties)


def _word_of(node: Node) -> str:
    """The `type` of a connection; '' if it has none or no text."""
    given = node.get("type")
    return given.value if given and isinstance(given.value, str) else ""


def _read_connections(node: Node) -> dict[str, Source]:
    """The connections that streams are read from: all but the schema registries."""
    found = {
        name: entry for name, entry in node.entries().items() if not _is_registry(entry)
    }
    return read_entries(replace(node, value=found), _read_connection)


def _is_registry(node: Node) -> bool:
    return isinstance(node.value, Mapping) and _word_of(node) == Registry.kind


def read_registries(target: Node) -> dict[str, Registry]:
    """The schema registries among a target's connections, by name. Values that are no
    mappings are skipped: decoding the target reports them."""
    connections = (
        target.get("connections") if isinstance(target.value, Mapping) else None
    )
    if connections is None or not isinstance(connections.value, Mapping):
        return {}
    found = {
        name: entry for name, entry in connections.value.items() if _is_registry(entry)
    }
    return read_entries(replace(connections, value=found), _read_registry)


def _read_registry(name: str, node: Node) -> Registry:
    found = decode(
        node, Registry, what=f"connection '{name}'", ignore=frozenset({"type"})
    )
    if problems := list(found.problems(name, node)):
        raise ProjectError(problems)
    return found


def _read_connection(name: str, node: Node) -> Source:
    given, word = node.get("type"), _word_of(node)
    kind = CONNECTIONS.get(word)
    if (own := project_source(word, node)) is not None:
        return own
    if kind is None:
        raise ProjectError.of(
            "unknown-connection-type",
            f"Connection '{name}' has no type that lakesql knows.",
            fix=did_you_mean(word, (*CONNECTIONS, Registry.kind)),
            place=given.place if given else node.place,
        )
    return decode(node, kind, what=f"connection '{name}'", ignore=frozenset({"type"}))


def _read_attempts(node: Node) -> int:
    value = read_value(node, int, "attempts")
    if value >= 0:
        return int(value)
    raise ProjectError.of(
        "wrong-value", f"{node.shown} is not a number of attempts.", place=node.place
    )


@dataclass(frozen=True, slots=True)
class Retries:
    """How a model is retried after a transient error: a broker, the catalog or the
    storage does not answer."""

    attempts: int = option(
        "Maximum number of retries of a model in a row before it fails; 0 for none.",
        default=10,
        read=_read_attempts,
    )
    max_wait: Duration = option(
        "Longest wait before a retry. The first one is a second, and each further one is twice as long.",
        default=Duration("5 minutes", 300_000),
        read=parse_duration,
    )


def _check_maintenance(node: Node) -> Node:
    """The node, checked and returned undecoded: it is merged with the options of
    folders and models later."""
    read_maintenance(node)
    return node


class NamesRegistry(Protocol):
    """What names a connection to a schema registry: a stream."""

    @property
    def name(self) -> str:
        """Its own name."""

    @property
    def registry(self) -> str:
        """The name of the connection."""

    @property
    def place(self) -> Place:
        """The place of its entry."""


@dataclass(frozen=True, slots=True)
class Target:
    """One output of a profile: everything that differs between a laptop, CI and
    production. `name` is its key."""

    name: str = option("Name of the target, which is the key under `outputs`.")
    namespace: str = option(
        "Namespace of the tables; the profile's name if left out.",
        default="",
        read=check_name,
    )
    catalog: Catalog = option(
        "The Iceberg catalog.", factory=Catalog, read=_read_catalog
    )
    checkpoints: str = option(
        "Location of the checkpoints: a folder or a URL.",
        default=".lakesql/checkpoints",
        read=read_filled,
    )
    run: Literal["once", "continuous"] = option(
        "How `lakesql run` runs without --once and --continuous.", default="once"
    )
    trigger: Duration = option(
        "How often a continuous run starts a batch of a model without a `trigger` of its own.",
        default=Duration("1 minute", 60_000),
        read=parse_duration,
    )
    maintenance: Node | None = option(
        "Maintenance of tables, unless their models or folders set it: see docs/maintenance.md.",
        default=None,
        read=_check_maintenance,
    )
    threads: int = option(
        "Maximum number of models that run at the same time with --once.",
        default=4,
        read=read_positive,
    )
    retries: Retries = option("Retries after transient errors.", factory=Retries)
    spark: Spark = option(
        "Settings with which Spark is started.", factory=Spark, read=_read_spark
    )
    connections: Mapping[str, Source] = option(
        "Connections of streams, and schema registries, by name.",
        factory=dict,
        read=_read_connections,
    )
    lineage: LineageTarget | None = option(
        "Destination of the lineage of runs: see docs/lineage.md. None if left out.",
        default=None,
        read=read_lineage_target,
    )
    registries: Mapping[str, Registry] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Any]:
        """The values that go into the manifest and that plans compare; none that may
        hold a secret."""
        return {
            "name": self.name,
            "catalog": self.catalog.name,
            "namespace": self.namespace,
            "trigger": self.trigger.text,
            "maintenance": self.maintenance.plain()
            if self.maintenance is not None
            else None,
            "connections": {name: it.kind for name, it in self.connections.items()},
        }

    def checkpoint_of(self, model: str) -> str:
        """The folder of a model's checkpoint."""
        return f"{self.checkpoints.rstrip('/')}/{model}"

    def registry_of(self, stream: NamesRegistry) -> Registry:
        """The schema registry that a stream names. Raises `ProjectError`
        (`unknown-connection`) if the target has none of this name."""
        if stream.registry in self.registries:
            return self.registries[stream.registry]
        raise ProjectError.of(
            "unknown-connection",
            f"Target '{self.name}' has no connection '{stream.registry}' of type 'registry', which '{stream.name}' names.",
            fix=did_you_mean(stream.registry, self.registries),
            place=stream.place,
        )


@dataclass(frozen=True, slots=True)
class _Profile:
    """One entry of profiles.yml. Its outputs are not decoded here: only the chosen one
    is, as each may need environment variables of its own."""

    outputs: Node = option("The profile's targets, by name.", read=lambda node: node)
    target: Node | None = option(
        "The target without --target; `dev` if left out.",
        default=None,
        read=lambda node: node,
    )


def load_target(
    profile: str,
    target: str | None,
    directories: list[Path],
    environ: Mapping[str, str],
    texts: Mapping[Path, str] = MappingProxyType({}),
) -> Target:
    """The target `target` (or the profile's default) of `profile`, from the first
    profiles.yml in `directories`.

    `texts` has the unsaved texts of files that are open in an editor. Raises
    `ProfileError` with every problem: `no-profiles`, `unknown-profile`,
    `unknown-target`, `env-var-missing` and what decoding finds.
    """
    try:
        root = _read_profiles(directories, texts)
        name, output = _find_output(root, profile, target, environ)
        rendered = render_env(output, environ)
        problems: list[Problem] = []
        registries = collect(problems, lambda: read_registries(rendered))
        given = {"name": name, "registries": registries}
        what = f"target '{name}'"
        found = collect(
            problems,
            lambda: decode(rendered, Target, what=what, words="target", given=given),
        )
        if found is None or problems:
            raise ProjectError(problems)
        _check_conf(found, output)
        lineage = rendered.get("lineage")
        if found.lineage is not None and lineage is not None:
            problems = list(found.lineage.problems(lineage, found.connections))
            if problems:
                raise ProjectError(problems)
        return (
            found
            if found.namespace
            else replace(found, namespace=check_name(Node(profile, root.keys[profile])))
        )
    except ProjectError as error:
        raise ProfileError(error.problems) from None


@dataclass(frozen=True, slots=True)
class _FixedSetting:
    """A setting of Spark's SQL that may be given with its default `value` only, and
    what is said of another one."""

    value: str
    what: str
    why: str
    fix: str


_FIXED: Mapping[str, _FixedSetting] = {
    "spark.sql.timestampType": _FixedSetting(
        "TIMESTAMP_LTZ",
        "would have `timestamp` mean `timestamp_ntz` to Spark alone.",
        "A column of a contract that says `timestamp` is a time with a zone, in every table that has it.",
        "Remove it, and write `timestamp_ntz` where one without a zone is meant.",
    ),
    "spark.sql.legacy.timeParserPolicy": _FixedSetting(
        "CORRECTED",
        "would have Spark read dates as versions before 3.0 did: 2026-02-30 would be March 2nd, and no dead letter.",
        "What a record's text means must not depend on the target.",
        "Remove it, and parse other formats in the SELECT: `to_timestamp(ts, 'dd.MM.yyyy')`.",
    ),
    "spark.sql.storeAssignmentPolicy": _FixedSetting(
        "ANSI",
        "would have Spark write values of other types than a table's column, changed or as NULL.",
        "A value that does not fit its column ends the batch, and does not become another one.",
        "Remove it, and write a CAST in the SELECT.",
    ),
}


def _check_conf(target: Target, output: Node) -> None:
    """Raise `ProjectError` (`spark-option`) for keys of `spark.conf` that configure the
    target's own catalog (pyiceberg would not get them), that write to branches or
    unpublished snapshots, or that change what values mean."""
    own = f"spark.sql.catalog.{target.catalog.name}"
    spark = output.get("spark")
    conf = spark.get("conf") if spark else None
    problems = []
    for key in target.spark.conf:
        if key == own or key.startswith(f"{own}."):
            what = f"'{key}' is of the target's own catalog, and Spark alone would hear of it."
            why = "lakesql reads the catalog by pyiceberg too, and both must be in the same one."
            fix = (
                f"Write '{key.removeprefix(f'{own}.')}' in the target's `catalog`."
                if key != own
                else "Remove it."
            )
        elif key.startswith("spark.wap."):
            what = f"'{key}' would have Spark write to a branch, or to snapshots that nobody reads."
            why, fix = (
                "A batch is published when it is written and checked.",
                "Remove it.",
            )
        elif key in _FIXED and target.spark.conf[key].upper() != _FIXED[key].value:
            fixed = _FIXED[key]
            what, why, fix = f"'{key}' {fixed.what}", fixed.why, fixed.fix
        else:
            continue
        problems.append(
            Problem(
                "spark-option", what, why, fix, conf.key_place(key) if conf else None
            )
        )
    if problems:
        raise ProjectError(problems)


def find_output(
    profile: str,
    target: str | None,
    directories: list[Path],
    environ: Mapping[str, str],
) -> Node:
    """The entry of the target that `load_target` would load, neither rendered nor
    decoded. Raises `ProfileError` if there is no such file, profile or target."""
    try:
        return _find_output(_read_profiles(directories), profile, target, environ)[1]
    except ProjectError as error:
        raise ProfileError(error.problems) from None


def _read_profiles(
    directories: list[Path], texts: Mapping[Path, str] = MappingProxyType({})
) -> Node:
    path = next(
        (
            found
            for folder in directories
            if (found := folder / PROFILES_FILE).is_file()
        ),
        None,
    )
    if path is None:
        looked = ", ".join(str(folder / PROFILES_FILE) for folder in directories)
        raise ProfileError.of(
            "no-profiles", f"There is no {PROFILES_FILE}.", why=f"Looked for: {looked}."
        )
    shown = os.path.relpath(path)
    return parse_yaml(shown, texts[path] if path in texts else read_text(path, shown))


def _find_output(
    root: Node, profile: str, wanted: str | None, environ: Mapping[str, str]
) -> tuple[str, Node]:
    profiles = root.entries()
    if profile not in profiles:
        raise ProfileError.of(
            "unknown-profile",
            f"There is no profile '{profile}'.",
            fix=did_you_mean(
                profile, [key for key in profiles if not key.startswith("x-")]
            ),
            place=root.place,
        )
    found = decode(profiles[profile], _Profile, what=f"profile '{profile}'")
    name = wanted or (
        read_value(render_env(found.target, environ), str, "target")
        if found.target
        else "dev"
    )
    outputs = found.outputs.entries()
    if name not in outputs:
        raise ProfileError.of(
            "unknown-target",
            f"Profile '{profile}' has no output '{name}'.",
            why=_who_names(name, wanted, found.target, environ),
            fix=did_you_mean(name, outputs),
            place=found.target.place
            if found.target and not wanted
            else found.outputs.place,
        )
    return name, outputs[name]


def _who_names(
    name: str, wanted: str | None, default: Node | None, environ: Mapping[str, str]
) -> str:
    """A sentence on where the target's name comes from, if that is an environment
    variable; else ''."""
    if wanted:
        return (
            "The environment variable LAKESQL_TARGET names it."
            if environ.get("LAKESQL_TARGET") == name
            else ""
        )
    return (
        f"It comes of {default.value}." if default and "{" in str(default.value) else ""
    )


def render_env(node: Node, environ: Mapping[str, str]) -> Node:
    """The tree with every `{{ env_var('X') }}` in its texts replaced.

    Raises `ProfileError` with every variable that is missing (`env-var-missing`), and
    every text with anything else of Jinja in it (`bad-profile-template`).
    """
    problems: list[Problem] = []

    def render(node: Node) -> Node:
        match node.value:
            case str() as text if "{" in text:
                # Imported here, as many profiles have no template and need no jinja2.
                from lakesql.project.env_template import render_text

                return replace(
                    node,
                    value=render_text(text, node.place, environ, problems),
                    written=text,
                )
            case tuple() as items:
                return replace(node, value=tuple(map(render, items)))
            case Mapping() as entries:
                return replace(
                    node, value={key: render(item) for key, item in entries.items()}
                )
            case _:
                return node

    rendered = render(node)
    if problems:
        raise ProfileError(problems)
    return rendered


def resolve_paths(target: Target, directory: Path) -> Target:
    """The target with every local path absolute: relative ones are relative to the
    project's directory."""
    catalog = target.catalog
    uri, warehouse = catalog.uri, catalog.warehouse
    if catalog.type != "rest":  # whose warehouse is a name of its own
        warehouse = absolute(warehouse, directory)
    if uri.startswith(_SQLITE) and uri != _SQLITE:
        uri = _SQLITE + absolute(uri.removeprefix(_SQLITE), directory)
    return replace(
        target,
        catalog=replace(catalog, uri=uri, warehouse=warehouse),
        checkpoints=absolute(target.checkpoints, directory),
        connections={
            name: found.resolved(directory)
            for name, found in target.connections.items()
        },
        registries={
            name: found.resolved(directory) for name, found in target.registries.items()
        },
        lineage=target.lineage.resolved(directory)
        if target.lineage is not None
        else None,
    )
