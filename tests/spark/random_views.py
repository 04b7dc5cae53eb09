"""Random models over the tables of `random_inputs`, and what each must hold: DuckDB's
answer to its SELECT, over the rows that pyiceberg reads of the snapshots which the
ledger names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal

import duckdb
import pyarrow as pa
from pyiceberg.table.snapshots import Snapshot
from pyspark.errors import AnalysisException

from lakesql.ledger.entry import ledger_tag
from lakesql.ledger.inputs import InputSnapshot, read_inputs, table_of
from lakesql.names import LEDGER_INPUTS
from lakesql.views.plan_view import plan_view
from tests.spark.project import Project
from tests.spark.random_inputs import KEEPS_LITTLE, RandomInput
from tests.views.keeper import INPUTS, Row, Rows, duck, same, spelled_row
from tests.views.random_selects import View, random_view

Mode = Literal["materialized_view", "table", "view", "scd2"]
Kind = Literal["difference", "key", "full", "any"]
_NAME = re.compile(r"lake\.shop\.(\w+)")
"""A table in a text: an input, or another model."""


LONGEST = 300
"""A SELECT of so many characters: what keeps a longer one takes Spark half a minute to
plan."""


@dataclass
class ViewModel:
    """A model over tables. Its `text` names each of them `lake.shop.<name>`; `more` is
    what its configuration has."""

    name: str
    mode: Mode
    view: View
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.view.text

    @property
    def reads(self) -> set[str]:
        """The names of the tables and models that it reads."""
        return set(_NAME.findall(self.text))

    @property
    def is_stored(self) -> bool:
        return self.mode != "view"


class RandomViews:
    """The models of a project, and the oracle."""

    def __init__(
        self, project: Project, inputs: Mapping[str, RandomInput], dice: Random
    ) -> None:
        self.project, self.inputs, self.dice = project, inputs, dice
        self.models: dict[str, ViewModel] = {}
        self.histories: dict[str, History] = {}

    # Making

    def add(self, model: ViewModel) -> ViewModel:
        """Write the model's file, which may be there."""
        self.models[model.name] = model
        config = {"mode": model.mode, **model.more}
        if model.is_stored:
            config["maintenance"] = {
                **KEEPS_LITTLE,
                "remove_orphan_files": {"older_than": "14 days"},
            }
        if model.mode == "scd2":
            self.histories[model.name] = History(model.more["keys"])
        elif model.view.keys:
            config["keys"] = list(model.view.keys)
        self.project.model(
            model.name,
            _NAME.sub(lambda found: self._reference(found[1]), model.text),
            **config,
        )
        return model

    def _reference(self, name: str) -> str:
        return self.inputs[name].reference if name in self.inputs else f"{{{name}!r}}"

    def pick(self, kind: Kind, reads: str = "") -> View:
        """A SELECT that Spark takes, and that is kept in this way."""
        while True:
            view = random_view(self.dice.randrange(10**9))
            if len(view.text) > LONGEST:
                continue
            if kind == "any":
                view = replace(view, keys=())  # mode `table` has none
            # most keys that chance gives do not tell rows apart
            elif view.keys and self.dice.random() < 0.8:
                view = replace(
                    view, text=f"SELECT DISTINCT * FROM ({view.text}) AS d", keys=()
                )
            plan = plan_view(view.text, INPUTS, view.keys)
            if kind != "any" and (plan.way != kind or plan.in_full or plan.problems):
                continue
            if (not reads or reads in _NAME.findall(view.text)) and self._is_spark(
                view.text
            ):
                return view

    def _is_spark(self, text: str) -> bool:
        whole = _NAME.sub(lambda found: self.project.table(found[1]), text)
        try:
            self.project.lake.session.sql(whole).schema  # noqa: B018
        except AnalysisException:
            return False
        return True

    # The oracle

    def made_of(self, name: str) -> dict[str, InputSnapshot] | None:
        """Of which snapshots a table is made, by its ledger; None where it has none."""
        if not self.project.has(name):
            return None
        metadata = self.project.iceberg(name).metadata
        by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
        tag, head = metadata.refs.get(ledger_tag(name)), metadata.current_snapshot_id
        while head in by_id and LEDGER_INPUTS not in _summary(by_id[head]):
            head = by_id[head].parent_snapshot_id
        found = by_id.get(head if head in by_id or tag is None else tag.snapshot_id)
        if found is None:
            return None
        inputs = read_inputs(_summary(found)[LEDGER_INPUTS])
        return {table_of(whole).name: each for whole, each in inputs.items()}

    def newest(self, name: str) -> dict[str, InputSnapshot]:
        """The snapshots that the tables which a model reads have now."""
        found = {}
        for each in self.tables_of(name):
            table = self.project.iceberg(each)
            found[each] = InputSnapshot(
                str(table.metadata.table_uuid), table.metadata.current_snapshot_id
            )
        return found

    def tables_of(self, name: str) -> set[str]:
        """The tables that a model reads, those behind views too."""
        return self._stored(self.models[name].reads)

    def _stored(self, names: Iterable[str]) -> set[str]:
        """The tables, and those behind views."""
        found: set[str] = set()
        for name in names:
            model = self.models.get(name)
            found |= (
                {name}
                if model is None or model.is_stored
                else self._stored(model.reads)
            )
        return found

    def answer(
        self, name: str, at: Mapping[str, InputSnapshot]
    ) -> tuple[list[str], Rows]:
        """The columns and the rows of a model's SELECT over these snapshots."""
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1")
            for each, snapshot in at.items():
                connection.register(f"o_{each}", self.rows_at(each, snapshot.snapshot))
            done = connection.execute(duck(self._inlined(self.models[name].text)))
            return [
                column[0].lower() for column in done.description or ()
            ], done.fetchall()

    def _inlined(self, text: str) -> str:
        def place(found: re.Match[str]) -> str:
            model = self.models.get(found[1])
            return (
                f"o_{found[1]}"
                if model is None or model.is_stored
                else f"({self._inlined(model.text)})"
            )

        return _NAME.sub(place, text)

    def rows_at(self, name: str, snapshot: int | None) -> pa.Table:
        """The rows of a table at a snapshot, as pyiceberg reads them."""
        scan = self.project.iceberg(name).scan(snapshot_id=snapshot)
        return (scan if snapshot is not None else scan.update(limit=0)).to_arrow()

    def rows(self, name: str, columns: list[str]) -> Rows:
        """The rows of a model as they are read now, of these columns."""
        table = self.project.lake.session.table(self.project.table(name)).toArrow()
        if self.models[name].is_stored:
            table = self.project.iceberg(name).scan().to_arrow()
        named = {each.lower(): each for each in table.column_names}
        return list(
            zip(
                *(table.column(named[each]).to_pylist() for each in columns),
                strict=True,
            )
        )

    def faults(self, name: str, *, is_newest: bool = True) -> list[str]:
        """What is wrong with a model's rows, after a run that has refreshed it; with
        `is_newest`, as of now."""
        model = self.models[name]
        at = self.newest(name)
        if model.is_stored:
            made_of = self.made_of(name)
            if made_of is None:
                return [f"{name}: no ledger says of what it is made"]
            if is_newest and {
                each: (it.table_id, it.snapshot) for each, it in made_of.items()
            } != {each: (it.table_id, it.snapshot) for each, it in at.items()}:
                return [f"{name}: it is made of {made_of}, and there is {at}"]
            at = made_of
        columns, right = self.answer(name, at)
        if model.mode == "scd2":
            return [
                f"{name}: {each}"
                for each in self.histories[name].faults(self, name, columns, right)
            ]
        found = self.rows(name, columns)
        if same(found, right):
            return []
        spelled, expected = (
            Counter(map(spelled_row, found)),
            Counter(map(spelled_row, right)),
        )
        lost, added = (
            [*(expected - spelled).elements()],
            [*(spelled - expected).elements()],
        )
        return [f"{name}: lacks {lost[:5]}, has {added[:5]} too many, by {model}"]

    def has_key_twice(self, name: str) -> bool:
        """Whether two rows of a model's SELECT have one key, as the tables are now."""
        columns, rows = self.answer(name, self.newest(name))
        places = [columns.index(key.lower()) for key in self.models[name].view.keys]
        counts = Counter(tuple(row[place] for place in places) for row in rows)
        return bool(places) and any(times > 1 for times in counts.values())


