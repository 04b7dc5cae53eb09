"""Reach a target's catalog and its storage by pyiceberg, in bounded time, and say what
is wrong when that fails.

Importing pyiceberg takes half a second, so it happens inside the functions, and only
the catalog's own module of it.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

from lakesql.errors import LakesqlError, ProfileError, did_you_mean, first_line
from lakesql.location import local_folder
from lakesql.project.catalog import (
    CONNECT_TIMEOUT_S,
    check_block,
    is_s3,
    python_properties,
    python_s3_properties,
    shown,
)
from lakesql.project.profiles import Catalog
from lakesql.secrets import find_secrets

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog as IcebergCatalog
    from requests.adapters import BaseAdapter

OPENS_WITHIN_S = 30.0
"""How long a catalog or a bucket may take to answer for the first time."""

ANSWERS_WITHIN_S = 60
"""How long a REST catalog may take for a request."""

BUSY_TIMEOUT_S = 30
"""How long to wait for Spark's commit to let go of the SQLite file; Spark waits as long
for ours."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OpenCatalog:
    """A catalog that answers: what the profile says of it, and pyiceberg's own."""

    profile: Catalog
    iceberg: IcebergCatalog


def open_catalog(catalog: Catalog) -> OpenCatalog:
    """The profile's catalog, opened. One of type `sql` gets its two tables, on SQLite
    its folder and its file too.

    What pyiceberg finds in its own settings file or in PYICEBERG_CATALOG__… is left
    out: the profile alone says where tables are. Raises `ProfileError`:
    `missing-option`, `catalog-unreachable`, `catalog-refused`, `catalog-not-found`,
    `not-a-catalog`, `catalog-uri`, `unknown-catalog-type`.
    """
    check_block(catalog)
    with reaching(catalog):
        return OpenCatalog(
            catalog, _within(OPENS_WITHIN_S, _module(catalog), lambda: _open(catalog))
        )


def check_warehouse(catalog: Catalog) -> None:
    """Raise `ProfileError` (`missing-option`, `storage-refused`, `storage-unreachable`)
    where no table can lie at the `warehouse`.

    And (`warehouse-elsewhere`) where the tables of a catalog in a local file lie
    outside of it: it was copied or moved. Writes nothing. A REST catalog's warehouse is
    the catalog's own affair, and only Spark knows what is behind other URLs than those
    of S3.
    """
    check_block(catalog)
    place = catalog.warehouse
    if catalog.type == "rest" or not place:
        return
    if is_s3(place):
        with _storing(catalog, place, "storage-refused"):
            _within(OPENS_WITHIN_S, _S3_MODULE, lambda: _find_bucket(catalog, place))
    elif (folder := local_folder(place)) is not None and not _is_writable(folder):
        raise _unwritable(
            "storage-refused", place, "It is not a folder, or not one of yours."
        )
    elif folder is not None:
        _check_places(catalog, folder)


def _check_places(catalog: Catalog, warehouse: Path) -> None:
    """Whether any table of an embedded catalog lies in its warehouse, if there is one:
    the catalog has their whole paths, and a run would write to the original's
    tables."""
    file = catalog.sqlite_file
    if file is None or not file.exists():
        return
    with closing(
        sqlite3.connect(
            f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S
        )
    ) as opened:
        try:
            rows = opened.execute(
                "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = ?",
                (catalog.name,),
            ).fetchall()
        except sqlite3.Error:  # no catalog yet, or none: who opens it says so
            return
    places = [
        folder
        for (place,) in rows
        if place and (folder := local_folder(place)) is not None
    ]
    if not places or any(
        place.resolve().is_relative_to(warehouse.resolve()) for place in places
    ):
        return
    there = places[0].parent.parent.parent.parent
    raise ProfileError.of(
        "warehouse-elsewhere",
        f"The tables of catalog {file} lie in {there}{'' if there.exists() else ', which does not exist'}, and not in "
        f"its warehouse {warehouse}.",
        why="The catalog was copied or moved: it has the whole paths of its tables, and so would write to the "
        "original's.",
        fix=f"To go on with those tables, put them back to where they were, or set `warehouse: {there}`. To begin with "
        f"empty ones, remove {file}* and this project's own `checkpoints`.",
    )


def check_checkpoints(place: str, catalog: Catalog) -> str:
    """A line on where the checkpoints are to lie. Raises `ProfileError`
    (`checkpoints-unwritable`, and `storage-unreachable` where a bucket of S3 does not
    answer).

    A bucket of S3 gets a file for a moment. Spark alone can tell of other URLs.
    """
    if is_s3(place):
        with _storing(catalog, place, "checkpoints-unwritable"):
            _within(OPENS_WITHIN_S, _S3_MODULE, lambda: _write_probe(catalog, place))
        return f"{place} can be written"
    if (folder := local_folder(place)) is None:
        return f"{place}, which the first run will try"
    if not _is_writable(folder):
        raise _unwritable("checkpoints-unwritable", str(folder), "")
    return str(folder) + ("" if folder.exists() else ", created by the first run")


