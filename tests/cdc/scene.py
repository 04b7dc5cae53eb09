"""A database that changes, its feed and a group that mirrors it, while the runner, the
connector and the broker are killed: at its end each table is the database's, in the
continuous run and in a run of what is there."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cdc.changing import ChangingDatabase
from tests.cdc.feed import Feed, wait_for, wait_for_changes
from tests.cdc.mirror import Mirror, problems, wait_for_batches
from tests.servers.runner import Runner

ARRIVES_WITHIN_S = 600
"""The larger ones of these databases take their time."""
KILLS = ("runner", "runner", "python", "java", "connect", "connect", "broker")


@dataclass(frozen=True, slots=True)
class Scene:
    """A database and its feed, the mirror and its continuous run, the topic of the
    marks, and a file that says what was done."""

    database: ChangingDatabase[Any]
    feed: Feed[Any]
    mirror: Mirror
    runner: Runner
    marks: str
    told: Path

    def play(self, chance: random.Random, rounds: int, kills: int) -> None:
        """Change rows and shapes so many times, kill a program in as many of them, and
        compare all tables."""
        self.feed.connect.start()
        wait_for_changes(self.feed, self.marks, self.database.mark)
        self._arrive(1)
        self._check()
        self.runner.start()
        try:
            for number in range(rounds):
                self._change(chance)
                if number < kills:
                    time.sleep(chance.random() * 3)
                    self._kill(chance)
            self._arrive(2)
            self._read_again(chance)
            # which were read last
            wait_for(
                self.feed, self.marks, '"snapshot":"incremental"', ARRIVES_WITHIN_S
            )
            self._arrive(3)
            self._catch_up()
        finally:
            self.runner.stop()
        self._check()

    def _say(self, *words: object) -> None:
        """Write down what happens: a failure is of use only with that."""
        with self.told.open("a") as file:
            print(time.strftime("%H:%M:%S"), *words, file=file)

    def _arrive(self, mark: int) -> None:
        """Wait until all is in the feed that was done until now."""
        self.database.mark(mark)
        wait_for(self.feed, self.marks, f'"id":{mark}}}', ARRIVES_WITHIN_S)
        time.sleep(2)  # the other topics have it too

    def _change(self, chance: random.Random) -> None:
        """Change rows and a shape, wait until some of it is mirrored, and change
        more."""
        self.database.change(30)
        if chance.random() < 0.8:
            self._say("alter", self.database.alter())
        self.database.change(10)
        if self.runner.process.poll() is not None:  # it found no broker as it started
            self.runner.start()
        self._say("batches", wait_for_batches(self.runner, chance.randrange(1, 4)))
        self.database.change(10)

    def _kill(self, chance: random.Random) -> None:
        """End one of the programs as a crash does, and start it again."""
        kind = chance.choice(KILLS)
        self._say("kill", kind)
        match kind:
            case "runner":
                self.runner.kill_both()
                self.runner.start()
            case "python":
                self.runner.kill_python()
                self.runner.start()
            case "java":
                if self.runner.javas():
                    self.runner.kill_java()
            case "connect":
                self.feed.connect.kill()
                self.feed.connect.start()
            case "broker":
                self.feed.broker.kill()
                self.feed.broker.start()

    def _read_again(self, chance: random.Random) -> None:
        """Ask for an incremental snapshot of all tables, between whose chunks rows
        change and the connector is killed, and for one of those whose rows have changed
        without an event."""
        self.database.read_all_again()
        self.database.change(10)
        time.sleep(chance.random() * 3)
        self.feed.connect.kill()
        self.database.change(10)
        self.feed.connect.start()
        self._say("read again", self.database.read_again())
        self.database.change(20)

    def _catch_up(self) -> None:
        """The continuous run ends up with each table as it is in the database, and ends
        well."""
        deadline = time.monotonic() + ARRIVES_WITHIN_S
        if self.runner.process.poll() is not None:
            self.runner.start()
        while unequal := self._differences():
            assert self.runner.process.poll() is None, (
                f"the run has ended with {self.runner.process.returncode}"
            )
            if time.monotonic() > deadline:
                self._write_statements()
                self._say("not caught up", unequal)
                raise AssertionError(unequal)
            time.sleep(2)
        code = self.runner.terminate(120)
        self._say("ended with", code)
        assert code == 0, self.runner.runs[-1][-3:]

    def _check(self) -> None:
        """A run of what is there ends with each table as it is in the database, and
        with nothing to say."""
        code, events = self.mirror.run()
        members = {f"{table.member}__dead_letter" for table in self.database.tables}
        letters = {
            name: reasons
            for name, reasons in self.mirror.dead_letters().items()
            if name in members
        }
        unequal = self._differences()
        self._say("code", code, "different", unequal, "dead letters", letters)
        self._write_statements()
        assert (code, unequal, letters) == (0, {}, {}), problems(events)

    def _write_statements(self) -> None:
        (self.told.parent / "statements.sql").write_text(
            ";\n".join(self.database.statements)
        )

    def _differences(self) -> dict[str, str]:
        """The tables that are not the database's, and how."""
        found = {}
        for table in self.database.tables:
            wanted, has = (
                self.database.rows(table),
                self.mirror.rows(table.member, list(table.columns)),
            )
            if wanted == has or not (wanted or has):
                continue
            lacks = [_shown(row) for row in wanted if row not in (has or ())]
            more = [_shown(row) for row in has or () if row not in wanted]
            columns = [f"{name} {kind.sql}" for name, kind in table.columns.items()]
            counts = f"{len(wanted)} rows, {len(has or ())} here"
            found[table.source] = (
                f"{columns}: {counts}, lacks {lacks[:3]}, has {'no such table' if has is None else more[:3]}"
            )
        return found


def _shown(row: list[Any]) -> list[str]:
    """A row, without most of its long values."""
    return [
        text if len(text := repr(value)) < 80 else f"{text[:70]}… {len(text)}"
        for value in row
    ]
