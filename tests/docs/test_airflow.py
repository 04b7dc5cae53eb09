"""The DAG of the docs: its commands are lakesql's, and it retries what is worth it.

Where Airflow is installed it is the real one. Elsewhere a few lines stand in its place.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from docs.readme import README
from tests.docs.command_line import exit_code, read_command, write_project

FILE = README.parent / "docs" / "airflow" / "shop.py"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The DAG's file as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_HOME", str(tmp_path_factory.mktemp("airflow")))
        if find_spec("airflow") is None:
            for name, module in stand_in().items():
                patch.setitem(sys.modules, name, module)
        spec = spec_from_file_location("shop_dag", FILE)
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def tasks(shop: Any) -> dict[str, Any]:
    return {task.task_id: task for task in shop.dag.tasks}


def test_every_command_can_be_read(shop: Any) -> None:
    found = {name: read_command(task.arguments) for name, task in tasks(shop).items()}
    assert found == {"tables": "run", "reports": "run", "freshness": "freshness"}
    assert all(
        "--once" in task.arguments
        for name, task in tasks(shop).items()
        if found[name] == "run"
    )


def test_each_task_waits_for_the_one_before(shop: Any) -> None:
    assert {
        name: set(task.upstream_task_ids) for name, task in tasks(shop).items()
    } == {
        "tables": set(),
        "reports": {"tables"},
        "freshness": {"reports"},
    }
    assert {name: task.retries for name, task in tasks(shop).items()} == {
        "tables": 2,
        "reports": 2,
        "freshness": 0,
    }
    assert tasks(shop)["freshness"].trigger_rule == "all_done"


def operator(shop: Any, directory: Path, script: str) -> Any:
    """A task whose program is a script."""
    program = directory / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return shop.Lakesql(
        task_id="x",
        arguments=["run", "--once"],
        program=str(program),
        project=str(directory),
    )


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (0, None),
        (1, "AirflowException"),
        (2, "AirflowFailException"),
        (130, "AirflowException"),
    ],
)
def test_a_task_ends_as_its_command_does(
    shop: Any, tmp_path: Path, code: int, raised: str | None
) -> None:
    task = operator(shop, tmp_path, f'echo "$PWD" "$@" >said; exit {code}')
    try:
        task.execute({})
        found = None
    except Exception as error:
        found = type(error).__name__
    assert found == raised
    assert (tmp_path / "said").read_text() == f"{tmp_path} run --once\n"


def test_a_task_that_is_killed_asks_its_command_to_end(
    shop: Any, tmp_path: Path
) -> None:
    task = operator(
        shop,
        tmp_path,
        "trap 'echo asked >said; exit 0' TERM; echo >begun; sleep 60 & wait",
    )
    thread = threading.Thread(target=task.execute, args=({},), daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    task.on_kill()
    thread.join(30)
    assert (tmp_path / "said").read_text() == "asked\n"


def test_the_exit_codes_are_those_of_the_command(shop: Any, tmp_path: Path) -> None:
    """A limit of freshness that is exceeded is 1, as is a catalog that does not answer;
    a project that is wrong is what is not tried again."""
    write_project(tmp_path)
    assert exit_code(tasks(shop)["freshness"].arguments, tmp_path) == 1
    profiles = tmp_path / "profiles.yml"
    written = profiles.read_text()
    profiles.write_text(
        re.sub(
            "catalog: .*",
            "catalog: {name: lake, type: rest, uri: 'http://127.0.0.1:9'}",
            written,
        )
    )
    assert exit_code(["show", "orders", "--target", "prod"], tmp_path) == 1
    profiles.write_text(written)
    (tmp_path / "models" / "orders.sql").write_text(
        "SELECT no FROM {{ stream('orders') }}\n"
    )
    assert exit_code(tasks(shop)["reports"].arguments, tmp_path) == shop.WRONG


# --- what stands in Airflow's place


def stand_in() -> dict[str, ModuleType]:
    """Its modules, with what the DAG uses of them."""
    names = (
        "airflow",
        "airflow.sdk",
        "airflow.sdk.exceptions",
        "airflow.providers",
        "airflow.providers.standard",
    )
    hooks = (
        "airflow.providers.standard.hooks",
        "airflow.providers.standard.hooks.subprocess",
    )
    modules = {name: ModuleType(name) for name in (*names, *hooks)}
    error = type("AirflowException", (Exception,), {})
    modules["airflow.sdk.exceptions"].__dict__.update(
        AirflowException=error,
        AirflowFailException=type("AirflowFailException", (error,), {}),
    )
    modules["airflow.sdk"].__dict__.update(DAG=Dag, BaseOperator=Operator)
    modules[hooks[-1]].__dict__["SubprocessHook"] = Hook
    return modules


class Dag:
    open: Dag | None = None

    def __init__(self, default_args: dict[str, Any], **_: Any) -> None:
        self.defaults, self.tasks = default_args, list[Operator]()

    def __enter__(self) -> Dag:
        Dag.open = self
        return self

    def __exit__(self, *_: object) -> None:
        Dag.open = None


class Operator:
    def __init__(
        self,
        task_id: str,
        trigger_rule: str = "all_success",
        retries: int | None = None,
    ) -> None:
        self.task_id, self.trigger_rule, self.upstream_task_ids = (
            task_id,
            trigger_rule,
            set[str](),
        )
        if Dag.open:
            Dag.open.tasks.append(self)
            self.retries = Dag.open.defaults["retries"] if retries is None else retries

    def __rshift__(self, other: Operator) -> Operator:
        other.upstream_task_ids.add(self.task_id)
        return other


class Hook:
    process: subprocess.Popen[bytes]

    def __init__(self) -> None:
        self.has_process = threading.Event()

    def run_command(self, command: list[str], cwd: str) -> SimpleNamespace:
        self.process = subprocess.Popen(command, cwd=cwd, process_group=0)
        self.has_process.set()
        return SimpleNamespace(exit_code=self.process.wait())

    def send_sigterm(self) -> None:
        assert self.has_process.wait(30)
        os.killpg(self.process.pid, 15)
