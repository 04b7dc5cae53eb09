"""The unit tests of docs/pictures/project as values: what arrives, and what each
model's table has then."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parent / "project"

Row = Mapping[str, Any]


def load_cases() -> Mapping[str, Mapping[str, Any]]:
    """The unit test of each model, by the model's name."""
    found = yaml.safe_load((PROJECT / "models" / "tests.yml").read_text("utf-8"))
    return {case["model"]: case for case in found["unit_tests"]}


def load_batches(case: Mapping[str, Any]) -> Sequence[Sequence[Row]]:
    """The records of each batch of a test with one stream."""
    (given,) = case["given"]
    return [load_records(batch) for batch in given["batches"]]


def load_records(batch: str | list[Row]) -> list[Row]:
    """The records of a batch, which stand in the test or in a file."""
    if not isinstance(batch, str):
        return batch
    return [
        json.loads(line) for line in (PROJECT / batch).read_text("utf-8").splitlines()
    ]


def clock(time: str | datetime | None) -> str:
    """The hour and minute of a time; empty for none."""
    if time is None:
        return ""
    moment = time if isinstance(time, datetime) else datetime.fromisoformat(time)
    return f"{moment:%H:%M}"
