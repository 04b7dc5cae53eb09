"""The answers of the tools that only read: the JSON that the commands of the same names
print, made by the same functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakesql.cli.options import Options
from lakesql.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from lakesql.graph.graph import GraphNode
    from lakesql.graph.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Question:
    """A call of a tool: the options that the server was started with, and the arguments
    given by the assistant.

    `results` is the target's own folder of results. In a reading tool `options` lead to
    another folder, for what it writes itself.
    """

    options: Options
    arguments: Mapping[str, str | tuple[str, ...]]
    results: Path

    def text(self, name: str) -> str:
        """The value of a text argument; '' if it is left out."""
        value = self.arguments.get(name, "")
        assert isinstance(value, str)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """The value of a list argument; empty if it is left out."""
        value = self.arguments.get(name, ())
        assert isinstance(value, tuple)
        return value


Answer = dict[str, Any]


def answer_ls(question: Question) -> Answer:
    """The nodes as `ls --output json` prints them, with their descriptions."""
    from lakesql.cli import project, selection
    from lakesql.cli.ls import describe_node

    manifest = project.load_project(question.options)
    kind, select = question.text("resource_type"), question.texts("select")
    nodes = selection.select(
        manifest,
        select,
        question.texts("exclude"),
        question.options,
        with_tests=bool(select) or kind == "test",
        with_tasks=kind == "maintenance",
    )
    wanted = (
        {kind}
        if kind
        else {"model", "stream", "seed", *(("test", "maintenance") if select else ())}
    )
    listed = [node for node in nodes if node.resource_type in wanted]
    shown = [
        {**describe_node(manifest, node), "description": _description(manifest, node)}
        for node in listed
    ]
    return {"nodes": shown}


def _description(manifest: Manifest, node: GraphNode) -> str:
    match node.resource_type:
        case "model":
            return manifest.models[node.name].properties.description
        case "stream":
            return manifest.streams[node.name].description
        case "seed":
            return manifest.seeds[node.name].properties.description
        case _:
            return ""


def answer_compile(question: Question) -> Answer:
    """The compiled text of one model."""
    from lakesql.cli import project
    from lakesql.compile.compiled import compiled_files

    manifest = project.load_project(question.options)
    name = question.text("model")
    project.check_model(manifest, name)
    texts = compiled_files(manifest).compile((name,))
    return {"model": name, "path": manifest.models[name].path, "sql": texts[name]}


def answer_plan(question: Question) -> Answer:
    """The review as `plan --output json` prints it."""
    from lakesql.cli.review import review_project
    from lakesql.review.as_json import describe_review

    options = replace(question.options, against=question.text("against") or None)
    reviewed = review_project(
        options, question.texts("select"), question.texts("exclude")
    )
    return {**describe_review(reviewed.review), "unmatched": list(reviewed.unmatched)}


def answer_lineage(question: Question) -> Answer:
    """The edges as `lineage --output json` prints them."""
    from lakesql.cli import project
    from lakesql.cli.lineage import trace_columns

    manifest = project.load_project(question.options)
    direction = question.text("direction")
    traced = trace_columns(
        manifest,
        question.text("name"),
        upstream=direction == "upstream",
        downstream=direction == "downstream",
    )
    said: Answer = json.loads(traced.render_json())
    return said


def answer_lint(question: Question) -> Answer:
    """The findings as `lint --output json` prints them."""
    from lakesql.cli import project
    from lakesql.cli.lint import find_all
    from lakesql.lint.shown_findings import render_objects

    manifest = project.load_project(question.options)
    found = find_all(
        manifest, question.texts("select"), question.texts("exclude"), question.options
    )
    return {"findings": json.loads(render_objects(found.findings))}


def answer_status(question: Question) -> Answer:
    """The tables as `status --output json` prints them."""
    from lakesql.cli import project, selection
    from lakesql.clock import now_ms
    from lakesql.observe.statuses import render_seed_lines, render_status_lines
    from lakesql.run.seeds.seed_statuses import read_seed_statuses
    from lakesql.run.tell.status import read_statuses

    manifest = project.load_project(question.options)
    select, exclude = question.texts("select"), question.texts("exclude")
    names, seed_names = selection.select_tables(
        manifest, select, exclude, question.options
    )
    statuses = read_statuses(manifest, names, now_ms()) if names else ()
    seeds = read_seed_statuses(manifest, seed_names)
    lines = (render_status_lines(statuses) + render_seed_lines(seeds)).splitlines()
    return {"tables": [json.loads(line) for line in lines]}


def answer_explain(question: Question) -> Answer:
    """The text of a condition in docs/errors.md, or of a rule in docs/lint.md."""
    from lakesql.conditions import CONDITIONS
    from lakesql.lint.all_rules import MODULES, load_rule

    name = question.text("name")
    if (condition := CONDITIONS.get(name.lower())) is not None:
        return {
            "condition": name.lower(),
            "meaning": condition.meaning,
            "do": condition.do,
        }
    if name.upper() in MODULES:
        rule = load_rule(name.upper())
        return {
            "rule": name.upper(),
            "name": rule.name,
            "finds": rule.finds,
            "why": rule.why,
            "example": dict(rule.example),
            "instead": dict(rule.instead),
        }
    fix = did_you_mean(name, [*CONDITIONS, *MODULES])
    raise UsageError.of(
        "bad-tool-call", f"Neither a condition nor a rule is called '{name}'.", fix=fix
    )


def answer_results(question: Question) -> Answer:
    """The contents of the target's `run_results.json` and `test_results.json`; None for
    a file that does not exist."""
    return {
        name: _read_json(question.results / f"{name}.json")
        for name in ("run_results", "test_results")
    }


def _read_json(path: Path) -> Any:
    from lakesql.project.files import read_text

    if not path.is_file():
        return None
    text = read_text(path, path.name)
    try:
        return json.loads(text)
    except ValueError:
        what = f"{path.name} is not JSON."
        raise UsageError.of("results-unreadable", what) from None


def answer_option(question: Question) -> Answer:
    """The docs of all options with this name, wherever they may be set."""
    from lakesql.cli.assistant.project_options import every_option

    name = question.text("name")
    found = [option for option in every_option() if option.name == name]
    if not found:
        fix = did_you_mean(name, {option.name for option in every_option()})
        raise UsageError.of("bad-tool-call", f"No option is called '{name}'.", fix=fix)
    return {"options": [option.describe() for option in found]}


ANSWERS: Mapping[str, Callable[[Question], Answer]] = {
    "ls": answer_ls,
    "compile": answer_compile,
    "plan": answer_plan,
    "lineage": answer_lineage,
    "lint": answer_lint,
    "status": answer_status,
    "explain": answer_explain,
    "results": answer_results,
    "option": answer_option,
}
