"""`lakesql parse`: check the whole project."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakesql.cli.options import Command, Filled, Given

if TYPE_CHECKING:
    from lakesql.compile.compiled import CompiledFiles
    from lakesql.graph.manifest import Manifest

MOST_NOTES = 20
"""How many notes are shown at most: all notes of a large project would hide the last
line. Compiled files have them all."""


@click.command("parse", cls=Command)
@click.option(
    "--dbt",
    metavar="DIR",
    type=Filled(click.Path(file_okay=False, path_type=Path)),
    help=(
        "Folder to which the project is written as dbt's manifest.json and catalog.json, for data catalogs that read "
        "these."
    ),
)
@click.pass_obj
def command(given: Given, dbt: Path | None) -> None:
    """Check every file of the project and write target/manifest.json.

    Every SELECT is checked too, with a note where its table may hold something
    unexpected. Connections, the Avro schema of a stream, and what only Spark knows of a
    SELECT are checked when a model runs. Neither Java nor Spark is needed.
    """
    from lakesql.cli import project
    from lakesql.compile.compiled import compiled_files
    from lakesql.counts import count
    from lakesql.lint.lint_settings import read_lint_settings
    from lakesql.project.files import shorten
    from lakesql.run.seeds.check_seeds import check_seeds

    manifest = project.load_project(given.options)
    project.show_warnings(manifest, given.options)
    read_lint_settings(manifest)
    compiled = compiled_files(manifest)
    project.check_tests(manifest, compiled)
    check_seeds(manifest, manifest.seeds)
    notes = _notes(manifest, compiled)
    shown = [*islice(notes, MOST_NOTES)]
    if more := sum(1 for _ in notes):
        shown.append(
            f"note  {count(more, 'more note')}: `lakesql compile` writes each into its model's compiled file."
        )
    if shown:
        click.echo("\n".join(shown))
    path = project.write_manifest(manifest, compiled)
    kinds = Counter(node.resource_type for node in manifest.graph.nodes.values())
    checked = f"{count(kinds['model'], 'model')} and {count(kinds['stream'], 'stream')}"
    if manifest.seeds:
        checked = (
            f"{count(kinds['model'], 'model')}, {count(kinds['stream'], 'stream')} and "
        )
        checked += count(kinds["seed"], "seed")
    if dbt is not None:
        _write_dbt(manifest, compiled, dbt)
    click.echo(f"{checked}, no errors: {shorten(path, manifest.directory)}")


def _write_dbt(manifest: Manifest, compiled: CompiledFiles, folder: Path) -> None:
    import json

    from lakesql.clock import now_ms
    from lakesql.lineage.dbt_artifacts import dbt_catalog, dbt_manifest
    from lakesql.observe.text import iso_time
    from lakesql.project.files import write_atomically

    at = iso_time(now_ms())
    selects = compiled.selects(manifest.models)
    artifacts = {
        "manifest.json": dbt_manifest(manifest, compiled, selects, at),
        "catalog.json": dbt_catalog(manifest, compiled, selects, at),
    }
    for name, artifact in artifacts.items():
        write_atomically(
            folder / name, json.dumps(artifact, ensure_ascii=False, indent=1) + "\n"
        )


def _notes(manifest: Manifest, compiled: CompiledFiles) -> Iterator[str]:
    from lakesql.graph.graph import node_id

    for name in manifest.model_names:
        for note in compiled.notes(name):
            yield f"note  {manifest.graph.nodes[node_id('model', name)].path}: {note}"
