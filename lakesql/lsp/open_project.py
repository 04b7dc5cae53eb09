"""A project that is open in an editor: its files, with unsaved text over those of the
disk, and the problems of each.

A model that is typed in is checked by itself, in some milliseconds (`look`). The rest
of the project is read in a pause of typing (`read_all`), and then checked model by
model (`check_next`), so that no request waits long. Nothing is written, no broker is
asked, and no Java is started.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lakesql.compile.build_select import build_select
from lakesql.compile.compiled import CompiledFiles, compiled_files
from lakesql.compile.notes import find_notes
from lakesql.compile.select import Select, output_columns
from lakesql.errors import (
    InternalError,
    LakesqlError,
    Problem,
    ProfileError,
    ProjectError,
)
from lakesql.graph.graph import node_id
from lakesql.graph.load_manifest import with_texts
from lakesql.graph.manifest import Manifest
from lakesql.graph.read_file import parse_declarations
from lakesql.lint.finding import LintFinding
from lakesql.lint.lint import lint
from lakesql.lint.lint_settings import LintSettings, read_lint_settings
from lakesql.lsp.project_reader import ProjectReader, ReadFiles, ServerOptions
from lakesql.model.model import Model
from lakesql.project.changed_files import is_of_project
from lakesql.project.files import PROPERTIES_SUFFIXES, SELECTORS_FILE, SourceFile
from lakesql.run.seeds.check_seeds import check_seeds
from lakesql.stream.stream import Column
from lakesql.unit.data_test_query import check_tests_of, table_columns


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """The result of checking a model's SELECT. `key` identifies all that it depends on.

    `columns` is None if they are not known.
    """

    key: str
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    columns: tuple[Column, ...] | None = None


@dataclass(frozen=True, slots=True)
class FileLook:
    """The result of checking one file by itself. `text` is the text that it had."""

    text: str
    problems: tuple[Problem, ...]
    findings: tuple[LintFinding, ...] = ()


class OpenProject:
    """One project of an editor. `manifest` is the last one that could be read; None if
    none could be."""

    def __init__(self, directory: Path, options: ServerOptions) -> None:
        self.directory = directory
        self.manifest: Manifest | None = None
        self.lint_settings = LintSettings()
        self.opened: dict[str, str] = {}
        """The texts of the files that are open in the editor, by their paths from the
        project's directory."""
        self.built: dict[str, Select] = {}
        """A cache of the SELECTs of `manifest`'s models."""
        self._reader = ProjectReader(directory, options)
        self._gone: set[str] = set()
        self._good: dict[str, str] = {}
        self._of_reading: tuple[Problem, ...] = ()
        self._of_tests: tuple[Problem, ...] = ()
        self._seen: dict[str, FileLook] = {}
        self._checked: dict[str, CheckedModel] = {}
        self._findings: dict[str, tuple[LintFinding, ...]] = {}
        self._compiled: CompiledFiles | None = None
        self._waiting: deque[str] = deque()
        self._has_tests_waiting = False

    # Notifications of the editor

    def open(self, path: str, text: str) -> None:
        """Set the text of a file that is open in the editor. It takes precedence over
        the disk."""
        self.opened[path] = text.removeprefix("\ufeff")
        self._gone.discard(path)

    def close(self, path: str) -> None:
        """Use the disk's text of a file again, as the editor has closed it."""
        self.opened.pop(path, None)
        self._seen.pop(path, None)

    def forget(self, path: str) -> None:
        """Note that a file was deleted. Even if it is open in the editor, it is no file
        of the project until it changes."""
        self._gone.add(path)
        self._seen.pop(path, None)

    def remember(self, path: str) -> None:
        """Note that a file exists, as it was created or changed."""
        self._gone.discard(path)

    @property
    def buffers(self) -> dict[str, str]:
        """The texts of open files that replace those of the disk, by path."""
        return {
            path: text for path, text in self.opened.items() if path not in self._gone
        }

    def text(self, path: str) -> str | None:
        """The text of a file of the project, from the editor or else from the disk;
        None if there is no such file, or it is not UTF-8."""
        if path in self.opened:
            return self.opened[path]
        if self._reader.disk is not None and path in self._reader.disk.texts:
            return self._reader.disk.texts[path]
        try:
            return (self.directory / path).read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError):
            return None

    def texts(self) -> dict[str, str]:
        """The texts of all files that the project is read from, by path: from the
        editor or else from the disk."""
        on_disk = self._reader.disk.texts if self._reader.disk is not None else {}
        return {
            **{path: text for path, text in on_disk.items() if path not in self._gone},
            **self.buffers,
        }

    # Checks

    def look(self, path: str) -> bool:
        """Check one file by itself, after it was typed in. Returns whether the rest of
        the project must be read again."""
        text = self.opened.get(path)
        if text is None or path in self._gone:
            return True
        seen = self._seen.get(path)
        if seen is not None and seen.text == text:
            return False
        if self.manifest is not None and self._reader.disk is not None:
            is_declaring = path != SELECTORS_FILE and is_of_project(
                self._reader.disk.settings, path
            )
            if is_declaring and path.endswith(PROPERTIES_SUFFIXES):
                problems = parse_declarations(SourceFile(path, text)).problems
                self._seen[path] = FileLook(text, problems)
                return True
            model = next(
                (each for each in self.manifest.models.values() if each.path == path),
                None,
            )
            if model is not None and model.member is None:
                return self._look_at_model(self.manifest, model.name, path, text)
        self._seen.pop(path, None)
        return True

    def _look_at_model(
        self, manifest: Manifest, name: str, path: str, text: str
    ) -> bool:
        before = self._face(manifest, name)
        try:
            changed = with_texts(manifest, {path: text})
            kept = self._built_beside(manifest, name)
            select = build_select(changed, name, kept)
            findings = lint(
                changed, self.lint_settings, [name], whole=False, built=kept
            )
        except LakesqlError as error:
            self._seen[path] = FileLook(text, error.problems)
            return False
        self.manifest, self.built = changed, kept
        self._good[path] = text
        self._seen[path] = FileLook(text, (), findings)
        self._checked[name] = _checked_as("", select)
        was_wrong = any(
            each.place is not None and each.place.path == path
            for each in self._of_reading
        )
        return was_wrong or before is None or before != self._face(changed, name)

    def _built_beside(self, manifest: Manifest, name: str) -> dict[str, Select]:
        """The cached SELECTs without those of a model and of all models downstream of
        it."""
        changed = manifest.graph.downstream([node_id("model", name)])
        return {
            each: select
            for each, select in self.built.items()
            if each != name and node_id("model", each) not in changed
        }

    def _face(self, manifest: Manifest, name: str) -> object:
        """All properties of a model that other files may depend on, to be compared;
        None if the model does not parse."""
        model = manifest.models[name]
        try:
            select = build_select(manifest, name, self.built)
        except LakesqlError:
            return None
        text = "" if model.config.is_stored else select.query.sql
        reads = [
            (found.name, kind)
            for kind in ("streams", "refs")
            for found in getattr(model.facts, kind)
        ]
        return (
            model.options,
            reads,
            model.facts.vars,
            model.facts.macros,
            output_columns(select),
            select.writing,
            text,
        )

    def read_all(self, *, from_disk: bool) -> None:
        """Read the whole project again, reusing what is known of unchanged files, and
        queue the models that must be checked."""
        # the garbage collector would scan the many objects that are being made again
        # and again
        gc.disable()
        try:
            self._take(self._reader.read(self.buffers, self._good, from_disk=from_disk))
        except LakesqlError as error:
            self._of_reading = error.problems
        except OSError as error:
            what = f"{error.filename}: {error.strerror}."
            self._of_reading = ProfileError.of("not-accessible", what).problems
        finally:
            gc.enable()

    def _take(self, read: ReadFiles) -> None:
        part = read.part
        self._of_reading = part.problems
        if part.manifest is None:
            self._seen = {}
            return
        self.manifest = part.manifest
        wrong = {
            problem.place.path for problem in part.problems if problem.place is not None
        }
        right = {
            path: text for path, text in read.files.texts.items() if path not in wrong
        }
        self._good = {
            path: text for path, text in self._good.items() if path in wrong
        } | right
        self.built = {}
        self._note_what_waits(part.manifest)
        waiting = {part.manifest.models[name].path for name in self._waiting}
        self._seen = {
            path: seen for path, seen in self._seen.items() if path in waiting
        }

    def _note_what_waits(self, manifest: Manifest) -> None:
        try:
            self.lint_settings = read_lint_settings(manifest)
        except ProjectError as error:
            self._of_reading = (*self._of_reading, *error.problems)
        self._compiled = compiled_files(manifest, self.built)
        for name in self._checked.keys() - manifest.models.keys():
            del self._checked[name]
        first = [
            name for name, model in manifest.models.items() if model.path in self.opened
        ]
        keys = {name: self._compiled.key(name) for name in manifest.models}
        names = [*first, *(name for name in manifest.models if name not in first)]
        self._waiting = deque(
            name for name in names if self._is_unknown(name, keys[name])
        )
        self._has_tests_waiting = True
        self._findings = {}

    def _is_unknown(self, name: str, key: str) -> bool:
        """Whether a model must be checked. It need not be if its result is cached, here
        or by the last command."""
        assert self._compiled is not None
        if name in self._checked and self._checked[name].key == key:
            return False
        known = self._compiled.known(name)
        if known is None:
            return True
        self._checked[name] = CheckedModel(key, (), known.notes, known.columns)
        return False

    @property
    def is_done(self) -> bool:
        """Whether all queued checks are done."""
        return not self._waiting and not self._has_tests_waiting

    def check_next(self) -> None:
        """Check the next queued model; after the last one, the data tests, the seeds,
        and the lint rules for open files."""
        manifest, compiled = self.manifest, self._compiled
        if manifest is None or compiled is None:
            self._waiting.clear()
            self._has_tests_waiting = False
        elif self._waiting:
            name = self._waiting.popleft()
            if name in manifest.models:
                self._check_model(manifest, compiled, name)
        elif self._has_tests_waiting:
            self._has_tests_waiting = False
            self._of_tests = tuple(self._check_tests(manifest))
            self._lint_opened(manifest)
            self.built = {
                name: each
                for name, each in self.built.items()
                if each.model.path in self.opened
            }

    def _check_model(
        self, manifest: Manifest, compiled: CompiledFiles, name: str
    ) -> None:
        key = compiled.key(name)
        try:
            select = build_select(manifest, name, self.built)
            self._checked[name] = _checked_as(key, select)
        except LakesqlError as error:
            self._checked[name] = CheckedModel(key, error.problems)
        if self.text(manifest.models[name].path) == manifest.models[name].source:
            self._seen.pop(manifest.models[name].path, None)

    def _check_tests(self, manifest: Manifest) -> Iterator[Problem]:
        if manifest.data_tests:
            tables = {
                name: self._table_columns(model)
                for name, model in manifest.models.items()
            }
            yield from _problems_of(lambda: check_tests_of(manifest, tables))
        yield from _problems_of(
            lambda: check_seeds(manifest, manifest.seeds, saves=False)
        )

    def _table_columns(self, model: Model) -> Mapping[str, str] | None:
        checked = self._checked.get(model.name)
        columns = checked.columns if checked is not None else None
        return table_columns(model, columns) if columns is not None else None

    def _checked_right(self, manifest: Manifest) -> frozenset[str]:
        right = (
            name for name, checked in self._checked.items() if not checked.problems
        )
        return frozenset(right) & manifest.models.keys()

    def _lint_opened(self, manifest: Manifest) -> None:
        """Run the linter on the open files. Models that do not parse are left out."""
        right = self._checked_right(manifest)
        names = [
            name
            for name, model in manifest.models.items()
            if model.path in self.opened and name in right
        ]
        found: dict[str, tuple[LintFinding, ...]] = {}
        for finding in lint(
            manifest, self.lint_settings, names, whole=True, built=self.built
        ):
            found[finding.path] = (*found.get(finding.path, ()), finding)
        self._findings = found

    # Results

    def problems(self) -> dict[str, tuple[Problem, ...]]:
        """The problems of the project by the paths of files; '' for those without a
        place."""
        found: dict[str, dict[Problem, None]] = {}
        every = [*self._of_reading, *self._of_tests]
        for name, checked in self._checked.items():
            if self.manifest is not None and name in self.manifest.models:
                every += checked.problems
        for problem in every:
            path = problem.place.path if problem.place is not None else ""
            found.setdefault(path, {})[problem] = None
        told = {path: tuple(each) for path, each in found.items()}
        for path, seen in self._seen.items():
            told[path] = seen.problems
        return told

    def findings(self, path: str) -> tuple[LintFinding, ...]:
        """The linter's findings in an open file."""
        seen = self._seen.get(path)
        if seen is not None:
            return seen.findings
        return self._findings.get(path, ())

    def warnings(self, path: str) -> tuple[Problem, ...]:
        """The warnings about a file: problems that fail no command."""
        warnings = self.manifest.warnings if self.manifest is not None else ()
        return tuple(
            each
            for each in warnings
            if each.place is not None and each.place.path == path
        )

    def notes(self, path: str) -> Iterable[str]:
        """The notes of `parse` on the model in a file: how its table may differ from
        what the author intends."""
        for name, model in (
            self.manifest.models if self.manifest is not None else {}
        ).items():
            if model.path == path and model.member is None and name in self._checked:
                yield from self._checked[name].notes

    def columns(self, name: str) -> tuple[Column, ...]:
        """The columns of a model as of its last check; empty if they are not known."""
        checked = self._checked.get(name)
        return checked.columns or () if checked is not None else ()

    def select(self, name: str) -> Select | None:
        """The SELECT of a model in the last manifest that could be read; None if it
        does not parse."""
        if self.manifest is None or name not in self.manifest.models:
            return None
        try:
            return build_select(self.manifest, name, self.built)
        except LakesqlError:
            return None


def _checked_as(key: str, select: Select) -> CheckedModel:
    columns = output_columns(select) if select.columns is not None else None
    return CheckedModel(key, (), tuple(note for _, note in find_notes(select)), columns)


def _problems_of(check: Callable[[], None]) -> tuple[Problem, ...]:
    try:
        check()
    except LakesqlError as error:
        return error.problems
    except OSError as error:  # a file that has gone since
        return InternalError.of_defect(error).problems
    return ()
