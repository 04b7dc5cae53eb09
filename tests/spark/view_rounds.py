"""Rounds of changes, each with a refresh of random views, after which each must be what
`random_views` says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from random import Random

from lakesql.errors import render_problem
from lakesql.events import BatchCommitted, Noted
from tests.spark.project import Project, Ran
from tests.spark.random_inputs import (
    Writer,
    expire_by_hand,
    expire_by_lakesql,
    make_inputs,
    rewrite,
)
from tests.spark.random_views import RandomViews, ViewModel
from tests.views.random_selects import Column, View

STEPS = ("look-up", "stage", "publish", "finish")

MODELS = (
    "by_key",
    "wanted",
    "whole",
    "shown",
    "over_shown",
    "chained",
    "chained_twice",
    "history",
)
"""What a project has beside `figures`, the view by difference that others read."""


def over(model: ViewModel, dice: Random, name: str) -> ViewModel:
    """A view of groups of another model's rows."""
    columns = model.view.columns
    by, other = dice.choice(columns), dice.choice(columns)
    grouped = f"b.{by.name}"
    text = f"SELECT {grouped} AS g0, count(*) AS a0, max(b.{other.name}) AS a1 FROM lake.shop.{model.name} b"
    made = (Column("g0", by.kind), Column("a0", "int"), Column("a1", other.kind))
    return ViewModel(
        name, "materialized_view", View(f"{text} GROUP BY {grouped}", (), made, ("g0",))
    )


def add_models(
    views: RandomViews, dice: Random, names: Collection[str], of_figures: View | None
) -> None:
    """Models of all modes over tables: `figures`, of a random SELECT if none is given,
    and those of `MODELS` named."""
    figures = views.add(
        ViewModel(
            "figures", "materialized_view", of_figures or views.pick("difference")
        )
    )
    if "by_key" in names:
        views.add(ViewModel("by_key", "materialized_view", views.pick("key")))
    if "wanted" in names:
        asked = {"refresh": "incremental"}
        views.add(
            ViewModel(
                "wanted",
                "materialized_view",
                views.pick(dice.choice(("key", "difference"))),
                asked,
            )
        )
    if "whole" in names:
        views.add(ViewModel("whole", "table", views.pick("any")))
    if names & {"shown", "over_shown"}:
        shown = "SELECT b.id, b.cust, b.amount, b.region FROM lake.shop.orders b WHERE b.amount IS NULL OR b.amount < 4"
        views.add(ViewModel("shown", "view", View(shown, ())))
    if "over_shown" in names:
        view = views.pick("difference", "orders")
        text = view.text.replace("lake.shop.orders", "lake.shop.shown")
        views.add(
            ViewModel(
                "over_shown",
                "materialized_view",
                View(text, (), view.columns, view.group),
            )
        )
    if names & {"chained", "chained_twice"}:
        chained = views.add(over(figures, dice, "chained"))
        if "chained_twice" in names:
            views.add(over(chained, dice, "chained_twice"))
    if "history" in names:
        view = views.pick("difference")
        if view.group:
            views.add(ViewModel("history", "scd2", view, {"keys": [*view.group]}))


