"""The models under test, all of them over the same records; and runs of them that are
killed at random."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakesql.engine.batch.sink import Step
from lakesql.events import ModelFinished
from tests.feeds import oracle
from tests.feeds.delivery import Feeds
from tests.feeds.oracle import Fault, Model, letter_faults, row_faults
from tests.feeds.source import GROUP
from tests.spark.project import Project, Row

ROW = {
    "seed": "int",
    "a": "int",
    "b": "string",
    "at": "int",
    "n": "int",
    "v": "int",
    "gone": "boolean",
}
SOURCE: dict[str, Any] = {
    "seed": {"type": "int", "required": True},
    "a": {"type": "int", "required": True},
    "b": {"type": "string", "required": True},
    "v": "int",
    "big": "string",
}
KEYS, MIRRORED = ["seed", "a", "b"], ["seed", "x", "y"]
MIRROR = "SELECT seed, a AS x, b AS y, v, big FROM {} WHERE v >= 0"
PLACED = (
    "SELECT seed, a AS x, b AS y, v, big, _change.position AS at FROM {} WHERE v >= 0"
)

BROKEN = frozenset({"unparsable"})
KEYED, SEQUENCED = (
    BROKEN | {"key-missing"},
    BROKEN | {"key-missing", "sequence-missing"},
)
FEED, SEQUENCED_FEED = (
    BROKEN | {"required-missing"},
    BROKEN | {"required-missing", "sequence-missing"},
)

MODELS: dict[str, Model] = {
    "each": Model(
        "plain",
        "SELECT *, _record.partition AS p, _record.offset AS o FROM {plain}",
        {"mode": "append"},
        oracle.each_row,
        BROKEN,
    ),
    "first": Model(
        "plain",
        "SELECT * FROM {plain}",
        {"mode": "append", "keys": KEYS},
        oracle.first_rows,
        KEYED,
    ),
    "last": Model(
        "plain",
        "SELECT * FROM {plain}",
        {"mode": "upsert", "keys": KEYS, "delete_when": "gone"},
        oracle.last_rows,
        KEYED,
    ),
    "newest": Model(
        "plain",
        "SELECT * FROM {plain}",
        {
            "mode": "upsert",
            "keys": KEYS,
            "sequence_by": ["at", "n"],
            "delete_when": "gone",
        },
        oracle.newest_rows,
        SEQUENCED,
    ),
    "versions": Model(
        "plain",
        "SELECT * FROM {plain}",
        {"mode": "scd2", "keys": KEYS, "sequence_by": ["at", "n"]},
        oracle.versions,
        SEQUENCED,
    ),
    "mirror": Model(
        "in_order",
        MIRROR.format("{in_order}"),
        {"mode": "cdc", "keys": MIRRORED},
        oracle.mirrored_rows_in_order,
        FEED,
        ("x", "y"),
    ),
    "placed": Model(
        "in_order",
        PLACED.format("{in_order}"),
        {"mode": "cdc", "keys": MIRRORED, "sequence_by": "_change.position"},
        oracle.mirrored_rows_in_order,
        FEED,
        ("x", "y"),
    ),
    "sequenced": Model(
        "shuffled",
        PLACED.format("{shuffled}"),
        {"mode": "cdc", "keys": MIRRORED, "sequence_by": "_change.position"},
        oracle.mirrored_rows,
        SEQUENCED_FEED,
        ("x", "y"),
    ),
    "history": Model(
        "untruncated",
        PLACED.format("{untruncated}"),
        {
            "mode": "scd2",
            "keys": MIRRORED,
            "sequence_by": "_change.position",
            "track_columns": ["v"],
        },
        oracle.changed_versions,
        SEQUENCED_FEED,
        ("x", "y"),
    ),
}
"""By its name, each model of the suite. `at` of a mirror says no more than its
order."""

UNCOMPARED = {"placed": {"at"}, "sequenced": {"at"}}

HANGS_AFTER_S = 1200.0
"""All models run at once, which takes minutes on a machine that does something else."""

STEPS: tuple[Step, ...] = (
    "look-up",
    "view",
    "stage",
    "dead-letter",
    "publish",
    "finish",
)


@dataclass(frozen=True, slots=True)
class Kill:
    """Where a model is killed: as it takes a step for the `nth` time; and whether its
    checkpoint is lost then.

    Where it takes the step less often, it ends by itself, and the last file of its
    checkpoint is lost.
    """

    step: Step
    nth: int
    loses_checkpoint: bool


@dataclass(frozen=True, slots=True)
class Suite:
    """A project with some of the models, which read feeds, and are killed once on the
    way."""

    project: Project
    feeds: Feeds
    kills: Mapping[str, Kill]
    models: Mapping[str, Model] = field(default_factory=lambda: MODELS)

    def run(self) -> None:
        """Write the project and its topics, and run all models to their ends, after a
        run in which they are killed."""
        self.project.stream("plain", ROW, max_per_batch=1)
        for topic in ("in_order", "shuffled", "untruncated"):
            self.project.stream(
                topic, SOURCE, envelope="debezium", key=KEYS, max_per_batch=1
            )
        for name, model in self.models.items():
            self.project.model(name, model.select, **model.config)
        self.feeds.record(self.project)
        if self.kills:
            self._run_killed()
        self.project.run(hangs_after_s=HANGS_AFTER_S).check()

    def faults(self) -> list[Fault]:
        """What is wrong in all tables."""
        found = []
        for name, model in self.models.items():
            hidden = UNCOMPARED.get(name, set())
            rows = [
                {c: v for c, v in row.items() if c not in hidden}
                for row in self._stored(name)
            ]
            found += row_faults(name, self.feeds, model, rows)
            letters = f"{name}__dead_letter"
            stored = self._stored(letters) if self.project.has(letters) else []
            found += letter_faults(name, self.feeds, model, stored)
        return found

    def report(self, faults: list[Fault]) -> str:
        """The first fault of each table, and what somebody needs to see why."""
        counts = Counter(fault.model for fault in faults)
        first, last = self.feeds.seeds[0], self.feeds.seeds[-1]
        lines = [
            f"Wrong: {dict(counts)}. All of them: pytest tests/feeds --feed-seeds {last + 1} -k {first}-{last}"
        ]
        for table in counts:
            fault = next(fault for fault in faults if fault.model == table)
            name = table.removesuffix("__dead_letter")
            lines += [
                "",
                f"{table}, {self.kills.get(name)}",
                fault.report(self.feeds, self.models[name].topic),
            ]
        return "\n".join(lines)

    def _stored(self, table: str) -> list[Row]:
        rows: list[Row] = (
            self.project.lake.session.table(self.project.table(table))
            .toArrow()
            .to_pylist()
        )
        return rows

    def _run_killed(self) -> None:
        left = {name: kill.nth for name, kill in self.kills.items()}

        def reached(model: str, step: str) -> None:
            if self.kills[model].step == step:
                left[model] -= 1
                if left[model] == 0:
                    raise RuntimeError("killed")

        ran = self.project.run(reached=reached, hangs_after_s=HANGS_AFTER_S)
        assert {event.model for event in ran.of(ModelFinished) if event.problems} == {
            name for name in left if left[name] <= 0
        }
        for name, kill in self.kills.items():
            if left[name] > 0:
                self.project.forget(name)
            elif kill.loses_checkpoint:
                shutil.rmtree(self.project.directory / "checkpoints" / name)


def random_kills(seed: int, models: Iterable[str]) -> dict[str, Kill]:
    """Where the models are killed that read the feeds of the group of this seed."""
    chance = random.Random(f"kills of {seed // GROUP}")
    return {
        name: Kill(chance.choice(STEPS), chance.randrange(1, 7), chance.random() < 0.4)
        for name in models
    }
