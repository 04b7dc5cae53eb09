"""The cache of compiled texts: the files that `lakesql compile` writes, reused by later
commands while nothing that they depend on has changed."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lakesql.compile.compiled_keys import KnownKey, KnownKeys
from lakesql.compile.shown_text import with_times, without_times
from lakesql.errors import Problem, ProjectError, UsageError
from lakesql.graph.manifest import Manifest
from lakesql.names import COMPILED_FROM
from lakesql.project.cache import CacheFile, digest

if TYPE_CHECKING:
    from lakesql.compile.compiled_keys import Compiled, CompiledKeys
    from lakesql.compile.select import Select

T = TypeVar("T")

_GARBAGE = 50
"""After so many models, the garbage that their compilation has left is collected."""

WORTH_TWO = 100
"""From so many models on, forking a second process to compile half of them is
faster."""


class CompiledFiles:
    """The compiled files of a project's models below `folder`; the file `cache` records
    what each was made from.

    The key of a text covers everything that it depends on (`compiled_keys.py`). The
    times in a text are those at `at`; nothing depends on them, so a file with older
    times is still valid.
    """

    def __init__(
        self,
        manifest: Manifest,
        folder: Path,
        cache: Path,
        built: dict[str, Select],
        texts: dict[str, str],
        at: datetime | None,
    ) -> None:
        self._manifest = manifest
        self.folder = folder
        self._cache = CacheFile(cache)
        self._known_keys = KnownKeys(cache.with_name("keys.json"), manifest.version)
        self._all_keys: CompiledKeys | None = None
        self._known: dict[tuple[str, str], Compiled] = {}
        self._built = built
        self._texts = texts
        self._at = at

    def check(self, names: Iterable[str]) -> None:
        """Compile those of the models `names` that are not in the cache, without
        writing compiled files.

        Raises `ProjectError` with the problems of all of them.
        """
        self._each(names, lambda name: self.is_known(name) or self._build(name))

    def compile(self, names: Iterable[str]) -> Mapping[str, str]:
        """The compiled texts of the models `names`, each written to its file.

        Raises `ProjectError` with the problems of all of them; the files of the valid
        models are written nevertheless.
        """
        return self._each(names, lambda name: self._written(name) or self._write(name))

    def compile_in_two(self, names: Collection[str]) -> Mapping[str, str]:
        """The result of `compile` for callers that need no SELECTs: if many models are
        new, a forked process compiles half of them."""
        from lakesql.project.copies import in_two

        new = [name for name in names if not self.is_known(name)]
        for entries in in_two(new, WORTH_TWO, self._compile_new):
            for name, entry in entries.items():
                self._cache.put(name, self.key(name), entry)
        return self.compile(names)

    def _compile_new(self, names: Sequence[str]) -> dict[str, Any]:
        """Compile models, and return the cache's entry of each; invalid models are left
        out."""
        done, _ = self._try_each(names, self._write)
        return {name: self._cache.get(name, self.key(name)) for name in done}

    def selects(self, names: Iterable[str]) -> dict[str, Select]:
        """The SELECTs of the models `names`; those compiled by this command are not
        built again."""
        from lakesql.compile.build_select import build_selects

        return build_selects(self._manifest, names, self._built)

    def known(self, name: str) -> Compiled | None:
        """The cached result of compiling a model; None if something that it depends on
        has changed."""
        key = self.key(name)
        if (name, key) not in self._known:
            found = self._cache.get(name, key)
            if found is None:
                return None
            # imported here: most commands need only the texts
            from lakesql.compile.compiled_keys import decode_compiled

            self._known[name, key] = decode_compiled(found["said"])
        return self._known[name, key]

    def notes(self, name: str) -> Sequence[str]:
        """The cached notes of a model; empty if it is not in the cache."""
        found = self._cache.get(name, self.key(name))
        return found["notes"] if found is not None else ()

    @property
    def version(self) -> str:
        """The version of the cache, which changes when a model is compiled in another
        state."""
        return self._cache.version

    def is_known(self, name: str) -> bool:
        """Whether a model was compiled before and nothing that it depends on has
        changed."""
        return self._cache.get(name, self.key(name)) is not None

    def key(self, name: str) -> str:
        """The digest of everything that the compiled text of a model depends on."""
        found = self._known_keys.get(name)
        if found is not None:
            return found.key
        if self._all_keys is None:
            # imported here: mostly nothing has changed
            from lakesql.compile.compiled_keys import CompiledKeys

            self._all_keys = CompiledKeys(self._manifest)
        key = self._all_keys.key(name)
        self._known_keys.put(
            name, KnownKey(key, self._manifest.models[name].compiled_path)
        )
        return key

    def _path(self, name: str) -> Path:
        found = self._known_keys.get(name)
        return self.folder / (
            found.compiled_path if found else self._manifest.models[name].compiled_path
        )

    def _each(self, names: Iterable[str], work: Callable[[str], T]) -> dict[str, T]:
        done, problems = self._try_each(names, work)
        self._cache.save(self._manifest.model_names)
        self._known_keys.save()
        if problems:
            raise ProjectError(problems)
        return done

    def _try_each(
        self, names: Iterable[str], work: Callable[[str], T]
    ) -> tuple[dict[str, T], dict[Problem, None]]:
        """The result of `work` for each name, and the problems of the names for which
        it failed."""
        done: dict[str, T] = {}
        problems: dict[Problem, None] = {}
        # the objects made here stay: automatic garbage collection would walk through
        # all of them again and again
        gc.disable()
        try:
            for number, name in enumerate(names, 1):
                if number % _GARBAGE == 0:
                    gc.collect()  # the trees of SELECTs, whose nodes know each other
                    gc.freeze()
                try:
                    done[name] = work(name)
                except ProjectError as error:
                    problems.update(dict.fromkeys(error.problems))
        finally:
            gc.enable()
        return done, problems

    def _written(self, name: str) -> str | None:
        """The text of the compiled file if it is up to date and nobody has edited it,
        else None."""
        found = self._cache.get(name, self.key(name))
        if found is None:
            return None
        try:
            text = self._path(name).read_bytes().decode()
        except (OSError, UnicodeDecodeError):
            return None
        return text if digest(without_times(text)) == found["digest"] else None

    def _write(self, name: str) -> str:
        text = with_times(self._build(name), self._at)
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not atomic: an incomplete file of a killed command has another digest and is
        # written again.
        path.write_bytes(text.encode())
        return text

    def _build(self, name: str) -> str:
        # Imported here, as the import of the SQL parser is slow and mostly nothing has
        # changed.
        from lakesql.compile.build_select import build_select
        from lakesql.compile.compiled_keys import Compiled
        from lakesql.compile.model_lineage import model_lineage
        from lakesql.compile.notes import find_notes
        from lakesql.compile.select import output_columns
        from lakesql.compile.statements import compiled_text
        from lakesql.project.cache import encode

        select = build_select(self._manifest, name, self._built)
        text = self._texts[name] = compiled_text(select)
        columns = output_columns(select) if select.columns is not None else None
        notes = tuple(note for _, note in find_notes(select))
        lineage = model_lineage(self._manifest, select, self._columns_read(name))
        said = Compiled(digest(text), columns, select.query.stateful, notes, lineage)
        self._known[name, self.key(name)] = said
        # Digest and notes stand outside the encoded value: most commands need nothing
        # else of a thousand models.
        self._cache.put(
            name,
            self.key(name),
            {"digest": said.digest, "notes": notes, "said": encode(said)},
        )
        return text

    def _columns_read(self, name: str) -> dict[str, tuple[str, ...]]:
        """The columns of the models that a model reads by `ref`, as far as they are
        known."""
        from lakesql.compile.build_select import build_select

        found: dict[str, tuple[str, ...]] = {}
        for reference in self._manifest.models[name].facts.refs:
            if (
                reference.name not in self._manifest.models
                or reference.name in self._manifest.deferred
            ):
                continue
            try:
                read = build_select(self._manifest, reference.name, self._built)
            except ProjectError:
                continue  # that model is refused by itself
            if read.columns is not None:
                found[reference.name] = (
                    *read.columns,
                    *(added.name for added in read.writing.added),
                )
        return found


def compiled_files(
    manifest: Manifest,
    built: dict[str, Select] | None = None,
    texts: dict[str, str] | None = None,
    at: datetime | None = None,
) -> CompiledFiles:
    """The compiled files of the project. `built` and `texts` collect the SELECTs and
    the texts that are made, the texts without the times, which are those at `at`, by
    default now."""
    cache = manifest.outputs.cache / "compiled.json"
    built = {} if built is None else built
    texts = {} if texts is None else texts
    return CompiledFiles(manifest, manifest.outputs.compiled, cache, built, texts, at)


def write_copies(manifest: Manifest, texts: Mapping[str, str], folder: Path) -> None:
    """Write the compiled texts of models below `folder`, where a project keeps them
    under version control.

    Files that lakesql wrote there for models that no longer exist are removed. Raises
    `UsageError` (`bad-output-dir`), before anything is written, if a file that lakesql
    did not write would be overwritten, or if the folder is among the project's own.
    """
    _check_folder(manifest, folder)
    paths = {
        folder / manifest.models[name].compiled_path: text
        for name, text in texts.items()
    }
    if foreign := [
        path for path in paths if path.exists() and _compiled_from(path) is None
    ]:
        what = f"{foreign[0]} would be overwritten, and is no compiled file."
        raise UsageError.of(
            "bad-output-dir", what, fix="Name another folder, or move the file."
        )
    for path, text in paths.items():
        if _says_the_same(path, text):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    there = {model.compiled_path for model in manifest.models.values()}
    for path in sorted(folder.rglob("*.sql")):
        relative = path.relative_to(folder)
        if (
            relative.as_posix() not in there
            and _compiled_from(path) == relative.as_posix()
        ):
            path.unlink()
            for parent in relative.parents[:-1]:
                if not any((folder / parent).iterdir()):
                    (folder / parent).rmdir()


def _says_the_same(path: Path, text: str) -> bool:
    """Whether a file differs from this text at most in its times, so that writing it
    would change nothing else."""
    return path.is_file() and without_times(
        path.read_bytes().decode(errors="replace")
    ) == without_times(text)


def _check_folder(manifest: Manifest, folder: Path) -> None:
    paths = manifest.settings.paths
    for own in (paths.models, paths.macros):
        if folder.resolve().is_relative_to((manifest.directory / own).resolve()):
            what = f"{folder} is in the project's folder {own}/, whose .sql files lakesql reads."
            raise UsageError.of(
                "bad-output-dir", what, fix="Name another folder, such as compiled."
            )


def _compiled_from(path: Path) -> str | None:
    """The path of the model that a file was compiled from, from its first line; None if
    lakesql did not write it."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        before, mark, model = (
            file.readline().decode(errors="replace").partition(COMPILED_FROM)
        )
    return model.strip() if mark and before.startswith("-- ") else None
