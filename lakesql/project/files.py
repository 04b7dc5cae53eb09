"""Finding and reading the files of a project, and writing those beside them."""

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
"""More than any file of a project has: a larger one is not read at all."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the project: its path from the project's directory, with slashes, and
    its text."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class SeedFile:
    """A seed's file: its path from the project's directory, with slashes, its first
    record, and what tells its content from any other. The content itself is read where
    it is needed: it may be large."""

    path: str
    header: str
    digest: str


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where lakesql writes beside the tables. `target` has what can be created again:
    results, and what is below."""

    target: Path
    logs: Path

    @property
    def compiled(self) -> Path:
        """The compiled files, each under the path of its model."""
        return self.target / "compiled"

    @property
    def cache(self) -> Path:
        """What was worked out before."""
        return self.target / "cache"

    @property
    def warm(self) -> Path:
        """The sockets of what commands leave to each other. Nobody but their user can
        enter it."""
        return self.target / "warm"

    @property
    def spark_log(self) -> Path:
        """What Spark logs."""
        return self.logs / "spark.log"


def outputs_of(
    directory: Path, target: Path | None = None, logs: Path | None = None
) -> Outputs:
    """The folders of the project in `directory`, where others are not named."""
    return Outputs(
        (target or directory / "target").absolute(),
        (logs or directory / "logs").absolute(),
    )


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """Everything that a project's files say, unparsed. Each tuple is sorted by path.

    `selectors` is selectors.yml, which is no part of what runs: None where there is
    none. `contracts` are the .yml files beside the seeds, `schemas` the .avsc and
    .proto files among the streams.
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
        """The files that say what runs or is tested, by their paths, the settings among
        them; of seeds the header."""
        declared = (*self.streams, *self.properties, *self.contracts, *self.schemas)
        files = (*self.models, *self.macros, *self.tests, *declared)
        headers = {seed.path: f"{seed.header}\n" for seed in self.seeds}
        return {
            SETTINGS_FILE: self.settings_text,
            **{file.path: file.text for file in (*files, *self.schemas)},
            **headers,
        }


def read_project(directory: Path, outputs: Outputs | None = None) -> ProjectFiles:
    """The files of the project in `directory`, which is written to `outputs`, else
    below it.

    Raises `UsageError` (`no-project`) where there is none, `ProjectError` for a file
    that is not UTF-8 (`not-text`), is larger than any SELECT (`file-too-large`), lies
    outside the project (`outside-project`) or would be passed over (`unread-file`), and
    for a folder that the settings name and that is not there (`unknown-folder`).
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
    # nothing is said of what the files that cannot be read would have declared
    if problems:
        raise ProjectError(problems)
    return files


def check_folder_of_tests(directory: Path, paths: Paths) -> None:
    """Raise `ProjectError` (`unknown-folder`) where the settings name a folder of tests
    that is not there: whoever asks for tests would run none."""
    problem = _find_missing_folder(directory, paths, "tests")
    if problem is not None:
        raise ProjectError([problem])


def _find_missing_folders(directory: Path, paths: Paths) -> Iterator[Problem]:
    """The folders that the settings name and that are not there; that of tests may be
    missing where a project only runs."""
    for each in fields(Paths):
        problem = _find_missing_folder(directory, paths, each.name)
        if problem is not None and each.name != "tests":
            yield problem


def _find_missing_folder(directory: Path, paths: Paths, kind: str) -> Problem | None:
    """What is wrong where the folder of this kind is not there; a default one may be
    missing."""
    name = getattr(paths, kind)
    if name == getattr(Paths(), kind) or (directory / name).is_dir():
        return None
    what = f"There is no folder '{name}', in which `paths` says that the {kind} are."
    return Problem("unknown-folder", what, place=Place(SETTINGS_FILE))


def _find_stray_properties(files: ProjectFiles) -> Iterator[Problem]:
    """The properties files in a folder in which none are read: what they test would
    never be tested."""
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
    """The seeds whose files can be read; `problems` hears of the others."""
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
    """What a seed's file has. Raises `ProjectError` (`file-too-large`) before any of it
    is read."""
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
    """The first record of a text in CSV, without its line end; all of its first line,
    where a quote is not closed."""
    found = _FIRST_RECORD.match(text)
    end = found.end() if found is not None else 0
    if text[end : end + 1] not in ("", "\r", "\n"):
        end = next(
            (at for at, character in enumerate(text) if character in "\r\n"), len(text)
        )
    return text[:end]


