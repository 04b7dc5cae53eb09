"""Options of Iceberg's procedures that pass through, and what their former names are
answered with."""

from __future__ import annotations

import ast
from importlib.resources import files
from typing import Any

import pytest

from lakesql.compile.maintenance import call_text
from lakesql.decode import node_of
from lakesql.errors import Place, ProjectError
from lakesql.model.maintenance_tasks import MaintenanceTask
from lakesql.model.table_name import TableName
from lakesql.project.iceberg_options import ICEBERG, ICEBERG_OPTIONS, Takes, former_name
from lakesql.project.procedures import (
    ARGUMENTS,
    PROCEDURES,
    Procedure,
    iceberg_names,
    merge_maintenance,
    read_maintenance,
)
from tests.cases import each_of

PLACE = Place("models/m.sql", 1, 1)
VALUES: dict[Takes, Any] = {
    "true or false": True,
    "a positive whole number": 7,
    "a whole number": 0,
    "a positive number": 1.5,
    "a number of bytes": 268_435_456,
    "a job order": "bytes-desc",
}
WRONG: dict[Takes, Any] = {
    "true or false": 1,
    "a positive whole number": 0,
    "a whole number": -1,
    "a positive number": 0,
    "a number of bytes": "256 MB",
    "a job order": "random",
}
ALL = [(name, key) for name, known in ICEBERG_OPTIONS.items() for key in known]


def read(procedure: str, said: dict[str, Any]) -> Procedure:
    if said.get("options", {}).keys() & {"max-output-size", "var-length-contribution"}:
        said = {"sort_order": "zorder(a, b)", **said}
    found = read_maintenance(node_of({procedure: said}, PLACE))
    return found.procedures[procedure]


def problems(procedure: str, said: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(ProjectError) as caught:
        read(procedure, said)
    return [(problem.condition, problem.fix) for problem in caught.value.problems]


@each_of(("procedure", "key"), ALL)
def test_each_passes_through_to_the_call(procedure: str, key: str) -> None:
    takes = ICEBERG_OPTIONS[procedure][key]
    options = read(procedure, {"options": {key: VALUES[takes]}})
    text = call_text(
        MaintenanceTask("m", "m", procedure, TableName("lake", "shop", "m"), options)
    )
    value = str(VALUES[takes]).lower()
    assert f"'{key}', '{value}'" in text or f"{key} => {value}" in text
    as_text = read(procedure, {"options": {key: value}})
    assert as_text.options == options.options
    assert [
        condition
        for condition, _ in problems(procedure, {"options": {key: WRONG[takes]}})
    ] == ["bad-size" if takes == "a number of bytes" else "wrong-value"]


@each_of(("procedure", "key"), ALL)
def test_a_former_name_is_answered_with_what_is_taken_now(
    procedure: str, key: str
) -> None:
    former, takes = former_name(key), ICEBERG_OPTIONS[procedure][key]
    value = "256 MB" if takes == "a number of bytes" else VALUES[takes]
    ((condition, fix),) = problems(procedure, {former: value})
    assert condition == "unknown-option"
    said = ast.literal_eval("{" + fix.removeprefix("Write ").removesuffix(".") + "}")
    assert read(procedure, said).options == {key: VALUES[takes]}


def test_an_option_by_which_lakesql_decides_does_not_pass_by_it() -> None:
    for procedure in PROCEDURES:
        typed = {
            **{key: name for name, key in iceberg_names(procedure).items()},
            **{n: n for n in ARGUMENTS[procedure]},
        }
        for key, name in typed.items():
            assert problems(procedure, {"options": {key: "1"}}) == [
                ("unknown-option", f"Write '{name}' beside 'options'.")
            ]


def test_a_name_that_iceberg_does_not_have_is_answered_with_the_nearest() -> None:
    ((condition, fix),) = problems(
        "rewrite_data_files", {"options": {"partial-progres.enabled": True}}
    )
    assert condition == "unknown-option" and "partial-progress.enabled" in fix


def test_options_of_a_model_go_over_those_of_its_folder_key_by_key() -> None:
    outer = node_of(
        {
            "rewrite_data_files": {
                "options": {"max-output-size": 8, "rewrite-job-order": "none"}
            }
        },
        PLACE,
    )
    inner = {"sort_order": "zorder(a, b)", "options": {"max-output-size": 9}}
    found = read_maintenance(
        merge_maintenance(outer, node_of({"rewrite_data_files": inner}, PLACE))
    )
    assert found.procedures["rewrite_data_files"].options == {
        "max-output-size": 9,
        "rewrite-job-order": "none",
    }


def test_they_are_those_of_the_version_that_is_pinned() -> None:
    jars = files("lakesql.engine.spark").joinpath("jars.toml").read_text("utf-8")
    assert f"iceberg-spark-runtime-4.1_2.13:{ICEBERG}." in jars


@each_of(
    ("procedure", "option"),
    [
        ("expire_snapshots", "retain_last"),
        ("rewrite_data_files", "min_input_files"),
        ("rewrite_data_files", "output_spec_id"),
        ("rewrite_manifests", "spec_id"),
    ],
)
def test_a_number_that_iceberg_cannot_hold_is_refused(
    procedure: str, option: str
) -> None:
    assert getattr(read(procedure, {option: 2**31 - 1}), option) == 2**31 - 1
    for number in (2**31, 10**30):
        assert problems(procedure, {option: number})[0][0] == "wrong-value"
