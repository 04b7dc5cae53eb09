"""Whatever changes between two commands, the second says what it would say with nothing
kept from the first."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesql.cli.init import write_project
from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.compile.compiled import compiled_files, write_copies
from lakesql.decode import Node, node_of
from lakesql.errors import LakesqlError, Place
from lakesql.model.config import AvailableNow, Every
from lakesql.modes.append import Append
from lakesql.modes.upsert import Upsert
from lakesql.project import cache
from lakesql.project.cache import CacheFile, decoder, encode
from lakesql.project.duration import Duration
from lakesql.project.files import outputs_of
from lakesql.project.procedures import PROCEDURES, ExpireSnapshots, Maintenance
from lakesql.project.size import Size
from tests.cases import each_of
from tests.share import a_few

Edit = Callable[[Path], object]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    write_project(tmp_path / "shop", "shop")
    return tmp_path / "shop"


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A fresh shop after a command, and what its models run."""
    folder = tmp_path_factory.mktemp("compiled") / "shop"
    write_project(folder, "shop")
    found = compile_shop(folder)
    assert isinstance(found, dict)
    return folder, found


def compile_shop(shop: Path, **options: str) -> dict[str, str] | list[str]:
    """What every model runs, or the conditions of what is wrong."""
    try:
        manifest = load_project(Options(project_dir=shop, **options))  # type: ignore[arg-type]
        return dict(compiled_files(manifest).compile(manifest.models))
    except LakesqlError as error:
        return sorted(problem.condition for problem in error.problems)


def files_of(shop: Path) -> dict[str, str]:
    folder = outputs_of(shop).compiled
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*.sql")
    }


def change(path: str, old: str, new: str) -> Edit:
    def edit(shop: Path) -> None:
        text = (shop / path).read_text()
        assert old in text
        (shop / path).write_text(text.replace(old, new))

    return edit


EDITS: dict[str, Edit] = {
    "a model": change("models/orders.sql", "customer_id, ", ""),
    "a macro": change("macros/text.sql", "lower(trim(", "upper(trim("),
    "a macro is gone": change("macros/text.sql", "macro page_of", "macro page_off"),
    "a variable": change("pyproject.toml", "big_order = 500", "big_order = 501"),
    "a default of a folder": change(
        "pyproject.toml", 'tags = ["report"]', 'namespace = "reports"'
    ),
    "the project's name": change("pyproject.toml", 'name = "shop"', 'name = "shop2"'),
    "the target's namespace": change(
        "profiles.yml", "namespace: shop", "namespace: other"
    ),
    "the target's catalog": change(
        "profiles.yml", "{name: lake, type: sql", "{name: pond, type: sql"
    ),
    "a stream's type": change(
        "streams/shop.yml",
        "customer_id: bigint\n      amount",
        "customer_id: int\n      amount",
    ),
    "a stream's column": change(
        "streams/shop.yml", "      status: {type: string", "      state: {type: string"
    ),
    "a stream's watermark": change(
        "streams/shop.yml", "    watermark: {column: viewed_at, delay: 2 hours}\n", ""
    ),
    "a stream's topic": change(
        "streams/shop.yml", "topic: shop.orders", "topic: shop.orders2"
    ),
    "a stream's connection": change(
        "streams/shop.yml", "connection: shop", "connection: other"
    ),
    "a stream's batches": change(
        "streams/shop.yml", "max_per_batch: 100", "max_per_batch: 99"
    ),
    "a column is required": change(
        "streams/shop.yml", "visitor: string", "visitor: {type: string, required: true}"
    ),
    "the target's trigger": change(
        "profiles.yml", "run: once", "run: once\n      trigger: 7 seconds"
    ),
    "a column's description": change(
        "models/shop.yml", "In euros, VAT included.", "In dollars."
    ),
    "a model's description": change(
        "models/shop.yml", "Orders as they are now. Purged", "Orders. Purged"
    ),
    "the table that a model joins": change(
        "models/customers.sql", "keys=", "table='people', keys="
    ),
    "the columns of a model read as a stream": change(
        "models/clicks.sql", "view_id, visitor", "visitor AS view_id"
    ),
    "the mode of a model read as a stream": change(
        "models/clicks.sql", "mode='append'", "mode='upsert', keys='page'"
    ),
    "a model is gone": lambda shop: (shop / "models" / "customers.sql").unlink(),
    "a stream is gone": lambda shop: (shop / "streams" / "shop.yml").unlink(),
    "a model has moved": lambda shop: (shop / "models/clicks.sql").rename(
        shop / "models/reports/clicks.sql"
    ),
    "a compiled file was edited": lambda shop: (
        shop / "target/compiled/models/orders.sql"
    ).write_text("x"),
    "a compiled file is not text": lambda shop: (
        shop / "target/compiled/models/orders.sql"
    ).write_bytes(b"\xff"),
    "the compiled files are gone": lambda shop: shutil.rmtree(
        shop / "target" / "compiled"
    ),
}


