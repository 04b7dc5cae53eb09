"""A project in a folder of its own, run on the session that all tests share."""

from __future__ import annotations

import json
import os
import threading
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pyiceberg.table.snapshots import Operation
from pyspark.sql import SparkSession

from lakesql.catalog.connect import OpenCatalog
from lakesql.compile.build_select import build_selects
from lakesql.engine.spark.gateway import own_of, set_own
from lakesql.errors import render_problem
from lakesql.events import Emit, Event, ModelFinished
from lakesql.graph.load_manifest import load_manifest
from lakesql.graph.manifest import Manifest
from lakesql.project.files import read_project
from lakesql.project.profiles import load_target
from lakesql.run.interrupt import Interrupt
from lakesql.run.job import RunOptions
from lakesql.run.manifest.load import load_asked, load_known
from lakesql.run.model_jobs import JobsBy
from lakesql.run.models import Order, run_selects
from lakesql.run.rebuild import rebuild_jobs
from lakesql.run.replacement.replacement_table import RebuildFrom
from lakesql.run.start.context import RunContext
from lakesql.run.start.nothing_new import report_nothing_new
from lakesql.run.streams.bind import bind_selects
from lakesql.run.streams.found_columns import ask_topics

E = TypeVar("E")
Row = dict[str, Any]
T0_MS = 1_772_400_000_000
HANGS_AFTER_S = 600.0


