"""The templates of a project: those of models, groups, handwritten maintenance, and
tests in files."""

from __future__ import annotations

from collections.abc import Iterator

from lakesql.graph.manifest import Manifest
from lakesql.model.data_tests import FailingRows
from lakesql.model.model import TemplateFacts
from lakesql.template.template import Template, parse_template


def templates_read(manifest: Manifest) -> Iterator[TemplateFacts | Template]:
    """What each template of the project reads."""
    yield from (model.facts for model in manifest.models.values())
    yield from (model.facts for model in manifest.written.values())
    yield from (group.facts for group in manifest.groups.values())
    for test in manifest.data_tests:
        if isinstance(test.check, FailingRows):
            yield test.check.template or parse_template(
                test.check.path, test.check.source, manifest.macros
            )