_FIRST_RECORD = re.compile(r'(?:[^"\r\n]+|"[^"]*")*+')


def digest_of(content: bytes) -> str:
    """What tells a content from any other."""
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
    """The nearest directory from `start` upwards whose pyproject.toml has a
    `[tool.lakesql]`; `start` if none has."""
    return next(filter(has_settings, (start, *start.parents)), start)


def has_settings(directory: Path) -> bool:
    """Whether the directory's pyproject.toml has a `[tool.lakesql]`. No more of it is
    read than of any other file."""
    settings = directory / SETTINGS_FILE
    if not settings.is_file():
        return False
    with settings.open("rb") as file:
        return b"[tool.lakesql" in file.read(MAX_BYTES)


def write_atomically(path: Path, text: str | bytes) -> None:
    """Write `text` so that a reader of `path` meets the old text or the new one, and
    never half of it."""
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
    """Let the files of each recorded topic be as old as their names say: Spark reads
    files by age, a topic by name.

    A file that is not younger than the one before it becomes a millisecond younger;
    nothing else of it changes. Raises `ProfileError` (`not-accessible`) where it cannot
    be changed, as in a folder that is read-only.
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
    """Whether the time of a recorded file is one that `date_by_name` has set: a whole
    millisecond, and the next one after that of the file before it."""
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
    """A path below a directory as it is there, with slashes; any other one as it is."""
    return (
        path.relative_to(directory) if path.is_relative_to(directory) else path
    ).as_posix()


def _read_folder(
    directory: Path, folder: str, suffixes: tuple[str, ...], problems: list[Problem]
) -> tuple[SourceFile, ...]:
    """The files of a folder that can be read; `problems` hears of the others."""
    found = []
    above = (directory / "_").as_posix().removesuffix("_")
    for path in find_files(directory, folder, suffixes):
        relative = path.as_posix().removeprefix(above)
        problems += _find_misspelt(relative, suffixes)
        text = collect(problems, partial(read_text, path, relative))
        found += [SourceFile(relative, text)] if text is not None else []
    return tuple(sorted(found, key=lambda file: file.path))


def _find_misspelt(shown: str, suffixes: tuple[str, ...]) -> Iterator[Problem]:
    """The problem of a file whose suffix has other capitals: nothing else would take it
    for a file of the project."""
    if not shown.endswith(suffixes):
        stem, _, suffix = shown.rpartition(".")
        what = f"This file's name ends in '.{suffix}'."
        yield Problem(
            "unread-file", what, "", f"Rename it: {stem}.{suffix.lower()}", Place(shown)
        )


def find_files(
    directory: Path, folder: str, suffixes: tuple[str, ...]
) -> Iterator[Path]:
    """The files below a folder of the project in `directory` that end so, whatever the
    capitals, those of linked folders among them.

    Without hidden ones: tools of all kinds leave those beside one's own. A link to a
    folder in which it stands is not followed. Raises `ProjectError` for a link that
    leaves the project (`outside-project`) or leads to nothing (`unread-file`).
    """
    root = directory / folder
    return _walk(directory, root, suffixes, (_check_inside(directory, root),))


def _walk(
    directory: Path, folder: Path, suffixes: tuple[str, ...], opened: tuple[Path, ...]
) -> Iterator[Path]:
    """The files below `folder`. `opened` are real paths of folders that it was reached
    through."""
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
    """Raises `ProjectError` for a link to a file that leaves the project, or to
    none."""
    _check_inside(directory, path)
    if not path.exists():
        what = "This link leads to nothing."
        raise ProjectError.of(
            "unread-file", what, place=Place(shorten(path, directory))
        )


def _check_inside(directory: Path, path: Path) -> Path:
    """The real path of a path of the project. Raises `ProjectError` (`outside-project`)
    where that is not inside."""
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(directory)):
        shown = path.relative_to(directory).as_posix()
        what = f"'{shown}' lies outside the project."
        raise ProjectError.of("outside-project", what, place=Place(SETTINGS_FILE))
    return real


def read_text(path: Path, shown: str) -> str:
    """The text of a file, which problems call `shown`.

    Raises `ProjectError`: `not-text` if it is not UTF-8, `file-too-large` before any of
    it is read.
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
