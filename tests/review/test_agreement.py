"""What a plan supposes of a run is what a run does: the engine's own functions are
asked about every case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from lakesql.cli.review import load_new
from lakesql.conditions import CONDITIONS
from lakesql.decode import fields_of
from lakesql.errors import ProjectError, RunError
from lakesql.model.config import TableConfig
from lakesql.model.option_effects import OF_ALL_MODES
from lakesql.modes.all_modes import MODES
from lakesql.plan.steps import plan_table
from lakesql.progress.decide import decide
from lakesql.progress.state import Resume, query_identities
from lakesql.project.files import read_project
from lakesql.review.causes import ModelVersions, find_change
from lakesql.review.compare import find_unchanged
from lakesql.review.continuation import find_refusals, old_progress
from lakesql.review.option_changes import JUDGED_ELSEWHERE
from lakesql.review.table_changes import find_table_changes, former_table, table_specs
from lakesql.review.verdicts import CAUSES
from tests.review.corpus import CASES, apply, case_name, parse_case


def changes(path: Path, project: Path) -> Iterator[ModelVersions]:
    """The models of a case that can be compared."""
    case = parse_case(path.read_text("utf-8"))
    options = case.options(project)
    old = load_new(options, read_project(project))
    for name, edit in case.edits.items():
        apply(edit, project / name)
    try:
        new = load_new(options, read_project(project))
    except ProjectError:
        return
    unchanged = find_unchanged(old, new)
    for name in new.manifest.models.keys() - unchanged:
        change = find_change(old, new, name)
        if change is not None and name not in old.problems and name not in new.problems:
            yield change


@pytest.mark.parametrize("path", CASES, ids=case_name)
def test_a_plan_says_what_a_run_decides(path: Path, project: Path) -> None:
    for change in changes(path, project):
        check_progress(change)
        check_table(change)


def check_progress(change: ModelVersions) -> None:
    """The engine is asked about what it will meet, and its refusal is the plan's."""
    state = old_progress(change)
    folder = change.new.manifest.target.checkpoint_of(change.model.name)
    now = query_identities(change.after, folder)[0]
    assert (state.model, state.owner, state.folder) == (
        now.model,
        now.owner,
        now.folder,
    )
    assert (state.shape, state.mode, state.keys) == (now.shape, now.mode, now.keys)
    assert (state.unique_by, state.deletes) == (now.unique_by, now.deletes)
    was = query_identities(change.before, folder)[0]
    if state.entry is not None:
        assert (state.entry.state, state.entry.mode, state.entry.keys) == (
            was.shape,
            was.mode,
            was.keys,
        )
        assert state.entry.deletes == was.deletes
    said = [it for it in find_refusals(change) if it.condition in CONDITIONS]
    try:
        decision = decide(state)
    except RunError as error:
        assert said[0].condition == error.problems[0].condition
        is_filled = "lakesql rebuild" in error.problems[0].fix
        by_filling = is_filled and said[0].condition in (
            "mode-changed",
            "keys-changed",
            "state-changed",
        )
        assert said[0].verdict == ("rebuild" if by_filling else "breaks")
        assert error.problems[0].fix in said[0].do
    else:
        assert isinstance(decision, Resume) or state.checkpoint is None
        # A position says nothing of where files or a table were: no snapshot of another
        # table has the id that it names.
        is_other_table = change.before.read_tables != change.after.read_tables
        assert {it.condition for it in said} <= {
            "files-moved",
            *(["streams-changed"] if is_other_table else []),
        }


def check_table(change: ModelVersions) -> None:
    """The table is altered as the planning of a run says, or refused as it is."""
    before, after = table_specs(change)
    found = find_table_changes(change)
    state = former_table(change, before) if change.is_same_table else None
    policy, namespaces = (
        change.model.config.on_schema_change,
        frozenset({before.name.namespace}),
    )
    try:
        steps = plan_table(
            change.model.name, after, policy, state, namespaces, change.after.compared
        )
    except RunError as error:
        told = {it.condition for it in found.reasons if it.verdict == "refused"}
        assert {problem.condition for problem in error.problems} <= told
        return
    assert found.steps[: len(steps)] == steps
    assert not [it for it in found.reasons if it.verdict == "refused"]
    assert (
        any(it.verdict == "alter" for it in found.reasons) == bool(steps)
        or state is None
    )


@pytest.mark.parametrize("kind", MODES.values(), ids=map("-".join, MODES))
def test_every_option_of_a_mode_has_a_verdict(kind: type[TableConfig]) -> None:
    options = {field.name for field in fields_of(kind)}
    # of which there is one value
    constants = {field.name for field in fields(kind) if not field.init}
    effects = {*OF_ALL_MODES, *kind.own_effects} - constants
    assert options - JUDGED_ELSEWHERE == effects
    assert not OF_ALL_MODES.keys() & kind.own_effects.keys()


def test_every_condition_of_a_case_is_known() -> None:
    lines = [
        line
        for path in CASES
        for line in parse_case(path.read_text("utf-8")).plan.splitlines()
    ]
    met = Counter(line.split(" ")[2] for line in lines)
    assert met.keys() <= CONDITIONS.keys() | CAUSES.keys()
    live = {
        "checkpoint-absent",
        "checkpoint-unread",
        "table-absent",
        "table-drifted",
        "table-rolled-back",
    }
    # of Kafka's topics: kafka/test_plan_live.py
    live |= {"partition-added", "topic-backlog"}
    # a case edits models: test_plan_command.py has seeds
    live |= {"seed-added", "seed-changed", "seed-removed"}
    # test_plan_command.py and test_live.py have these
    elsewhere = {"not-compared", *live}
    assert CAUSES.keys() - met.keys() == elsewhere
    assert not CAUSES.keys() & CONDITIONS.keys()
