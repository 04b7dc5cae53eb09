"""The review that a run shows of changes since the last command that wrote the
manifest, in the words of `lakesql plan`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from contextlib import ExitStack
from dataclasses import dataclass

import click

from lakesql.catalog.connect import OpenCatalog
from lakesql.cli.options import Options
from lakesql.cli.review import Compared, compare_now, with_live
from lakesql.errors import LakesqlError, UsageError
from lakesql.events import Emit, Noted
from lakesql.graph.manifest import Manifest
from lakesql.review.as_text import reason_line, render_text
from lakesql.review.continuation import is_refusal
from lakesql.review.tables_now import add_live
from lakesql.review.verdicts import Verdict
from lakesql.run.manifest.former import Former, open_state
from lakesql.run.tell.live_tables import read_tables

WAITS_S = 5.0
"""How many seconds a run whose session is open waits for the review that is computed in
the background."""

_SAID: frozenset[Verdict] = frozenset(
    {"renamed", "next-batch", "alter", "rebuild", "breaks"}
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunReview:
    """The review of the changed models of a run, which is computed in the background
    while the run starts. `found` is its result, None if it could not be computed."""

    found: Future[Compared | None]

    def say(self, catalog: OpenCatalog, emit: Emit) -> None:
        """Emit a note for each reason that holds for the tables as they are.

        A model that the run refuses has its own error, and gets no notes: none of its
        changes is applied. A model without a table gets none either. A review that is
        not ready or could not be computed fails no run.
        """
        try:
            compared = self.found.result(WAITS_S)
        except NotInTime:
            emit(
                Noted(
                    "the project has changed; what that does is not worked out yet: lakesql plan"
                )
            )
            return
        if compared is None:
            return
        models = (*compared.review.models, *compared.review.upstream)
        names = [
            it.name
            for it in models
            if it.name in compared.new.manifest.models and it.reasons
        ]
        tables = {name: compared.new.manifest.models[name].table for name in names}
        live = read_tables(catalog, tables)
        for model in add_live(compared.review, compared.old, compared.new, live).models:
            if model.name not in live or any(
                it.verdict == "refused" or is_refusal(it) for it in model.reasons
            ):
                continue
            for reason in model.reasons:
                if reason.verdict in _SAID:
                    emit(Noted(reason_line(reason), model.name))


def start_review(
    options: Options, manifest: Manifest, names: Sequence[str]
) -> RunReview | None:
    """Begin to compare the project with the manifest in its target folder, before the
    manifest is replaced.

    None if there is no readable manifest, or if it is that of another target.
    """
    with ExitStack() as stack:
        try:
            former = stack.enter_context(open_state(manifest.outputs.target))
        except UsageError:
            return None
        if not _is_of(former, manifest):
            return None
        pool = ThreadPoolExecutor(1, thread_name_prefix="lakesql-plan")
        found = pool.submit(_compare, options, former, names, stack.pop_all())
        pool.shutdown(wait=False)
    return RunReview(found)


def ask_first(options: Options, manifest: Manifest, names: Sequence[str]) -> bool:
    """Show what the change does, with tables and checkpoints as they are now, and ask
    the user. Returns whether to run.

    If nothing has changed, the user is not asked.
    """
    try:
        with open_state(manifest.outputs.target) as former:
            if not _is_of(former, manifest):
                raise UsageError.of(
                    "state-outdated", f"{former.called} was written for another target."
                )
            compared = compare_now(options, former, names)
    except UsageError as error:
        click.echo(f"What the change does is not known: {error.problems[0].what}")
    else:
        review = with_live(options, compared)
        if not any(
            reason.verdict != "none"
            for model in review.models
            for reason in model.reasons
        ):
            return True
        click.echo(render_text(review), nl=False)
    return click.confirm("Run?")


def _is_of(former: Former, manifest: Manifest) -> bool:
    return former.target is not None and former.target.name == manifest.target.name


def _compare(
    options: Options, former: Former, names: Sequence[str], stack: ExitStack
) -> Compared | None:
    with stack:
        try:
            return compare_now(options, former, names)
        except LakesqlError:  # of the former version: the run has read the new one
            return None
        except Exception:
            _log.debug("What the change does cannot be told.", exc_info=True)
            return None
