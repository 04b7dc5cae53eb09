"""Where a command's events go: to the console or lines of JSON, the log file, results
for other tools, metrics, and lineage."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from lakesql.cli.options import MetricsAt, Options
from lakesql.cli.report import read_line, say
from lakesql.observe.console import console
from lakesql.observe.emitter import Emitter, Renderer
from lakesql.observe.lines import JsonLines, LogFile
from lakesql.observe.results import RunResults
from lakesql.project.files import Outputs
from lakesql.secrets import find_secrets

if TYPE_CHECKING:
    from lakesql.compile.select import Select
    from lakesql.graph.manifest import Manifest


def open_emitter(
    options: Options, outputs: Outputs, command: str, others: Sequence[Renderer] = ()
) -> Emitter:
    """The emitter that passes a run's events to all renderers and to `others`, as a
    context manager. `command` is the command line."""
    secrets = find_secrets(os.environ)
    results = RunResults(
        outputs.target / "run_results.json",
        command=secrets.redact(command),
    )
    log = LogFile(outputs.logs / "lakesql.log")
    if options.log_format == "json":
        return Emitter([results, log, JsonLines(sys.stdout), *others], secrets)
    lines = partial(read_line, options=options)
    shown = console(sys.stdout, sys.stderr, environ=os.environ, read_line=lines)
    return Emitter([results, log, shown, *others], secrets)


@contextmanager
def told(
    manifest: Manifest, selects: Mapping[str, Select], *, continuous: bool
) -> Iterator[Sequence[Renderer]]:
    """The renderer that sends the lineage of a run of these models; none if the target
    has no `lineage`."""
    if manifest.target.lineage is None:
        yield ()
        return
    # only here: it imports the lineage of columns
    from lakesql.run.tell.tell_lineage import tell_lineage

    with tell_lineage(manifest, selects, continuous=continuous) as renderer:
        yield (renderer,)


@contextmanager
def served(
    manifest: Manifest,
    names: tuple[str, ...],
    metrics: MetricsAt | None,
    options: Options,
) -> Iterator[Sequence[Renderer]]:
    """The renderer that keeps the metrics, which are served within the block; none if
    they were not requested."""
    if metrics is None:
        yield ()
        return
    from lakesql.run.tell.serve_metrics import keep_metrics, serve_metrics

    kept = keep_metrics(manifest.models[name] for name in names)
    with serve_metrics(
        kept, metrics.address, metrics.port, metrics.healthy_within.length_ms
    ) as port:
        say(f"Metrics are at http://{metrics.address}:{port}/metrics", options)
        yield (kept,)