@contextmanager
def reaching(catalog: Catalog) -> Iterator[None]:
    """Whatever comes out of a catalog in here as a `ProfileError` that says what was
    tried."""
    # pyiceberg's exceptions share no base, and the libraries beneath it raise their
    # own.
    try:
        yield
    except (LakesqlError, ModuleNotFoundError):
        raise
    except Exception as error:
        condition, what = _judge(catalog, error)
        tried = ", ".join(f"{key} {value}" for key, value in shown(catalog).items())
        raise ProfileError.of(condition, what, why=f"Tried: {tried}.") from error


_POSTGRES_REFUSES = re.compile(
    r"FATAL:\s+((?:password|\S+) authentication failed .*|role .* does not exist|no pg_hba\.conf entry .*|"
    r"permission denied for database .*)|(fe_sendauth: no password supplied)|(permission denied for .*)"
)
_POSTGRES_DATABASE = re.compile(r'FATAL:\s+(database ".*" does not exist)')


def _judge(catalog: Catalog, error: Exception) -> tuple[str, str]:
    """The condition that an exception of a catalog stands for, and what to say of
    it."""
    from pyiceberg import exceptions

    name, said = f"catalog '{catalog.name}'", _reason(error)
    if isinstance(
        error,
        exceptions.OAuthError
        | exceptions.UnauthorizedError
        | exceptions.ForbiddenError,
    ):
        return "catalog-refused", f"The {name} refuses the login: {said}"
    if isinstance(error, exceptions.NoSuchNamespaceError):
        return "catalog-not-found", f"The {name} is not known to its server: {said}"
    if isinstance(error, exceptions.RESTError | ValueError) and not isinstance(
        error, OSError
    ):
        return _judge_answer(catalog, error)
    if refused := _POSTGRES_REFUSES.search(str(error)):
        return (
            "catalog-refused",
            f"The {name} refuses the login: {next(filter(None, refused.groups()))}",
        )
    if missing := _POSTGRES_DATABASE.search(str(error)):
        return (
            "catalog-not-found",
            f"The {name} is not known to its server: {missing[1]}",
        )
    return "catalog-unreachable", f"The {name} does not answer: {said}"


_POOL = re.compile(
    r"HTTPS?ConnectionPool\(host='(?P<host>[^']*)', port=(?P<port>\d+)\): (?P<said>.*)"
)
"""How the library of HTTP begins whatever it raises."""


def _reason(error: BaseException) -> str:
    """What an exception says, in one line; where a connection failed, its address and
    what the system says of it."""
    found = _POOL.match(first_line(error))
    if found is None:
        return first_line(error)
    cause: BaseException | None = error
    while cause is not None and not (isinstance(cause, OSError) and cause.strerror):
        cause = cause.__cause__ or cause.__context__
    said = cause.strerror if isinstance(cause, OSError) else found["said"]
    return f"{found['host']}:{found['port']}: {said}"


def _judge_answer(catalog: Catalog, error: Exception) -> tuple[str, str]:
    """The condition of an answer that is an error, or none of an Iceberg catalog: a
    page, for instance."""
    from pyiceberg import exceptions

    # Redacted before it is cut: of a secret that is cut, the rest would not be known.
    name, said = (
        f"catalog '{catalog.name}'",
        find_secrets(os.environ).redact(first_line(error)),
    )
    busy = (
        exceptions.ServerError
        | exceptions.ServiceUnavailableError
        | exceptions.TooManyRequestsError
    )
    if isinstance(error, busy | exceptions.AuthorizationExpiredError):
        if "unexpected JSON" not in said and "decode json" not in said:
            return (
                "catalog-unreachable",
                f"The {name} answers with an error of its own: {said}",
            )
    elif (
        isinstance(error, exceptions.RESTError)
        and "JSON" not in said
        and "json" not in said
        and catalog.warehouse
    ):
        return "catalog-not-found", f"The {name} is not known to its server: {said}"
    return (
        "not-a-catalog",
        f"What answers for the {name} is no Iceberg catalog: {said[:300]}",
    )


_S3_MODULE = "pyiceberg.io.pyarrow"


def _module(catalog: Catalog) -> str:
    """The module of pyiceberg by which the catalog is opened."""
    return f"pyiceberg.catalog{f'.{catalog.type}' if catalog.type in ('sql', 'rest') else ''}"


def _open(catalog: Catalog) -> IcebergCatalog:
    match catalog.type:
        case "sql":
            return _open_sql(catalog)
        case "rest":
            return _open_rest(catalog)
        case "hive":
            return _open_hive(catalog)
    from pyiceberg.catalog import AVAILABLE_CATALOGS, CatalogType

    known = {kind.value: kind for kind in CatalogType}
    if catalog.type not in known:
        what = f"'{catalog.type}' is not a type of catalog."
        raise ProfileError.of(
            "unknown-catalog-type", what, fix=did_you_mean(catalog.type, known)
        )
    return AVAILABLE_CATALOGS[known[catalog.type]](
        catalog.name, python_properties(catalog)
    )