@pytest.mark.parametrize("name", a_few(EDITS, 2))
def test_an_edit_is_seen(
    compiled: tuple[Path, dict[str, str]], tmp_path: Path, name: str
) -> None:
    folder, before = compiled
    shop = tmp_path / "shop"
    shutil.copytree(folder, shop)
    EDITS[name](shop)
    found, written = compile_shop(shop), files_of(shop)
    shutil.rmtree(shop / "target")
    assert found == compile_shop(shop)
    assert {path: written[path] for path in files_of(shop)} == files_of(shop)
    if "compiled" not in name:
        assert found != before


def test_vars_and_targets_of_the_command_line_are_seen(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "SPARK_MASTER",
        "CATALOG_URI",
        "LAKESQL_SECRET_CATALOG",
        "CHECKPOINTS",
        "KAFKA_BOOTSTRAP",
    ):
        monkeypatch.setenv(name, "x")
    (shop / "models" / "where.sql").write_text(
        "{{ config(mode='append') }}\nSELECT '{{ target.name }}' AS target FROM {{ stream('orders') }}"
    )
    first, other = compile_shop(shop), compile_shop(shop, vars="{big_order: 7}")
    assert isinstance(first, dict) and isinstance(other, dict)
    assert {name for name in first if first[name] != other[name]} == {"order_states"}
    prod = compile_shop(shop, target="prod")
    assert isinstance(prod, dict)
    assert {name for name in first if first[name] != prod[name]} == {"where"}
    assert compile_shop(shop) == first


def test_the_order_of_a_variables_entries_is_seen(shop: Path) -> None:
    """A template walks through them in it."""
    (shop / "models" / "wide.sql").write_text(
        "{{ config(mode='append') }}\nSELECT order_id{% for name, text in var('names').items() %}, "
        "'{{ text }}' AS {{ name }}{% endfor %} FROM {{ stream('orders') }}"
    )
    first = compile_shop(shop, vars="{names: {a: x, b: y}}")
    other = compile_shop(shop, vars="{names: {b: y, a: x}}")
    assert isinstance(first, dict) and isinstance(other, dict)
    assert first["wide"].index("'x'") < first["wide"].index("'y'")
    assert other["wide"].index("'y'") < other["wide"].index("'x'")


def test_a_model_that_is_wrong_is_wrong_again(shop: Path) -> None:
    change("models/orders.sql", "SELECT order_id", "SELECT upper(order_id)")(shop)
    assert compile_shop(shop) == ["unnamed-column"]
    assert compile_shop(shop) == ["unnamed-column"]


@pytest.mark.checks
@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: b"",
        lambda content: b"{}",
        lambda content: b"\xff\x00",
        lambda content: content[:-1],
        lambda content: content.replace(b'"orders', b'"ordres').replace(
            b"orders.sql", b"ordres.sql"
        ),
        lambda content: b"0.0.1" + content[content.index(b" ") :],
    ],
    ids=("empty", "short", "bytes", "cut", "changed", "another-version"),
)
def test_a_cache_that_is_not_as_it_was_written_is_empty(
    shop: Path, spoil: Callable[[bytes], bytes]
) -> None:
    first = compile_shop(shop)
    contents = {path: path.read_bytes() for path in outputs_of(shop).cache.iterdir()}
    assert sorted(path.stem for path in contents) == [
        "compiled",
        "files",
        "keys",
        "project",
    ]
    for path, content in contents.items():
        assert spoil(content) != content
        path.write_bytes(spoil(content))
    assert compile_shop(shop) == first
    assert {path: path.read_bytes() for path in contents} == contents


