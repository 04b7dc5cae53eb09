"""The rebuild of one model as a job: fills the replacement table beside the live one,
catches up, and swaps the rows in.

The catching up is done under the model's own lease, so that no row of the live table is
missed.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Literal

from lakesql.engine.batch.streaming_query import Backlog, ModelQuery
from lakesql.engine.ledger.commit import PUBLISH_TRIES, HeadMovedError, conflict
from lakesql.engine.ledger.snapshots import (
    head_of,
    load_table,
    read_entry,
    table_exists,
)
from lakesql.engine.ledger.swap import swap
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.progress.lease import GIVES_WAY_S, Leases
from lakesql.engine.spark.failure import explain
from lakesql.engine.spark.session import new_session
from lakesql.errors import FilesSetAside, RunError, TransientError
from lakesql.events import Noted, StepApplied
from lakesql.ledger.entry import Entry, summary_of
from lakesql.model.config import AvailableNow
from lakesql.model.retention import GC_ENABLED
from lakesql.modes.batches.all_batches import batches_of
from lakesql.names import LEDGER_REBUILD, LEDGER_REBUILD_VERSION
from lakesql.progress.stored import read_checkpoint
from lakesql.run.replacement.check_rebuild import check_files, check_rebuild
from lakesql.run.replacement.rebuilt import (
    find_swapped,
    finish_rebuild,
    rebuild_folder,
    set_property,
)
from lakesql.run.replacement.replacement_table import RebuildFrom, ReplacementTable
from lakesql.run.start.context import RunContext
from lakesql.run.start.prepare_model import prepare_model
from lakesql.run.streams.bind import BoundSelect

WANTS_AGAIN_S = 3 * GIVES_WAY_S
"""How long after a request the holder of the model's lease is asked for it again."""

Stage = Literal["fill", "hand over", "catch up", "swapped"]


