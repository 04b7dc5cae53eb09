"""`lakesql build`: decides which tests belong to which model, and orders models so that
each is tested before the models that read it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from lakesql.errors import Problem, RunError
from lakesql.graph.graph import node_id
from lakesql.graph.manifest import Manifest
from lakesql.model.data_tests import DataTest
from lakesql.plan.data_test_results import TestResult
from lakesql.run.models import Order
from lakesql.run.seeds_first import SeedsFirst
from lakesql.run.test.run_data_tests import Engine
from lakesql.run.together import consistent_group
from lakesql.unit.outcomes import Result

NOT_REACHED = "the model did not get as far as its tests"


@dataclass(slots=True)
class Build:
    """The tests of a build, by model, and how they have ended so far.

    `units` are the results of each model's unit tests; a model runs only if they pass.
    A data test over several models belongs to the last of them in the order. `loose`
    are tests of no model in the build, and `seeds` holds the tests of seeds alone.
    `ran` are the models whose batches have succeeded, whatever the result of their data
    tests. `unit_results` are those of models that were reached.
    """

    manifest: Manifest
    engine: Engine
    units: Mapping[str, tuple[Result, ...]]
    owned: Mapping[str, tuple[DataTest, ...]]
    order: Order
    loose: tuple[DataTest, ...]
    seeds: SeedsFirst
    ran: set[str] = field(default_factory=set)
    results: dict[str, TestResult] = field(default_factory=dict)
    unit_results: dict[str, tuple[Result, ...]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def all_results(self) -> list[TestResult]:
        """The results of all data tests of the build; tests that were not reached are
        skipped."""
        tests = [test for name in self.owned for test in self.owned[name]]
        reached = [
            self.results.get(it.name) or TestResult(it, "skipped", message=NOT_REACHED)
            for it in tests
        ]
        return [*self.seeds.all_results(), *reached]


def _check_groups(manifest: Manifest, names: Sequence[str]) -> None:
    """Raise `RunError` (`group-build`) for groups whose tables change together: a test
    between two of their models would block the others."""
    groups = {
        group.name: group
        for name in names
        if (group := consistent_group(manifest, name)) is not None
    }
    problems = [
        Problem(
            "group-build",
            f"The tables of group '{group.name}' change together, and `lakesql build` tests one before the others.",
            "",
            f"Run the group, and test it then: lakesql run --select {group.name}; lakesql test --select {group.name}",
            group.place,
        )
        for group in groups.values()
    ]
    if problems:
        raise RunError(problems)


def plan_build(
    manifest: Manifest,
    names: Sequence[str],
    tests: Sequence[DataTest],
    units: Sequence[Result],
    engine: Engine,
    seeds: Sequence[str] = (),
    is_full_refresh: bool = False,
) -> Build:
    """Assign the tests to the models `names` and fix the order of these, with the tests
    of `seeds` before them.

    Whatever reads a model of a test waits for the test, unless the test itself has to
    wait for that reader. `units` are the results of unit tests that have already run.
    """
    _check_groups(manifest, names)
    graph = manifest.graph
    ids = graph.predecessors_within(node_id("model", name) for name in names)
    waits = {
        name: {read.split(".", 1)[1] for read in ids[node_id("model", name)]}
        for name in names
    }
    read = {name: frozenset(others) for name, others in waits.items()}
    after: dict[str, frozenset[str]] = {}
    owned: dict[str, list[DataTest]] = {name: [] for name in names}
    loose: list[DataTest] = []
    of_seeds = [
        test for test in tests if test.seeds and test.seeds.issuperset(test.depends_on)
    ]
    first = SeedsFirst(manifest, tuple(seeds), tuple(of_seeds), engine, is_full_refresh)
    for test in (test for test in tests if test not in of_seeds):
        tested = [name for name in test.depends_on if name in waits]
        if not tested:
            loose.append(test)
            continue
        order = (
            [*TopologicalSorter(waits).static_order()] if len(tested) > 1 else tested
        )
        owner = max(tested, key=order.index)
        owned[owner].append(test)
        if len(tested) == 1:
            continue
        after[owner] = after.get(owner, frozenset()) | (
            {*tested} - {owner} - read[owner]
        )
        waits[owner] |= {*tested} - {owner}
        before = _all_before(owner, waits)
        for reader in graph.downstream(node_id("model", name) for name in tested):
            name = reader.split(".", 1)[1]
            if name in waits and name != owner and name not in before:
                waits[name].add(owner)
    return Build(
        manifest=manifest,
        engine=engine,
        units={
            name: tuple(result for result in units if result.test.model == name)
            for name in names
        },
        owned={name: tuple(found) for name, found in owned.items()},
        order=Order(
            {
                name: frozenset(waits[name] - read[name] - after.get(name, frozenset()))
                for name in names
            },
            after,
        ),
        loose=tuple(loose),
        seeds=first,
    )


def _all_before(name: str, waits: Mapping[str, set[str]]) -> frozenset[str]:
    """All models that a model waits for, directly or through others."""
    found: set[str] = set()
    left = [name]
    while left:
        fresh = waits[left.pop()] - found
        found |= fresh
        left.extend(fresh)
    return frozenset(found)
