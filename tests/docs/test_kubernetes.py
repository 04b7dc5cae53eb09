"""The files for Kubernetes are what it takes, and their commands are lakesql's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from kubernetes_validate.utils import latest_version

from docs.readme import README
from lakesql.errors import LakesqlError
from lakesql.project.profiles import load_target
from tests.docs.command_line import exit_code, read_command, write_project

FOLDER = README.parent / "docs" / "kubernetes"
DOCKERFILE = FOLDER / "Dockerfile"
RESOURCES: list[dict[str, Any]] = list(
    yaml.safe_load_all((FOLDER / "shop.yaml").read_text())
)
HADOLINT = Path(sys.executable).with_name("hadolint")
VERSIONS = ("1.31", latest_version())
"""The oldest version of Kubernetes that the page names, and the newest whose schemas
are there."""


def pods() -> dict[str, dict[str, Any]]:
    """The pods of the file, by what makes them."""
    found = {}
    for resource in RESOURCES:
        spec = resource.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template:
            found[resource["metadata"]["name"]] = template["spec"]
    return found


PODS = pods()


def container(name: str) -> dict[str, Any]:
    (only,) = PODS[name]["containers"]
    return only


def environ() -> dict[str, str]:
    """The variables that all containers get."""
    values: dict[str, str] = {}
    for resource in RESOURCES:
        values |= resource.get("data", {}) | resource.get("stringData", {})
    return values


def test_the_dockerfile_has_no_defect() -> None:
    assert lint(DOCKERFILE.read_text()) == []
    # and one that has some is found out
    assert "DL3006" in lint("FROM python\nUSER 1\n")


def lint(text: str) -> list[str]:
    """The rules of hadolint that a Dockerfile does not keep."""
    command = [HADOLINT, "--no-fail", "--format", "json", "-"]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=True
    )
    return [found["code"] for found in json.loads(done.stdout)]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_resource_fits_the_schema(version: str) -> None:
    for resource in RESOURCES:
        kubernetes_validate.validate(resource, version, strict=True)


def test_what_does_not_fit_the_schema_is_refused() -> None:
    (wrong,) = [
        deepcopy(resource) for resource in RESOURCES if resource["kind"] == "Deployment"
    ]
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.utils.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_every_command_can_be_read() -> None:
    (in_image,) = re.findall(r"^CMD (.+)$", DOCKERFILE.read_text(), re.MULTILINE)
    assert read_command(json.loads(in_image)) == "run"
    found = {name: read_command(container(name)["args"]) for name in PODS}
    assert found == {
        "shop": "run",
        "shop-reports": "run",
        "shop-freshness": "freshness",
    }


def test_the_projects_own_target_gets_every_variable_that_it_names() -> None:
    given = environ()
    name = given.pop("LAKESQL_TARGET")
    assert load_target("shop", name, [README.parent], given).run == "continuous"
    named = set(
        re.findall(r"env_var\('(\w+)'", (README.parent / "profiles.yml").read_text())
    )
    assert named == set(given)
    for variable in named:
        with pytest.raises(LakesqlError):
            load_target(
                "shop",
                name,
                [README.parent],
                {key: given[key] for key in given if key != variable},
            )


def test_probes_and_scrapes_reach_the_port_of_the_metrics() -> None:
    run = container("shop")
    (port,) = run["ports"]
    assert f"--metrics-port={port['containerPort']}" in run["args"]
    probes = {
        name: run[f"{name}Probe"]["httpGet"]
        for name in ("startup", "liveness", "readiness")
    }
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/metrics",
        "liveness": "/metrics",
        "readiness": "/healthz",
    }
    assert {probe["port"] for probe in probes.values()} == {port["name"]}
    (deployment,) = [
        resource for resource in RESOURCES if resource["kind"] == "Deployment"
    ]
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port["containerPort"])


def test_what_a_run_writes_beside_the_tables_is_mounted() -> None:
    folders = dict(re.findall(r"(LAKESQL_\w+)=(/\S+)", DOCKERFILE.read_text()))
    for name in PODS:
        only = container(name)
        assert only["securityContext"]["readOnlyRootFilesystem"]
        mounted = [mount["mountPath"] for mount in only["volumeMounts"]]
        needed = {folders["LAKESQL_TARGET_PATH"], folders["LAKESQL_LOG_PATH"]}
        needed |= {folders["LAKESQL_HOME"]} if only["args"][0] == "run" else set()
        assert {
            folder
            for folder in needed
            if not any(folder.startswith(mount) for mount in mounted)
        } == set(), name
        assert {mount["name"] for mount in only["volumeMounts"]} == {
            volume["name"] for volume in PODS[name]["volumes"]
        }


def test_the_exit_codes_are_those_that_the_jobs_go_by(tmp_path: Path) -> None:
    write_project(tmp_path)
    (reports,) = [
        resource
        for resource in RESOURCES
        if resource["metadata"]["name"] == "shop-reports"
    ]
    (rule,) = reports["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    target = ["--target", "prod"]
    assert exit_code([*container("shop-freshness")["args"], *target], tmp_path) == 1
    (tmp_path / "models" / "orders.sql").write_text(
        "SELECT no FROM {{ stream('orders') }}\n"
    )
    assert rule["onExitCodes"]["values"] == [
        exit_code([*container("shop-reports")["args"], *target], tmp_path)
    ]
