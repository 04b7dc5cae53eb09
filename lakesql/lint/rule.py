"""What a rule is: a code, a name, the texts of its section of docs/lint.md, and what it
looks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Protocol

from lakesql.graph.manifest import Manifest
from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel


class RuleTexts(Protocol):
    """What every rule says of itself.

    `finds` is what it finds, as a sentence. `why` says what goes wrong, `example` has
    files in which it does, by their paths, and `instead` the same files as they are
    right. `fix` says what `--fix` does; it is empty where it does nothing.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    finds: ClassVar[str]
    why: ClassVar[str]
    example: ClassVar[Mapping[str, str]]
    instead: ClassVar[Mapping[str, str]]
    fix: ClassVar[str] = ""


class ModelRule(RuleTexts, Protocol):
    """A rule that looks at one model, and at nothing that its compiled text does not
    depend on: what it found is kept until the model, or what it reads, has changed."""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """What it finds in a model."""


class ProjectRule(RuleTexts, Protocol):
    """A rule that looks at the project as a whole, and reads no SQL."""

    def find_all(self, manifest: Manifest) -> Iterator[RuleMatch]:
        """What it finds in a project."""


Rule = ModelRule | ProjectRule
