"""Names that are no ASCII, under locales that are: as cron and containers have them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakesql.cli.init import write_project


@pytest.mark.parametrize("locale", ["C", "xx_XX.UTF-8"])
def test_a_project_of_any_name_reads_files_of_any_name(
    tmp_path: Path, locale: str
) -> None:
    """The second locale is one that no machine has: what is not installed is as good as
    C."""
    shop = tmp_path / "données 日"
    write_project(shop, "shop")
    (shop / "streams" / "odd.yml").write_text(
        json.dumps({"streams": [{"name": "odd", "path": "in/**", "format": "string"}]})
    )
    (shop / "models" / "odd.sql").write_text(
        "{{ config(mode='append') }}\nSELECT value FROM {{ stream('odd') }}\n"
    )
    for number, name in enumerate(("in/é.txt", "in/日/a.txt", "in/a.txt")):
        (shop / name).parent.mkdir(parents=True, exist_ok=True)
        (shop / name).write_text(f"{number}\n")
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LC_", "LANG"))
    }
    done = subprocess.run(
        [sys.executable, "-m", "lakesql", "run", "--select", "odd"],
        cwd=shop,
        env={**environ, "LC_ALL": locale},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (finished,) = json.loads((shop / "target" / "run_results.json").read_text())[
        "results"
    ]
    assert finished["records"] == 3
