"""A registry behind TLS and OAuth: whom it trusts and who trusts it, and what each
refusal is called."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakesql.errors import LakesqlError, ProfileError, TransientError
from lakesql.registry.connection import Registry
from lakesql.registry.registry_client import fetch_schema
from tests.servers.certificates import Authority, server_context
from tests.servers.memory_registry import MemoryRegistry, open_memory_registry

SCHEMA = {
    "type": "record",
    "name": "shop.Money",
    "fields": [{"name": "cents", "type": "long"}],
}
QUICK = {"max.retries": "0", "retries.wait.ms": "1"}
SECRET = "s3cr3t-of-the-client"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


@pytest.fixture
def stranger(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "stranger")


def refused(ask: Callable[[], Any]) -> LakesqlError:
    with pytest.raises(LakesqlError) as found:
        ask()
    return found.value


def said(error: LakesqlError) -> tuple[str, str]:
    (problem,) = error.problems
    return problem.condition, f"{problem.what} {problem.fix}"


def test_an_authority_of_ones_own_is_trusted_and_no_other(
    authority: Authority, stranger: Authority
) -> None:
    with open_memory_registry(server_context(authority.sign("registry"))) as registry:
        number = registry.register("money", SCHEMA)

        def ask(**options: str) -> Any:
            return fetch_schema(
                Registry(registry.url, options=QUICK, **options), number
            )

        assert ask(ca=str(authority.file)).id == number
        for options in ({}, {"ca": str(stranger.file)}):
            error = refused(lambda options=options: ask(**options))  # type: ignore[misc]
            condition, text = said(error)
            assert condition == "certificate-untrusted" and "`ca`" in text
            # nobody tries again what will not change
            assert isinstance(error, ProfileError)


@pytest.mark.parametrize(
    ("made", "advice"),
    [
        ({"host": "127.0.0.2"}, "the host"),
        ({"now": datetime.now(UTC) - timedelta(days=3)}, "renewed"),
    ],
)
def test_certificates_that_are_not_good_say_why(
    authority: Authority, made: dict[str, Any], advice: str
) -> None:
    with open_memory_registry(
        server_context(authority.sign("registry", **made))
    ) as registry:
        connection = Registry(registry.url, ca=str(authority.file), options=QUICK)
        condition, text = said(refused(lambda: fetch_schema(connection, 1)))
    assert condition == "certificate-untrusted" and advice in text


def test_a_registry_that_asks_for_certificates_takes_those_that_it_trusts(
    authority: Authority, stranger: Authority
) -> None:
    with open_memory_registry(
        server_context(authority.sign("registry"), authority)
    ) as registry:
        number = registry.register("money", SCHEMA)
        mine, other = authority.sign("client"), stranger.sign("other")

        def ask(**options: str) -> Any:
            return fetch_schema(
                Registry(
                    registry.url, ca=str(authority.file), options=QUICK, **options
                ),
                number,
            )

        assert (
            ask(certificate=str(mine.certificate), certificate_key=str(mine.key)).id
            == number
        )
        condition, text = said(refused(ask))
        assert condition == "certificate-untrusted" and "shows none" in text
        strange = {
            "certificate": str(other.certificate),
            "certificate_key": str(other.key),
        }
        condition, text = said(refused(lambda: ask(**strange)))
        assert condition == "certificate-untrusted" and "does not take" in text
        for key in ("ca", "certificate", "certificate_key"):
            given = {
                "certificate": str(mine.certificate),
                "certificate_key": str(mine.key),
                key: "/nowhere.pem",
            }
            wrong = Registry(
                registry.url, options=QUICK, **{"ca": str(authority.file), **given}
            )
            condition, text = said(
                refused(lambda wrong=wrong: fetch_schema(wrong, number))
            )  # type: ignore[misc]
            assert condition == "registry-options" and f"`{key}`" in text


def oauth(registry: MemoryRegistry, **more: str) -> dict[str, str]:
    return {
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.client.id": "lakesql",
        "bearer.auth.client.secret": SECRET,
        "bearer.auth.scope": "read",
        "bearer.auth.issuer.endpoint.url": f"{registry.url}/token",
        **QUICK,
        **more,
    }


def test_tokens_are_asked_for_when_they_are_needed_and_again_when_they_end(
    authority: Authority,
) -> None:
    """The issuer's certificate is that of the own authority too."""
    with open_memory_registry(server_context(authority.sign("registry"))) as registry:
        number = registry.register("money", SCHEMA)
        registry.wants_token, registry.clients = True, {"lakesql": SECRET}
        connection = Registry(
            registry.url, ca=str(authority.file), options=oauth(registry)
        )

        def ask(id_: int) -> Any:
            return fetch_schema(connection, id_)

        assert ask(number).id == number and registry.given == 1
        # the token is good for an hour
        assert ask(number + 1) is None and registry.given == 1
        registry.revoke()
        assert ask(number + 2) is None and registry.given == 2
        registry.token_s = -1  # the issuer's clock is wrong: no token is ever good
        registry.revoke()
        error = refused(lambda: ask(number + 3))
        assert said(error)[0] == "wrong-credentials" and isinstance(error, ProfileError)


def test_a_login_that_the_issuer_refuses_is_named_and_one_that_is_away_is_asked_again() -> (
    None
):
    with open_memory_registry() as registry:
        registry.wants_token, registry.clients = True, {"lakesql": "another"}
        error = refused(
            lambda: fetch_schema(Registry(registry.url, options=oauth(registry)), 1)
        )
        condition, text = said(error)
        assert (
            condition == "wrong-credentials"
            and "bearer.auth.client.id" in text
            and registry.url in text
        )
        assert SECRET not in str(error)
        away = oauth(
            registry, **{"bearer.auth.issuer.endpoint.url": "http://127.0.0.1:9/token"}
        )
        error = refused(lambda: fetch_schema(Registry(registry.url, options=away), 1))
        condition, text = said(error)
        assert condition == "registry-unreachable" and "127.0.0.1:9/token" in text
        assert isinstance(error, TransientError)


def test_a_login_that_may_not_read_is_told_from_one_that_is_wrong() -> None:
    with open_memory_registry() as registry:
        texts = {}
        for registry.status in (401, 403):
            condition, texts[registry.status] = said(
                refused(lambda: fetch_schema(Registry(registry.url, token="t"), 1))
            )
            assert condition == "wrong-credentials"
    assert "expired" in texts[401] and "read subjects" in texts[403]
