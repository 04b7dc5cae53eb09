"""Runs the lint rules over a parsed project, for `lakesql lint` and for the files of an
editor."""

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
"""The code of the rule about a noqa comment that suppresses nothing."""


@dataclass(frozen=True, slots=True)
class LintFiles:
    """The files that are linted: those of the models `names`, and with `whole` also the
    project's files that are no models."""

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
    """The findings of the rules in the models `names`, and with `whole` in the
    project's other files, sorted by file and line.

    `built` caches the SELECTs that are built. `compiled` gives the cache keys of
    models: with it, the findings of a model that has not changed are taken from the
    last run. Raises `ProjectError` for a model that does not parse.
    """
    files = LintFiles(tuple(names), whole)
    kept = _KeptFindings(manifest, compiled)
    selects = {} if built is None else built
    found: list[LintFinding] = []
    # the garbage collector would scan the many objects that are made here, and kept,
    # again and again
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
    """The findings without repetitions in a group's file: it stands for many models,
    and each finding in it is returned once, for the first of these."""
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
    """The findings of all model rules in one model, whatever the settings select."""
    # imported only here, as it loads the SQL parser, and most runs find all in the
    # cache
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
    """The findings of the project rules in the linted files."""
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
    """The findings that neither the settings nor a noqa comment suppress, and a finding
    for each noqa comment that suppresses nothing."""
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
    """The texts of the linted files, by their paths."""
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
    """A cache of the findings of each model, kept in a file from one run to the
    next."""

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
        """The cached findings of a model, or else those that `find` returns, which are
        then cached."""
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
        """The cache key of a model's findings: all that its compiled text depends on;
        and if its SQL names the catalog, also the names of the project's tables."""
        model = self._manifest.models[name]
        if f"{model.table.catalog}." not in model.source:
            return compiled.key(name)
        tables = [str(each.table) for each in self._manifest.models.values()]
        tables += [str(each.table) for each in self._manifest.seeds.values()]
        return digest(compiled.key(name), *sorted(tables))

    def save(self) -> None:
        """Write the cache, without models that are no longer in the project."""
        if self._cache is not None:
            self._cache.save(self._manifest.models)


@cache
def _decoder() -> Callable[[Any], Any]:
    return decoder((LintFinding, TextEdit, Span, Place))
