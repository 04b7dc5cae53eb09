"""The jobs that comment on a pull request: their very steps, against a server that
keeps comments as the hosts do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from lakesql.review.as_markdown import MARKER
from tests.review.test_plan_command import commit, edit, git, shop

__all__ = ["shop"]

pytestmark = pytest.mark.services

ROOT = Path(__file__).parents[2]
TOKEN = "a-token"
FIRST_PAGE = [
    {"id": number, "body": f"Comment {number}, which speaks of {MARKER}"}
    for number in range(100)
]


class Host:
    """The comments of pull request 7 and merge request 7, in pages. Where `is_fork`,
    nobody may write."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = [dict(comment) for comment in FIRST_PAGE]
        self.is_fork = False
        host = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = {
                    name: int(values[0])
                    for name, values in parse_qs(urlsplit(self.path).query).items()
                }
                first = query["per_page"] * (query["page"] - 1)
                self.answer(
                    200,
                    [
                        self.shown(it)
                        for it in host.comments[first : first + query["per_page"]]
                    ],
                )

            def do_POST(self) -> None:
                if body := self.body():
                    host.comments.append({"id": len(host.comments), "body": body})
                    self.answer(201, self.shown(host.comments[-1]))

            def do_PATCH(self) -> None:
                if body := self.body():
                    comment = host.comments[int(self.path.rsplit("/", 1)[1])]
                    comment["body"] = body
                    self.answer(200, self.shown(comment))

            def do_PUT(self) -> None:
                self.do_PATCH()

            def body(self) -> str:
                sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
                logins = (self.headers["Authorization"], self.headers["PRIVATE-TOKEN"])
                if host.is_fork or not {f"Bearer {TOKEN}", TOKEN} & set(logins):
                    self.answer(
                        403, {"message": "Resource not accessible by integration"}
                    )
                    return ""
                is_json = not self.path.startswith("/api/v4/")
                return (
                    str(json.loads(sent)["body"])
                    if is_json
                    else parse_qs(sent, strict_parsing=True)["body"][0]
                )

            def shown(self, comment: dict[str, Any]) -> dict[str, Any]:
                path = "/repos/us/shop/issues/comments"
                return {**comment, "url": f"{host.url}{path}/{comment['id']}"}

            def answer(self, status: int, value: object) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(value).encode())

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def plans(self) -> list[str]:
        """The comments beside those that were there."""
        assert self.comments[: len(FIRST_PAGE)] == FIRST_PAGE
        return [comment["body"] for comment in self.comments[len(FIRST_PAGE) :]]


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host()
    Thread(target=host.server.serve_forever).start()
    yield host
    host.server.shutdown()
    host.server.server_close()


class Job:
    """The commands of a job, in the folder of the shop, on a branch that has left
    main."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        git(directory, "remote", "add", "origin", ".")
        git(directory, "checkout", "-b", "change")
        git(directory, "fetch", "origin")
        self.directory = directory
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {"PATH": programs, "HOME": str(directory), **environment}

    def run(self, script: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def push(self, before: str, after: str) -> None:
        edit(self.directory / "models" / "orders.sql", before, after)
        commit(self.directory)


class GitHub(Job):
    """The steps of the shop's workflow."""

    def __init__(self, directory: Path, host: Host) -> None:
        text = (ROOT / ".github" / "workflows" / "lakesql-plan.yml").read_text("utf-8")
        expressions = {
            "github.event.number": "7",
            "github.base_ref": "main",
            "github.api_url": host.url,
            "github.server_url": "https://github.example.invalid",
            "github.repository": "us/shop",
            "github.run_id": "12",
            "github.token": TOKEN,
        }
        workflow = yaml.safe_load(
            re.sub(r"\$\{\{ (\S+) }}", lambda found: expressions[found[1]], text)
        )
        self.job = workflow["jobs"]["plan"]
        self.summary = directory.parent / "summary.md"
        super().__init__(
            directory, self.job["env"] | {"GITHUB_STEP_SUMMARY": str(self.summary)}
        )

    def review(self) -> tuple[int, str]:
        """The exit code of the plan, and what the job prints."""
        commands = {step["name"]: step for step in self.job["steps"] if "name" in step}
        assert commands["Comment"]["if"].startswith("always()")
        code, plan = self.run(commands["Plan"]["run"])
        commented, out = self.run(commands["Comment"]["run"])
        assert commented == 0, out
        return code, plan + out


class GitLab(Job):
    """The job of docs/review.md."""

    def __init__(self, directory: Path, host: Host) -> None:
        text = (ROOT / "docs" / "review.md").read_text("utf-8")
        (found,) = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        self.job = yaml.safe_load(found)["lakesql plan"]
        super().__init__(directory, self.job["variables"] | {"COMMENT_TOKEN": TOKEN})
        base = subprocess.check_output(
            ["git", "rev-parse", "main"], cwd=directory, text=True
        )
        self.environment |= {
            "GIT_DEPTH": "0",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": base.strip(),
            "CI_API_V4_URL": f"{host.url}/api/v4",
            "CI_PROJECT_ID": "3",
            "CI_MERGE_REQUEST_IID": "7",
            "CI_JOB_URL": "https://gitlab.example.invalid/jobs/12",
        }

    def review(self) -> tuple[int, str]:
        """The exit code of the job, and what it prints."""
        install, *commands = self.job["script"]
        assert install.startswith("pip install")
        return self.run("\n".join(commands))


@pytest.mark.parametrize("kind", [GitHub, GitLab])
def test_a_pull_request_has_one_comment_which_each_push_writes_anew(
    shop: Path, host: Host, kind: type[GitHub] | type[GitLab]
) -> None:
    job = kind(shop, host)
    job.push("trigger='30 seconds'", "trigger='1 minute'")
    assert job.review()[0] == 0
    (plan,) = host.plans
    assert plan.startswith(f"{MARKER}\n## lakesql plan: 🟢 next-batch\n")

    job.push("keys=['order_id']", "keys=['order_id', 'customer_id']")
    assert job.review()[0] == 0
    (plan,) = host.plans
    assert plan.startswith(f"{MARKER}\n## lakesql plan: 🟠 rebuild\n")

    job.push("mode='upsert'", "mode='no such mode'")
    assert job.review()[0] == 3
    (plan,) = host.plans
    assert plan.startswith(f"{MARKER}\n## lakesql plan: 🔴 refused\n")


@pytest.mark.parametrize("kind", [GitHub, GitLab])
def test_a_plan_that_compares_nothing_leaves_no_former_plan_as_the_comment(
    shop: Path, host: Host, kind: type[GitHub] | type[GitLab]
) -> None:
    job = kind(shop, host)
    job.push("trigger='30 seconds'", "trigger='1 minute'")
    assert job.review()[0] == 0
    (shop / "pyproject.toml").unlink()
    commit(shop)
    code, _ = job.review()
    assert code == 2
    (plan,) = host.plans
    assert (
        plan.startswith(f"{MARKER}\nThe plan has failed.")
        and ".example.invalid/" in plan
    )


def test_a_pull_request_from_a_fork_has_the_plan_in_the_summary(
    shop: Path, host: Host
) -> None:
    job, host.is_fork = GitHub(shop, host), True
    job.push("trigger='30 seconds'", "trigger='1 minute'")
    code, out = job.review()
    assert code == 0
    assert "::warning::" in out
    assert not host.plans
    assert job.summary.read_text("utf-8").startswith(
        f"{MARKER}\n## lakesql plan: 🟢 next-batch\n"
    )
