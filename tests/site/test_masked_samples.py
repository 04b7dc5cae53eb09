"""No value of a sensitive column stands anywhere on a site."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lakesql.cli.init import write_project
from tests.site.test_site import Page, make

pytestmark = pytest.mark.checks

Run = Callable[..., tuple[int, str, str]]

RAW = (
    *(
        "Wilhelmina Quux",
        "WILHELMINA QUUX",
        "w.quux@corp.invalid",
        "4929 1111 2222",
        "98765432109",
    ),
    *("undeclared-7f3a", "trace-5e1d"),
)

STREAM = """streams:
  - name: people
    connection: shop
    topic: shop.people
    key: [number]
    columns:
      id: bigint
      who: {type: string, sensitive: true}
      email: string
      payment: "struct<method: string, card_number: string>"
      number: {type: bigint, sensitive: true}
      note: string
"""


def write_people(folder: Path) -> None:
    """The shop with a stream whose records say what nobody is to see, in each place
    where they can."""
    write_project(folder, "shop")
    who, _, email, card, number, undeclared, trace = RAW
    value = {
        "id": 1,
        "who": who,
        "email": email,
        "payment": {"method": "visa", "card_number": card},
    }
    value |= {
        "number": int(number),
        "note": f"Call {who.upper()} or {who}",
        "extra": {"deep": [undeclared]},
    }
    lines = [
        {
            "partition": 0,
            "offset": 0,
            "key": number,
            "value": value,
            "headers": [["trace", trace]],
        },
        {
            "partition": 0,
            "offset": 1,
            "key": json.dumps({"number": number}),
            "value": json.dumps(value),
        },
        {"partition": 0, "offset": 2, "key": None, "value": f"no JSON of {who}"},
        {"partition": 0, "offset": 3, "key": who, "value": None},
    ]
    recorded = folder / "streams/recorded/shop.people"
    recorded.mkdir()
    (recorded / "part-00001.jsonl").write_text(
        "".join(f"{json.dumps(line)}\n" for line in lines)
    )
    (folder / "streams/people.yml").write_text(STREAM)
    (folder / "models/people.sql").write_text(
        "{{ config(mode='append') }}\nSELECT id, who, email, payment, number FROM {{ stream('people') }}\n"
    )


def test_no_value_of_a_sensitive_column_stands_anywhere_on_the_site(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_people(tmp_path / "shop")
    code, site = make(run, tmp_path / "shop", monkeypatch)
    assert code == 0
    files = [path for path in site.rglob("*") if path.is_file()]
    found = [
        (path.name, raw)
        for path in files
        for raw in RAW
        if raw.encode() in path.read_bytes()
    ]
    assert found == []
    sample = Page((site / "streams/people.html").read_text("utf-8")).text
    assert (
        '"id":1,"who":"•••"' in sample
        and '"method":"visa","card_number":"•••"' in sample
    )
    assert "sensitive" in sample


def test_the_same_values_are_shown_where_the_contract_says_that_they_may_be(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_people(tmp_path / "shop")
    open_columns = STREAM.replace("sensitive: true", "sensitive: false")
    open_columns = open_columns.replace(
        "email: string", "email: {type: string, sensitive: false}"
    )
    (tmp_path / "shop/streams/people.yml").write_text(open_columns)
    _, site = make(run, tmp_path / "shop", monkeypatch)
    sample = Page((site / "streams/people.html").read_text("utf-8")).text
    who, _, email, card, number, undeclared, trace = RAW
    assert all(raw in sample for raw in (who, email, number))
    assert not any(raw in sample for raw in (card, undeclared, trace))


def test_a_rule_of_a_group_masks_the_sample_of_its_table(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shop"
    write_project(folder, "shop")
    (folder / "streams/mirror.yml").write_text(
        "streams: [{name: mirror, connection: shop, topic: shop.public.products, envelope: debezium}]\n"
        "source_tables: [{stream: mirror, name: public.products, topic: shop.public.products, key: [product_id],"
        " columns: {product_id: int, name: string, price: 'decimal(10,2)', stock: int}}]\n"
    )
    (folder / "models/mirrored.sql").write_text(
        "{{ config(mode='cdc', tables={'columns': {'*.name': 'mask_hash', '*.stock': 'cast(string)'}}) }}\n"
        "SELECT * FROM {{ stream('mirror') }}\n"
    )
    code, site = make(run, folder, monkeypatch)
    assert code == 0
    sample = Page(
        (site / "streams/mirror__public_products.html").read_text("utf-8")
    ).text
    assert (
        '"name":"•••"' in sample
        and "Steel lamp" not in sample
        and '"price":"359.00"' in sample
    )
    of_feed = Page((site / "streams/mirror.html").read_text("utf-8")).text
    assert '"product_id":"•••"' in of_feed and "359.00" not in of_feed, (
        "a feed without a contract shows no value"
    )
