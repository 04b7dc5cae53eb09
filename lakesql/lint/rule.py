"""The interface of a lint rule: its code, its name, its texts in docs/lint.md, and the
function that finds matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Protocol

from lakesql.graph.manifest import Manifest
from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel


class RuleTexts(Protocol):
    """The code, name and texts of a rule.

    `finds` is what it finds, as a sentence. `why` is what goes wrong, `example` has
    files in which it does, by path, and `instead` the same files corrected. `fix` is
    what `--fix` does; empty if it does nothing.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    finds: ClassVar[str]
    why: ClassVar[str]
    example: ClassVar[Mapping[str, str]]
    instead: ClassVar[Mapping[str, str]]
    fix: ClassVar[str] = ""


class ModelRule(RuleTexts, Protocol):
    """A rule that looks at one model. It may use only what the model's compiled text
    depends on: its findings are cached until the model, or what it reads, changes."""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """The matches in a model."""


class ProjectRule(RuleTexts, Protocol):
    """A rule that looks at the project as a whole, without reading SQL."""

    def find_all(self, manifest: Manifest) -> Iterator[RuleMatch]:
        """The matches in a project."""


Rule = ModelRule | ProjectRule