def test_an_entry_is_found_under_its_key_and_forgotten_with_its_name(
    tmp_path: Path,
) -> None:
    cache = CacheFile(tmp_path / "deep" / "c.json")
    cache.put("a", "key", [1])
    cache.put("b", "key", [2])
    cache.save({"b"})
    again = CacheFile(tmp_path / "deep" / "c.json")
    assert (again.get("a", "key"), again.get("b", "key"), again.get("b", "other")) == (
        None,
        [2],
        None,
    )


def test_a_cache_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = CacheFile(tmp_path / "file" / "c.json")
    cache.put("a", "key", 1)
    cache.save({"a"})
    assert (tmp_path / "file").read_bytes() == b""


def test_nothing_is_written_where_nothing_has_changed(shop: Path) -> None:
    compile_shop(shop)
    before = {
        path: path.stat().st_mtime_ns
        for path in (shop / "target").rglob("*")
        if path.is_file()
    }
    compile_shop(shop)
    assert {
        path: path.stat().st_mtime_ns
        for path in (shop / "target").rglob("*")
        if path.is_file()
    } == before


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
)
VALUES = st.recursive(
    SCALARS
    | st.frozensets(st.text())
    | st.datetimes(timezones=st.none() | st.timezones().map(lambda _: None)),
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_values_come_back_as_they_were(value: object) -> None:
    found = decoder([])(json.loads(json.dumps(encode(value))))
    assert (found, type(found)) == (value, type(value))


PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(PLAIN)
def test_nodes_come_back_as_they_were(value: object) -> None:
    node = node_of(value, Place("a.yml", 1, 2))
    assert decoder([Node, Place])(json.loads(json.dumps(encode(node)))) == node


@each_of(
    "config",
    [
        Append(),
        Append(trigger=Every("1 minute", 60_000), tags=("a",)),
        Upsert(keys=("a",)),
        Upsert(keys=("a",), table="t"),
        Append(
            maintenance=Maintenance(
                rewrite_data_files=None, expire_snapshots=ExpireSnapshots(retain_last=3)
            )
        ),
    ],
)
def test_configurations_come_back_as_they_were(config: Append | Upsert) -> None:
    decode = decoder(
        [
            Append,
            Upsert,
            AvailableNow,
            Every,
            Maintenance,
            *PROCEDURES.values(),
            Duration,
            Size,
        ]
    )
    assert decode(json.loads(json.dumps(encode(config)))) == config


@each_of("found", [["Path", "/"], ["os.system", "x"], ["__class__"], [7], [["()"]]])
def test_nothing_but_the_named_classes_is_made(found: object) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, IndexError)):
        decoder([Place])(found)


def test_files_that_are_kept_in_a_project_do_not_change_with_the_day(
    shop: Path, tmp_path: Path
) -> None:
    manifest, copies = load_project(Options(project_dir=shop)), tmp_path / "copies"
    first, later = datetime(2026, 3, 10, tzinfo=UTC), datetime(2026, 4, 10, tzinfo=UTC)
    texts = compiled_files(manifest, at=first).compile(manifest.models)
    assert "TIMESTAMP '2026-03-05 00:00:00.000Z' /* 5 days before it runs" in "".join(
        texts.values()
    )
    assert compiled_files(manifest, at=later).compile(manifest.models) == texts, (
        "they are known to be right"
    )
    write_copies(manifest, texts, copies)
    before = {path: path.read_text() for path in copies.rglob("*.sql")}
    shutil.rmtree(outputs_of(shop).target)
    newer = compiled_files(manifest, at=later).compile(manifest.models)
    assert newer != texts and newer.keys() == texts.keys()
    write_copies(manifest, newer, copies)
    assert (
        before and {path: path.read_text() for path in copies.rglob("*.sql")} == before
    )


@pytest.mark.parametrize(
    "edited", ["names.py", "project/cache.py", "modes/batches/merge.py"]
)
def test_a_cache_is_of_no_lakesql_in_which_any_file_was_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: str
) -> None:
    package = tmp_path / "lakesql"
    shutil.copytree(
        Path(cache.__file__).parents[1],
        package,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    monkeypatch.setattr(cache, "__file__", str(package / "project" / "cache.py"))
    writer = cache._writer.__wrapped__
    before = writer()
    assert writer() == before
    (package / edited).touch()
    assert writer() != before


def test_a_cache_is_of_no_other_python(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache._writer.__wrapped__()
    monkeypatch.setattr(sys, "hexversion", sys.hexversion + 1)
    assert cache._writer.__wrapped__() != before
