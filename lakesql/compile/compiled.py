"""Compiled texts, kept from one command to the next in the files that `lakesql compile`
writes."""

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
"""After so many models the garbage is collected that was made since."""

WORTH_TWO = 100
"""To compile so many models takes longer than to copy the process."""


class CompiledFiles:
    """The compiled files of a project's models below `folder`; the file `cache` says
    from what each was made.

    The key of a text names everything that it depends on (`compiled_keys.py`). Nothing
    depends on the times in a text, which are those that hold at `at`: a file is as good
    with older ones.
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
        """Compile those of the models `names` that are not known to be right; write no
        compiled file.

        Raises `ProjectError` with the problems of all of them.
        """
        self._each(names, lambda name: self.is_known(name) or self._build(name))

    def compile(self, names: Iterable[str]) -> Mapping[str, str]:
        """The compiled texts of the models `names`; each stands in its file then.

        Raises `ProjectError` with the problems of all of them; the files of the others
        are written all the same.
        """
        return self._each(names, lambda name: self._written(name) or self._write(name))

    def compile_in_two(self, names: Collection[str]) -> Mapping[str, str]:
        """The texts of `compile`, for one who needs no SELECTs: of many new ones, a
        copy of the process makes half."""
        from lakesql.project.copies import in_two

        new = [name for name in names if not self.is_known(name)]
        for entries in in_two(new, WORTH_TWO, self._compile_new):
            for name, entry in entries.items():
                self._cache.put(name, self.key(name), entry)
        return self.compile(names)

    def _compile_new(self, names: Sequence[str]) -> dict[str, Any]:
        """Compile models, and hand out what the cache has of each then; nothing of
        those that are wrong."""
        done, _ = self._try_each(names, self._write)
        return {name: self._cache.get(name, self.key(name)) for name in done}

    def selects(self, names: Iterable[str]) -> dict[str, Select]:
        """The SELECTs of the models `names`; those that were compiled just now are not
        built again."""
        from lakesql.compile.build_select import build_selects

        return build_selects(self._manifest, names, self._built)

    def known(self, name: str) -> Compiled | None:
        """The result of compiling a model last, if nothing that it depends on has
        changed since."""
        key = self.key(name)
        if (name, key) not in self._known:
            found = self._cache.get(name, key)
            if found is None:
                return None
            # only here: most commands ask for texts alone
            from lakesql.compile.compiled_keys import decode_compiled

            self._known[name, key] = decode_compiled(found["said"])
        return self._known[name, key]

    def notes(self, name: str) -> Sequence[str]:
        """The notes of a model, where it is known."""
        found = self._cache.get(name, self.key(name))
        return found["notes"] if found is not None else ()

    @property
    def version(self) -> str:
        """A text that differs after another state of some model was compiled."""
        return self._cache.version

    def is_known(self, name: str) -> bool:
        """Whether a model was compiled before, and nothing has changed since."""
        return self._cache.get(name, self.key(name)) is not None

    def key(self, name: str) -> str:
        """The digest of everything that the compiled text of a model depends on."""
        found = self._known_keys.get(name)
        if found is not None:
            return found.key
        if self._all_keys is None:
            # only here: mostly nothing has changed
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
        """What the work makes of each, and the problems of the others."""
        done: dict[str, T] = {}
        problems: dict[Problem, None] = {}
        # what is made here stays: the search for garbage would walk through all of it
        # again and again
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
        """The text in the compiled file, if it is what would be written there."""
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
        # In place: half a file, from a command that broke off, has another digest and
        # is written anew.
        path.write_bytes(text.encode())
        return text

    def _build(self, name: str) -> str:
        # Only here, as reading SQL is what the import costs, and mostly nothing has
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
        # Digest and notes beside it: most commands ask for nothing else of a thousand
        # models.
        self._cache.put(
            name,
            self.key(name),
            {"digest": said.digest, "notes": notes, "said": encode(said)},
        )
        return text

    def _columns_read(self, name: str) -> dict[str, tuple[str, ...]]:
        """The columns of the models that a model reads by `ref`, as far as these are
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
    """The compiled files of the project. `built` and `texts` keep the SELECTs and the
    texts that are worked out, these without the times that hold at `at`: now, if it is
    not said."""
    cache = manifest.outputs.cache / "compiled.json"
    built = {} if built is None else built
    texts = {} if texts is None else texts
    return CompiledFiles(manifest, manifest.outputs.compiled, cache, built, texts, at)


def write_copies(manifest: Manifest, texts: Mapping[str, str], folder: Path) -> None:
    """Write the compiled texts of models below `folder`, where a project keeps them
    under version control.

    Files that lakesql wrote there of models that are no more are removed. Raises
    `UsageError` (`bad-output-dir`) before anything is written, if that would change a
    file that lakesql did not write, or add one to the project's own.
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
    """Whether a file has this text already but for its times: a commit would show no
    other change."""
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
    """The path of the model that a file was compiled from, as its first line says; None
    if lakesql did not write it."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        before, mark, model = (
            file.readline().decode(errors="replace").partition(COMPILED_FROM)
        )
    return model.strip() if mark and before.startswith("-- ") else None