@dataclass(frozen=True, slots=True)
class Lake:
    """What all projects share."""

    session: SparkSession
    catalog: OpenCatalog


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run came to."""

    succeeded: bool
    events: tuple[Event, ...]

    def check(self) -> Ran:
        """The same, if no model failed."""
        problems = [
            render_problem(problem)
            for event in self.of(ModelFinished)
            for problem in event.problems
        ]
        assert self.succeeded and not problems, "\n".join(problems)
        return self

    def of(self, kind: type[E], model: str | None = None) -> list[E]:
        """The events of a kind."""
        found = [event for event in self.events if isinstance(event, kind)]
        return [
            event
            for event in found
            if model is None or getattr(event, "model", None) == model
        ]

    def finished(self, model: str) -> ModelFinished:
        (found,) = self.of(ModelFinished, model)
        return found

    def conditions(self, model: str) -> list[str]:
        """The conditions that ended a model."""
        return [problem.condition for problem in self.finished(model).problems]


@contextmanager
def target_settings(
    session: SparkSession, settings: Mapping[str, str]
) -> Iterator[None]:
    """While this is open, the sessions that models have of their own begin with these
    settings, as with those of a target."""
    own = own_of(session)
    former = {name: session.conf.get(name, None) for name in settings}
    set_own(session, {**own, **settings})
    try:
        yield
    finally:
        set_own(session, own)
        for name, value in former.items():
            session.conf.unset(name) if value is None else session.conf.set(name, value)


class Project:
    """Writes files, runs models, reads tables. A directory that holds a project's files
    already keeps them."""

    def __init__(
        self, lake: Lake, directory: Path, namespace: str, profile: str = "p"
    ) -> None:
        self.lake = lake
        self.directory = directory
        self.namespace = namespace
        self.profile = profile
        self._offsets: Counter[tuple[str, int]] = Counter()
        catalog = lake.catalog.profile
        self.checkpoints = "checkpoints"
        self.lineage: Mapping[str, Any] | None = None
        self.connections: dict[str, Mapping[str, Any]] = {
            "broker": {"type": "recorded", "path": "recorded"}
        }
        self._target = {
            "run": "once",
            "threads": 2,
            "namespace": namespace,
            "catalog": {
                "name": catalog.name,
                "type": catalog.type,
                "uri": catalog.uri,
                "warehouse": catalog.warehouse,
                **catalog.properties,
            },
        }
        if not (directory / "pyproject.toml").exists():
            self.write(
                "pyproject.toml",
                f'[tool.lakesql]\nname = "{profile}"\nprofile = "{profile}"\n',
            )

    # Writing

    def write(self, path: str, content: str | bytes) -> Path:
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def model(self, name: str, select: str, **config: Any) -> None:
        """A model of this SELECT, in which `{x}` stands for `{{ stream('x') }}` and
        `{x!r}` for `{{ ref('x') }}`."""
        arguments = ", ".join(f"{key}={value!r}" for key, value in config.items())
        self.write(
            f"models/{name}.sql",
            f"{{{{ config({arguments}) }}}}\n{select.format_map(_References())}\n",
        )

    def stream(
        self, name: str, columns: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        """A declared stream; of the recorded topic of its name, unless `options` say
        something else."""
        entry: dict[str, Any] = {
            "name": name,
            **({"columns": columns} if columns else {}),
            **options,
        }
        if not {"connection", "path"} & set(options):
            entry["connection"] = "broker"
        if entry.get("connection") == "broker" and not {
            "topics",
            "pattern",
            "topic",
        } & set(options):
            entry["topic"] = name
        self.write(
            f"streams/{name}.yml", json.dumps({"streams": [entry]}, ensure_ascii=False)
        )

    def record(
        self, topic: str, values: Iterable[Any], *, partition: int | None = 0
    ) -> Path:
        """One more file of a topic: a record for each value, each with the next offset
        of its partition.

        A value that is a `dict` with `value` in it gives the record's other fields too.
        """
        folder = self.directory / "recorded" / topic
        number = len(list(folder.glob("*.jsonl"))) + 1
        lines = []
        for value in values:
            fields = dict(value) if isinstance(value, Fields) else {"value": value}
            place = fields.setdefault("partition", partition)
            fields.setdefault("offset", self._offsets[topic, place])
            self._offsets[topic, place] = fields["offset"] + 1
            fields.setdefault("timestamp", T0_MS + number * 1000 + len(lines))
            lines.append(json.dumps(fields, default=str, ensure_ascii=False))
        file = self.write(
            f"recorded/{topic}/part-{number:05d}.jsonl",
            "".join(f"{line}\n" for line in lines),
        )
        # Spark takes files in the order of their times, which this machine's clock may
        # not tell apart.
        os.utime(file, (time.time() - 10_000 + number, time.time() - 10_000 + number))
        return file

    # Running

    def manifest(self, asks: bool = False) -> Manifest:
        """The project; with `asks` the broker is asked for the tables of feeds."""
        self._target |= {
            "connections": self.connections,
            "checkpoints": self.checkpoints,
        }
        if self.lineage is not None:
            self._target["lineage"] = self.lineage
        self.write(
            "profiles.yml",
            json.dumps(
                {self.profile: {"target": "dev", "outputs": {"dev": self._target}}}
            ),
        )
        files = read_project(self.directory)
        target = load_target(self.profile, None, [self.directory], os.environ)
        load = partial(load_manifest, files, target, {}, None, None)
        return load_asked(load) if asks else load_known(load)

    def run(
        self,
        *names: str,
        continuous: bool = False,
        until: Callable[[], bool] = lambda: False,
        meet: Callable[[Event], None] = lambda event: None,
        accept_data_loss: bool = False,
        jobs_by: JobsBy | None = None,
        reached: Callable[[str, str], None] = lambda model, step: None,
        fail_if_empty: bool = False,
        hangs_after_s: float = HANGS_AFTER_S,
        order: Order | None = None,
        asks: bool = False,
    ) -> Ran:
        """Run models, all of them if none is named. The run is ended as soon as `until`
        says so.

        `meet` is called with each event, in the thread that it happened in: what it
        raises hits the batch there.
        """
        manifest = self.manifest(asks)
        return run_manifest(
            self.lake,
            ask_topics(manifest, names or manifest.models),
            names,
            continuous,
            until,
            meet,
            accept_data_loss,
            jobs_by,
            reached,
            fail_if_empty,
            hangs_after_s,
            order,
            partial(self.manifest, asks=True),
        )

    def rebuild(
        self,
        *names: str,
        start: RebuildFrom = "start",
        accept_data_loss: bool = False,
        meet: Callable[[Event], None] = lambda event: None,
        reached: Callable[[str, str], None] = lambda model, step: None,
    ) -> Ran:
        """Rebuild models, as `run` runs them. `reached` is called before each step, and
        may raise there."""
        jobs_by = rebuild_jobs(self.manifest(), names, start, accept_data_loss)
        return self.run(*names, meet=meet, jobs_by=jobs_by, reached=reached)

    def run_without_java(self, *names: str) -> list[ModelFinished]:
        """How models have ended of which it is known before Java starts that nothing is
        new; none where it is not."""
        said: list[Event] = []

        @contextmanager
        def open_events() -> Iterator[Emit]:
            yield said.append

        manifest = self.manifest()
        assert report_nothing_new(
            manifest, build_selects(manifest, names or manifest.models), open_events
        ) == bool(said)
        return [event for event in said if isinstance(event, ModelFinished)]

    # StreamBinding

    def checkpoint_folders(self) -> set[str]:
        """The names of the folders among the target's checkpoints."""
        return {
            path.name
            for path in (self.directory / "checkpoints").iterdir()
            if path.is_dir()
        }

    def table(self, name: str) -> str:
        return f"{self.lake.catalog.profile.name}.{self.namespace}.{name}"

    def rows(self, name: str, order: str | None = None) -> list[Row]:
        """A table's rows as Spark reads them, sorted by the column `order`, else by all
        of them."""
        return sorted_rows(
            self.lake.session.table(self.table(name)).toArrow().to_pylist(), order
        )

    def iceberg(self, name: str) -> Any:
        """A table as pyiceberg has it."""
        return self.lake.catalog.iceberg.load_table((self.namespace, name))

    def rows_without_spark(self, name: str) -> list[Row]:
        return sorted_rows(self.iceberg(name).scan().to_arrow().to_pylist())

    def has(self, name: str) -> bool:
        return bool(self.lake.catalog.iceberg.table_exists((self.namespace, name)))

    def table_names(self) -> set[str]:
        """The names of all tables of the project."""
        return {
            name for *_, name in self.lake.catalog.iceberg.list_tables(self.namespace)
        }

    def summaries(self, name: str) -> list[dict[str, str]]:
        """The summaries of a table's history, oldest first; neither staged snapshots
        nor those of maintenance."""
        metadata = self.iceberg(name).metadata
        by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
        found, at = [], metadata.current_snapshot_id
        while at is not None and at in by_id:
            if by_id[at].summary.operation != Operation.REPLACE:
                found.append(dict(by_id[at].summary.additional_properties))
            at = by_id[at].parent_snapshot_id
        return found[::-1]

    def snapshot_ids(self, name: str) -> list[int]:
        """All snapshots, those that are staged and not published too, but for those of
        maintenance."""
        snapshots = self.iceberg(name).metadata.snapshots
        return [
            each.snapshot_id
            for each in snapshots
            if each.summary.operation != Operation.REPLACE
        ]

    def reasons(self, name: str) -> Counter[str]:
        """How many dead letters of each reason stand beside a table."""
        dead_letters = f"{name}__dead_letter"
        return (
            Counter(row["reason"] for row in self.rows(dead_letters))
            if self.has(dead_letters)
            else Counter()
        )

    def sql(self, statement: str) -> list[Row]:
        return self.lake.session.sql(statement).toArrow().to_pylist()

    # Spark's checkpoint

    def forget(self, model: str, batch: int | None = None) -> int:
        """Leave the checkpoint as a crash right after the table's commit of a batch,
        the newest by default, leaves it.

        Its `commits/N` goes, and all that came after it; which batch it is.
        """
        checkpoint = self.directory / "checkpoints" / model
        commits = {
            int(file.name): file
            for file in (checkpoint / "commits").iterdir()
            if file.name.isdigit()
        }
        offsets = {
            int(file.name): file
            for file in (checkpoint / "offsets").iterdir()
            if file.name.isdigit()
        }
        first = max(commits) if batch is None else batch
        gone = [file for number, file in commits.items() if number >= first]
        for file in (
            *gone,
            *(file for number, file in offsets.items() if number > first),
        ):
            file.unlink()
        return first


