"""Packages of Node's registry that tests need, in the user's cache."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from lakesql.engine.spark.jars import user_cache


def fetch_npm(package: str) -> Path:
    """The folder of a package, `name@version`; fetched when it is not in the user's
    cache."""
    folder = user_cache(os.environ) / "test-servers" / package.replace("@", "-")
    found = folder / "node_modules" / package.partition("@")[0]
    if found.is_dir():
        return found
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as work:
        subprocess.run(
            ["npm", "install", "--silent", "--no-audit", "--no-fund", package],
            cwd=work,
            check=True,
        )
        try:
            Path(work).rename(folder)
        except OSError:
            if not found.is_dir():  # else another process was faster
                raise
        Path(work).mkdir(exist_ok=True)
    return found
