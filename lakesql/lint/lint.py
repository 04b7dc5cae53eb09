"""From a parsed project to findings: what a command shows, and what an editor asks for
one file as it is typed."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from lakesql.compile.compiled import CompiledFiles
from lakesql.errors import InternalError, Place
from lakesql.graph.manifest import Manifest
from lakesql.lint.all_rules import model_rules, project_rules
from lakesql.lint.finding import LintFinding, RuleMatch, Span, TextEdit
from lakesql.lint.lint_settings import LintSettings
from lakesql.lint.noqa import Suppressions, find_idle, read_noqas
from lakesql.project.cache import CacheFile, decoder, digest, encode

if TYPE_CHECKING:
    from lakesql.compile.select import Select

NOQA = "LK000"
"""The code of a noqa that suppresses nothing."""


@dataclass(frozen=True, slots=True)
class LintFiles:
    """What is looked at: the models `names`, and with `whole` the other files of the
    project, and its noqas there."""

    names: tuple[str, ...]
    whole: bool


def lint(
    manifest: Manifest,
    settings: LintSettings,
    names: Iterable[str],
    *,
    whole: bool = True,
    compiled: CompiledFiles | None = None,
    built: dict[str, Select] | None = None,
) -> tuple[LintFinding, ...]:
    """What the rules find in the models `names`, and with `whole` in the other files of
    the project, in their order.

    `built` keeps the SELECTs that are worked out; `compiled` names what a model's
    findings depend on, so that those of a model that has not changed are those of the
    command before.
    Raises `ProjectError` for a model that `parse` refuses: nothing is said of how it is
    written.
    """
    files = LintFiles(tuple(names), whole)
    kept = _KeptFindings(manifest, compiled)
    selects = {} if built is None else built
    found: list[LintFinding] = []
    # what is read stays: the search for garbage would walk through all of it again and
    # again
    gc.disable()
    try:
        for name in files.names:
            found += kept.of_model(
                name, partial(_find_in_model, manifest, name, selects)
            )
    finally:
        gc.enable()
    kept.save()
    found = [*_once(manifest, found)]
    found += _find_in_project(manifest, files)
    return tuple(sorted(_suppressed(manifest, settings, files, found), key=_order))


def _once(manifest: Manifest, found: Iterable[LintFinding]) -> Iterator[LintFinding]:
    """The findings; of a file that stands for many models each once, as the first of
    these has it."""
    shared = {group.path for group in manifest.groups.values()}
    seen: set[tuple[str, Span]] = set()
    for finding in found:
        place = (finding.code, finding.span)
        if finding.path not in shared or place not in seen:
            yield finding
        seen.add(place)


def _order(finding: LintFinding) -> tuple[str, int, int, str]:
    return finding.path, finding.span.line, finding.span.start.column or 1, finding.code


def _find_in_model(
    manifest: Manifest, name: str, built: dict[str, Select]
) -> tuple[LintFinding, ...]:
    """What all rules about models find in one, whatever the settings say."""
    # only here: it reads SQL, and mostly nothing has changed
    from lakesql.lint.linted_model import open_model

    model = open_model(manifest, name, built)
    found: dict[LintFinding, None] = {}
    for code, rule in model_rules().items():
        try:
            found.update(dict.fromkeys(_as_findings(code, rule.find(model))))
        except Exception as error:
            raise InternalError.of_defect(
                error, f"Rule {code} on model '{name}'", model.model.place
            ) from error
    return tuple(found)


def _find_in_project(manifest: Manifest, files: LintFiles) -> Iterator[LintFinding]:
    """What the rules about a project find in the files that are looked at."""
    paths = {manifest.models[name].path for name in files.names}
    others = (
        manifest.texts.keys() - {model.path for model in manifest.models.values()}
        if files.whole
        else set()
    )
    for code, rule in project_rules().items():
        for finding in _as_findings(code, rule.find_all(manifest)):
            if finding.path in paths or finding.path in others:
                yield finding


def _as_findings(code: str, found: Iterable[RuleMatch]) -> Iterator[LintFinding]:
    for each in found:
        if each.span is not None:
            yield LintFinding(code, each.span, each.what, each.fix, each.edits)


def _suppressed(
    manifest: Manifest,
    settings: LintSettings,
    files: LintFiles,
    found: Collection[LintFinding],
) -> Iterator[LintFinding]:
    """The findings that neither the settings nor a comment leave out, and the comments
    that leave none out."""
    noqas = {
        path: read_noqas(path, text) for path, text in _texts(manifest, files).items()
    }
    for finding in found:
        suppressions = noqas.get(finding.path, Suppressions(()))
        if finding.code in settings.asks(finding.path) and not suppressions.covers(
            finding.code, finding.span.line
        ):
            yield finding
    for path, suppressions in noqas.items():
        asked = settings.asks(path)
        if suppressions.noqas and NOQA in asked:
            yield from _as_findings(NOQA, find_idle(suppressions, asked))


def _texts(manifest: Manifest, files: LintFiles) -> Mapping[str, str]:
    """The texts of the files that are looked at, by their paths."""
    models = {model.path: model.source for model in manifest.models.values()}
    looked_at = {manifest.models[name].path for name in files.names}
    others = (
        {path: text for path, text in manifest.texts.items() if path not in models}
        if files.whole
        else {}
    )
    return {
        **others,
        **{path: text for path, text in models.items() if path in looked_at},
    }


class _KeptFindings:
    """The findings of models, kept from one command to the next beside what they depend
    on."""

    def __init__(self, manifest: Manifest, compiled: CompiledFiles | None) -> None:
        self._manifest = manifest
        self._compiled = compiled
        self._cache = (
            CacheFile(manifest.outputs.cache / "lint.json")
            if compiled is not None
            else None
        )

    def of_model(
        self, name: str, find: Callable[[], tuple[LintFinding, ...]]
    ) -> tuple[LintFinding, ...]:
        """What was found in a model before, or what `find` finds now."""
        if self._cache is None or self._compiled is None:
            return find()
        key = self._key(self._compiled, name)
        kept = self._cache.get(name, key)
        if kept is not None:
            return _decoder()(kept)  # type: ignore[no-any-return]
        found = find()
        self._cache.put(name, key, encode(found))
        return found

    def _key(self, compiled: CompiledFiles, name: str) -> str:
        """What the findings of a model depend on: all that its compiled text does, and
        where it may name tables by hand, which of them are the project's."""
        model = self._manifest.models[name]
        if f"{model.table.catalog}." not in model.source:
            return compiled.key(name)
        tables = [str(each.table) for each in self._manifest.models.values()]
        tables += [str(each.table) for each in self._manifest.seeds.values()]
        return digest(compiled.key(name), *sorted(tables))

    def save(self) -> None:
        """Write what is known of the project's models."""
        if self._cache is not None:
            self._cache.save(self._manifest.models)


@cache
def _decoder() -> Callable[[Any], Any]:
    return decoder((LintFinding, TextEdit, Span, Place))