def _summary(snapshot: Snapshot) -> dict[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


class History:
    """The versions of each key that a history must have, by what its SELECT was at each
    refresh."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys
        self.versions: dict[Row, list[tuple[Row, bool]]] = {}

    def faults(
        self, views: RandomViews, name: str, columns: list[str], now: Rows
    ) -> list[str]:
        """Note the rows of a refresh, and say in which keys the table has other
        versions."""
        places = [columns.index(key.lower()) for key in self.keys]
        rows = {
            tuple(row[place] for place in places): row for row in map(spelled_row, now)
        }
        for key, known in self.versions.items():
            if known[-1][1] and rows.get(key) != known[-1][0]:
                known[-1] = (known[-1][0], False)
        for key, row in rows.items():
            known = self.versions.setdefault(key, [])
            if not known or not known[-1][1]:
                known.append((row, True))
        found: dict[Row, list[tuple[Row, bool]]] = {}
        table = views.rows(name, [*columns, "valid_from", "is_current"])
        for *values, _, is_current in sorted(table, key=lambda row: row[-2]):
            row = spelled_row(tuple(values))
            found.setdefault(tuple(row[place] for place in places), []).append(
                (row, is_current)
            )
        keys = {*found, *self.versions}
        return [
            f"{key} has the versions {found.get(key)}, and not {self.versions.get(key)}"
            for key in keys
            if found.get(key) != self.versions.get(key)
        ]