class Fields(dict[str, Any]):
    """The fields of a recorded line, where `Project.record` is to write others than
    those it makes up."""


def in_bytes(value: bytes | None, key: bytes | None = None, **more: Any) -> Fields:
    """A recorded line whose value and key are bytes; a tombstone where it has no
    value."""
    written = {"value": value, "key": key}
    encoded = {
        f"{name}_base64": b64encode(each).decode()
        for name, each in written.items()
        if each is not None
    }
    return Fields(
        {"value": None, **encoded, **more} if value is None else {**encoded, **more}
    )


def use_schema_folder(project: Project) -> None:
    """Give the project a registry, `schemas`, which is its folder of that name."""
    project.connections = {
        **project.connections,
        "schemas": {"type": "registry", "path": "schemas"},
    }
    (project.directory / "schemas").mkdir()


def run_manifest(
    lake: Lake,
    manifest: Manifest,
    names: Sequence[str] = (),
    continuous: bool = False,
    until: Callable[[], bool] = lambda: False,
    meet: Callable[[Event], None] = lambda event: None,
    accept_data_loss: bool = False,
    jobs_by: JobsBy | None = None,
    reached: Callable[[str, str], None] = lambda model, step: None,
    fail_if_empty: bool = False,
    hangs_after_s: float = HANGS_AFTER_S,
    order: Order | None = None,
    reload: Callable[[], Manifest] | None = None,
) -> Ran:
    """Run models of a manifest on the shared session: see `Project.run`."""
    ids = manifest.graph.order(
        node for node in manifest.graph.nodes if node.startswith("model.")
    )
    sorted_names = [node.removeprefix("model.") for node in ids]
    events: list[Event] = []
    interrupt = Interrupt()
    started = time.monotonic()
    is_over = _one_at_a_time(until)

    def emit(event: Event) -> None:
        events.append(event)
        meet(event)
        if is_over():
            interrupt.set()
        if time.monotonic() - started > hangs_after_s:
            raise TimeoutError("The run hangs.")

    selects = build_selects(
        manifest, [name for name in sorted_names if not names or name in names]
    )
    context = RunContext(
        manifest, lake.session, lake.catalog, emit, accept_data_loss, reached=reached
    )
    bound = bind_selects(manifest, selects)
    options = RunOptions(continuous=continuous, fail_if_empty=fail_if_empty)
    with _ending(interrupt, is_over):
        succeeded = run_selects(
            context, bound, options, interrupt, jobs_by, order, reload
        )
    return Ran(succeeded, tuple(events))


def _one_at_a_time(until: Callable[[], bool]) -> Callable[[], bool]:
    """What `until` says, which several threads ask; False while another one is at it,
    as it may take steps."""
    asking = threading.Lock()

    def ask() -> bool:
        if not asking.acquire(blocking=False):
            return False
        try:
            return until()
        finally:
            asking.release()

    return ask


@contextmanager
def _ending(interrupt: Interrupt, until: Callable[[], bool]) -> Iterator[None]:
    """A run that is ended as soon as `until` says so, also while nothing happens in
    it."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.3):
            if until():
                interrupt.set()
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def sorted_rows(rows: Iterable[Row], order: str | None = None) -> list[Row]:
    """Rows in an order that depends on their values alone: of one column, NULL first,
    or of all."""
    if order is None:
        return sorted(rows, key=lambda row: repr(sorted(row.items())))
    return sorted(
        rows,
        key=lambda row: (
            row[order] is not None,
            0 if row[order] is None else row[order],
        ),
    )


class _References(dict[str, Any]):
    def __missing__(self, name: str) -> _Reference:
        return _Reference(name)


class _Reference:
    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"{{{{ stream('{self.name}') }}}}"

    def __format__(self, spec: str) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"{{{{ ref('{self.name}') }}}}"
