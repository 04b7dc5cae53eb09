"""Which files belong to a project, how they are found and read, and where lakesql
writes its own."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

from lakesql.decode import collect
from lakesql.errors import Place, Problem, ProfileError, ProjectError, UsageError
from lakesql.project.settings import SETTINGS_FILE, Paths, Settings, parse_settings
from lakesql.project.size import Size
from lakesql.words import answer

PROPERTIES_SUFFIXES = (".yml", ".yaml")

SELECTORS_FILE = "selectors.yml"

DBT_FILE = "dbt_project.yml"

MAX_BYTES = 4_000_000
"""The largest size in bytes of a file of the project; a larger one is refused
unread."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the project: its path relative to the project's directory, with
    slashes, and its text."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class SeedFile:
    """A seed's file: its path relative to the project's directory, with slashes, its
    first record, and a hash of its content. The content may be large, so it is read
    where it is needed."""

    path: str
    header: str
    digest: str


@dataclass(frozen=True, slots=True)
class Outputs:
    """The folders to which lakesql writes beside the tables. All that is in `target`
    can be created again."""

    target: Path
    logs: Path

    @property
    def compiled(self) -> Path:
        """The folder of the compiled files, each under the path of its model."""
        return self.target / "compiled"

    @property
    def cache(self) -> Path:
        """The folder of the caches of earlier commands."""
        return self.target / "cache"

    @property
    def warm(self) -> Path:
        """The folder of the sockets of warm Spark processes, which one command leaves
        for the next. Only their user can enter it."""
        return self.target / "warm"

    @property
    def spark_log(self) -> Path:
        """The file to which Spark logs."""
        return self.logs / "spark.log"


