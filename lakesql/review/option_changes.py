"""What changed options and properties of a model mean for its table and its query.
Parsed values are compared, not their texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, assert_never

from lakesql.decode import Node
from lakesql.errors import Place
from lakesql.model.model import WrittenCall
from lakesql.model.option_effects import OF_ALL_MODES, Compared
from lakesql.modes.batches.all_batches import batches_of
from lakesql.project.duration import Duration
from lakesql.project.profiles import Target
from lakesql.project.size import Size
from lakesql.review.causes import (
    ModelVersions,
    changed_option_place,
    properties_place,
    target_place,
)
from lakesql.review.verdicts import Reason, Verdict
from lakesql.select.differences import is_same_expression

JUDGED_ELSEWHERE = frozenset(
    {"namespace", "table", "partition_by", "order_by", "properties", "keys", "trigger"}
)
"""Options whose changes are judged elsewhere: by comparing the table, the checkpoint or
the trigger."""


def find_option_changes(change: ModelVersions) -> Iterator[Reason]:
    """A reason for each option, property or setting of the target with another value.
    If the mode has changed, only options that both modes have are compared."""
    before, after, model = change.before.model.config, change.model.config, change.model
    effects = {**OF_ALL_MODES, **after.own_effects}
    had_before = {field.name for field in fields(before)}
    for option in sorted(effects.keys() & had_before):
        effect = effects[option]
        if _is_same(effect.compared, getattr(before, option), getattr(after, option)):
            continue
        place, verdict = changed_option_place(change, option), effect.verdict
        yield Reason(
            verdict,
            effect.condition,
            _say(option, verdict),
            place,
            _do(verdict, model.name),
        )
    if resolved(change.before.model.trigger) != resolved(model.trigger):
        was, now = _trigger(change.before.model.trigger), _trigger(model.trigger)
        what = f"A continuous run takes a batch {now}, and not {was}."
        yield Reason(
            "next-batch",
            "option-changed",
            what,
            changed_option_place(change, "trigger"),
        )
    yield from _key_changes(change)
    yield from _call_changes(change)
    yield from _property_changes(change)
    yield from _target_changes(change)


def sql_settings(target: Target) -> Mapping[str, str]:
    """The settings of a target's Spark that may change the rows that a SELECT
    computes."""
    return {
        key: value
        for key, value in target.spark.conf.items()
        if key.startswith("spark.sql.")
    }


def resolved(value: Any) -> Any:
    """An option's value in a form that can be compared: intervals in milliseconds,
    sizes in bytes, without places in files."""
    match value:
        case Place():
            return None
        case Node():
            return value.plain()
        case Duration(length_ms=length_ms):
            return length_ms
        case Size(size_bytes=size_bytes):
            return size_bytes
        case Mapping():
            return {key: resolved(item) for key, item in value.items()}
        case tuple() | list():
            return tuple(map(resolved, value))
    if is_dataclass(value) and not isinstance(value, type):
        if hasattr(value, "interval_ms"):
            return value.interval_ms
        compared = {
            it.name: resolved(getattr(value, it.name))
            for it in fields(value)
            if it.compare
        }
        return (type(value).__name__, compared)
    return value


def _is_same(compared: Compared, before: Any, after: Any) -> bool:
    match compared:
        case "expressions":
            return is_same_expression(before, after)
        case "columns in order":
            return _folded(before) == _folded(after)
        case "columns":
            if before is None or after is None:
                return before is after
            return set(_folded(before)) == set(_folded(after))
        case "words":
            return set(before) == set(after)
        case "values":
            return bool(resolved(before) == resolved(after))
        case _:
            assert_never(compared)


def _folded(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        name.casefold() for name in ((names,) if isinstance(names, str) else names)
    )


def _say(option: str, verdict: Verdict) -> str:
    match verdict:
        case "docs":
            return f"{option} is other than before."
        case "rebuild":
            return f"{option} is other than before: rows that are in the table were written by the former one."
        case _:
            return f"{option} is other than before, from the next batch on."


def _do(verdict: Verdict, model: str) -> str:
    return (
        f"To fill the table again from what the streams have: lakesql rebuild {model}"
        if verdict == "rebuild"
        else ""
    )


def _trigger(trigger: object) -> str:
    text = getattr(trigger, "text", None)
    return f"every {text}" if text else "of what is there"


def _expectation_changes(change: ModelVersions) -> Iterator[Reason]:
    """A reason for each expectation that is added, removed or changed: from the next
    batch on, rows are checked by the new ones."""
    before, after = (
        {check.name: check for check in select.checks}
        for select in (change.before, change.after)
    )
    for name, check in after.items():
        was = before.get(name)
        if was is None:
            what = f"'{name}' is expected of rows, from the next batch on."
        elif (was.condition, was.on_fail) != (check.condition, check.on_fail):
            what = f"What is expected as '{name}' is other than before, from the next batch on."
        else:
            continue
        if check.on_fail == "stop":
            what += " A batch that fails it stops the model."
        yield Reason("next-batch", "expectation-changed", what, check.place)
    for name in sorted(before.keys() - after.keys()):
        what = f"'{name}' is not expected of rows any more, from the next batch on."
        yield Reason(
            "next-batch",
            "expectation-changed",
            what,
            properties_place(change.new, change.model, "expect"),
        )


def _target_changes(change: ModelVersions) -> Iterator[Reason]:
    """The reasons for changes of the Spark settings that affect a SELECT's rows, and of
    where new tables are created."""
    targets = [version.manifest.target for version in (change.old, change.new)]
    was, now = map(sql_settings, targets)
    keys = [
        key for key in sorted(was.keys() | now.keys()) if was.get(key) != now.get(key)
    ]
    if keys:
        what = (
            f"Other settings of Spark count from the next batch on ({', '.join(keys)}): the SELECT may make other rows "
            "by them. Rows that are in the table stay as they were."
        )
        yield Reason(
            "next-batch",
            "option-changed",
            what,
            target_place(change.new, "spark", "conf", keys[0]),
        )
    if (
        change.is_same_table
        and targets[0].catalog.warehouse != targets[1].catalog.warehouse
    ):
        what = "New tables lie in another warehouse. The table stays where it is, and so do its files."
        yield Reason(
            "none",
            "option-changed",
            what,
            target_place(change.new, "catalog", "warehouse"),
        )


def _key_changes(change: ModelVersions) -> Iterator[Reason]:
    """The reason for changed keys of a model whose batches only insert: the ledger does
    not record such keys, and the rows in the table were deduplicated by the former
    ones."""
    before, after = change.before.writing, change.after.writing
    if (
        before.mode != after.mode
        or batches_of(change.before).identity
        or batches_of(change.after).identity
    ):
        return
    if not _is_same("columns", before.keys, after.keys):
        what = "keys are other than before: rows that are in the table were told apart by the former ones."
        place = changed_option_place(change, "keys")
        yield Reason(
            "rebuild", "option-changed", what, place, _do("rebuild", change.model.name)
        )


def _call_changes(change: ModelVersions) -> Iterator[Reason]:
    """The reasons for CALL statements of maintenance models that were added, removed or
    changed."""
    before = {call.name: call for call in change.before.model.calls}
    after = {call.name: call for call in change.model.calls}
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was is None and now is not None:
            what = f"{name} takes the place of the appended {now.procedure}, from the next batch on."
        elif was is not None and now is None:
            what = f"{name} is gone: the appended {was.procedure} is back, from the next batch on."
        elif was is not None and now is not None and _call(was) != _call(now):
            what = f"{name} is other than before, from the next batch on."
        else:
            continue
        yield Reason(
            "next-batch",
            "option-changed",
            what,
            now.place if now is not None else change.model.place,
        )


def _call(call: WrittenCall) -> Any:
    return (call.procedure, resolved(call.options), call.is_by_time)


def _property_changes(change: ModelVersions) -> Iterator[Reason]:
    before, after = change.before.model.properties, change.model.properties
    if before.description != after.description:
        place = properties_place(change.new, change.model, "description")
        yield Reason(
            "docs",
            "description-changed",
            "The description of the table is another one.",
            place,
        )
    tests = [resolved((*each.tests, *each.data_tests)) for each in (before, after)]
    if tests[0] != tests[1]:
        place = properties_place(
            change.new, change.model, "data_tests" if after.data_tests else "tests"
        )
        yield Reason(
            "docs",
            "description-changed",
            "Other tests hold the table to what it is to be.",
            place,
        )
    columns = [
        {it.name.lower(): replace(it, expect=()) for it in each.columns}
        for each in (before, after)
    ]
    for key in sorted(columns[0].keys() | columns[1].keys()):
        if resolved(columns[0].get(key)) != resolved(columns[1].get(key)):
            name = (columns[1].get(key) or columns[0][key]).name
            place = properties_place(change.new, change.model, "columns", name)
            yield Reason(
                "docs",
                "description-changed",
                f"What is said of column '{name}' is other than before.",
                place,
            )
    yield from _expectation_changes(change)
    if resolved(before.freshness) != resolved(after.freshness):
        place = properties_place(change.new, change.model, "freshness")
        yield Reason(
            "next-batch",
            "freshness-changed",
            "lakesql freshness holds the table to other limits.",
            place,
        )
