"""A file that stands for a model for each value of a column, as the project is read."""

from __future__ import annotations

import json
import random
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.compile.compiled import compiled_files
from lakesql.graph.manifest import Manifest
from lakesql.lint.lint import lint
from lakesql.lint.lint_settings import LintSettings
from lakesql.names import LONGEST_NAME
from lakesql.run.samples.pull_schemas import pull_schemas
from lakesql.run.streams.found_values import FoundValues, find_lost, new_members
from lakesql.stream.recording import RawRecord
from lakesql.stream.route_values import MOST_VALUES, text_columns, values_in
from tests.unit.test_groups import load as load_files
from tests.unit.test_groups import selected

STREAM = (
    "streams: [{name: ev, connection: broker, topic: all, key: [id], "
    "columns: {id: bigint, kind: string, email: string, header: 'struct<type:string,n:int>'}}]\n"
)


def load(
    folder: Path,
    files: dict[str, str] | None = None,
    mode: str = "append",
    **tables: Any,
) -> Manifest:
    texts = {
        "streams/shop.yml": STREAM,
        "models/mirror.sql": f"{{{{ config(mode='{mode}', tables={ ({'route': 'kind'} | tables)!r}) }}}}\n"
        "SELECT * FROM {{ stream('ev') }}",
    }
    return load_files(folder, texts | (files or {}))


def record(folder: Path, *values: Any, name: str = "p") -> None:
    place = folder / "recorded/all"
    place.mkdir(parents=True, exist_ok=True)
    lines = (
        {"key": None, "partition": 0, "offset": at, "timestamp": at, "value": it}
        for at, it in enumerate(values)
    )
    (place / f"{name}.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )


def declared(*names: str) -> dict[str, str]:
    entries = [{"stream": "ev", "name": name} for name in names]
    return {"streams/ev.tables.yml": json.dumps({"source_tables": entries})}


def rows_of(compiled: str) -> str:
    """The statement that makes the rows of a batch."""
    return compiled.split("-- each batch: the rows that the SELECT makes of it\n")[
        1
    ].split("\n\n")[0]


def test_each_value_is_a_model_whose_select_says_which(tmp_path: Path) -> None:
    manifest = load(
        tmp_path,
        declared("order-paid", "it's"),
        columns={"*.email": "mask_hash", "*.kind": "drop"},
    )
    assert sorted(manifest.models) == ["mirror.it_s", "mirror.order_paid"]
    model = manifest.models["mirror.order_paid"]
    assert (str(model.table), model.fqn) == (
        "lake.shop.order_paid",
        ("g", "mirror", "order_paid"),
    )
    compiled = compiled_files(manifest).compile(manifest.models)
    assert "FROM ev__order_paid\nWHERE kind = 'order-paid'\n" in rows_of(
        compiled["mirror.order_paid"]
    )
    assert r"WHERE kind = 'it\'s'" in rows_of(compiled["mirror.it_s"])
    assert "* EXCEPT (kind, email)" in rows_of(compiled["mirror.it_s"])


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["mirror"], ["mirror.a_1", "mirror.a_2", "mirror.b"]),
        (["mirror.a_*"], ["mirror.a_1", "mirror.a_2"]),
        (["stream:ev__b+"], ["mirror.b", "stream.ev__b"]),
    ],
)
def test_selectors_find_a_value(
    tmp_path: Path, words: list[str], wanted: list[str]
) -> None:
    assert selected(load(tmp_path, declared("a-1", "a-2", "b")), *words) == wanted


def test_a_route_may_be_a_field(tmp_path: Path) -> None:
    record(
        tmp_path,
        {"header": {"type": "x"}},
        {"header": {"type": 7}},
        {"header": "x"},
        {"kind": "y"},
        [],
        "z",
    )
    manifest = load(tmp_path, mode="upsert", route="header.type")
    assert sorted(manifest.models) == ["mirror.x"]
    assert "WHERE header.type = 'x'" in rows_of(
        compiled_files(manifest).compile(manifest.models)["mirror.x"]
    )
    assert text_columns(manifest.streams["ev"]) == ["kind", "email", "header.type"]


def test_a_route_is_read_from_the_field_that_its_column_says(tmp_path: Path) -> None:
    columns = "{kind: {type: string, from: event-kind}, where: {type: string, in: key}}"
    stream = (
        f"streams: [{{name: ev, connection: broker, topic: all, columns: {columns}}}]"
    )
    feed = load(tmp_path, {"streams/shop.yml": stream}).streams["ev"]
    found = RawRecord(
        "all", 0, 0, 0, b'{"where": "k"}', b'{"event-kind": "v", "kind": "no"}'
    )
    assert (values_in([found], feed, "kind"), values_in([found], feed, "where")) == (
        ["v"],
        ["k"],
    )


