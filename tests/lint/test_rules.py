"""Each rule: its own example, and the cases of `cases/`, each with what is found in
it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from lakesql.compile.build_select import build_selects
from lakesql.graph.load_manifest import with_texts
from lakesql.lint.all_rules import MODULES, load_rule, model_rules
from lakesql.lint.finding import LintFinding
from lakesql.lint.fix import apply_edits, fix_texts
from tests.lint.samples import find, lay, load

CASES = sorted((Path(__file__).parent / "cases").glob("*.yml"))


@dataclass(frozen=True, slots=True)
class RuleCase:
    """Files over the project, the lines at which the rule of the case finds something,
    and what `--fix` makes of them.

    `fixed` is None where nothing is to be fixed.
    """

    code: str
    says: str
    files: dict[str, str]
    lines: list[str]
    fixed: dict[str, str] | None


def read_cases() -> list[RuleCase]:
    cases = []
    for path in CASES:
        for name, said in yaml.safe_load(path.read_text("utf-8")).items():
            assert said.keys() <= {"files", "finds", "fixed"}, f"{path.name}: {name}"
            cases.append(
                RuleCase(
                    path.stem,
                    name,
                    said["files"],
                    said.get("finds", []),
                    said.get("fixed"),
                )
            )
    return cases


def places(found: Sequence[LintFinding], code: str) -> list[str]:
    return [
        f"{finding.path}:{finding.span.line}"
        for finding in found
        if finding.code == code
    ]


def test_there_are_rules_and_half_of_them_are_about_streams_and_tables() -> None:
    about = [module.partition(".")[0] for module in MODULES.values()]
    assert len(MODULES) >= 25
    assert about.count("streams") + about.count("tables") >= len(about) / 2
    assert list(MODULES) == sorted(MODULES)


@pytest.mark.parametrize("code", MODULES)
def test_a_rule_says_what_docs_need(code: str) -> None:
    rule = load_rule(code)
    assert rule.code == code and re.fullmatch(r"[a-z]+(-[a-z]+)+", rule.name)
    assert (
        rule.finds.endswith(".")
        and rule.why.endswith(".")
        and rule.example
        and rule.instead
    )
    names = [load_rule(each).name for each in MODULES]
    assert names.count(rule.name) == 1


@pytest.mark.parametrize("code", MODULES)
def test_the_example_of_a_rule_is_found_and_what_stands_instead_is_not(
    code: str, tmp_path: Path
) -> None:
    rule = load_rule(code)
    found = find(load(lay(tmp_path / "before", rule.example)))
    assert code in {finding.code for finding in found}
    assert {
        finding.path for finding in found if finding.code == code
    } <= rule.example.keys()
    assert find_code(lay(tmp_path / "after", rule.example, rule.instead), code) == []


def find_code(directory: Path, code: str) -> list[LintFinding]:
    return [finding for finding in find(load(directory)) if finding.code == code]


def test_the_project_itself_is_clean(tmp_path: Path) -> None:
    assert find(load(lay(tmp_path))) == ()


@pytest.mark.parametrize(
    "case", read_cases(), ids=lambda case: f"{case.code}: {case.says}"
)
def test_a_case_is_found_where_it_says(case: RuleCase, tmp_path: Path) -> None:
    manifest = load(lay(tmp_path, case.files))
    found = [finding for finding in find(manifest) if finding.code == case.code]
    assert places(found, case.code) == [str(line) for line in case.lines]
    for finding in found:
        (first, second) = (finding.span.start, finding.span.end)
        assert (first.line, first.column) < (second.line, second.column)
    assert (case.fixed is not None) == any(finding.edits for finding in found)
    for path, text in (case.fixed or {}).items():
        own = [finding for finding in found if finding.path == path]
        fixed, _ = apply_edits(case.files[path], own)
        assert fixed == text


FIXED = [case for case in read_cases() if case.fixed]


@pytest.mark.parametrize("case", FIXED, ids=lambda case: f"{case.code}: {case.says}")
def test_what_is_fixed_parses_keeps_comments_and_is_fixed_once(
    case: RuleCase, tmp_path: Path
) -> None:
    assert case.fixed is not None
    manifest = load(lay(tmp_path, case.files, case.fixed))
    build_selects(manifest, manifest.models)
    assert not [
        finding
        for finding in find(manifest)
        if finding.code == case.code and finding.edits
    ]
    for path, text in case.fixed.items():
        noqas = [
            each for each in COMMENT.findall(case.files[path]) if "noqa" not in each
        ]
        assert all(comment.strip() in text for comment in noqas)
        assert (
            fix_texts(
                {path: text}, lambda changed: find(with_texts(manifest, changed))
            ).texts
            == {}
        )


COMMENT = re.compile(r"--.*|#.*")


@pytest.mark.parametrize("code", MODULES)
def test_each_rule_has_a_case_that_finds_and_one_that_does_not(code: str) -> None:
    own = [case for case in read_cases() if case.code == code]
    assert any(case.lines for case in own) and any(not case.lines for case in own)


@pytest.mark.parametrize("code", [code for code in MODULES if load_rule(code).fix])
def test_a_rule_that_fixes_has_a_case_of_it(code: str) -> None:
    assert any(case.fixed for case in read_cases() if case.code == code)


def test_rules_about_models_are_those_that_are_kept() -> None:
    assert all(hasattr(rule, "find") for rule in model_rules().values())
