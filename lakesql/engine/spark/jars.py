"""Which jars Spark needs beside its own: fetched once per user, each verified by its
SHA-256."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import functools
import hashlib
import http.client
import io
import os
import re
import ssl
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPSHandler, OpenerDirector, Request, build_opener
from zipfile import ZIP_DEFLATED, ZipFile

from lakesql.errors import ProfileError, not_installed
from lakesql.project.files import write_atomically

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
SILENT_AFTER_S = 30.0
"""How long a server may send nothing."""

TRIES = 3
CHUNK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of a Maven repository, pinned by version and content. `group` is Maven's
    groupId."""

    group: str
    name: str
    revision: str
    sha256: str

    @property
    def file(self) -> str:
        """Its file name, in the repository and in the cache."""
        return f"{self.name}-{self.revision}.jar"

    @property
    def path(self) -> str:
        """Where a Maven repository has it."""
        return f"{self.group.replace('.', '/')}/{self.name}/{self.revision}/{self.file}"


def _read_pins() -> dict[str, tuple[Jar, ...]]:
    pins = tomllib.loads((Path(__file__).parent / "jars.toml").read_text("utf-8"))
    return {
        need: tuple(_jar(at, sha256) for at, sha256 in jars.items())
        for need, jars in pins.items()
    }


def _jar(coordinates: str, sha256: str) -> Jar:
    group, name, revision = coordinates.split(":")
    return Jar(group, name, revision, sha256)


JARS = _read_pins()
"""The jars by what needs them."""


Show = Callable[[str, int, int | None], None]
"""Called with the progress of a download: the file's name, how many bytes are there,
and its size, if known."""


def ensure_jars(
    needs: frozenset[str],
    home: Path,
    say: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
    show: Show = lambda name, done, total: None,
) -> tuple[Path, ...]:
    """The jars of `needs` as verified files of `home`/jars, in the order of `JARS`;
    fetched if they do not exist.

    They come from Maven Central, or from the Maven repository in LAKESQL_MAVEN_URL,
    which may have a login in it. Raises ProfileError `jars-unreachable` if one cannot
    be fetched, `jar-checksum` if a file is not the pinned one (it is removed, so that
    the next run fetches it again).
    """
    folder = home / "jars"
    if missing := missing_jars(needs, home):
        say(
            f"Fetching {len(missing)} {'jar' if len(missing) == 1 else 'jars'} into {folder} (once per user)"
        )
        fetch_jars(
            missing, folder, environ.get("LAKESQL_MAVEN_URL") or MAVEN_CENTRAL, show
        )
    wanted = _jars_of(needs)
    for jar in wanted:
        verify_jar(jar, folder)
    return tuple(folder / jar.file for jar in wanted)


def missing_jars(needs: frozenset[str], home: Path) -> list[Jar]:
    """The jars of `needs` that are still to be fetched."""
    return [jar for jar in _jars_of(needs) if not (home / "jars" / jar.file).exists()]


def _jars_of(needs: frozenset[str]) -> list[Jar]:
    return [jar for need, jars in JARS.items() if need in needs for jar in jars]


def user_cache(environ: Mapping[str, str]) -> Path:
    """The folder in which lakesql keeps what belongs to the user and not to a project:
    LAKESQL_HOME, or one in the XDG cache."""
    if home := environ.get("LAKESQL_HOME"):
        return Path(home).expanduser().absolute()
    caches = environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "lakesql"


def spark_jars() -> Path:
    """The folder of Spark's own jars, inside the installed pyspark (which is not
    imported)."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise not_installed("pyspark", "spark")
    return Path(spec.origin).parent / "jars"


def driver_jars(home: Path) -> list[Path]:
    """Those of Spark's own jars that a session's Java has on its class path.

    MLlib is left out: with it, each session would initialise Scala's reflection for
    MLlib's functions. Signed jars are replaced by unsigned copies in the cache `home`:
    Java does not record classes of a signed jar, and verifies each again.
    """
    jars = [
        jar for jar in spark_jars().glob("*.jar") if not jar.name.startswith(_LEFT_OUT)
    ]
    return [
        _without_signature(jar, home / "jars") if jar.name.startswith(_SIGNED) else jar
        for jar in jars
    ]


_LEFT_OUT = "spark-mllib_"
_SIGNED = ("janino-", "commons-compiler-")
"""The prefixes of Spark's signed jars: those of the compiler for generated code."""

_SIGNATURE = re.compile(r"META-INF/[^/]+\.(SF|DSA|RSA|EC)")


def _without_signature(jar: Path, folder: Path) -> Path:
    """A copy without the signature, which is made once; the jar itself if the copy
    cannot be written."""
    copy = folder / f"{jar.stem}-unsigned.jar"
    if copy.exists():
        return copy
    content = io.BytesIO()
    with ZipFile(jar) as signed, ZipFile(content, "w", ZIP_DEFLATED) as unsigned:
        for entry in signed.infolist():
            if not _SIGNATURE.fullmatch(entry.filename):
                unsigned.writestr(entry, signed.read(entry))
    try:
        write_atomically(copy, content.getvalue())
    except OSError:
        return jar
    return copy


