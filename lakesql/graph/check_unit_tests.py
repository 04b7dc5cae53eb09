"""Whether the names in unit tests exist, and whether each test writes a batch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from lakesql.errors import Place, Problem, did_you_mean
from lakesql.model.model import Model
from lakesql.model.unit_tests import Given, GivenRef, GivenStream, GivenTable, UnitTest
from lakesql.stream.stream import Stream


def check_unit_tests(
    tests: Iterable[UnitTest],
    models: Mapping[str, Model],
    streams: Mapping[str, Stream],
    model_names: Collection[str],
    all_declared: bool,
) -> Iterable[Problem]:
    """Problems of unit tests: names that do not exist or that the model does not read,
    inputs that are given twice, and tests that write no batch.

    `model_names` includes models that could not be parsed. If not `all_declared`, some
    streams could not be parsed, and unknown ones are no problem.
    """
    first: dict[tuple[str, str], Place] = {}
    for test in tests:
        if earlier := first.get((test.model, test.name)):
            what = f"Unit test '{test.name}' of model '{test.model}' stands at {earlier} already."
            yield Problem("duplicate-name", what, place=test.place)
        first.setdefault((test.model, test.name), test.place)
        model = models.get(test.model)
        if model is None:
            if test.model not in model_names:
                hint = did_you_mean(test.model, model_names)
                yield Problem(
                    "unknown-model",
                    f"There is no model '{test.model}'.",
                    "",
                    hint,
                    test.place,
                )
            continue
        read_streams, read_models = (
            {it.name for it in found}
            for found in (model.facts.streams, model.facts.refs)
        )
        seen: set[tuple[str, str]] = set()
        for given in test.given:
            match given:
                case GivenTable():
                    key, known, condition = ("table", "this"), {"this"}, "unknown-model"
                case GivenStream(stream=name):
                    key, known, condition = (
                        ("stream", name),
                        read_streams,
                        "unknown-stream",
                    )
                case GivenRef(ref=name):
                    key, known, condition = ("ref", name), read_models, "unknown-ref"
            kind, name = key
            if name not in known and (all_declared or kind == "ref"):
                what = f"Model '{test.model}' does not read {kind} '{name}'."
                yield Problem(
                    condition, what, "", did_you_mean(name, known), given.place
                )
            if key in seen:
                what = f"{kind} '{name}' is given twice."
                yield Problem(
                    "duplicate-name",
                    what,
                    "",
                    "Put all of it into one entry.",
                    given.place,
                )
            seen.add(key)
        if read_streams and not any(map(_has_records, test.given)):
            what = f"Unit test '{test.name}' gives no record: model '{test.model}' writes no batch in it."
            yield Problem("no-records", what, place=test.place)
        if (
            test.expect.tombstones is not None
            and "tombstones" not in model.config.memories
        ):
            what = f"Model '{test.model}' remembers no deleted keys."
            fix = "Leave `tombstones` out. Modes upsert and cdc remember them where they have `sequence_by`."
            yield Problem("wrong-value", what, "", fix, test.expect.tombstones.place)
        overridden = test.overrides.vars
        for name in overridden.entries() if overridden else ():
            if overridden and name not in model.facts.vars:
                what = f"Model '{test.model}' reads no variable '{name}'."
                yield Problem(
                    "wrong-value",
                    what,
                    "",
                    did_you_mean(name, model.facts.vars),
                    overridden.key_place(name),
                )


def _has_records(given: Given) -> bool:
    """Whether an input has a record in one of its batches. Contents of fixture files
    are not read: a file counts as having some."""
    return isinstance(given, GivenStream) and any(
        batch.value for batch in given.batches
    )