@dataclass
class Rounds:
    """A project whose tables change by chance. `faults` are what was wrong after a
    refresh, `done` what was done, and `taken` the tables of which somebody has taken
    away what views need, since these were refreshed."""

    project: Project
    seed: int
    models: Sequence[str] | None = None
    writers: Sequence[Writer] = ()
    figures: View | None = None
    faults: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.dice = Random(f"rounds {self.seed}")
        self.inputs = make_inputs(self.project, self.dice, self.writers)
        self.views = RandomViews(self.project, self.inputs, self.dice)
        models = self.dice.sample(MODELS, 4) if self.models is None else self.models
        add_models(self.views, self.dice, {*models}, self.figures)

    @property
    def exchanged(self) -> list[str]:
        """The models that have rows, but for histories."""
        return [
            name
            for name, model in self.views.models.items()
            if model.is_stored and model.mode != "scd2"
        ]

    @property
    def stored(self) -> list[str]:
        """The models that have a table."""
        return [name for name, model in self.views.models.items() if model.is_stored]

    # Rounds

    def play(self, rounds: int) -> list[str]:
        """So many rounds, with what happens to tables beside changes of rows; what was
        wrong."""
        self.refresh()
        for _ in range(rounds):
            self.change()
            if self.faults:
                break
            self.dice.choice(self.events())()
            self.refresh()
            if self.dice.random() < 0.2:
                self.refresh_again()
        return self.faults

    def play_changes(self, rounds: int) -> list[str]:
        """So many rounds with changes of rows alone, of all inputs and of views; what
        was wrong."""
        self.refresh()
        for number in range(rounds):
            self.change_all()
            if number % 2:
                self.touch_view()
            self.refresh()
            if self.faults:
                break
        return self.faults

    def change(self) -> None:
        """Several commits, with rewrites between."""
        for _ in range(self.dice.randrange(4)):
            one = self.dice.choice([*self.inputs.values()])
            if self.dice.random() < 0.25:
                self.note(f"rewrite {one.name}")
                rewrite(self.project, one.name, self.dice)
            else:
                self.note(f"change {one.name}")
                one.change()

    def note(self, what: str) -> None:
        self.done.append(what)

    # What else happens before a refresh

    def events(self) -> Sequence[Callable[[], None]]:
        return (
            self.expire_by_lakesql,
            self.expire_by_lakesql,
            self.expire_by_hand,
            self.roll_back,
            self.recreate,
            self.rebuild_input,
            self.rebuild_view,
            self.change_select,
            self.touch_view,
            self.rewrite_view,
            self.break_off,
            self.upgrade,
        )

    def expire_by_lakesql(self) -> None:
        own = [name for name, one in self.inputs.items() if one.is_own] + self.exchanged
        for name in self.dice.sample(own, min(3, len(own))):
            self.note(f"expire {name}: {expire_by_lakesql(self.project, name)}")

    def expire_by_hand(self) -> None:
        name = self.dice.choice([*self.inputs, *self.exchanged])
        self.note(f"expire {name} by hand")
        expire_by_hand(self.project, name)
        self.taken.add(name)

    def roll_back(self) -> None:
        """By hand: a table of lakesql's own, which its model would refuse then, comes
        back after a refresh."""
        one = self.dice.choice([*self.inputs.values()])
        head, earlier = one.newest(), one.earlier()
        if head is None or earlier is None:
            return
        self.note(f"roll back {one.name}")
        one.roll_back(earlier)
        self.taken.add(one.name)
        if one.is_own:
            self.refresh()
            one.set_current(head)

    def recreate(self) -> None:
        """By hand: the table is gone, perhaps for so long that a run misses it, and
        then it is another one."""
        foreign = [one for one in self.inputs.values() if not one.is_own]
        if not foreign:
            return
        one = self.dice.choice(foreign)
        self.note(f"recreate {one.name}")
        one.drop()
        if self.dice.random() < 0.5:
            self.refresh()
        one.create_again()
        self.taken.add(one.name)

    def rebuild_input(self) -> None:
        own = [name for name, one in self.inputs.items() if one.is_own]
        if own:
            name = self.dice.choice(own)
            self.note(f"rebuild {name}")
            self.project.rebuild(name).check()

    def rebuild_view(self) -> None:
        name = self.dice.choice(self.exchanged)
        self.note(f"rebuild {name}")
        self.project.rebuild(name)

    def change_all(self) -> None:
        """Rows of every input."""
        for one in self.inputs.values():
            self.note(f"change {one.name}")
            one.change()

    def change_select(self) -> None:
        """Another SELECT of a view, over the same tables or others."""
        free = [
            name for name in ("by_key", "wanted", "whole") if name in self.views.models
        ]
        if not free:
            return
        model = self.views.models[self.dice.choice(free)]
        self.note(f"change {model.name}")
        kind = (
            "any" if model.mode == "table" else self.dice.choice(("key", "difference"))
        )
        self.views.add(
            ViewModel(model.name, model.mode, self.views.pick(kind), model.more)
        )

    def touch_view(self) -> None:
        """Somebody else changes rows of a view."""
        name = self.dice.choice(self.exchanged)
        if not self.project.has(name):
            return
        self.note(f"touch {name}")
        table = self.project.table(name)
        statement = self.dice.choice(
            (f"DELETE FROM {table}", f"INSERT INTO {table} SELECT * FROM {table}")
        )
        self.project.sql(statement)
        self.touched.add(name)
        if self.dice.random() < 0.5:  # so that no snapshot says it any more
            rewrite(self.project, name, self.dice)
            expire_by_hand(self.project, name)
            self.taken.add(name)

    def rewrite_view(self) -> None:
        name = self.dice.choice(self.exchanged)
        if self.project.has(name):
            self.note(f"rewrite {name}")
            rewrite(self.project, name, self.dice)
            if self.dice.random() < 0.3:
                expire_by_hand(self.project, name)
                self.taken.add(name)
                # of two rewrites one has expired, which might have been a change
                self.touched.add(name)

    def break_off(self) -> None:
        """A refresh that dies at a step."""
        name, step = self.dice.choice(self.exchanged), self.dice.choice(STEPS)
        self.note(f"break off {name} at {step}")

        def stop(model: str, reached: str) -> None:
            if (model, reached) == (name, step):
                raise KeyboardInterrupt(step)

        self.project.run(*self.views.models, reached=stop)

    def upgrade(self) -> None:
        one = self.dice.choice([*self.inputs.values()])
        self.note(f"upgrade {one.name}")
        one.sql(f"ALTER TABLE {one.table} SET TBLPROPERTIES ('format-version' = '3')")

    # A refresh

    def refresh(self) -> None:
        """Run all models over tables, and note what is wrong then; what is refused for
        a good reason is rebuilt."""
        self.note("refresh")
        ran = self.project.run(*self.views.models)
        self.look(ran)
        refused = [
            name
            for name in self.views.models
            if self.conditions(ran, name) == ["input-expired"]
        ]
        for name in refused:
            self.note(f"rebuild {name}")
            self.project.rebuild(name)
        if refused:
            self.look(self.project.run(*self.views.models))
        self.taken.clear()
        self.touched.clear()

    def refresh_again(self) -> None:
        """A run with nothing new writes nothing."""
        ran = self.project.run(*self.views.models)
        self.faults += [
            f"{event.model}: written, though nothing is new"
            for event in ran.of(BatchCommitted)
        ]

    @staticmethod
    def conditions(ran: Ran, name: str) -> list[str]:
        return ran.conditions(name)

    def look(self, ran: Ran) -> None:
        """Note what is wrong after a run."""
        for name in self.views.models:
            self.faults += self._faults(ran, name)
        lost = {
            event.model
            for event in ran.of(Noted)
            if event.text.startswith("all rows are made anew")
        }
        for name in sorted(lost):
            if not self._may_be_anew(name, ran):
                notes = [event.text for event in ran.of(Noted, name)]
                self.faults.append(f"{name}: {notes}")
        left = {
            name
            for name in self.project.table_names()
            if name.startswith("_lakesql") or "__rebuild" in name
        }
        self.faults += [f"{name} is left" for name in sorted(left)]

    def _may_be_anew(self, name: str, ran: Ran) -> bool:
        """Whether what was taken away is a reason to make all rows of a view anew."""
        reads = self.views.tables_of(name)
        gone = any(
            "is gone" in event.text or "is another table" in event.text
            for event in ran.of(Noted, name)
        )
        if gone:
            return bool(reads & self.taken)
        if any("somebody else" in event.text for event in ran.of(Noted, name)):
            return name in self.touched
        return True

    def _faults(self, ran: Ran, name: str) -> list[str]:
        finished = ran.finished(name)
        if finished.status == "success":
            if self.views.models[name].view.keys and self.views.has_key_twice(name):
                return [f"{name}: two rows have one key, and nobody says so"]
            return self.views.faults(name)
        if finished.status == "skipped":
            return []  # what it reads has failed, which is looked at by itself
        (condition,) = self.conditions(ran, name)
        match condition:
            case "view-keys-twice" if self.views.has_key_twice(name):
                return []
            case "input-expired" if self.views.tables_of(name) & self.taken:
                return []
            case "table-missing" if not all(
                map(self.project.has, self.views.tables_of(name))
            ):
                return []
        return [f"{name}: {render_problem(problem)}" for problem in finished.problems]
