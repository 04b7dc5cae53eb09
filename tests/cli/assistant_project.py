"""A project for assistants: a shop in a git repository, whose profile has secrets, and
a client that asks about it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters

from lakesql.cli.init import write_project

ROOT = Path(__file__).parents[2]

SECRETS = {
    "LAKESQL_SECRET_BROKER": "s3same-0pen/broker",
    "WAREHOUSE_LOGIN": "login-of-the-warehouse",
}
WRITTEN = "written-into-the-profile"
ELSEWHERE = "what stands in a file beside the project"

PROFILES = f"""\
shop:
  target: dev
  outputs:
    dev:
      run: once
      spark: {{master: "local[1]"}}
      catalog: {{name: lake, type: sql, uri: "sqlite:///.lakesql/catalog.db", warehouse: .lakesql/warehouse}}
      namespace: shop
      checkpoints: .lakesql/checkpoints
      connections:
        shop: {{type: recorded, path: streams/recorded}}
        away:
          type: kafka
          bootstrap_servers: 127.0.0.1:1
          options:
            security.protocol: SSL
            ssl.truststore.password: "{{{{ env_var('LAKESQL_SECRET_BROKER') }}}}"
            ssl.keystore.password: "{{{{ env_var('WAREHOUSE_LOGIN') }}}}"
            ssl.key.password: {WRITTEN}
"""


def make_shop(folder: Path) -> Path:
    """A shop, committed, in a folder of `folder`; beside it stands a file that is none
    of its."""
    shop = folder / "shop"
    write_project(shop, "shop")
    (shop / "profiles.yml").write_text(PROFILES)
    (folder / "elsewhere.txt").write_text(ELSEWHERE)
    git = ("git", "-c", "user.name=shop", "-c", "user.email=shop@localhost")
    for arguments in (
        ["init", "-q", "-b", "main"],
        ["add", "."],
        ["commit", "-q", "-m", "shop"],
    ):
        subprocess.run([*git, *arguments], cwd=shop, check=True)
    return shop


def digest_of(folder: Path) -> dict[str, str]:
    """What is in a folder, links and empty folders among it, by its paths."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = "folder"
    return found


@dataclass(frozen=True, slots=True)
class Assistant:
    """A client of the server, which keeps all that it was told."""

    client: Client
    heard: list[str]

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers, as `answer`, or `problems`."""
        result = await self.client.call_tool(tool, arguments)
        (content,) = result.content
        said: dict[str, Any] = json.loads(content.text)
        assert result.structured_content == said and result.is_error == (
            "problems" in said
        )
        self.heard.append(content.text)
        return said

    async def answer(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer of a call that has no problem."""
        said = await self.call(tool, **arguments)
        assert "answer" in said, said
        return dict(said["answer"])

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The condition of the first problem of a call, which has one, and advice."""
        said = await self.call(tool, **arguments)
        assert "problems" in said, said
        first = said["problems"][0]
        assert first["what"] and first["do"], first
        return str(first["condition"])


@asynccontextmanager
async def assistant(
    shop: Path, options: Sequence[str] = (), environ: dict[str, str] | None = None
) -> AsyncIterator[Assistant]:
    """A client, by the SDK, of `lakesql mcp` in a shop."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("LAKESQL_")
    }
    given = {**kept, **SECRETS, "PYTHONPATH": str(ROOT), **(environ or {})}
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "lakesql", "mcp", *options],
        cwd=shop,
        env=given,
    )
    async with Client(server) as client:
        yield Assistant(client, [])
