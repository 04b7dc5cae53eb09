"""Contradictions between how a table is maintained, its sort order, and the models that
stream it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from lakesql.errors import Problem, quoted
from lakesql.model.config import Every
from lakesql.model.maintenance_tasks import MaintenanceTask, own_tasks, said_at
from lakesql.model.model import Model
from lakesql.model.retention import replaced_options
from lakesql.project.procedures import (
    LEAST_EXPIRY_MS,
    ExpireSnapshots,
    RemoveOrphanFiles,
    RewriteDataFiles,
    asks_for_order,
    blunt_options,
)


def check_maintenance(
    models: Mapping[str, Model], streams: Collection[str]
) -> Iterable[Problem]:
    """Problems of maintenance: sorting without an order, retention that Iceberg's
    properties set too, and snapshots that expire before a model that streams the table
    reads them."""
    for model in models.values():
        tasks = own_tasks(model)
        is_ordered = model.config.order_by or model.config.default_order
        for task in tasks:
            match task.options:
                case RewriteDataFiles(sort_order="") as options if (
                    not is_ordered and asks_for_order(options)
                ):
                    what = f"The table of model '{model.name}' has no order by which files could be sorted."
                    fix = "Give a sort_order, or order_by of the model."
                    yield Problem("wrong-value", what, "", fix, said_at(model, task))
                case _:
                    pass
        yield from _check_retention(model, tasks)
        for found in model.facts.streams:
            read = None if found.name in streams else models.get(found.name)
            if read is None or not isinstance(model.trigger, Every):
                continue
            for task in own_tasks(read):
                expiry = task.options
                if not isinstance(expiry, ExpireSnapshots):
                    continue
                after, after_ms = expiry.older_than.text, expiry.older_than.length_ms
                if isinstance(read.trigger, Every) and expiry.most is not None:
                    most_ms = max(
                        LEAST_EXPIRY_MS, expiry.most * read.trigger.interval_ms
                    )
                    if most_ms < after_ms:
                        after, after_ms = (
                            f"{expiry.most:,} batches of {read.trigger.text}",
                            most_ms,
                        )
                if model.trigger.interval_ms >= after_ms:
                    yield Problem(
                        "unsafe-maintenance",
                        f"Snapshots of '{read.name}' expire after {after}, and model '{model.name}', "
                        f"which streams its table, takes a batch every {model.trigger.text}.",
                        place=said_at(read, task),
                    )


def _check_retention(
    model: Model, tasks: Iterable[MaintenanceTask]
) -> Iterable[Problem]:
    """Problems of Iceberg's own retention properties, which duplicate options of
    `expire_snapshots`, if lakesql expires the snapshots."""
    if not any(isinstance(task.options, ExpireSnapshots) for task in tasks):
        return
    for key, option in replaced_options(model.config.properties):
        yield Problem(
            "retention-property",
            f"Model '{model.name}' gives its table the property '{key}', and lakesql expires its snapshots.",
            "An expiry by lakesql says by itself how long snapshots are kept, and Iceberg goes by that.",
            f"Write maintenance={{'expire_snapshots': {{{option}}}}} in its place.",
            model.option_place("properties"),
        )


def find_blunt(models: Iterable[Model]) -> Iterable[Problem]:
    """Warnings of options that compare the paths of files less exactly, so that files
    of a table may be taken for orphans."""
    for model in models:
        said = [
            model.config.maintenance.remove_orphan_files,
            *(call.options for call in model.calls),
        ]
        if not any(
            isinstance(options, RemoveOrphanFiles) and blunt_options(options)
            for options in said
        ):
            continue
        for task in own_tasks(model):
            if not isinstance(task.options, RemoveOrphanFiles):
                continue
            blunt = blunt_options(task.options)
            if blunt:
                what = f"Orphans of model '{model.name}' are told apart less exactly, by {quoted(blunt)}."
                why = "Where the option is wrong, files that the table has are taken for orphans, and deleted."
                fix = "Leave it out, if every file of the table is named by one scheme and one host."
                yield Problem("blunt-deletion", what, why, fix, said_at(model, task))
