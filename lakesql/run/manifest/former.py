"""Reads the files of a project as they were: in a commit of its git repository, or in
the `manifest.json` of an earlier command."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from itertools import compress
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from lakesql.errors import ProjectError, UsageError
from lakesql.model.table_name import TableName
from lakesql.project.files import SEED_SUFFIX, has_settings, read_text
from lakesql.project.settings import SETTINGS_FILE, Paths, parse_settings
from lakesql.source.kinds import SOURCES

MAIN_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
"""The names under which the main branch is looked for, in this order."""

_SUFFIXES = (".sql", ".yml", ".yaml", ".toml", ".avsc", ".proto")
"""The suffixes of a project's files, apart from seeds; no other files of a repository
are read."""

_LINK, _FILES = "120000", ("100644", "100755")


@dataclass(frozen=True, slots=True)
class NamedTarget:
    """The target that a manifest was written for. `connections` are the types of its
    connections, by name."""

    name: str
    catalog: str
    namespace: str
    trigger: str
    maintenance: object
    connections: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Former:
    """An earlier version of a project: a folder with its files, and in `called` how
    messages name it. `target` is the target of a manifest.

    The folder has no settings file if the commit had no project. A manifest keeps only
    the headers of seed files; `seeds` then has the digests of the whole files, by path.
    """

    folder: Path
    called: str
    target: NamedTarget | None = None
    seeds: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_project(self) -> bool:
        """Whether the folder contains a project."""
        return has_settings(self.folder)


@contextmanager
def open_commit(directory: Path, ref: str | None) -> Iterator[Former]:
    """Yields the project of `directory` as it was in commit `ref`, or, without one, in
    the merge base with the main branch.

    The files are in a temporary folder that is removed at the end of the block. If the
    project's folder has been renamed since, the former folder is used, as far as git
    detects the rename. Raises `UsageError` (`git-missing`, `git-nested`, `git-ref`,
    `shallow-clone`).
    """
    top = Path(_ask(directory, "rev-parse", "--show-toplevel").strip())
    commit, called = (
        _commit(directory, ref) if ref is not None else _merge_base(directory)
    )
    prefix = PurePosixPath(_ask(directory, "rev-parse", "--show-prefix").strip() or ".")
    _refuse_nested(directory, top)
    if not _has_file(top, commit, prefix / SETTINGS_FILE):
        former = _renamed_from(top, commit, prefix)
        said = (
            f"where the project is in {former}/"
            if former
            else f"which has no project in {prefix}/"
        )
        called, prefix = f"{called}, {said}", former or prefix
    with TemporaryDirectory(prefix="lakesql-plan-") as name:
        folder = Path(name)
        _write_files(top, commit, prefix, folder)
        yield Former(folder, called)


def _has_file(top: Path, commit: str, path: PurePosixPath) -> bool:
    return _try(top, "ls-tree", "--full-tree", commit, "--", str(path)) is not None


def _renamed_from(
    top: Path, commit: str, prefix: PurePosixPath
) -> PurePosixPath | None:
    """The folder that the project had in the commit, chosen by the majority of the
    files that git detects as renamed; None if the folder is new."""
    arguments = (
        "diff",
        "--find-renames",
        "--diff-filter=R",
        "--name-status",
        "-z",
        commit,
    )
    said = _git(top, arguments).stdout.decode(errors="surrogateescape").split("\0")
    folders: Counter[PurePosixPath] = Counter()
    for before, after in zip(
        map(PurePosixPath, said[1::3]), map(PurePosixPath, said[2::3]), strict=False
    ):
        if not after.is_relative_to(prefix):
            continue
        within = after.relative_to(prefix).parts
        if before.parts[-len(within) :] == within:
            folders[PurePosixPath(*before.parts[: -len(within)])] += 1
    return next(
        (
            folder
            for folder, _ in folders.most_common()
            if _has_file(top, commit, folder / SETTINGS_FILE)
        ),
        None,
    )


def _refuse_nested(directory: Path, top: Path) -> None:
    """Raise `UsageError` (`git-nested`) if a part of the project is a git repository of
    its own."""
    settings = directory / SETTINGS_FILE
    if not settings.is_file():
        return
    paths = parse_settings(SETTINGS_FILE, read_text(settings, SETTINGS_FILE)).paths
    for folder in (getattr(paths, each.name) for each in fields(Paths)):
        for found in (directory / folder).rglob(".git"):
            if found.parent.resolve() != top.resolve():
                nested = found.parent.relative_to(directory)
                what = f"{nested}/ is a git repository of its own, and no commit of the project's has its files."
                raise UsageError.of("git-nested", what)


def _commit(directory: Path, ref: str) -> tuple[str, str]:
    commit = _try(
        directory,
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        f"{ref}^{{commit}}",
    )
    if commit is None:
        fix = "Name a branch, a tag or a commit that `git rev-parse` knows; `git fetch` brings those of the remote."
        if _is_shallow(directory):
            raise _shallow(f"There is no commit '{ref}' in this clone.")
        raise UsageError.of(
            "git-ref",
            f"There is no commit '{ref}' in the repository of {directory}.",
            fix=fix,
        )
    return commit.strip(), f"{ref} ({commit.strip()[:7]})"


def _merge_base(directory: Path) -> tuple[str, str]:
    main = next(
        (
            it
            for it in MAIN_BRANCHES
            if _try(directory, "rev-parse", "--verify", "--quiet", it)
        ),
        None,
    )
    if main is None:
        if _is_shallow(directory):
            raise _shallow("There is no main branch in this clone.")
        looked = ", ".join(MAIN_BRANCHES)
        fix = "Name what to compare with: --against REF, or --state with the folder of a manifest.json."
        raise UsageError.of(
            "git-ref", "There is no main branch.", why=f"Looked for: {looked}.", fix=fix
        )
    base = _try(directory, "merge-base", "HEAD", main)
    if base is None:
        if _is_shallow(directory):
            raise _shallow(
                f"The commit at which this branch has left {main} is not in this clone."
            )
        fix = f"Name the commit to compare with: --against {main}"
        raise UsageError.of(
            "git-ref", f"This branch and {main} have no commit in common.", fix=fix
        )
    return base.strip(), f"{main} ({base.strip()[:7]}, where this branch has left it)"


def _is_shallow(directory: Path) -> bool:
    return (
        _try(directory, "rev-parse", "--is-shallow-repository") or ""
    ).strip() == "true"


def _shallow(what: str) -> UsageError:
    return UsageError.of("shallow-clone", what)


def _ask(directory: Path, *arguments: str) -> str:
    """The output of a git command in the project's repository. Raises `UsageError`
    (`git-missing`) if the command fails, as it does outside of a repository."""
    done = _git(directory, arguments)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        what = f"{directory} is in no git repository: {said}"
        raise UsageError.of("git-missing", what)
    return done.stdout.decode(errors="replace")


def _try(directory: Path, *arguments: str) -> str | None:
    done = _git(directory, arguments)
    return (
        done.stdout.decode(errors="replace")
        if done.returncode == 0 and done.stdout
        else None
    )


def _git(
    directory: Path, arguments: Sequence[str], given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        return subprocess.run(
            ["git", "-C", str(directory), *arguments],
            input=given,
            env=environ,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise UsageError.of(
            "git-missing", f"git cannot be started: {error.strerror}."
        ) from None


def _write_files(top: Path, commit: str, prefix: PurePosixPath, folder: Path) -> None:
    """Write the project's files below `prefix` of a commit into `folder`, byte for
    byte.

    They are read one by one and not by `git archive`, which omits and rewrites files as
    .gitattributes says.
    """
    listed = _git(
        top, ("ls-tree", "-r", "-z", "--full-tree", commit, "--", str(prefix))
    ).stdout
    entries = [
        _entry(line)
        for line in listed.decode(errors="surrogateescape").split("\0")
        if line
    ]
    files = [it for it in entries if it.mode in _FILES]
    links = [it for it in entries if it.mode == _LINK]
    _write_entries(
        top,
        [*links, *(it for it in files if it.path.suffix in _SUFFIXES)],
        prefix,
        folder,
    )
    seeds = prefix / _seed_folder(folder)
    is_seed = [
        it.path.suffix == SEED_SUFFIX and it.path.is_relative_to(seeds) for it in files
    ]
    _write_entries(top, [*compress(files, is_seed)], prefix, folder)


def _seed_folder(folder: Path) -> str:
    """The folder of the project's seeds, the default one if its settings cannot be
    read; these errors are reported by whoever loads the project."""
    try:
        return parse_settings(
            SETTINGS_FILE, read_text(folder / SETTINGS_FILE, SETTINGS_FILE)
        ).paths.seeds
    except (ProjectError, OSError):
        return Paths().seeds


def _write_entries(
    top: Path, wanted: Sequence[_TreeEntry], prefix: PurePosixPath, folder: Path
) -> None:
    hashes = "".join(f"{it.hash}\n" for it in wanted).encode()
    contents = (
        _contents(_git(top, ("cat-file", "--batch"), hashes).stdout)
        if wanted
        else iter(())
    )
    for it, content in zip(wanted, contents, strict=True):
        path = folder / it.path.relative_to(prefix)
        path.parent.mkdir(parents=True, exist_ok=True)
        if it.mode == _LINK:
            path.symlink_to(content.decode(errors="surrogateescape"))
        else:
            path.write_bytes(content)


@dataclass(frozen=True, slots=True)
class _TreeEntry:
    mode: str
    hash: str
    path: PurePosixPath


def _entry(line: str) -> _TreeEntry:
    facts, _, path = line.partition("\t")
    mode, _, hash_ = facts.split(" ")
    return _TreeEntry(mode, hash_, PurePosixPath(path))


def _contents(answer: bytes) -> Iterator[bytes]:
    """The file contents in the output of `git cat-file --batch`: for each file a line
    that ends in the size, then as many bytes and a newline."""
    at = 0
    while at < len(answer):
        end = answer.index(b"\n", at)
        size = int(answer[at:end].split(b" ")[2])
        yield answer[end + 1 : end + 1 + size]
        at = end + size + 2


@contextmanager
def open_state(folder: Path) -> Iterator[Former]:
    """Yields the project that the `manifest.json` in a folder holds, with its target;
    the files are in a temporary folder that is removed at the end of the block.

    Raises `UsageError` (`state-missing`, `state-outdated`).
    """
    path = folder / "manifest.json"
    if not path.is_file():
        raise UsageError.of("state-missing", f"There is no manifest.json in {folder}.")
    try:
        manifest = json.loads(path.read_bytes())
        target = NamedTarget(**manifest["metadata"]["target"])
        texts = {str(name): str(text) for name, text in manifest["files"].items()}
        settings = texts[SETTINGS_FILE]
        unknown = set(target.connections.values()) - SOURCES.keys()
        nodes = manifest["nodes"].values()
        seeds = {
            str(it["path"]): str(it["digest"])
            for it in nodes
            if it["resource_type"] == "seed"
        }
    except (ValueError, LookupError, TypeError, AttributeError):
        raise UsageError.of("state-outdated", _say_version(path)) from None
    if not settings or unknown:
        raise UsageError.of("state-outdated", _say_version(path))
    with TemporaryDirectory(prefix="lakesql-plan-") as name:
        root = Path(name).resolve()
        for relative, text in texts.items():
            file = (root / relative).resolve()
            if not file.is_relative_to(root):
                raise UsageError.of(
                    "state-outdated",
                    f"{path} names a file outside of its project: {relative}.",
                )
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
        yield Former(root, f"{path}", target, seeds)


def read_state_tables(folder: Path) -> Mapping[str, TableName]:
    """The tables of the models and seeds in the `manifest.json` of a folder, by name.

    Raises `UsageError` (`state-missing`, `state-outdated`).
    """
    path = folder / "manifest.json"
    if not path.is_file():
        raise UsageError.of("state-missing", f"There is no manifest.json in {folder}.")
    try:
        nodes = json.loads(path.read_bytes())["nodes"].values()
        tables = {
            str(it["name"]): it["table"].split(".")
            for it in nodes
            if it["resource_type"] in ("model", "seed")
        }
        return {name: TableName(*parts) for name, parts in tables.items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        raise UsageError.of("state-outdated", _say_version(path)) from None


def holds_files(folder: Path, texts: Mapping[str, str]) -> bool:
    """Whether the folder's `manifest.json` holds exactly these files; False if there is
    none or it cannot be read."""
    try:
        return bool(
            json.loads((folder / "manifest.json").read_bytes())["files"] == texts
        )
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _say_version(path: Path) -> str:
    """A message that names what has written a manifest that this version cannot
    read."""
    try:
        metadata = json.loads(path.read_bytes())["metadata"]
        version, dbt = metadata.get("lakesql_version"), metadata.get("dbt_version")
    except (ValueError, LookupError, TypeError, AttributeError):
        return f"{path} is not what lakesql writes."
    by = (
        f"lakesql {version}"
        if version
        else f"dbt {dbt}"
        if dbt
        else "something else than lakesql"
    )
    return f"{path} was written by {by}, and does not hold the files of a project as this version reads them."
