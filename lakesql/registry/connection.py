"""The connection to a schema registry, as configured in a profile. Pure;
`registry_client.py` makes the requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, Literal, Self

from lakesql.decode import Node, option, read_option_texts
from lakesql.errors import Problem
from lakesql.location import absolute

Wire = Literal["confluent", "apicurio", "apicurio_headers"]
"""Where a record has the id of its schema: before its value, as a byte 0 and an id of 4
bytes (`confluent`) or of 8 bytes (`apicurio`); or in the header
`apicurio.value.contentId` or `apicurio.value.globalId`, with nothing before the
value."""

ID_BYTES: Mapping[Wire, int] = {"confluent": 4, "apicurio": 8, "apicurio_headers": 8}
"""The length of an id in bytes, after the byte 0 or in a header."""

CONTENT_HEADER, GLOBAL_HEADER = "apicurio.{side}.contentId", "apicurio.{side}.globalId"
"""The headers with the content id and the global id; `side` is `key` or `value`."""


@dataclass(frozen=True, slots=True)
class Registry:
    """A schema registry with Confluent's API, or a folder with the schemas that records
    name."""

    url: str = option(
        "URL of the registry, or several separated by commas; for Apicurio the one that ends with `/apis/ccompat/v7`.",
        default="",
    )
    path: str = option(
        "Folder in place of a URL: `<id>.avsc` is the schema that records name by this id, `global-<id>.avsc` that "
        "of this global id of Apicurio.",
        default="",
    )
    user: str = option("Name of the user who logs in with `password`.", default="")
    password: str = option("Password of the user.", default="")
    token: str = option("Bearer token, in place of user and password.", default="")
    ca: str = option(
        "PEM file with the trusted certificates; those of the machine if left out.",
        default="",
    )
    certificate: str = option(
        "PEM file with the client certificate for the registry.", default=""
    )
    certificate_key: str = option(
        "PEM file with the key of that certificate.", default=""
    )
    options: Mapping[str, str] = option(
        "Other options of Confluent's Python client, such as `proxy` or those of OAuth.",
        factory=dict,
        read=read_option_texts,
        is_hashed=False,
    )

    kind: ClassVar[str] = "registry"

    @property
    def name(self) -> str:
        """The URL or folder, for messages."""
        return self.url or self.path

    @property
    def apicurio_url(self) -> str:
        """The URL of Apicurio's own API, which is next to the one that is compatible
        with Confluent's; '' for any other registry."""
        found = [_APICURIO.fullmatch(each.strip()) for each in self.url.split(",")]
        return (
            ",".join(f"{each[1]}/apis/registry" for each in found if each)
            if all(found)
            else ""
        )

    @property
    def has_globals(self) -> bool:
        """Whether it can resolve Apicurio's global ids."""
        return bool(self.path or self.apicurio_url)

    @property
    def issuer(self) -> str:
        """The URL of the issuer of OAuth tokens; '' if there is none."""
        return self.options.get("bearer.auth.issuer.endpoint.url", "")

    @property
    def digest(self) -> str:
        """A short hash that identifies the registry: ids of one registry mean nothing
        in another."""
        return sha256(self.name.encode()).hexdigest()[:8]

    def resolved(self, directory: Path) -> Self:
        """The same connection with absolute paths; relative ones start at
        `directory`."""
        return replace(
            self,
            path=absolute(self.path, directory),
            ca=absolute(self.ca, directory),
            certificate=absolute(self.certificate, directory),
            certificate_key=absolute(self.certificate_key, directory),
        )

    def problems(self, name: str, node: Node) -> Iterator[Problem]:
        """The problems of its options. `node` is the entry of the connection `name`."""
        if bool(self.url) == bool(self.path):
            what = f"Connection '{name}' needs a `url` or a `path`, and not both."
            yield Problem("registry-options", what, place=node.place)
        if bool(self.user) != bool(self.password):
            what = f"Connection '{name}' has a `user` or a `password` alone."
            yield Problem(
                "registry-options",
                what,
                fix="Give both, or a `token`.",
                place=node.place,
            )
        if self.user and self.token:
            what = f"Connection '{name}' has a user with a password, and a token."
            yield Problem(
                "registry-options",
                what,
                fix="Keep one of the two logins.",
                place=node.key_place("token"),
            )
        if self.certificate_key and not self.certificate:
            what = f"Connection '{name}' has a `certificate_key`, and no `certificate`."
            yield Problem(
                "registry-options", what, place=node.key_place("certificate_key")
            )
        for key in sorted(self.options.keys() & _OWN.keys()):
            what = f"'{key}' of connection '{name}' has a key of its own."
            yield Problem(
                "registry-options",
                what,
                fix=f"Write `{_OWN[key]}`.",
                place=node.key_place("options"),
            )


_APICURIO = re.compile(r"(https?://.+)/apis/ccompat/v\d+/?")

_OWN: Mapping[str, str] = {
    "url": "url",
    "basic.auth.user.info": "user` and `password",
    "bearer.auth.token": "token",
    "ssl.ca.location": "ca",
    "ssl.certificate.location": "certificate",
    "ssl.key.location": "certificate_key",
}
"""Options of the client for which the connection has keys of its own."""
