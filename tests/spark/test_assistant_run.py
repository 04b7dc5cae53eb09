"""An assistant that may run models runs those that it names, once, and no others."""

from __future__ import annotations

from pathlib import Path

import anyio

from tests.cli.assistant_project import assistant, make_shop


def test_an_assistant_runs_what_it_names(tmp_path: Path) -> None:
    shop = make_shop(tmp_path)

    async def asking() -> None:
        async with assistant(shop, ["--allow", "run"]) as client:
            assert "run" in [
                tool.name for tool in (await client.client.list_tools()).tools
            ]
            assert await client.refused("run") == "bad-tool-call"
            assert await client.refused("run", select=[]) == "bad-tool-call"
            ran = await client.answer("run", select=["customers"])
            assert (ran["exit_code"], ran["models"]) == (0, ["customers"])
            (result,) = [
                it for it in ran["run_results"]["results"] if it["name"] == "customers"
            ]
            assert result["status"] == "success"
            tables = (await client.answer("status", select=["customers"]))["tables"]
            assert [(table["model"], table["by_lakesql"]) for table in tables] == [
                ("customers", True)
            ]
            assert (await client.answer("results"))["run_results"] == ran["run_results"]

    anyio.run(asking)
    assert not (shop / ".lakesql" / "warehouse" / "shop" / "orders").exists()
