"""What is printed of a batch is the list of steps that the engine runs."""

from __future__ import annotations

from lakesql.compile.batch import (
    BOUNDS_PLACE,
    NEW_COMMIT,
    KeyRange,
    MakeView,
    ReadBounds,
    Remember,
    Write,
)
from lakesql.compile.statements import compiled_text
from lakesql.modes.batches.all_batches import batches_of
from tests.cases import each_of
from tests.unit.test_select import build

PLAIN = "SELECT id, Status, at FROM {{ stream('orders') }}"
COUNTED = "SELECT Status, count(*) AS n FROM {{ stream('orders') }} GROUP BY Status"
MODELS = {
    "append": ("mode='append'", PLAIN),
    "upsert": (
        "mode='upsert', keys='id', sequence_by='at', delete_when='id < 0'",
        PLAIN,
    ),
    "history": ("mode='scd2', keys='id', sequence_by='at'", PLAIN),
    "upsert by arrival": ("mode='upsert', keys='id'", PLAIN),
    "stateful upsert": ("mode='upsert', keys='Status'", COUNTED),
}


@each_of("name", MODELS)
def test_the_compiled_file_has_each_statement_of_a_batch_in_its_order_and_no_other(
    name: str,
) -> None:
    select = build(*MODELS[name])
    steps = batches_of(select).steps(select.columns)
    shown = (
        compiled_text(select)
        .split("\n\n-- when the table does not exist; ")[-1]
        .split(";\n\n-- ")[1:]
    )
    shown = [each for each in shown if "\nCALL " not in each]
    expected = []
    for step in steps:
        if not isinstance(step, ReadBounds):
            expected.append(
                f"{step.when}\n{step.text() if isinstance(step, Write) else step.text}"
            )
        if isinstance(step, Write) and step.new:
            expected.append(f"{NEW_COMMIT}\n{step.new.text()}")
        if isinstance(step, Remember):
            expected.append(
                f"once a day: what has been remembered for long enough is forgotten\n{step.forget}"
            )
    assert [each.removesuffix(";\n") for each in shown] == expected


@each_of("name", MODELS)
def test_a_batch_begins_with_its_rows_and_ends_with_its_one_write(name: str) -> None:
    select = build(*MODELS[name])
    steps = batches_of(select).steps(select.columns)
    assert (
        isinstance(steps[0], MakeView)
        and steps[0].name == "_lakesql_rows"
        and steps[0].query == select.text
    )
    assert [isinstance(step, Write) for step in steps] == [False] * (len(steps) - 1) + [
        True
    ]


@each_of("name", MODELS)
def test_bounds_are_read_from_an_existing_view_and_alone_change_the_printed_write(
    name: str,
) -> None:
    select = build(*MODELS[name])
    steps = batches_of(select).steps(select.columns)
    views: set[str] = set()
    has_bounds = False
    for step in steps:
        match step:
            case MakeView(name=view):
                views.add(view)
            case ReadBounds(view=view, keys=keys):
                assert view in views and keys == select.writing.keys
                has_bounds = True
            case Write():
                assert (BOUNDS_PLACE in step.text()) is has_bounds
                bounded = step.text((KeyRange("id", low=1, high=2),))
                *before, after = step.text().split(BOUNDS_PLACE)
                tables = ("deleted", "target")[-len(before) :]
                cut = [
                    f"{part}{table}.id BETWEEN 1 AND 2"
                    for part, table in zip(before, tables, strict=False)
                ]
                assert bounded == "".join((*cut, after))
