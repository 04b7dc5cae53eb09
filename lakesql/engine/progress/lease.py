"""Which runner may write a model: the one that holds the model's lease. A second runner
is refused before it writes anything.

The lease is a folder beside the model's checkpoint, with a numbered file for each
holder. A holder creates its file only if no file has that number, which only one
process can do, and renews it every few seconds. A runner creates the next file if it
finds that the newest lease was released, that the processes of its holder are dead, or
that it was not renewed for a while. Each process reads only its own clock, and only for
durations, so clocks need not agree.

A command that needs a model's lease for a moment, such as a rebuild, asks for it with a
file `wanted` in that folder. The holder sees it when it renews, releases the lease
between two batches, and waits until it is free again.

A runner that was suspended learns at the next step of its batch that its lease was
taken over. What it does before that is stopped when it publishes (`publish` in
`ledger/commit.py`).
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from pyspark.sql import SparkSession

from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.spark.gateway import java_class
from lakesql.errors import RunError, TransientError, first_line
from lakesql.names import LEASE_SUFFIX
from lakesql.progress.holder import (
    WANTED,
    Holder,
    Process,
    Renaming,
    is_dead,
    newest_holder,
    numbers_of,
    read_holder,
    read_renaming,
)

RENEW_EVERY_S = 3.0
LASTS_S = 10.0
"""How long after its last renewal a holder continues without checking that the lease is
still its own."""

PASSES_ON_AFTER_S = 15.0
"""How long another runner watches a lease that is not renewed before it takes it
over."""

GIVES_WAY_S = 10.0
"""How long a holder that was asked for the lease leaves it free. A waiting runner looks
every `RENEW_EVERY_S`."""

LOOK_EVERY_S = 0.25
RENEWERS = 8

_log = logging.getLogger(__name__)


class Leases:
    """The leases of one runner, one per model, renewed by a thread until they are
    released."""

    def __init__(
        self,
        session: SparkSession,
        clock: Callable[[], float] | None = None,
        renew_every_s: float = RENEW_EVERY_S,
    ) -> None:
        self._session = session
        self._clock = clock or _elapsed_s
        self._renew_every_s = renew_every_s
        self._me = _this_runner(session)
        self._held: dict[str, _Lease] = {}
        self._claims: dict[str, _Claim] = {}
        self._gave_way: dict[str, float] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(
            target=self._renew_all, name="lakesql-leases", daemon=True
        )

    def claim(
        self,
        model: str,
        checkpoint: str,
        say: Callable[[str], None],
        patient: bool = False,
        renames: bool = False,
    ) -> bool:
        """Whether this runner holds the model's lease now; if not, call again soon.

        `say` is called with what is waited for, and when a lease was taken over. Raises
        `RunError` (`lease-held`) if another runner is seen to renew it, and what
        `check` raises. With `patient`, that runner is waited for while this one holds
        other leases: if it has begun to take over from another, it should get them all.
        A runner that this one has given way to is waited for too. A model whose rename
        was interrupted is refused (`rename-under-way`) unless the caller `renames` it.
        """
        if model in self._held:
            self.check(model)
            return True
        claim = self._claims.get(model)
        files = CheckpointFiles(self._session, checkpoint + LEASE_SUFFIX)
        if model in self._gave_way:
            if self._clock() - self._gave_way[model] < GIVES_WAY_S:
                return False
            patient = True
        if claim is None:
            claim = self._claims[model] = _Claim(
                model, files, self._me, self._clock, say
            )
        try:
            lease = claim.look(patient and bool(self._held or self._gave_way))
        except RunError:
            del self._claims[model]
            raise
        if lease is None:
            return False
        del self._claims[model]
        if not renames and (renaming := read_renaming(files)) is not None:
            lease.release()
            raise rename_under_way(model, renaming)
        if self._gave_way.pop(model, None) is not None and WANTED in files.names():
            files.remove(WANTED)  # who asked for it has gone
        with self._lock:
            self._held[model] = lease
            if not self._thread.is_alive():
                self._thread.start()
        return True

    def holds(self, model: str) -> bool:
        """Whether this runner has claimed the model's lease, and has not noticed that
        it lost it."""
        return model in self._held

    def number(self, model: str) -> int:
        """The number of the model's lease that this runner holds. If it released one
        and now has the next number, no other runner held the model in between."""
        return self._held[model].number

    def check(self, model: str) -> None:
        """Raise if the lease is not this runner's any more (`lease-lost`). Reads the
        storage only if the last renewal is too long ago."""
        lease = self._held.get(model)
        if lease is None:
            raise _lost(model, "another runner")
        try:
            lease.check()
        except TransientError:  # it may be this runner's still: the next look says
            raise
        except RunError:
            with self._lock:
                self._held.pop(model, None)
            raise

    def lost(self, model: str) -> RunError | None:
        """What `check` would raise if the renewing thread has seen that another runner
        took the lease over; None otherwise. Does not read the storage."""
        lease = self._held.get(model)
        return lease.lost() if lease is not None else None

    def want(self, checkpoint: str) -> None:
        """Ask the holder of the lease of the model with this checkpoint to release it
        between two batches."""
        CheckpointFiles(self._session, checkpoint + LEASE_SUFFIX).write(
            WANTED, _dump(self._me)
        )

    def unwant(self, checkpoint: str) -> None:
        """Withdraw what `want` has asked for."""
        CheckpointFiles(self._session, checkpoint + LEASE_SUFFIX).remove(WANTED)

    def is_wanted(self, model: str) -> bool:
        """Whether another process has asked for the model's lease, as the renewing
        thread has seen. Does not read the storage."""
        lease = self._held.get(model)
        return lease is not None and lease.is_wanted

    def give_way(self, model: str) -> None:
        """Release the lease for the process that has asked for it."""
        self._gave_way[model] = self._clock()
        self.release(model)

    def release(self, model: str) -> None:
        """Release a lease; nothing if it is not held."""
        self._claims.pop(model, None)
        with self._lock:
            lease = self._held.pop(model, None)
        if lease is not None:
            lease.release()

    def close(self) -> None:
        """Release all leases."""
        self._closed.set()
        for model in list(self._held):
            self.release(model)

    def _renew_all(self) -> None:
        # In parallel, so that with slow storage the last of many is renewed in time
        # too.
        with ThreadPoolExecutor(RENEWERS, "lakesql-lease") as pool:
            while not self._closed.wait(self._renew_every_s):
                with self._lock:
                    held = list(self._held.values())
                for _ in pool.map(_Lease.renew, held):
                    pass


class _Lease:
    """A lease that is held, until another runner creates the next file."""

    def __init__(
        self,
        model: str,
        files: CheckpointFiles,
        number: int,
        me: Holder,
        clock: Callable[[], float],
    ) -> None:
        self._model = model
        self._files = files
        self.number = number
        self._me = me
        self._clock = clock
        self._renewed = clock()
        self._taken_by: str = ""
        self._is_released = False
        self.is_wanted = False
        self._lock = threading.Lock()

    def check(self) -> None:
        if not self._taken_by and self._clock() - self._renewed > LASTS_S:
            self.renew()
        if (lost := self.lost()) is not None:
            raise lost
        if self._clock() - self._renewed > LASTS_S:
            raise TransientError.of(
                "lease-lost",
                f"The lease of model '{self._model}' cannot be renewed: {self._files.folder} does not answer.",
                fix="Look whether the target's `checkpoints` can be reached.",
            )

    def lost(self) -> RunError | None:
        return _lost(self._model, self._taken_by) if self._taken_by else None

    def renew(self) -> None:
        """Renew the lease; if another runner has taken it over, remember that
        instead."""
        with self._lock:
            if not self._is_released:
                self._renew()

    def _renew(self) -> None:
        begun = self._clock()
        try:
            names = self._files.names()
            newest = max(numbers_of(names), default=-1)
            self.is_wanted = WANTED in names
            if newest > self.number:
                holder = read_holder(self._files, newest)
                self._taken_by = str(holder) if holder else "another runner"
                return
            self._me = replace(self._me, beat=self._me.beat + 1)
            self._files.write(str(self.number), _dump(self._me))
        # whatever the storage raises, the next renewal tries again, and `check` looks
        # at the time since the last one
        except Exception as error:
            _log.warning(
                "The lease of %s was not renewed: %s", self._model, first_line(error)
            )
        else:
            self._renewed = begun

    def release(self) -> None:
        """Release the lease, so that the next runner that asks has it at once."""
        with self._lock:
            self._is_released = True
            self._release()

    def _release(self) -> None:
        try:
            if newest_holder(self._files) == self.number:
                self._files.write(
                    str(self.number), _dump(replace(self._me, is_released=True))
                )
                for number in numbers_of(self._files.names()):
                    if number < self.number:
                        self._files.remove(str(number))
        except Exception as error:  # it passes on by itself
            _log.warning(
                "The lease of %s was not given back: %s", self._model, first_line(error)
            )


class _Claim:
    """An attempt to get a lease: repeated until the lease is free, or its holder is
    seen to renew it."""

    def __init__(
        self,
        model: str,
        files: CheckpointFiles,
        me: Holder,
        clock: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        self._model = model
        self._files = files
        self._me = replace(
            me,
            token=str(uuid4()),
            since=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self._clock = clock
        self._say = say
        self._look_every_s = LOOK_EVERY_S
        self._looked = -LOOK_EVERY_S
        self._seen: tuple[int, Holder | None] | None = None
        self._seen_at = 0.0

    def look(self, patient: bool) -> _Lease | None:
        """The lease if it is free now, otherwise None. Raises if its holder renews it,
        unless `patient`."""
        now = self._clock()
        if now - self._looked < self._look_every_s:
            return None
        self._looked = now
        newest = newest_holder(self._files)
        holder = read_holder(self._files, newest) if newest >= 0 else None
        is_given_back = holder is not None and holder.is_released
        if newest < 0 or is_given_back:
            return self._take(newest + 1)
        if holder is not None and is_dead(holder, self._me):
            return self._take(
                newest + 1, f"took over the lease that {holder} has left: it is dead"
            )
        return self._watch(newest, holder, patient, now)

    def _watch(
        self, newest: int, holder: Holder | None, patient: bool, now: float
    ) -> _Lease | None:
        """The lease if its holder has not renewed it for long, otherwise None. Raises
        if the holder is seen to renew it, unless `patient`."""
        who = str(holder or "another runner")
        if self._seen is None:
            self._seen, self._seen_at = (newest, holder), now
            self._say(f"waits up to {PASSES_ON_AFTER_S:.0f} s for the lease of {who}")
            return None
        is_renewed = self._seen != (newest, holder)
        if is_renewed and not patient:
            since = f", since {holder.since}" if holder else ""
            raise RunError.of(
                "lease-held",
                f"Model '{self._model}' is being run by {who}{since}.",
                why="Two runners of one model would write its batches twice.",
            )
        if is_renewed:
            if self._look_every_s == LOOK_EVERY_S:
                self._say(f"is being run by {who}: waits until that ends")
            self._look_every_s = RENEW_EVERY_S
            self._seen, self._seen_at = (newest, holder), now
            return None
        if now - self._seen_at <= PASSES_ON_AFTER_S:
            return None
        silent = f"has not renewed it for {PASSES_ON_AFTER_S:.0f} s"
        return self._take(newest + 1, f"took over the lease of {who}, which {silent}")

    def _take(self, number: int, because: str = "") -> _Lease | None:
        lease = _Lease(self._model, self._files, number, self._me, self._clock)
        if not self._files.create(str(number), _dump(self._me)):
            return None  # somebody was faster: the next look meets him
        if because:
            self._say(because)
        return lease


def _elapsed_s() -> float:
    """Seconds since an arbitrary moment, including time in which the process or the
    machine was suspended."""
    return (
        time.clock_gettime(time.CLOCK_BOOTTIME)
        if hasattr(time, "CLOCK_BOOTTIME")
        else time.monotonic()
    )


def _lost(model: str, holder: str) -> RunError:
    return RunError.of(
        "lease-lost",
        f"The lease of model '{model}' has passed on to {holder}, while this runner was not heard of.",
        why="It slept, or could not reach its checkpoints, for longer than a lease lasts.",
    )


def rename_under_way(model: str, renaming: Renaming) -> RunError:
    """The error for a model whose rename is not complete."""
    return RunError.of(
        "rename-under-way",
        f"Model '{model}' cannot be used: the rename of '{renaming.old}' to '{renaming.new}' is not done.",
        why="Its table, its ledger or its checkpoint may still have the other name.",
        fix=f"Finish it: {renaming.command}",
    )


def _this_runner(session: SparkSession) -> Holder:
    java = int(java_class("java.lang.ProcessHandle").current().pid())
    processes = tuple(map(Process.now, (os.getpid(), java)))
    return Holder("", socket.gethostname(), _machine(), processes, "")


def _machine() -> str:
    """An id that two processes have in common if they see each other's process ids;
    empty if it cannot be determined."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _dump(holder: Holder) -> str:
    return json.dumps(asdict(holder))
