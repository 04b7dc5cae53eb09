"""Imports DuckDB, after Pulsar's client if that is installed.

Both are built with pybind11. If DuckDB is imported first, its errors arrive as
`RuntimeError` from then on.
"""

from __future__ import annotations

from contextlib import suppress

with suppress(ModuleNotFoundError):
    import _pulsar  # noqa: F401

import duckdb

__all__ = ["duckdb"]