class Rebuild:
    """The rebuild of one model: a query that fills the replacement table, another one
    that catches up, and the swap."""

    def __init__(
        self,
        context: RunContext,
        live: BoundSelect,
        bound: BoundSelect,
        leases: Leases,
        start_at: RebuildFrom,
        accept_data_loss: bool,
    ) -> None:
        self.context = context
        self.stage: Stage = "fill"
        self._live = live
        self._bound = bound
        self._leases = leases
        self._start_at = start_at
        self._replacement = ReplacementTable(
            context, bound, live.select.model.table, start_at
        )
        self._accept_data_loss = accept_data_loss
        self._query: ModelQuery | None = None
        self._failure: Exception | None = None
        self._is_stopping = False
        self._tries = 0
        self._head: int | None = None
        self._wanted_at = 0.0
        self._was_another = False

    @property
    def name(self) -> str:
        """The model's name."""
        return self._live.select.model.name

    def begin(self) -> None:
        """Check what can be checked before anything is written, and start the query
        that fills the table. Continues a rebuild that was interrupted."""
        if swapped := find_swapped(self.context, self._live.select):
            self._say("its last rebuild broke off after the swap: it is finished now")
            self._was_another = not self._replacement.is_version_of(swapped)
            return
        if self._replacement.has_begun():
            self._say("its rebuild, which broke off, is continued")
        else:
            found = check_rebuild(
                self.context,
                self._live,
                self._bound,
                self._start_at,
                self._accept_data_loss,
            )
            self._say(
                f"is rebuilt beside its table, which stays as it is until then: reads {found}"
            )
        self._replacement.make()
        self._start()

    def step(self) -> None:
        """Once the running query has ended, do what comes next: ask for the lease,
        catch up, or swap."""
        try:
            while self._failure is None and not self._is_filling():
                if not self._advance():
                    break
        except Exception as error:  # whatever it was, it ends this model alone
            self._failure = error

    def is_active(self) -> bool:
        """Whether the rebuild is neither failed nor finished."""
        return self._is_filling() or (self._failure is None and self.stage != "swapped")

    def error(self) -> Exception | None:
        """Why the rebuild has failed, explained for the SELECT that fills the table;
        None if it has not."""
        raised = self._failure or (
            self._query.error() if self._query is not None else None
        )
        if raised is None or isinstance(raised, FilesSetAside):
            return raised
        return explain(raised, self._bound.select)

    def _is_filling(self) -> bool:
        """Whether a query that writes to the replacement table is running."""
        return self._query is not None and self._query.is_active()

    def request_stop(self) -> None:
        """Let the current batch finish, and begin no other."""
        self._is_stopping = True
        if self._query is not None:
            self._query.request_stop()

    def was_stopped(self) -> bool:
        """Always False: a rebuild stopped before its swap counts as failed
        (`rebuild-under-way`), and one that has ended is complete."""
        return False

    def progress(self) -> tuple[float, Backlog]:
        """The records per second of the last batch, and the backlog."""
        return (
            self._query.progress()
            if self._query is not None
            else (0.0, Backlog(None, "records", is_busy=True))
        )

    def _advance(self) -> bool:
        """Take the next step; False if there is nothing to do at the moment."""
        if self._query is not None and (error := self._query.error()) is not None:
            raise error
        if self.stage == "swapped":
            return False
        if self._is_stopping:
            raise TransientError.of(
                "rebuild-under-way",
                f"The rebuild of model '{self.name}' has been stopped.",
                fix=f"To continue it: lakesql rebuild {self.name}",
            )
        folder = self.context.manifest.target.checkpoint_of(self.name)
        match self.stage:
            case "fill":
                self.stage = "hand over"
                self.context.reached(self.name, "hand-over")
                self._want(folder)
                return True
            case "hand over":
                if time.monotonic() - self._wanted_at > WANTS_AGAIN_S:
                    self._want(folder)
                if not self._leases.claim(self.name, folder, self._say, patient=True):
                    return False
                self._leases.unwant(folder)
                if finish_rebuild(self.context, self._live.select):
                    self.stage = "swapped"
                    if self._was_another:
                        self.stage = "fill"
                        self._leases.release(self.name)
                        self.begin()
                    return True
                self.stage = "catch up"
                self._start()
                return True
            case "catch up":
                self._swap()
                return True

    def _want(self, folder: str) -> None:
        """Ask the runner that holds the model's lease to give it back. A runner forgets
        a request after a while, so it is repeated."""
        self._wanted_at = time.monotonic()
        self._leases.want(folder)

    def _start(self) -> None:
        table = self._live.select.model.table
        self._head = head_of(load_table(self.context.session, table))
        session = new_session(self.context.session)
        try:
            sink = prepare_model(
                self.context,
                session,
                self._bound,
                rebuild_folder(self.context, self.name),
            )
        except TransientError:
            raise
        except RunError as error:
            raise _broken(self.name, error) from None
        if not self._accept_data_loss:
            check_files(self.context, self._live)  # again: from now on nobody moves any
        # the files of a replacement become the table's
        self._query = ModelQuery(replace(sink, keeper=None))
        self._query.start(session, AvailableNow())

    def _swap(self) -> None:
        session, model, bound = (
            self.context.session,
            self._live.select.model,
            self._bound.select,
        )
        self.context.reached(self.name, "swap")
        self._leases.check(self.name)
        # those that the live table has got since go too
        if not table_exists(session, bound.model.table.dead_letter):
            self._replacement.make_dead_letters()
        checkpoint = read_checkpoint(
            CheckpointFiles(session, rebuild_folder(self.context, self.name))
        )
        assert checkpoint is not None
        set_property(session, bound.model.table, GC_ENABLED, "false")
        live, replacement = (
            load_table(session, model.table),
            load_table(session, bound.model.table),
        )
        mode, keys = bound.writing.mode, batches_of(bound).identity
        entry = read_entry(replacement, self.name) or Entry(
            self.name,
            checkpoint.id,
            -1,
            "{}",
            bound.query_hash,
            bound.query.state,
            mode=mode,
            keys=keys,
        )
        summary = {
            **summary_of(entry),
            LEDGER_REBUILD: checkpoint.id,
            LEDGER_REBUILD_VERSION: self._replacement.version(),
        }
        try:
            swap(
                live,
                replacement,
                self._replacement.spec(),
                summary,
                self.name,
                self._head,
            )
        except HeadMovedError:
            self._tries += 1
            if self._tries >= PUBLISH_TRIES:
                raise conflict(model.table) from None
            set_property(session, bound.model.table, GC_ENABLED, "true")
            self._say(
                "somebody has written to its table meanwhile: reads on before the swap"
            )
            self._start()
            return
        self.context.emit(
            StepApplied(self.name, f"swap in the rows of {bound.model.table}")
        )
        self.context.reached(self.name, "finish-rebuild")
        finish_rebuild(self.context, self._live.select)
        self.stage = "swapped"

    def _say(self, text: str) -> None:
        self.context.emit(Noted(text, self.name))


def _broken(model: str, error: RunError) -> RunError:
    """The error of an unfinished rebuild: it names the rebuild, and advises to begin it
    again in place of the fix for a live table."""
    first = error.problems[0]
    begin = f"To begin again: lakesql rebuild {model} --abandon, then lakesql rebuild {model}"
    return RunError(
        [
            replace(
                first,
                what=f"In the rebuild of model '{model}': {first.what}",
                fix=begin,
            )
        ]
    )