def _open_sql(catalog: Catalog) -> IcebergCatalog:
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy.exc import DBAPIError

    file = catalog.sqlite_file
    properties = python_properties(catalog)
    if file is not None:
        if not file.parent.is_dir():
            file.parent.mkdir(parents=True, exist_ok=True)
        if "?" not in catalog.uri:
            properties["uri"] = f"{catalog.uri}?timeout={BUSY_TIMEOUT_S}"
    try:
        return SqlCatalog(catalog.name, **properties)
    except DBAPIError:
        # Two processes that meet an empty database both make the tables; the one that
        # comes second finds them now.
        return SqlCatalog(catalog.name, **properties)


def _open_rest(catalog: Catalog) -> IcebergCatalog:
    from pyiceberg.catalog.rest import RestCatalog

    opened = RestCatalog(catalog.name, **python_properties(catalog))
    for adapter in opened._session.adapters.values():
        _bound(adapter)
    return opened


def _open_hive(catalog: Catalog) -> IcebergCatalog:
    from lakesql.catalog.hive import ThreadedHiveCatalog

    return ThreadedHiveCatalog(
        catalog.name, ANSWERS_WITHIN_S, **python_properties(catalog)
    )


def _bound(adapter: BaseAdapter) -> None:
    """Have the adapter wait for answers as long as every question does: pyiceberg
    itself waits for ever."""
    send = adapter.send

    def send_bounded(request: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs["timeout"] = kwargs.get("timeout") or (
            CONNECT_TIMEOUT_S,
            ANSWERS_WITHIN_S,
        )
        return send(request, *args, **kwargs)

    adapter.send = send_bounded  # type: ignore[method-assign]


def _find_bucket(catalog: Catalog, place: str) -> None:
    from pyarrow.fs import FileType

    bucket = urlsplit(place).netloc
    if open_s3(catalog, bucket).get_file_info(bucket).type == FileType.NotFound:
        raise FileNotFoundError(f"There is no bucket '{bucket}'.")


def _write_probe(catalog: Catalog, place: str) -> None:
    parts = urlsplit(place)
    _find_bucket(catalog, place)
    storage = open_s3(catalog, parts.netloc)
    probe = f"{parts.netloc}{parts.path.rstrip('/')}/.lakesql-{uuid4()}"
    with storage.open_output_stream(probe) as file:
        file.write(b"Whether this can be written.")
    storage.delete_file(probe)


def open_s3(catalog: Catalog, bucket: str) -> Any:
    """pyarrow's S3, as pyiceberg sets it up for the catalog's tables."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    return PyArrowFileIO(python_s3_properties(catalog)).fs_by_scheme("s3", bucket)


_STORAGE_REFUSES = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE|NO_SUCH_BUCKET|\b40[0134]\b"
)
"""What pyarrow says where a storage answers, and does not have what it was asked for,
or gives nobody leave."""


@contextmanager
def _storing(catalog: Catalog, place: str, refused: str) -> Iterator[None]:
    """Raise `ProfileError`, of the condition `refused` where the profile is wrong,
    `storage-unreachable` elsewhere."""
    try:
        yield
    except (LakesqlError, ModuleNotFoundError):
        raise
    except Exception as error:
        endpoint = catalog.properties.get("s3.endpoint", "AWS's own endpoint")
        is_refused = isinstance(error, FileNotFoundError) or _STORAGE_REFUSES.search(
            str(error)
        )
        told = f"{first_line(error)} (by {endpoint})"
        if is_refused:
            raise _unwritable(refused, place, told) from error
        raise ProfileError.of(
            "storage-unreachable", f"The storage of {place} does not answer.", why=told
        ) from error


def _unwritable(condition: str, place: str, why: str) -> ProfileError:
    key, done = (
        ("warehouse", "used")
        if condition == "storage-refused"
        else ("checkpoints", "written")
    )
    what = f"{place} cannot be {done}."
    other = "the `s3.` keys of its catalog" if is_s3(place) else "the permissions"
    return ProfileError.of(
        condition,
        what,
        why=why,
        fix=f"Correct the target's `{key}` in profiles.yml, or {other}.",
    )


def _is_writable(folder: Path) -> bool:
    """Whether the folder can be written, or made."""
    above = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return above.is_dir() and os.access(above, os.W_OK | os.X_OK)


def _within(seconds: float, module: str, work: Callable[[], T]) -> T:
    """What `work` gives or raises; `TimeoutError` when it takes longer: then its thread
    is left to itself.

    The module that it works by is imported before: on a machine that is busy, that
    takes longer than a server's answer.
    """
    import_module(module)
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="lakesql-open", daemon=True).start()
    wait([done], seconds)
    if not done.done():
        raise TimeoutError(f"No answer within {seconds:.0f} s.")
    return done.result()
