"""The names of records and tables in lineage, by OpenLineage's naming rules. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from lakesql.location import is_url


@dataclass(frozen=True, slots=True, order=True)
class Dataset:
    """A dataset of OpenLineage: `namespace` is the system that has it, `name` its name
    there."""

    namespace: str
    name: str


def dataset_at(place: str) -> Dataset:
    """The dataset of the files at a path or a URL: `file` and the path, or
    `s3://bucket` and the path in it."""
    if not is_url(place):
        return Dataset("file", place.rstrip("/") or "/")
    parts = urlsplit(without_login(place))
    path = parts.path.rstrip("/")
    if parts.scheme.lower() == "file":
        namespace = f"file://{parts.netloc}" if parts.netloc else "file"
        return Dataset(namespace, path or "/")
    scheme = {"s3a": "s3", "s3n": "s3"}.get(parts.scheme, parts.scheme)
    return Dataset(f"{scheme}://{parts.netloc}", path.strip("/") or "/")


def without_login(place: str) -> str:
    """A URL without user and password."""
    return _LOGIN.sub(r"\1", place)


_LOGIN = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/]*@")


def folder_before(pattern: str) -> str:
    """The folder of a pattern before its first glob."""
    found = re.search(r"[*?\[{]", pattern)
    return pattern if found is None else pattern[: found.start()].rpartition("/")[0]
