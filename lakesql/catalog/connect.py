"""The connection to a target's catalog and storage by pyiceberg, in bounded time, and
which condition each failure is.

Importing pyiceberg takes half a second, so functions import it themselves, and only the
module of the catalog's type.
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
"""The timeout for the first answer of a catalog or a bucket."""

ANSWERS_WITHIN_S = 60
"""The timeout for a request to a REST catalog or a Hive metastore."""

BUSY_TIMEOUT_S = 30
"""How long to wait while a commit of Spark's locks the SQLite file. Spark waits as long
for commits of this process."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OpenCatalog:
    """A catalog that answers: its block of the profile, and pyiceberg's catalog."""

    profile: Catalog
    iceberg: IcebergCatalog


def open_catalog(catalog: Catalog) -> OpenCatalog:
    """The profile's catalog, opened. For type `sql` its two tables are created if they
    are missing, on SQLite the file and its folder too.

    pyiceberg's settings file and the variables PYICEBERG_CATALOG__… are ignored: the
    profile alone decides where tables are. Raises `ProfileError`: `missing-option`,
    `catalog-unreachable`, `catalog-refused`, `catalog-not-found`, `not-a-catalog`,
    `catalog-uri`, `unknown-catalog-type`.
    """
    check_block(catalog)
    with reaching(catalog):
        return OpenCatalog(
            catalog, _within(OPENS_WITHIN_S, _module(catalog), lambda: _open(catalog))
        )


def check_warehouse(catalog: Catalog) -> None:
    """Raise `ProfileError` (`missing-option`, `storage-refused`, `storage-unreachable`)
    if no table can be written at the `warehouse`.

    Also (`warehouse-elsewhere`) if the tables of a catalog on SQLite are outside of its
    warehouse, as after the project was copied or moved. Writes nothing. A REST
    catalog's warehouse is not checked, nor are URLs other than those of S3, which only
    Spark can open.
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
    """Raise `ProfileError` (`warehouse-elsewhere`) if a catalog on SQLite has tables
    and none is in its warehouse. The catalog has absolute paths, so that a copied one
    would write to the original's tables."""
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
    """A line of text on the place of the checkpoints. Raises `ProfileError`
    (`checkpoints-unwritable`, or `storage-unreachable` if S3 does not answer).

    In S3 a file is written and deleted again. URLs other than those of S3 are not
    checked, as only Spark can open them.
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
    """A context in which every exception of a catalog's client becomes a `ProfileError`
    that names the catalog."""
    # pyiceberg's exceptions share no base class, and its libraries raise their own.
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
    """The condition of an exception of a catalog's client, and the message."""
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
"""The beginning of the messages of urllib3's connection errors."""


def _reason(error: BaseException) -> str:
    """The message of an exception in one line; for a failed connection, the address and
    the system's error."""
    found = _POOL.match(first_line(error))
    if found is None:
        return first_line(error)
    cause: BaseException | None = error
    while cause is not None and not (isinstance(cause, OSError) and cause.strerror):
        cause = cause.__cause__ or cause.__context__
    said = cause.strerror if isinstance(cause, OSError) else found["said"]
    return f"{found['host']}:{found['port']}: {said}"


def _judge_answer(catalog: Catalog, error: Exception) -> tuple[str, str]:
    """The condition and the message for a server's answer that is an error, or that
    does not come from an Iceberg catalog, such as a web page."""
    from pyiceberg import exceptions

    # Redacted before it is shortened: the rest of a shortened secret would remain.
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
    """The name of pyiceberg's module that opens the catalog."""
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
        # Of two processes that create the tables in an empty database, one fails; on
        # the second attempt it finds them.
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
    """Give all requests of the adapter a timeout: pyiceberg itself waits for ever."""
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
    """pyarrow's file system for a bucket of S3, with the catalog's settings."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    return PyArrowFileIO(python_s3_properties(catalog)).fs_by_scheme("s3", bucket)


_STORAGE_REFUSES = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE|NO_SUCH_BUCKET|\b40[0134]\b"
)
"""Matches pyarrow's errors if the storage answers that something does not exist or is
not permitted."""


@contextmanager
def _storing(catalog: Catalog, place: str, refused: str) -> Iterator[None]:
    """A context in which exceptions become a `ProfileError`: with the condition
    `refused` if the storage answers, else `storage-unreachable`."""
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
    """Whether the folder can be written, or created if it does not exist."""
    above = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return above.is_dir() and os.access(above, os.W_OK | os.X_OK)


def _within(seconds: float, module: str, work: Callable[[], T]) -> T:
    """The result of `work`, which runs in a thread, or its exception. Raises
    `TimeoutError` if it takes longer than `seconds`; the thread is then abandoned.

    The module that `work` needs is imported before the time counts, as that may take
    longer than a server's answer on a busy machine.
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
