"""Unit tests that are written from recordings."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from lakesql.cli.init import write_project

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh shop, and the working directory in it."""
    write_project(tmp_path / "shop", "shop")
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path / "shop"


def refused(run: Run, *arguments: str) -> list[str]:
    code, _, err = run("test", *arguments, "--log-format", "json")
    assert code == 2
    return [
        line["condition"]
        for line in map(json.loads, err.splitlines())
        if line["event"] == "problem"
    ]


@pytest.mark.checks
def test_what_is_recorded_passes_until_the_model_changes(run: Run, shop: Path) -> None:
    code, out, err = run(
        "test", "--record", "Monday's orders", "-s", "orders", "--records", "655"
    )
    assert code == 0, err
    assert out.startswith("models/unit_tests_monday_s_orders.yml: 654 records make ")
    assert (
        "1 record is left out, as Spark alone knows what becomes of the value of amount"
        in out
    )
    text = (shop / "models" / "unit_tests_monday_s_orders.yml").read_text("utf-8")
    assert "dead_letters:\n        - {" in text
    assert text.count("{order_id: ") > 654
    assert run("test", "--unit", "-s", "orders")[0] == 0

    model = shop / "models" / "orders.sql"
    model.write_text(
        model.read_text("utf-8").replace(
            "amount, status", "amount, upper(status) AS status", 1
        ),
        "utf-8",
    )
    code, out, _ = run("test", "--unit", "-s", "orders")
    assert code == 1
    assert "FAIL         orders: Monday's orders" in out


def write_views(shop: Path, columns: str, values: Sequence[object]) -> None:
    """One model, `views`, of everything in one stream, of which these values are
    recorded."""
    topic = shop / "streams" / "recorded" / "shop.page_views"
    for file in topic.glob("*.jsonl"):
        file.unlink()
    lines = (
        {"partition": 0, "offset": at, "timestamp": at, "value": value}
        for at, value in enumerate(values)
    )
    (topic / "part-0.jsonl").write_text(
        "".join(f"{json.dumps(line)}\n" for line in lines), "utf-8"
    )
    stream = f"  - {{name: page_views, connection: shop, topic: shop.page_views, columns: {{{columns}}}}}\n"
    (shop / "streams" / "shop.yml").write_text(f"streams:\n{stream}", "utf-8")
    settings = shop / "pyproject.toml"
    settings.write_text(
        settings.read_text("utf-8").partition("[tool.lakesql.models")[0], "utf-8"
    )
    for path in (shop / "models").rglob("*"):
        if path.is_file():
            path.unlink()
    (shop / "models" / "views.sql").write_text(
        "{{ config(mode='append', max_dead_letter_ratio=1) }}\nSELECT * FROM {{ stream('page_views') }}\n",
        "utf-8",
    )


def test_a_value_stands_as_it_was_sent(run: Run, shop: Path) -> None:
    columns = (
        "view_id: {type: string, required: true}, at: timestamp, price: 'decimal(5,2)'"
    )
    write_views(
        shop,
        columns,
        [{"view_id": "yes", "at": "2026-03-02T07:26:18.123456Z", "more": 1}, "{no"],
    )
    code, _, err = run("test", "--record", "views", "-s", "views")
    assert code == 0, err
    text = (shop / "models" / "unit_tests_views.yml").read_text("utf-8")
    assert (
        '- - {view_id: "yes", at: "2026-03-02T07:26:18.123456Z"}\n            - "{no"\n'
        in text
    )
    assert '- {view_id: "yes", at: "2026-03-02T07:26:18.123456Z", price: null}' in text
    assert (
        "- {reason: unparsable, stream: page_views}" in text
        or "- {stream: page_views, reason: unparsable}" in text
    )


def test_a_double_is_a_number_however_small_or_large(run: Run, shop: Path) -> None:
    write_views(
        shop,
        "viewId: int, score: double",
        [{"viewId": 1, "score": each} for each in (1e-5, -2.5e-9, 1e16, 3)],
    )
    code, _, err = run("test", "--record", "views", "-s", "views")
    assert code == 0, err
    text = (shop / "models" / "unit_tests_views.yml").read_text("utf-8")
    for written in ("1.0e-05", "-2.5e-09", "1.0e+16", "3.0"):
        assert f"        - {{viewId: 1, score: {written}}}\n" in text
    assert run("test", "--unit")[0] == 0


def test_a_text_that_no_file_can_hold_is_not_recorded(run: Run, shop: Path) -> None:
    write_views(shop, "view_id: string", [{"view_id": "a"}])
    assert refused(run, "--record", "views\uffff", "-s", "views") == [
        "test-not-recorded"
    ]


@pytest.mark.checks
def test_nothing_is_written_where_there_is_no_answer(run: Run, shop: Path) -> None:
    before = sorted((shop / "models").rglob("*"))
    assert refused(run, "--record", "all") == ["usage"]
    assert refused(run, "--record", "x", "--data", "-s", "orders") == ["usage"]
    assert refused(run, "--record", "a mirror", "-s", "products") == [
        "test-not-recorded"
    ]
    assert refused(run, "--record", "a purged order leaves", "-s", "orders") == [
        "test-not-recorded"
    ]
    assert refused(run, "--record", "", "-s", "orders") == ["usage"]
    assert sorted((shop / "models").rglob("*")) == before

    assert run("test", "--record", "first", "-s", "orders")[0] == 0
    assert refused(run, "--record", "FIRST", "-s", "orders") == ["test-not-recorded"]


def test_a_stream_that_is_not_recorded_on_the_target_is_named(
    run: Run, shop: Path
) -> None:
    profile = shop / "profiles.yml"
    text = profile.read_text("utf-8").replace(
        "{type: recorded, path: streams/recorded}", "{type: files, path: .}"
    )
    profile.write_text(text, "utf-8")
    assert refused(run, "--record", "first", "-s", "orders") == ["test-not-recorded"]
