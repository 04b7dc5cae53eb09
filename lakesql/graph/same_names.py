"""Names and tables that more than one model, stream or seed has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from lakesql.errors import Place, Problem
from lakesql.graph.members import AnyModel
from lakesql.model.model import Model
from lakesql.stream.stream import Stream

if TYPE_CHECKING:
    from lakesql.seed.seed import Seed


class HasName(Protocol):
    """Anything in a project that has a name and a place."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def place(self) -> Place:
        """The place where it is declared."""


def duplicate_name(what: str, item: HasName, first: Place) -> Problem:
    """The problem of an item whose name another one, declared at `first`, already has.
    `what` is its kind, for the message."""
    said = f"{what} '{item.name}' stands at {first} already."
    return Problem(
        "duplicate-name", said, "Capitals make no difference.", place=item.place
    )


def check_names(
    models: Iterable[Model], streams: Iterable[Stream]
) -> Iterable[Problem]:
    """Problems of models whose names differ from a stream's only in case: Spark could
    not distinguish them. The very same name is allowed."""
    spelled = {stream.name.lower(): stream for stream in streams}
    for model in models:
        stream = spelled.get(model.name.lower())
        if stream and stream.name != model.name:
            yield duplicate_name("A stream like model", model, stream.place)


def check_seed_names(
    seeds: Iterable[Seed], models: Iterable[AnyModel], streams: Iterable[Stream]
) -> Iterable[Problem]:
    """Problems of seeds with the name of a model, as `ref` could mean both, or with a
    name that differs from a stream's only in case."""
    named = {model.name.lower(): model for model in models}
    spelled = {stream.name.lower(): stream for stream in streams}
    for seed in seeds:
        model, stream = named.get(seed.name.lower()), spelled.get(seed.name.lower())
        if model is not None:
            yield duplicate_name("A model like seed", seed, model.place)
        if stream is not None and stream.name != seed.name:
            yield duplicate_name("A stream like seed", seed, stream.place)


def check_seed_tables(
    seeds: Iterable[Seed], models: Iterable[Model]
) -> Iterable[Problem]:
    """Problems of seeds whose table a model writes too, as its own table or as one
    beside it."""
    seeds = tuple(seeds)
    if not seeds:
        return
    owners = {
        str(table).lower(): model for model in models for table in model.table.family
    }
    for seed in seeds:
        model = owners.get(str(seed.table).lower())
        if model is not None and model.name.lower() != seed.name.lower():
            what = (
                f"Model '{model.name}' and seed '{seed.name}' both write {seed.table}."
            )
            yield Problem(
                "duplicate-table",
                what,
                "Capitals make no difference.",
                place=seed.place,
            )


def check_tables(models: Iterable[Model]) -> Iterable[Problem]:
    """Problems of models that write the same table, as their own or as one beside
    it."""
    owners: dict[str, str] = {}
    for model in models:
        tables = [str(table) for table in (model.table, *model.table.beside)]
        taken = next((table for table in tables if table.lower() in owners), None)
        if taken:
            what = f"Models '{owners[taken.lower()]}' and '{model.name}' both write {taken}."
            yield Problem(
                "duplicate-table",
                what,
                "Capitals make no difference.",
                place=model.option_place("table"),
            )
        for table in tables:
            owners.setdefault(table.lower(), model.name)
