"""A real `lakesql run --continuous` in a process of its own, which is killed one way or
another and started again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lakesql.progress.holder import Process
from tests.servers.process import kill, kill_all, stop

Event = dict[str, Any]


class Runner:
    """Runs models of the project in `directory`, with more `options`; `runs` has the
    events of each start."""

    def __init__(
        self, directory: Path, *models: str, options: Sequence[str] = ()
    ) -> None:
        self.directory = directory
        self.models = models
        self.options = options
        self.runs: list[list[Event]] = []
        self.started_at = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._orphans: list[Process] = []

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "lakesql",
            "--log-format",
            "json",
            "run",
            "--continuous",
        ]
        with self._output.open("wb") as out, self.errors.open("ab") as err:
            self._process = subprocess.Popen(
                [*command, *self.options, "--select", *self.models],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                process_group=0,
            )
        self.started_at = time.monotonic()
        self.runs.append([])

    def wait(self, seen: Callable[[list[Event]], bool], stalls_after_s: float) -> float:
        """Return when the events of this start are as `seen` wants them, and how many
        seconds after the start that is.

        It may take as long as a slow machine needs, if only something happens from time
        to time.
        """
        happened, last = 0, time.monotonic()
        while not seen(events := self._read()):
            if (
                count := sum(event["event"] != "progress" for event in events)
            ) > happened:
                happened, last = count, time.monotonic()
            if self.process.poll() is not None:
                self._fail(f"The run ended with status {self.process.returncode}")
            if time.monotonic() - last > stalls_after_s:
                self._fail(f"Nothing has happened for {stalls_after_s} s")
            time.sleep(0.05)
        return time.monotonic() - self.started_at

    def ended(self, within_s: float) -> int:
        """The status with which it ends by itself."""
        code = self.process.wait(within_s)
        self._read()
        return code

    def terminate(self, within_s: float) -> int:
        """The status with which it ends on SIGTERM."""
        self.process.terminate()
        return self.ended(within_s)

    def stop(self) -> None:
        """End it and its Java, however it stands."""
        if self._process is not None:
            self._orphans += self.javas()
            stop(self._process, 30)
        kill_all(self._orphans)

    # As crashes do

    def kill_python(self) -> None:
        """SIGKILL to the runner alone. Its Java ends by itself some time later."""
        self._orphans += self.javas()
        kill(self.process)

    def kill_java(self) -> None:
        """SIGKILL to Java alone."""
        javas = self.javas()
        assert javas, "there is no Java"
        kill_all(javas)

    def kill_both(self) -> None:
        """SIGKILL to both at once."""
        javas = self.javas()
        self.process.send_signal(signal.SIGKILL)
        kill_all(javas)
        kill(self.process)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    def javas(self) -> list[Process]:
        """The processes of Java that the runner has started, or the shell in
        between."""
        return [
            Process.now(pid)
            for pid in _descendants(self.process.pid)
            if _name(pid) == "java"
        ]

    @property
    def errors(self) -> Path:
        """What all starts have said on stderr."""
        return self.directory / "errors.txt"

    @property
    def _output(self) -> Path:
        return self.directory / "events.jsonl"

    def _read(self) -> list[Event]:
        """All events of this start until now; a line that is half written is left for
        later."""
        lines = self._output.read_bytes().split(b"\n")[:-1]
        events = self.runs[-1]
        events += [json.loads(line) for line in lines[len(events) :]]
        return events

    def _fail(self, what: str) -> None:
        last = [event for event in self.runs[-1] if event["event"] != "progress"][-5:]
        errors = self.errors.read_text(errors="replace")[-3000:]
        log = (self.directory / "logs" / "spark.log").read_text(errors="replace")[
            -2000:
        ]
        self.stop()
        raise AssertionError(f"{what}.\n{json.dumps(last, indent=1)}\n{errors}\n{log}")


def of(events: list[Event], kind: str, model: str | None = None) -> list[Event]:
    """The events of a kind, as `--log-format json` names it."""
    return [
        event
        for event in events
        if event["event"] == kind and model in (None, event.get("model"))
    ]


def _descendants(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _descendants(child)


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child)
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except (OSError, ValueError):
        return []


def _name(pid: int) -> str:
    """The name of a process; '' of one that has ended, also where nobody has asked for
    its status yet."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    name, state = status[status.index("(") + 1 :].rsplit(") ", 1)
    return "" if state.startswith("Z") else name
