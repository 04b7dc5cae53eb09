"""Makes the site of a project: collects what other commands have found out about it,
and writes the pages."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lakesql.compile.compiled import CompiledFiles, compiled_files
from lakesql.counts import count
from lakesql.errors import LakesqlError, Problem, ProjectError, UsageError
from lakesql.graph.manifest import Manifest
from lakesql.lineage.column_graph import build_column_graph
from lakesql.observe.status_day import day_figures, figure_pairs
from lakesql.observe.status_text import TONES, mark, remarks
from lakesql.observe.text import age, iso_time
from lakesql.plan.table_status import Known, TableStatus
from lakesql.project.copies import in_two
from lakesql.project.files import shorten
from lakesql.run.tell.last_plan import read_last_plan
from lakesql.secrets import find_secrets
from lakesql.site.build import KnownBeside, build_pages
from lakesql.site.content import DayLine, LastRun, Live, SiteContent
from lakesql.site.graph_data import graph_data
from lakesql.site.site_pages import render_nodes, render_site, site_assets
from lakesql.source.origin import recorded_folder
from lakesql.stream.shown_sample import show_lines
from lakesql.stream.stream import Stream

SAMPLE_LINES = 5
LONGEST_LINE = 2_000
DAY_PARTS = 72

WORTH_TWO = 300
"""The number of nodes from which on a second process writes half of the pages: writing
as many takes longer than to fork."""

MARK = ".lakesql-site"
"""The file that marks a folder as a generated site; no other folder is overwritten."""


def read_content(
    manifest: Manifest | None,
    problems: Sequence[Problem],
    left_out: Sequence[str],
    at_ms: int,
    live: Sequence[TableStatus] | None = None,
    project: str = "",
) -> SiteContent:
    """The content of a project's site. `problems` are those for which files are
    `left_out`; models whose SELECTs have errors are shown with these. `live` are the
    statuses of tables at `at_ms`, None if they were not read."""
    made_at = iso_time(at_ms)
    if manifest is None:
        data = graph_data(None, None, ())
        return SiteContent(
            project, "", made_at, (), tuple(problems), tuple(left_out), data=data
        )
    compiled = compiled_files(manifest)
    texts, wrong = _compile(manifest, compiled)
    every = (*problems, *wrong)
    by_path: dict[str, tuple[Problem, ...]] = {}
    for problem in every:
        if problem.place is not None:
            by_path[problem.place.path] = (
                *by_path.get(problem.place.path, ()),
                problem,
            )
    graph = build_column_graph(manifest, compiled)
    plan = read_last_plan(manifest, left_out, at_ms)
    seen = KnownBeside(
        live={status.model.name: _live(status, at_ms) for status in live or ()},
        last_runs=dict(_last_runs(manifest.outputs.target / "run_results.json")),
        plans=plan.models if plan is not None else {},
        outcomes=dict(_outcomes(manifest.outputs.target)),
        samples={
            name: tuple(_sample(manifest, stream))
            for name, stream in manifest.streams.items()
        },
        problems=by_path,
    )
    pages = build_pages(manifest, compiled, texts, graph, seen)
    return SiteContent(
        project=manifest.settings.name,
        target=manifest.target.name,
        made_at=made_at,
        pages=pages,
        problems=every,
        left_out=tuple(left_out),
        is_live=live is not None,
        plan=plan.shown if plan is not None else None,
        data=graph_data(manifest, graph, pages),
    )


def write_site(content: SiteContent, folder: Path) -> int:
    """Write the pages into a folder, and remove pages of the former site that no longer
    exist; returns how many pages there are.

    Raises `UsageError` (`bad-output-dir`) for a folder that holds anything else.
    """
    former = _former_files(folder)
    # first, so that an interrupted folder is still known as a site
    _write(folder / MARK, "".join(f"{path}\n" for path in sorted(former)).encode())
    written = [
        *_write_pages(folder, render_site(content)),
        *_write_nodes(folder, content),
    ]
    pages = sum(path.endswith(".html") for path in written)
    for path, asset in site_assets():
        _write(folder / path, asset)
        written.append(path)
    for path in former - {*written}:
        with contextlib.suppress(OSError):
            (folder / path).unlink()
    _write(folder / MARK, "".join(f"{path}\n" for path in sorted(written)).encode())
    return pages


def _write_nodes(folder: Path, content: SiteContent) -> list[str]:
    """Write the pages of nodes; if there are many, a forked process writes half of
    them."""
    written = in_two(
        content.pages,
        WORTH_TWO,
        lambda pages: _write_pages(folder, render_nodes(content, pages)),
    )
    return [path for paths in written for path in paths]


def _write_pages(folder: Path, pages: Iterable[tuple[str, str]]) -> list[str]:
    """Write pages, each given with its path; returns the paths."""
    secrets = find_secrets(os.environ)
    written = []
    for path, text in pages:
        _write(folder / path, secrets.redact(text).encode())
        written.append(path)
    return written


def _former_files(folder: Path) -> set[str]:
    """The files of the site in a folder, as its marker file lists them. Raises
    `UsageError` (`bad-output-dir`) if the folder holds something else."""
    try:
        listed = (folder / MARK).read_text("utf-8").splitlines()
    except OSError:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            what = f"{folder} is there, and is no site that lakesql has made."
            raise UsageError.of(
                "bad-output-dir", what, fix="Name another folder, or an empty one."
            ) from None
        return set()
    return {
        path
        for path in listed
        if not Path(path).is_absolute() and ".." not in Path(path).parts
    }


def _write(path: Path, content: bytes) -> None:
    try:
        if path.read_bytes() == content:
            return
    except OSError:
        path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _compile(
    manifest: Manifest, compiled: CompiledFiles
) -> tuple[Mapping[str, str], tuple[Problem, ...]]:
    """The compiled texts of the models without errors, and the errors of the others."""
    try:
        return compiled.compile_in_two(manifest.models), ()
    except ProjectError as error:
        right = [name for name in manifest.models if compiled.is_known(name)]
        return compiled.compile(right), error.problems


def _live(status: TableStatus, at_ms: int) -> Live:
    state = status.state
    figures = status.figures
    fresh = (
        ""
        if figures is None or figures.freshness_ms is None
        else age(figures.freshness_ms)
    )
    said = (*remarks(status), *(problem.what for problem in status.problems))
    if not isinstance(state, Known):
        return Live(mark(status), TONES[status.health], fresh, said)
    day = tuple(
        DayLine(label, tuple(values), text)
        for label, values, text in day_figures(state.facts, at_ms, DAY_PARTS)
    )
    return Live(
        mark(status), TONES[status.health], fresh, said, tuple(figure_pairs(state)), day
    )


def _results(path: Path) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]:
    """The metadata and the results in a file that an earlier command has written; empty
    if it is missing or malformed."""
    try:
        read = json.loads(path.read_bytes())
        return dict(read["metadata"]), [dict(each) for each in read["results"]]
    except (OSError, ValueError, LookupError, TypeError):
        return {}, ()


def _last_runs(path: Path) -> Iterator[tuple[str, LastRun]]:
    metadata, results = _results(path)
    for each in results:
        said, at = str(each.get("message") or ""), str(metadata.get("generated_at", ""))
        yield str(each.get("name")), LastRun(str(each.get("status", "")), said, at)


def _outcomes(folder: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    """How data tests and expectations ended in the last commands, as status and
    message. Tests have their ids; expectations `<model>.<name>`, and `<model>.*` stands
    for those of a model that no row has violated."""
    _, results = _results(folder / "test_results.json")
    for each in results:
        yield (
            str(each.get("unique_id")),
            (str(each.get("status", "")), str(each.get("message") or "")),
        )
    _, results = _results(folder / "run_results.json")
    for each in results:
        if each.get("status") == "success" and each.get("batches"):
            yield f"{each.get('name')}.*", ("pass", "")
        violations = each.get("violations")
        for name, rows in violations.items() if isinstance(violations, dict) else ():
            yield (
                f"{each.get('name')}.{name}",
                ("warn", f"{count(rows, 'row')} failed it in the last run"),
            )


def _sample(manifest: Manifest, stream: Stream) -> Iterator[str]:
    """The first lines of a stream's local recording, with sensitive values hidden; none
    if it has no recording."""
    connection = manifest.target.connections.get(stream.connection)
    folder = connection.recording if connection is not None else None
    if folder is None:
        return
    with contextlib.suppress(OSError, UnicodeDecodeError, LakesqlError):
        topics = stream.origin.find_topics(
            lambda: {unquote(each.name) for each in folder.iterdir()}
        )
        folders = (folder / recorded_folder(topic) for topic in topics)
        files = (file for each in folders for file in sorted(each.glob("*.jsonl")))
        for file in islice(files, 1):
            with file.open(encoding="utf-8") as lines:
                shown = show_lines(
                    islice(lines, SAMPLE_LINES),
                    stream,
                    _ruled_columns(manifest, stream),
                )
                yield from (line[:LONGEST_LINE] for line in shown)


def _ruled_columns(manifest: Manifest, stream: Stream) -> frozenset[str]:
    """The columns of the stream, in lower case, that a rule of its group masks or
    leaves out."""
    members = [
        model.member for model in manifest.models.values() if model.member is not None
    ]
    rules = {
        column.name.lower(): rule
        for member in members
        if member.stream == stream.name
        for column in stream.columns
        if (rule := member.rule_of(column.name)) is not None
    }
    return frozenset(name for name, rule in rules.items() if rule.action != "cast")


def shown_path(manifest: Manifest | None, path: Path) -> str:
    """A path relative to the project's folder if it is inside."""
    return str(path) if manifest is None else shorten(path, manifest.directory)
