"""Maintenance written by hand: which CALL statements maintain the table of which
model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial

from lakesql.decode import collect
from lakesql.errors import Problem, ProjectError, did_you_mean
from lakesql.model.maintenance_call import read_calls
from lakesql.model.maintenance_tasks import is_maintained
from lakesql.model.model import MaintenanceModel, Model, WrittenCall
from lakesql.project.profiles import Target
from lakesql.template.evaluate import Names
from lakesql.template.template import Macros, parse_template, render_template


def find_calls(
    files: Iterable[MaintenanceModel],
    models: Mapping[str, Model],
    unread: Collection[str],
    target: Target,
    variables: Mapping[str, object],
    macros: Macros,
    problems: list[Problem],
) -> dict[str, tuple[WrittenCall, ...]]:
    """The statements by the names of the models whose tables they maintain. Problems of
    the statements are added to `problems`.

    `unread` are models that could not be parsed: they count as existing. If the target
    has `maintenance: false`, files for models that do not set `maintenance` themselves
    are passed over.
    """
    found: dict[str, list[WrittenCall]] = {}
    for file in files:
        model = models.get(file.config.of)
        if model is None and file.config.of in unread:
            continue
        if model is None:
            problems.append(_unknown(file, models))
        elif model.config.maintenance.procedures or not _is_off(target):
            calls = (
                collect(
                    problems,
                    partial(_read_file, file, model, target, variables, macros),
                )
                or ()
            )
            problems.extend(_check(file, calls, model, found.get(model.name, [])))
            found.setdefault(model.name, []).extend(calls)
    return {name: tuple(calls) for name, calls in found.items()}


def _is_off(target: Target) -> bool:
    return target.maintenance is not None and target.maintenance.value is False


def _unknown(file: MaintenanceModel, models: Mapping[str, Model]) -> Problem:
    what = f"'{file.config.of}' is no model that writes a table."
    return Problem(
        "unknown-model",
        what,
        "",
        did_you_mean(file.config.of, models),
        file.option_place("of"),
    )


def _read_file(
    file: MaintenanceModel,
    model: Model,
    target: Target,
    variables: Mapping[str, object],
    macros: Macros,
) -> tuple[WrittenCall, ...]:
    problems = [
        Problem(
            "bad-call",
            f"A maintenance model of '{model.name}' reads nothing else.",
            fix=f"Write {{{{ this }}}} or {{{{ ref('{model.name}') }}}} for its table.",
            place=found.place,
        )
        for found in (
            *file.facts.streams,
            *(each for each in file.facts.refs if each.name != model.name),
        )
    ]
    if problems:
        raise ProjectError(problems)
    names = Names(
        stream=str,
        ref=lambda name: str(model.table),
        this=str(model.table),
        vars=variables,
        target={
            "name": target.name,
            "namespace": target.namespace,
            "catalog": target.catalog.name,
        },
        is_full_refresh=False,
    )
    template = file.facts.template or parse_template(file.path, file.source, macros)
    base = model.config.maintenance.procedures
    calls = read_calls(
        render_template(template, names), model.table, base, file.config.trigger
    )
    seen: Counter[str] = Counter()
    written = []
    for call in calls:
        seen[call.procedure] += 1
        suffix = f"_{seen[call.procedure]}" if seen[call.procedure] > 1 else ""
        name = f"{file.name}.{call.procedure}{suffix}"
        by_time = file.config.trigger is not None
        written.append(
            WrittenCall(
                name, file.name, call.procedure, call.options, by_time, call.place
            )
        )
    return tuple(written)


def _check(
    file: MaintenanceModel,
    calls: Iterable[WrittenCall],
    model: Model,
    earlier: Iterable[WrittenCall],
) -> Iterator[Problem]:
    """Problems of statements that contradict the model's own configuration, or repeat a
    procedure that another file calls."""
    own = model.config.maintenance.procedures
    taken = {call.procedure: call for call in earlier}
    for call in calls:
        if call.procedure not in own or not is_maintained(model):
            yield Problem(
                "maintenance-off",
                f"Model '{model.name}' says that {call.procedure} is not run on its table.",
                place=call.place,
            )
        elif (other := taken.get(call.procedure)) is not None:
            what = f"{call.procedure} of '{model.name}' is called at {other.place} already, in '{other.of}'."
            yield Problem("duplicate-procedure", what, place=call.place)
