"""What a registry answers, by Confluent's client: logins, references, and a registry
that refuses or is away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lakesql.errors import LakesqlError
from lakesql.registry.connection import Registry
from lakesql.registry.registry_client import check_registry, fetch_newest, fetch_schema
from tests.servers.memory_registry import MemoryRegistry, open_memory_registry

MONEY = {
    "type": "record",
    "name": "shop.Money",
    "fields": [{"name": "cents", "type": "long"}],
}
ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [{"name": "price", "type": "shop.Money"}],
}


AT_ONCE = {"retries.wait.ms": "1", "retries.max.wait.ms": "1"}
"""The client asks again without waiting."""


@pytest.fixture
def registry() -> Iterator[MemoryRegistry]:
    with open_memory_registry() as made:
        yield made


@pytest.mark.parametrize(
    ("wanted", "login"),
    [
        ("Basic dTpw", {"user": "u", "password": "p"}),
        ("Bearer t", {"token": "t"}),
        ("", {}),
    ],
)
def test_a_login_is_sent_and_one_that_is_refused_is_named(
    wanted: str, login: dict[str, Any], registry: MemoryRegistry
) -> None:
    number = registry.register("money", MONEY)
    registry.login = wanted
    found = fetch_schema(Registry(registry.url, **login), number)
    assert found is not None and json.loads(found.text)["name"] == "shop.Money"
    registry.login = "Bearer of another"
    with pytest.raises(LakesqlError) as refused:
        check_registry(Registry(registry.url, **login))
    assert [problem.condition for problem in refused.value.problems] == [
        "wrong-credentials"
    ]


def test_what_is_not_there_is_none_and_what_does_not_answer_is_an_error(
    registry: MemoryRegistry,
) -> None:
    connection = Registry(registry.url)
    assert fetch_schema(connection, 7) is None
    assert fetch_newest(connection, "money") is None
    registry.register("money", MONEY)
    newest = fetch_newest(connection, "money")
    assert newest is not None and newest.id == 1
    registry.status = 500
    with pytest.raises(LakesqlError) as silent:
        fetch_schema(Registry(f"{registry.url}/", options=AT_ONCE), 1)
    assert [problem.condition for problem in silent.value.problems] == [
        "registry-unreachable"
    ]


def test_a_schema_has_those_that_it_refers_to_in_it(registry: MemoryRegistry) -> None:
    registry.register("money", MONEY)
    number = registry.register("orders", ORDER, [("shop.Money", "money", 1)])
    found = fetch_schema(Registry(registry.url), number)
    assert found is not None
    (price,) = json.loads(found.text)["fields"]
    assert [field["name"] for field in price["type"]["fields"]] == ["cents"]