def test_an_own_file_takes_a_value_out_and_reads_its_records_alone(
    tmp_path: Path,
) -> None:
    own = "{{ config(mode='upsert', keys=['id']) }} SELECT id FROM {{ stream('ev') }}"
    manifest = load(tmp_path, {**declared("a", "b"), "models/mirror.b.sql": own})
    assert manifest.models["mirror.b"].config.mode == "upsert"
    assert "WHERE kind = 'b'" in rows_of(
        compiled_files(manifest).compile(manifest.models)["mirror.b"]
    )


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_the_models_are_those_of_the_values_that_fit(tmp_path: Path, mode: str) -> None:
    """Of random records, compared with plain Python: which values get models, and which
    are said not to."""
    for seed in range(20):
        chance = random.Random(seed)
        words = [
            "order_a",
            "order_b",
            "Order_A",
            "audit",
            "x y",
            "x/y",
            "",
            "ä",
            "9",
            "a" * 300,
            None,
            5,
        ]
        kinds = [chance.choice(words) for _ in range(chance.randrange(1, 30))]
        include = chance.choice([["*"], ["order_*"], ["*[abxy]*", "9"]])
        exclude = chance.choice([[], ["audit"], ["*_b"]])
        folder = tmp_path / str(seed)
        record(folder, *({"id": 1, "kind": kind} for kind in kinds))
        taken = [
            kind
            for kind in dict.fromkeys(kinds)
            if isinstance(kind, str)
            and any(fnmatchcase(kind, each) for each in include)
            and not any(fnmatchcase(kind, each) for each in exclude)
        ]
        names: dict[str, str] = {}
        unfit = 0
        for kind in taken:
            plain = "".join(
                letter if letter.isascii() and letter.isalnum() else "_"
                for letter in kind
            )
            name = f"_{plain}" if plain[:1].isdigit() else plain
            if (
                name
                and len(f"mirror.{name}") <= LONGEST_NAME
                and name.lower() not in map(str.lower, names)
            ):
                names[name] = kind
            else:
                unfit += 1
        manifest = load(folder, mode=mode, include=include, exclude=exclude)
        assert {
            name: it.member.source_table
            for name, it in manifest.models.items()
            if it.member
        } == {f"mirror.{name}": kind for name, kind in names.items()}
        said = [warning.condition for warning in manifest.warnings]
        assert said == (["table-unfit"] * unfit if taken else ["group-empty"])
        assert manifest.lacks_tables(manifest.models) == bool(unfit)


@pytest.mark.parametrize(
    ("new_tables", "said", "lacks"),
    [
        ("create", [], False),
        ("refuse", ["new-table"], True),
        ("ignore", ["table-left-out"], False),
    ],
)
def test_what_a_batch_has_found_is_known_from_then_on(
    tmp_path: Path, new_tables: str, said: list[str], lacks: bool
) -> None:
    manifest = load(tmp_path, declared("a"), new_tables=new_tables)
    found = FoundValues()
    found.note(manifest, "ev", ["b", "skip"])
    assert (
        found.values == {"ev": ("b", "skip")}
        and found.take("ev")
        and not found.take("ev")
    )
    again = load(tmp_path, declared("a"), new_tables=new_tables, exclude=["skip"])
    assert [warning.condition for warning in again.warnings] == said
    assert ("mirror.b" in again.models) == (new_tables == "create")
    assert again.lacks_tables(again.models) == lacks
    other = load(tmp_path, declared("a"), new_tables=new_tables, route="email")
    assert (other.warnings, [*other.models]) == ((), ["mirror.a"]), (
        "they are values of another column"
    )


def test_a_value_is_noted_once(tmp_path: Path) -> None:
    manifest, found = load(tmp_path, declared("a")), FoundValues()
    found.note(manifest, "ev", ["b"])
    assert found.take("ev")
    found.note(manifest, "ev", ["b"])
    assert not found.take("ev")