def outputs_of(
    directory: Path, target: Path | None = None, logs: Path | None = None
) -> Outputs:
    """The output folders of the project in `directory`: `target` and `logs`, unless
    others are given."""
    return Outputs(
        (target or directory / "target").absolute(),
        (logs or directory / "logs").absolute(),
    )


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The files of a project, unparsed. Each tuple is sorted by path.

    `selectors` is selectors.yml, None if there is none. `contracts` are the .yml files
    beside the seeds, `schemas` the .avsc and .proto files among the streams.
    """

    directory: Path
    settings: Settings
    models: tuple[SourceFile, ...]
    streams: tuple[SourceFile, ...]
    macros: tuple[SourceFile, ...]
    properties: tuple[SourceFile, ...]
    outputs: Outputs
    settings_text: str = ""
    tests: tuple[SourceFile, ...] = ()
    selectors: SourceFile | None = None
    seeds: tuple[SeedFile, ...] = ()
    contracts: tuple[SourceFile, ...] = ()
    schemas: tuple[SourceFile, ...] = ()

    @property
    def texts(self) -> Mapping[str, str]:
        """The texts, by path, of the files that decide what runs or is tested,
        pyproject.toml included, selectors.yml not. Seeds have only their header."""
        declared = (*self.streams, *self.properties, *self.contracts, *self.schemas)
        files = (*self.models, *self.macros, *self.tests, *declared)
        headers = {seed.path: f"{seed.header}\n" for seed in self.seeds}
        return {
            SETTINGS_FILE: self.settings_text,
            **{file.path: file.text for file in (*files, *self.schemas)},
            **headers,
        }


def read_project(directory: Path, outputs: Outputs | None = None) -> ProjectFiles:
    """The files of the project in `directory`. `outputs` are its output folders, by
    default below it.

    Raises `UsageError` (`no-project`) if there is no project, and `ProjectError` for
    files that are not UTF-8 (`not-text`), too large (`file-too-large`), outside the
    project (`outside-project`) or would be overlooked (`unread-file`), and for folders
    that the settings name and that do not exist (`unknown-folder`).
    """
    settings_path = directory / SETTINGS_FILE
    if not settings_path.is_file():
        why = answer("settings", DBT_FILE) if (directory / DBT_FILE).exists() else ""
        raise UsageError.of(
            "no-project", f"There is no {SETTINGS_FILE} in {directory}.", why=why
        )
    settings_text = read_text(settings_path, SETTINGS_FILE)
    settings = parse_settings(SETTINGS_FILE, settings_text)
    paths = settings.paths
    problems = [*_find_missing_folders(directory, paths)]
    files = ProjectFiles(
        directory=directory,
        outputs=outputs or outputs_of(directory),
        settings=settings,
        settings_text=settings_text,
        models=_read_folder(directory, paths.models, (".sql",), problems),
        streams=_read_folder(directory, paths.streams, PROPERTIES_SUFFIXES, problems),
        macros=_read_folder(directory, paths.macros, (".sql",), problems),
        properties=_read_folder(directory, paths.models, PROPERTIES_SUFFIXES, problems),
        tests=_read_folder(directory, paths.tests, (".sql",), problems),
        selectors=_read_selectors(directory, problems),
        seeds=_read_seeds(directory, paths.seeds, settings.seeds.max_size, problems),
        contracts=_read_folder(directory, paths.seeds, PROPERTIES_SUFFIXES, problems),
        schemas=_read_folder(directory, paths.streams, (".avsc", ".proto"), problems),
    )
    problems += _find_stray_properties(files)
    # Raised here, as parsing without the unreadable files would report names that they
    # declare as unknown.
    if problems:
        raise ProjectError(problems)
    return files


def check_folder_of_tests(directory: Path, paths: Paths) -> None:
    """Raise `ProjectError` (`unknown-folder`) if the settings name a folder of tests
    that does not exist. For commands that run tests, as they would silently run
    none."""
    problem = _find_missing_folder(directory, paths, "tests")
    if problem is not None:
        raise ProjectError([problem])


def _find_missing_folders(directory: Path, paths: Paths) -> Iterator[Problem]:
    """A problem for each folder that the settings name and that does not exist. The
    folder of tests may be missing: `check_folder_of_tests` checks it."""
    for each in fields(Paths):
        problem = _find_missing_folder(directory, paths, each.name)
        if problem is not None and each.name != "tests":
            yield problem


def _find_missing_folder(directory: Path, paths: Paths, kind: str) -> Problem | None:
    """The problem that the folder of this kind does not exist; None if it does, or if
    its name is the default."""
    name = getattr(paths, kind)
    if name == getattr(Paths(), kind) or (directory / name).is_dir():
        return None
    what = f"There is no folder '{name}', in which `paths` says that the {kind} are."
    return Problem("unknown-folder", what, place=Place(SETTINGS_FILE))


def _find_stray_properties(files: ProjectFiles) -> Iterator[Problem]:
    """A problem for each properties file in the folder of tests or macros, where none
    are read: the tests that it declares would never run."""
    read = {file.path for file in (*files.properties, *files.streams, *files.contracts)}
    paths = files.settings.paths
    for folder in dict.fromkeys((paths.tests, paths.macros)):
        for path in find_files(files.directory, folder, PROPERTIES_SUFFIXES):
            shown = shorten(path, files.directory)
            found = _DECLARES.search(path.read_bytes()) if shown not in read else None
            if found is not None:
                what = f"'{found[1].decode()}' stands here, and no properties files are read in '{folder}'."
                yield Problem(
                    "unread-file",
                    what,
                    "",
                    f"Move the file to '{paths.models}'.",
                    Place(shown),
                )


_DECLARES = re.compile(rb"^(models|unit_tests|data_tests)\s*:", re.MULTILINE)

SEED_SUFFIX = ".csv"


def _read_seeds(
    directory: Path, folder: str, limit: Size, problems: list[Problem]
) -> tuple[SeedFile, ...]:
    """The seeds whose files can be read; the problems of the others are added to
    `problems`."""
    found: list[SeedFile] = []
    for path in find_files(directory, folder, (SEED_SUFFIX,)):
        relative = path.relative_to(directory).as_posix()
        problems += _find_misspelt(relative, (SEED_SUFFIX,))
        seed = collect(problems, partial(_read_seed, path, relative, limit))
        found += [seed] if seed is not None else []
    return tuple(sorted(found, key=lambda seed: seed.path))


def _read_seed(path: Path, shown: str, limit: Size) -> SeedFile:
    content = read_seed_content(path, shown, limit)
    return SeedFile(
        shown, first_record(decode_seed(content, shown)), digest_of(content)
    )


def read_seed_content(path: Path, shown: str, limit: Size) -> bytes:
    """The bytes of a seed's file. Raises `ProjectError` (`file-too-large`), without
    reading it, if it is larger than `limit`."""
    size = path.stat().st_size
    if size > limit.size_bytes:
        what = f"The file has {size:,} bytes, and a seed has {limit.text} at most."
        fix = (
            "Put it into a folder or a bucket that a stream reads by `path`; or set `max_size` in "
            "[tool.lakesql.seeds] of pyproject.toml."
        )
        raise ProjectError.of("file-too-large", what, fix=fix, place=Place(shown))
    return path.read_bytes()


def decode_seed(content: bytes, shown: str) -> str:
    """The text of a seed, without the byte order mark that it may begin with. Raises
    `ProjectError` (`not-text`)."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"Byte {error.start} of this file is not UTF-8."
        raise ProjectError.of("not-text", what, place=Place(shown, line)) from None