def verify_jar(jar: Jar, folder: Path) -> None:
    """Check that the file in `folder` is the pinned one; remove it and raise
    `jar-checksum` if it is not.

    A file whose size and modification time are those noted after a full check is not
    read again.
    """
    file, note = folder / jar.file, folder / f"{jar.file}.verified"
    facts = file.stat()
    seen = f"{jar.sha256} {facts.st_size} {facts.st_mtime_ns}"
    with contextlib.suppress(OSError):  # no note, or one that this user cannot read
        if note.read_bytes() == seen.encode():
            return
    _check_content(jar, file)
    # a cache that cannot be written is read again each time
    with contextlib.suppress(OSError):
        write_atomically(note, seen)


def fetch_jars(
    jars: Iterable[Jar],
    folder: Path,
    repository: str,
    show: Show = lambda name, done, total: None,
) -> None:
    """Fetch `jars` from a Maven repository into `folder`; each appears there once its
    content is verified.

    If a connection breaks, what was fetched stays in a file `.part`, and is not fetched
    again. If two processes fetch the same jar, the second waits. Proxies are taken from
    HTTPS_PROXY, HTTP_PROXY and NO_PROXY.
    """
    root, login = _parse_repository(repository)
    opener = build_opener(
        HTTPSHandler(context=_trust(os.environ.get("REQUESTS_CA_BUNDLE")))
    )
    folder.mkdir(parents=True, exist_ok=True)
    for jar in jars:
        part = folder / f".{jar.file}.part"
        with _lock(part) as file:
            if (folder / jar.file).exists():
                part.unlink(missing_ok=True)
                continue
            address = f"{root}/{jar.path}"
            _fetch(address, login, opener, file, show)
            _check_content(jar, part, f" It came from {address}.")
            part.replace(folder / jar.file)


def _parse_repository(url: str) -> tuple[str, str]:
    """The address of a Maven repository without its login, and the login as an HTTP
    header, '' if there is none.

    Raises ProfileError `jars-unreachable` if it is not an address, without showing it,
    as it may have a password in it.
    """
    try:
        parts = urlsplit(url.rstrip("/"))
        _ = parts.port
        is_address = parts.scheme in ("http", "https", "file") and not (
            parts.query or parts.fragment
        )
    except ValueError:
        is_address = False
    if not is_address or "@" in parts.path:
        raise ProfileError.of(
            "jars-unreachable",
            "LAKESQL_MAVEN_URL is not the address of a Maven repository.",
            fix="Write https://host/path or https://user:password@host/path, in a password %2F for / and %40 for @.",
        )
    root = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    if not parts.username:
        return root, ""
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return root, f"Basic {base64.b64encode(login.encode()).decode()}"


@contextlib.contextmanager
def _lock(part: Path) -> Iterator[IO[bytes]]:
    """The file `part`, opened for appending, and locked against other processes."""
    while True:
        with part.open("ab", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:  # else the one before has removed it
                yield file
                return


def _fetch(
    address: str, login: str, opener: OpenerDirector, file: IO[bytes], show: Show
) -> None:
    """Append to `file` the rest of the content at `address`."""
    name = address.rpartition("/")[2]
    for _ in range(TRIES):
        size = file.tell()
        request = Request(address, headers={"Range": f"bytes={size}-"} if size else {})
        if login:
            request.add_unredirected_header("Authorization", login)
        try:
            with opener.open(request, timeout=SILENT_AFTER_S) as answer:
                if size and answer.status != 206:  # the server does not know of ranges
                    file.seek(file.truncate(0))
                length = answer.headers.get("Content-Length")
                total = file.tell() + int(length) if length else None
                while chunk := answer.read(CHUNK_BYTES):
                    file.write(chunk)
                    show(name, file.tell(), total)
            if total in (None, file.tell()):
                return
            why = f"The connection broke after {file.tell():,} of {total:,} bytes"
        except HTTPError as error:
            if error.code == 416 and size:  # there is no more of it
                return
            why = f"{error.code} {error.reason}"
            if error.code < 500:
                break
        except (OSError, http.client.HTTPException) as error:
            why = str(getattr(error, "reason", error)) or type(error).__name__
    proxy = (
        f" by the proxy {request.host}"
        if request.host != urlsplit(address).netloc
        else ""
    )
    tried = f"Tried: {address}{proxy}. {why}."
    raise ProfileError.of(
        "jars-unreachable", f"{name} could not be fetched.", why=tried
    )


@functools.cache
def _trust(bundle: str | None) -> ssl.SSLContext:
    """A TLS context that trusts this machine's authorities, those that certifi has, and
    those in `bundle`."""
    context = ssl.create_default_context()
    # for a Python that does not find the authorities of its machine
    with contextlib.suppress(ImportError):
        import certifi

        context.load_verify_locations(certifi.where())
    if bundle:
        try:
            context.load_verify_locations(
                *((None, bundle) if Path(bundle).is_dir() else (bundle,))
            )
        except OSError as error:
            what = f"REQUESTS_CA_BUNDLE names {bundle}, which holds no certificates."
            raise ProfileError.of(
                "jars-unreachable",
                what,
                why=f"{error}.",
                fix="Correct it, or unset it.",
            ) from error
    return context


def _check_content(jar: Jar, file: Path, origin: str = "") -> None:
    with file.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != jar.sha256:
        file.unlink(missing_ok=True)
        raise ProfileError.of(
            "jar-checksum",
            f"{jar.file} is not the file that lakesql was built with, and has been removed.",
            why=f"Its SHA-256 is {found}, not {jar.sha256}.{origin}",
        )