def test_a_value_is_new_to_a_run_that_has_its_group_whole(tmp_path: Path) -> None:
    before, now = (
        load(tmp_path, declared(*values)) for values in (["a", "b"], ["a", "b", "c"])
    )
    whole = {"mirror.a", "mirror.b"}
    assert (
        new_members(before, now, whole)
        == ["mirror.c"]
        == new_members(before, now, {*whole, "other"})
    )
    assert new_members(before, now, {"mirror.a", "other"}) == [], (
        "somebody has selected a part of it"
    )
    assert new_members(now, now, {*whole, "mirror.c"}) == []
    assert new_members(load(tmp_path / "empty"), now, whole) == [], (
        "no run has had any of it"
    )
    (tmp_path / "models" / "mirror.sql").unlink()
    assert (
        new_members(before, load_project(Options(project_dir=tmp_path)), whole) == []
    ), "the group is gone"


def test_values_that_cannot_be_kept_are_told(tmp_path: Path) -> None:
    manifest, found = load(tmp_path, declared("a")), FoundValues()
    found.note(manifest, "ev", ["b"])
    assert find_lost(found, load(tmp_path, declared("a"))) == []
    for file in manifest.outputs.cache.glob("routes_*"):
        file.unlink()
    (said,) = find_lost(found, load(tmp_path, declared("a")))
    assert "'b'" in said
    found.keep(manifest)
    assert find_lost(found, load(tmp_path, declared("a"))) == []


def test_a_column_of_many_values_makes_no_tables(tmp_path: Path) -> None:
    manifest = load(tmp_path, declared("a"))
    FoundValues().note(
        manifest, "ev", [f"v{number}" for number in range(5 * MOST_VALUES)]
    )
    again = load(tmp_path, declared("a"))
    assert [warning.condition for warning in again.warnings] == ["group-route"]
    assert [*again.models] == ["mirror.a"] and again.lacks_tables(again.models)


def test_a_table_that_another_model_writes_is_left_to_it(tmp_path: Path) -> None:
    record(tmp_path, {"kind": "orders"}, {"kind": "a"}, {"kind": "a__dead_letter"})
    orders = "{{ config(mode='append') }} SELECT id FROM {{ stream('ev') }}"
    manifest = load(tmp_path, {"models/orders.sql": orders})
    assert sorted(manifest.models) == ["mirror.a", "orders"]
    assert [warning.condition for warning in manifest.warnings] == ["table-unfit"] * 2
    renamed = load(
        tmp_path,
        {"models/orders.sql": orders},
        rename={"orders": "o", "a__dead_letter": "d"},
    )
    assert (
        sorted(renamed.models) == ["mirror.a", "mirror.d", "mirror.o", "orders"]
        and renamed.warnings == ()
    )


def test_a_group_without_a_value_says_so(tmp_path: Path) -> None:
    assert [warning.condition for warning in load(tmp_path).warnings] == ["group-empty"]
    assert load(tmp_path, declared("a")).warnings == ()


def test_a_name_for_a_value_that_nobody_knows_is_told(tmp_path: Path) -> None:
    manifest = load(tmp_path, declared("a"), rename={"b": "c"})
    assert [warning.condition for warning in manifest.warnings] == [
        "unknown-source-table"
    ]
    assert [*manifest.models] == ["mirror.a"]


def test_a_pull_adds_values_and_takes_none_away(tmp_path: Path) -> None:
    record(tmp_path, {"kind": "b"}, {"kind": "no"}, {"kind": "c: d"})
    manifest = load(
        tmp_path,
        {**declared("a"), "streams/more.yml": "source_tables: [{stream: ev, name: z}]"},
        exclude=["no"],
    )
    FoundValues().note(manifest, "ev", ["kept"])
    manifest = load(tmp_path, {**declared("a")}, exclude=["no"])
    (pulled,) = pull_schemas(manifest, ["ev"])
    assert (pulled.path, pulled.is_changed) == ("streams/ev.tables.yml", True)
    text = (tmp_path / pulled.path).read_text()
    assert text.startswith("# Written by `lakesql schema pull`: the values of kind")
    again = load_project(Options(project_dir=tmp_path))
    names = [
        table.name for table in again.source_tables if table.place.path == pulled.path
    ]
    assert sorted(names) == ["a", "b", "c: d", "kept"]
    assert [table.name for table in again.source_tables if not table.is_declared] == [
        "no"
    ]
    assert [each.is_changed for each in pull_schemas(again, ["ev"])] == [False]


def test_the_linter_says_once_what_it_finds(tmp_path: Path) -> None:
    select = "SELECT *, id = '1' AS is_first FROM {{ stream('ev') }}"
    model = f"{{{{ config(mode='append', tables={{'route': 'kind'}}) }}}}\n{select}"
    manifest = load(tmp_path, {**declared("a", "b"), "models/mirror.sql": model})
    assert [
        found.code for found in lint(manifest, LintSettings(), manifest.models)
    ] == ["LK052"]
