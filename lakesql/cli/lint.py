"""`lakesql lint`: findings on what `parse` accepts and may still be a mistake."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakesql.cli.options import Command, Given, Options, find_directory, select_options

if TYPE_CHECKING:
    from lakesql.compile.select import Select
    from lakesql.graph.manifest import Manifest
    from lakesql.lint.finding import LintFinding
    from lakesql.lint.lint_settings import LintSettings


@click.command("lint", cls=Command)
@select_options
@click.option(
    "--fix",
    is_flag=True,
    help="Apply the fixes of findings to the files.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["text", "github", "sarif", "json"]),
    default="text",
    show_default=True,
    help="Output format; github: annotations in the log of a workflow.",
)
@click.pass_obj
def command(
    given: Given,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    fix: bool,
    output: str,
) -> int:
    """Find code in the project that is valid, but likely a mistake.

    Each rule has a code; docs/lint.md explains it, with the alternative. A comment `--
    noqa: LK012` on its line suppresses a finding, and [tool.lakesql.lint] of
    pyproject.toml selects the rules. The exit code is 1 if there are findings, and 2 if
    the project has errors. Neither Java nor Spark is needed.
    """
    from lakesql.cli import project

    options = given.options
    found = find_all(project.load_project(options), select, exclude, options)
    manifest, findings = found.manifest, found.findings
    if fix and any(finding.edits for finding in findings):
        from lakesql.lint.lint import lint

        manifest = _fix(manifest, found.settings, found.names, found.is_whole, options)
        findings = lint(manifest, found.settings, found.names, whole=found.is_whole)
    _show(findings, manifest, len(found.names), output, options)
    return 1 if findings else 0


@dataclass(frozen=True, slots=True)
class Linted:
    """A project, the names of its linted models, the settings, and the findings.
    `is_whole`: nothing was selected, so the whole project was linted."""

    manifest: Manifest
    settings: LintSettings
    names: Sequence[str]
    is_whole: bool
    findings: Sequence[LintFinding]


def find_all(
    manifest: Manifest, select: Sequence[str], exclude: Sequence[str], options: Options
) -> Linted:
    """The findings on the selected models, or on the whole project if nothing is
    selected.

    Raises `ProjectError` if the project does not parse.
    """
    from lakesql.cli import project
    from lakesql.cli.selection import select_models
    from lakesql.compile.compiled import compiled_files
    from lakesql.lint.lint import lint
    from lakesql.lint.lint_settings import read_lint_settings
    from lakesql.run.seeds.check_seeds import check_seeds

    settings = read_lint_settings(manifest)
    built: dict[str, Select] = {}
    compiled = compiled_files(manifest, built)
    project.check_tests(manifest, compiled)
    check_seeds(manifest, manifest.seeds)
    is_whole = not (select or exclude or options.selector or manifest.selectors.default)
    names = (
        tuple(manifest.models)
        if is_whole
        else select_models(manifest, select, exclude, options)
    )
    findings = lint(
        manifest, settings, names, whole=is_whole, compiled=compiled, built=built
    )
    return Linted(manifest, settings, names, is_whole, findings)


def _fix(
    manifest: Manifest,
    settings: LintSettings,
    names: Sequence[str],
    is_whole: bool,
    options: Options,
) -> Manifest:
    """The project after `--fix` has written the corrections into its files."""
    from lakesql.cli.report import say
    from lakesql.counts import count
    from lakesql.graph.load_manifest import with_texts
    from lakesql.lint.fix import fix_texts
    from lakesql.lint.lint import lint

    def find(changed: Mapping[str, str]) -> Sequence[LintFinding]:
        changed_manifest = with_texts(manifest, changed)
        return lint(changed_manifest, settings, names, whole=is_whole)

    fixed = fix_texts(manifest.texts, find)
    for path, text in fixed.texts.items():
        _write_text(find_directory(options) / path, text)
    if fixed.texts:
        say(
            f"{count(fixed.count, 'finding')} fixed in {', '.join(sorted(fixed.texts))}.",
            options,
        )
    return with_texts(manifest, fixed.texts)


def _write_text(path: Path, text: str) -> None:
    """Write a file's text, and keep its byte order mark if it has one."""
    from lakesql.project.files import write_atomically

    has_mark = path.read_bytes().startswith(b"\xef\xbb\xbf")
    write_atomically(path, text.encode("utf-8-sig" if has_mark else "utf-8"))


def _show(
    findings: Sequence[LintFinding],
    manifest: Manifest,
    models: int,
    output: str,
    options: Options,
) -> None:
    from lakesql.lint.shown_findings import (
        render_annotations,
        render_objects,
        render_sarif,
    )

    match output:
        case "github":
            click.echo(render_annotations(findings, _from_root(options)), nl=False)
        case "sarif":
            click.echo(render_sarif(findings, _from_root(options)))
        case "json":
            click.echo(render_objects(findings))
        case _:
            _show_text(findings, manifest, models)


def _show_text(
    findings: Sequence[LintFinding], manifest: Manifest, models: int
) -> None:
    import sys

    from lakesql.cli.report import paint
    from lakesql.counts import count
    from lakesql.lint.all_rules import load_rule
    from lakesql.lint.shown_findings import render_finding
    from lakesql.observe.text import printable

    for finding in findings:
        text = printable(
            render_finding(finding, load_rule(finding.code).name, manifest.texts),
            keep="\n\t",
        )
        click.echo(paint(text, "yellow", sys.stdout))
    fixable = sum(1 for finding in findings if finding.edits)
    said = count(len(findings), "finding") if findings else "no findings"
    hint = f", of which `lakesql lint --fix` corrects {fixable}" if fixable else ""
    click.echo(f"{count(models, 'model')}, {said}{hint}.")


def _from_root(options: Options) -> str:
    """The path of the project's folder relative to the root of the repository that a
    workflow has checked out, or else to the current directory: '' or with a slash at
    its end."""
    directory = find_directory(options).resolve()
    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
    inside = (
        directory.relative_to(root).as_posix()
        if directory.is_relative_to(root)
        else "."
    )
    return "" if inside == "." else f"{inside}/"