def first_record(text: str) -> str:
    """The first record of a CSV text, without its line end; the first line, if a quote
    in it is not closed."""
    found = _FIRST_RECORD.match(text)
    end = found.end() if found is not None else 0
    if text[end : end + 1] not in ("", "\r", "\n"):
        end = next(
            (at for at, character in enumerate(text) if character in "\r\n"), len(text)
        )
    return text[:end]


_FIRST_RECORD = re.compile(r'(?:[^"\r\n]+|"[^"]*")*+')


def digest_of(content: bytes) -> str:
    """The SHA-256 of a content, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _read_selectors(directory: Path, problems: list[Problem]) -> SourceFile | None:
    path = directory / SELECTORS_FILE
    text = (
        collect(problems, partial(read_text, path, SELECTORS_FILE))
        if path.is_file()
        else None
    )
    return SourceFile(SELECTORS_FILE, text) if text is not None else None


def find_project(start: Path) -> Path:
    """The nearest directory, from `start` upwards, whose pyproject.toml has
    `[tool.lakesql]`; `start` if there is none."""
    return next(filter(has_settings, (start, *start.parents)), start)


def has_settings(directory: Path) -> bool:
    """Whether the directory's pyproject.toml has `[tool.lakesql]` in its first
    `MAX_BYTES`."""
    settings = directory / SETTINGS_FILE
    if not settings.is_file():
        return False
    with settings.open("rb") as file:
        return b"[tool.lakesql" in file.read(MAX_BYTES)


def write_atomically(path: Path, text: str | bytes) -> None:
    """Write `text` to `path` by a rename, so that a reader sees the old text or the new
    one, and never a part of it. Creates the folder if needed."""
    content = text.encode() if isinstance(text, str) else text
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        try:
            beside.write_bytes(content)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(content)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def date_by_name(base: Path) -> None:
    """Set modification times so that the files of each recorded topic are in the order
    of their names: Spark reads files in the order of their times.

    A file that is not newer than the one before it gets that one's time plus a
    millisecond; other files stay as they are. Raises `ProfileError` (`not-accessible`)
    if a time cannot be set, as in a read-only folder.
    """
    for topic in (folder for folder in base.glob("*") if folder.is_dir()):
        newest_ms = 0
        for file in sorted(topic.glob("*.jsonl")):
            facts = file.stat()
            age_ms = facts.st_mtime_ns // 1_000_000
            if age_ms <= newest_ms:
                age_ms = newest_ms + 1
                try:
                    os.utime(file, ns=(facts.st_atime_ns, age_ms * 1_000_000))
                except OSError as error:
                    raise ProfileError.of(
                        "not-accessible",
                        f"{file} is not younger than the file before it, and its time cannot be set: {error.strerror}.",
                        why="Spark reads files in the order of their times, and a topic is read in that of the names.",
                        fix="Make the folder writable for one run, or `touch` its files in the order of their names.",
                    ) from None
            newest_ms = age_ms


def is_dated_by_name(file: Path) -> bool:
    """Whether the modification time of a recorded file looks as if `date_by_name` had
    set it: exactly one millisecond after that of the file before it."""
    before = max(
        (each for each in file.parent.glob("*.jsonl") if each.name < file.name),
        default=None,
    )
    own_ns = file.stat().st_mtime_ns
    return (
        before is not None
        and own_ns == (before.stat().st_mtime_ns // 1_000_000 + 1) * 1_000_000
    )


def file_stem(path: str) -> str:
    """The name of a file of the project without its suffix: `orders` of
    `models/orders.sql`."""
    name = path.rpartition("/")[2]
    return name.rpartition(".")[0] or name


def shorten(path: Path, directory: Path) -> str:
    """The path relative to a directory, with slashes; unchanged if it is not below
    it."""
    return (
        path.relative_to(directory) if path.is_relative_to(directory) else path
    ).as_posix()


def _read_folder(
    directory: Path, folder: str, suffixes: tuple[str, ...], problems: list[Problem]
) -> tuple[SourceFile, ...]:
    """The files of a folder that can be read; the problems of the others are added to
    `problems`."""
    found = []
    above = (directory / "_").as_posix().removesuffix("_")
    for path in find_files(directory, folder, suffixes):
        relative = path.as_posix().removeprefix(above)
        problems += _find_misspelt(relative, suffixes)
        text = collect(problems, partial(read_text, path, relative))
        found += [SourceFile(relative, text)] if text is not None else []
    return tuple(sorted(found, key=lambda file: file.path))


def _find_misspelt(shown: str, suffixes: tuple[str, ...]) -> Iterator[Problem]:
    """A problem if the file's suffix is spelled with capitals, such as `.SQL`: other
    tools would not find it as a file of the project."""
    if not shown.endswith(suffixes):
        stem, _, suffix = shown.rpartition(".")
        what = f"This file's name ends in '.{suffix}'."
        yield Problem(
            "unread-file", what, "", f"Rename it: {stem}.{suffix.lower()}", Place(shown)
        )


def find_files(
    directory: Path, folder: str, suffixes: tuple[str, ...]
) -> Iterator[Path]:
    """The files below a folder of the project in `directory` whose names end in one of
    `suffixes`, compared case-insensitively. Linked folders are followed.

    Hidden files and folders are skipped, as many tools leave some. A link to a folder
    that contains it is not followed. Raises `ProjectError` for a link that leaves the
    project (`outside-project`) or leads to nothing (`unread-file`).
    """
    root = directory / folder
    return _walk(directory, root, suffixes, (_check_inside(directory, root),))


def _walk(
    directory: Path, folder: Path, suffixes: tuple[str, ...], opened: tuple[Path, ...]
) -> Iterator[Path]:
    """The files below `folder`. `opened` are the real paths of the linked folders
    through which it was reached, by which cycles are found."""
    if not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        visible = [entry for entry in entries if not entry.name.startswith(".")]
    for entry in visible:
        if not entry.is_dir():
            path = folder / entry.name
            if not entry.name.lower().endswith(suffixes):
                continue
            if entry.is_symlink():
                _check_link(directory, path)
            if entry.is_file():
                yield path
            continue
        path = folder / entry.name
        if not entry.is_symlink():
            yield from _walk(directory, path, suffixes, opened)
            continue
        real = _check_inside(directory, path)
        came_through = (*opened, folder.resolve())
        if not any(other.is_relative_to(real) for other in came_through):
            yield from _walk(directory, path, suffixes, (*came_through, real))


def _check_link(directory: Path, path: Path) -> None:
    """Raise `ProjectError` for a link to a file outside the project, or to none."""
    _check_inside(directory, path)
    if not path.exists():
        what = "This link leads to nothing."
        raise ProjectError.of(
            "unread-file", what, place=Place(shorten(path, directory))
        )


def _check_inside(directory: Path, path: Path) -> Path:
    """The real path of a path of the project. Raises `ProjectError` (`outside-project`)
    if that is outside the project."""
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(directory)):
        shown = path.relative_to(directory).as_posix()
        what = f"'{shown}' lies outside the project."
        raise ProjectError.of("outside-project", what, place=Place(SETTINGS_FILE))
    return real


def read_text(path: Path, shown: str) -> str:
    """The text of a file, without a byte order mark. `shown` is its path in messages.

    Raises `ProjectError`: `not-text` if it is not UTF-8, `file-too-large` if it is
    larger than `MAX_BYTES`, without reading it.
    """
    size = path.stat().st_size
    if size > MAX_BYTES:
        what = f"The file has {size:,} bytes, and at most {MAX_BYTES:,} are read."
        raise ProjectError.of("file-too-large", what, place=Place(shown))
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProjectError.of(
            "not-text",
            f"Byte {error.start} of this file is not UTF-8.",
            place=Place(shown),
        ) from None
