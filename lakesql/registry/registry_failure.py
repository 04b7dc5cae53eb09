"""Translates failures of a schema registry, or of the issuer of its tokens, to errors
of lakesql. Pure."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from lakesql.errors import LakesqlError, ProfileError, TransientError
from lakesql.registry.connection import Registry

REFUSED = (401, 403)


def status_of(error: BaseException) -> int | None:
    """The HTTP status that the registry has answered with; None if it has not
    answered."""
    return getattr(error, "http_status_code", None)


def explain_failure(registry: Registry, error: BaseException, why: str) -> LakesqlError:
    """The lakesql error for an error of the client. `why` is the error's text without
    secrets."""
    asked = (
        "the issuer of tokens " + registry.issuer
        if _is_of_issuer(error)
        else f"the registry {registry.name}"
    )
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _untrusted(cause, asked, why)
        if isinstance(cause, ssl.SSLError) and "alert" in str(cause).lower():
            return _unproved(registry, asked, why)
    if _is_of_issuer(error) and any(_is_refusal(cause) for cause in _causes(error)):
        what = f"{_capital(asked)} refuses the connection's login."
        fix = "Correct `bearer.auth.client.id`, `bearer.auth.client.secret` and `bearer.auth.scope` in its options."
        return ProfileError.of("wrong-credentials", what, why=why, fix=fix)
    if status_of(error) in REFUSED:
        what = f"The registry {registry.name} refuses the connection's credentials."
        return ProfileError.of(
            "wrong-credentials",
            what,
            why=why,
            fix=_correct_login(registry, status_of(error)),
        )
    return TransientError.of(
        "registry-unreachable", f"{_capital(asked)} does not answer.", why=why
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes: while the client's library handles one error, it raises
    others."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def _is_of_issuer(error: BaseException) -> bool:
    return any(type(cause).__name__ == "OAuthTokenError" for cause in _causes(error))


def _is_refusal(cause: BaseException) -> bool:
    """Whether the issuer has refused a token (RFC 6749, section 5.2)."""
    return type(cause).__name__ == "OAuthError" and bool(getattr(cause, "error", ""))


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _untrusted(
    error: ssl.SSLCertVerificationError, asked: str, why: str
) -> LakesqlError:
    fix = "Give the connection `ca`: a PEM file with the authority that has signed it."
    if "mismatch" in str(error).lower() or "not valid for" in str(error).lower():
        fix = "Write the host into the url that the certificate is made for."
    elif "expired" in str(error).lower():
        fix = "Its certificate has to be renewed where it runs."
    return ProfileError.of(
        "certificate-untrusted",
        f"The certificate of {asked} is not trusted.",
        why=why,
        fix=fix,
    )


def _unproved(registry: Registry, asked: str, why: str) -> LakesqlError:
    what = f"{_capital(asked)} does not take the connection's certificate."
    fix = "Give the connection a `certificate` that it trusts, with its `certificate_key`."
    if not registry.certificate:
        what = (
            f"{_capital(asked)} asks for a certificate, and the connection shows none."
        )
        fix = "Give the connection a `certificate` and its `certificate_key`, as PEM files."
    return ProfileError.of("certificate-untrusted", what, why=why, fix=fix)


def _correct_login(registry: Registry, status: int | None) -> str:
    if status == 403:
        return "Let the login read subjects and schemas there, or give the connection another one."
    if registry.issuer:
        return "Its tokens are none that the registry takes: correct `bearer.auth.scope` in the connection's options."
    if registry.token:
        return "Give the connection a `token` that has not expired."
    return (
        "Correct `user` and `password` of the connection."
        if registry.user
        else "Give the connection a login."
    )
