"""How boto3 opens an AWS service for a connection, and what its errors mean."""

from __future__ import annotations

from typing import Any, Protocol

from lakesql.errors import LakesqlError, ProfileError, TransientError, not_installed

REFUSED = frozenset(
    {
        *(
            "UnrecognizedClientException",
            "InvalidSignatureException",
            "ExpiredTokenException",
        ),
        *(
            "InvalidClientTokenId",
            "MissingAuthenticationTokenException",
            "IncompleteSignatureException",
        ),
    }
)
"""The error codes of a service that refuses the credentials."""


class AwsLogin(Protocol):
    """The address of a service and the login. What is empty is boto3's own: variables,
    profiles, roles."""

    @property
    def region(self) -> str:
        """The region."""

    @property
    def endpoint(self) -> str:
        """The URL of another service than AWS's."""

    @property
    def access_key_id(self) -> str:
        """The id of an access key."""

    @property
    def secret_access_key(self) -> str:
        """The secret of that key."""

    @property
    def session_token(self) -> str:
        """The token of temporary credentials."""

    @property
    def profile(self) -> str:
        """A profile of the files that boto3 reads."""


def open_service(login: AwsLogin, service: str, label: str) -> Any:
    """A boto3 client for `kinesis` or `sqs`, whose extra has the same name. Raises
    `ProfileError`."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ModuleNotFoundError:
        raise not_installed("boto3", service) from None
    keys = {
        "aws_access_key_id": login.access_key_id or None,
        "aws_secret_access_key": login.secret_access_key or None,
        "aws_session_token": login.session_token or None,
        "profile_name": login.profile or None,
        "region_name": login.region or None,
    }
    config = Config(
        retries={"max_attempts": 3, "mode": "standard"}, max_pool_connections=16
    )
    try:
        return boto3.Session(**keys).client(
            service, endpoint_url=login.endpoint or None, config=config
        )
    except (BotoCoreError, ValueError) as error:
        raise ProfileError.of(
            "client-option", f"boto3 cannot open {label}: {error}"
        ) from None


def explain_client(error: Exception, label: str) -> LakesqlError:
    """The error for an exception that boto3 raises before the service has answered."""
    kind = type(error).__name__
    if (
        kind
        in ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError")
        or "Token" in kind
    ):
        return ProfileError.of(
            "wrong-credentials", f"boto3 finds no credentials for {label}: {error}"
        )
    if kind in (
        "NoRegionError",
        "InvalidRegionError",
        "ProfileNotFound",
        "ParamValidationError",
    ):
        return ProfileError.of("client-option", f"boto3 cannot open {label}: {error}")
    return TransientError.of(
        "connection-unreachable", f"{label} does not answer: {error}"
    )
